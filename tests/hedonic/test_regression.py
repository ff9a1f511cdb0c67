"""Hierarchical regressions: calibration against the prior, and the pooled limits."""

import numpy as np
import pytest
from scipy import stats

from cavity.hedonic.regression import RegressionPrior, sample_regressions

PRIOR = RegressionPrior(1.0, 3.0, 1.0, 3.0, 1.0)


def simulate(rng, prior, n_groups=4, p=2, n=8):
    mean = np.sqrt(prior.mean_var) * rng.standard_normal(p)
    var = prior.var_scale / rng.gamma(prior.var_shape, size=p)
    beta = mean + np.sqrt(var) * rng.standard_normal((n_groups, p))
    noise = prior.noise_scale / rng.gamma(prior.noise_shape, size=n_groups)
    group = np.repeat(np.arange(n_groups), n)
    U = rng.standard_normal((n_groups * n, p))
    y = (U * beta[group]).sum(axis=1) + np.sqrt(noise[group]) * rng.standard_normal(len(group))
    return (beta[0, 0], mean[0], np.log(var[0]), np.log(noise[0])), U, y, group


def ranks(assumed, n_trials=200, seed=0):
    """Rank of the truth among 19 thinned draws, for data made by PRIOR and fitted by `assumed`."""
    out = np.zeros((n_trials, 4), dtype=int)
    for trial in range(n_trials):
        rng = np.random.default_rng([seed, trial])
        truth, U, y, group = simulate(rng, PRIOR)
        draws = sample_regressions(
            U,
            y,
            group,
            4,
            prior=assumed,
            n_warmup=20,
            n_draws=190,
            random_state=rng,
            progress=False,
        )
        got = np.column_stack(
            [
                draws.beta[:, 0, 0],
                draws.mean[:, 0],
                np.log(draws.var[:, 0]),
                np.log(draws.noise[:, 0]),
            ]
        )[::10]
        out[trial] = (got < truth).sum(axis=0)
    return out


def uniformity(rank):
    counts = np.bincount(rank, minlength=20).reshape(5, 4).sum(axis=1)
    return stats.chisquare(counts).pvalue


@pytest.mark.slow
def test_draws_are_calibrated():
    # Simulation-based calibration; false-alarm level 1e-4 for each of four quantities.
    result = ranks(PRIOR)
    assert all(uniformity(result[:, j]) > 1e-4 for j in range(4))


def test_a_wrong_prior_is_noticed():
    # Negative control: noise believed to be far larger than it is.
    result = ranks(PRIOR._replace(noise_scale=20.0), n_trials=60)
    assert uniformity(result[:, 3]) < 1e-4


def test_much_data_gives_least_squares_and_an_empty_group_gives_the_prior():
    rng = np.random.default_rng(1)
    beta = np.array([[1.0, -2.0], [3.0, 0.5]])
    group = np.repeat([0, 1], 5000)
    U = rng.standard_normal((10_000, 2))
    y = (U * beta[group]).sum(axis=1) + 0.1 * rng.standard_normal(10_000)
    draws = sample_regressions(U, y, group, 3, random_state=2, progress=False)
    # Standard errors: 0.1 / sqrt(5,000) = 0.0014 of a coefficient, 1 / sqrt(2 * 10,000) = 0.7 % of
    # the noise. Seven of either, in five comparisons: a false alarm below 2e-11.
    assert np.abs(draws.beta[:, :2].mean(axis=0) - beta).max() < 0.01
    assert np.sqrt(draws.noise[:, :2].mean()) == pytest.approx(0.1, rel=0.05)
    assert draws.beta[:, 2].std(axis=0).min() > 0.1


def test_same_seed_same_draws():
    rng = np.random.default_rng(0)
    _, U, y, group = simulate(rng, PRIOR)
    first = sample_regressions(U, y, group, 4, n_draws=5, random_state=3, progress=False)
    again = sample_regressions(U, y, group, 4, n_draws=5, random_state=3, progress=False)
    assert np.array_equal(first.beta, again.beta)
