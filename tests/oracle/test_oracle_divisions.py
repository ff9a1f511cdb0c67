"""What a move compares two clusters by, against the evidence of their members one by one."""

from __future__ import annotations

import numpy as np
import pytest
import small
import structured
import table_cases
from niw import NIW, log_partition
from scipy import stats

from cavity._numba.jit import Kernels
from cavity.collapse.registry import assemble
from cavity.interface import evidence, insert
from cavity.likelihoods.missing import RowTraits, plain_rows
from cavity.mcmc.chain import PartitionSampler
from cavity.moves.allocation import room_for
from cavity.moves.division import join_slots
from cavity.priors.partition import log_prior

SMALL, LARGE = 2, 1
WEIGHT = np.array([1.0, 2.5, 1.0, 0.5, 3.0])


def joined(state, prior, counts, room, stop):
    """``join_slots`` as an entry kernel."""
    labels = room.labels[0]
    return join_slots(state, prior, counts, SMALL, LARGE, room, labels, 0, stop)


def one_by_one(state, i, k):
    """Evidence of a row in a slot that it then joins."""
    value = evidence(state.model, state.family, k, i)
    insert(state, i, k)
    return value


def found_and_counts(sampler):
    """The ratio of a move that joins two slots, and the counts after it."""
    n = sampler.z.size
    room = room_for(n, sampler.family.natural.shape[1], sampler.collapse.own_width)
    room.members[:] = np.arange(n)
    room.labels[0] = sampler.z
    counts = sampler.counts.copy()
    value = Kernels().run(joined, sampler.collapse.state, sampler.prior, counts, room, n)
    return value, counts


def seats(sampler, counts):
    """Log prior after less before."""
    return log_prior(sampler.prior, counts) - log_prior(sampler.prior, sampler.counts)


def path(parts, z):
    """Log evidence of rows that come to their slots one after another."""
    kernels, state = Kernels(), parts.collapse.state
    return sum(kernels.run(one_by_one, state, i, int(k)) for i, k in enumerate(z))


def structured_parts(structure, rng):
    made = assemble(structured.problem(structure, 4.0, weight=WEIGHT), "collapsed", small.SLOTS)
    return made, rng.uniform(1.0, 5.0, small.SLOTS), rng.gamma(3.0, 0.3, structured.N)


@pytest.mark.variants("exact", "tied", "factor")
@pytest.mark.parametrize("structure", ["diag", "tied", "factor"])
def test_rows_with_scales_and_weights(structure):
    """Slots differ in degrees of freedom, and covariances of factors from slot to slot."""
    rng = np.random.default_rng(3)
    z = np.array([LARGE, LARGE, SMALL, LARGE, SMALL])
    parts, alpha, scale = structured_parts(structure, rng)
    sampler = PartitionSampler(parts, small.partition_prior("dp"), z, rng)

    def evidence_of(labels):
        """In a model of its own, whose slots begin at the prior."""
        other = structured_parts(structure, np.random.default_rng(3))[0]
        model = other.collapse.model
        model.alpha[:], model.scale[:] = alpha, scale
        covariance = getattr(sampler.family, "covariance", None)
        if covariance is not None:
            for to, of in zip(other.collapse.family.covariance, covariance, strict=True):
                to[...] = of
        return path(other, labels)

    sampler.model.alpha[:], sampler.model.scale[:] = alpha, scale
    sampler.collapse._gather(sampler.z)
    expected = evidence_of(np.full(z.size, LARGE)) - evidence_of(z)
    found, counts = found_and_counts(sampler)
    assert found == pytest.approx(expected + seats(sampler, counts), abs=1e-9)


@pytest.mark.exact
def test_rows_of_a_table():
    names = ("gaussian", "categorical", "poisson")
    z = np.array([LARGE, SMALL, SMALL, LARGE, LARGE, SMALL])
    rng = np.random.default_rng(4)
    sampler = PartitionSampler(
        table_cases.parts(names, "collapsed"), small.partition_prior("finite"), z, rng
    )
    apart, together = (
        path(table_cases.parts(names, "collapsed"), labels) for labels in (z, np.full(6, LARGE))
    )
    found, counts = found_and_counts(sampler)
    assert found == pytest.approx(together - apart + seats(sampler, counts), abs=1e-9)


@pytest.mark.parametrize("gaps", [False, True])
def test_student_t_rows_with_their_scales(gaps):
    """Against the normal-inverse-Wishart family written with NumPy, gaps as they are filled."""
    rng = np.random.default_rng(5)
    y, prior = small.PLANE, small.PLANE_NIW
    rows = None
    if gaps:
        missing = np.zeros(y.shape, dtype=bool)
        missing[[0, 3], [1, 0]] = True
        rows = RowTraits(missing, np.ones(len(y)))
    z = np.array([LARGE, SMALL, LARGE, SMALL, LARGE])
    parts = small.collapse("student-t-collapsed", y=y, niw=prior, rows=rows)
    sampler = PartitionSampler(parts, small.partition_prior("dirichlet"), z, rng)
    model = plain_rows(sampler.model)
    model.alpha[:] = rng.uniform(1.0, 5.0, model.alpha.size)
    u, full = model.scale, model.y

    def log_joint(labels):
        total = 0.0
        for k in np.unique(labels):
            own = labels == k
            w, x = u[own], full[own]
            kappa, mean = prior.kappa + w.sum(), prior.kappa * prior.mean + w @ x
            mean = mean / kappa
            second = np.einsum("n,ni,nj->ij", w, x, x) + prior.psi
            second += prior.kappa * np.outer(prior.mean, prior.mean)
            after = NIW(mean, kappa, prior.nu + len(x), second - kappa * np.outer(mean, mean))
            total += log_partition(after) - log_partition(NIW(*prior))
            total += stats.gamma.logpdf(w, model.alpha[k], scale=1.0 / model.alpha[k]).sum()
        return total

    expected = log_joint(np.full(z.size, LARGE)) - log_joint(z)
    found, counts = found_and_counts(sampler)
    assert found == pytest.approx(expected + seats(sampler, counts), abs=1e-9)
