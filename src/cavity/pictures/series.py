"""Pictures of clustered time series: the clusters, their factors, one series with its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cavity.core.words import count
from cavity.pictures import style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES_MAX = 60
PANELS_MAX = 12
TURNED = (0, (4, 1.5))


class Curves(Protocol):
    """Posterior mean and interval of curves: one row each, one column per time."""

    @property
    def mean(self) -> pd.DataFrame: ...  # noqa: D102

    @property
    def lower(self) -> pd.DataFrame: ...  # noqa: D102

    @property
    def upper(self) -> pd.DataFrame: ...  # noqa: D102


@dataclass(frozen=True)
class SeriesPicture:
    """All that the pictures of series are drawn from.

    Attributes
    ----------
    trends : Curves
        Of each series; the rows of its tables name the series.
    labels : array of int, shape (series,)
        Cluster of each series, 0, 1, ...
    factors : Curves, optional
        Of each cluster.
    common : Curves, optional
        Of the factor that all series share: one row.
    signs : array, shape (series,), optional
        Negative where a series moves against its cluster's factor.
    observed : DataFrame, optional
        The data, series by time as `trends`, NaN where nothing was observed.
    forecast : Curves, optional
        Trends beyond the data.
    value_name, time_name : str
    level : float
        Probability of the intervals.

    Examples
    --------
    >>> import pandas as pd
    >>> from types import SimpleNamespace
    >>> mean = pd.DataFrame([[1.0, 2, 3], [1, 3, 4]], index=["a", "b"])
    >>> trends = SimpleNamespace(mean=mean, lower=mean - 1, upper=mean + 1)
    >>> picture = SeriesPicture(trends, np.array([0, 0]), value_name="sales")
    >>> picture.position("b"), picture.sizes.tolist()
    (1, [2])
    """

    trends: Curves
    labels: np.ndarray
    factors: Curves | None = None
    common: Curves | None = None
    signs: np.ndarray | None = None
    observed: pd.DataFrame | None = None
    forecast: Curves | None = None
    value_name: str = "value"
    time_name: str = "time"
    level: float = 0.9

    def __post_init__(self) -> None:
        n = len(self.trends.mean)
        if np.shape(self.labels) != (n,):
            raise ValueError(f"labels has shape {np.shape(self.labels)} for {n} series")
        if self.signs is not None and np.shape(self.signs) != (n,):
            raise ValueError(f"signs has shape {np.shape(self.signs)} for {n} series")
        if self.observed is not None and self.observed.shape != self.trends.mean.shape:
            raise ValueError(
                f"observed has shape {self.observed.shape}, the trends {self.trends.mean.shape}"
            )

    @property
    def sizes(self) -> np.ndarray:
        """Number of series in each cluster."""
        return np.bincount(self.labels)

    @property
    def interval(self) -> str:
        """What the bands are called."""
        return f"{self.level:.0%} interval"

    def position(self, name: Any) -> int:
        """Where a series stands, by its name; a text that reads like one name serves too."""
        names = list(self.trends.mean.index)
        if name in names:
            return names.index(name)
        alike = [i for i, known in enumerate(names) if str(known) == str(name)]
        if len(alike) == 1:
            return alike[0]
        raise ValueError(f"series {name!r} was not in the data that the model was fitted to.")


def _x(times: Any) -> np.ndarray:
    """Times as matplotlib draws them."""
    import pandas as pd

    if isinstance(times, pd.PeriodIndex):
        times = times.to_timestamp()
    return times.to_numpy()


def _panels(
    n: int, *, page: bool, height: float, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    columns = 2 if n == 4 else min(n, 3)
    rows = -(-n // columns)
    make = style.page_figure if page else style.new_figure
    figure = make(3.7 * columns if n > 1 else 7.0, height * rows + (0.4 if n > 1 else 0.0))
    axes = figure.subplots(rows, columns, sharex=True, sharey=sharey, squeeze=False).ravel()
    for ax in axes[n:]:
        ax.set_visible(False)
    for ax in axes[max(n - columns, 0) : n]:
        # Also where the panel below it is hidden.
        ax.tick_params(axis="x", labelbottom=True)
    return figure, list(axes[:n])


def _choose_clusters(sizes: np.ndarray, clusters: Sequence[int] | None) -> tuple[list[int], str]:
    """Clusters to draw, and what to say of the others."""
    if clusters is not None:
        chosen = [int(k) for k in clusters]
        for k in chosen:
            if not 0 <= k < len(sizes):
                raise ValueError(f"there is no cluster {k}; there are 0 to {len(sizes) - 1}")
        return chosen, ""
    order = np.argsort(-sizes, kind="stable")
    drawn, rest = np.sort(order[:PANELS_MAX]), order[PANELS_MAX:]
    if not len(rest):
        return [int(k) for k in drawn], ""
    left = f"{count(len(rest), 'smaller cluster')} with {int(sizes[rest].sum()):,} series"
    return [int(k) for k in drawn], f"Not drawn: {left}."


def _axes_for(ax: Any, n: int, **options: Any) -> list[Axes]:
    if ax is None:
        return _panels(n, **options)[1]
    axes = style.as_axes(ax)
    if len(axes) != n:
        raise ValueError(f"{n} clusters need as many axes; got {len(axes)}")
    return axes


def _finish(axes: list[Axes], picture: SeriesPicture, note: str, *, own: bool, value: str) -> None:
    """Name the axes once, and say what was left out."""
    figure = axes[0].figure
    if own and len(axes) > 1:
        figure.supylabel(style.literal(value), fontsize=style.BODY, color=style.INK)
        figure.supxlabel(
            style.literal(picture.time_name) + (f"\n{note}" if note else ""),
            fontsize=style.BODY,
            color=style.INK,
        )
        return
    for ax in axes:
        ax.set_xlabel(style.literal(picture.time_name))
        ax.set_ylabel(style.literal(value))
    if note:
        axes[-1].set_xlabel(style.literal(picture.time_name) + f"\n{note}")


def plot_clusters(
    picture: SeriesPicture,
    *,
    clusters: Sequence[int] | None = None,
    standardised: bool = True,
    ax: Any = None,
    page: bool = False,
) -> list[Axes]:
    """Draw each cluster's series in its colour, and their mean.

    Parameters
    ----------
    picture : SeriesPicture
    clusters : sequence of int, optional
        Which ones; the largest twelve by default, and a note says what is not drawn.
    standardised : bool
        Bring each trend to mean zero and unit spread, and turn over those of negative sign (drawn
        dashed), so that what a cluster shares is seen. If False, trends are in the data's units
        and all panels share their axis.
    ax : axes or sequence of axes, optional
        One per cluster drawn.
    page : bool
        Make the figure for a file rather than for interactive work.

    Returns
    -------
    list of matplotlib.axes.Axes

    Notes
    -----
    Of a cluster of more than 60 series a random 60 are drawn, and the title says so; the mean is
    that of all.

    Examples
    --------
    >>> import pandas as pd
    >>> from types import SimpleNamespace
    >>> mean = pd.DataFrame([[1.0, 2, 3], [1, 3, 4]], index=["a", "b"])
    >>> trends = SimpleNamespace(mean=mean, lower=mean - 1, upper=mean + 1)
    >>> axes = plot_clusters(SeriesPicture(trends, np.array([0, 0])), page=True)
    >>> axes[0].get_title(loc="left")
    'cluster 0: 2 series'
    """
    chosen, note = _choose_clusters(picture.sizes, clusters)
    axes = _axes_for(ax, len(chosen), page=page, height=2.3, sharey=not standardised)
    x = _x(picture.trends.mean.columns)
    lines = picture.trends.mean.to_numpy().astype(float)
    turned = np.zeros(len(lines), bool)
    if standardised:
        lines = _standard(lines)
        if picture.signs is not None:
            turned = np.asarray(picture.signs) < 0
            lines = np.where(turned[:, None], -lines, lines)
    for one, k in zip(axes, chosen, strict=True):
        members = np.flatnonzero(picture.labels == k)
        title = f"cluster {k}: {'one series' if len(members) == 1 else f'{len(members):,} series'}"
        shown = members
        if len(members) > LINES_MAX:
            shown = np.sort(np.random.default_rng(0).choice(members, LINES_MAX, replace=False))
            title += f", a random {LINES_MAX} drawn"
        for i in shown:
            one.plot(
                x,
                lines[i],
                color=style.cluster_colour(k),
                linestyle=TURNED if turned[i] else "-",
                linewidth=0.8,
                alpha=float(np.clip(8.0 / len(shown), 0.3, 0.8)),
                gid="turned" if turned[i] else "series",
            )
        if len(members) > 1:
            one.plot(x, lines[members].mean(axis=0), color=style.INK, linewidth=1.6, gid="mean")
        style.entitle(style.dress(one, grid="y"), title)
        _slant(one)
    value = f"{picture.value_name}, standardised" if standardised else picture.value_name
    _finish(axes, picture, note, own=ax is None, value=value)
    _line_legend(axes[0], turned=bool(turned[np.isin(picture.labels, chosen)].any()))
    return axes


def _line_legend(ax: Axes, *, turned: bool) -> None:
    """Say which line is a series and which their mean."""
    from matplotlib.lines import Line2D

    colour = ax.lines[0].get_color()
    handles = [Line2D([], [], color=colour, linewidth=0.9, label="a series")]
    if turned:
        handles.append(
            Line2D([], [], color=colour, linewidth=0.9, linestyle=TURNED, label="one turned over")
        )
    handles.append(Line2D([], [], color=style.INK, linewidth=1.6, label="mean of the cluster"))
    ax.legend(
        handles=handles,
        fontsize=style.SMALL - 1,
        loc="best",
        framealpha=0.8,
        edgecolor="none",
        handlelength=1.8,
        borderaxespad=0.2,
    )


def _standard(lines: np.ndarray) -> np.ndarray:
    spread = lines.std(axis=1, keepdims=True)
    return (lines - lines.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)


def _slant(ax: Axes) -> None:
    ax.tick_params(axis="x", rotation=30)


def plot_factors(
    picture: SeriesPicture,
    *,
    clusters: Sequence[int] | None = None,
    ax: Any = None,
    page: bool = False,
) -> list[Axes]:
    """Draw the posterior mean of each cluster's factor with its interval.

    Parameters
    ----------
    picture : SeriesPicture
        With `factors`.
    clusters : sequence of int, optional
        Which ones; those of the largest twelve clusters by default, and a note says so.
    ax : axes or sequence of axes, optional
        One per factor drawn.
    page : bool
        Make the figure for a file rather than for interactive work.

    Returns
    -------
    list of matplotlib.axes.Axes
    """
    factors = picture.factors
    if factors is None:
        raise ValueError("this picture was made without factors, so they cannot be drawn")
    chosen, note = _choose_clusters(picture.sizes, clusters)
    axes = _axes_for(ax, len(chosen), page=page, height=1.8, sharey=True)
    for k, one in zip(chosen, axes, strict=True):
        _draw_factor(one, picture, factors, k, style.cluster_colour(k), f"factor of cluster {k}")
    _finish(axes, picture, note, own=ax is None, value="factor")
    axes[0].legend(fontsize=style.SMALL - 1, loc="best", framealpha=0.8, edgecolor="none", ncols=2)
    return axes


def _draw_factor(
    ax: Axes, picture: SeriesPicture, curves: Curves, row: int, colour: Any, title: str
) -> None:
    """One factor with its interval."""
    x = _x(curves.mean.columns)
    ax.axhline(0.0, color=style.MUTED, linewidth=0.6)
    low, high = curves.lower.to_numpy()[row], curves.upper.to_numpy()[row]
    ax.fill_between(x, low, high, color=colour, alpha=0.25, linewidth=0, label=picture.interval)
    ax.plot(x, curves.mean.to_numpy()[row], color=colour, linewidth=1.2, label="mean")
    style.entitle(style.dress(ax), title)
    _slant(ax)


def plot_common_factor(picture: SeriesPicture, *, ax: Any = None, page: bool = False) -> Axes:
    """Draw the posterior mean of the factor that all series share, with its interval.

    Parameters
    ----------
    picture : SeriesPicture
        With `common`.
    ax : axes, optional
    page : bool
        Make the figure for a file rather than for interactive work.
    """
    if picture.common is None:
        raise ValueError("this fit has no common factor; SeriesMixture(common_factor=True) has one")
    axes = _axes_for(ax, 1, page=page, height=2.4, sharey=True)
    _draw_factor(axes[0], picture, picture.common, 0, style.INK, "factor of all series")
    _finish(axes, picture, "", own=ax is None, value="factor")
    axes[0].legend(fontsize=style.SMALL - 1, loc="best", framealpha=0.8, edgecolor="none", ncols=2)
    return axes[0]


def plot_series(picture: SeriesPicture, name: Any, *, ax: Any = None, page: bool = False) -> Axes:
    """Draw one series: its data, trend, interval and gaps, and the forecast if there is one.

    Parameters
    ----------
    picture : SeriesPicture
    name : object
        The series, as the data name it.
    ax : axes, optional
    page : bool
        Make the figure for a file rather than for interactive work.

    Returns
    -------
    matplotlib.axes.Axes
    """
    i = picture.position(name)
    if ax is None:
        ax = _panels(1, page=page, height=3.2)[1][0]
    (ax,) = style.as_axes(ax)
    band = picture.trends
    x = _x(band.mean.columns)
    cluster = int(picture.labels[i])
    colour = style.cluster_colour(cluster)
    low, high = band.lower.to_numpy()[i], band.upper.to_numpy()[i]
    ax.fill_between(x, low, high, color=colour, alpha=0.25, linewidth=0, label=picture.interval)
    ax.plot(x, band.mean.to_numpy()[i], color=colour, linewidth=1.6, label="trend")
    if picture.observed is not None:
        _draw_data(ax, x, picture.observed.to_numpy()[i].astype(float))
    if picture.forecast is not None:
        ahead = picture.forecast
        later = _x(ahead.mean.columns)
        low, high = ahead.lower.to_numpy()[i], ahead.upper.to_numpy()[i]
        ax.fill_between(later, low, high, color=colour, alpha=0.12, linewidth=0)
        ax.plot(
            later, ahead.mean.to_numpy()[i], color=colour, linewidth=1.4, linestyle=":",
            label="forecast",
        )  # fmt: skip
    style.dress(ax, grid="y")
    ax.set_xlabel(style.literal(picture.time_name))
    ax.set_ylabel(style.literal(picture.value_name))
    style.entitle(ax, style.literal(f"{style.shorten(name, 60)}, cluster {cluster}"))
    ax.legend(fontsize=style.SMALL, frameon=False, ncols=5, loc="best")
    _slant(ax)
    return ax


def _draw_data(ax: Axes, x: np.ndarray, values: np.ndarray) -> None:
    """Points where there are data, a grey ground over longer gaps."""
    there = np.isfinite(values)
    ax.plot(
        x[there], values[there], linestyle="none", marker=".", color=style.INK, markersize=4,
        alpha=0.7, label="data",
    )  # fmt: skip
    for number, (first, last) in enumerate(_runs(~there)):
        ax.axvspan(
            x[max(first - 1, 0)],
            x[min(last + 1, len(x) - 1)],
            color="#eeeeee",
            zorder=0,
            label=None if number else "no data",
        )


def _runs(mask: np.ndarray) -> list[tuple[int, int]]:
    """First and last positions of every stretch of True longer than one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [(int(a), int(b) - 1) for a, b in edges.reshape(-1, 2) if b - a > 1]
