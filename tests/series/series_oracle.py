"""Slow, obvious twins: every quantity of the series model from one dense joint Gaussian."""

from __future__ import annotations

import numpy as np


def model_of(
    rng,
    n=3,
    n_times=12,
    p=0,
    missing=0.3,
    most=3,
    n_slots=1,
    var_x=0.05,
    var_x0=0.7,
    scale=1.0,
    intercept=False,
    population=(0.5, 4.0, 0.0, 1.0),
    free_signs=False,
):
    """A FactorSeries with random data: missing cells, several observations per cell, covariates."""
    from cavity.series.state_space import factor_series

    count = rng.integers(1, most + 1, (n, n_times))
    count[rng.random((n, n_times)) < missing] = 0
    y, u = np.full((n, n_times), np.nan), np.zeros((n, n_times, p))
    scatter = np.zeros((n, p + 1, p + 1))
    rows = []
    for i in range(n):
        for t in range(n_times):
            values = 2.0 * rng.standard_normal(count[i, t])
            features = rng.standard_normal((count[i, t], p))
            features[:, : int(intercept)] = 1.0
            if count[i, t]:
                y[i, t], u[i, t] = values.mean(), features.mean(0)
                d = np.column_stack([features, values]) - np.append(u[i, t], y[i, t])
                scatter[i] += d.T @ d
            rows += [(i, t, v, *f) for v, f in zip(values, features, strict=True)]
    m = factor_series(
        y * scale + (3.0 * scale if scale != 1.0 else 0.0),
        count.astype(np.uint16),
        u[:, :, int(intercept) :],
        scatter,
        a=rng.uniform(-0.95, 0.98, n),
        loading=rng.normal(0, 1, n),
        var_x=var_x,
        var_y=rng.uniform(0.2, 2.0, n),
        beta=rng.standard_normal((n, p)),
        population=population,
        var_x0=var_x0,
        free_signs=free_signs,
        centre=3.0 * scale if scale != 1.0 else 0.0,
        scale=scale,
        n_slots=n_slots,
        intercept=intercept,
    )
    return m, np.array(rows).reshape(-1, 3 + p)


def propagate(a, n_times):
    """Matrix A with x = A (drift + noise) + a^t x_0."""
    lag = np.arange(n_times)[:, None] - np.arange(n_times)[None]
    return np.where(lag >= 0, a ** np.maximum(lag, 0.0), 0.0)


def state_moments(m, i, mean, var):
    """Mean and covariance of x_i0..x_iT (T + 1 values) with eta_t ~ N(mean_t, var_t)."""
    n_times = m.cells.y.shape[1]
    a, b = m.own.a[i], m.own.loading[i]
    full = propagate(a, n_times + 1)
    drift = np.append(0.0, b * np.asarray(mean))
    noise = np.append(m.own.var_x0[0], m.own.var_x[0] + b**2 * np.asarray(var))
    return full @ drift, full @ np.diag(noise) @ full.T


def joint_loglik(m, rows, members, mean, cov):
    """Log density of the members' observations, eta ~ N(mean, cov), as one big Gaussian."""
    from scipy.stats import multivariate_normal

    n_times = m.cells.y.shape[1]
    select = np.isin(rows[:, 0], members)
    if not select.any():
        return 0.0
    picked = rows[select]
    series, times = picked[:, 0].astype(int), picked[:, 1].astype(int)
    load = np.zeros((len(picked), n_times))
    own = np.zeros((len(picked), len(picked)))
    for i in members:
        at = series == i
        full = propagate(m.own.a[i], n_times)
        load[at] = m.own.loading[i] * full[times[at]]
        own_cov = m.own.var_x[0] * full @ full.T
        g = m.own.a[i] ** np.arange(1, n_times + 1)
        own_cov = own_cov + m.own.var_x0[0] * np.outer(g, g)
        own[np.ix_(at, at)] = own_cov[np.ix_(times[at], times[at])] + m.own.var_y[i] * np.eye(
            at.sum()
        )
    fitted = (picked[:, 3:] * m.own.beta[series]).sum(1) + load @ mean
    total = own + load @ cov @ load.T
    return multivariate_normal(np.zeros(len(picked)), total, allow_singular=False).logpdf(
        picked[:, 2] - fitted
    )


def eta_posterior(m, rows, members, mean, cov):
    """Mean and covariance of eta given the members' observations, and prior N(mean, cov)."""
    n_times = m.cells.y.shape[1]
    precision = np.linalg.inv(cov)
    shift = precision @ mean
    for i in members:
        picked = rows[rows[:, 0] == i]
        if not len(picked):
            continue
        times = picked[:, 1].astype(int)
        full = propagate(m.own.a[i], n_times)
        g = m.own.a[i] ** np.arange(1, n_times + 1)
        own = (m.own.var_x[0] * full @ full.T + m.own.var_x0[0] * np.outer(g, g))[
            np.ix_(times, times)
        ]
        own = own + m.own.var_y[i] * np.eye(len(picked))
        load = m.own.loading[i] * full[times]
        response = picked[:, 2] - picked[:, 3:] @ m.own.beta[i]
        precision = precision + load.T @ np.linalg.solve(own, load)
        shift = shift + load.T @ np.linalg.solve(own, response)
    cov = np.linalg.inv(precision)
    return cov @ shift, cov
