"""Groups: overlaps of clusters, merges within draws, and the words about them."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from cavity import Posterior
from cavity.posterior import groups
from cavity.posterior.groups import (
    OVERLAP,
    OVERLAP_DRAWS,
    affinities,
    bridge,
    differ,
    group_words,
    join_levels,
    overlaps,
)
from cavity.posterior.record import RunRecord
from cavity.posterior.summary import limit_words, observation_table


def densities(x, means, spreads, weights):
    return np.array(
        [
            np.log(w) + stats.norm.logpdf(x, m, s)
            for m, s, w in zip(means, spreads, weights, strict=True)
        ]
    )


def sampled(n, means, spreads, weights, seed=0):
    """Rows at even quantiles of each component: integrals without sampling error."""
    x = np.concatenate(
        [
            stats.norm.ppf((np.arange(round(n * w)) + 0.5) / round(n * w), m, s)
            for m, s, w in zip(means, spreads, weights, strict=True)
        ]
    )
    return x, densities(x, means, spreads, weights)


@pytest.mark.parametrize(("distance", "spread"), [(1.0, 1.0), (3.0, 1.0), (4.0, 2.5)])
def test_affinity_is_the_integral_of_the_root_of_two_densities(distance, spread):
    means, spreads, weights = (0.0, distance), (1.0, spread), (0.7, 0.3)
    _, scores = sampled(40_000, means, spreads, weights)
    found = affinities(groups.responsibilities(scores), np.ones(scores.shape[1]))

    def root(x):
        return np.sqrt(stats.norm.pdf(x, 0.0, 1.0) * stats.norm.pdf(x, distance, spread))

    expected = integrate.quad(root, -30.0, 30.0)[0]
    assert found[0, 1] == pytest.approx(expected, abs=0.003)
    assert np.diag(found) == pytest.approx(1.0)


@pytest.mark.parametrize("distance", [2.5, 3.5, 5.0])
def test_overlap_is_the_share_of_rows_halfway(distance):
    """For equal spreads the log ratio is linear, so windows are intervals of x."""
    means, spreads, weights = (0.0, distance), (1.0, 1.0), (0.5, 0.5)
    _, scores = sampled(40_000, means, spreads, weights)

    def mass(center):
        low, high = center - distance / 6.0, center + distance / 6.0
        return sum(0.5 * (stats.norm.cdf(high, m) - stats.norm.cdf(low, m)) for m in means)

    expected = min(1.0, mass(0.5 * distance) / mass(0.0))
    found = overlaps(scores)[0, 1]
    if affinities(groups.responsibilities(scores), np.ones(40_000))[0, 1] < 0.05:
        expected = 0.0
    assert found == pytest.approx(expected, abs=0.02)


def test_a_log_ratio_and_a_line_agree_where_it_is_linear():
    x, scores = sampled(4_000, (0.0, 3.0), (1.0, 1.0), (0.5, 0.5))

    def line(first, second):
        centers = np.array([0.0, 3.0])
        return (x - centers[first, None]) / (centers[second] - centers[first])[:, None]

    assert overlaps(scores)[0, 1] == pytest.approx(overlaps(scores, None, line)[0, 1], abs=0.02)


def test_order_of_clusters_and_of_rows_and_units_change_nothing():
    means, spreads, weights = (0.0, 3.0, 9.0, 12.0), (1.0, 1.5, 1.0, 0.5), (0.4, 0.2, 0.3, 0.1)
    x, scores = sampled(2_000, means, spreads, weights)
    found = overlaps(scores)
    rng = np.random.default_rng(1)
    clusters, rows = rng.permutation(4), rng.permutation(x.size)
    moved = overlaps(scores[clusters][:, rows])
    np.testing.assert_allclose(moved, found[np.ix_(clusters, clusters)], atol=1e-12)
    # Another unit adds the same number to all log densities of a row.
    np.testing.assert_allclose(overlaps(scores - np.log(1000.0)), found, atol=1e-12)
    np.testing.assert_array_equal(found, found.T)


def test_weights_stand_for_repeated_rows():
    _, scores = sampled(1_000, (0.0, 3.0), (1.0, 1.0), (0.5, 0.5))
    weight = np.random.default_rng(0).integers(1, 4, scores.shape[1])
    repeated = overlaps(np.repeat(scores, weight, axis=1))
    np.testing.assert_allclose(overlaps(scores, weight.astype(float)), repeated, atol=1e-9)


def test_rows_of_other_clusters_fill_no_gap():
    """Negative control: with weight one for every row a third cluster joins two separate ones."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 300)
    centers = np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 9.0]])
    X = centers[truth] + 0.5 * rng.standard_normal((900, 2))
    scores = np.array([stats.multivariate_normal.logpdf(X, c, 0.25) for c in centers])
    share = groups.responsibilities(scores)
    place = X[:, 0] / 4.0
    assert bridge(place, share[0] + share[1]) < 0.1
    assert bridge(place, np.ones(900)) > 0.5
    assert overlaps(scores)[0, 1] == 0.0


def test_a_flat_stretch_has_no_dip_and_two_modes_have():
    x = (np.arange(3_000) + 0.5) / 1_000.0
    pieces = densities(x, (0.5, 1.5, 2.5), (0.3, 0.3, 0.3), (1 / 3, 1 / 3, 1 / 3))
    found = overlaps(pieces)
    assert found[0, 1] > 0.9
    assert found[1, 2] > 0.9
    assert found[0, 2] == 0.0
    assert join_levels(found[None])[0, 0, 2] > 0.9  # by way of the middle


def test_clusters_with_the_same_rows_overlap_fully():
    scores = np.log(np.full((2, 50), 0.5))
    assert overlaps(scores)[0, 1] > 0.9


def made(n_draws=8, **record):
    """Three clusters, of which the first two overlap in all draws but one."""
    labels = np.tile(np.repeat([0, 1, 2], [4, 4, 5]), (2, n_draws, 1))
    near = np.tile(np.eye(3), (2 * n_draws, 1, 1))
    near[:, 0, 1] = near[:, 1, 0] = 0.8
    near[0, 0, 1] = near[0, 1, 0] = 0.3
    known = {OVERLAP: near, OVERLAP_DRAWS: np.arange(2 * n_draws)}
    return Posterior(labels, summaries=known, record=RunRecord("a mixture", **record))


def test_groups_are_a_posterior():
    p = made()
    found = p.groups()
    assert isinstance(found, Posterior)
    assert found is p.groups()
    assert found.n_clusters_posterior().to_dict() == pytest.approx({2: 15 / 16, 3: 1 / 16})
    assert found.partition().labels.tolist() == [0] * 8 + [1] * 5
    assert found.similarity()[0, 4] == pytest.approx(15 / 16)
    assert p.groups(0.9).n_clusters_posterior().to_dict() == {3: 1.0}
    assert len(found.summary()) == 2


def test_a_draw_s_names_do_not_matter():
    p = made()
    order = np.array([2, 0, 1])
    near = p.summaries[OVERLAP].copy()
    near[3] = near[3][np.ix_(np.argsort(order), np.argsort(order))]
    labels = p.labels.copy()
    labels[0, 3] = order[labels[0, 3]]
    known = {OVERLAP: near, OVERLAP_DRAWS: p.summaries[OVERLAP_DRAWS]}
    other = Posterior(labels, summaries=known)
    np.testing.assert_array_equal(other.groups().similarity(), p.groups().similarity())


def test_tree_of_merges():
    tree = made().group_tree()
    # The largest cluster comes first.
    assert tree["left"][0] + tree["right"][0] == (1, 2)
    assert tree["overlap"][0] == pytest.approx((15 * 0.8 + 0.3) / 16)
    assert tree["probability"].tolist() == pytest.approx([15 / 16, 0.0])
    assert tree["lower"][0] < tree["upper"][0] == pytest.approx(0.8)
    ax = made().plot_group_tree()
    assert len(ax.get_yticklabels()) == 3


def test_words_and_tables_tell_both_levels():
    p = made(max_clusters=3)
    view = p.view()
    assert differ(view)
    words = group_words(view)
    assert words.startswith("2 well-separated groups (probability 0.94); group ")
    assert "contains 2 overlapping clusters" in words
    assert "Read the groups" in limit_words(view)
    table = observation_table(view)
    assert table["group"].nunique() == 2
    assert isinstance(table, pd.DataFrame)
    found = p.diagnostics()
    assert not found.converged
    assert any("at its limit" in problem for problem in found.problems)
    assert "limit" not in made(max_clusters=4).diagnostics().verdict
    # Who gives the number knows it.
    known = made(max_clusters=3, settings={"prior": "fixed"})
    assert limit_words(known.view()) == ""


def test_labels_alone_have_no_groups():
    p = Posterior.from_labels([[0, 0, 1]])
    with pytest.raises(ValueError, match="no overlaps"):
        p.groups()
    assert group_words(p.view()) == ""
    with pytest.raises(ValueError, match="above 0"):
        made().groups(0.0)


def test_groups_survive_a_file(tmp_path):
    p = made()
    other = Posterior.load(p.save(tmp_path / "p.nc"))
    np.testing.assert_array_equal(other.groups().labels, p.groups().labels)
