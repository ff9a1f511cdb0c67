"""Regressions of many groups that borrow strength from each other.

For group i, ``y = beta_i' u + noise``; ``beta_ij ~ N(mean_j, var_j)``; ``mean_j`` normal, ``var_j``
and the noise variances inverse gamma. All conditionals are conjugate: plain Gibbs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
