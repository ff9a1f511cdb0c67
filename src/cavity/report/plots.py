"""Pictures of a posterior over partitions.

Every function takes a `Posterior` and optional matplotlib axes, and returns the axes it drew on.
The same functions are methods of `Posterior`. Clusters have the numbers of the point estimate, 0
the largest, and the same colour and marker in every picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.report import style
from cavity.report._aggregate import cell_similarity, similarity_order
from cavity.report.scatter import plot_clusters
from cavity.report.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cavity.posterior import Posterior

__all__ = [
    "plot_certainty",
    "plot_clusters",
    "plot_n_clusters",
    "plot_similarity",
    "plot_trace",
]

EXACT_MAX = 1_000
CELLS = 800
LABEL_INCHES = {"x": 0.22, "y": 0.14}
BLOCKS_MAX = 100
STEPS = 1_000
MANY = 5_000


def plot_similarity(posterior: Posterior, partition: Any = None, *, ax: Any = None) -> Axes:
    """Show how often each two observations share a cluster, ordered by the point estimate.

    Parameters
    ----------
    posterior : Posterior
    partition : Partition or labels, optional
        Clusters that order the observations; the VI estimate by default.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Notes
    -----
    Within a cluster the most certain observations come first. Above 1,000 observations each pixel
    is the mean over a rectangle of pairs, and a note on the picture says so.

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> p = Posterior.from_labels([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]])
    >>> ax = plot_similarity(p)
    >>> ax.get_xlabel()
    'observation, by cluster'
    """
    return draw_similarity(View.of(posterior, partition), style.one_axes(ax, 5.4, 4.8))


def draw_similarity(view: View, ax: Axes) -> Axes:
    """Draw `plot_similarity` from a view."""
    n = view.n
    order = similarity_order(view.labels, view.certainty)
    if n <= EXACT_MAX:
        picture = view.posterior.similarity()[np.ix_(order, order)]
    else:
        picture = cell_similarity(view.posterior.flat_labels, order, CELLS)
    image = ax.imshow(
        picture,
        cmap="Blues",
        vmin=0.0,
        vmax=1.0,
        extent=(0, n, n, 0),
        interpolation="nearest" if n <= EXACT_MAX else "antialiased",
        rasterized=True,
    )
    bounds = np.concatenate([[0], np.cumsum(view.sizes)])
    _mark_blocks(ax, bounds)
    style.dress(ax)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    ax.set_xlabel("observation, by cluster")
    ax.set_ylabel("cluster")
    _name_clusters(ax, bounds, "y")
    style.whole_numbers(ax, "x", 5)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8, pad=0.02)
    bar.set_label("probability of sharing a cluster", fontsize=style.BODY, color=style.INK)
    bar.ax.tick_params(labelsize=style.SMALL, colors=style.MUTED, labelcolor=style.INK)
    bar.outline.set_visible(False)
    style.entitle(ax, "Which observations belong together")
    if n > EXACT_MAX:
        width = n / CELLS
        ax.text(
            1.0,
            -0.14,
            f"{n:,} observations; each pixel is a mean over {width:.3g} × {width:.3g} pairs",
            transform=ax.transAxes,
            ha="right",
            va="top",
            fontsize=style.SMALL,
            color=style.MUTED,
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


def _name_clusters(ax: Axes, bounds: np.ndarray, axis: str) -> None:
    """Write the clusters' numbers along an axis, as many as have room."""
    box = ax.get_window_extent()
    inches = (box.width if axis == "x" else box.height) / ax.get_figure(root=True).dpi  # type: ignore[union-attr]
    pitch = LABEL_INCHES[axis] / max(inches, 0.1) * bounds[-1]
    middles = 0.5 * (bounds[:-1] + bounds[1:])
    chosen: list[int] = []
    for k, middle in enumerate(middles):
        if not chosen or middle - middles[chosen[-1]] >= pitch:
            chosen.append(k)
    ticks, names = middles[chosen], [str(k) for k in chosen]
    if axis == "x":
        ax.set_xticks(ticks, names)
    else:
        ax.set_yticks(ticks, names)
    ax.tick_params(axis=axis, length=0)  # type: ignore[arg-type]


def trace_quantities(posterior: Posterior) -> dict[str, np.ndarray]:
    """Quantities that relabelling cannot change, each of shape (chain, draw)."""
    found: dict[str, np.ndarray] = {}
    if posterior.log_joint is not None:
        found["log joint"] = posterior.log_joint
    found["number of clusters"] = posterior.n_clusters
    found["largest cluster"] = posterior.largest_cluster
    found["entropy of sizes"] = posterior.size_entropy
    for name, values in posterior.parameters.items():
        if name not in posterior.cluster_parameters and values.ndim == 2:
            found[name] = values
    return found


def plot_trace(
    posterior: Posterior, quantities: Sequence[str] | None = None, *, ax: Any = None
) -> np.ndarray:
    """Follow label-free quantities along each chain.

    Parameters
    ----------
    posterior : Posterior
    quantities : sequence of str, optional
        Of "log joint", "number of clusters", "largest cluster", "entropy of sizes" and the names
        of scalar parameters. By default the first three, as far as they were kept.
    ax : matplotlib axes or sequence of them, optional
        As many as there are quantities; a single one shows the first quantity.

    Returns
    -------
    array of matplotlib axes

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> p = Posterior.from_labels([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]])
    >>> [ax.get_ylabel() for ax in plot_trace(p)]
    ['number of clusters', 'largest cluster']
    """
    known = trace_quantities(posterior)
    if quantities is None:
        usual = ("log joint", "number of clusters", "largest cluster")
        quantities = [name for name in usual if name in known]
    elif isinstance(quantities, str):
        quantities = [quantities]
    for name in quantities:
        if name not in known:
            raise ValueError(f"quantity {name!r} is not known; there are: {', '.join(known)}")
    if not quantities:
        raise ValueError("quantities must name at least one quantity")
    if ax is None:
        figure = style.new_figure(7.0, 0.6 + 1.7 * len(quantities))
        axes = list(figure.subplots(len(quantities), 1, sharex=True, squeeze=False)[:, 0])
    else:
        axes = style.as_axes(ax)
        if len(axes) == 1:
            quantities = list(quantities)[:1]
        if len(axes) != len(quantities):
            raise ValueError(
                f"ax has {len(axes)} axes for {len(quantities)} quantities: {', '.join(quantities)}"
            )
    return draw_trace({name: known[name] for name in quantities}, axes)


def draw_trace(quantities: dict[str, np.ndarray], axes: Sequence[Axes]) -> np.ndarray:
    """Draw one trace per axes."""
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
        axes[-1].legend(
            handles,
            names,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.38),
            ncols=min(len(handles), 4),
            fontsize=style.SMALL,
            frameon=False,
            borderaxespad=0.0,
        )
    result = np.empty(len(axes), object)
    result[:] = list(axes)
    return result


def plot_n_clusters(posterior: Posterior, partition: Any = None, *, ax: Any = None) -> Axes:
    """Show the posterior of the number of occupied clusters, the estimate's number marked.

    Parameters
    ----------
    posterior : Posterior
    partition : Partition or labels, optional
        The VI estimate by default.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> p = Posterior.from_labels([[0, 0, 0, 1, 1], [0, 0, 1, 1, 2]])
    >>> [float(bar.get_height()) for bar in plot_n_clusters(p).patches]
    [0.5, 0.5]
    """
    n_estimate = len(np.unique(posterior._estimate(partition)))
    return draw_n_clusters(posterior, n_estimate, style.one_axes(ax, 5.0, 3.2))


def draw_n_clusters(posterior: Posterior, n_estimate: int, ax: Axes) -> Axes:
    """Draw `plot_n_clusters` for an estimate with a given number of clusters."""
    probability = posterior.n_clusters_posterior()
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
    ax.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        borderaxespad=0.2,
        fontsize=style.SMALL,
        frameon=False,
    )
    style.entitle(ax, "How many clusters")
    return ax


def plot_certainty(
    posterior: Posterior, partition: Any = None, *, threshold: float = 0.8, ax: Any = None
) -> Axes:
    """Show how sure the posterior is of each observation, cluster by cluster.

    Parameters
    ----------
    posterior : Posterior
    partition : Partition or labels, optional
        The VI estimate by default.
    threshold : float
        Which observations are marked as doubtful: see `Posterior.doubtful`.
    ax : matplotlib axes, optional

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> p = Posterior.from_labels([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]])
    >>> plot_certainty(p).get_ylabel()
    'certainty'
    """
    view = View.of(posterior, partition, threshold)
    return draw_certainty(view, style.one_axes(ax, 7.0, 3.2))


def draw_certainty(view: View, ax: Axes) -> Axes:
    """Draw `plot_certainty` from a view."""
    n = view.n
    order = similarity_order(view.labels, view.certainty)
    bounds = np.concatenate([[0], np.cumsum(view.sizes)])
    height = view.certainty[order]
    # So many clusters that none has a visible width are drawn as one.
    parts = bounds if view.n_clusters <= BLOCKS_MAX else bounds[[0, -1]]
    for k, (low, high) in enumerate(pairwise(parts)):
        edges, heights = _steps(height[low:high], low)
        ax.stairs(
            heights,
            edges,
            fill=True,
            color=style.cluster_colour(k),
            linewidth=0,
            rasterized=n > MANY,
        )
    _mark_doubtful(ax, view, order)
    if view.n_clusters <= BLOCKS_MAX:
        ax.vlines(bounds, 0.0, 1.0, color="white", linewidth=0.8)
    style.dress(ax, grid="y")
    _name_clusters(ax, bounds, "x")
    ax.set_xlim(0, n)
    ax.set_ylim(0.0, 1.1)
    ax.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0])
    ax.set_xlabel("cluster (its observations, the most certain first)")
    ax.set_ylabel("certainty")
    style.entitle(ax, "How sure of each observation")
    return ax


def _steps(values: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges and heights of one cluster's steps; many observations are averaged in groups."""
    groups = np.array_split(values, min(len(values), STEPS))
    edges = start + np.concatenate([[0], np.cumsum([len(g) for g in groups])])
    return edges, np.array([g.mean() for g in groups])


def _mark_doubtful(ax: Axes, view: View, order: np.ndarray) -> None:
    """Mark the doubtful above their bars: a row of ticks just over certainty one."""
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
    ax.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        borderaxespad=0.2,
        fontsize=style.SMALL,
        frameon=False,
    )
