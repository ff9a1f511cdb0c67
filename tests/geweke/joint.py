"""Geweke's joint-distribution test of samplers over partitions.

Two ways to draw from the joint distribution of everything (data included) must agree:

* *marginal-conditional*: draw concentration, partition, parameters, data from their priors, afresh
  each time, with NumPy alone;
* *successive-conditional*: alternate the sampler's sweep given the data with new data given the
  sampler's state.

Compared are means of bounded or light-tailed functions; standard errors of the chain come from
batch means.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from builders import gaussian_collapse, student_t_collapse
from scipy import stats

from cavity.collapse.conjugate import ConjugateCollapse
from cavity.conjugate.niw import unpack
from cavity.likelihoods.degrees_of_freedom import HIGHEST, LOWEST
from cavity.likelihoods.missing import MissingOrWeightedRows, RowTraits
from cavity.mcmc.chain import PartitionSampler
from cavity.moves.anchors import all_anchors
from cavity.moves.standard import StandardMoves
from cavity.priors.cluster import NIWPrior
from cavity.priors.concentration import ConcentrationUpdate
from cavity.priors.covariance_df import LEAST, MOST
from cavity.priors.covariance_scale import FULL, scale_prior
from cavity.priors.hyperpriors import ClusterHyperpriors
from cavity.priors.mean_spread import SpreadPrior
from cavity.priors.partition import dirichlet, dirichlet_process, pitman_yor

N, D = 5, 1
SLOTS = 8
NIW = NIWPrior(np.array([0.5]), 0.4, 5.0, np.array([[2.0]]))
CONCENTRATION = (3.0, 2.0)  # shape and rate
DF = (3.0, 0.5)
SCALE = scale_prior(FULL, 6.0, np.array([0.7]), 3.0)
TYPICAL = 4.0  # median of nu - d - 1
SPREAD = SpreadPrior(3.0, 6.0, 0.5)
N_CLUSTERS = 3
DISCOUNT = 0.3
FIXED_DF = 4.0
MISSING = np.array([[True], [False], [False], [True], [False]])


class Case(NamedTuple):
    """A sampler under test."""

    likelihood: str  # gaussian, student-t
    collapse: str
    prior: str
    learn_df: str | None = None
    hyper: bool = False
    moves: bool = False
    gaps: bool = False


class State(NamedTuple):
    """One draw of everything."""

    concentration: float
    common: NIWPrior
    z: np.ndarray
    mean: np.ndarray  # of each observation's cluster
    precision: np.ndarray
    df: np.ndarray
    scale: np.ndarray
    y: np.ndarray


def functions(s: State, case: Case) -> list[float]:
    """What is compared."""
    pairs = [s.z[i] == s.z[j] for i in range(N) for j in range(i)]
    residual = (s.y - s.mean) * np.sqrt(s.precision)
    values = [
        np.log(s.concentration),
        np.log(s.concentration) ** 2,
        len(set(s.z.tolist())),
        np.mean(pairs),
        np.mean(pairs) * np.log(s.concentration),
        np.tanh(s.mean[0]),
        np.tanh(s.mean[0] * s.mean[1]),
        np.log(s.precision[0]),
        np.log(s.precision[0]) * (s.z[0] == s.z[1]),
        np.tanh(s.y[0]),
        np.tanh(s.y[0] * s.y[1]),
        np.tanh(0.2 * np.abs(s.y).max()),
        np.tanh(0.5 * np.mean(residual**2)),
        np.tanh(residual[0]) * np.tanh(residual[1]),
    ]
    if case.hyper:
        spare = s.common.nu - D - 1.0
        scale, kappa = np.log(s.common.psi[0, 0] / spare), np.log(s.common.kappa)
        values += [
            scale,
            scale**2,
            scale * np.log(s.precision[0]),
            scale * np.mean(pairs),
            scale * np.tanh(0.2 * np.abs(s.y).max()),
            np.log(spare),
            np.log(spare) ** 2,
            np.log(spare) * np.tanh(np.log(s.precision[0]) + scale),
            kappa,
            kappa**2,
            kappa * np.tanh(s.mean[0] ** 2),
            kappa * np.mean(pairs),
            s.common.mean[0],
            s.common.mean[0] ** 2,
            s.common.mean[0] * np.tanh(s.mean[0]),
        ]
    if case.likelihood == "student-t":
        values += [
            np.log(s.df[0]),
            np.log(s.df[0]) ** 2,
            np.log(s.df[0]) * (s.z[0] == s.z[1]),
            np.log(s.scale[0]),
            np.log(s.scale[0]) * np.log(s.df[0]),
            np.log(s.scale[0]) * np.tanh(residual[0] ** 2),
        ]
    return [float(v) for v in values]


# --------------------------------------------------------------------------- from the priors


def prior_df(rng):
    while True:
        df = rng.gamma(DF[0], 1.0 / DF[1])
        if LOWEST <= df <= HIGHEST:
            return df


def prior_hyper(rng):
    """What the clusters have in common, from its priors."""
    expected = SCALE.typical[0] * rng.gamma(SCALE.tail) / rng.gamma(SCALE.tail)
    scale = rng.gamma(0.5 * SCALE.strength, 2.0 * expected / SCALE.strength)
    ends = np.array([LEAST, MOST])
    share = rng.uniform(*(ends / (ends + TYPICAL)))
    spare = TYPICAL * share / (1.0 - share)
    kappa = rng.gamma(SPREAD.shape, 1.0 / SPREAD.rate)
    centre = SPREAD.spread * rng.standard_normal(D)
    return NIWPrior(centre, kappa, spare + D + 1.0, np.array([[spare * scale]]))


def seated(concentration, prior, rng):
    """A partition from its prior, one observation after another."""
    if prior == "dirichlet":
        return rng.choice(N_CLUSTERS, size=N, p=rng.dirichlet(np.full(N_CLUSTERS, concentration)))
    discount = DISCOUNT if prior == "pitman-yor" else 0.0
    counts: list[int] = []
    z = np.zeros(N, dtype=int)
    for i in range(N):
        weight = np.array([c - discount for c in counts] + [concentration + discount * len(counts)])
        z[i] = rng.choice(len(weight), p=weight / weight.sum())
        counts = [*counts, 1] if z[i] == len(counts) else counts
        if z[i] < len(counts) and (z[:i] == z[i]).any():
            counts[z[i]] += 1
    return z


def from_priors(case: Case, rng) -> State:
    concentration = rng.gamma(CONCENTRATION[0], 1.0 / CONCENTRATION[1])
    z = seated(concentration, case.prior, rng)
    common = prior_hyper(rng) if case.hyper else NIW
    precision = rng.gamma(0.5 * common.nu, 2.0 / common.psi[0, 0], N)
    mean = common.mean[0] + rng.standard_normal(N) / np.sqrt(common.kappa * precision)
    if case.learn_df == "each":
        df = np.array([prior_df(rng) for _ in range(N)])
    else:
        df = np.full(N, prior_df(rng) if case.learn_df else FIXED_DF)
    mean, precision, df = mean[z], precision[z], df[z]
    scale = np.ones(N)
    if case.likelihood == "student-t":
        scale = rng.gamma(0.5 * df) / (0.5 * df)
    y = mean + rng.standard_normal(N) / np.sqrt(precision * scale)
    return State(concentration, common, z, mean, precision, df, scale, y)


# --------------------------------------------------------------------------- by the sampler


def state_of(sampler) -> State:
    parameters, model = sampler.collapse.parameters, sampler.collapse.state.model
    z = sampler.labels().astype(int)
    return State(
        float(sampler.prior.concentration[0]),
        NIWPrior(*unpack(sampler.collapse.family.prior, D)),
        z.copy(),
        parameters.mean[0, z].copy(),
        parameters.whiten[0, 0, z] ** 2,
        2.0 * model.alpha[z],
        model.scale.copy(),
        model.y[:, 0].copy(),
    )


def new_data(sampler, rng) -> None:
    """Data given everything else, and statistics that go with them.

    What fills gaps is no datum: the sampler draws it.
    """
    s = state_of(sampler)
    y = s.mean + rng.standard_normal(N) / np.sqrt(s.precision * s.scale)
    model = sampler.collapse.state.model
    there = ~MISSING[:, 0] if isinstance(model, MissingOrWeightedRows) else np.ones(N, dtype=bool)
    model.y[there, 0] = y[there]
    if isinstance(sampler.collapse, ConjugateCollapse):
        sampler.collapse.renew(sampler.z, sampler.counts, frozenset(), rng)


def seen(chain, **wrong):
    """A chain as an update sees it, with something wrong."""
    names = ("model", "family", "parameters", "prior", "z", "counts")
    return SimpleNamespace(**{name: getattr(chain, name) for name in names} | wrong)


def make_sampler(case: Case, rng) -> PartitionSampler:
    start = from_priors(case, rng)
    y = start.y[:, None].copy()
    niw = start.common
    updates = (ClusterHyperpriors(D, SCALE, TYPICAL, SPREAD),) if case.hyper else ()
    rows = RowTraits(MISSING, np.ones(N)) if case.gaps else None
    if case.likelihood == "gaussian":
        collapse = gaussian_collapse(y, niw, SLOTS, case.collapse, updates, rows)
    else:
        collapse = student_t_collapse(
            y,
            niw,
            SLOTS,
            case.collapse,
            FIXED_DF,
            learn_df=case.learn_df,
            df_prior=DF,
            updates=updates,
            rows=rows,
        )
    if case.learn_df == "each":
        # Slots that no one has used yet must hold draws from their prior.
        for k in range(SLOTS):
            collapse.collapse.model.alpha[k] = 0.5 * prior_df(rng)
    prior = {
        "dirichlet": dirichlet(N_CLUSTERS, start.concentration),
        "dp": dirichlet_process(SLOTS, start.concentration),
        "pitman-yor": pitman_yor(SLOTS, start.concentration, DISCOUNT),
    }[case.prior]
    learner = ConcentrationUpdate(*CONCENTRATION)
    moves = [StandardMoves(all_anchors(N), 0)] if case.moves else []
    return PartitionSampler(collapse, prior, start.z, rng, updates=(learner,), moves=moves)


def threshold_of(n_functions):
    """Largest score that one in ten thousand right samplers exceed."""
    return stats.norm.isf(0.5e-4 / n_functions)


class Steps(NamedTuple):
    """How a kind of sampler is made, given new data and read."""

    make: Callable
    renew: Callable
    read: Callable


COLLAPSES = Steps(make_sampler, new_data, state_of)


def z_scores(
    case: Case, n_sweeps: int, seed: int, spoil=lambda sampler: None, steps: Steps = COLLAPSES
) -> np.ndarray:
    """One score per function; standard normal if the sampler is right."""
    rng = np.random.default_rng(seed)

    def renew(sampler):
        steps.renew(sampler, rng)
        spoil(sampler)

    return z_scores_of(
        lambda: functions(from_priors(case, rng), case),
        lambda: steps.make(case, rng),
        renew,
        lambda sampler: functions(steps.read(sampler), case),
        n_sweeps,
        rng,
    )


def z_scores_of(from_prior, make, renew, read, n_sweeps, rng) -> np.ndarray:
    """One score per function, of draws from the priors and of a sampler given new data in turn."""
    n_prior = 8000
    prior = np.array([from_prior() for _ in range(n_prior)])
    sampler = make()
    for _ in range(100):
        sampler.sweep(rng)
        renew(sampler)
    chain = np.empty((n_sweeps, prior.shape[1]))
    for row in chain:
        sampler.sweep(rng)
        renew(sampler)
        row[:] = read(sampler)
    n_batches = 50
    batches = chain[: n_sweeps // n_batches * n_batches].reshape(n_batches, -1, chain.shape[1])
    means = batches.mean(axis=1)
    variance = means.var(axis=0, ddof=1) / n_batches + prior.var(axis=0) / n_prior
    constant = variance == 0.0
    difference = chain.mean(axis=0) - prior.mean(axis=0)
    # Few batches: the t distribution's tails, mapped to normal scores.
    scores = np.where(constant, difference, difference / np.sqrt(np.where(constant, 1.0, variance)))
    tails = stats.t.sf(np.abs(scores), n_batches - 1)
    return np.where(constant, scores, np.sign(scores) * stats.norm.isf(np.clip(tails, 1e-300, 0.5)))
