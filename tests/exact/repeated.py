"""Rows of `small` with weights: each cluster's likelihood is that of repeated rows."""

from __future__ import annotations

import functools

import enumeration
import numpy as np
import small

WEIGHT = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0])
ROW = np.repeat(np.arange(small.N), WEIGHT.astype(int))


def members(mask):
    return [j for j in range(mask.bit_length()) if mask >> j & 1]


# Masks of repeated rows by masks of rows.
MASKS = {
    mask: sum(1 << j for j, i in enumerate(ROW) if mask >> i & 1) for mask in range(1, 1 << small.N)
}


@functools.cache
def marginals(likelihood):
    """Log marginals of repeated rows of measurements, by masks of rows."""
    y = small.Y[ROW]
    if likelihood == "gaussian":
        return {m: enumeration.niw_marginal(y[members(r)], *small.NIW) for m, r in MASKS.items()}
    table = enumeration.student_t_marginals(
        y[:, 0], 0.0, small.NIW.kappa, small.NIW.nu, 1.0, small.DF, step=0.15
    )
    return {m: table[r] for m, r in MASKS.items()}


def posterior(table, prior):
    """Posterior of rows with weights, by log marginals of masks; the prior counts a row once."""
    closed = prior in small.CLOSED
    states = enumeration.labellings(small.N, 3) if closed else enumeration.partitions(small.N)
    return enumeration.posterior(states, table, small.log_prior(prior), closed)


def noisy_posterior(table, log_noise, prior, share):
    """Of labels with 0 for noise; under an open prior clusters are numbered by their first member.

    `log_noise` is every row's log density as noise, `share` the beta prior of its share.
    """
    from scipy import special

    log_prior = small.log_prior(prior)
    n = small.N
    states, log_p = [], []
    for mask in range(1 << n):
        rest = [i for i in range(n) if not mask >> i & 1]
        m = len(rest)
        beta = special.betaln(share[0] + n - m, share[1] + m)
        outside = sum(log_noise[i] for i in members(mask))
        if not rest:
            inner = [np.empty(0, dtype=int)]
        elif prior in small.CLOSED:
            inner = enumeration.labellings(m, 3)
        else:
            inner = enumeration.partitions(m)
        for z in inner:
            labels = np.zeros(n, dtype=int)
            labels[rest] = np.asarray(z) + 1
            value = beta + outside + (log_prior(np.asarray(z)) if m else 0.0)
            for k in np.unique(labels[rest]):
                value += table[sum(1 << int(i) for i in np.flatnonzero(labels == k))]
            states.append(labels)
            log_p.append(value)
    return enumeration.Exact(np.array(states), special.softmax(log_p), True)


def noisy_labels(sampler, prior, n_sweeps, rng):
    """Labels that a chain visits, numbered as in `noisy_posterior`."""
    labels = np.empty((n_sweeps, small.N), dtype=np.int64)
    for row in labels:
        sampler.sweep(rng)
        row[:] = sampler.labels()
        if prior not in small.CLOSED:
            inside = row > 0
            row[inside] = 1 + enumeration.canonical(row[inside])
    return labels


# Labels that are known of three of the rows.
KNOWN = np.array([0, -1, 1, -1, -1, 1])


def allowed(exact, names_count):
    """The posterior given the known labels."""
    together = exact.states[:, 2] == exact.states[:, 5]
    apart = exact.states[:, 0] != exact.states[:, 2]
    keep = together & apart
    if names_count:
        keep &= (exact.states[:, 0] == 0) & (exact.states[:, 2] == 1)
    p = exact.probability[keep]
    return enumeration.Exact(exact.states[keep], p / p.sum(), exact.labelled)
