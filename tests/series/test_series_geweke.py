"""Joint-distribution tests (Geweke 2004): every parameter moves, the data are drawn anew each time.

Draws of (parameters, data) from the prior must agree with a chain that alternates one sweep of
the sampler with fresh data given its state. Statistics are taken after the sweep, with the data it
has seen: some of them are products of labels and data, so labels that ignore the data are noticed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from builders import series_chain

from cavity._numba.jit import compiled
from cavity._numba.numerics import truncated_normal
from cavity.collapse.ep import insert_members
from cavity.likelihoods.degrees_of_freedom import HIGHEST, LOWEST
from cavity.moves.anchors import all_anchors
from cavity.moves.standard import WholeClusterMoves
from cavity.priors.partition import dirichlet
from cavity.series.corrected import rebuild_sites
from cavity.series.exact import rebuild_clusters
from cavity.series.parameters import RATE, SHAPE, Hyperprior, SeriesPriors
from cavity.series.state_space import factor_series

N, T, K = 4, 4, 2
ONE = np.ones(2)
PRIORS = SeriesPriors(
    6.0, 2.0, 6.0, 3.0, 0.2 * ONE, 4 * ONE, 6 * ONE, 2 * ONE,
    a=Hyperprior(True, 4.0, 4.0, 0.4), loading=Hyperprior(True, 2.0, 5.0, 2.0),
    common=Hyperprior(True, 2.0, 5.0, 2.0), var_x0_shape=5.0, var_x0_scale=4.0,
)  # fmt: skip
LIMIT = 4.5  # standard errors; 30 to 44 statistics per test: false alarm below 3e-4 each


class World:
    """A fixed design: which cells are observed how often, and their covariates."""

    def __init__(self, seed, df=np.inf, common=None):
        rng = np.random.default_rng(seed)
        self.count = rng.integers(0, 3, (N, T))
        self.series, self.time = (
            np.repeat(index.ravel(), self.count.ravel()) for index in np.indices((N, T))
        )
        self.u = rng.standard_normal(len(self.series))
        cell = self.series * T + self.time
        self.cell = cell
        total = np.bincount(cell, self.u, N * T).reshape(N, T)
        with np.errstate(invalid="ignore"):
            self.u_mean = np.nan_to_num(total / self.count)
        self.model = factor_series(
            np.where(self.count > 0, 0.0, np.nan), self.count.astype(np.uint16),
            self.u_mean[..., None], a=0.3, loading=0.4, var_x=0.4, var_y=0.6,
            beta=np.zeros((N, 2)), population=(0.0, 4.0, 0.0, 2.0), var_x0=0.8, df=df,
            free_signs=True, intercept=True, common=common,
        )  # fmt: skip

    def fill(self, m, z, eta, rng):
        """Draw data given assignments, factors, parameters into the model's arrays; the states."""
        x = math.sqrt(m.own.var_x0[0]) * rng.standard_normal(N)
        states = np.empty((N, T))
        for t in range(T):
            x = (
                m.own.a * x
                + m.own.loading * eta[t, z]
                + math.sqrt(m.own.var_x[0]) * rng.standard_normal(N)
            )
            if m.own.common.size:
                x = x + m.own.common * m.own.common_factor[t]
            states[:, t] = x
        fitted = m.own.beta[self.series, 0] + m.own.beta[self.series, 1] * self.u
        y = states[self.series, self.time] + fitted
        noise = np.sqrt(m.own.var_y[self.series]) * rng.standard_normal(len(y))
        if m.own.tails.size:
            with np.errstate(invalid="ignore"):
                mean = np.bincount(self.cell, noise, N * T).reshape(N, T) / self.count
            wild = mean / np.sqrt(m.own.tails) - mean
            noise += wild[self.series, self.time]
        y = y + noise
        total = np.bincount(self.cell, y, N * T).reshape(N, T)
        with np.errstate(invalid="ignore"):
            m.cells.y[:] = total / self.count
        du = self.u - self.u_mean[self.series, self.time]
        dy = y - m.cells.y[self.series, self.time]
        m.cells.scatter[:, 1, 1] = np.bincount(self.series, du * du, N)
        m.cells.scatter[:, 2, 2] = np.bincount(self.series, dy * dy, N)
        m.cells.scatter[:, 1, 2] = m.cells.scatter[:, 2, 1] = np.bincount(self.series, du * dy, N)
        return states


def statistics(m, hyper, z, eta):
    left = m.cells.y - m.own.beta[:, :1] - m.own.beta[:, 1:] * m.cells.covariates[:, :, 0]
    left = np.nan_to_num(left)
    first, second = np.triu_indices(N, 1)
    same = z[first] == z[second]
    together = (left[first] * left[second]).sum(1)
    sign = np.sign(m.own.loading[first] * m.own.loading[second])
    a_mean, a_precision, loading_mean, loading_precision = m.own.population
    return np.array(
        [
            a_mean, a_mean**2, math.log(a_precision), loading_mean**2,
            loading_mean * m.own.loading.mean(), math.log(loading_precision),
            m.own.a.mean(), (m.own.a**2).mean(), m.own.a[0] * m.own.a[1], m.own.loading.mean(),
            (m.own.loading**2).mean(), m.own.loading[0] * m.own.loading[1],
            math.log(m.own.var_x[0]), math.log(m.own.var_x[0]) ** 2, math.log(m.own.var_x0[0]),
            np.log(m.own.var_y).mean(), (np.log(m.own.var_y) ** 2).mean(),
            m.own.beta[:, 0].mean(), m.own.beta[:, 1].mean(), (m.own.beta**2).mean(),
            hyper[0].mean(), np.log(hyper[1]).mean(), (np.log(hyper[1]) ** 2).mean(),
            (eta[:, z[0]] ** 2).mean(), eta[0, z[0]] * eta[1, z[0]],
            same.mean(), (left**2).mean(), (same * together).mean(), (same * sign).mean(),
            (same * sign * together).mean(),
            *student_t(m), *shared(m, same, together, left, eta[:, z[0]]),
        ]
    )  # fmt: skip


def shared(m, same, together, left, eta):
    """Statistics of a common factor, if there is one."""
    c, g = m.own.common, m.own.common_factor
    if not c.size:
        return ()
    mean, precision = m.own.common_population
    first, second = np.triu_indices(N, 1)
    sign = np.sign(c[first] * c[second])
    return (
        mean**2, math.log(precision), mean * c.mean(), (c**2).mean(), c[0] * c[1],
        (g**2).mean(), g[0] * g[1], (sign * together).mean(), (same * sign * together).mean(),
        (c @ left * g).mean(), (c[0] * m.own.loading[0] * g * eta).mean(),
    )  # fmt: skip


def student_t(m):
    """Statistics of Student-t noise, if there is any."""
    if not m.own.tails.size:
        return ()
    log_weight = np.log(m.own.tails[m.cells.repeats > 0])
    return math.log(m.own.df[0]), log_weight.mean(), (log_weight**2).mean()


def from_prior(world, n_draws, rng):
    out = []
    m = world.model
    hyper = np.empty((2, 2))
    for _ in range(n_draws):
        weights = rng.dirichlet(np.ones(K))
        z = rng.choice(K, N, p=weights)
        eta = rng.standard_normal((T, K))
        a_mean = truncated_normal(rng, 0.0, PRIORS.a.precision**-0.5, -1.0, 1.0)
        a_var = PRIORS.a.scale / rng.gamma(PRIORS.a.shape)
        loading_mean = rng.normal(0.0, PRIORS.loading.precision**-0.5)
        loading_var = PRIORS.loading.scale / rng.gamma(PRIORS.loading.shape)
        for i in range(N):
            m.own.a[i] = truncated_normal(rng, a_mean, math.sqrt(a_var), -1.0, 1.0)
        m.own.loading[:] = rng.normal(loading_mean, math.sqrt(loading_var), N)
        m.own.population[:] = a_mean, 1 / a_var, loading_mean, 1 / loading_var
        m.own.var_x[0] = PRIORS.var_x_scale / rng.gamma(PRIORS.var_x_shape)
        m.own.var_x0[0] = PRIORS.var_x0_scale / rng.gamma(PRIORS.var_x0_shape)
        m.own.var_y[:] = PRIORS.var_y_scale / rng.gamma(PRIORS.var_y_shape, size=N)
        hyper[0] = rng.normal(PRIORS.beta_mean, PRIORS.beta_precision**-0.5)
        hyper[1] = PRIORS.beta_scale / rng.gamma(PRIORS.beta_shape)
        m.own.beta[:] = rng.normal(hyper[0], np.sqrt(hyper[1]), (N, 2))
        if m.own.tails.size:
            m.own.df[0] = 0.0
            while not LOWEST < m.own.df[0] < HIGHEST:
                m.own.df[0] = rng.gamma(SHAPE, 1 / RATE)
            m.own.tails[:] = rng.gamma(m.own.df[0] / 2, 2 / m.own.df[0], (N, T))
        if m.own.common.size:
            hyperprior = PRIORS.common
            mean = rng.normal(0.0, hyperprior.precision**-0.5)
            var = hyperprior.scale / rng.gamma(hyperprior.shape)
            m.own.common_population[:] = mean, 1 / var
            m.own.common[:] = rng.normal(mean, math.sqrt(var), N)
            m.own.common_factor[:] = rng.standard_normal(T)
        world.fill(m, z, eta, rng)
        out.append(statistics(m, hyper, z, eta))
    return np.array(out)


def labels_from_the_prior(sampler):
    """A scan that draws labels as if there were no data."""

    def scan(rng):
        sampler.z[:] = rng.choice(K, N, p=rng.dirichlet(np.ones(K)))
        sampler.counts[:] = np.bincount(sampler.z, minlength=sampler.counts.size)

    return scan


def from_chain(world, n_draws, settings, rng, broken=None, blind=False, spoil=None):
    settings = dict(settings)
    moves = settings.pop("moves", False)
    world.fill(world.model, np.zeros(N, dtype=int), np.zeros((T, K)), rng)
    hyper = np.array([PRIORS.beta_mean, ONE])
    priors = PRIORS if broken is None else PRIORS._replace(**broken)
    sampler = series_chain(
        world.model, rng.integers(0, K, N), dirichlet(K), priors, hyper, rng, **settings
    )
    if moves:
        sampler.moves = (WholeClusterMoves(all_anchors(N), 0),)
    if spoil is not None:
        spoil(sampler)
    if blind:
        sampler._scan = labels_from_the_prior(sampler)
    out = []
    for _ in range(n_draws):
        m = sampler.model
        world.fill(m, sampler.z, sampler.parameters.value, rng)
        if settings["collapse"] == "collapsed":
            rebuild_clusters(sampler.collapse.state, sampler.z)
        elif settings["collapse"] == "corrected":
            rebuild_sites(sampler.collapse.state, sampler.z)
        elif settings["collapse"] == "ep":
            state = sampler.collapse.state
            every = np.ones(sampler.counts.size, dtype=bool)
            order = sampler.order.astype(np.int64)
            compiled(insert_members, state)(state, sampler.z, order, every)
        sampler.sweep(rng)
        out.append(statistics(m, sampler.updates[0].hyper, sampler.z, sampler.parameters.value))
    return np.array(out)


def scores(chain, prior):
    """Differences of means in standard errors; the chain's by means of 50 batches."""
    batches = chain[: len(chain) // 50 * 50].reshape(50, -1, chain.shape[1]).mean(1)
    error = np.sqrt(batches.var(0, ddof=1) / 50 + prior.var(0, ddof=1) / len(prior))
    return (chain.mean(0) - prior.mean(0)) / error


def largest(chain, prior):
    """The largest difference, in standard errors; `pytest -s` shows it."""
    found = np.abs(scores(chain, prior)).max()
    print(f"largest of {chain.shape[1]} differences: {found:.2f} standard errors")
    return found


@pytest.fixture(scope="module")
def world():
    return World(5)


@pytest.fixture(scope="module")
def prior_draws(world):
    return from_prior(world, 20_000, np.random.default_rng(1))


CHAINS = {
    "corrected": {"collapse": "corrected", "moves": True},
    "collapsed": {"collapse": "collapsed"},
    "naive joint": {"collapse": "naive", "draw": "joint"},
    "naive alternating": {"collapse": "naive", "draw": "alternate"},
    "ep": {"collapse": "ep"},
}


# Chains that share most of their steps with the others.
LONG = dict.fromkeys(("collapsed", "naive joint", "corrected", "ep"), pytest.mark.exact)


@pytest.mark.variants("exact", "naive alternating")
@pytest.mark.parametrize("name", [pytest.param(n, marks=LONG.get(n, ())) for n in CHAINS])
def test_prior_and_chain_agree(world, prior_draws, name):
    chain = from_chain(world, 15_000, CHAINS[name], np.random.default_rng(2))
    assert largest(chain, prior_draws) < LIMIT


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("corrected", marks=pytest.mark.exact),
        pytest.param("collapsed", marks=pytest.mark.exact),
        pytest.param("naive alternating", marks=pytest.mark.exact),
    ],
)
def test_student_t_noise(name):
    world = World(5, df=10.0)
    prior = from_prior(world, 20_000, np.random.default_rng(1))
    settings = CHAINS[name] | {"learn_df": True}
    chain = from_chain(world, 15_000, settings, np.random.default_rng(2))
    assert largest(chain, prior) < LIMIT
    # A chain that keeps its degrees of freedom is another posterior's.
    chain = from_chain(world, 4_000, CHAINS[name], np.random.default_rng(2))
    assert largest(chain, prior) > LIMIT


@pytest.fixture(scope="module")
def shared_world():
    return World(5, common=0.4)


@pytest.fixture(scope="module")
def shared_draws(shared_world):
    return from_prior(shared_world, 20_000, np.random.default_rng(1))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("corrected", marks=pytest.mark.exact),
        pytest.param("collapsed", marks=pytest.mark.exact),
        pytest.param("naive joint", marks=pytest.mark.exact),
        pytest.param("naive alternating", marks=pytest.mark.exact),
        pytest.param("ep", marks=pytest.mark.exact),
    ],
)
def test_a_common_factor(shared_world, shared_draws, name):
    chain = from_chain(shared_world, 15_000, CHAINS[name], np.random.default_rng(2))
    assert largest(chain, shared_draws) < LIMIT


@pytest.mark.exact
def test_a_common_factor_and_student_t_noise():
    world = World(5, df=10.0, common=0.4)
    prior = from_prior(world, 20_000, np.random.default_rng(1))
    settings = CHAINS["collapsed"] | {"learn_df": True}
    chain = from_chain(world, 15_000, settings, np.random.default_rng(2))
    assert largest(chain, prior) < LIMIT


def unseen(sampler):
    """Tilts that forget the clusters' own factors."""
    update = sampler.updates[2]
    draw = update.draw

    def broken(chain, rng):
        before = chain.parameters.value.copy()
        draw(chain, rng)
        chain.parameters.value[:] = before

    update.draw = broken


@pytest.mark.exact
@pytest.mark.parametrize(
    "wrong",
    [{"broken": {"common": PRIORS.common._replace(scale=4.0)}}, {"spoil": unseen}],
    ids=["prior", "tilts"],
)
def test_a_wrong_common_factor_is_noticed(shared_world, shared_draws, wrong):
    rng = np.random.default_rng(3)
    chain = from_chain(shared_world, 6_000, CHAINS["naive alternating"], rng, **wrong)
    assert largest(chain, shared_draws) > LIMIT


@pytest.mark.exact
@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"broken": {"a": PRIORS.a._replace(scale=0.8)}}, marks=pytest.mark.exact),
        pytest.param(
            {"broken": {"loading": PRIORS.loading._replace(scale=6.0)}}, marks=pytest.mark.exact
        ),
        {"broken": {"var_x_scale": 3.0}},
        pytest.param({"broken": {"beta_scale": 3 * ONE}}, marks=pytest.mark.exact),
        pytest.param({"blind": True, "n_draws": 20_000}, marks=pytest.mark.exact),
    ],
    ids=["a", "loading", "var_x", "beta", "labels that ignore the data"],
)
def test_a_wrong_sampler_is_noticed(world, prior_draws, broken):
    settings = CHAINS["naive joint"]
    broken = {"n_draws": 6_000} | broken
    chain = from_chain(world, settings=settings, rng=np.random.default_rng(3), **broken)
    assert largest(chain, prior_draws) > LIMIT
