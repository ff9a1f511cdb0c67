"""How far each row lies from its own cluster: the rows worth checking in the source of the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.estimators.mixtures import GaussianMixture, StudentTMixture


def tail_probabilities(mixture: StudentTMixture | GaussianMixture, X: Any) -> np.ndarray:
    """Probability that a draw from a row's cluster lies at least as far out as the row does.

    Parameters
    ----------
    mixture : StudentTMixture or GaussianMixture
        Fitted.
    X : array or DataFrame of shape (n, d)
        The rows that it was fitted to.

    Returns
    -------
    array of shape (n,)
        Under the posterior means of the cluster's location, scale matrix and degrees of freedom:
        the squared Mahalanobis distance over d is then F(d, df), or chi-squared over d. NaN where
        no draw has a cluster that matches the row's, or squares of the data are beyond numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import StudentTMixture
    >>> X = np.random.default_rng(0).standard_normal((60, 2))
    >>> X[7] = 40.0
    >>> m = StudentTMixture(1, n_chains=1, n_warmup=20, n_draws=20, random_state=0).fit(X)
    >>> int(tail_probabilities(m, X).argmin())
    7
    """
    from scipy import stats

    posterior, partition = mixture.posterior_, mixture.partition_
    values = np.asarray(X, dtype=float)
    d = values.shape[1]
    scale = mixture._scale
    location = posterior.parameter_summary("mean", partition)["mean"]
    covariance = posterior.parameter_summary("covariance", partition)["mean"]
    df = None
    if "df" in posterior.parameters:
        df = posterior.parameter_summary("df", partition)["mean"]
    out = np.empty(len(values))
    for k in range(mixture.n_clusters_):
        members = mixture.labels_ == k
        spread = np.diag(covariance[k])
        if not (np.isfinite(location[k]).all() and np.all((spread > 0) & np.isfinite(spread))):
            out[members] = np.nan
            continue
        # Standardised units: squares of the data's own might overflow.
        away = (values[members] - location[k]) / scale
        root = np.linalg.cholesky(covariance[k] / np.outer(scale, scale))
        distance = (np.linalg.solve(root, away.T) ** 2).sum(axis=0)
        if df is None:
            out[members] = stats.chi2.sf(distance, d)
        else:
            out[members] = stats.f.sf(distance / d, d, df[k])
    return out
