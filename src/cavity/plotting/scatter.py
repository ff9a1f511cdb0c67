"""Scatter plots of observations colored by cluster: strip, scatter, pairs or projection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.plotting import style
from cavity.plotting.frame import Table, principal_plane, sensible_limits
from cavity.plotting.legend import add_legend, cluster_entries, entry
from cavity.utils.text import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("auto", "strip", "scatter", "pairs", "pca")
PAIRS_MAX = 4
POINTS_MAX = 20_000
RINGS_MAX = 300
RASTER_MIN = 2_000
FAINTEST = 0.2


def plot_clusters(view: Any, table: Table, *, kind: str = "auto", ax: Any = None) -> Any:
    """Draw the data, colored by cluster; less certain points are more transparent.

    Parameters
    ----------
    view : cavity.posterior.view.View
    table : Table
        The data that was clustered, checked by `cavity.plotting.frame.as_table`.
    kind : {"auto", "strip", "scatter", "pairs", "pca"}
        See `Posterior.plot_clusters`.
    ax : matplotlib axes, optional
        For pairs of d columns, (d - 1) × (d - 1) of them.

    Returns
    -------
    matplotlib axes, or for pairs an array of them
    """
    kind = choose_kind(kind, table.values.shape[1], ax)
    if kind == "pairs":
        d = table.values.shape[1]
        if ax is None:
            size = 1.0 + 2.3 * (d - 1)
            grid = pair_axes(style.new_figure(size, size), d)
        else:
            flat = style.as_axes(ax)
            if len(flat) != (d - 1) ** 2:
                raise ValueError(
                    f"pairs of {d} columns need {(d - 1) ** 2} axes, {d - 1} by {d - 1}; "
                    f"got {len(flat)}"
                )
            grid = _object_grid(flat, d - 1)
        return draw_pairs(view, table, grid)
    if kind == "strip":
        return draw_strip(view, table, style.one_axes(ax, 7.0, 3.6))
    return draw_plane(view, table, style.one_axes(ax, 6.4, 4.6), project=kind == "pca")


def choose_kind(kind: str, d: int, ax: Any = None) -> str:
    """Return the kind of plot for `d` columns; refuse a requested kind that does not fit."""
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    if kind == "auto":
        if d <= 2:
            return "strip" if d == 1 else "scatter"
        single = ax is not None and len(style.as_axes(ax)) == 1
        return "pairs" if d <= PAIRS_MAX and not single else "pca"
    needed = {"strip": d == 1, "scatter": d == 2, "pairs": d >= 3, "pca": d >= 2}
    if not needed[kind]:
        raise ValueError(f"kind={kind!r} does not suit X with {d} column(s); use kind='auto'")
    return kind


def _object_grid(axes: Sequence[Axes], side: int) -> np.ndarray:
    grid = np.empty(side * side, object)
    grid[:] = list(axes)
    return grid.reshape(side, side)


def pair_axes(figure: Figure, d: int) -> np.ndarray:
    """Axes of a lower triangle of pairs."""
    return figure.subplots(d - 1, d - 1, sharex="col", sharey="row", squeeze=False)


def _shown(view: Any) -> np.ndarray:
    """Positions of the observations drawn."""
    if view.n <= POINTS_MAX:
        return np.arange(view.n)
    return np.sort(np.random.default_rng(0).choice(view.n, POINTS_MAX, replace=False))


def _point_area(n: int) -> float:
    """Marker area in points squared: smaller where there are many."""
    return float(np.clip(2_500 / max(n, 1) + 6, 4, 34)) if n < 3_000 else 4.0


def _points(
    ax: Axes, view: Any, x: np.ndarray, y: np.ndarray, shown: np.ndarray, area: float, **rings: Any
) -> None:
    """Draw observations, less certain ones more transparent, and ring doubtful ones."""
    alpha = FAINTEST + (1 - FAINTEST) * np.clip(view.certainty, 0, 1) ** 2
    for k, where in style.looks(view.looks[shown]):
        members = shown[where]
        drawn = ax.scatter(
            x[members], y[members], s=area, c=style.cluster_rgba(k, alpha[members]),
            marker=style.cluster_marker(k), linewidths=0, rasterized=len(shown) > RASTER_MIN,
            gid=f"cluster {k}",
        )  # fmt: skip
        style.remember_rows(drawn, members)
    ringed = _ringed(view, shown)
    if len(ringed):
        look: dict[str, Any] = {"facecolors": "none", "edgecolors": style.RING, "gid": "doubtful"}
        ax.scatter(x[ringed], y[ringed], **look, **rings)


def _scatter(
    ax: Axes, view: Any, x: np.ndarray, y: np.ndarray, *, legend: str | None = None
) -> None:
    shown = _shown(view)
    shown = shown[~np.isnan(x[shown] + y[shown])]
    few = len(shown) < 3_000
    area = _point_area(len(shown))
    x_low, x_high = sensible_limits(x)
    y_low, y_high = sensible_limits(y)
    inside = ((x >= x_low) & (x <= x_high) & (y >= y_low) & (y <= y_high))[shown]
    ring = area * 2.2 + (14 if few else 8)
    _points(ax, view, x, y, shown[inside], area, s=ring, linewidths=0.8 if few else 0.5)
    outside = shown[~inside]
    _draw_outside(ax, view, outside, (x, x_low, x_high), (y, y_low, y_high))
    for low, high, fit in ((x_low, x_high, ax.set_xlim), (y_low, y_high, ax.set_ylim)):
        pad = 0.04 * (high - low) or 0.5 * max(abs(high), 1.0) * 0.1
        fit(low - pad, high + pad)
    if legend is not None:
        n_ringed = len(_ringed(view, shown[inside]))
        entries = legend_entries(view, n_ringed, len(outside))
        add_legend(ax, entries, legend, view.posterior.level)


def _ringed(view: Any, shown: np.ndarray) -> np.ndarray:
    """Return the most doubtful of the observations drawn."""
    return view.in_doubt[np.isin(view.in_doubt, shown)][:RINGS_MAX]


def _draw_outside(ax: Axes, view: Any, outside: np.ndarray, x: tuple, y: tuple) -> None:
    """Draw points beyond the frame as triangles at its edge."""
    at_x = np.clip(x[0][outside], x[1], x[2])
    at_y = np.clip(y[0][outside], y[1], y[2])
    directions = {
        ">": x[0][outside] > x[2],
        "<": x[0][outside] < x[1],
        "^": y[0][outside] > y[2],
        "v": y[0][outside] < y[1],
    }
    taken = np.zeros(len(outside), bool)
    for marker, there in directions.items():
        chosen = there & ~taken
        taken |= chosen
        if chosen.any():
            colours = [style.cluster_colour(int(k)) for k in view.looks[outside[chosen]]]
            drawn = ax.scatter(
                at_x[chosen], at_y[chosen], s=26, c=colours, marker=marker, edgecolors=style.INK,
                linewidths=0.5, clip_on=False, gid="outside",
            )  # fmt: skip
            style.remember_rows(drawn, outside[chosen])


def legend_entries(view: Any, n_ringed: int, n_outside: int) -> list[Any]:
    """Return legend handles: clusters with their sizes, rings and triangles."""
    handles = cluster_entries(view)
    if n_ringed:
        total = len(view.in_doubt)
        text = f"in doubt ({total:,})"
        if n_ringed < total and n_ringed == RINGS_MAX:
            text = f"{n_ringed} most in doubt\n(of {total:,})"
        handles.append(entry(text, marker="o", markerfacecolor="none", markeredgecolor=style.RING))
    if n_outside:
        look = {"markerfacecolor": "#bbbbbb", "markeredgecolor": style.INK, "markeredgewidth": 0.5}
        handles.append(entry(f"beyond the frame ({n_outside:,})", marker=">", **look))
    return handles


def _sample_note(ax: Axes, view: Any) -> None:
    if view.n > POINTS_MAX:
        text = f"a random {POINTS_MAX:,} of {view.n:,} {plural(view.noun)} are drawn"
        style.note(ax, text, (1.0, 1.0), (0, 2))


def _gap_note(ax: Axes, table: Table, *, filled: bool = False) -> None:
    """Note how rows with missing values are shown."""
    n = int(np.isnan(table.values).any(axis=1).sum())
    if not n:
        return
    where = "drawn at the median" if filled else "drawn if both values are known"
    if table.values.shape[1] == 1:
        where = "not drawn"
    style.note(ax, f"{n:,} with missing values: {where}", (0.0, 0.0), (2, 2))


def draw_plane(view: Any, table: Table, ax: Axes, *, project: bool, legend: str = "right") -> Axes:
    """Scatter of two columns, or of the first two principal components."""
    if project:
        points, share = principal_plane(table.values)
        names = [f"principal component {j + 1} ({share[j]:.0%} of variance)" for j in (0, 1)]
    else:
        points = table.values
        names = [style.literal(style.shorten(name, 40)) for name in table.names]
    _scatter(ax, view, points[:, 0], points[:, 1], legend=legend)
    style.dress(ax, grid="both")
    ax.set_xlabel(names[0])
    ax.set_ylabel(names[1])
    style.entitle(ax, f"{view.posterior.level.capitalize()}s of the point estimate")
    _sample_note(ax, view)
    _gap_note(ax, table, filled=project)
    return ax


def draw_pairs(view: Any, table: Table, grid: np.ndarray) -> np.ndarray:
    """Draw scatter plots of all pairs of columns, with the legend in the empty corner."""
    side = len(grid)
    names = [style.literal(style.shorten(name, 24)) for name in table.names]
    for r in range(side):
        for c in range(side):
            ax = grid[r, c]
            if c > r:
                ax.set_axis_off()
                continue
            _scatter(ax, view, table.values[:, c], table.values[:, r + 1])
            style.dress(ax, grid="both")
            if r == side - 1:
                ax.set_xlabel(names[c])
            if c == 0:
                ax.set_ylabel(names[r + 1])
    style.entitle(grid[0, 0], f"{view.posterior.level.capitalize()}s of the point estimate")
    shown = _shown(view)
    outside = np.zeros(view.n, bool)
    for column in table.values.T:
        low, high = sensible_limits(column)
        outside |= (column < low) | (column > high)
    n_ringed = len(_ringed(view, shown))
    entries = legend_entries(view, n_ringed, int(outside[shown].sum()))
    add_legend(grid[0, side - 1], entries, "corner", view.posterior.level)
    _sample_note(grid[0, 0], view)
    _gap_note(grid[0, 0], table)
    return grid


def draw_strip(view: Any, table: Table, ax: Axes, *, legend: str = "right") -> Axes:
    """Draw one column: a histogram stacked by cluster above a strip of points."""
    from matplotlib.ticker import MaxNLocator

    x = table.values[:, 0]
    low, high = sensible_limits(x)
    inside = (x >= low) & (x <= high)
    n_bins = int(np.clip(np.sqrt(view.n) * 1.5, 5, 60))
    if high > low:
        edges = np.linspace(low, high, n_bins + 1)
    else:
        edges = low + max(abs(low), 1.0) * np.array([-0.5, 0.5]) * 0.1
    base = np.zeros(len(edges) - 1)
    for k, where in style.looks(view.looks):
        count = np.histogram(x[where][inside[where]], edges)[0]
        ax.stairs(
            base + count, edges, baseline=base, fill=True, color=style.cluster_colour(k),
            edgecolor="white", linewidth=0.4, gid=f"cluster {k}",
        )  # fmt: skip
        base = base + count
    top = max(float(base.max()), 1.0)
    shown = _shown(view)
    shown = shown[inside[shown]]
    spread = np.random.default_rng(0).uniform(-0.16, -0.05, view.n) * top
    _points(ax, view, x, spread, shown, _point_area(len(shown)) * 0.5, s=24, linewidths=0.7)
    outside = np.flatnonzero(~inside & ~np.isnan(x))
    at = np.full(view.n, -0.1 * top)
    _draw_outside(ax, view, outside, (x, low, high), (at, -top, top))
    style.dress(ax, grid="y")
    ax.set_ylim(-0.2 * top, 1.08 * top)
    ticks = MaxNLocator(nbins=6, integer=True, min_n_ticks=1).tick_values(0.0, top)
    ax.set_yticks([t for t in ticks if 0 <= t <= 1.08 * top])
    ax.set_xlabel(style.literal(style.shorten(table.names[0], 60)))
    ax.set_ylabel(plural(view.noun))
    style.entitle(ax, f"{view.posterior.level.capitalize()}s of the point estimate")
    _sample_note(ax, view)
    _gap_note(ax, table)
    entries = legend_entries(view, len(_ringed(view, shown)), len(outside))
    add_legend(ax, entries, legend, view.posterior.level)
    return ax
