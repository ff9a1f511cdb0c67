"""Plots of clustered time series: the clusters and their factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.plotting import style
from cavity.plotting.series_picture import Curves, SeriesPicture, drawn_times
from cavity.utils.text import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES_MAX = 60
PANELS_MAX = 12
TURNED = (0, (4, 1.5))


def panels(n: int, *, page: bool, height: float, sharey: bool = False) -> tuple[Figure, list[Axes]]:
    """Return a figure with n panels, and the panels."""
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
    """Return the clusters to draw, and a note on the others."""
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


def axes_for(ax: Any, n: int, **options: Any) -> list[Axes]:
    """Return the axes given, one per cluster, or those of a new figure."""
    if ax is None:
        return panels(n, **options)[1]
    axes = style.as_axes(ax)
    if len(axes) != n:
        raise ValueError(f"{n} clusters need {n} axes; got {len(axes)}")
    return axes


def _finish(axes: list[Axes], picture: SeriesPicture, note: str, *, own: bool, value: str) -> None:
    """Name the axes once, and note omitted clusters."""
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
    """Draw each cluster's series in its color, and their mean.

    Parameters
    ----------
    picture : SeriesPicture
    clusters : sequence of int, optional
        Clusters to draw; the largest twelve by default, with a note on the others.
    standardized : bool
        Take out of each trend what a common factor moves, bring it to mean zero and unit spread,
        and reverse those of negative sign (drawn dashed), which shows what a cluster shares.
        If False, trends are in the data's units and all panels share their axis.
    ax : axes or sequence of axes, optional
        One per cluster drawn.
    page : bool
        Make the figure for a file rather than for interactive work.

    Returns
    -------
    list of matplotlib.axes.Axes

    Notes
    -----
    At most 60 random series of a cluster are drawn, and the title says so; the mean is that of
    all.

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
    axes = axes_for(ax, len(chosen), page=page, height=2.3, sharey=not standardised)
    x = drawn_times(picture.trends.mean.columns)
    lines = picture.standardised if standardised else picture.trends.mean.to_numpy().astype(float)
    turned = picture.turned if standardised else np.zeros(len(lines), bool)
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
        slant(one)
    value = f"{picture.value_name}, standardized" if standardised else picture.value_name
    if standardised and picture.apart is not None:
        note = " ".join(part for part in ("The common factor is removed.", note) if part)
    _finish(axes, picture, note, own=ax is None, value=value)
    _line_legend(axes[0], turned=bool(turned[np.isin(picture.labels, chosen)].any()))
    return axes


def _line_legend(ax: Axes, *, turned: bool) -> None:
    """Add a legend for series and their mean."""
    from matplotlib.lines import Line2D

    colour = ax.lines[0].get_color()
    handles = [Line2D([], [], color=colour, linewidth=0.9, label="a series")]
    if turned:
        handles.append(
            Line2D([], [], color=colour, linewidth=0.9, linestyle=TURNED, label="one reversed")
        )
    handles.append(Line2D([], [], color=style.INK, linewidth=1.6, label="mean of the cluster"))
    _inner_legend(ax, handles=handles, handlelength=1.8, borderaxespad=0.2)


def _inner_legend(ax: Axes, **options: Any) -> None:
    """Add a legend over the data."""
    ax.legend(fontsize=style.SMALL - 1, loc="best", framealpha=0.8, edgecolor="none", **options)


def slant(ax: Axes) -> None:
    """Rotate the labels of times, which are long."""
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
        Clusters to draw; the largest twelve by default, with a note on the others.
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
    axes = axes_for(ax, len(chosen), page=page, height=1.8, sharey=True)
    for k, one in zip(chosen, axes, strict=True):
        _draw_factor(one, picture, factors, k, style.cluster_colour(k), f"factor of cluster {k}")
    _finish(axes, picture, note, own=ax is None, value="factor")
    _inner_legend(axes[0], ncols=2)
    return axes


def _draw_factor(
    ax: Axes, picture: SeriesPicture, curves: Curves, row: int, colour: Any, title: str
) -> None:
    """One factor with its interval."""
    x = drawn_times(curves.mean.columns)
    ax.axhline(0.0, color=style.MUTED, linewidth=0.6)
    style.band(ax, x, curves, row, "mean", color=colour, linewidth=1.2, interval=picture.interval)
    style.entitle(style.dress(ax), title)
    slant(ax)


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
    axes = axes_for(ax, 1, page=page, height=2.4, sharey=True)
    _draw_factor(axes[0], picture, picture.common, 0, style.INK, "factor of all series")
    _finish(axes, picture, "", own=ax is None, value="factor")
    _inner_legend(axes[0], ncols=2)
    return axes[0]


def plot_series(picture: SeriesPicture, name: Any, *, ax: Any = None, page: bool = False) -> Axes:
    """Draw one series: data, trend, interval, missing values, and the forecast if there is one.

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
    (ax,) = axes_for(ax, 1, page=page, height=3.2)
    x = drawn_times(picture.trends.mean.columns)
    cluster = int(picture.labels[i])
    colour = style.cluster_colour(cluster)
    style.band(
        ax, x, picture.trends, i, "trend", color=colour, linewidth=1.6, interval=picture.interval
    )
    if picture.observed is not None:
        _draw_data(ax, x, picture.observed.to_numpy()[i].astype(float))
    if picture.forecast is not None:
        later = drawn_times(picture.forecast.mean.columns)
        look = {"color": colour, "alpha": 0.12, "linewidth": 1.4, "linestyle": ":"}
        style.band(ax, later, picture.forecast, i, "forecast", **look)
    style.dress(ax, grid="y")
    ax.set_xlabel(style.literal(picture.time_name))
    ax.set_ylabel(style.literal(picture.value_name))
    style.entitle(ax, style.literal(f"{style.shorten(name, 60)}, cluster {cluster}"))
    style.legend(ax, ncols=5, loc="best")
    slant(ax)
    return ax


def _draw_data(ax: Axes, x: np.ndarray, values: np.ndarray) -> None:
    """Draw the data as points and shade longer runs of missing values."""
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
    """Return first and last positions of every run of True longer than one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return [(int(a), int(b) - 1) for a, b in edges.reshape(-1, 2) if b - a > 1]
