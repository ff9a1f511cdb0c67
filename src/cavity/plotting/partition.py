"""Plots of a partition and of the draws behind it.

Each function draws on axes that it is given, and returns them. Clusters have the numbers of the
point estimate, 0 the largest, and the same color and marker in every picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.plotting import style
from cavity.utils.text import count, plural

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

LABEL_INCHES = {"x": 0.22, "y": 0.14}
BLOCKS_MAX = 100
STEPS = 1_000
MANY = 5_000


def draw_similarity(view: Any, picture: np.ndarray, ax: Axes) -> Axes:
    """Plot the similarity matrix.

    Parameters
    ----------
    view : cavity.posterior.view.View
    picture : array, shape (cell, cell)
        Similarity of the observations in ``view.order``, or its means over squares of equal width.
    ax : matplotlib axes
    """
    n = view.n
    exact = len(picture) == n
    image = ax.imshow(
        picture,
        cmap="Blues",
        vmin=0.0,
        vmax=1.0,
        extent=(0, n, n, 0),
        interpolation="nearest" if exact else "antialiased",
        rasterized=True,
    )
    bounds = np.concatenate([[0], np.cumsum(view.sizes)])
    _mark_blocks(ax, bounds)
    style.dress(ax)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    ax.set_xlabel(f"{view.noun}, by cluster")
    ax.set_ylabel("cluster")
    _name_clusters(ax, view, bounds, "y")
    style.whole_numbers(ax, "x", 5)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8, pad=0.02)
    bar.set_label("probability of sharing a cluster", fontsize=style.BODY, color=style.INK)
    bar.ax.tick_params(labelsize=style.SMALL, colors=style.MUTED, labelcolor=style.INK)
    bar.outline.set_visible(False)
    style.entitle(ax, f"Which {plural(view.noun)} belong together")
    if not exact:
        width = n / len(picture)
        style.note(
            ax,
            f"{count(n, view.noun)}; each pixel is a mean over {width:.3g} × {width:.3g} pairs",
            (1.0, 0.0),
            (0, -34),
        )
    return ax


def _mark_blocks(ax: Axes, bounds: np.ndarray) -> None:
    """Outline the clusters of the estimate on the diagonal."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    if len(bounds) - 1 > BLOCKS_MAX:
        return
    blocks = [Rectangle((low, low), high - low, high - low) for low, high in pairwise(bounds)]
    ax.add_collection(
        PatchCollection(
            blocks,
            facecolor="none",
            edgecolor=style.VERMILION,
            linewidth=1.1 if len(blocks) <= 30 else 0.6,
            clip_on=False,
            gid="blocks",
        )
    )


def _name_clusters(ax: Axes, view: Any, bounds: np.ndarray, axis: str) -> None:
    """Write the clusters' names along an axis, as many as fit."""
    box = ax.get_window_extent()
    inches = (box.width if axis == "x" else box.height) / ax.get_figure(root=True).dpi  # type: ignore[union-attr]
    pitch = LABEL_INCHES[axis] / max(inches, 0.1) * bounds[-1]
    middles = 0.5 * (bounds[:-1] + bounds[1:])
    chosen: list[int] = []
    for k, middle in enumerate(middles):
        if not chosen or middle - middles[chosen[-1]] >= pitch:
            chosen.append(k)
    ticks, names = middles[chosen], [view.cluster_name(k) for k in chosen]
    if axis == "x":
        ax.set_xticks(ticks, names)
    else:
        ax.set_yticks(ticks, names)
    ax.tick_params(axis=axis, length=0)  # type: ignore[arg-type]


def draw_trace(quantities: Mapping[str, np.ndarray], axes: Sequence[Axes]) -> np.ndarray:
    """Plot traces of quantities of shape (chain, draw), one per axes."""
    for one, (name, values) in zip(axes, quantities.items(), strict=True):
        n_draws = values.shape[1]
        alone = {"marker": "o", "markersize": 4} if n_draws == 1 else {}
        for chain, line in enumerate(values):
            one.plot(
                np.arange(1, n_draws + 1),
                line,
                color=style.COLOURS[chain % len(style.COLOURS)],
                linestyle=style.LINES[chain // len(style.COLOURS) % len(style.LINES)],
                linewidth=0.9,
                alpha=0.85,
                label=f"chain {chain}",
                **alone,  # type: ignore[arg-type]
            )
        style.dress(one, grid="y")
        one.set_ylabel(style.literal(style.shorten(name)))
        if np.issubdtype(values.dtype, np.integer):
            style.whole_numbers(one, "y", 5)
            one.set_ylim(values.min() - 0.5, values.max() + 0.5)
        one.set_xlim(0.5, n_draws + 0.5)
    style.whole_numbers(axes[-1], "x")
    axes[-1].set_xlabel("kept draw")
    style.entitle(axes[0], "Traces, one line per chain")
    handles, names = axes[0].get_legend_handles_labels()
    if 1 < len(handles) <= 16:
        style.legend(
            axes[-1], handles=handles, labels=names, loc="upper center",
            bbox_to_anchor=(0.5, -0.38), ncols=min(len(handles), 4), borderaxespad=0.0,
        )  # fmt: skip
    result = np.empty(len(axes), object)
    result[:] = list(axes)
    return result


def draw_n_clusters(probability: pd.Series, n_estimate: int, ax: Axes) -> Axes:
    """Plot the posterior of the number of clusters and mark the estimate's number.

    Parameters
    ----------
    probability : Series
        Probability of each number of clusters, which is the index.
    n_estimate : int
    ax : matplotlib axes
    """
    values = probability.index.to_numpy()
    colours = [style.BLUE if k == n_estimate else "#9db8cc" for k in values]
    bars = ax.bar(values, probability.to_numpy(), width=0.8, color=colours)
    if len(values) <= 12:
        ax.bar_label(
            bars,
            [f"{v:.2f}" if v >= 0.005 else "<0.01" for v in probability],
            fontsize=style.SMALL,
            color=style.INK,
            padding=2,
        )
    low, high = min(values.min(), n_estimate), max(values.max(), n_estimate)
    # A single bar across the whole picture would look like a mistake.
    room = max(0.0, 2.0 - 0.5 * (high - low))
    ax.set_xlim(max(low - 0.6 - room, 0.0), high + 0.6 + room)
    ax.set_ylim(0.0, 1.15 * float(probability.max()))
    ax.set_yticks([t for t in ax.get_yticks() if 0.0 <= t <= 1.0])
    ax.plot(
        [n_estimate],
        [0.0],
        linestyle="none",
        marker="^",
        markersize=9,
        color=style.VERMILION,
        markeredgecolor="white",
        clip_on=False,
        zorder=5,
        label=f"point estimate: {n_estimate}",
    )
    style.dress(ax, grid="y")
    style.whole_numbers(ax, "x", 12)
    ax.set_xlabel("number of occupied clusters")
    ax.set_ylabel("posterior probability")
    style.legend_above(ax)
    style.entitle(ax, "Number of clusters")
    return ax


def draw_certainty(view: Any, ax: Axes) -> Axes:
    """Plot the certainty of each observation, cluster by cluster."""
    n = view.n
    order = view.order
    bounds = np.concatenate([[0], np.cumsum(view.sizes)])
    height = view.certainty[order]
    # Clusters too narrow to be visible are drawn as one.
    parts = bounds if view.n_clusters <= BLOCKS_MAX else bounds[[0, -1]]
    for k, (low, high) in enumerate(pairwise(parts)):
        edges, heights = _steps(height[low:high], low)
        ax.stairs(
            heights,
            edges,
            fill=True,
            color=style.cluster_colour(view.look(k)),
            linewidth=0,
            rasterized=n > MANY,
        )
    _mark_doubtful(ax, view, order)
    if view.n_clusters <= BLOCKS_MAX:
        ax.vlines(bounds, 0.0, 1.0, color="white", linewidth=0.8)
    style.dress(ax, grid="y")
    _name_clusters(ax, view, bounds, "x")
    ax.set_xlim(0, n)
    ax.set_ylim(0.0, 1.1)
    ax.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0])
    ax.set_xlabel(f"cluster (its {plural(view.noun)}, the most certain first)")
    ax.set_ylabel("certainty")
    style.entitle(ax, f"Certainty of each {view.noun}")
    return ax


def _steps(values: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges and heights of one cluster's steps; many observations are averaged in groups."""
    groups = np.array_split(values, min(len(values), STEPS))
    edges = start + np.concatenate([[0], np.cumsum([len(g) for g in groups])])
    return edges, np.array([g.mean() for g in groups])


def _mark_doubtful(ax: Axes, view: Any, order: np.ndarray) -> None:
    """Mark doubtful observations by ticks just above a certainty of one."""
    if not len(view.in_doubt):
        return
    rank = np.empty(view.n, np.int64)
    rank[order] = np.arange(view.n)
    ax.plot(
        rank[view.in_doubt] + 0.5,
        np.full(len(view.in_doubt), 1.05),
        linestyle="none",
        marker="|",
        markersize=6,
        markeredgewidth=0.8,
        color=style.RING,
        label=f"{len(view.in_doubt):,} in doubt",
        rasterized=view.n > MANY,
    )
    style.legend_above(ax)
