"""The partition search against enumeration, draws and tree cuts."""

from __future__ import annotations

import time

import numpy as np
import posterior_twins as twins
import pytest

from cavity.posterior import Loss, Posterior, expected_loss
from cavity.posterior import search as search_module
from cavity.posterior.draws import distinct
from cavity.posterior.estimate import (
    _search_all,
    find_partition,
    largest_first,
    with_probable_places,
)
from cavity.posterior.search import Problem

LOSSES = [("vi", 1.0), ("vi", 0.6), ("vi", 1.5), ("binder", 1.0), ("binder", 0.5), ("omari", 1.0)]


def optimum(draws: np.ndarray, loss: str, a: float) -> float:
    """Least expected loss over all partitions, each loss of a pair of partitions computed once."""
    n = draws.shape[1]
    everything = twins.set_partitions(n)
    rows, counts = np.unique(draws, axis=0, return_counts=True)
    together = (everything[:, :, None] == everything[:, None, :])[:, *np.triu_indices(n, 1)]
    best = np.inf
    if loss == "binder":
        z = (rows[:, :, None] == rows[:, None, :])[:, *np.triu_indices(n, 1)]
        values = a * (~together).astype(float) @ z.T + (2 - a) * together @ (~z).T.astype(float)
        return float((values @ counts / counts.sum()).min() * 2 / n**2)
    for c in everything:
        value = sum(k * twins.loss(loss, c, z, a) for z, k in zip(rows, counts, strict=True))
        best = min(best, value / counts.sum())
    return best


@pytest.mark.variants("slow", "vi-1.5", "vi-0.6", "binder-0.5")
@pytest.mark.parametrize(("loss", "a"), LOSSES)
def test_equals_the_optimum_by_enumeration(loss, a):
    rng = np.random.default_rng(20)
    for trial in range(30):
        n = int(rng.integers(2, 6))
        draws = twins.random_posterior(rng, n, int(rng.integers(1, 9)))
        found = find_partition(draws.astype(np.uint8), Loss(loss, a))
        assert found.expected_loss == pytest.approx(optimum(draws, loss, a), abs=1e-10), trial


@pytest.mark.variants("slow", "vi-1.5", "vi-0.6", "binder-0.5")
@pytest.mark.parametrize(("loss", "a"), LOSSES)
def test_equals_the_optimum_for_eight_observations(loss, a):
    # The losses of all 4140 partitions by the fast routine, itself checked against its twin.
    rng = np.random.default_rng(8)
    everything = twins.set_partitions(8)
    for trial in range(2):
        draws = twins.random_posterior(rng, 8, 25).astype(np.uint8)
        values = [expected_loss(c, draws, loss=Loss(loss, a)) for c in everything]
        found = find_partition(draws, Loss(loss, a))
        assert found.expected_loss == pytest.approx(min(values), abs=1e-10), trial


def test_enumeration_catches_a_search_that_does_not_search(monkeypatch):
    """Negative control: without moves, merges or updates the optimum is missed."""

    def no_search(self, start, rng):
        return np.zeros(self.n, np.int64) if start is None else start.astype(np.int64)

    monkeypatch.setattr(Problem, "improve", no_search)
    monkeypatch.setattr(Problem, "best_cuts", lambda self: [])
    monkeypatch.setattr(Problem, "kick", lambda self, labels, rng: labels)
    rng = np.random.default_rng(20)
    missed = 0
    for _ in range(20):
        draws = rng.integers(0, 3, (6, 6))
        found = find_partition(draws.astype(np.uint8), Loss("vi", 0.7))
        missed += found.expected_loss > optimum(draws, "vi", 0.7) + 1e-10
    assert missed > 0


@pytest.mark.parametrize(("loss", "a"), LOSSES)
def test_never_worse_than_any_draw_or_cut(loss, a):
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    rng = np.random.default_rng(3)
    draws = twins.noisy_draws(rng, 40, 6, 30, 0.4)
    found = find_partition(draws.astype(np.uint8), Loss(loss, a))
    assert found.expected_loss == pytest.approx(
        np.mean([twins.loss(loss, found.labels, z, a) for z in draws]), abs=1e-10
    )
    for row in draws:
        assert found.expected_loss <= expected_loss(row, draws, loss=Loss(loss, a)) + 1e-12
    distance = squareform(1 - twins.similarity(draws), checks=False)
    for method in ("average", "complete"):
        tree = linkage(distance, method)
        for merges in range(40):
            value = expected_loss(search_module.cut(tree, merges), draws, loss=Loss(loss, a))
            assert found.expected_loss <= value + 1e-12


@pytest.mark.parametrize(("loss", "a"), LOSSES)
def test_losses_of_all_cuts_of_a_tree(loss, a):
    from scipy.cluster.hierarchy import linkage

    rng = np.random.default_rng(5)
    draws = distinct(twins.noisy_draws(rng, 12, 4, 7, 0.4))
    tree = linkage(rng.random((12, 2)), "average")
    problem = Problem(draws, Loss(loss, a))
    values = problem.cut_losses(tree)
    scale = {"vi": 12, "binder": 144, "omari": 1}[loss]
    for merges in range(12):
        expected = problem.expected(search_module.cut(tree, merges))
        assert values[merges] / scale == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("loss", "a"), LOSSES)
def test_scores_and_merges_equal_the_change_of_loss(loss, a):
    """The kernels' incremental costs against the loss recomputed from nothing."""
    from cavity._numba.jit import jit
    from cavity.posterior import _search

    @jit
    def choose(state, i, current, top):
        return _search._choose(state, i, current, top)

    rng = np.random.default_rng(6)
    n = 14
    draws = distinct(twins.noisy_draws(rng, n, 4, 9, 0.5))
    problem = Problem(draws, Loss(loss, a))
    assert problem.prepare([])
    labels = rng.integers(0, 4, n)
    labels[:4] = np.arange(4)
    problem.set(labels)
    scale = {"vi": n, "binder": n**2, "omari": 1}[loss]

    def whole(c):
        return problem.expected(np.unique(c, return_inverse=True)[1].reshape(-1)) * scale

    for i in range(n):
        choose(problem.state, i, labels[i], 5)
        scores = problem.state.out[:5].copy()
        moved = [np.where(np.arange(n) == i, k, labels) for k in range(5)]
        truth = np.array([whole(c) for c in moved])
        np.testing.assert_allclose(scores - scores[0], truth - truth[0], atol=1e-9)
        if (labels == labels[i]).sum() > 1:
            # Alone, the observation's own slot and the empty one are the same choice.
            least, second = np.sort(truth)[:2]
            assert problem.state.margin[i] == pytest.approx(second - least, abs=1e-9)
    before = problem._candidate_loss() - whole(labels)
    _search.put_many(problem.state, np.array([5]), labels[[5]], -1)
    _search.put_many(problem.state, np.array([5]), np.array([4]), 1)
    changed = np.where(np.arange(n) == 5, 4, labels)
    assert problem._candidate_loss() - whole(changed) == pytest.approx(before, abs=1e-9)
    problem.set(labels)
    cost = np.zeros((4, 4))
    _search.all_merge_costs(problem.state, 4, cost, np.zeros((4, 4)), np.empty(4, np.int64))
    for k in range(4):
        for m in range(k):
            change = whole(np.where(labels == k, m, labels)) - whole(labels)
            if loss != "omari":
                x, y = (labels == k).sum(), (labels == m).sum()
                v = problem.value
                change -= (2 - a) * (v[x + y] - v[x] - v[y])
            assert cost[k, m] == pytest.approx(change, abs=1e-9)


def test_deterministic_and_indifferent_to_label_names():
    rng = np.random.default_rng(1)
    draws = twins.noisy_draws(rng, 60, 5, 40, 0.3)
    first = Posterior.from_labels(draws).partition()
    again = Posterior.from_labels(draws).partition()
    renamed = np.array([rng.permutation(9)[row] for row in draws])
    other = Posterior.from_labels(renamed).partition()
    np.testing.assert_array_equal(first.labels, again.labels)
    np.testing.assert_array_equal(first.labels, other.labels)
    seeded = Posterior.from_labels(draws).partition(random_state=5)
    assert seeded.expected_loss == pytest.approx(first.expected_loss, rel=1e-3)


def test_costs_steer_the_number_of_clusters():
    rng = np.random.default_rng(2)
    p = Posterior.from_labels(twins.noisy_draws(rng, 50, 6, 60, 0.5))
    few, many = (p.partition(Loss("vi", a)).n_clusters for a in (1.8, 0.3))
    assert few < many


def test_labels_run_from_the_largest_cluster():
    rng = np.random.default_rng(2)
    found = Posterior.from_labels(twins.noisy_draws(rng, 50, 4, 20)).partition()
    assert list(found.sizes) == sorted(found.sizes, reverse=True)
    assert found.n_clusters == len(set(found.labels)) == len(found.sizes)
    np.testing.assert_array_equal(np.asarray(found), found.labels)
    np.testing.assert_array_equal(largest_first(np.array([9, 1, 1])), [1, 0, 0])


def test_max_clusters_is_kept_by_the_moves():
    rng = np.random.default_rng(4)
    draws = np.array([np.arange(12)] * 3 + [np.zeros(12, int)] * 2)
    assert Posterior.from_labels(draws).partition(max_clusters=12).n_clusters == 12
    draws = twins.noisy_draws(rng, 30, 3, 20, 0.2)
    assert Posterior.from_labels(draws).partition(max_clusters=3).n_clusters <= 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "rand"}, "loss must be one of"),
        ({"max_clusters": 0}, "max_clusters"),
        ({"n_restarts": -1}, "n_restarts"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        Posterior.from_labels([[0, 1], [0, 0]]).partition(**options)


@pytest.mark.parametrize(
    ("name", "a", "words"),
    [
        ("rand", 1.0, "loss must be one of"),
        (3, 1.0, "loss must be one of"),
        ("vi", 0.0, "strictly between 0 and 2"),
        ("binder", 2.0, "strictly between 0 and 2"),
        ("vi", "1", "strictly between 0 and 2"),
        ("omari", 0.5, "no meaning"),
    ],
)
def test_bad_losses_are_named(name, a, words):
    with pytest.raises(ValueError, match=words):
        Loss(name, a)


@pytest.mark.parametrize("loss", ["vi", "binder", "omari"])
def test_degenerate_posteriors(loss):
    one = Posterior.from_labels([[3]])
    assert one.partition(loss).labels.tolist() == [0]
    assert one.partition(loss).expected_loss == 0.0
    same = Posterior.from_labels(np.zeros((5, 30), int))
    assert same.partition(loss).n_clusters == 1
    singles = Posterior.from_labels(np.tile(np.arange(30), (5, 1)))
    assert singles.partition(loss).n_clusters == 30
    mixed = Posterior.from_labels([np.arange(30), np.zeros(30, int)] * 3 + [np.arange(30)])
    assert mixed.partition(loss).expected_loss <= 0.5 * np.log(30)


@pytest.mark.slow
def test_thousand_by_thousand_within_ten_seconds():
    rng = np.random.default_rng(0)
    Posterior.from_labels(twins.noisy_draws(rng, 30, 3, 10)).partition()
    p = Posterior.from_labels(twins.noisy_draws(rng, 1000, 10, 1000, 0.2))
    start = time.process_time()
    found = p.partition()
    assert time.process_time() - start < 10.0
    assert found.n_clusters == 10


def test_counts_that_do_not_fit_leave_the_best_draw(monkeypatch):
    monkeypatch.setattr(search_module, "COUNT_BYTES", 1000)
    draws = twins.noisy_draws(np.random.default_rng(0), 30, 5, 20, 0.3)
    p = Posterior.from_labels(draws)
    least = min(expected_loss(row, draws) for row in draws)
    assert p.partition().expected_loss <= least + 1e-12


def test_many_draws_are_screened_and_thinned(monkeypatch):
    from cavity.posterior import estimate as partition_module

    draws = twins.noisy_draws(np.random.default_rng(0), 60, 4, 80, 0.2)
    whole = Posterior.from_labels(draws).partition()
    monkeypatch.setattr(search_module, "PAIR_COST", 1000)
    monkeypatch.setattr(partition_module, "_SEARCH_DRAWS", (40, 40))
    monkeypatch.setattr(partition_module, "_TREE_MAX", 10)
    lean = Posterior.from_labels(draws).partition()
    assert lean.expected_loss == pytest.approx(expected_loss(lean.labels, draws), abs=1e-12)
    assert lean.expected_loss == pytest.approx(whole.expected_loss, rel=0.02)


@pytest.mark.slow
def test_twenty_thousand_observations():
    rng = np.random.default_rng(0)
    p = Posterior.from_labels(twins.noisy_draws(rng, 20_000, 10, 200, 0.2))
    found = p.partition()
    assert found.n_clusters == 10
    assert found.credible_ball().radius > 0
    assert len(p.summary()) == 10


def test_max_clusters_is_a_limit_on_the_estimate():
    """Observations that keep no company would stand alone, in clusters that no draw has."""
    rng = np.random.default_rng(0)
    draws = np.repeat(np.arange(6), 20)[None].repeat(120, axis=0)
    draws[:, ::40] = rng.integers(6, size=(120, 3))
    for loss in ("vi", "binder", "omari"):
        held = Posterior.from_labels(draws).partition(loss)
        free = Posterior.from_labels(draws).partition(loss, max_clusters=None)
        assert free.n_clusters > 6
        assert held.n_clusters == 6
        assert held.expected_loss >= free.expected_loss
    assert Posterior.from_labels(draws).partition(max_clusters=1).n_clusters == 1


def test_the_estimate_has_as_many_clusters_as_half_of_the_draws():
    draws = np.tile([0, 0, 0, 1, 1, 1, 2], (5, 1))
    draws[:2, 6] = 1
    assert Posterior.from_labels(draws).partition().n_clusters == 3
    draws[:3, 6] = 1
    assert Posterior.from_labels(draws).partition().n_clusters == 2


def test_a_limit_of_clusters_holds_where_all_draws_are_the_same():
    draws = np.tile([0, 0, 0, 1, 1, 2], (5, 1))
    assert find_partition(draws, Loss("vi")).n_clusters == 3
    found = find_partition(draws, Loss("vi"), max_clusters=2)
    assert found.labels.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.variants("slow", "omari")
@pytest.mark.parametrize("loss", ["omari", "vi"])
def test_a_few_hundred_draws_find_the_estimate_of_all(monkeypatch, loss):
    """Two groups are one in a third of the draws, and some observations have no certain place."""
    from cavity.posterior import estimate as module

    works = []
    prepare = Problem.prepare
    monkeypatch.setattr(
        Problem, "prepare", lambda self, starts: works.append(self) or prepare(self, starts)
    )
    for seed in range(3):
        rng = np.random.default_rng(5001 + seed)
        truth, wavers = rng.integers(0, 4, 60), rng.random(60) ** 3 / 2
        draws = np.repeat(truth[None], 4000, axis=0)
        draws = np.where(rng.random(draws.shape) < wavers, (draws + 1) % 4, draws)
        draws[::3][draws[::3] == 3] = 2
        works.clear()
        lean = find_partition(draws, Loss(loss))
        assert sum(problem.work for problem in works) < 1e8
        with monkeypatch.context() as patch:
            patch.setattr(module, "_SEARCH_CELLS", 10**9)
            patch.setattr(module, "_SEARCH_DRAWS", (4000, 4000))
            whole = find_partition(draws, Loss(loss), n_restarts=4)
        assert lean.expected_loss <= whole.expected_loss * (1.0 + 1e-3)


def torn_rows():
    """Three clusters of 20, six rows that may be in any of them, and two rows apart from all."""
    rng = np.random.default_rng(0)
    draws = np.repeat([0, 1, 2, 3], [20, 20, 20, 8])[None].repeat(90, axis=0)
    draws[:, 62:] = rng.integers(3, size=(90, 6))
    return draws


@pytest.mark.parametrize("loss", ["omari", "binder", "vi"])
def test_no_row_is_where_its_probability_is_next_to_zero(loss):
    """The least cluster takes rows that a loss of pairs would rather have alone."""
    draws = torn_rows()
    p = Posterior.from_labels(draws)
    found = p.partition(loss)
    share = p.allocation_probabilities(found)
    own = share[np.arange(68), found.labels]
    assert (own >= 0.5 * share.max(axis=1)).all()
    assert np.bincount(found.labels).tolist()[-1] == 2


def test_without_the_last_step_torn_rows_go_where_they_never_are():
    """Negative control: the search alone puts rows in the cluster of two."""
    draws = torn_rows()
    problem = Problem(distinct(draws), Loss("binder"), 4)
    labels = _search_all(problem, None, np.random.default_rng(0))[0]
    own = labels == labels[60]
    assert own.sum() > 2
    after = with_probable_places(np.unique(labels, return_inverse=True)[1], draws)
    assert (after == after[60]).sum() == 2
