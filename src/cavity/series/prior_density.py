"""Log prior density of the series' parameters, for the log joint density."""

from __future__ import annotations

import math

import numpy as np

from cavity.series.densities import log_inverse_gamma, log_mass, log_normal
from cavity.series.draws import Moving, SeriesPriors
from cavity.series.state import SeriesParameters


def log_prior_of_series(
    own: SeriesParameters, hyper: np.ndarray, prior: SeriesPriors, moving: Moving
) -> float:
    """Log prior density of the parameters that move, but for the coefficients given theirs."""
    total = 0.0
    a_mean, a_precision, loading_mean, loading_precision = own.population
    if moving.a:
        if a_precision > 0:
            root = math.sqrt(a_precision)
            total += log_normal(own.a, a_mean, a_precision)
            total -= own.a.size * log_mass((-1 - a_mean) * root, (1 - a_mean) * root)
        else:
            total -= own.a.size * math.log(2.0)
    if moving.loading:
        total += log_normal(own.loading, loading_mean, loading_precision)
    if moving.var_x:
        total += log_inverse_gamma(own.var_x, prior.var_x_shape, prior.var_x_scale)
    if moving.var_x0:
        total += log_inverse_gamma(own.var_x0, prior.var_x0_shape, prior.var_x0_scale)
    if moving.var_y:
        total += log_inverse_gamma(own.var_y, prior.var_y_shape, prior.var_y_scale)
    if moving.beta and own.beta.shape[1]:
        total += log_normal(hyper[0], prior.beta_mean, prior.beta_precision)
        total += log_inverse_gamma(hyper[1], prior.beta_shape, prior.beta_scale)
    return total
