"""Style of all plots: colors and markers of clusters and chains, axes.

Colors are those of Okabe and Ito, which readers with any common color blindness can tell apart;
each further cycle through them has another marker. Nothing here changes
matplotlib's global settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, YELLOW, BLACK = "#CC79A7", "#56B4E9", "#F0E442", "#000000"

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, YELLOW, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
LINES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))

INK = "#222222"
MUTED = "#666666"
NOISE_COLOUR = "#8C8C8C"
RING = "#111111"
SMALL = 8.0
BODY = 9.0
TITLE = 10.0


def cluster_colour(k: int) -> str:
    """Return the color of cluster `k`; gray for noise, -1.

    Examples
    --------
    >>> cluster_colour(0), cluster_colour(8), cluster_colour(-1)
    ('#0072B2', '#0072B2', '#8C8C8C')
    """
    return NOISE_COLOUR if k < 0 else COLOURS[k % len(COLOURS)]


def cluster_marker(k: int) -> str:
    """Return the marker of cluster `k`; it changes with each cycle through the colors.

    Examples
    --------
    >>> cluster_marker(0), cluster_marker(8)
    ('o', 's')
    """
    return MARKERS[max(k, 0) // len(COLOURS) % len(MARKERS)]


def looks(labels: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each cluster with its members' positions; clusters of the same style are adjacent.

    Noise, -1, looks like no cluster.

    There are 96 looks: thousands of clusters are drawn in 96 steps, not thousands.

    Examples
    --------
    >>> [(k, where.tolist()) for k, where in looks(np.array([1, 0, 97]))]
    [(0, [1]), (1, [0, 2])]
    """
    look = np.where(labels < 0, labels, labels % (len(COLOURS) * len(MARKERS)))
    for k in np.unique(look):
        yield int(k), np.flatnonzero(look == k)


def cluster_rgba(k: int, alpha: np.ndarray) -> np.ndarray:
    """Return the color of cluster `k` with one opacity per point, (point, 4)."""
    from matplotlib.colors import to_rgb

    colours = np.empty((len(alpha), 4))
    colours[:, :3] = to_rgb(cluster_colour(k))
    colours[:, 3] = alpha
    return colours


def remember_rows(points: PathCollection, rows: np.ndarray) -> None:
    """Keep the positions of the observations that points stand for, for `places_of_rows`."""
    points.rows = rows  # type: ignore[attr-defined]


def places_of_rows(figure: Figure) -> tuple[np.ndarray, np.ndarray]:
    """Return the observations drawn in a figure and where each is, after it was drawn.

    Returns
    -------
    rows : array of int, shape (points,)
    places : array, shape (points, 2)
        Shares of the width and height, from the upper left corner.
    """
    rows, places = [np.zeros(0, np.int64)], [np.zeros((0, 2))]
    for ax in figure.axes:
        for points in ax.collections:
            if hasattr(points, "rows"):
                rows.append(points.rows)
                pixels = ax.transData.transform(points.get_offsets())
                places.append(pixels / figure.bbox.size)
    place = np.concatenate(places)
    place[:, 1] = 1.0 - place[:, 1]
    return np.concatenate(rows), place


def dress(ax: Axes, *, grid: str | None = None) -> Axes:
    """Style axes: no box, small ticks, an optional faint grid."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(MUTED)
        ax.spines[side].set_linewidth(0.8)
    ax.tick_params(labelsize=SMALL, colors=MUTED, labelcolor=INK, width=0.8, length=3)
    ax.xaxis.label.set(fontsize=BODY, color=INK)
    ax.yaxis.label.set(fontsize=BODY, color=INK)
    ax.set_axisbelow(True)
    if grid is not None:
        ax.grid(True, axis=grid, color="#cccccc", linewidth=0.6, alpha=0.7)  # type: ignore[arg-type]
    return ax


def entitle(ax: Axes, text: str) -> None:
    """Give axes a title, flush left."""
    ax.set_title(text, loc="left", fontsize=TITLE, color=INK)


def whole_numbers(ax: Axes, axis: str, most: int = 8) -> None:
    """Tick whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    which = ax.xaxis if axis == "x" else ax.yaxis
    which.set_major_locator(MaxNLocator(nbins=most, integer=True, min_n_ticks=1))


def new_figure(width: float, height: float) -> Figure:
    """Make a figure for interactive use, shown by pyplot and notebooks."""
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width, height), layout="constrained")


def page_figure(width: float, height: float) -> Figure:
    """Make a figure for a file; it is not registered with pyplot, so it need not be closed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def as_axes(ax: Any) -> list[Axes]:
    """Return one axes, or any nesting of them, as a flat list; refuse anything else."""
    from matplotlib.axes import Axes

    if isinstance(ax, Axes):
        return [ax]
    flat = list(np.asarray(ax, dtype=object).ravel())
    for one in flat:
        if not isinstance(one, Axes):
            raise TypeError(f"ax must be matplotlib axes; got {type(one).__name__}")
    return flat


def one_axes(ax: Any, width: float, height: float) -> Axes:
    """Return the axes given, or new ones of this size in inches."""
    if ax is None:
        return new_figure(width, height).subplots()
    flat = as_axes(ax)
    if len(flat) != 1:
        raise ValueError(f"this picture needs one axes; got {len(flat)}")
    return flat[0]


def shorten(name: Any, most: int = 28) -> str:
    """Shorten a name that would overlap its neighbors.

    Examples
    --------
    >>> shorten("alcalinity_of_ash"), shorten("a" * 40, 8)
    ('alcalinity_of_ash', 'aaaaaaa…')
    """
    text = str(name)
    return text if len(text) <= most else text[: most - 1] + "…"


def literal(text: Any) -> str:
    r"""Escape dollar signs in a user's text, which matplotlib would typeset as mathematics.

    Examples
    --------
    >>> print(literal("price in $"))
    price in \$
    """
    return str(text).replace("$", r"\$")


def note(ax: Axes, text: str, at: tuple[float, float], offset: tuple[float, float]) -> None:
    """Write a small remark at a corner of the axes, shifted by `offset` points."""
    ax.annotate(
        text, at, xycoords="axes fraction", xytext=offset, textcoords="offset points",
        ha="right" if at[0] else "left", va="top" if offset[1] < 0 else "bottom",
        fontsize=SMALL, color=MUTED, annotation_clip=False,
    )  # fmt: skip


def legend(ax: Axes, **options: Any) -> None:
    """Add a legend in small type without a frame."""
    ax.legend(**{"fontsize": SMALL, "frameon": False, **options})


def legend_above(ax: Axes) -> None:
    """Add a legend above the upper right corner."""
    legend(ax, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)


def band(ax: Axes, x: np.ndarray, curves: Any, row: int, label: str, **look: Any) -> None:
    """Draw a row of `curves`: the interval as a shaded band, the mean as a line."""
    colour, alpha = look["color"], look.pop("alpha", 0.25)
    low, high = curves.lower.to_numpy()[row], curves.upper.to_numpy()[row]
    interval = look.pop("interval", None)
    ax.fill_between(x, low, high, color=colour, alpha=alpha, linewidth=0, label=interval)
    ax.plot(x, curves.mean.to_numpy()[row], label=label, **look)
