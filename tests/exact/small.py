"""A small problem, its exact posteriors and the samplers that should follow them."""

from __future__ import annotations

import functools

import enumeration
import numpy as np
from builders import gaussian_collapse, student_t_collapse
from scipy import special, stats

from cavity.mcmc.chain import PartitionSampler
from cavity.moves.anchors import all_anchors
from cavity.priors.cluster import NIWPrior
from cavity.priors.partition import (
    dirichlet,
    dirichlet_process,
    finite,
    fixed_weights,
    pitman_yor,
)
from cavity.priors.partition import padded as padded_slots

Y = np.array([[-1.9], [-1.2], [-0.9], [0.4], [1.0], [6.0]])
N = len(Y)
NIW = NIWPrior(np.zeros(1), 0.2, 3.0, np.eye(1))
DF = 4.0
SCALE_SHAPE = 2.0
SLOTS = 8
WEIGHTS = np.array([0.5, 0.3, 0.2])
SHAPE = np.array([2.0, 1.0, 0.5])
OPEN = {"dp": (1.0, 0.0), "pitman-yor": (0.5, 0.4)}
FINITE = (0.8, 0.6)
CLOSED = ("fixed", "dirichlet", "shaped", "finite")
PRIORS = (*CLOSED, *OPEN)
EXACT_SAMPLERS = (
    "gaussian-collapsed",
    "gaussian-naive",
    "student-t-collapsed",
    "student-t-blocked",
    "student-t-naive",
)


def padded(values):
    """Zeros for the slots that no cluster may take."""
    return np.pad(values, (0, SLOTS - len(values)))


def partition_prior(name):
    if name == "fixed":
        return fixed_weights(padded(WEIGHTS))
    if name == "dirichlet":
        return dirichlet(SLOTS, 0.7, padded(np.ones(3)))
    if name == "shaped":
        return dirichlet(SLOTS, 0.8, padded(SHAPE))
    if name == "dp":
        return dirichlet_process(SLOTS, OPEN["dp"][0])
    if name == "finite":
        return padded_slots(finite(3, N, *FINITE), SLOTS)
    return pitman_yor(SLOTS, *OPEN["pitman-yor"])


def log_prior(name):
    if name == "fixed":
        return lambda z: enumeration.log_fixed(z, WEIGHTS)
    if name == "dirichlet":
        return lambda z: enumeration.log_dirichlet(z, np.full(3, 0.7))
    if name == "shaped":
        return lambda z: enumeration.log_dirichlet(z, 0.8 * SHAPE)
    if name == "finite":
        return lambda z: enumeration.log_finite(z, *FINITE, 3)
    return lambda z: enumeration.log_restaurant(z, *OPEN[name])


@functools.cache
def marginals(likelihood):
    if likelihood == "gaussian":
        return enumeration.gaussian_marginals(Y, *NIW)
    return enumeration.student_t_marginals(Y[:, 0], 0.0, NIW.kappa, NIW.nu, 1.0, DF)


@functools.cache
def exact(likelihood, prior):
    """The posterior over labellings, or over partitions under an open prior."""
    states = enumeration.labellings(N, 3) if prior in CLOSED else enumeration.partitions(N)
    return enumeration.posterior(states, marginals(likelihood), log_prior(prior), prior in CLOSED)


@functools.cache
def exact_with_scale(likelihood, prior, tail=0.0):
    """The posterior where psi ~ Gamma(SCALE_SHAPE) of mean one, summed over a fine grid of it.

    With a tail the mean is not one but BetaPrime(tail, tail), and summed over a grid as well.
    """
    step = 0.2
    log_psi = np.arange(-6.0, 4.0, step) if tail == 0.0 else np.arange(-12.0, 14.0, step)
    log_weight = log_psi + np.log(step) + log_density_of_scale(np.exp(log_psi), tail)
    states = enumeration.labellings(N, 3) if prior in CLOSED else enumeration.partitions(N)
    log_p = np.empty((len(states), len(log_psi)))
    for j, psi in enumerate(np.exp(log_psi)):
        if likelihood == "gaussian":
            table = enumeration.gaussian_marginals(Y, *NIW._replace(psi=np.array([[psi]])))
        else:
            table = enumeration.student_t_marginals(
                Y[:, 0], 0.0, NIW.kappa, NIW.nu, psi, DF, step=0.25
            )
        log_p[:, j] = enumeration.log_joint(states, table, log_prior(prior)) + log_weight[j]
    joint = special.softmax(log_p)
    return enumeration.Exact(states, joint.sum(axis=1), prior in CLOSED), (
        log_psi,
        joint.sum(axis=0),
    )


def log_density_of_scale(scale, tail):
    """Of the prior of a mean variance, its own mean summed out where that has one."""
    if tail == 0.0:
        return stats.gamma.logpdf(scale, SCALE_SHAPE, scale=1.0 / SCALE_SHAPE)
    log_mean = np.arange(-40.0, 40.0, 0.05)
    mean = np.exp(log_mean)
    log_p = stats.gamma.logpdf(scale[:, None], SCALE_SHAPE, scale=mean / SCALE_SHAPE)
    log_p += stats.betaprime.logpdf(mean, tail, tail) + log_mean + np.log(0.05)
    return special.logsumexp(log_p, axis=1)


def collapse(name, y=Y, slots=SLOTS, df=DF, niw=NIW, **options):
    likelihood, _, kind = name.rpartition("-")
    if likelihood == "gaussian":
        return gaussian_collapse(y, niw, slots, kind, **options)
    return student_t_collapse(y, niw, slots, kind, df, **options)


def sampler(name, prior, rng, moves=(), **options):
    """A chain that begins with everything in one cluster; a move is tried four times a sweep."""
    if isinstance(prior, str):
        prior = partition_prior(prior)
    parts = collapse(name, **options)
    n = len(parts.collapse.model.y)
    made = [kind(all_anchors(n), 0) for kind in moves]
    for move in made:
        move.pace.rate[:] = 4
    return PartitionSampler(parts, prior, np.zeros(n, dtype=int), rng, moves=made)


# Five observations in two columns, the last one far off.
PLANE = np.array([[-1.5, 0.3], [-1.0, 0.9], [0.2, -0.4], [1.1, 0.0], [3.6, 2.8]])
PLANE_NIW = NIWPrior(np.array([0.1, 0.2]), 0.3, 4.0, np.array([[1.0, 0.3], [0.3, 0.8]]))


@functools.cache
def exact_in_the_plane(likelihood):
    """The posterior over partitions of those, under a Dirichlet process."""
    if likelihood == "gaussian":
        table = enumeration.gaussian_marginals(PLANE, *PLANE_NIW)
    else:
        table = enumeration.student_t_marginals_by_scales(PLANE, *PLANE_NIW, DF)
    states = enumeration.partitions(len(PLANE))
    return enumeration.posterior(states, table, log_prior("dp"), labelled=False)


def likelihood_of(name):
    return name.rpartition("-")[0]
