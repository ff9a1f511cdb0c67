"""Factor analysers: loadings and own variances of every cluster, drawn given labels and scales.

Rows of cluster k are mean_k + (L_k f_i + D_k^(1/2) e_i) / sqrt(u_i) with q standard normal factors
f_i, and so is the centre around the mean, with kappa in place of u. Given the factors, every column
is a regression on them with a conjugate prior,

    l_kj | D_kj ~ N(0, v D_kj I),   D_kj ~ IG(nu / 2, (nu - 2) S_j / 2),   v ~ IG(2, 1),

so that loadings and variances are drawn together, column by column. Labels never see the factors:
they are integrated out there (`likelihoods.mean_rows`). S and nu are learned as for independent
columns (`cavity.priors.covariance_scale`). An empty slot has parameters from the prior.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from cavity.conjugate.normal import Factors, set_factors
from cavity.priors.covariance_df import LogSpareOfVariances, slice_spare, spare_log_density
from cavity.priors.covariance_scale import FIXED, draw_variances
from cavity.priors.hyperpriors import HeldUpdate
from cavity.updates import LIKELIHOOD, Chain

# Inverse gamma prior of v, the loadings' variance in units of their column's own: shape and rate.
STRENGTH_PRIOR = (2.0, 1.0)
NU, STRENGTH, SCALE = 0, 1, 2  # places in `Factors.prior`, the last of what follows


class FactorUpdate(HeldUpdate):
    """Draws factors, and given these loadings, variances and what clusters have in common."""

    name = "factors"
    changes = frozenset({LIKELIHOOD})
    cluster_parameters = ("loading", "uniqueness")

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Draw all of it given labels, scales and means."""
        waits = self.waits()
        rows, q, own = chain.model, chain.family, chain.family.covariance
        kappa, centre = q.prior[0], q.prior[1:] / q.prior[0]
        used = np.flatnonzero(chain.counts > 0)
        order = np.argsort(chain.z, kind="stable")
        ends = np.searchsorted(chain.z[order], np.arange(chain.counts.size + 1))
        for k in used:
            members = order[ends[k] : ends[k + 1]]
            mean = chain.parameters.mean[:, k]
            away = (rows.y[members] - mean) * np.sqrt(rows.scale[members])[:, None]
            away = np.vstack([away, math.sqrt(kappa) * (mean - centre)])
            self._draw_slot(own, int(k), away, rng)
        if not waits:
            self._draw_common(own, used, rng)
        for k in np.flatnonzero(chain.counts == 0):
            draw_from_prior(own, int(k), rng)
        _copy(own, chain.parameters.covariance)

    def _draw_slot(self, own: Factors, k: int, away: np.ndarray, rng: np.random.Generator) -> None:
        """Factors of some residuals, then the slot's loadings and variances."""
        nu, v = own.prior[NU], own.prior[STRENGTH]
        scaled, root = own.scaled[:, :, k], own.root[:, k]
        n_factors, d = scaled.shape
        eye = np.eye(n_factors)
        inner = np.linalg.cholesky(eye + scaled @ scaled.T)
        half = np.linalg.solve(inner, scaled @ (away * root).T)
        factor = np.linalg.solve(inner.T, half + rng.standard_normal(half.shape)).T
        outer = np.linalg.cholesky(factor.T @ factor + eye / v)
        half = np.linalg.solve(outer, factor.T @ away)
        rest = np.maximum((away * away).sum(axis=0) - (half * half).sum(axis=0), 0.0)
        psi = (nu - 2.0) * own.prior[SCALE:] + rest
        variance = 0.5 * psi / rng.standard_gamma(0.5 * (nu + len(away)), d)
        noise = rng.standard_normal((n_factors, d)) * np.sqrt(variance)
        set_factors(own, k, variance, np.linalg.solve(outer.T, half + noise).T)

    def _draw_common(self, own: Factors, used: np.ndarray, rng: np.random.Generator) -> None:
        """Strength of loadings, degrees of freedom and mean of the variances."""
        variance, scaled = own.variance[:, used].T, own.scaled[:, :, used]
        a, b = STRENGTH_PRIOR
        form = float((scaled * scaled).sum())
        own.prior[STRENGTH] = (b + 0.5 * form) / rng.standard_gamma(a + 0.5 * scaled.size)
        scale = own.prior[SCALE:]
        if self.typical > 0.0:
            ratio = scale / variance
            density = LogSpareOfVariances(
                float(ratio.size), float(np.log(ratio).sum()), float(ratio.sum()),
                self.typical,
            )  # fmt: skip
            own.prior[NU] = 2.0 + slice_spare(density, own.prior[NU] - 2.0, rng)
        if self.scale.form != FIXED:
            scale[:] = draw_variances(self.scale, own.prior[NU], variance, rng)

    def grow(self, chain: Chain, start: int, rng: np.random.Generator) -> None:
        """Parameters of new slots from their prior."""
        own = chain.family.covariance
        for k in range(start, chain.counts.size):
            draw_from_prior(own, k, rng)
        _copy(own, chain.parameters.covariance)

    def log_density(self, chain: Chain) -> float:
        """Of occupied clusters' loadings and variances, and of what they have in common."""
        own = chain.family.covariance
        used = np.flatnonzero(chain.counts > 0)
        variance, scaled = own.variance[:, used], own.scaled[:, :, used]
        nu, v, scale = own.prior[NU], own.prior[STRENGTH], own.prior[SCALE:, None]
        rate = 0.5 * (nu - 2.0) * scale
        each = 0.5 * nu * np.log(rate) - gammaln(0.5 * nu)
        total = float((each - (0.5 * nu + 1.0) * np.log(variance) - rate / variance).sum())
        # Loadings in units of the columns' own deviations are normal; back to loadings themselves.
        total -= 0.5 * float((scaled * scaled / v + math.log(2.0 * math.pi * v)).sum())
        total -= 0.5 * len(scaled) * float(np.log(variance).sum())
        a, b = STRENGTH_PRIOR
        total += a * math.log(b) - math.lgamma(a) - (a + 1.0) * math.log(v) - b / v
        if self.typical > 0.0:
            total += spare_log_density(self.typical, nu - 2.0)
        if self.scale.form != FIXED:
            total += self.scale_log_density(own.prior[SCALE:])
        return total

    def record(self, chain: Chain) -> dict[str, np.ndarray]:
        """Loadings and own variances of every slot."""
        own = chain.family.covariance
        return {
            "loading": np.moveaxis(own.scaled / own.root, 2, 0).swapaxes(1, 2),
            "uniqueness": own.variance.T,
        }


def draw_from_prior(own: Factors, k: int, rng: np.random.Generator) -> None:
    """Give slot k loadings and variances from their prior."""
    nu, v, scale = own.prior[NU], own.prior[STRENGTH], own.prior[SCALE:]
    n_factors, d = own.scaled.shape[:2]
    variance = 0.5 * (nu - 2.0) * scale / rng.standard_gamma(0.5 * nu, d)
    loading = rng.standard_normal((d, n_factors)) * np.sqrt(v * variance)[:, None]
    set_factors(own, k, variance, loading)


def _copy(source: Factors, target: Factors) -> None:
    for there, here in zip(source, target, strict=True):
        here[...] = there
