"""Blocks, their streams and their sums; one pass against a slow twin."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scale_cases import few_rows
from scipy import integrate, stats
from scipy.special import gammaln

from cavity.distributed.blocks import SWEEP, layouts, partial_sums, stream, total
from cavity.distributed.clusters import NIW, Location, Shape, moments
from cavity.distributed.kernel import GRID_SIZE, components_of, draw_block, scratch_for
from cavity.distributed.mixture_weights import Weights, draw_weights, log_first
from cavity.distributed.passes import ShardRequest, followed_rows, make_shard, run_all
from cavity.priors.partition import dirichlet, dirichlet_process

# Where the categories of two columns begin.
START = (0, 2, 5)


@pytest.mark.parametrize("n_blocks", [1, 2, 7, 16, 37])
def test_sums_do_not_depend_on_where_they_were_added(n_blocks):
    rng = np.random.default_rng(n_blocks)
    leaves = rng.standard_normal((n_blocks, 3)) * 10.0 ** rng.integers(-8, 8, (n_blocks, 1))
    whole = total(partial_sums(0, leaves), n_blocks)
    assert whole == pytest.approx(leaves.sum(axis=0))
    for _ in range(20):
        cuts = np.sort(rng.integers(0, n_blocks + 1, 3))
        bounds = [0, *cuts.tolist(), n_blocks]
        nodes = [
            node
            for low, high in itertools.pairwise(bounds)
            for node in partial_sums(low, leaves[low:high])
        ]
        rng.shuffle(nodes)
        assert np.array_equal(total(nodes, n_blocks), whole)


def test_a_plain_sum_does_depend_on_it():
    """Negative control: the order matters to rounding."""
    leaves = np.array([[1e16], [-1e16], [1.0], [1.0]])
    assert leaves[:2].sum() + leaves[2:].sum() != leaves[1:].sum() + leaves[0, 0]


@pytest.mark.parametrize("n_shards", [1, 2, 3, 5, 50])
def test_shards_have_every_row_once_and_no_block_in_two_parts(n_shards):
    sizes = [10, 3, 0, 25]
    found = layouts(sizes, n_shards, block=4)
    assert sum(shard.n_rows for shard in found) == sum(sizes)
    assert sum(shard.n_blocks for shard in found) == 3 + 1 + 7
    at = [shard.first_row for shard in found]
    assert at == np.cumsum([0, *(shard.n_rows for shard in found)])[:-1].tolist()
    blocks = [shard.first_block for shard in found]
    assert blocks == np.cumsum([0, *(shard.n_blocks for shard in found)])[:-1].tolist()


def test_streams_are_apart():
    values = {
        stream((1, 2), block, sweep, purpose).random()
        for block in range(4)
        for sweep in range(4)
        for purpose in range(4)
    }
    assert len(values) == 64


def mixture(d, k, alpha, rng):
    whiten = np.tril(rng.standard_normal((k, d, d)), -1)
    whiten[:, np.arange(d), np.arange(d)] = rng.uniform(0.5, 2.0, (k, d))
    half = -np.log(whiten[:, np.arange(d), np.arange(d)]).sum(axis=1)
    weight = rng.dirichlet(np.ones(k))
    return weight, 3.0 * rng.standard_normal((k, d)), whiten, half, np.full(k, alpha)


def twin(y, codes, counts, parameters, inverse_df, rng):
    """What a block gives, one row after another."""
    weight, mean, whiten, _, alpha, log_share, log_rate = parameters
    n, d = y.shape
    k = len(weight)
    sums, log_mixture = np.zeros((k, Shape(d, START, 2).width)), 0.0
    tails, labels = np.zeros_like(inverse_df), []
    for first in range(0, n, 8):
        here = y[first : first + 8]
        uniform = [rng.random() for _ in here]
        for i, (row, u) in enumerate(zip(here, uniform, strict=True), first):
            delta = np.array([np.sum((whiten[j] @ (row - mean[j])) ** 2) for j in range(k)])
            covariance = [np.linalg.inv(w.T @ w) for w in whiten]
            if d == 0:
                density = np.ones(k)
            elif np.isinf(alpha[0]):
                density = [
                    stats.multivariate_normal.pdf(row, mean[j], covariance[j]) for j in range(k)
                ]
            else:
                density = [
                    stats.multivariate_t.pdf(row, mean[j], covariance[j], 2.0 * alpha[j])
                    for j in range(k)
                ]
            mass = weight * np.array(density)
            members = np.zeros(START[-1])
            for j, code in enumerate(codes[i]):
                if code >= 0:
                    mass = mass * np.exp(log_share[:, START[j] + code])
                    members[START[j] + code] = 1.0
            tally = []
            for j, count in enumerate(counts[i]):
                there = count >= 0.0
                tally += [count * there, there]
                if there:
                    rate = np.exp(log_rate[:, j])
                    mass = mass * np.exp(stats.poisson.logpmf(count, rate) + gammaln(count + 1.0))
            mass = np.cumsum(mass)
            label = int(np.searchsorted(mass, u * mass[-1], side="right"))
            labels.append(label)
            log_mixture += np.log(mass[-1])
            scale = 1.0
            if np.isfinite(alpha[0]):
                a = alpha[label]
                scale = rng.standard_gamma(a + 0.5 * d) / (a + 0.5 * delta[label])
            second = [row[r] * row[c] for r in range(d) for c in range(r + 1)]
            own = [scale, 1.0, *(scale * row), *(scale * np.array(second))]
            sums[label] += [*own, *members, *tally]
            if len(inverse_df):
                j = label if len(inverse_df) > 1 else 0
                tails[j] += np.log1p(delta[label] * inverse_df[j])
    return labels, sums, log_mixture, tails


@pytest.mark.parametrize(
    ("d", "alpha", "n_grids"), [(0, np.inf, 0), (1, 2.0, 1), (3, np.inf, 0), (3, 2.5, 5)]
)
def test_a_block_against_its_twin(d, alpha, n_grids):
    rng = np.random.default_rng(d)
    k, n = 5, 29
    shape = Shape(d, START, 2)
    log_share = np.log(np.hstack([rng.dirichlet(np.ones(size), k) for size in np.diff(START)]))
    parameters = (*mixture(d, k, alpha, rng), log_share, rng.normal(size=(k, 2)))
    y = 3.0 * rng.standard_normal((n, d))
    codes = rng.integers(-1, np.diff(START), (n, 2))
    counts = rng.integers(-1, 4, (n, 2)).astype(float)
    inverse_df = rng.uniform(0.05, 2.0, (n_grids, GRID_SIZE))
    (layout,) = layouts([n], 1)
    rows = np.hstack([y, codes, counts])
    still = np.zeros(d)
    shard = make_shard(layout, rows, still, np.ones(d), still, np.arange(n), shape)
    assert followed_rows(shard) == pytest.approx(rows)
    assert shard.constant[0] == pytest.approx(-gammaln(np.maximum(counts, 0.0) + 1.0).sum())
    labels, sums, totals = np.zeros(n, dtype=np.int32), np.zeros((k, shape.width)), np.zeros(2)
    tails = np.zeros((n_grids, GRID_SIZE))
    draw_block(
        shard.columns, 0, n, components_of(*parameters), inverse_df, labels, sums, totals, tails,
        scratch_for(k, d), stream((5, 6), 0, 0, SWEEP),
    )  # fmt: skip
    found = twin(y, codes, counts, parameters, inverse_df, stream((5, 6), 0, 0, SWEEP))
    assert labels.tolist() == found[0]
    assert sums == pytest.approx(found[1], rel=1e-10)
    assert totals[0] == pytest.approx(found[2], rel=1e-12)
    assert tails == pytest.approx(found[3], rel=1e-10)


def test_a_pass_does_not_depend_on_the_shards():
    rng = np.random.default_rng(0)
    y = rng.standard_normal((37, 2))
    order = ShardRequest(
        components_of(*mixture(2, 3, 2.0, rng)), np.ones((1, GRID_SIZE)), (1, 2), 4, SWEEP
    )
    whole = run_all(few_rows(y, 1, block=4), order)
    for n_shards in (2, 3, 10):
        found = run_all(few_rows(y, n_shards, block=4), order)
        for one, other in zip(whole, found, strict=True):
            assert np.array_equal(one, other)
    other = run_all(few_rows(y, 1, block=4), order._replace(sweep=5))
    assert not np.array_equal(whole.statistics, other.statistics)


def test_the_probability_to_meet_all_empty_atoms_first():
    """Against all orders, and against adaptive quadrature."""
    weights = Weights(np.array([0.5, 0.2, 0.04, 0.01]), 0.25)
    counts = np.array([3, 0, 0, 2])
    e, rest = np.array([0.2, 0.04]), 0.25
    orders = sum(a / (a + b + rest) * b / (b + rest) for a, b in ((e[0], e[1]), (e[1], e[0])))
    assert log_first(weights, counts) == pytest.approx(np.log(orders), rel=1e-9)
    tiny = Weights(np.array([0.5, 1e-9, 3e-7, 2e-12]), 1e-8)
    exact = integrate.quad(
        lambda x: (
            np.exp(x - np.exp(x))
            * np.prod(-np.expm1(-np.exp(x) * np.array([1e-9, 3e-7, 2e-12]) / 1e-8))
        ),
        -40.0,
        4.0,
        limit=500,
    )[0]
    assert log_first(tiny, np.array([1, 0, 0, 0])) == pytest.approx(np.log(exact), rel=1e-6)
    assert log_first(weights._replace(rest=0.0), counts) == 0.0


def test_weights_given_sizes():
    """Means of the Dirichlet, and of the stick; false alarm below 1e-6 each."""
    rng = np.random.default_rng(1)
    counts = np.array([6, 0, 3])
    closed = np.array([draw_weights(dirichlet(3, 0.5), counts, rng).weight for _ in range(4000)])
    assert closed.mean(axis=0) == pytest.approx((counts + 0.5) / 10.5, abs=0.012)
    drawn = [draw_weights(dirichlet_process(3, 2.0), counts, rng) for _ in range(4000)]
    opened = np.array([w.weight for w in drawn])
    assert opened.mean(axis=0) == pytest.approx([6 / 11, 2 / 33, 3 / 11], abs=0.012)
    assert np.mean([w.rest for w in drawn]) == pytest.approx(4 / 33, abs=0.012)


def test_a_normal_inverse_wishart_against_scipy():
    rng = np.random.default_rng(2)
    mean, psi = np.array([0.3, -1.0]), np.array([[2.0, 0.4], [0.4, 1.0]])
    covariance = np.array([[1.0, 0.2], [0.2, 0.7]])
    root = np.linalg.cholesky(covariance)
    place = Location(np.array([0.1, 0.2]), np.linalg.inv(root), np.log(np.diag(root)).sum())
    assert place.covariance == pytest.approx(covariance)
    from cavity.conjugate.niw import pack

    niw = NIW(pack(mean, 0.5, 5.0, psi), 2)
    exact = stats.invwishart.logpdf(covariance, 5.0, psi)
    exact += stats.multivariate_normal.logpdf(place.mean, mean, covariance / 0.5)
    assert niw.log_density(place) == pytest.approx(exact)
    draws = [niw.draw(rng) for _ in range(4000)]
    assert np.mean([d.mean for d in draws], axis=0) == pytest.approx(mean, abs=0.12)
    assert np.mean([d.covariance for d in draws], axis=0) == pytest.approx(psi / 2.0, abs=0.15)
    assert not NIW(pack(mean, 0.5, 5.0, psi) - moments(place, 4.0), 2).proper


def test_proposals_at_the_ends_of_shares_are_numbers():
    """A slot whose weight is lost in the other's rounding has a density all the same."""
    from cavity.distributed.pilot import PilotSample
    from cavity.distributed.split_merge import KINDS, TRIES, Mixture, SplitMerge

    rng = np.random.default_rng(3)
    y = rng.standard_normal((200, 2))
    moves, natural = SplitMerge(PilotSample(y, 2000), 2000), np.zeros(7)
    natural[:] = [0.1, 5.0, 0.0, 0.0, 1.0, 0.0, 1.0]
    before = NIW(natural, 2)
    for weight in ([1.0, 1e-30, 1e-300], [0.6, 0.4, 1e-18]):
        for _ in range(60):
            now = Mixture(np.array(weight), [before.draw(rng) for _ in weight], np.full(3, np.inf))
            table = np.array(
                [
                    np.log(w) + moves.pilot.log_density(place, np.inf)
                    for w, place in zip(now.weight, now.locations, strict=True)
                ]
            )
            for kind in KINDS:
                moves.propose(now, table, dirichlet(3, 0.1), natural, kind, rng)
    assert moves.counts["twins"][TRIES] == 120


def test_what_scouts_say_is_the_same_with_the_other_sign_on_the_way_back():
    """And of twins nothing, unless it is beyond chance: delayed acceptance needs the first."""
    from cavity.distributed.pilot import PilotSample
    from cavity.distributed.split_merge import CHANCE, KINDS, TRUST, SplitMerge

    rng = np.random.default_rng(0)
    moves = SplitMerge(PilotSample(rng.standard_normal((100, 2)), 10_000), 10_000)
    for shift in (0.0, 0.3, 3.0):
        gain = shift + rng.standard_normal(100)
        for kind in KINDS:
            assert moves._pilot_gain(-gain, kind) == -moves._pilot_gain(gain, kind)
        assert moves._pilot_gain(gain, "launched") == pytest.approx(TRUST * 100 * gain.sum())
        beyond = max(abs(gain.sum()) - CHANCE * 10.0 * gain.std(), 0.0)
        assert moves._pilot_gain(gain, "twins") == pytest.approx(TRUST * 100 * beyond)
    assert moves._pilot_gain(0.1 * rng.standard_normal(100), "twins") == 0.0
    everybody = SplitMerge(PilotSample(rng.standard_normal((100, 2)), 100), 100)
    assert everybody._pilot_gain(gain, "twins") == pytest.approx(gain.sum())


def test_draws_of_one_place_for_two_have_their_density():
    """Means of ratios of densities are one: against equal parts of the same distributions."""
    from cavity.distributed.clusters import Conjugate, Shape
    from cavity.distributed.proposals import MergeProposal, log_mean

    rng = np.random.default_rng(1)
    natural = np.array([0.5, 9.0, 0.2, 6.0])
    members = [np.array([n, n, 0.1 * n, 1.1 * n]) for n in (5.0, 8.0, 12.0)]
    one, two, own = (Conjugate(natural, Shape(1), m) for m in members)
    merge = MergeProposal([one, two], own)
    ratio = []
    for _ in range(4000):
        place = merge.draw(rng)
        other = log_mean([part.log_density(place) for part in (one, two, own)])
        ratio.append(math.exp(other - merge.log_density(place)))
    # At level 1e-4.
    assert abs(np.mean(ratio) - 1.0) < 3.9 * np.std(ratio) / math.sqrt(len(ratio))
    assert MergeProposal([one, two]).log_density(place) == pytest.approx(
        log_mean([one.log_density(place), two.log_density(place)])
    )


def test_a_cluster_that_is_there_twice_becomes_one():
    """Though each pilot row stands for a hundred, and says more by chance than twins differ."""
    from scale_cases import statistics

    from cavity.distributed.clusters import ComponentPriors
    from cavity.distributed.df_grid import DFSettings
    from cavity.distributed.executor import ThreadExecutor
    from cavity.distributed.pilot import PilotSample
    from cavity.distributed.sampler import ShardedMixture, ShardedSampler
    from cavity.distributed.sources import ArraySource
    from cavity.priors.cluster import NIWPrior
    from cavity.priors.partition import dirichlet_process

    rng = np.random.default_rng(2)
    n, seen = 40_000, np.arange(0, 40_000, 100)
    y = rng.standard_normal((n, 2))
    executor = ThreadExecutor(ArraySource(y, ("a", "b")))
    executor.load(make_shard, np.zeros(2), np.ones(2), np.zeros(2), seen)
    sampler = ShardedSampler(
        executor, PilotSample(y[seen], n), statistics(y, (y[:, 0] > 0.0).astype(int), 8),
        ShardedMixture(
            ComponentPriors(NIWPrior(np.zeros(2), 0.1, 5.0, np.eye(2))), dirichlet_process(8, 1.0),
            DFSettings(np.inf),
        ), rng,
    )  # fmt: skip
    assert np.sort(sampler.counts)[-2] > 0.2 * n
    for _ in range(200):
        sampler.sweep(rng)
        if np.sort(sampler.counts)[-2] < 0.01 * n:
            break
    assert sampler.events()["twins_accepted"] + sampler.events()["launched_accepted"] > 0
    assert np.sort(sampler.counts)[-2] < 0.01 * n
