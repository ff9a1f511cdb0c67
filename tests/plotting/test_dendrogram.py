"""The tree: right heights, right colours, honest samples."""

from __future__ import annotations

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from report_cases import posterior

from cavity.plotting import style
from cavity.plotting.dendrogram import LEAVES_MAX, choose_leaves
from cavity.posterior import Posterior


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def tree(ax):
    return next(c for c in ax.collections if c.get_gid() == "tree")


def test_heights_are_average_linkage_of_one_minus_similarity():
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    p = posterior(np.arange(24) % 3, doubtful=(3, 4, 10))
    ax = p.plot_dendrogram()
    heights = [path.vertices[:, 1].max() for path in tree(ax).get_paths()]
    expected = linkage(squareform(1 - p.similarity().astype(float), checks=False), "average")
    np.testing.assert_allclose(np.sort(heights), np.sort(expected[:, 2]), atol=1e-6)


def test_leaves_stand_in_the_tree_s_order_in_their_cluster_s_colour():
    p = posterior(np.arange(24) % 3, doubtful=(3,), names=[f"site {i}" for i in range(24)])
    ax = p.plot_dendrogram()
    names = [t.get_text() for t in ax.get_xticklabels()]
    labels = p.partition().labels
    assert sorted(names) == sorted(f"site {i}" for i in range(24))
    for line in ax.lines:
        k = int(line.get_gid().split()[1])
        assert line.get_color() == style.cluster_colour(k)
        for x in line.get_xdata():
            assert labels[int(names[round((x - 5) / 10)].split()[1])] == k


def test_names_that_have_no_room_are_left_out():
    p = posterior(np.arange(40) % 3)
    wide, narrow = style.page_figure(8, 4).subplots(), style.page_figure(3, 4).subplots()
    assert len(p.plot_dendrogram(ax=wide).get_xticklabels()) == 40
    assert len(p.plot_dendrogram(ax=narrow).get_xticklabels()) == 0
    many = posterior(np.arange(90) % 3)
    assert len(many.plot_dendrogram().get_xticklabels()) == 0


def test_lines_of_one_cluster_have_its_colour_and_others_are_grey():
    p = Posterior.from_labels([[0, 0, 0, 1, 1]] * 3 + [[0, 0, 0, 0, 0]])
    ax = p.plot_dendrogram([0, 0, 0, 1, 1])
    colours = [mpl.colors.to_hex(c) for c in tree(ax).get_colors()]
    expected = [style.cluster_colour(0)] * 2 + [style.cluster_colour(1), style.MUTED]
    assert sorted(c.lower() for c in colours) == sorted(c.lower() for c in expected)


def test_many_observations_are_sampled_and_it_is_said():
    truth = np.repeat([0, 1, 2], [3000, 1990, 10])
    p = posterior(truth, n_chains=1, n_draws=4)
    ax = p.plot_dendrogram()
    assert sum(len(line.get_xdata()) for line in ax.lines) == LEAVES_MAX
    assert "300 of 5,000 rows" in ax.get_xlabel()
    leaves = choose_leaves(truth)
    assert len(set(leaves.tolist())) == LEAVES_MAX
    counts = np.bincount(truth[leaves])
    np.testing.assert_allclose(counts, [180, 119.4, 0.6], atol=1.5)
    assert counts.min() >= 1
    np.testing.assert_array_equal(leaves, choose_leaves(truth))


def test_more_clusters_than_leaves_are_sampled_from_all():
    p = Posterior.from_labels(np.tile(np.arange(400), (3, 1)))
    assert "a random sample of all: 300 of 400" in p.plot_dendrogram().get_xlabel()
    few = Posterior.from_labels([[0, 0, 1]])
    assert few.plot_dendrogram().get_xlabel() == "observation"
