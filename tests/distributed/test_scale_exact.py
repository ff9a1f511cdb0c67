"""The sampler over blocks visits every partition as often as the enumerated posterior says.

At level 1e-4 for each test and fixed seeds, as in tests/exact; whatever the shards, with and
without splits and merges, and with pilot that are only some of the rows.
"""

from __future__ import annotations

import enumeration
import numpy as np
import pytest
import small
from joint import (
    CONCENTRATION,
    DF,
    FIXED_DF,
    N_CLUSTERS,
    SCALE,
    SPREAD,
    TYPICAL,
    Case,
    State,
    Steps,
    from_priors,
    z_scores,
)
from joint import D as COLUMNS
from joint import N as ROWS
from scale_cases import chain, statistics
from scipy import stats

from cavity.conjugate.niw import unpack
from cavity.distributed.pilot import PilotSample
from cavity.distributed.split_merge import SplitMerge
from cavity.priors.cluster import NIWPrior
from cavity.priors.concentration import ConcentrationUpdate
from cavity.priors.hyperpriors import ClusterHyperpriors
from cavity.priors.partition import dirichlet, dirichlet_process

LEVEL = 1e-4
SOME = np.array([0, 3, 5])
LIKELIHOODS = ("gaussian", "student-t")


def p_value(likelihood, prior, n_sweeps, seed, **options):
    rng = np.random.default_rng(seed)
    df = np.inf if likelihood == "gaussian" else small.DF
    sampler = chain(small.Y, small.NIW, prior, rng, df=df, **options)
    exact = small.exact(likelihood, prior)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, n_sweeps, rng))
    print(f"{likelihood}, {prior}, {options}: {result}, {sampler.events()}")
    assert result.n_cells > 10
    return result.p_value


def test_frequencies_of_partitions():
    assert p_value("student-t", "dp", 2000, 3, moves=False) > LEVEL


OPTIONS = [{"moves": False}, {"n_shards": 2}, {"n_shards": 3, "pilot": SOME}]


@pytest.mark.exact
@pytest.mark.parametrize(
    ("likelihood", "prior", "options"),
    [
        *((likelihood, "dp", options) for likelihood in LIKELIHOODS for options in OPTIONS),
        *(("student-t", prior, OPTIONS[1]) for prior in small.CLOSED),
    ],
)
def test_frequencies_of_partitions_at_length(likelihood, prior, options):
    assert p_value(likelihood, prior, 12_000, 5, **options) > LEVEL


@pytest.mark.exact
@pytest.mark.parametrize("away", [-4.0, 4.0])
def test_a_wrong_ratio_of_proposals_is_noticed(away, monkeypatch):
    """Negative control: so many nats off, in splits and in merges."""
    right = SplitMerge._log_empty
    monkeypatch.setattr(SplitMerge, "_log_empty", lambda self, *told: away + right(self, *told))
    assert p_value("gaussian", "dp", 4_000, 5, n_shards=2) < LEVEL


# --------------------------------------------------------------------------- joint distribution


def make(case, rng):
    start = from_priors(case, rng)
    hyper = (ClusterHyperpriors(COLUMNS, SCALE, TYPICAL, SPREAD),) if case.hyper else ()
    prior = dirichlet(N_CLUSTERS, start.concentration)
    if case.prior == "dp":
        prior = dirichlet_process(ROWS + 1, start.concentration)
    df = np.inf if case.likelihood == "gaussian" else FIXED_DF
    return chain(
        start.y[:, None].copy(), start.common, prior, rng, df=df, learn=case.learn_df, df_prior=DF,
        n_shards=2, moves=case.moves, updates=(*hyper, ConcentrationUpdate(*CONCENTRATION)),
    )  # fmt: skip


def read(sampler):
    z = sampler.labels().astype(int)
    df = np.where(np.isinf(sampler.model.alpha), FIXED_DF, 2.0 * sampler.model.alpha)
    return State(
        float(sampler.prior.concentration[0]),
        NIWPrior(*unpack(sampler.family.prior, COLUMNS)),
        z.copy(),
        sampler.parameters.mean[0, z].copy(),
        sampler.parameters.whiten[0, 0, z] ** 2,
        df[z],
        sampler.scale,
        sampler.pilot.y[:, 0].copy(),
    )


def renew(sampler, rng):
    """Data given labels and clusters, scales drawn with them, and the sums that go with both."""
    z = sampler.labels().astype(int)
    alpha = sampler.model.alpha[z]
    scale = np.ones(z.size)
    heavy = np.isfinite(alpha)
    scale[heavy] = rng.gamma(alpha[heavy]) / alpha[heavy]
    precision = sampler.parameters.whiten[0, 0, z] ** 2
    mean = sampler.parameters.mean[0, z]
    y = mean + rng.standard_normal(z.size) / np.sqrt(precision * scale)
    sampler.scale = scale
    at = 0
    for shard in sampler.executor.shards:
        n = shard.layout.n_rows
        shard.y[0, :n] = y[at : at + n]
        at += n
    sampler.pilot = PilotSample(y[:, None].copy(), z.size)
    if sampler._moves is not None:
        sampler._moves.pilot = sampler.pilot
    sums = statistics(y[:, None], z, sampler.n_slots)
    sampler.statistics[:] = 0.0
    for i, k in enumerate(z):
        sampler.statistics[k] += scale[i] * np.array([1.0, 0.0, y[i], y[i] ** 2])
    sampler.statistics[:, 1] = sums[:, 1]
    delta = precision * (y - mean) ** 2
    if len(sampler.tail_sums):
        sampler.tail_sums[:] = 0.0
        each = len(sampler.tail_sums) > 1
        for i, k in enumerate(z):
            j = k if each else 0
            sampler.tail_sums[j] += np.log1p(delta[i] / sampler.df_grid[j])
    sampler._fresh = True


STEPS = Steps(make, renew, read)
JOINT = [
    Case("student-t", "parallel", "dp", "shared", True, moves=True),
    Case("student-t", "parallel", "dirichlet", "each", moves=True),
    Case("gaussian", "parallel", "dp", None, True, moves=True),
    Case("student-t", "parallel", "dp", "each", True),
]


def largest(case, n_sweeps, spoil=lambda sampler: None):
    scores = z_scores(case, n_sweeps, seed=1, spoil=spoil, steps=STEPS)
    limit = stats.norm.isf(0.5e-4 / scores.size)
    print(f"{case}: largest {np.abs(scores).max():.1f} of {limit:.1f}")
    return np.abs(scores).max() / limit


@pytest.mark.exact
@pytest.mark.parametrize("case", JOINT, ids=lambda c: "-".join(map(str, c)))
def test_joint_distribution_of_everything(case):
    assert largest(case, 12_000) < 1.0


@pytest.mark.exact
def test_degrees_of_freedom_without_their_prior_are_noticed():
    """Negative control."""

    def spoil(sampler):
        sampler.tails = sampler.tails._replace(rate=0.5 * DF[1])

    assert largest(JOINT[3], 12_000, spoil) > 1.0
