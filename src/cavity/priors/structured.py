"""The prior of clusters with a structured covariance, and what learns it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from cavity._numba.arrays import fitting, saved_array
from cavity.conjugate.nig import pack_diagonal, unpack_diagonal
from cavity.conjugate.normal import Tied
from cavity.priors.column_hyperpriors import (
    LogSpareOfMembers,
    VariancePrior,
    draw_centre,
    draw_variance_scale,
    slice_spare,
    variance_scale_log_density,
)
from cavity.priors.covariance_df import spare_log_density
from cavity.priors.mean_spread import SpreadPrior, spread_log_density
from cavity.updates import CLUSTER_PRIOR, Chain, Update


class StructuredPrior(NamedTuple):
    """Where the prior starts, and what of it is learned.

    Attributes
    ----------
    mean : array, shape (d,)
        Centre of the clusters' means.
    kappa : float
        How many observations the prior of a mean is worth.
    nu : float
        Degrees of freedom of the prior of variances, or of the covariance that clusters share.
    scale : array, shape (d,)
        Mean of the clusters' variances.
    variance, typical, spread
        Priors of learned ones: of the scale, of nu - 2 (its median), of kappa and the centre.
    n_held : int
        Sweeps at the beginning in which nothing of it is learned.
    """

    mean: np.ndarray
    kappa: float
    nu: float
    scale: np.ndarray
    variance: VariancePrior | None = None
    typical: float | None = None
    spread: SpreadPrior | None = None
    n_held: int = 0


class HeldUpdate(Update):
    """An update of what clusters have in common, which waits for the first sweeps to pass.

    Attributes
    ----------
    expected : array, shape (d,)
        Mean of the mean variances' prior, where these are learned; empty otherwise.
    """

    def __init__(self, prior: StructuredPrior) -> None:
        self.prior = prior
        self.n_held = prior.n_held
        self.n_drawn = np.zeros(1, dtype=np.int64)
        learned = prior.variance
        self.expected = np.empty(0) if learned is None else learned.typical.copy()

    def fresh(self) -> Self:
        """One that has drawn nothing yet."""
        return type(self)(self.prior)

    @property
    def waits(self) -> bool:
        """Whether the next draw is left out."""
        return bool(self.n_drawn[0] < self.n_held)

    def arrays(self) -> dict[str, np.ndarray]:
        """How often it was asked to draw, and what the mean variances are around."""
        return {"n_drawn": self.n_drawn.copy(), "expected": self.expected.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        self.n_drawn = fitting(saved_array(arrays, "n_drawn"), self.n_drawn, "n_drawn")
        self.expected = fitting(saved_array(arrays, "expected"), self.expected, "expected")


class CollapsedSpareUpdate(HeldUpdate):
    """Draws nu of independent columns given the members of every cluster alone.

    Given variances that were drawn much alike, nu would hardly move.
    """

    name = "collapsed_df"
    first = True

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw it; prior and slots follow."""
        self.n_drawn += 1
        if self.n_drawn[0] <= self.n_held:
            return
        q = chain.family
        mean, kappa, nu, psi = unpack_diagonal(q.prior)
        scale = psi / (nu - 2.0)
        used = np.flatnonzero(chain.counts > 0)
        density = LogSpareOfMembers(
            scale,
            np.maximum(q.psi[:, used].T - psi, 0.0),
            q.nu[used] - nu,
            float(self.prior.typical or 1.0),
        )
        spare = slice_spare(density, nu - 2.0, rng)
        change = spare + 2.0 - nu
        d = mean.size
        q.prior[:] = pack_diagonal(mean, kappa, nu + change, spare * scale)
        q.natural[:, 1] += change
        q.natural[:, 2 + d :] += change * scale
        q.nu[:] += change
        q.psi[:] += change * scale[:, None]


class DiagonalHyperpriors(HeldUpdate):
    """Learns what clusters of independent columns have in common, given their parameters."""

    name = "hyperpriors"
    changes = frozenset({CLUSTER_PRIOR})

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw scale, strength and centre; set the family's prior."""
        self.n_drawn += 1
        if self.n_drawn[0] <= self.n_held:
            return
        centre, kappa, nu, psi = unpack_diagonal(chain.family.prior)
        used = chain.counts > 0
        mean, variance = chain.parameters.mean.T[used], chain.parameters.variance.T[used]
        scale = psi / (nu - 2.0)
        if self.prior.variance is not None:
            scale = draw_variance_scale(self.prior.variance, self.expected, nu, variance, rng)
        if self.prior.spread is not None:
            centre, kappa = draw_centre(
                self.prior.spread,
                len(mean),
                float(((mean - centre) ** 2 / variance).sum()),
                (1.0 / variance).sum(axis=0),
                (mean / variance).sum(axis=0),
                rng,
            )
        chain.family.prior[:] = pack_diagonal(centre, kappa, nu, (nu - 2.0) * scale)

    def log_density(self, chain: Chain) -> float:
        """Of what is learned under its priors."""
        centre, kappa, nu, psi = unpack_diagonal(chain.family.prior)
        total = 0.0
        if self.prior.variance is not None:
            scale = psi / (nu - 2.0)
            total += variance_scale_log_density(self.prior.variance, self.expected, scale)
        if self.prior.typical is not None:
            total += spare_log_density(self.prior.typical, nu - 2.0)
        if self.prior.spread is not None:
            total += spread_log_density(self.prior.spread, centre, kappa)
        return total

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """All that is learned."""
        centre, kappa, nu, psi = unpack_diagonal(chain.family.prior)
        out: dict[str, np.ndarray] = {}
        if self.prior.variance is not None:
            out["covariance_prior_scale"] = psi / (nu - 2.0)
        if self.prior.typical is not None:
            out["covariance_prior_df"] = np.array(nu)
        if self.prior.spread is not None:
            out |= {"mean_prior_centre": centre, "mean_prior_strength": np.array(kappa)}
        return out


class MeanSpreadUpdate(HeldUpdate):
    """Learns where means lie and how far apart, where covariances are drawn by another update."""

    name = "mean_spread"
    changes = frozenset({CLUSTER_PRIOR})

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw strength and centre given the occupied clusters' means and covariances."""
        self.n_drawn += 1
        if self.n_drawn[0] <= self.n_held or self.prior.spread is None:
            return
        natural = chain.family.prior
        used = np.flatnonzero(chain.counts > 0)
        mean = chain.parameters.mean.T[used]
        precision, weighed, form = sums_of_precisions(
            chain.parameters.covariance, used, mean, natural[1:] / natural[0]
        )
        centre, kappa = draw_centre(self.prior.spread, used.size, form, precision, weighed, rng)
        natural[0], natural[1:] = kappa, kappa * centre

    def log_density(self, chain: Chain) -> float:
        """Of strength and centre under their priors."""
        natural = chain.family.prior
        if self.prior.spread is None:
            return 0.0
        return spread_log_density(self.prior.spread, natural[1:] / natural[0], float(natural[0]))

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """All that is learned."""
        natural = chain.family.prior
        return {
            "mean_prior_centre": natural[1:] / natural[0],
            "mean_prior_strength": np.array(natural[0]),
        }


def sums_of_precisions(
    covariance: Any, slots: np.ndarray, mean: np.ndarray, centre: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Sums over some slots: precisions, these times means, distances from the centre."""
    away = mean - centre
    if isinstance(covariance, Tied):
        one = covariance.whiten.T @ covariance.whiten
        form = float(np.square(away @ covariance.whiten.T).sum())
        return slots.size * one, one @ mean.sum(axis=0), form
    root = covariance.root[:, slots].T
    inner = np.moveaxis(covariance.project[:, :, slots], 2, 0) * root[:, None]
    low = inner.reshape(-1, inner.shape[2])
    precision = np.diag(np.square(root).sum(axis=0)) - low.T @ low
    within = np.einsum("kfi,ki->kf", inner, mean)
    weighed = (root * root * mean).sum(axis=0) - within.ravel() @ low
    apart = np.einsum("kfi,ki->kf", inner, away)
    form = float(np.square(root * away).sum() - np.square(apart).sum())
    return precision, weighed, max(form, 0.0)


def precisions(covariance: Any, slots: np.ndarray) -> np.ndarray:
    """Inverse covariances of some slots, (slots, d, d)."""
    if isinstance(covariance, Tied):
        one = covariance.whiten.T @ covariance.whiten
        return np.broadcast_to(one, (slots.size, *one.shape))
    out = []
    for k in slots:
        root = covariance.root[:, k]
        inner = covariance.project[:, :, k]
        out.append((np.eye(root.size) - inner.T @ inner) * root * root[:, None])
    return np.array(out)


def inverse_wishart_log_density(sigma: np.ndarray, nu: float, psi: np.ndarray) -> float:
    """Log density of an inverse Wishart distribution with a diagonal matrix, psi.

    Examples
    --------
    >>> from scipy import stats
    >>> sigma = np.array([[2.0, 0.3], [0.3, 1.0]])
    >>> expected = stats.invwishart.logpdf(sigma, 4.0, np.diag([1.0, 2.0]))
    >>> bool(np.isclose(inverse_wishart_log_density(sigma, 4.0, np.array([1.0, 2.0])), expected))
    True
    """
    from scipy.special import multigammaln

    d = psi.size
    value = 0.5 * nu * (np.log(psi).sum() - d * math.log(2.0)) - multigammaln(0.5 * nu, d)
    value -= 0.5 * (nu + d + 1.0) * np.linalg.slogdet(sigma)[1]
    return float(value - 0.5 * (np.diag(np.linalg.inv(sigma)) * psi).sum())
