"""A table to choose by, against its definitions."""

import numpy as np
import pandas as pd
import pytest
from page_parts import Page
from scipy import optimize

from cavity import GaussianMixture, Posterior, StudentTMixture, compare_models
from cavity.compare import ModelComparison, stacking_weights
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
    assert table["ari"].tolist() == [1.0, 0.0]
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


def test_fits_of_other_columns_are_compared_without_densities(fits, tmp_path):
    X, models = fits
    fits = {"both": models["one"], "first": StudentTMixture(2, **SHORT).fit(X[:, :1])}
    table = compare_models(fits, X)
    assert "elpd" not in table
    assert "assignment" in table
    page = Page(table.report(tmp_path / "c.html").read_text(encoding="utf-8"))
    assert "Predictions are not compared" in page.text
    assert "predictions" not in page.tables


def test_what_cannot_be_compared_is_refused(fits):
    X, models = fits
    with pytest.raises(ValueError, match="models is empty"):
        compare_models({})
    with pytest.raises(TypeError, match="'p' is not a fitted estimator"):
        compare_models({"p": Posterior.from_labels([[0, 1]])})
    fewer = StudentTMixture(2, **SHORT).fit(X[:50])
    with pytest.raises(ValueError, match="'one' has 90, 'fewer' has 50 rows"):
        compare_models({"one": models["one"], "fewer": fewer})


def test_page_and_notebook_explain_the_table(fits, tmp_path, without_pictures):
    _, models = fits
    one, three = models["one"], models["three"]
    table = compare_models({"<one>": one, "three": three})
    shown = table._repr_html_()
    assert "&lt;one&gt;" in shown
    assert "<b>stacking</b>: weight" in shown
    assert type(table[["elpd"]]) is pd.DataFrame
    page = Page(table.report(tmp_path / "c.html").read_text(encoding="utf-8"))
    assert page.problems == []
    assert "three predicts best. Its leave-one-out density is" in page.text
    assert "<one>" in page.text
    assert "StudentTMixture(n_chains=2" in page.text
    assert [row[0] for row in page.tables["predictions"]] == ["fit", "three", "<one>"]
    assert page.tables["clusters"][1][:3] == ["three", "3", "1.00"]
    twins = compare_models({"three": three, "twin": three})
    page = Page(twins.report(tmp_path / "c.html").read_text(encoding="utf-8"))
    assert "but twin predicts about as well: the difference to twin is 0.0" in page.text


def test_picture_has_each_difference_with_its_errors(fits):
    table = compare_models(fits[1])
    ax = table.plot_differences()
    thin, thick = (np.array(c.get_segments())[:, :, 0] for c in ax.collections)
    np.testing.assert_allclose(thick[:, 1] - thick[:, 0], 2.0 * table["difference_se"])
    np.testing.assert_allclose(thin.mean(axis=1), table["difference"])
    assert [t.get_text() for t in ax.get_yticklabels()] == ["three", "one"]
    with pytest.raises(ValueError, match="no leave-one-out densities"):
        ModelComparison(table.drop(columns="elpd")).plot_differences()
