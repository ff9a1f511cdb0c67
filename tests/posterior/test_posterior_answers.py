"""Similarity, losses, credible balls, relabelling, certainty, comparisons."""

from __future__ import annotations

import numpy as np
import posterior_twins as twins
import pytest
from scipy import stats
from sklearn.metrics import adjusted_rand_score, mutual_info_score

from cavity.posterior import Loss, Posterior, expected_loss, partition_distance
from cavity.posterior import losses as losses_module
from cavity.posterior import relabel as relabel_module
from cavity.posterior.draws import canonical, distinct, size_summaries
from cavity.posterior.record import ROWS_BEHIND_WEIGHTS, RunRecord
from cavity.posterior.relabel import relabel
from cavity.posterior.summary import limit_words, number_words, observation_table
from cavity.posterior.view import own_certainty, places


@pytest.fixture
def draws():
    return twins.noisy_draws(np.random.default_rng(0), 25, 4, 40, 0.3)


def test_canonical_and_distinct(draws):
    rows = canonical(draws)
    for row, original in zip(rows, draws, strict=True):
        assert np.array_equal(row[:, None] == row, original[:, None] == original)
        firsts = [row.tolist().index(k) for k in range(row.max() + 1)]
        assert firsts == sorted(firsts)
    renamed = np.concatenate([draws, 3 - draws, draws * 1_000_003])
    merged = distinct(renamed)
    assert len(merged.labels) == len(np.unique(rows, axis=0))
    assert merged.weights.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(merged.labels[merged.which[:40]], rows)


def test_size_summaries(draws):
    n_clusters, largest, entropy = size_summaries(draws)
    for d, row in enumerate(draws):
        counts = np.unique(row, return_counts=True)[1]
        assert (n_clusters[d], largest[d]) == (len(counts), counts.max())
        assert entropy[d] == pytest.approx(twins.entropy(counts / 25))


def test_similarity_dense_rows_and_sparse(draws):
    p = Posterior.from_labels(draws)
    truth = twins.similarity(draws)
    whole = p.similarity()
    assert whole.dtype == np.float32
    np.testing.assert_allclose(whole, truth, atol=1e-6)
    np.testing.assert_allclose(p.similarity(rows=[3, -1]), truth[[3, -1]], atol=1e-6)
    np.testing.assert_allclose(p.similarity(rows=np.arange(25) < 2), truth[:2], atol=1e-6)
    sparse = p.similarity(sparse=True, threshold=0.3)
    np.testing.assert_allclose(sparse.toarray(), np.where(truth >= 0.3, truth, 0), atol=1e-6)
    assert p.similarity(rows=[0, 1], sparse=True, threshold=0.3).shape == (2, 25)


def test_similarity_that_does_not_fit_names_memory_and_remedy(draws):
    p = Posterior.from_labels(draws)
    with pytest.raises(MemoryError, match=r"2\.5 kB.*rows=.*sparse=True"):
        p.similarity(max_bytes=1000)
    assert p.similarity(rows=[0], max_bytes=1000).shape == (1, 25)
    with pytest.raises(IndexError, match="rows"):
        p.similarity(rows=[25])
    with pytest.raises(TypeError, match="rows"):
        p.similarity(rows=[0.5])
    with pytest.raises(ValueError, match="threshold"):
        p.similarity(sparse=True, threshold=0)


def test_large_n_refuses_dense_similarity_and_gives_rows():
    p = Posterior.from_labels(np.random.default_rng(0).integers(0, 5, (3, 20_000)))
    with pytest.raises(MemoryError, match=r"1\.6 GB"):
        p.similarity(max_bytes=10**9)
    assert p.similarity(rows=[7]).shape == (1, 20_000)


@pytest.mark.parametrize(("loss", "a"), [("vi", 1), ("vi", 0.4), ("binder", 1), ("binder", 1.7)])
def test_expected_loss_equals_its_twin(draws, loss, a):
    rng = np.random.default_rng(1)
    for c in (rng.integers(0, 3, 25), np.zeros(25, int), np.arange(25)):
        truth = np.mean([twins.loss(loss, c, z, a) for z in draws])
        assert expected_loss(c, draws, loss=Loss(loss, a)) == pytest.approx(truth, abs=1e-12)


def test_losses_against_scikit_learn(draws, monkeypatch):
    c = draws[0]
    for z in (draws[1], np.zeros(25, int), np.arange(25)):
        h = [twins.entropy(np.bincount(v) / 25) for v in (c, z)]
        vi = sum(h) - 2 * mutual_info_score(c, z)
        ari = 1 - adjusted_rand_score(c, z)
        assert partition_distance(c, z) == pytest.approx(vi, abs=1e-12)
        assert partition_distance(c, z, loss="omari") == pytest.approx(ari, abs=1e-12)
        args = (canonical(c), canonical(z))
        for name in ("vi", "binder", "omari"):
            sparse = losses_module._loss_pair_sparse(*args, losses_module.as_loss(name))
            assert sparse == pytest.approx(partition_distance(c, z, loss=name), abs=1e-12)


def test_unequal_costs_have_the_stated_direction():
    together, apart = [0, 0], [0, 1]
    assert partition_distance(apart, together, loss=Loss("binder", 1.5)) == pytest.approx(1.5 / 2)
    assert partition_distance(together, apart, loss=Loss("binder", 1.5)) == pytest.approx(0.5 / 2)
    vi = Loss("vi", 1.5)
    ratio = partition_distance(apart, together, loss=vi)
    ratio /= partition_distance(together, apart, loss=vi)
    assert ratio == pytest.approx(3.0)


@pytest.mark.parametrize("metric", ["vi", "binder"])
@pytest.mark.parametrize("level", [0.5, 0.95, 1.0])
def test_credible_ball_by_brute_force(draws, metric, level):
    small = draws[:, :8]
    estimate = Posterior.from_labels(small).partition()
    ball = estimate.credible_ball(level, metric=metric)
    distance = np.array([twins.loss(metric, estimate.labels, z) for z in small])
    inside = distance <= ball.radius + 1e-9
    assert inside.mean() >= level
    assert (distance < ball.radius - 1e-9).mean() < level
    assert ball.coverage == pytest.approx(inside.mean())
    clusters = np.array([len(set(z)) for z in small])
    wanted = {
        "horizontal": inside,
        "upper_vertical": inside & (clusters == clusters[inside].min()),
        "lower_vertical": inside & (clusters == clusters[inside].max()),
    }
    for name, chosen in wanted.items():
        furthest = chosen & (distance >= distance[chosen].max() - 1e-9)
        truth = {tuple(row) for row in canonical(small[furthest]).tolist()}
        assert {tuple(row) for row in getattr(ball, name).tolist()} == truth
    assert "CredibleBall" in repr(ball)


def test_credible_ball_refuses_nonsense(draws):
    estimate = Posterior.from_labels(draws).partition()
    with pytest.raises(ValueError, match="level"):
        estimate.credible_ball(0.0)
    with pytest.raises(ValueError, match="metric"):
        estimate.credible_ball(metric="omari")


def slow_relabel(row, reference):
    """Best matching over all permutations of slots."""
    import itertools

    k = max(row.max(), reference.max()) + 1
    best = max(
        itertools.permutations(range(k)),
        key=lambda names: sum(names[z] == c for z, c in zip(row, reference, strict=True)),
    )
    return sum(best[z] == c for z, c in zip(row, reference, strict=True))


@pytest.mark.parametrize("dense_cells", [250_000, 0])
def test_relabelling_matches_as_much_as_any_permutation(draws, monkeypatch, dense_cells):
    monkeypatch.setattr(relabel_module, "_DENSE_CELLS", dense_cells)
    reference = Posterior.from_labels(draws).partition().labels
    found = relabel(draws, reference)
    for d, row in enumerate(draws):
        assert (found.labels[d] == reference).sum() == slow_relabel(row, reference)
        for k, slot in enumerate(found.slots[d]):
            members = found.labels[d] == k
            assert members.any() == (slot >= 0)
            assert (row[members] == slot).all()
    assert (relabel([[0, 1, 2]], [0, 0, 0]).labels == -1).sum() == 2


def test_cluster_parameters_follow_the_relabelling():
    """Switch labels in every draw: means per cluster must come out as if nothing were switched."""
    rng = np.random.default_rng(3)
    truth = np.repeat([0, 1, 2], [12, 8, 4])
    labels, means = [], []
    for _ in range(50):
        names = rng.permutation(5)[:3]
        value = np.full((5, 2), np.nan)
        value[names] = np.array([[-5.0, 1], [0, 2], [5, 3]]) + 0.1 * rng.standard_normal((3, 2))
        labels.append(names[truth])
        means.append(value)
    p = Posterior([labels], parameters={"mean": np.array([means])}, cluster_parameters=("mean",))
    out = p.parameter_summary("mean")
    np.testing.assert_allclose(out["mean"], [[-5, 1], [0, 2], [5, 3]], atol=0.1)
    assert (out["lower"] < out["mean"]).all()
    assert (out["upper"] > out["mean"]).all()
    np.testing.assert_allclose(out["sd"], 0.1, atol=0.05)
    # Negative control: without matching, the slots' averages are far off.
    assert np.nanmax(np.abs(np.nanmean(np.array(means), axis=0)[:3] - out["mean"])) > 1
    table = p.summary()
    assert table["size"].tolist() == [12, 8, 4]
    assert table.loc[0, "mean[0]"] == pytest.approx(-5, abs=0.1)
    assert (table["presence"] == 1).all()
    with pytest.raises(KeyError, match="there are: mean"):
        p.parameter_summary("scale")


def test_targets_are_the_slots_turned_round(draws):
    reference = Posterior.from_labels(draws).partition().labels
    found = relabel(draws, reference)
    targets = found.targets(6)
    assert targets.shape == (40, 6)
    for d, row in enumerate(draws):
        np.testing.assert_array_equal(targets[d][row], found.labels[d])
        assert (targets[d][np.setdiff1d(np.arange(6), row)] == -1).all()
    with pytest.raises(ValueError, match="n_slots is 2, but a draw has a cluster of label 3"):
        found.targets(2)


def test_unmatched_clusters_are_elsewhere_in_every_answer():
    """A draw that splits a cluster keeps its larger half; the other half matches none."""
    whole, split = [0] * 6 + [1] * 4, [0] * 4 + [2] * 2 + [1] * 4
    p = Posterior.from_labels([whole, whole, whole, split])
    matched = p.relabel()
    assert matched.targets(3).tolist() == [[0, 1, -1]] * 4
    table = observation_table(p.view())
    np.testing.assert_allclose(table["p_unmatched"], [0, 0, 0, 0, 0.25, 0.25, 0, 0, 0, 0])
    assert table["doubtful"].tolist() == [False] * 4 + [True] * 2 + [False] * 4
    assert table["alternative"].isna().all()
    assert p.doubtful().index.tolist() == [4, 5]


def test_certainty_equals_its_twin(draws):
    c = Posterior.from_labels(draws).partition().labels.copy()
    c[4] = c.max() + 1
    found = own_certainty(draws, c)
    together = twins.similarity(draws)
    for i in range(25):
        own = (np.arange(25) != i) & (c == c[i])
        alone = np.mean([(row == row[i]).sum() == 1 for row in draws])
        truth = together[i, own].mean() if own.any() else alone
        assert found[i] == pytest.approx(truth, abs=1e-12)


def test_places_equal_counts_over_matched_draws(draws):
    c = Posterior.from_labels(draws).partition().labels
    matched = relabel(draws, c)
    rows = matched.labels
    rows[::7, ::3] = -1
    n_clusters = int(c.max()) + 1
    found = places(matched)
    shares = np.array([[np.mean(rows[:, i] == k) for k in range(n_clusters)] for i in range(25)])
    at = np.arange(25)
    np.testing.assert_allclose(found.probability, shares[at, c])
    np.testing.assert_allclose(found.unmatched, (rows == -1).mean(axis=0))
    shares[at, c] = -1
    best = shares.argmax(axis=1)
    np.testing.assert_allclose(found.alternative_probability, np.maximum(shares[at, best], 0))
    np.testing.assert_array_equal(found.alternative, np.where(shares[at, best] > 0, best, -1))


def test_observation_table_is_consistent_and_complete(draws):
    p = Posterior.from_labels(draws, names=[f"row {i}" for i in range(25)])
    view = p.view()
    table = observation_table(view, tail=np.linspace(0, 1, 25))
    every = [f"p_{k}" for k in range(view.n_clusters)]
    assert list(table.columns) == [
        "cluster", "probability", "certainty", "alternative", "alternative_probability",
        "p_unmatched", "doubtful", "tail_probability", *every,
    ]  # fmt: skip
    np.testing.assert_allclose(table[[*every, "p_unmatched"]].sum(axis=1), 1.0, rtol=0, atol=1e-14)
    own = table[every].to_numpy()[np.arange(25), table["cluster"]]
    np.testing.assert_array_equal(own, table["probability"])
    np.testing.assert_array_equal(table["doubtful"], table["probability"] < 0.8)
    assert list(table.index) == [f"row {i}" for i in range(25)]
    assert table["doubtful"].sum() == len(p.doubtful())
    with pytest.raises(ValueError, match=r"tail has shape \(3,\) for 25"):
        observation_table(view, tail=[0.1, 0.2, 0.3])


def test_views_are_kept_by_partition(draws, monkeypatch):
    from cavity.posterior import view as view_module

    p = Posterior.from_labels(draws)
    calls = []

    def counted(*args):
        calls.append(1)
        return relabel(*args)

    monkeypatch.setattr(view_module, "relabel", counted)
    p.observations(), p.doubtful(), p.doubtful(0.5), p.summary(), p.relabel()
    p.allocation_probabilities(p.partition().labels)
    assert len(calls) == 1
    p.observations(np.arange(25) % 2)
    p.observations()
    assert len(calls) == 2
    assert p.view(threshold=0.5).relabelling is p.view().relabelling
    assert p.view(threshold=0.5).threshold == 0.5
    # Another partition is not answered from the first one's.
    assert p.observations(np.arange(25) % 2)["cluster"].tolist() == (np.arange(25) % 2).tolist()


def test_doubtful_lists_the_torn_observation_first():
    sure = np.repeat([0, 1], 10)
    draws = np.array([np.append(sure, d % 2) for d in range(41)])
    names = [f"row {i}" for i in range(21)]
    p = Posterior.from_labels(draws, names=names)
    torn = p.doubtful()
    assert torn.index.tolist() == ["row 20"]
    row = torn.iloc[0]
    assert row["probability"] == pytest.approx(21 / 41)
    assert row["alternative_probability"] == pytest.approx(20 / 41)
    assert row["alternative"] == 1 - row["cluster"]
    assert len(p.doubtful(0.0)) == 0
    probabilities = p.allocation_probabilities()
    assert probabilities.shape == (21, 2)
    np.testing.assert_allclose(probabilities.sum(1), 1.0)
    with pytest.raises(ValueError, match="threshold"):
        p.doubtful(1.5)


def test_a_tiny_ambiguous_cluster_casts_no_doubt_on_its_neighbours():
    """Two rows half with a cluster of forty: these are in their own cluster in every draw."""
    apart = np.append(np.zeros(40, int), [1, 1])
    draws = np.array([apart] * 60 + [np.zeros(42, int)] * 40)
    p = Posterior.from_labels(draws)
    frame = p.observations(apart)
    assert (frame["probability"][:40] == 1).all()
    # By similarity the tiny cluster resembles the large one: 0.4 against 1.
    assert p.similarity()[0, 40] == pytest.approx(0.4)
    assert p.doubtful(partition=apart).index.tolist() == [40, 41]


def test_sizes_are_of_the_draws_with_a_match():
    """Half the draws lack the small cluster: its size there is not zero, it is not there."""
    apart = np.append(np.zeros(30, int), np.ones(10, int))
    draws = np.array([apart] * 10 + [np.zeros(40, int)] * 10)
    table = Posterior.from_labels(draws).summary(apart)
    assert table["presence"].tolist() == [1.0, 0.5]
    assert table.loc[1, ["size_mean", "size_lower", "size_upper"]].tolist() == [10, 10, 10]
    assert table["size_in_interval"].all()
    # An estimate whose cluster is smaller than in any draw says so.
    odd = np.append(np.zeros(20, int), np.ones(20, int))
    assert not Posterior.from_labels(draws).summary(odd)["size_in_interval"].any()
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        Posterior.from_labels(draws).summary(level=95)


def test_sizes_by_draw_are_counts(draws):
    matched = Posterior.from_labels(draws).relabel()
    for d in range(40):
        assert matched.sizes[d].tolist() == [
            int((matched.labels[d] == k).sum()) for k in range(matched.n_clusters)
        ]


def test_tables_call_series_series():
    draws = [[0, 0, 1], [0, 1, 1]]
    p = Posterior.from_labels(draws, record=RunRecord("SeriesMixture", noun="series"))
    assert p.observations().index.name == "series"
    assert Posterior.from_labels(draws).observations().index.name == "observation"


def test_other_partitions_can_be_asked_about(draws):
    p = Posterior.from_labels(draws)
    assert len(p.summary(p.partition("binder"))) == p.partition("binder").n_clusters
    assert len(p.summary(np.repeat([7, 3], [20, 5]))) == 2
    with pytest.raises(ValueError, match="24 observations"):
        p.observations(np.zeros(24, int))


def test_number_of_clusters_and_agreement(draws):
    p = Posterior.from_labels(draws)
    posterior = p.n_clusters_posterior()
    assert posterior.sum() == pytest.approx(1)
    assert posterior[4] == pytest.approx(np.mean([len(set(row)) == 4 for row in draws]))
    given = np.array(list("abcd"))[draws[0]]
    found = p.agreement(given)
    assert found["ari"] == pytest.approx(adjusted_rand_score(draws[0], p.partition().labels))
    truth = np.mean([adjusted_rand_score(draws[0], z) for z in draws])
    assert found["expected_ari"] == pytest.approx(truth)
    with pytest.raises(ValueError, match="observation 2"):
        p.agreement([0, 1, np.nan] + [0] * 22)
    with pytest.raises(ValueError, match="3 entries"):
        p.agreement([0, 1, 1])


def test_comparison_of_two_fits(draws):
    p = Posterior.from_labels(draws)
    same = p.compare(Posterior.from_labels(3 - draws))
    assert (same.ari, same.vi, same.similarity_difference) == (1.0, 0.0, 0.0)
    assert "adjusted Rand 1.000" in str(same)
    other = Posterior.from_labels(np.random.default_rng(9).integers(0, 4, draws.shape))
    assert p.compare(other).similarity_difference > 0.2
    with pytest.raises(ValueError, match="same observations"):
        p.compare(Posterior.from_labels([[0, 1]]))
    rng = np.random.default_rng(0)
    first = Posterior.from_labels(draws, point_log_lik=0.1 * rng.standard_normal((1, 40, 25)))
    second = Posterior.from_labels(draws, point_log_lik=0.1 * rng.standard_normal((1, 40, 25)) - 1)
    table = first.compare(second).loo
    assert table.index[0] == "first"


def test_a_limit_that_draws_have_come_to_is_told():
    two, three = [0, 0, 1, 1, 1], [0, 0, 1, 2, 1]

    def words(n_three, **record):
        draws = np.array([[two] * (20 - n_three) + [three] * n_three])
        return limit_words(Posterior(draws, record=RunRecord("a mixture", **record)).view())

    assert "allow more" in words(2, max_clusters=3)
    assert "10% of the draws" in words(2, max_clusters=3)
    assert words(1, max_clusters=3) == words(20, max_clusters=4) == words(20) == ""
    assert words(20, max_clusters=4, noise=True) == ""  # two clusters and noise of three and noise


def test_the_number_of_clusters_in_words():
    """Of one number for tables and pages: all read the same view."""
    two, three, four = [0, 0, 1, 1, 1], [0, 0, 1, 2, 2], [0, 1, 2, 3, 3]
    view = Posterior.from_labels([two] * 599 + [three]).view()
    assert number_words(view) == "2 clusters: over 99%"
    view = Posterior.from_labels([two] * 3 + [three] * 6 + [four]).view()
    assert number_words(view) == "3 clusters: 60%, 2: 30%, 4: 10%"
    assert view.number.to_dict() == {2: 0.3, 3: 0.6, 4: 0.1}
    # As many numbers as draws: none is probable, and something is said all the same.
    many = np.array([np.minimum(np.arange(400), k) for k in range(300)])
    view = Posterior.from_labels(many).view(np.zeros(400, int))
    assert number_words(view) == "1 cluster: under 1%, other numbers: over 99%"


def test_a_weight_s_interval_knows_that_rows_are_a_sample():
    """The sizes never change: what is left open is what counting 60 of 200 rows leaves open."""
    draws = np.tile(np.repeat([0, 1], [60, 140]), (1, 4000, 1))
    weight = np.tile([61 / 202, 141 / 202], (1, 4000, 1))
    given = {"parameters": {"weight": weight}, "cluster_parameters": ("weight",)}
    as_drawn = Posterior(draws, **given).parameter_summary("weight")
    np.testing.assert_allclose(as_drawn["upper"], as_drawn["lower"])
    record = RunRecord("a mixture", details={ROWS_BEHIND_WEIGHTS: 200.0})
    found = Posterior(draws, record=record, **given).parameter_summary("weight")
    exact = stats.beta(200 * 61 / 202, 200 * 141 / 202)
    # The larger cluster comes first.
    assert found["mean"][1] == pytest.approx(61 / 202)
    assert found["lower"][1] == pytest.approx(exact.ppf(0.025), abs=0.005)
    assert found["upper"][1] == pytest.approx(exact.ppf(0.975), abs=0.005)


def test_noise_is_minus_one_and_no_alternative_is_nothing():
    """As among the labels; the noise's probability is named."""
    first, second = [0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 0]
    record = RunRecord("a mixture", noise=True)
    p = Posterior(np.array([[first] * 7 + [second] * 3]), record=record)
    table = observation_table(p.view())
    assert table["cluster"].tolist() == [-1, -1, 0, 0, 0, 0]
    assert table["alternative"].isna().tolist() == [True] * 5 + [False]
    assert table["alternative"][5] == -1
    assert table["p_noise"].tolist() == [1.0, 1.0, 0.0, 0.0, 0.0, 0.3]
