"""The generators draw what their docstrings say.

Distribution checks are Kolmogorov-Smirnov or z tests at fixed seeds with a false-alarm level of
1e-4 each; the negative controls show the same check failing on the wrong distribution.
"""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from cavity.datasets import SEPARATIONS, make_scale_mixture, make_series, make_student_t
from cavity.datasets.generators import inverse_wishart

LEVEL = 1e-4


def mahalanobis2(X, truth):
    e = X - truth.means[truth.labels]
    return np.einsum("ni,nij,nj->n", e, np.linalg.inv(truth.scales)[truth.labels], e)


def test_student_t_distances_follow_the_f_distribution():
    X, truth = make_student_t(4000, 5, 3, df=5, separation=2.0, random_state=1)
    assert stats.kstest(mahalanobis2(X, truth) / 3, stats.f(3, 5).cdf).pvalue > LEVEL
    # Negative control: another df is told apart.
    assert stats.kstest(mahalanobis2(X, truth) / 3, stats.f(3, 8).cdf).pvalue < LEVEL


def test_infinite_df_is_gaussian():
    X, truth = make_student_t(4000, 5, 3, df=np.inf, separation=2.0, random_state=1)
    assert stats.kstest(mahalanobis2(X, truth), stats.chi2(3).cdf).pvalue > LEVEL
    assert np.all(truth.u == 1)


@pytest.mark.parametrize("separation", [0.5, "hard", "easy"])
def test_means_spread_as_the_separation_says(separation):
    scale = SEPARATIONS.get(separation, separation)
    _, truth = make_student_t(1, 3000, 2, separation=separation, random_state=2)
    whitened = np.einsum("ki,kij,kj->k", truth.means, np.linalg.inv(truth.scales), truth.means)
    assert stats.kstest(whitened / scale**2, stats.chi2(2).cdf).pvalue > LEVEL


def test_scales_are_inverse_wishart_with_mean_one():
    draws = inverse_wishart(7.0, 3, 5000, np.random.default_rng(3), scale=3.0)
    # A diagonal element of IW(nu, c I) in d dimensions is inverse gamma((nu - d + 1)/2, c/2).
    law = stats.invgamma((7 - 3 + 1) / 2, scale=1.5)
    for j in range(3):
        assert stats.kstest(draws[:, j, j], law.cdf).pvalue > LEVEL
    # The log determinant is a sum of log chi-squares (Bartlett).
    precision = np.linalg.slogdet(np.linalg.inv(draws))[1] + 3 * np.log(3.0)
    rng = np.random.default_rng(4)
    reference = sum(np.log(rng.chisquare(7 - j, size=5000)) for j in range(3))
    assert stats.ks_2samp(precision, reference).pvalue > LEVEL


def test_sizes_are_equal_unless_weights_are_given():
    _, truth = make_student_t(603, 20, random_state=0)
    assert set(np.bincount(truth.labels)) == {30, 31}
    assert not np.all(np.diff(truth.labels) >= 0)
    _, truth = make_student_t(5000, 2, weights=[1, 3], random_state=0)
    assert stats.binomtest(int(truth.labels.sum()), 5000, 0.75).pvalue > LEVEL


def test_same_seed_same_data_and_truth_stands_for_labels():
    X, truth = make_student_t(50, 3, random_state=5)
    Z, again = make_student_t(50, 3, random_state=5)
    assert np.array_equal(X, Z)
    assert adjusted_rand_score(truth, again.labels) == 1
    assert not np.array_equal(X, make_student_t(50, 3, random_state=6)[0])
    assert np.array_equal(make_student_t(50, 3, random_state=np.random.default_rng(5))[0], X)
    assert make_student_t(5, 2, random_state=np.random.RandomState(0))[0].shape == (5, 2)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"n": 0}, "n must be an integer of at least 1"),
        ({"n": 10.5}, "n must be an integer"),
        ({"n": True}, "n must be an integer"),
        ({"n_clusters": -1}, "n_clusters must be an integer"),
        ({"dim": 0}, "dim must be an integer"),
        ({"df": -1}, "df must be a number greater than 0"),
        ({"df": "5"}, "df must be a number"),
        ({"separation": "very"}, "one of .*easy.*got 'very'"),
        ({"separation": -1}, "separation must be"),
        ({"weights": [1, 2]}, "array of 20 .one per cluster"),
        ({"weights": [-1.0] * 20}, "weights must be zero or positive"),
        ({"weights": ["x"] * 20}, "weights must be a number or 20 numbers"),
        ({"random_state": "seed"}, "random_state must be"),
        ({"random_state": -3}, "random_state must be"),
    ],
)
def test_student_t_refuses_bad_arguments(bad, message):
    with pytest.raises(ValueError, match=message):
        make_student_t(**bad)


def test_series_follow_the_model():
    a, loading, var_y = 0.8, -1.5, 0.5
    Y, truth = make_series(60, 400, 4, a, loading, 0.2, var_y, 0.1, random_state=0, var_x0=2.0)
    residual = truth.states[:, 1:] - a * truth.states[:, :-1]
    residual -= loading * truth.factors[truth.labels][:, 1:]
    assert stats.kstest(residual.ravel(), stats.norm(0, np.sqrt(0.2)).cdf).pvalue > LEVEL
    noise = (Y - truth.states)[~np.isnan(Y)]
    assert stats.kstest(noise, stats.norm(0, np.sqrt(var_y)).cdf).pvalue > LEVEL
    assert stats.kstest(truth.factors.ravel(), stats.norm.cdf).pvalue > LEVEL
    assert stats.binomtest(int(np.isnan(Y).sum()), Y.size, 0.1).pvalue > LEVEL
    # Negative control: the wrong autoregression leaves residuals that fail.
    wrong = truth.states[:, 1:] - 0.7 * truth.states[:, :-1]
    wrong -= loading * truth.factors[truth.labels][:, 1:]
    assert stats.kstest(wrong.ravel(), stats.norm(0, np.sqrt(0.2)).cdf).pvalue < LEVEL


def test_first_state_has_the_initial_variance():
    _, truth = make_series(4000, 1, 4000, 0.9, 0.0, 0.3, random_state=1, var_x0=4.0)
    law = stats.norm(0, np.sqrt(0.81 * 4.0 + 0.3))
    assert stats.kstest(truth.states[:, 0], law.cdf).pvalue > LEVEL


def test_series_parameters_may_differ_between_series():
    a = np.linspace(-0.5, 0.9, 12)
    Y, truth = make_series(12, 5, 3, a=a, var_y=np.arange(12.0), random_state=0)
    assert np.array_equal(truth.a, a)
    assert np.array_equal(Y[0], truth.states[0])  # var_y = 0
    assert np.isnan(make_series(3, 4, 2, missing=1, random_state=0)[0]).all()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"a": 1.0}, r"a must lie in \(-1, 1\); a\[0\]"),
        ({"a": [0.1, 0.2]}, "array of 300 .one per series"),
        ({"a": np.nan}, "a must be finite"),
        ({"var_x": -0.1}, "var_x must be"),
        ({"var_y": -1.0}, r"var_y must be zero or positive; var_y\[0\]"),
        ({"missing": 1.5}, "missing must be a number at least 0 and at most 1"),
        ({"n_times": 0}, "n_times must be"),
        ({"var_x0": np.inf}, "var_x0 must be"),
    ],
)
def test_series_refuses_bad_arguments(bad, message):
    with pytest.raises(ValueError, match=message):
        make_series(**bad)


def test_scale_mixture_follows_the_model():
    y, truth = make_scale_mixture(8000, r=0.3, C=5, delta=3.0, var=2.0, random_state=0)
    e = y - truth.means[truth.labels]

    def cdf(x, r=0.3):
        narrow, wide = stats.norm(0, np.sqrt(2)), stats.norm(0, np.sqrt(10))
        return (1 - r) * narrow.cdf(x) + r * wide.cdf(x)

    assert stats.kstest(e, cdf).pvalue > LEVEL
    assert stats.kstest(e, lambda x: cdf(x, 0.1)).pvalue < LEVEL
    assert np.allclose(np.diff(truth.means), 3.0)
    assert truth.means.sum() == pytest.approx(0)
    assert not make_scale_mixture(100, r=0, random_state=0)[1].wide.any()
    with pytest.raises(ValueError, match="C must be"):
        make_scale_mixture(C=0)
    with pytest.raises(ValueError, match="r must be a number at least 0"):
        make_scale_mixture(r=-0.1)
