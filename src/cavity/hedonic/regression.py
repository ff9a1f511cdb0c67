"""Regressions of many groups that borrow strength from each other.

For group i, ``y = beta_i' u + noise``; ``beta_ij ~ N(mean_j, var_j)``; ``mean_j`` normal, ``var_j``
and the noise variances inverse gamma. All conditionals are conjugate: plain Gibbs.

`RegionRegressions` and `NoLocal` are local parts of a house price index: they give the mean and
variance of what a region adds to the log price. In their `rows`, ``region`` is a position among the
regions of the fit.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from cavity.utils.progress import track


class RegressionPrior(NamedTuple):
    """Hyper-parameters.

    Attributes
    ----------
    mean_var : float
        Variance of the normal prior (mean zero) of each coefficient's mean.
    var_shape, var_scale : float
        Inverse gamma of the variance of a coefficient between groups.
    noise_shape, noise_scale : float
        Inverse gamma of the noise variance of a group.
    """

    mean_var: float = 1.0
    var_shape: float = 2.0
    var_scale: float = 0.02
    noise_shape: float = 2.0
    noise_scale: float = 0.05


class RegressionDraws(NamedTuple):
    """Posterior draws.

    Attributes
    ----------
    beta : ndarray of shape (draw, group, coefficient)
    mean, var : ndarray of shape (draw, coefficient)
    noise : ndarray of shape (draw, group)
    """

    beta: np.ndarray
    mean: np.ndarray
    var: np.ndarray
    noise: np.ndarray


def sample_regressions(
    U: np.ndarray,
    y: np.ndarray,
    group: np.ndarray,
    n_groups: int,
    *,
    prior: RegressionPrior | None = None,
    n_warmup: int = 200,
    n_draws: int = 300,
    random_state: Any = None,
    progress: bool | None = None,
) -> RegressionDraws:
    """Draw the coefficients of every group.

    Parameters
    ----------
    U : ndarray of shape (n, p)
    y : ndarray of shape (n,)
    group : ndarray of int, shape (n,)
        In ``range(n_groups)``; a group may be empty, and is then drawn from its prior.
    n_groups : int
    prior : RegressionPrior, optional
    n_warmup, n_draws : int
    random_state : None, int or Generator
    progress : bool, optional

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> U, group = rng.normal(size=(300, 2)), np.repeat(np.arange(3), 100)
    >>> y = U @ [1.0, -1.0] + 0.1 * rng.normal(size=300)
    >>> draws = sample_regressions(U, y, group, 3, random_state=0, progress=False)
    >>> draws.beta.mean(axis=0).round(1).tolist()
    [[1.0, -1.0], [1.0, -1.0], [1.0, -1.0]]
    """
    prior = RegressionPrior() if prior is None else prior
    rng = np.random.default_rng(random_state)
    p = U.shape[1]
    gram = np.zeros((n_groups, p, p))
    cross = np.zeros((n_groups, p))
    count = np.bincount(group, minlength=n_groups).astype(float)
    square = np.bincount(group, weights=y**2, minlength=n_groups)
    for i in range(n_groups):
        rows = U[group == i]
        gram[i] = rows.T @ rows
        cross[i] = rows.T @ y[group == i]

    mean, var = np.zeros(p), np.full(p, prior.var_scale)
    noise = np.full(n_groups, max(float(np.var(y)), 1e-12) if len(y) else 1.0)
    out = RegressionDraws(
        np.empty((n_draws, n_groups, p)),
        np.empty((n_draws, p)),
        np.empty((n_draws, p)),
        np.empty((n_draws, n_groups)),
    )
    for step in track(range(n_warmup + n_draws), "regressions", progress=progress, unit="sweeps"):
        precision = gram / noise[:, None, None]
        precision[:, np.arange(p), np.arange(p)] += 1 / var
        root = np.linalg.cholesky(precision)
        shift = np.linalg.solve(root, (cross / noise[:, None] + mean / var)[..., None])
        shift += rng.standard_normal((n_groups, p, 1))
        beta = np.linalg.solve(np.swapaxes(root, 1, 2), shift)[..., 0]

        weight = 1 / (n_groups / var + 1 / prior.mean_var)
        mean = weight * beta.sum(axis=0) / var + np.sqrt(weight) * rng.standard_normal(p)
        scale = prior.var_scale + 0.5 * ((beta - mean) ** 2).sum(axis=0)
        var = scale / rng.standard_gamma(prior.var_shape + 0.5 * n_groups, size=p)
        error = square - 2 * (beta * cross).sum(axis=1)
        error += np.einsum("ip,ipq,iq->i", beta, gram, beta)
        noise = (prior.noise_scale + 0.5 * np.maximum(error, 0)) / rng.standard_gamma(
            prior.noise_shape + 0.5 * count
        )
        if step >= n_warmup:
            d = step - n_warmup
            out.beta[d], out.mean[d], out.var[d], out.noise[d] = beta, mean, var, noise
    return out


class LocalFit(Protocol):
    """A fitted local part."""

    def effect(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the local part of each row."""

    def noise(self, rows: Any) -> np.ndarray:
        """Variance of a single sale about it."""


class NoLocal:
    """Nothing is local: every region follows the global price."""

    def __init__(self, sd: float) -> None:
        self._var = sd**2

    def effect(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Zero, for certain."""
        return np.zeros(len(rows.region)), np.zeros(len(rows.region))

    def noise(self, rows: Any) -> np.ndarray:
        """Variance about the global part."""
        return np.full(len(rows.region), self._var)


class RegionRegressions:
    """Regressions of the regions, from posterior draws.

    Attributes
    ----------
    draws : RegressionDraws
    """

    def __init__(self, draws: RegressionDraws, *, region_level: bool) -> None:
        self.draws = draws
        self.region_level = region_level
        self._mean = draws.beta.mean(axis=0)
        centred = draws.beta - self._mean
        self._cov = np.einsum("dip,diq->ipq", centred, centred) / len(centred)
        self._noise = draws.noise.mean(axis=0)

    @classmethod
    def fit(
        cls, rows: Any, residual: np.ndarray, n_regions: int, *, region_level: bool, **sampling: Any
    ) -> RegionRegressions:
        """Sample the regressions of what the global part leaves."""
        draws = sample_regressions(
            _design(rows.splines, region_level), residual, rows.region, n_regions, **sampling
        )
        return cls(draws, region_level=region_level)

    def effect(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the regression."""
        U = _design(rows.splines, self.region_level)
        mean = np.einsum("np,np->n", U, self._mean[rows.region])
        var = np.einsum("np,npq,nq->n", U, self._cov[rows.region], U, optimize=True)
        return mean, var

    def noise(self, rows: Any) -> np.ndarray:
        """Posterior mean of the noise variance of the region."""
        return self._noise[rows.region]


def _design(splines: np.ndarray, region_level: bool) -> np.ndarray:
    if not region_level:
        return splines
    return np.column_stack([np.ones(len(splines)), splines])
