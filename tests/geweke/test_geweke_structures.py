"""Joint-distribution tests of structured covariances, with all that is learned about them.

Everything is drawn from its priors with NumPy alone, and by the sampler in turn with new data. The
largest of some thirty scores must stay below the normal quantile of a 1e-4 false alarm per case,
Bonferroni over its functions. Seeds are fixed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from builders import precisions
from joint import prior_df, seated, seen, threshold_of, z_scores_of
from scipy import stats

from cavity.collapse.problems import StructuredProblem
from cavity.collapse.registry import assemble
from cavity.conjugate.nig import unpack_diagonal
from cavity.likelihoods.column_selection import ColumnSelection
from cavity.likelihoods.degrees_of_freedom import TailUpdate
from cavity.likelihoods.factor_loadings import STRENGTH_PRIOR, FactorUpdate
from cavity.likelihoods.missing import RowTraits
from cavity.likelihoods.shared_covariance import TiedCovarianceUpdate
from cavity.mcmc.chain import PartitionSampler
from cavity.moves.anchors import all_anchors
from cavity.moves.standard import StandardMoves
from cavity.priors.covariance_df import LEAST, MOST
from cavity.priors.covariance_scale import DIAGONAL, scale_prior
from cavity.priors.hyperpriors import DiagonalHyperpriors
from cavity.priors.mean_spread import SpreadPrior
from cavity.priors.partition import dirichlet_process
from cavity.priors.structured import StructuredPrior

N, D = 5, 2
SLOTS = 8
CONCENTRATION = 1.2
DF = (3.0, 0.5)
SPREAD = SpreadPrior(3.0, 6.0, 0.5)
VARIANCE = scale_prior(DIAGONAL, 4.0, np.array([0.7, 1.1]), 3.0)
TYPICAL = 4.0
NU = {"diag": 4.0, "tied": 6.0, "factor": 4.0}
MISSING = np.zeros((N, D), dtype=bool)
MISSING[0, 0] = MISSING[3, 1] = True


class Case(NamedTuple):
    """A sampler under test."""

    structure: str
    heavy: bool = True
    gaps: bool = True
    moves: bool = True
    select: bool = False  # whether columns have indicators


class Common(NamedTuple):
    """What clusters have in common."""

    centre: np.ndarray
    kappa: float
    nu: float
    scale: np.ndarray
    strength: float
    df: float
    shared: np.ndarray


class State(NamedTuple):
    """One draw of everything."""

    common: Common
    z: np.ndarray
    mean: np.ndarray  # (n, d) of each observation's cluster
    sigma: np.ndarray  # (n, d, d)
    scale: np.ndarray
    y: np.ndarray
    active: np.ndarray  # (d,), whether clusters differ in a column
    share: float  # of columns in which they do


def problem_prior(structure):
    learned = {} if structure == "tied" else {"variance": VARIANCE, "typical": TYPICAL}
    return StructuredPrior(
        np.zeros(D), 0.5, NU[structure], VARIANCE.typical, spread=SPREAD, **learned
    )


def functions(s: State, case: Case) -> list[float]:
    """What is compared."""
    pairs = np.mean([s.z[i] == s.z[j] for i in range(N) for j in range(i)])
    variance = np.log(np.diagonal(s.sigma, axis1=1, axis2=2))
    correlation = s.sigma[:, 0, 1] / np.exp(0.5 * variance.sum(axis=1))
    away = s.y - s.mean
    form = s.scale * np.einsum("ni,nij,nj->n", away, np.linalg.inv(s.sigma), away)
    c = s.common
    values = [
        len(set(s.z.tolist())),
        pairs,
        *np.tanh(s.mean[0]),
        np.tanh(s.mean[0, 0] * s.mean[1, 1]),
        *variance[0],
        variance[0, 0] * variance[0, 1],
        variance[0, 0] * (s.z[0] == s.z[1]),
        correlation[0] ** 2,
        correlation[0] * np.tanh(away[0, 0] * away[0, 1]),
        *np.tanh(s.y[0]),
        np.tanh(s.y[0, 0] * s.y[0, 1]),
        np.tanh(s.y[0, 0] * s.y[1, 0]),
        np.tanh(0.2 * np.abs(s.y).max()),
        np.tanh(0.5 * form.mean()),
        np.log(c.kappa),
        np.log(c.kappa) ** 2,
        np.log(c.kappa) * np.tanh(np.square(s.mean[0]).sum()),
        *c.centre,
        c.centre[0] * np.tanh(s.mean[0, 0]),
        c.centre[1] ** 2,
    ]
    if case.structure != "tied":
        values += [
            *np.log(c.scale),
            np.log(c.scale[0]) * variance[0, 0],
            np.log(c.nu - 2.0),
            np.log(c.nu - 2.0) ** 2,
            np.log(c.nu - 2.0) * np.tanh(variance[0, 0] - variance[1, 0]) ** 2,
        ]
    if case.structure == "factor":
        values += [np.log(c.strength), np.log(c.strength) ** 2, np.log(c.strength) * pairs]
        values += [np.log(c.strength) * correlation[0] ** 2]
    if case.heavy:
        values += [
            np.log(c.df),
            np.log(c.df) ** 2,
            np.log(s.scale[0]),
            np.log(s.scale[0]) * np.log(c.df),
            np.log(s.scale[0]) * np.tanh(form[0]),
        ]
    if case.select:
        values += [
            *s.active,
            s.active[0] * s.active[1],
            s.share,
            s.share * s.active.sum(),
            s.active[0] * np.tanh(s.y[0, 0] * s.y[1, 0]),
            s.active[0] * pairs,
            s.active[0] * variance[0, 0],
            s.active[1] * np.log(c.scale[1]),
            s.active[0] * np.log(c.kappa),
            s.active.sum() * np.log(c.nu - 2.0),
        ]
    return [float(v) for v in values]


def from_priors(case: Case, rng) -> State:
    nu, scale, strength, shared = NU[case.structure], VARIANCE.typical, 1.0, np.eye(D)
    if case.structure == "tied":
        psi = (nu - D - 1.0) * np.diag(scale)
        shared = stats.invwishart.rvs(nu, psi, random_state=rng)
    else:
        ratio = rng.gamma(VARIANCE.tail, size=D) / rng.gamma(VARIANCE.tail, size=D)
        scale = rng.gamma(VARIANCE.strength, VARIANCE.typical * ratio / VARIANCE.strength)
        ends = np.array([LEAST, MOST])
        share = rng.uniform(*(ends / (ends + TYPICAL)))
        nu = 2.0 + TYPICAL * share / (1.0 - share)
        a, b = STRENGTH_PRIOR
        strength = b / rng.gamma(a)
    common = Common(
        SPREAD.spread * rng.standard_normal(D),
        rng.gamma(SPREAD.shape, 1.0 / SPREAD.rate),
        nu,
        scale,
        strength,
        prior_df(rng) if case.heavy else np.inf,
        shared,
    )
    z = seated(CONCENTRATION, "dp", rng)
    variance = 0.5 * (nu - 2.0) * scale / rng.gamma(0.5 * nu, size=(N, D))
    sigma = variance[:, :, None] * np.eye(D)
    if case.structure == "factor":
        loading = rng.standard_normal((N, D)) * np.sqrt(strength * variance)
        sigma = sigma + loading[:, :, None] * loading[:, None, :]
    if case.structure == "tied":
        sigma = np.repeat(shared[None], N, axis=0)
    root = np.linalg.cholesky(sigma / common.kappa)
    mean = common.centre + np.einsum("nij,nj->ni", root, rng.standard_normal((N, D)))
    u = rng.gamma(0.5 * common.df, size=N) / (0.5 * common.df) if case.heavy else np.ones(N)
    mean, sigma = mean[z], sigma[z]
    active, share = np.ones(D, dtype=np.uint8), 0.5
    if case.select:
        share = rng.random()
        active = (rng.random(D) < share).astype(np.uint8)
        for j in np.flatnonzero(active == 0):
            mean[:, j], sigma[:, j, j] = mean[0, j], sigma[0, j, j]
    return State(common, z, mean, sigma, u, rows_given(mean, sigma, u, rng), active, share)


def rows_given(mean, sigma, scale, rng):
    noise = np.einsum("nij,nj->ni", np.linalg.cholesky(sigma), rng.standard_normal((N, D)))
    return mean + noise / np.sqrt(scale)[:, None]


def state_of(sampler, case: Case) -> State:
    family, parameters, rows = sampler.family, sampler.parameters, sampler.model
    z = sampler.z.astype(int)
    nu, scale, strength, shared = NU[case.structure], VARIANCE.typical, 1.0, np.eye(D)
    if case.structure == "diag":
        centre, kappa, nu, psi = unpack_diagonal(family.prior)
        scale = psi / (nu - 2.0)
        sigma = parameters.variance.T[z][:, :, None] * np.eye(D)
    else:
        kappa, centre = family.prior[0], family.prior[1:] / family.prior[0]
        sigma = np.linalg.inv(precisions(parameters.covariance, z))
    if case.structure == "tied":
        shared = sigma[0]
    if case.structure == "factor":
        nu, strength, scale = (family.covariance.prior[at] for at in (0, 1, slice(2, None)))
    df = 2.0 * rows.alpha[0]
    common = Common(centre, float(kappa), float(nu), scale.copy(), float(strength), df, shared)
    mean = parameters.mean.T[z].copy()
    active, share = np.ones(D, dtype=np.uint8), 0.5
    if case.select:
        (update,) = (u for u in sampler.updates if isinstance(u, ColumnSelection))
        active, share = family.active.copy(), float(update.share[0])
    return State(common, z, mean, sigma.copy(), rows.scale.copy(), rows.y.copy(), active, share)


def new_data(sampler, case: Case, rng) -> None:
    """Data, and what fills gaps, given everything else."""
    s = state_of(sampler, case)
    sampler.model.y[:] = rows_given(s.mean, s.sigma, s.scale, rng)
    sampler.collapse.renew(sampler.z, sampler.counts, frozenset(), rng)


def make_sampler(case: Case, rng) -> PartitionSampler:
    start = from_priors(case, rng)
    rows = RowTraits(MISSING if case.gaps else np.zeros((N, D), dtype=bool), np.ones(N))
    made = StructuredProblem(
        start.y.copy(),
        case.structure,
        problem_prior(case.structure),
        4.0 if case.heavy else None,
        "shared" if case.heavy else None,
        DF,
        rows,
        n_factors=1 if case.structure == "factor" else 0,
        select=case.select,
    )
    moves = [StandardMoves(all_anchors(N), 0)] if case.moves else []
    parts = assemble(made, "collapsed", SLOTS)
    prior = dirichlet_process(SLOTS, CONCENTRATION)
    return PartitionSampler(parts, prior, start.z, rng, moves=moves)


def z_scores(case: Case, n_sweeps: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return z_scores_of(
        lambda: functions(from_priors(case, rng), case),
        lambda: make_sampler(case, rng),
        lambda sampler: new_data(sampler, case, rng),
        lambda sampler: functions(state_of(sampler, case), case),
        n_sweeps,
        rng,
    )


@pytest.mark.exact
@pytest.mark.parametrize(
    ("case", "n_sweeps"),
    [
        (Case("diag"), 4000),
        (Case("tied"), 4000),
        (Case("diag", False, False, False), 12000),
        (Case("tied", False, False, False), 12000),
        (Case("factor", False, False, False), 12000),
        (Case("factor"), 20000),
        (Case("diag", select=True), 8000),
        (Case("diag", False, False, False, True), 12000),
    ],
    ids=str,
)
def test_joint_distribution(case, n_sweeps):
    scores = z_scores(case, n_sweeps, seed=1)
    print(f"{case}: largest {np.abs(scores).max():.1f} of {threshold_of(scores.size):.1f}")
    assert np.abs(scores).max() < threshold_of(scores.size)


def spoiled(cls, change):
    """Have an update draw from a chain that is changed."""

    def spoil(monkeypatch):
        right = cls.draw
        monkeypatch.setattr(
            cls, "draw", lambda self, chain, rng: right(self, seen(chain, **change(chain)), rng)
        )

    return spoil


def weak_centre(chain):
    """The center says next to nothing of covariances."""
    return {"family": chain.family._replace(prior=1e-9 * chain.family.prior)}


def wide(chain):
    """Distances are half of what they are."""
    wider = chain.parameters._replace(variance=2.0 * chain.parameters.variance)
    return {"parameters": wider}


def all_active(chain):
    """No column is shared."""
    return {"family": chain.family._replace(active=np.ones_like(chain.family.active))}


def forgotten(chain):
    """All clusters but the first say nothing of what they have in common."""
    counts = chain.counts.copy()
    counts[np.flatnonzero(counts)[1:]] = 0
    return {"counts": counts}


@pytest.mark.exact
def test_shared_columns_that_count_as_one_per_cluster_are_found_out(monkeypatch):
    spoiled(DiagonalHyperpriors, all_active)(monkeypatch)
    scores = z_scores(Case("diag", False, False, False, True), 20000, seed=2)
    assert np.abs(scores).max() > 1.2 * threshold_of(scores.size)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("structure", "spoil"),
    [
        ("factor", spoiled(FactorUpdate, weak_centre)),
        ("tied", spoiled(TiedCovarianceUpdate, weak_centre)),
        ("diag", spoiled(TailUpdate, wide)),
        ("diag", spoiled(DiagonalHyperpriors, forgotten)),
    ],
)
def test_a_broken_step_is_found_out(monkeypatch, structure, spoil):
    spoil(monkeypatch)
    scores = z_scores(Case(structure), 12000, seed=2)
    assert np.abs(scores).max() > 1.2 * threshold_of(scores.size)
