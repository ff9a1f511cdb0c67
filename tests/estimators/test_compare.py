"""A table to choose by, against its definitions."""

import numpy as np
import pytest
from scipy import optimize

from cavity import GaussianMixture, Posterior, StudentTMixture, compare_models
from cavity.compare import stacking_weights
from cavity.datasets import make_student_t

SHORT = {"n_chains": 2, "n_warmup": 20, "n_draws": 60, "random_state": 0, "noise": False}


@pytest.fixture(scope="module")
def fits():
    X, _ = make_student_t(90, 3, 2, df=float("inf"), separation=12, random_state=4)
    return X, {
        "one": StudentTMixture(1, **SHORT).fit(X),
        "three": StudentTMixture(3, **SHORT).fit(X),
    }


def test_the_better_fit_comes_first_with_its_differences(fits):
    X, models = fits
    table = compare_models(models)
    assert table.index.tolist() == ["three", "one"]
    assert table.loc["three", ["difference", "difference_se"]].tolist() == [0.0, 0.0]
    assert table.loc["one", "difference"] < -4 * table.loc["one", "difference_se"]
    assert table["stacking"].sum() == pytest.approx(1.0)
    assert table.loc["three", "stacking"] > 0.9
    assert table["n_clusters"].tolist() == [3, 1]
    assert table.loc["three", "entropy_r2"] > 0.95
    assert table.loc["three", "bic"] < table.loc["one", "bic"]
    loo = models["three"].loo(X)
    assert table.loc["three", "elpd"] == pytest.approx(
        loo.iloc[0] if hasattr(loo, "iloc") else loo.elpd
    )


def test_bic_of_one_gaussian_cluster_is_near_that_of_maximum_likelihood(fits):
    X, _ = fits
    m = GaussianMixture(1, **SHORT).fit(X)
    n, d = X.shape
    covariance = np.cov(X.T, bias=True)
    log_likelihood = -0.5 * n * (np.linalg.slogdet(covariance)[1] + d * (1 + np.log(2 * np.pi)))
    wanted = -2 * log_likelihood + 5 * np.log(n)
    assert compare_models({"m": m}).loc["m", "bic"] == pytest.approx(wanted, abs=3.0)


def test_stacking_weights_against_a_general_optimizer():
    rng = np.random.default_rng(1)
    pointwise = rng.normal(0.0, 1.0, (60, 3))

    def loss(free):
        w = np.exp(np.append(free, 0.0))
        return -np.log(np.exp(pointwise) @ (w / w.sum())).sum()

    w = np.exp(np.append(optimize.minimize(loss, np.zeros(2)).x, 0.0))
    np.testing.assert_allclose(stacking_weights(pointwise), w / w.sum(), atol=2e-3)


def test_fits_of_other_columns_are_compared_without_densities(fits):
    X, models = fits
    table = compare_models(
        {"both": models["one"], "first": StudentTMixture(2, **SHORT).fit(X[:, :1])}
    )
    assert "elpd" not in table
    assert "assignment" in table


def test_what_cannot_be_compared_is_refused(fits):
    X, models = fits
    with pytest.raises(ValueError, match="models is empty"):
        compare_models({})
    with pytest.raises(TypeError, match="'p' is not a fitted estimator"):
        compare_models({"p": Posterior.from_labels([[0, 1]])})
    fewer = StudentTMixture(2, **SHORT).fit(X[:50])
    with pytest.raises(ValueError, match="'one' has 90, 'fewer' has 50 rows"):
        compare_models({"one": models["one"], "fewer": fewer})
