"""Plotting methods of `Posterior`; matplotlib is imported when one is called.

Each takes optional axes and returns those it drew on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cavity.posterior.convergence import label_free
from cavity.posterior.groups import CUT
from cavity.posterior.view import THRESHOLD

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes

    from cavity.posterior.posterior import Posterior

USUAL = ("log joint", "number of clusters", "largest cluster")


def plot_similarity(self: Posterior, partition: Any = None, *, ax: Any = None) -> Axes:
    """Show how often each two observations share a cluster, ordered by the point estimate.

    Parameters
    ----------
    partition : Partition or labels, optional
        Clusters that order the observations; the point estimate by default.
    ax : matplotlib axes, optional

    Notes
    -----
    Within a cluster the most certain observations come first. Above 1,000 observations each
    pixel is the mean over a square of pairs, and a note on the picture says so.

    Examples
    --------
    >>> from cavity import Posterior
    >>> p = Posterior.from_labels([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]])
    >>> p.plot_similarity().get_xlabel()
    'observation, by cluster'
    """
    from cavity.plotting import style
    from cavity.plotting.partition import draw_similarity

    view = self.view(partition)
    ax = style.one_axes(ax, 5.4, 4.8)
    return draw_similarity(view, view.similarity_picture(), ax)


def plot_dendrogram(self: Posterior, partition: Any = None, *, ax: Any = None) -> Axes:
    """Show which observations join first: average linkage of one minus the similarity.

    Parameters
    ----------
    partition : Partition or labels, optional
        Clusters that color the leaves; the point estimate by default.
    ax : matplotlib axes, optional

    Notes
    -----
    A line has a cluster's color where all leaves below it are of that cluster. Above 300
    observations the tree is that of a random sample of each cluster, in proportion to its
    size, and the picture says so. Up to 60 leaves have their names.

    Examples
    --------
    >>> from cavity import Posterior
    >>> p = Posterior.from_labels([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]])
    >>> p.plot_dendrogram().get_ylabel()
    'probability of different clusters'
    """
    from cavity.plotting import style
    from cavity.plotting.dendrogram import choose_leaves, draw_dendrogram
    from cavity.posterior.similarity import similarity

    view = self.view(partition)
    ax = style.one_axes(ax, 8.0, 4.2)
    leaves = choose_leaves(view.labels)
    return draw_dendrogram(view, leaves, similarity(self.flat_labels[:, leaves]), ax)


def plot_group_tree(
    self: Posterior, partition: Any = None, *, overlap: float = CUT, ax: Any = None
) -> Axes:
    """Show at which overlap clusters join into groups, with 95% intervals.

    Parameters
    ----------
    partition : Partition or labels, optional
        Clusters to show; the point estimate by default.
    overlap : float
        Cut to mark: clusters that join to its left are one group.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import Posterior
    >>> known = {"overlap": np.array([[[1.0, 0.9], [0.9, 1.0]]]), "overlap_draws": [0]}
    >>> p = Posterior.from_labels([[0, 0, 1, 1]], summaries=known)
    >>> p.plot_group_tree().get_xlabel()
    'overlap at which clusters join'
    """
    from cavity.plotting import style
    from cavity.plotting.dendrogram import draw_group_tree

    view = self.view(partition)
    ax = style.one_axes(ax, 6.4, 1.2 + 0.28 * view.n_clusters)
    return draw_group_tree(view, self.group_tree(partition, overlap=overlap), overlap, ax)


def plot_trace(
    self: Posterior, quantities: Sequence[str] | None = None, *, ax: Any = None
) -> np.ndarray:
    """Follow label-free quantities along each chain.

    Parameters
    ----------
    quantities : sequence of str, optional
        Of "log joint", "number of clusters", "largest cluster", "entropy of sizes" and the
        names of scalar parameters. By default the first three, as far as they were kept.
    ax : matplotlib axes or sequence of them, optional
        As many as there are quantities; a single one shows the first quantity.

    Returns
    -------
    array of matplotlib axes

    Examples
    --------
    >>> from cavity import Posterior
    >>> p = Posterior.from_labels([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]])
    >>> [ax.get_ylabel() for ax in p.plot_trace()]
    ['number of clusters', 'largest cluster']
    """
    from cavity.plotting import style
    from cavity.plotting.partition import draw_trace

    known = label_free(self)
    if quantities is None:
        quantities = [name for name in USUAL if name in known]
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


def plot_n_clusters(self: Posterior, partition: Any = None, *, ax: Any = None) -> Axes:
    """Show the posterior of the number of occupied clusters, the estimate's number marked.

    Parameters
    ----------
    partition : Partition or labels, optional
        The point estimate by default.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from cavity import Posterior
    >>> p = Posterior.from_labels([[0, 0, 0, 1, 1], [0, 0, 1, 1, 2]])
    >>> [float(bar.get_height()) for bar in p.plot_n_clusters().patches]
    [0.5, 0.5]
    """
    from cavity.plotting import style
    from cavity.plotting.partition import draw_n_clusters

    view = self.view(partition)
    ax = style.one_axes(ax, 5.0, 3.2)
    return draw_n_clusters(view.number, view.n_proper, ax)


def plot_certainty(
    self: Posterior, partition: Any = None, *, threshold: float = THRESHOLD, ax: Any = None
) -> Axes:
    """Show how sure the posterior is of each observation, cluster by cluster.

    Parameters
    ----------
    partition : Partition or labels, optional
        The point estimate by default.
    threshold : float
        Which observations are marked as doubtful: see `doubtful`.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from cavity import Posterior
    >>> p = Posterior.from_labels([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]])
    >>> p.plot_certainty().get_ylabel()
    'certainty'
    """
    from cavity.plotting import style
    from cavity.plotting.partition import draw_certainty

    view = self.view(partition, threshold)
    return draw_certainty(view, style.one_axes(ax, 7.0, 3.2))


def plot_clusters(
    self: Posterior,
    X: Any,
    partition: Any = None,
    *,
    feature_names: Sequence[Any] | None = None,
    kind: str = "auto",
    threshold: float = THRESHOLD,
    ax: Any = None,
) -> Any:
    """Draw the data, colored by cluster; the less certain a point, the more transparent.

    Parameters
    ----------
    X : array or DataFrame, shape (n, columns)
        The data that was clustered.
    partition : Partition or labels, optional
        The point estimate by default.
    feature_names : sequence, optional
        Names of the columns; those of a DataFrame by default.
    kind : {"auto", "strip", "scatter", "pairs", "pca"}
        By default: a histogram with a strip of points for one column, a scatter for two, all
        pairs for three or four, and the first two principal components of the standardised
        columns for more, or where `ax` is a single axes.
    threshold : float
        Which observations are ringed as doubtful: see `doubtful`.
    ax : matplotlib axes, optional
        For pairs of d columns, (d - 1) × (d - 1) of them.

    Returns
    -------
    matplotlib axes, or for pairs an array of them
        Row r, column c of the array shows column r + 1 against column c.

    Notes
    -----
    Values that lie so far out that they would squeeze all others are drawn as small triangles
    at the edge of the frame. Above 20,000 observations a random 20,000 are drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import Posterior
    >>> p = Posterior.from_labels([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]])
    >>> X = np.array([[0, 0], [0, 1], [2, 2], [4, 4], [4, 5]])
    >>> ax = p.plot_clusters(X, feature_names=["length", "width"])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('length', 'width')
    """
    from cavity.plotting import scatter
    from cavity.plotting.frame import as_table

    table = as_table(X, self.n_observations, feature_names)
    return scatter.plot_clusters(self.view(partition, threshold), table, kind=kind, ax=ax)
