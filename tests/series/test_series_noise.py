"""Student-t noise: every kernel with weights against one dense Gaussian, and wild values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from cavity import SeriesMixture
from cavity.datasets import make_series
from cavity.series import kalman, parameters
from cavity.series.state_space import factor_series

LEVEL = 1e-4  # of each Kolmogorov-Smirnov test, at fixed seeds


def test_weights_enter_every_likelihood():
    """A weight of w is the same as w observations per cell, but for what no cluster changes."""
    rng = np.random.default_rng(2)
    y = rng.standard_normal((3, 12)).cumsum(axis=1)
    settings = {"a": [0.9, 0.3, -0.4], "loading": [1.0, -0.5, 2.0], "var_x": 0.1, "n_slots": 8,
                "var_y": 0.7}  # fmt: skip
    weight = rng.integers(1, 4, (3, 12))
    repeated = factor_series(y, weight.astype(np.uint16), **settings)
    weighted = factor_series(y, df=4.0, **settings)
    weighted.own.tails[:] = weight
    mean, variance = rng.standard_normal((12, 8)), rng.uniform(0, 1, (12, 8))
    out = [np.empty((2, 8)), np.empty((2, 8))]
    for i in range(3):
        for m, scores in zip((repeated, weighted), out, strict=True):
            kalman.prepare(m, m.scratch.row, i)
            kalman.score_lanes(m, i, mean, variance, 1.0, scores)
        np.testing.assert_allclose(out[0], out[1], rtol=1e-12)
        constant = -0.5 * (np.log(2 * np.pi * 0.7) * 12 - np.log(weight[i]).sum())
        assert kalman.observation_constant(weighted, i) == pytest.approx(constant)


def test_weights_are_drawn_given_the_noise():
    rng = np.random.default_rng(3)
    squares = np.tile([0.0, 1.0, 30.0, 5.0], (20_000, 1))
    repeats = np.ones(squares.shape, dtype=np.uint16)
    repeats[:, 3] = 0
    drawn = squares.copy()
    gain = parameters.draw_weights(drawn, repeats, 3.0, rng)
    for t in range(3):
        reference = stats.gamma(2.0, scale=2.0 / (3.0 + squares[0, t]))
        assert stats.kstest(drawn[:, t], reference.cdf).pvalue > LEVEL
    assert (drawn[:, 3] == 1.0).all()
    # Taken out again, they leave the Student-t density of the noise.
    noise, weight = np.sqrt(squares[:, :3]), drawn[:, :3]
    expected = stats.t.logpdf(noise, 3.0) - stats.norm.logpdf(noise, scale=weight**-0.5)
    assert gain == pytest.approx(expected.sum(), rel=1e-10)


def wild(seed):
    """Series of which one cell in a hundred is twenty times as large."""
    Y, truth = make_series(60, 60, 4, random_state=seed)
    rng = np.random.default_rng(seed)
    chosen = rng.random(Y.shape) < 0.01
    return np.where(chosen, 20.0 * Y, Y), truth


def agreement(seed, **settings):
    Y, truth = wild(seed)
    s = SeriesMixture(
        4, n_chains=1, n_warmup=150, n_draws=50, random_state=seed, progress=False, **settings
    ).fit(Y)
    return adjusted_rand_score(truth.labels, s.labels_), s


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_wild_values_make_no_clusters():
    found, s = agreement(1, df="learn")
    assert found > 0.98
    assert 0.5 <= s.posterior_.parameters["df"].mean() < 6.0
    assert agreement(1, df=None, collapse="ep")[0] < 0.97


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_new_series_with_wild_values_are_assigned():
    Y, truth = wild(2)
    s = SeriesMixture(4, n_chains=1, n_warmup=60, n_draws=40, random_state=0, progress=False,
                      df=3.0).fit(Y[:52])  # fmt: skip
    found = s.membership(Y[52:])
    for row, label in zip(found["cluster"], truth.labels[52:], strict=True):
        members = truth.labels[:52][s.labels_ == row]
        assert (members == label).mean() > 0.5
    assert np.isfinite(s.forecast(3).upper.to_numpy()).all()


@pytest.mark.parametrize("df", ["often", 0.1, -3.0, np.nan])
def test_degrees_of_freedom_that_are_refused(df):
    with pytest.raises(ValueError, match="df must be"):
        SeriesMixture(2, df=df).check(np.random.default_rng(0).standard_normal((4, 9)))
