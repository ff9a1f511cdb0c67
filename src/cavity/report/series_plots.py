"""Pictures of clustered time series: clusters with their factor, one series with its data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.report import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from cavity.estimators.series_answers import SeriesAnswers

_MOST_LINES = 60
_MOST_PANELS = 12


def _x(times: Any) -> np.ndarray:
    """Times as matplotlib draws them."""
    import pandas as pd

    if isinstance(times, pd.PeriodIndex):
        times = times.to_timestamp()
    return times.to_numpy()


def _panels(n: int, *, page: bool, height: float) -> tuple[Figure, list[Axes]]:
    columns = 1 if n == 1 else min(n, 3)
    rows = -(-n // columns)
    make = style.page_figure if page else style.new_figure
    figure = make(3.7 * columns if n > 1 else 7.0, height * rows)
    axes = np.atleast_1d(figure.subplots(rows, columns, sharex=True, squeeze=False)).ravel()
    for ax in axes[n:]:
        ax.set_visible(False)
    return figure, list(axes[:n])


def plot_clusters(
    estimator: SeriesAnswers, *, ax: Any = None, clusters: Any = None, page: bool = False
) -> list[Axes]:
    """Draw each cluster's series in its colour, over its factor with a band.

    Thin lines are the trends of its members, turned by the sign of their loading and brought to
    mean zero and unit spread. The dark line is what their shared factor, alone, would make of a
    series with the cluster's mean autoregression, with a 90% band for the factor behind it.

    Parameters
    ----------
    estimator : SeriesMixture
        Fitted.
    ax : axes or list of axes, optional
        One per cluster drawn.
    clusters : sequence of int, optional
        Which ones; the largest twelve by default.
    page : bool
        Make the figure for a file rather than for interactive work.

    Returns
    -------
    list of matplotlib.axes.Axes
    """
    labels = estimator.labels_
    sizes = np.bincount(labels)
    if clusters is None:
        clusters = np.sort(np.argsort(-sizes, kind="stable")[:_MOST_PANELS])
    clusters = [int(k) for k in clusters]
    axes = style.as_axes(ax) if ax is not None else _panels(len(clusters), page=page, height=2.3)[1]
    if len(axes) != len(clusters):
        raise ValueError(f"{len(clusters)} clusters need as many axes; got {len(axes)}")
    trends, table = estimator.trends_.mean, estimator.series_
    x = _x(trends.columns)
    factors = estimator.factors_
    for one, k in zip(axes, clusters, strict=True):
        members = np.flatnonzero(labels == k)
        lines = trends.to_numpy()[members].astype(float)
        sign = np.where(table["loading"].to_numpy()[members] < 0, -1.0, 1.0)
        lines = _standard(lines) * sign[:, None]
        one.plot(
            x, lines[:_MOST_LINES].T, color=style.cluster_colour(k), linewidth=0.7,
            alpha=max(0.15, min(0.6, 6.0 / len(members))),
        )  # fmt: skip
        a = float(table["a"].to_numpy()[members].mean())
        curves = [_driven(getattr(factors, part).to_numpy()[k], a) for part in factors._fields]
        centre, spread = curves[0].mean(), curves[0].std() or 1.0
        width = (factors.upper.to_numpy()[k] - factors.lower.to_numpy()[k]) / 2 / spread
        middle = (curves[0] - centre) / spread
        one.fill_between(
            x, middle - width, middle + width, color=style.INK, alpha=0.15, linewidth=0
        )
        one.plot(x, middle, color=style.INK, linewidth=1.6)
        many = "one series" if len(members) == 1 else f"{len(members)} series"
        style.entitle(style.dress(one), f"cluster {k}: {many}")
        one.set_yticks([])
        _slant(one)
    return axes


def _standard(lines: np.ndarray) -> np.ndarray:
    spread = lines.std(axis=1, keepdims=True)
    return (lines - lines.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)


def _driven(factor: np.ndarray, a: float) -> np.ndarray:
    """Path of an autoregression that is moved by the factor alone."""
    out = np.empty_like(factor, dtype=float)
    x = 0.0
    for t, value in enumerate(factor):
        x = a * x + value
        out[t] = x
    return out


def _slant(ax: Axes) -> None:
    ax.tick_params(axis="x", rotation=30)


def plot_factors(estimator: SeriesAnswers, *, ax: Any = None, page: bool = False) -> list[Axes]:
    """Draw the posterior mean of each cluster's factor with its 90% interval."""
    factors = estimator.factors_
    n = min(len(factors.mean), _MOST_PANELS)
    axes = style.as_axes(ax) if ax is not None else _panels(n, page=page, height=1.8)[1]
    x = _x(factors.mean.columns)
    for k, one in enumerate(axes[:n]):
        colour = style.cluster_colour(k)
        one.axhline(0.0, color=style.MUTED, linewidth=0.6)
        one.fill_between(
            x, factors.lower.to_numpy()[k], factors.upper.to_numpy()[k], color=colour, alpha=0.25,
            linewidth=0,
        )  # fmt: skip
        one.plot(x, factors.mean.to_numpy()[k], color=colour, linewidth=1.0)
        style.entitle(style.dress(one), f"factor of cluster {k}")
        _slant(one)
    return axes


def plot_series(
    estimator: SeriesAnswers, name: Any, *, ax: Any = None, steps: int = 0, page: bool = False
) -> Axes:
    """Draw one series: its data, trend, 90% interval and gaps, and what may come.

    Parameters
    ----------
    estimator : SeriesMixture
        Fitted.
    name : object
        The series, as the data name it.
    ax : axes, optional
    steps : int
        Times to forecast beyond the data.
    page : bool
        Make the figure for a file rather than for interactive work.
    """
    data = estimator._data
    if name not in data.series:
        raise ValueError(f"series {name!r} was not in the data that the model was fitted to.")
    i = list(data.series).index(name)
    if ax is None:
        ax = _panels(1, page=page, height=3.2)[1][0]
    (ax,) = style.as_axes(ax)
    band = estimator.trends_
    x = _x(band.mean.columns)
    colour = style.cluster_colour(int(estimator.labels_[i]))
    ax.fill_between(
        x, band.lower.to_numpy()[i], band.upper.to_numpy()[i], color=colour, alpha=0.25,
        linewidth=0, label="90% interval",
    )  # fmt: skip
    ax.plot(x, band.mean.to_numpy()[i], color=colour, linewidth=1.6, label="trend")
    observed = data.count[i] > 0
    ax.plot(
        x[observed], _without_regression(estimator, i)[observed], linestyle="none", marker=".",
        color=style.INK, markersize=4, alpha=0.7, label="data",
    )  # fmt: skip
    for first, last in _runs(~observed):
        ax.axvspan(x[max(first - 1, 0)], x[min(last + 1, len(x) - 1)], color="#eeeeee", zorder=0)
    if steps:
        ahead = estimator.forecast(steps)
        later = _x(ahead.mean.columns)
        ax.fill_between(
            later, ahead.lower.to_numpy()[i], ahead.upper.to_numpy()[i], color=colour,
            alpha=0.12, linewidth=0,
        )  # fmt: skip
        ax.plot(later, ahead.mean.to_numpy()[i], color=colour, linewidth=1.4, linestyle=":",
                label="forecast")  # fmt: skip
    style.dress(ax, grid="y")
    style.entitle(ax, style.literal(f"{name}, cluster {estimator.labels_[i]}"))
    ax.legend(fontsize=style.SMALL, frameon=False, ncols=4, loc="best")
    _slant(ax)
    return ax


def _without_regression(estimator: SeriesAnswers, i: int) -> np.ndarray:
    """Cell means of one series at the covariates' overall mean, as its trend is."""
    data, units = estimator._data, estimator._units
    y = np.asarray(data.y[i], dtype=float)
    if data.covariates.shape[2]:
        slopes = estimator._flat("beta")[:, i, int(units.intercept) :].mean(0)
        y = y - (data.covariates[i] - units.covariate_centre) @ slopes
    return y


def _runs(mask: np.ndarray) -> list[tuple[int, int]]:
    """First and last positions of every stretch of True longer than one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [(int(a), int(b) - 1) for a, b in edges.reshape(-1, 2) if b - a > 1]


def report_sections(estimator: SeriesAnswers, n_doubtful: int = 3) -> list[tuple[str, Any, str]]:
    """Sections for the HTML report: clusters, factors, typical and doubtful series.

    Each is a title, a figure and a caption, as ``cavity.report.html.write_report`` takes them.
    """
    sections: list[tuple[str, Any, str]] = [
        (
            "Series by cluster",
            plot_clusters(estimator, page=True)[0].figure,
            "Thin: trends of the members, standardised and turned by the sign of their loading. "
            "Dark: what the cluster's factor alone makes of them, with a 90% band.",
        ),
        (
            "Factors",
            plot_factors(estimator, page=True)[0].figure,
            "Posterior mean and 90% interval of what moves all series of a cluster together.",
        ),
    ]
    typical = [str(v) for v in estimator.typical_series(1).iloc[:, 0]]
    names = {str(v): v for v in estimator._data.series}
    doubtful = [str(v) for v in estimator.posterior_.doubtful().index[:n_doubtful]]
    for title, chosen, caption in (
        (
            "Typical series",
            typical[:6],
            "The series most often found with the rest of its cluster.",
        ),
        ("Doubtful series", doubtful, "Series that the draws put into different clusters."),
    ):
        for name in chosen:
            if name in names:
                ax = plot_series(estimator, names[name], page=True)
                sections.append((title, ax.figure, caption))
    return sections
