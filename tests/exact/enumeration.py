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


def log_finite(z: np.ndarray, gamma: float, power: float, most: int) -> float:
    """Probability of a labelling where the number of clusters has a prior: summed over it.

    Which of the `most` names the K clusters have is left to chance, all sets of K alike.
    """
    numbers = np.arange(1, most + 1)
    prior = numbers**-power / (numbers**-power).sum()
    _, own = np.unique(z, return_inverse=True)
    t = int(own.max()) + 1
    terms = []
    for k in range(t, most + 1):
        sets = special.comb(most - t, k - t) / special.comb(most, k)
        labelling = log_dirichlet(own, np.full(k, gamma))
        terms.append(np.log(prior[k - 1] * sets) + labelling)
    return float(special.logsumexp(terms))


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


def student_t_marginals_by_scales(y, mean, kappa, nu, psi, df, step=0.5) -> dict[int, float]:
    """Log marginal likelihood of every subset of a few Student-t observations in any dimension.

    Given the scales every cluster is Gaussian and conjugate; the trapezoid rule over the logarithm
    of each scale does the rest, with a relative error of about |Gamma(a + 2 pi i / step)| /
    Gamma(a) for a = (df + d) / 2: 4e-6 at df = 4, d = 2.
    """
    n, d = y.shape
    alpha = 0.5 * df
    # What is cut off below would be more for observations much farther out.
    low, high = -18.0 / (alpha + 0.5 * d), np.log(1.0 + 20.0 / alpha)
    log_u = np.arange(low, high + step, step)
    log_w = stats.gamma.logpdf(np.exp(log_u), alpha, scale=1.0 / alpha) + log_u + np.log(step)
    out = {}
    for mask in range(1, 1 << n):
        members = y[[i for i in range(n) if mask >> i & 1]]
        m = len(members)
        places = np.indices((log_u.size,) * m).reshape(m, -1)
        u = np.exp(log_u)[places]
        total = kappa + u.sum(axis=0)
        centre = (kappa * mean + np.einsum("mg,mi->gi", u, members)) / total[:, None]
        second = np.einsum("mg,mi,mj->gij", u, members, members) + kappa * np.outer(mean, mean)
        psi_n = psi + second - total[:, None, None] * centre[:, :, None] * centre[:, None, :]
        value = log_w[places].sum(axis=0) + 0.5 * d * log_u[places].sum(axis=0)
        value += 0.5 * d * np.log(kappa / total) - 0.5 * m * d * np.log(np.pi)
        value += special.multigammaln(0.5 * (nu + m), d) - special.multigammaln(0.5 * nu, d)
        value += 0.5 * nu * np.linalg.slogdet(psi)[1]
        value -= 0.5 * (nu + m) * np.linalg.slogdet(psi_n)[1]
        out[mask] = float(special.logsumexp(value))
    return out


def scale_mixture_marginals(y, mean, variance, s2, r, inflation) -> dict[int, float]:
    """Log marginal likelihood of every subset under the contaminated Gaussian."""
    spread = np.sqrt(variance)
    phi = np.linspace(mean - 12.0 * spread, mean + 12.0 * spread, 8001)
    log_w = stats.norm.logpdf(phi, mean, spread) + np.log(phi[1] - phi[0])
    narrow = [stats.norm.logpdf(v, phi, np.sqrt(s2)) for v in y]
    wide = [stats.norm.logpdf(v, phi, np.sqrt(inflation * s2)) for v in y]
    with np.errstate(divide="ignore"):
        log_r = np.log(r)
    log_f = [np.logaddexp(np.log1p(-r) + a, log_r + b) for a, b in zip(narrow, wide, strict=True)]
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


def log_joint(states: np.ndarray, marginals: dict[int, float], log_prior) -> np.ndarray:
    """Log prior times marginals of every state."""
    log_p = np.empty(len(states))
    for row, z in enumerate(states):
        log_p[row] = log_prior(z)
        for k in np.unique(z):
            log_p[row] += marginals[sum(1 << int(i) for i in np.flatnonzero(z == k))]
    return log_p


def posterior(states: np.ndarray, marginals: dict[int, float], log_prior, labelled: bool) -> Exact:
    """Normalise prior times marginals over all states."""
    return Exact(states, special.softmax(log_joint(states, marginals, log_prior)), labelled)


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
    noise: float  # total variation expected of as many independent draws
    freedom: float
    n_cells: int


def pooled(p: np.ndarray, least: float) -> np.ndarray:
    """A cell for every state; the rare ones share cells of at least this probability."""
    cell = np.zeros(len(p), dtype=int)
    mass, n_cells = 0.0, 0
    for j in np.argsort(p):
        cell[j] = n_cells
        mass += p[j]
        if mass >= least:
            n_cells, mass = n_cells + 1, 0.0
    if mass > 0.0:
        cell[cell == n_cells] = max(n_cells - 1, 0)
    return cell


def distance(exact: Exact, one: np.ndarray, other: np.ndarray) -> float:
    """Half the root of the chi-square distance of a sampler from exact, by two of its chains.

    At least the total variation. A squared deviation of one chain's frequencies is mostly its
    sampling noise; a product of deviations of two independent chains has the same expectation
    without any, so an exact sampler scores zero on average before the root is taken. Rare states
    are pooled.
    """
    cell = pooled(exact.probability, 50.0 / len(one))
    share = np.bincount(cell, weights=exact.probability)
    deviations = [
        np.bincount(cell[visited], minlength=share.size) / len(visited) - share
        for visited in (one, other)
    ]
    return float(0.5 * np.sqrt(max((deviations[0] * deviations[1] / share).sum(), 0.0)))


def compare(exact: Exact, visited: np.ndarray, n_batches: int = 100) -> Comparison:
    """Chi-square test for dependent draws (the second-order correction of Rao and Scott).

    Pearson's statistic is a sum of squares of cell deviations. Deviations of batches of the chain
    give the trace of their covariance and of its square, hence the scale and the degrees of
    freedom of the chi-square distribution that has the statistic's mean and variance.
    """
    p = exact.probability
    length = len(visited) // n_batches
    visited = visited[: length * n_batches]
    n = len(visited)
    # A pool is closed once it would be seen fifty times among independent draws.
    cell = pooled(p, 50.0 / n)
    n_cells = int(cell.max()) + 1
    share = np.bincount(cell, weights=p, minlength=n_cells)
    batch = np.repeat(np.arange(n_batches), length)
    table = np.bincount(batch * n_cells + cell[visited], minlength=n_batches * n_cells)
    deviation = (table.reshape(n_batches, n_cells) - length * share) / np.sqrt(length * share)
    statistic = float((deviation.sum(axis=0) ** 2).sum() / n_batches)
    centred = deviation - deviation.mean(axis=0)
    gram = centred @ centred.T
    trace = np.trace(gram) / (n_batches - 1)
    square = (np.sum(gram**2) - np.sum(np.diag(gram) ** 2)) / (n_batches * (n_batches - 1))
    # Centring leaves every pair of batches a correlation of -1/(B-1).
    square -= (trace / (n_batches - 1)) ** 2
    freedom = float(np.clip(trace**2 / square, 1.0, n_cells - 1))
    frequency = np.bincount(visited, minlength=len(p)) / n
    return Comparison(
        p_value=float(stats.chi2.sf(statistic * freedom / trace, freedom)),
        total_variation=float(0.5 * np.abs(frequency - p).sum()),
        noise=float(np.sqrt(p * (1.0 - p) / (2.0 * np.pi * n)).sum()),
        freedom=freedom,
        n_cells=n_cells,
    )
