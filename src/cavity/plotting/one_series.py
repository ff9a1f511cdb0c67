"""Picture of one clustered series: its data, trend, gaps and forecast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.plotting import style
from cavity.plotting.series import panels, slant
from cavity.plotting.series_picture import SeriesPicture, drawn_times

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        ax = panels(1, page=page, height=3.2)[1][0]
    (ax,) = style.as_axes(ax)
    band = picture.trends
    x = drawn_times(band.mean.columns)
    cluster = int(picture.labels[i])
    colour = style.cluster_colour(cluster)
    low, high = band.lower.to_numpy()[i], band.upper.to_numpy()[i]
    ax.fill_between(x, low, high, color=colour, alpha=0.25, linewidth=0, label=picture.interval)
    ax.plot(x, band.mean.to_numpy()[i], color=colour, linewidth=1.6, label="trend")
    if picture.observed is not None:
        _draw_data(ax, x, picture.observed.to_numpy()[i].astype(float))
    if picture.forecast is not None:
        ahead = picture.forecast
        later = drawn_times(ahead.mean.columns)
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
    slant(ax)
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
