"""Figures of the report, with captions and alternative texts.

A wide picture comes twice: for a desk, and narrower, with larger letters, for a phone.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import numpy as np

from cavity.plotting import style
from cavity.report.markup import Figure, picture, probability
from cavity.utils.text import count, enumerate_words, plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

    from cavity.plotting.frame import Table
    from cavity.posterior.view import View

DESK, PHONE = 8.0, 4.4
# More would make the page heavy: points, and rows of a matrix, that show their names on hover.
POINTS_NAMED, ROWS_NAMED = 3_000, 400


def row_text(view: View, i: int) -> str:
    """Return the name of an observation, its cluster and its alternative.

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> p = Posterior.from_labels([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 1, 1]])
    >>> row_text(p.view(), 2)
    'observation 2: cluster 0 (0.67), or 1 (0.33)'
    """
    name = view.name(i) if view.posterior.names is not None else f"{view.noun} {view.name(i)}"
    k = view.cluster_name(int(view.labels[i]))
    own = k if k == "noise" else f"{view.posterior.level} {k}"
    text = f"{name}: {own} ({probability(float(view.probability[i]))})"
    other, chance = view.could_be(i)
    return f"{text}, or {other} ({probability(chance)})" if chance >= 0.005 else text


def _hover_points(view: View, figure: MatplotlibFigure) -> str:
    """Return where each observation was drawn, and its text, as JSON."""
    rows, places = style.places_of_rows(figure)
    if len(rows) > POINTS_NAMED:
        return ""
    used, at = np.unique(rows, return_inverse=True)
    texts = [row_text(view, int(i)) for i in used]
    return json.dumps({"at": places.round(4).tolist(), "of": at.tolist(), "text": texts})


def _hover_matrix(view: View, together: np.ndarray, figure: MatplotlibFigure) -> str:
    """Return a similarity matrix in hundredths, with its frame and rows, as JSON."""
    if len(together) > ROWS_NAMED or len(together) < view.n:
        return ""
    frame = figure.axes[0].get_window_extent().transformed(figure.transFigure.inverted())
    cells = np.rint(100.0 * together).astype(np.uint8)
    return json.dumps(
        {
            "frame": [frame.x0, 1.0 - frame.y1, frame.x1, 1.0 - frame.y0],
            "text": [row_text(view, int(i)) for i in view.order],
            "matrix": base64.b64encode(cells.tobytes()).decode("ascii"),
        }
    )


def data(view: View, table: Table, tab: str = "") -> Figure:
    """Show the observations, colored by cluster."""
    from cavity.plotting import scatter

    d = table.values.shape[1]
    kind = scatter.choose_kind("auto", d)

    def _draw(width: float, legend: str) -> MatplotlibFigure:
        if kind == "pairs":
            figure = style.page_figure(width, width)
            scatter.draw_pairs(view, table, scatter.pair_axes(figure, d))
        elif kind == "strip":
            figure = style.page_figure(width, 3.8)
            scatter.draw_strip(view, table, figure.subplots(), legend=legend)
        else:
            figure = style.page_figure(width, 5.2)
            scatter.draw_plane(view, table, figure.subplots(), project=kind == "pca", legend=legend)
        return figure

    shows = {
        "pairs": f"All pairs of the {d} columns",
        "strip": f"Histogram of {table.names[0]} by cluster, over the points themselves",
        "pca": f"The {d} columns, standardized, projected on their first two principal components",
        "scatter": f"{table.names[0]} against {table.names[-1]}",
    }[kind]
    caption = (
        f"{shows}. Colors and markers show {plural(view.posterior.level)}. Fainter points are less "
        "certain, and points in doubt are ringed."
    )
    alt = (
        f"{shows}; {count(view.n, view.noun)} in {count(view.n_proper, 'cluster')}, "
        f"{len(view.in_doubt):,} in doubt."
    )
    narrow = _draw(6.0 if kind == "pairs" else PHONE, "below")
    figure = _draw(DESK, "right")
    return picture(
        figure, alt, caption, wide=True, narrow=narrow, tab=tab,
        hover=lambda: _hover_points(view, figure),
    )  # fmt: skip


def groups(view: View) -> Figure:
    """Overlaps at which clusters merge into groups."""
    from cavity.plotting.dendrogram import draw_group_tree
    from cavity.posterior.groups import CUT

    tree = view.posterior.group_tree(view.labels)
    figure = style.page_figure(DESK, 1.2 + 0.28 * view.n_clusters)
    draw_group_tree(view, tree, CUT, figure.subplots())
    n_groups = view.posterior.groups().view().n_proper
    return picture(
        figure,
        f"Tree of {count(view.n_proper, 'cluster')} in {count(n_groups, 'group')}.",
        "Overlap at which clusters join, averaged over draws; gray bars are 95% intervals. "
        "Clusters that join left of the dashed line are one group.",
        wide=True,
    )


def certainty(view: View) -> Figure:
    """Certainty of each observation."""
    from cavity.plotting.partition import draw_certainty

    def _draw(width: float) -> MatplotlibFigure:
        figure = style.page_figure(width, 3.2)
        draw_certainty(view, figure.subplots())
        return figure

    return picture(
        _draw(DESK),
        f"Certainty of each {view.noun}, cluster by cluster; mean {view.certainty.mean():.2f}.",
        f"Certainty: the probability that the {view.noun} shares its cluster with a random other "
        "member. Bars that stay high mean a clear cluster; a long slope means a blurred "
        f"edge. Ticks above mark the {plural(view.noun)} in doubt.",
        wide=True,
        narrow=_draw(PHONE),
    )


def similarity(view: View) -> Figure:
    """Similarity matrix."""
    from cavity.plotting.partition import draw_similarity

    figure = style.page_figure(5.0, 4.5)
    together = view.similarity_picture()
    draw_similarity(view, together, figure.subplots())
    return picture(
        figure,
        f"Similarity matrix of {count(view.n, view.noun)}, "
        f"{count(view.n_proper, 'cluster')} along its diagonal.",
        f"Each cell is the probability that two {plural(view.noun)} share a cluster. Outlines are "
        "the estimated clusters. Dark cells outside them: two clusters sometimes merge; pale cells "
        "inside: a cluster sometimes splits.",
        hover=lambda: _hover_matrix(view, together, figure),
    )


def dendrogram(view: View) -> Figure:
    """Dendrogram."""
    from cavity.plotting.dendrogram import choose_leaves, draw_dendrogram
    from cavity.posterior.similarity import similarity

    leaves = choose_leaves(view.labels)
    together = similarity(view.posterior.flat_labels[:, leaves])

    def _draw(width: float, legend: str) -> MatplotlibFigure:
        figure = style.page_figure(width, 3.8)
        draw_dendrogram(view, leaves, together, figure.subplots(), legend=legend)
        return figure

    return picture(
        _draw(DESK, "right"),
        f"Tree of {count(len(leaves), view.noun)} by the probability of different clusters.",
        f"Two {plural(view.noun)} or branches join at the mean probability that they are "
        "in different clusters (average linkage). Lines and leaves have the color of their "
        "cluster of the point estimate; gray lines join different clusters.",
        wide=True,
        narrow=_draw(PHONE, "below"),
    )


def number(view: View) -> Figure:
    """Number of clusters."""
    from cavity.plotting.partition import draw_n_clusters

    figure = style.page_figure(5.0, 4.0)
    likely = view.number
    draw_n_clusters(likely, view.n_proper, figure.subplots())
    return picture(
        figure,
        f"Posterior of the number of clusters; most probable {likely.idxmax()} "
        f"with {likely.max():.2f}.",
        "Number of clusters in the draws. The triangle marks the point estimate, "
        "which need not have the most probable number.",
    )


def trace(view: View) -> Figure:
    """Traces of the chains."""
    from cavity.plotting.partition import draw_trace
    from cavity.posterior.convergence import label_free
    from cavity.posterior.plots import USUAL

    known = {k: v for k, v in label_free(view.posterior).items() if k in USUAL}

    def _draw(width: float) -> MatplotlibFigure:
        figure = style.page_figure(width, 0.8 + 1.6 * len(known))
        axes = figure.subplots(len(known), 1, sharex=True, squeeze=False)[:, 0]
        draw_trace(known, list(axes))
        return figure

    return picture(
        _draw(DESK),
        f"Traces of {enumerate_words(list(known))} along "
        f"{count(view.posterior.n_chains, 'chain')}.",
        "Each line is a chain. Chains that agree overlap and look alike; one that stays apart, or "
        "drifts, has not converged.",
        wide=True,
        narrow=_draw(PHONE),
    )
