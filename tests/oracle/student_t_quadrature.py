"""Student-t evidence and tilted moments by brute force, independent of the package's formulas.

Everything is an integral over the scale variable u of textbook quantities: given u, the cluster
is conjugate, so the evidence is a multivariate t density and the tilted distribution an NIW.
"""

from __future__ import annotations

import itertools

import numpy as np
from niw import NIW, expected_statistics
from scipy import integrate, special, stats


def log_evidence_given_scale(log_u, d, kappa, nu, half_log_det, mahalanobis):
    """Log of the integral of N(y; mu, Sigma/u) against NIW, for y at this Mahalanobis distance.

    A ratio of NIW normalising constants: kappa' = kappa + u, nu' = nu + 1 and
    det(Psi') = det(Psi) (1 + kappa u / (kappa + u) mahalanobis).
    """
    u = np.exp(log_u)
    return (
        0.5 * d * (log_u - np.log(np.pi))
        + 0.5 * d * np.log(kappa / (kappa + u))
        + special.gammaln(0.5 * (nu + 1.0))
        - special.gammaln(0.5 * (nu - d + 1.0))
        - half_log_det
        - 0.5 * (nu + 1.0) * np.log1p(kappa * u / (kappa + u) * mahalanobis)
    )


def log_evidence(alpha, d, kappa, nu, half_log_det, mahalanobis) -> float:
    """Adaptive quadrature in log u, scaled and split at the integrand's top."""

    def exponent(log_u):
        return (
            alpha * (np.log(alpha) + log_u)
            - special.gammaln(alpha)
            - alpha * np.exp(log_u)
            + log_evidence_given_scale(log_u, d, kappa, nu, half_log_det, mahalanobis)
        )

    coarse = np.linspace(-45.0, 8.0, 4001)
    values = exponent(coarse)
    top = values.max()
    inside = coarse[values > top - 60.0]
    total = 0.0
    edges = np.linspace(inside[0] - 0.05, inside[-1] + 0.05, 7)
    for left, right in itertools.pairwise(edges):
        part, _ = integrate.quad(
            lambda v: np.exp(exponent(v) - top), left, right, epsabs=1e-13, epsrel=1e-12, limit=200
        )
        total += part
    return float(top + np.log(total))


def tilted_statistics(q: NIW, y, alpha, fraction=1.0, nodes=6001):
    """Expected sufficient statistics of q times the likelihood to a power.

    For fraction 1 the likelihood is the integral over u of Gamma(u) N(y; mu, Sigma/u). A power
    of a Student-t density is again proportional to a mixture: (1 + m/df)^(-fraction (df + d)/2)
    is the integral over u of Gamma(u; fraction a, alpha) exp(-u m / 2), a = alpha + d/2; and the
    determinant enters to the power fraction/2.
    """
    d = y.size
    a = fraction * (alpha + 0.5 * d)
    log_u = np.linspace(-60.0, 9.0, nodes * 4)
    u = np.exp(log_u)
    e = y - q.mean
    c = q.kappa * u / (q.kappa + u)
    delta = float(e @ np.linalg.solve(q.psi, e))
    # Integrating out (mu, Sigma) given u leaves kappa' = kappa + u, nu' = nu + fraction and
    # Psi' = Psi + c e e'.
    log_w = (
        a * log_u
        - alpha * u
        - 0.5 * d * np.log(q.kappa + u)
        - 0.5 * (q.nu + fraction) * np.log1p(c * delta)
    )
    w = special.softmax(log_w)
    keep = w > 1e-30
    w, u, c = w[keep], u[keep], c[keep]
    nu = q.nu + fraction
    inverse = np.linalg.inv(q.psi)
    ie = inverse @ e
    shrink = c / (1.0 + c * delta)
    m = q.mean + (u / (q.kappa + u))[:, None] * e
    precision = nu * (inverse - shrink[:, None, None] * np.outer(ie, ie))
    linear = np.einsum("nij,nj->ni", precision, m)
    square = d / (q.kappa + u) + np.einsum("ni,ni->n", linear, m)
    log_det = (
        special.digamma(0.5 * (nu - np.arange(d))).sum()
        + d * np.log(2.0)
        - np.linalg.slogdet(q.psi)[1]
        - np.log1p(c * delta)
    )
    return (
        float(w @ square),
        w @ linear,
        np.einsum("n,nij->ij", w, precision),
        float(w @ log_det),
    )


def tilted_statistics_by_grid(m, kappa, nu, psi, y, df, fraction):
    """The same in one dimension straight from the definition, over (mu, log sigma^2)."""
    step = 0.03
    x = np.arange(-12.0, 12.0, step)
    log_s2 = np.arange(-16.0, 18.0, step)
    sigma = np.exp(0.5 * log_s2)
    mu = m + x[:, None] * sigma / np.sqrt(kappa)
    log_w = (
        stats.norm.logpdf(x)[:, None]
        + stats.invgamma.logpdf(np.exp(log_s2), 0.5 * nu, scale=0.5 * psi)
        + log_s2
        + fraction * stats.t.logpdf(y, df, loc=mu, scale=np.broadcast_to(sigma, mu.shape))
    )
    w = special.softmax(log_w)
    precision = np.broadcast_to(1.0 / sigma**2, mu.shape)
    return tuple(
        float(np.sum(w * g))
        for g in (precision * mu**2, precision * mu, precision, np.log(precision))
    )


def largest_relative_error(q: NIW, exact) -> float:
    """Of expected sufficient statistics; matrices and vectors relative to their largest entry.

    The statistics are taken about the exact tilted mean, so that a large mean hides nothing.
    """
    square, linear, precision, log_det = exact
    centre = np.linalg.solve(precision, linear)
    moved = q._replace(mean=q.mean - centre)
    got = expected_statistics(moved)
    about = square - centre @ linear
    spread = np.sqrt(np.max(np.abs(precision)))
    return max(
        abs(got[0] - about) / abs(about),
        float(np.max(np.abs(got[1])) / spread),
        float(np.max(np.abs(got[2] - precision)) / np.max(np.abs(precision))),
        abs(got[3] - log_det) / max(abs(log_det), 1.0),
    )
