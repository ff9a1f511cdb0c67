"""Pictures hold what they should: checked by their parts, not by their pixels."""

from __future__ import annotations

import warnings

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from report_cases import blobs, posterior

from cavity.plotting import style
from cavity.posterior import Posterior, similarity, view
from cavity.posterior.draws import evenly

DOUBTFUL = (3, 4, 10)


@pytest.fixture(autouse=True)
def _no_leaks():
    settings = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == settings


@pytest.fixture(scope="module")
def three():
    return posterior(blobs(60, 3, 2)[1], doubtful=DOUBTFUL)


def on_page(draw, *args):
    """Draw on a figure that pyplot does not know, and render it."""
    figure = style.page_figure(5, 4)
    result = draw(*args, ax=figure.subplots())
    figure.canvas.draw()
    return result


def test_similarity_is_the_matrix_in_the_order_of_the_clusters(three):
    ax = three.plot_similarity()
    image = np.asarray(ax.get_images()[0].get_array())
    labels = three.partition().labels
    order = np.lexsort((-three.observations()["certainty"].to_numpy(), labels))
    np.testing.assert_array_equal(image, three.similarity()[np.ix_(order, order)])
    blocks = next(c for c in ax.collections if c.get_gid() == "blocks")
    corners = [path.get_extents() for path in blocks.get_paths()]
    assert [(c.x0, c.width) for c in corners] == [(0, 20), (20, 20), (40, 20)]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["0", "1", "2"]
    assert "probability" in ax.figure.axes[-1].get_ylabel()


def test_cells_are_means_of_the_full_matrix():
    """The similarity equals the obvious way, with few and with many clusters."""
    rng = np.random.default_rng(0)
    for k in (3, 40):
        flat = rng.integers(k, size=(7, 53))
        order = rng.permutation(53)
        full = Posterior.from_labels(flat).similarity()[np.ix_(order, order)].astype(float)
        cell = np.arange(53) * 10 // 53
        slow = [[full[np.ix_(cell == a, cell == b)].mean() for b in range(10)] for a in range(10)]
        fast = similarity.cell_similarity(flat, order, 10)
        np.testing.assert_allclose(fast, slow, atol=1e-6)
        # A wrong order is noticed.
        other = similarity.cell_similarity(flat, np.arange(53), 10)
        assert np.abs(other - slow).max() > 1e-3


def test_draws_are_thinned_evenly_only_beyond_the_limit():
    flat = np.arange(20).reshape(10, 2)
    assert evenly(flat, 10) is flat
    np.testing.assert_array_equal(evenly(flat, 3), flat[[0, 4, 9]])


def test_large_similarity_says_that_it_is_averaged():
    truth = np.arange(20_000) % 4
    p = posterior(truth, n_draws=5, doubtful=np.arange(0, 20_000, 40))
    ax = p.plot_similarity()
    assert ax.get_images()[0].get_array().shape == (view.CELLS, view.CELLS)
    note = [t.get_text() for t in ax.texts]
    assert any("20,000 rows" in text and "25 × 25" in text for text in note)


def test_trace_has_a_line_per_chain_and_quantity(three):
    axes = three.plot_trace()
    assert [ax.get_ylabel() for ax in axes] == [
        "log joint",
        "number of clusters",
        "largest cluster",
    ]
    for ax, values in zip(
        axes, (three.log_joint, three.n_occupied, three.largest_cluster), strict=True
    ):
        drawn = np.array([line.get_ydata() for line in ax.lines])
        np.testing.assert_array_equal(drawn, values)
    names = [t.get_text() for t in axes[-1].get_legend().get_texts()]
    assert names == ["chain 0", "chain 1"]


def test_trace_of_chosen_quantities(three):
    axes = three.plot_trace(["df", "entropy of sizes"])
    np.testing.assert_array_equal(axes[0].lines[1].get_ydata(), three.parameters["df"][1])
    one = on_page(three.plot_trace, "df")
    assert len(one) == 1
    assert one[0].get_ylabel() == "df"
    with pytest.raises(ValueError, match="'phi' is not known; there are: log joint"):
        three.plot_trace(["phi"])
    with pytest.raises(ValueError, match="2 axes for 3 quantities"):
        three.plot_trace(ax=style.page_figure(4, 4).subplots(2))
    with pytest.raises(ValueError, match="at least one"):
        three.plot_trace([])


def test_number_of_clusters_is_its_posterior():
    p = Posterior.from_labels([[0, 0, 1], [0, 0, 1], [0, 0, 1], [0, 1, 2]])
    ax = p.plot_n_clusters()
    heights = {round(b.get_x() + b.get_width() / 2): b.get_height() for b in ax.patches}
    assert heights == {2: 0.75, 3: 0.25}
    assert [t.get_text() for t in ax.texts] == ["0.75", "0.25"]
    assert ax.get_legend().get_texts()[0].get_text() == "point estimate: 2"
    assert p.plot_n_clusters([0, 0, 0]).lines[0].get_xdata()[0] == 1


def test_certainty_shows_each_observation_and_marks_the_doubtful(three):
    ax = three.plot_certainty()
    frame = three.observations()
    for k, patch in enumerate(ax.patches):
        heights = patch.get_data().values
        own = np.sort(frame["certainty"][frame["cluster"] == k])[::-1]
        np.testing.assert_allclose(heights, own)
        assert patch.get_facecolor() == mpl.colors.to_rgba(style.cluster_colour(k))
    assert len(ax.lines[0].get_xdata()) == len(three.doubtful()) == 3
    assert ax.get_legend().get_texts()[0].get_text() == "3 in doubt"
    with pytest.raises(ValueError, match="threshold must lie in"):
        three.plot_certainty(threshold=1.5)


def test_pictures_are_methods_that_take_axes(three):
    X = blobs(60, 3, 2)[0]
    figure = style.page_figure(6, 6)
    for method, arguments in (
        (three.plot_similarity, ()),
        (three.plot_n_clusters, ()),
        (three.plot_certainty, ()),
        (three.plot_clusters, (X,)),
    ):
        ax = figure.add_subplot()
        assert method(*arguments, ax=ax) is ax
    assert three.plot_trace("df", ax=ax)[0] is ax
    assert plt.get_fignums() == []
    with pytest.raises(TypeError, match="ax must be matplotlib axes; got str"):
        three.plot_similarity(ax="here")
    with pytest.raises(ValueError, match="needs one axes; got 4"):
        three.plot_certainty(ax=figure.subplots(2, 2))


EXTREMES = {
    "one draw": np.zeros((1, 1, 5), int),
    "one cluster": np.zeros((2, 10, 25), int),
    "all singletons": np.tile(np.arange(30), (2, 10, 1)),
    "one observation": np.zeros((1, 1, 1), int),
    "many singletons": np.tile(np.arange(1_500), (1, 3, 1)),
}


@pytest.mark.variants("slow", "many singletons", "all singletons")
@pytest.mark.parametrize("case", EXTREMES)
def test_extreme_posteriors_are_drawn(case):
    p = Posterior.from_labels(EXTREMES[case])
    X = np.random.default_rng(0).normal(size=(p.n_observations, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for draw in (p.plot_similarity, p.plot_n_clusters, p.plot_certainty, p.plot_dendrogram):
            on_page(draw)
        on_page(p.plot_clusters, X)
        on_page(p.plot_trace)


def test_each_cluster_looks_its_own():
    looks = {(style.cluster_colour(k), style.cluster_marker(k)) for k in range(96)}
    assert len(looks) == 96
    assert len({style.cluster_colour(k) for k in range(8)}) == 8
