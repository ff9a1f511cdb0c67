"""Dendrograms of observations by similarity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.plotting import style
from cavity.plotting.legend import add_legend, cluster_entries
from cavity.utils.text import count, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAVES_MAX = 300
NAMES_MAX = 60
NAME_INCHES = 0.1


def choose_leaves(labels: np.ndarray, most: int = LEAVES_MAX) -> np.ndarray:
    """Return positions of all observations, or of a proportional sample of each cluster.

    Every cluster has a leaf where there are enough; with more clusters than leaves the sample is
    one of all observations.

    Examples
    --------
    >>> choose_leaves(np.array([0, 0, 1])), len(choose_leaves(np.zeros(900, int)))
    (array([0, 1, 2]), 300)
    """
    n = len(labels)
    if n <= most:
        return np.arange(n)
    rng = np.random.default_rng(0)
    sizes = np.bincount(labels)
    if len(sizes) > most:
        return np.sort(rng.choice(n, most, replace=False))
    # One each, and of the rest each cluster's share, the largest remainders rounded up.
    share = (sizes - 1) * (most - len(sizes)) / (n - len(sizes))
    wanted = 1 + np.floor(share).astype(int)
    short = most - int(wanted.sum())
    wanted[np.argsort(-(share % 1), kind="stable")[:short]] += 1
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes)[:-1])
    chosen = [
        rng.choice(own, number, replace=False) for own, number in zip(members, wanted, strict=True)
    ]
    return np.sort(np.concatenate(chosen))


def draw_dendrogram(
    view: Any, leaves: np.ndarray, similarity: np.ndarray, ax: Axes, *, legend: str = "right"
) -> Axes:
    """Draw the average linkage tree of one minus the similarity, leaves colored by cluster.

    Parameters
    ----------
    view : cavity.posterior.view.View
    leaves : array of int, shape (leaf,)
        Positions of the observations drawn; see `choose_leaves`.
    similarity : array, shape (leaf, leaf)
        Probability that each two of them share a cluster.
    ax : matplotlib axes
    legend : {"right", "below"}
    """
    from matplotlib.collections import LineCollection

    order, segments, owners = _tree(similarity, view.labels[leaves])
    looks = view.looks[leaves]
    colours = [style.MUTED if k < 0 or k == view.noise else style.cluster_colour(k) for k in owners]
    ax.add_collection(LineCollection(list(segments), colors=colours, linewidths=0.9, gid="tree"))
    place = 5.0 + 10.0 * np.arange(len(order))
    for k, where in style.looks(looks[order]):
        ax.plot(
            place[where],
            np.full(len(where), -0.025),
            linestyle="none",
            marker=style.cluster_marker(k),
            color=style.cluster_colour(k),
            markersize=4.5 if len(order) <= 120 else 3.0,
            markeredgewidth=0,
            gid=f"cluster {k}",
        )
    style.dress(ax, grid="y")
    ax.spines["bottom"].set_visible(False)
    ax.set_xlim(0.0, 10.0 * len(order))
    ax.set_ylim(-0.05, 1.03)
    ax.set_ylabel("probability of different clusters")
    if len(order) <= min(NAMES_MAX, _width(ax) / NAME_INCHES):
        names = [style.literal(style.shorten(view.name(int(leaves[i])), 18)) for i in order]
        ax.set_xticks(place, names, rotation=90)
        ax.tick_params(axis="x", length=0)
    else:
        ax.set_xticks([])
    ax.set_xlabel(view.noun)
    style.entitle(ax, f"Which {plural(view.noun)} join first")
    if len(leaves) < view.n:
        each = "of each cluster in proportion" if view.n_clusters <= len(leaves) else "of all"
        ax.set_xlabel(
            f"{view.noun} (a random sample {each}: {len(leaves):,} of {count(view.n, view.noun)})"
        )
    add_legend(ax, cluster_entries(view), legend)
    return ax


def _width(ax: Axes) -> float:
    """Width of axes in inches."""
    return ax.get_window_extent().width / ax.get_figure(root=True).dpi  # type: ignore[union-attr]


def draw_group_tree(view: Any, tree: Any, cut: float, ax: Axes) -> Axes:
    """Draw the merges of clusters into groups: a leaf per cluster, closest merges on the left.

    Parameters
    ----------
    view : cavity.posterior.view.View
    tree : DataFrame
        As returned by ``Posterior.group_tree``.
    cut : float
        Overlap from which clusters are one group.
    ax : matplotlib axes
    """
    leaves = [k for k in range(view.n_clusters) if k != view.noise]
    if len(tree):
        leaves = list(_in_order(tree))
    place: dict[tuple[int, ...], float] = {(k,): float(row) for row, k in enumerate(leaves)}
    reach: dict[tuple[int, ...], float] = {(k,): 1.0 for k in leaves}
    for left, right, overlap, lower, upper in tree.iloc[:, :5].itertuples(index=False):
        # Means over different draws need not fall from merge to merge; a tree must.
        at = min(overlap, reach[left], reach[right])
        ends = [place[left], place[right]]
        ax.hlines(ends, [reach[left], reach[right]], at, color=style.INK, linewidth=1.2)
        ax.vlines(at, min(ends), max(ends), color=style.INK, linewidth=1.2)
        both = tuple(sorted(left + right))
        place[both], reach[both] = sum(ends) / 2.0, at
        ax.hlines(place[both], upper, lower, color=style.MUTED, linewidth=3.0, alpha=0.5)
    if len(leaves) > 1:
        root = tuple(sorted(leaves))
        ax.hlines(place[root], reach[root], 0.0, color=style.INK, linewidth=1.2)
    ax.axvline(cut, color=style.MUTED, linestyle="--", linewidth=1.0)
    for k in leaves:
        ax.plot(1.0, place[(k,)], marker=style.cluster_marker(k), color=style.cluster_colour(k))
    ax.set_yticks(range(len(leaves)), [f"cluster {k} ({view.sizes[k]:,})" for k in leaves])
    ax.set_xlim(1.02, -0.02)
    ax.set_ylim(len(leaves) - 0.5, -0.5)
    ax.set_xlabel("overlap at which clusters join")
    style.entitle(ax, "groups: clusters that join left of the dashed line")
    style.dress(ax)
    return ax


def _in_order(tree: Any) -> tuple[int, ...]:
    """Return the clusters such that no lines of the tree cross."""
    order: dict[tuple[int, ...], tuple[int, ...]] = {}
    both: tuple[int, ...] = ()
    for left, right in tree.iloc[:, :2].itertuples(index=False):
        both = tuple(sorted(left + right))
        order[both] = order.get(left, left) + order.get(right, right)
    return order[both]


def _tree(similarity: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Order of the leaves, lines of the tree, and the cluster of each line (-1: of several)."""
    from scipy.cluster.hierarchy import dendrogram, linkage
    from scipy.spatial.distance import squareform

    n = len(similarity)
    if n == 1:
        return np.zeros(1, int), np.empty((0, 4, 2)), []
    distance = np.clip(1.0 - np.asarray(similarity, float), 0.0, 1.0)
    tree = linkage(squareform(distance, checks=False), "average")
    owner = np.concatenate([labels, np.full(n - 1, -1)])
    for m, (a, b) in enumerate(tree[:, :2].astype(int)):
        owner[n + m] = owner[a] if owner[a] == owner[b] else -1
    # SciPy hands back, line by line, whatever text it is given for a node: its number.
    drawn = dendrogram(tree, no_plot=True, link_color_func=str, count_sort="descending")
    segments = np.stack([np.array(drawn["icoord"]), np.array(drawn["dcoord"])], axis=2)
    owners = [int(owner[int(node)]) for node in drawn["color_list"]]
    return np.array(drawn["leaves"]), segments, owners
