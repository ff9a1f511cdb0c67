"""The sampler over series in shards: enumerated partitions, joint distributions, equal draws.

At level 1e-4 for each comparison of frequencies, and the limit of the other joint-distribution
tests of series; fixed seeds.
"""

from __future__ import annotations

import enumeration
import numpy as np
import pytest
from scipy import stats
from series_oracle import joint_loglik, model_of
from test_series_geweke import LIMIT, ONE, PRIORS, K, N, T, World, from_prior, scores, statistics

from cavity.distributed.executor import ThreadExecutor
from cavity.distributed.sources import ArraySource
from cavity.priors.partition import dirichlet
from cavity.series import shard_sampler as series_sampler
from cavity.series.parameters import EVERYTHING, NOTHING
from cavity.series.shard_pass import LocalState, SeriesShard, SeriesShards
from cavity.series.shard_sampler import SeriesShardedSampler, SeriesSizes
from cavity.series.state_space import Cells, own_copy

LEVEL = 1e-4
SLOTS, WEIGHT = 3, 0.7


def crew_over(model, n_shards, block):
    """Shards whose data are views of the model's, all series followed."""
    y = model.cells.y
    columns = tuple(map(str, range(y.shape[1])))
    executor = ThreadExecutor(ArraySource(y, columns, gaps=True), 1, n_shards, block)

    def make(layout, rows):
        here = slice(layout.first_row, layout.first_row + layout.n_rows)
        cells = Cells(*(values[here] for values in model.cells))
        own = model.own
        noise = np.ones_like(own.tails, dtype=np.float32)
        begun = LocalState(
            np.zeros(layout.n_rows, dtype=np.int32), own.a[here].copy(), own.loading[here].copy(),
            own.var_y[here].copy(), own.beta[here].copy(), noise[here] if noise.size else noise,
        )  # fmt: skip
        return SeriesShard(layout, cells, begun, np.arange(layout.n_rows), np.zeros(1))

    executor.load(make)
    return SeriesShards(executor)


def chain(model, prior, rng, *, n_shards=1, block=2, moving=NOTHING, priors=PRIORS, **options):
    n, n_times = model.cells.y.shape
    crew = crew_over(model, n_shards, block)
    p = model.own.beta.shape[1]
    hyper = np.array([priors.beta_mean[:p], np.ones(p)])
    sizes = SeriesSizes(n, int((model.cells.repeats > 0).sum()), n_times)
    paths = rng.standard_normal((n_times, prior.weights.size))
    return SeriesShardedSampler(
        crew, own_copy(model, prior.weights.size), sizes, paths, hyper, prior, priors, moving,
        rng=rng, **options,
    )  # fmt: skip


# --------------------------------------------------------------------------- partitions


def small_model():
    rng = np.random.default_rng(4)
    m, rows = model_of(rng, n=5, n_times=4, missing=0.2, most=2, var_x=0.4, n_slots=SLOTS)
    m.own.loading[:] = [1.5, -1.2, 1.0, 1.4, 0.8]
    return m, rows


def exact_posterior(m, rows):
    n, n_times = m.cells.y.shape
    still, one = np.zeros(n_times), np.eye(n_times)
    marginals = {
        mask: joint_loglik(m, rows, [i for i in range(n) if mask >> i & 1], still, one)
        for mask in range(1, 1 << n)
    }
    states = enumeration.labellings(n, SLOTS)
    weights = np.full(SLOTS, WEIGHT)
    return enumeration.posterior(
        states, marginals, lambda z: enumeration.log_dirichlet(z, weights), True
    )


def p_value(n_sweeps, seed, n_shards):
    m, rows = small_model()
    rng = np.random.default_rng(seed)
    sampler = chain(m, dirichlet(SLOTS, WEIGHT), rng, n_shards=n_shards)
    exact = exact_posterior(m, rows)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, n_sweeps, rng))
    print(f"{n_shards} shards, {n_sweeps} sweeps: {result}")
    assert result.n_cells > 10
    return result.p_value


def test_frequencies_of_partitions():
    assert p_value(1500, 1, 2) > LEVEL


@pytest.mark.exact
@pytest.mark.parametrize("n_shards", [1, 2, 3])
def test_frequencies_of_partitions_at_length(n_shards):
    assert p_value(10_000, 2, n_shards) > LEVEL


@pytest.mark.exact
def test_factors_of_another_variance_are_noticed(monkeypatch):
    """Negative control."""
    right = series_sampler.draw_factors_given_states
    monkeypatch.setattr(
        series_sampler, "draw_factors_given_states", lambda v, *rest: right(3.0 * v, *rest)
    )
    assert p_value(10_000, 2, 2) < LEVEL


def test_log_joint_density_is_that_of_the_textbook():
    m, rows = small_model()
    rng = np.random.default_rng(0)
    sampler = chain(m, dirichlet(SLOTS, WEIGHT), rng, n_shards=2)
    sampler.sweep(rng)
    z, eta = sampler.labels(), sampler.parameters.value
    nothing = np.zeros((4, 4))
    expected = enumeration.log_dirichlet(z, np.full(SLOTS, WEIGHT))
    for i, k in enumerate(z):
        expected += joint_loglik(m, rows, [i], eta[:, k], nothing)
    expected += stats.norm.logpdf(eta[:, np.unique(z)]).sum()
    assert sampler.log_joint() == pytest.approx(expected, rel=1e-9)


# --------------------------------------------------------------------------- joint distribution


def cycle(sampler, world, rng):
    """What series share, then data, states and weights of cells anew, then a pass."""
    sampler._draw_shared(rng)
    m, z = sampler.model, sampler.z
    own = m.own
    own.a[:] = own.a + sampler.shift[z]
    own.loading[:] = own.loading / sampler.scale[z]
    sampler.shift[:], sampler.scale[:] = 0.0, 1.0
    if own.tails.size:
        own.tails[:] = rng.gamma(own.df[0] / 2, 2 / own.df[0], own.tails.shape)
    states = world.fill(m, z, sampler.parameters.value, rng)
    noise = np.zeros((0, 0), dtype=np.float32)
    if own.tails.size:
        fitted = own.beta[:, :1] + own.beta[:, 1:] * m.cells.covariates[:, :, 0]
        away = np.nan_to_num(m.cells.y - fitted - states)
        noise = (m.cells.repeats / own.var_y[:, None] * away**2).astype(np.float32)
    sampler.shards.put(
        LocalState(z.astype(np.int32), own.a.copy(), own.loading.copy(), own.var_y.copy(),
            own.beta.copy(), noise)
    )  # fmt: skip
    sampler.n_sweeps += 1
    sampler._pass()


def largest(world, prior, n_draws, n_shards, learn_df=False, **broken):
    rng = np.random.default_rng(2)
    world.fill(world.model, np.zeros(N, dtype=int), np.zeros((T, K)), rng)
    sampler = chain(
        world.model, dirichlet(K), rng, n_shards=n_shards, block=1 + (n_shards < 3),
        moving=EVERYTHING, priors=PRIORS._replace(**broken), learn_df=learn_df,
    )  # fmt: skip
    assert np.array_equal(sampler.priors.beta_mean, 0.2 * ONE)
    found = []
    for _ in range(n_draws):
        cycle(sampler, world, rng)
        m = sampler.model
        found.append(statistics(m, sampler._series.hyper, sampler.z, sampler.parameters.value))
    off = np.abs(scores(np.array(found), prior)).max()
    print(f"{n_shards} shards, {n_draws} draws, {broken}: {off:.2f} of {LIMIT}")
    return off


@pytest.fixture(scope="module")
def world():
    return World(5)


@pytest.fixture(scope="module")
def prior_draws(world):
    return from_prior(world, 20_000, np.random.default_rng(1))


@pytest.mark.exact
@pytest.mark.parametrize("n_shards", [1, 2, 3])
def test_prior_and_chain_agree(world, prior_draws, n_shards):
    assert largest(world, prior_draws, 12_000, n_shards) < LIMIT


@pytest.mark.exact
def test_student_t_noise():
    world = World(5, df=10.0)
    prior = from_prior(world, 20_000, np.random.default_rng(1))
    assert largest(world, prior, 12_000, 2, learn_df=True) < LIMIT
    # A chain that keeps its degrees of freedom is another posterior's.
    assert largest(world, prior, 4_000, 2) > LIMIT


@pytest.mark.exact
def test_another_prior_is_noticed(world, prior_draws):
    """Negative control."""
    assert largest(world, prior_draws, 4_000, 2, var_x_scale=4.0) > LIMIT
