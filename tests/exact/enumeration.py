"""Exact posteriors over every partition of a few observations, and how to compare a chain to one.

Nothing here calls the package: cluster marginals, partition priors and the test are written out
as a textbook would.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy import special, stats


class Exact(NamedTuple):
    """All states of a small problem with their posterior probabilities."""

    states: np.ndarray  # (n_states, n), restricted growth strings or labellings
    probability: np.ndarray
    labelled: bool


# --------------------------------------------------------------------------- states


def partitions(n: int) -> np.ndarray:
    """Every partition of n things as a restricted growth string."""
    rows = [[0]]
    for _ in range(n - 1):
        rows = [[*row, k] for row in rows for k in range(max(row) + 2)]
    return np.array(rows)


def labellings(n: int, n_clusters: int) -> np.ndarray:
    """Every assignment of n things to numbered clusters."""
    return np.array(list(itertools.product(range(n_clusters), repeat=n)))


def canonical(z: np.ndarray) -> np.ndarray:
    """Clusters numbered by their first member."""
    seen: dict[int, int] = {}
    return np.array([seen.setdefault(int(k), len(seen)) for k in z])


# --------------------------------------------------------------------------- partition priors


def log_fixed(z: np.ndarray, weights: np.ndarray) -> float:
    return float(np.log(weights)[z].sum())


def log_dirichlet(z: np.ndarray, gamma: np.ndarray) -> float:
    """Probability of a labelling, the weights integrated out, one observation after another."""
    total, counts = 0.0, np.zeros(len(gamma))
    for k in z:
        total += np.log((counts[k] + gamma[k]) / (counts.sum() + gamma.sum()))
        counts[k] += 1
    return total


def log_restaurant(z: np.ndarray, concentration: float, discount: float = 0.0) -> float:
    """Probability of a partition: each customer in turn sits down (Pitman-Yor)."""
    total, counts = 0.0, []
    for i, k in enumerate(canonical(z)):
        if k == len(counts):
            total += np.log(concentration + discount * len(counts)) if i else 0.0
            counts.append(1)
        else:
            total += np.log(counts[k] - discount)
            counts[k] += 1
        if i:
            total -= np.log(i + concentration)
    return total


# --------------------------------------------------------------------------- cluster marginals


def niw_marginal(y: np.ndarray, mean, kappa, nu, psi) -> float:
    """Log marginal likelihood of a Gaussian cluster under its conjugate prior."""
    n, d = y.shape
    centre = y.mean(axis=0)
    scatter = (y - centre).T @ (y - centre)
    shift = np.outer(centre - mean, centre - mean)
    psi_n = psi + scatter + kappa * n / (kappa + n) * shift
    value = -0.5 * n * d * np.log(np.pi) + 0.5 * d * np.log(kappa / (kappa + n))
    value += special.multigammaln(0.5 * (nu + n), d) - special.multigammaln(0.5 * nu, d)
    value += 0.5 * nu * np.linalg.slogdet(psi)[1] - 0.5 * (nu + n) * np.linalg.slogdet(psi_n)[1]
    return float(value)


def student_t_marginals(y, mean, kappa, nu, psi, df, step=0.08) -> dict[int, float]:
    """Log marginal likelihood of every subset of Student-t observations in one dimension.

    By the trapezoid rule over (mean - m) sqrt(kappa) / sigma and log sigma^2, whose error falls
    faster than any power of the step.
    """
    x = np.arange(-10.0, 10.0 + step, step)
    log_s2 = np.arange(-12.0, 14.0, step)
    sigma = np.exp(0.5 * log_s2)
    mu = mean + x[:, None] * sigma / np.sqrt(kappa)
    log_w = stats.norm.logpdf(x)[:, None] + (
        stats.invgamma.logpdf(np.exp(log_s2), 0.5 * nu, scale=0.5 * psi) + log_s2
    )
    log_w = log_w + 2.0 * np.log(step)
    log_t = [stats.t.logpdf(v, df, loc=mu, scale=np.broadcast_to(sigma, mu.shape)) for v in y]
    return _subsets(log_w, log_t)


def scale_mixture_marginals(y, mean, variance, s2, r, inflation) -> dict[int, float]:
    """Log marginal likelihood of every subset under the contaminated Gaussian."""
    spread = np.sqrt(variance)
    phi = np.linspace(mean - 12.0 * spread, mean + 12.0 * spread, 8001)
    log_w = stats.norm.logpdf(phi, mean, spread) + np.log(phi[1] - phi[0])
    log_f = [
        np.log(
            (1.0 - r) * stats.norm.pdf(v, phi, np.sqrt(s2))
            + r * stats.norm.pdf(v, phi, np.sqrt(inflation * s2))
        )
        for v in y
    ]
    return _subsets(log_w, log_f)


def _subsets(log_w: np.ndarray, log_f: list[np.ndarray]) -> dict[int, float]:
    out = {}
    for mask in range(1, 1 << len(log_f)):
        members = [log_f[i] for i in range(len(log_f)) if mask >> i & 1]
        out[mask] = float(special.logsumexp(log_w + sum(members)))
    return out


def gaussian_marginals(y, mean, kappa, nu, psi) -> dict[int, float]:
    """Log marginal likelihood of every subset of Gaussian observations."""
    n = len(y)
    return {
        mask: niw_marginal(y[[i for i in range(n) if mask >> i & 1]], mean, kappa, nu, psi)
        for mask in range(1, 1 << n)
    }


# --------------------------------------------------------------------------- posteriors


def posterior(states: np.ndarray, marginals: dict[int, float], log_prior, labelled: bool) -> Exact:
    """Normalise prior times marginals over all states."""
    log_p = np.empty(len(states))
    for row, z in enumerate(states):
        log_p[row] = log_prior(z)
        for k in np.unique(z):
            log_p[row] += marginals[sum(1 << int(i) for i in np.flatnonzero(z == k))]
    return Exact(states, special.softmax(log_p), labelled)


# --------------------------------------------------------------------------- chains


def visits(sampler, exact: Exact, n_sweeps: int, rng, warmup: int = 50) -> np.ndarray:
    """Run a chain; the index of the state after every sweep."""
    for _ in range(warmup):
        sampler.sweep(rng)
    labels = np.empty((n_sweeps, exact.states.shape[1]), dtype=np.int64)
    for row in labels:
        sampler.sweep(rng)
        row[:] = sampler.labels()
    return lookup(exact, labels)


def lookup(exact: Exact, labels: np.ndarray) -> np.ndarray:
    """Index among the exact states of every row of labels."""
    if not exact.labelled:
        rows, back = np.unique(labels, axis=0, return_inverse=True)
        labels = np.array([canonical(z) for z in rows])[np.ravel(back)]
    index = {tuple(z): j for j, z in enumerate(exact.states.tolist())}
    return np.array([index[tuple(z)] for z in labels.tolist()])


class Comparison(NamedTuple):
    """How a chain's frequencies compare to the exact probabilities."""

    p_value: float
    total_variation: float
    autocorrelation: float
    n_cells: int


def correlation_time(series: np.ndarray) -> float:
    """Integrated autocorrelation time by Geyer's initial positive sequence."""
    x = series - series.mean()
    n = len(x)
    spectrum = np.fft.rfft(x, 2 * n)
    rho = np.fft.irfft(spectrum * spectrum.conj())[: min(n, 400)]
    if rho[0] <= 0.0:
        return 1.0
    rho = rho / rho[0]
    pairs = rho[0 : len(rho) - 1 : 2] + rho[1 : len(rho) : 2]
    negative = np.flatnonzero(pairs <= 0.0)
    stop = negative[0] if negative.size else len(pairs)
    return max(2.0 * pairs[:stop].sum() - 1.0, 1.0 / np.sqrt(n))


def compare(exact: Exact, visited: np.ndarray) -> Comparison:
    """Chi-square test for dependent draws (Rao and Scott's first-order correction).

    States too rare to count are pooled; the statistic is divided by the mean over cells of the
    integrated autocorrelation time of the cell's indicator.
    """
    n = len(visited)
    p = exact.probability
    observed = np.bincount(visited, minlength=len(p))
    order = np.argsort(p)
    cell = np.zeros(len(p), dtype=int)
    mass, n_cells = 0.0, 0
    for j in order:
        # A pool is closed once it would be seen fifty times among independent draws.
        cell[j] = n_cells
        mass += p[j]
        if mass * n >= 50.0:
            n_cells, mass = n_cells + 1, 0.0
    if mass > 0.0:
        cell[cell == n_cells] = max(n_cells - 1, 0)
    n_cells = max(n_cells, 1)
    expected = n * np.bincount(cell, weights=p, minlength=n_cells)
    counted = np.bincount(cell[visited], minlength=n_cells)
    tau = np.array([correlation_time((cell[visited] == c).astype(float)) for c in range(n_cells)])
    shares = expected / n
    mean_tau = float((tau * (1.0 - shares)).sum() / (n_cells - 1))
    statistic = float(((counted - expected) ** 2 / expected).sum() / mean_tau)
    distance = 0.5 * np.abs(observed / n - p).sum()
    return Comparison(
        float(stats.chi2.sf(statistic, n_cells - 1)), float(distance), mean_tau, n_cells
    )
