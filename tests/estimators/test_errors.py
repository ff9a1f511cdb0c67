"""Measurement errors: what is refused, and fits, predictions and files with them."""

import numpy as np
import pandas as pd
import pytest

from cavity import GaussianMixture, StudentTMixture, TableMixture, load
from cavity.datasets import make_student_t

SMALL = {"n_chains": 2, "n_warmup": 60, "n_draws": 60, "random_state": 0, "progress": False}


def make_rows(n=240, seed=0):
    """Two clusters a distance of four apart, with covariance 0.09, and errors up to 1.5."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % 2
    true = 4.0 * z[:, None] + 0.3 * rng.standard_normal((n, 2))
    errors = rng.choice([0.0, 0.5, 1.5], size=true.shape)
    return true, true + errors * rng.standard_normal(true.shape), errors, z


@pytest.fixture(scope="module")
def fitted():
    true, X, errors, z = make_rows()
    return true, X, errors, z, StudentTMixture(2, **SMALL).fit(X, errors=errors)


def test_clusters_are_in_true_units(fitted):
    _true, _X, _, z, m = fitted
    order = np.argsort(m.means_[:, 0])
    np.testing.assert_allclose(m.means_[order], [[0.0, 0.0], [4.0, 4.0]], atol=0.15)
    variance = np.diagonal(m.covariances_, axis1=1, axis2=2)
    assert (variance < 0.2).all()  # 0.09; 0.9 with the errors
    assert (m.labels_ == order[z]).mean() > 0.98


def test_true_values_are_imputed(fitted):
    true, X, errors, _, m = fitted
    found = m.impute(X)
    uncertain = errors > 0.0
    assert len(found.cells) == uncertain.sum()
    assert np.array_equal(found.mean[~uncertain], X[~uncertain])
    inside = (found.lower <= true) & (true <= found.upper)
    # 320 cells of 90% intervals: within four standard errors, 6e-5 false alarms.
    assert abs(inside[uncertain].mean() - 0.9) < 4.0 * np.sqrt(0.09 / uncertain.sum())
    large = errors == 1.5
    assert np.abs(found.mean - true)[large].mean() < 0.5 * np.abs(X - true)[large].mean()
    assert np.array_equal(m.impute(X).mean, m.impute(X, errors=errors).mean)
    rows = X[:5] + 0.01
    rows[0, 0] = np.nan
    new = m.impute(rows, errors=errors[:5])
    assert len(new.cells) == (uncertain[:5] | np.isnan(rows)).sum()
    assert np.isfinite(new.mean).all()


def test_predictions_use_the_errors_of_new_rows(fitted):
    *_, m = fitted
    between = np.array([[1.2, 1.2]])
    exact = m.predict_proba(between)
    assert exact.max() > 0.99
    certain, vague = (m.predict_proba(between, errors=[[e, e]]).max() for e in (0.5, 50.0))
    assert 0.95 < certain
    assert vague < 0.6
    many = np.repeat(between, 3, axis=0)
    np.testing.assert_allclose(
        m.score_samples(many, errors=pd.DataFrame({"x1": [0.0, 1.0, np.nan]})),
        [
            m.score_samples(between)[0],
            m.score_samples(between, errors=[0.0, 1.0])[0],
            m.score_samples(between)[0],
        ],
    )
    assert m.predict(between, errors=[0.1, 0.1]).shape == (1,)
    far = np.array([[9.0, 9.0]])
    assert m.tail_probabilities(far, errors=[9.0, 9.0])[0] > 0.3 > m.tail_probabilities(far)[0]
    frame = m.predict_proba(many, errors=[1.0, 1.0], as_frame=True)
    assert {"cluster", "tail_probability", "p_0"} <= set(frame.columns)


def test_files_have_the_errors(fitted, tmp_path):
    _, X, errors, _, m = fitted
    again = load(m.save(tmp_path / "run.nc"))
    assert np.array_equal(again.impute(X).mean, m.impute(X).mean)
    tail, _ = again.unusual_rows(X)
    np.testing.assert_array_equal(tail, m.tail_probabilities(X, errors=errors))
    assert again.predictive_check(X, n_replicates=50)["p"].min() > 0.01
    with pytest.raises(ValueError, match="Leave-one-out is not available for a fit with errors"):
        m.loo()


def test_errors_of_zero_are_none(fitted):
    _, X, errors, *_ = fitted
    plain = StudentTMixture(2, **SMALL).fit(X)
    same = StudentTMixture(2, **SMALL).fit(X, errors=np.where(errors > 0.0, np.nan, 0.0))
    assert np.array_equal(plain.posterior_.labels, same.posterior_.labels)


def test_a_checked_problem_is_fitted(fitted):
    _, X, errors, _, m = fitted
    estimator = StudentTMixture(2, **SMALL)
    frame = pd.DataFrame(errors, columns=["x0", "x1"])
    prepared = estimator.check(X, errors=frame)
    assert np.array_equal(estimator.fit(prepared).posterior_.labels, m.posterior_.labels)
    with pytest.raises(ValueError, match="errors to check, not to fit"):
        estimator.fit(prepared, errors=frame)


FRAME = pd.DataFrame({"a": [1.0, 2.0, 3.5], "b": [1.0, 0.5, 4.0], "c": ["u", "v", "u"]})


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        (np.zeros((2, 2)), r"errors has shape \(2, 2\), but X has \(3, 3\)"),
        ([[0.1, -0.2, 0.0]] * 3, "errors is below zero in row 0, column 'b'"),
        ([0.1, np.inf, 0.0], "errors is infinite in row 0, column 'b'"),
        ([0.1, 0.1, 0.1], "errors are given for column 'c', which is categorical"),
        (pd.DataFrame({"d": [1.0] * 3}), "errors has 'd', but X has the columns 'a', 'b', 'c'"),
        (pd.DataFrame({"a": [1.0] * 2}), "errors has 2 rows, but X has 3"),
        (pd.DataFrame({"a": ["x"] * 3}), "Column 'a' of errors"),
        (
            pd.DataFrame({"a": [1.0] * 3}, index=[0, 2, 1]),
            "Row 1 of errors is named 2, that of X 1",
        ),
        ("big", "errors must hold numbers"),
    ],
)
def test_bad_errors_are_refused(errors, message):
    with pytest.raises(ValueError, match=message):
        TableMixture(2).check(FRAME, errors=errors)


@pytest.mark.parametrize(
    ("settings", "given", "message"),
    [
        ({"collapse": "ep"}, {}, "errors is not supported with collapse='ep'"),
        ({"collapse": "parallel"}, {}, "errors is not supported for sharded data"),
        ({}, {"sample_weight": [1.0, 2.0, 1.0]}, "Row 0 of X has errors and 0.75 times"),
    ],
)
def test_combinations_that_are_refused(settings, given, message):
    with pytest.raises(ValueError, match=message):
        StudentTMixture(1, **settings).check(FRAME[["a", "b"]], errors={"a": 0.1}, **given)


@pytest.mark.slow
@pytest.mark.parametrize("structure", ["full", "diag", "tied", "factor"])
@pytest.mark.parametrize("estimator", [GaussianMixture, StudentTMixture])
def test_clusters_that_errors_blur_are_found(estimator, structure):
    """Errors of three times the clusters' width: label and true values move together."""
    _true, X, errors, z = make_rows(400, seed=1)
    more = np.random.default_rng(2).standard_normal((len(X), 1))
    settings = SMALL | {"n_warmup": 400, "n_draws": 400}
    m = estimator(6, covariance_type=structure, **settings)
    m.fit(np.hstack([X, more]), errors=np.hstack([errors, np.zeros((len(X), 1))]))
    assert m.n_clusters_ == 2
    assert max((m.labels_ == z).mean(), (m.labels_ != z).mean()) > 0.97


@pytest.mark.slow
def test_tables_with_noise_and_errors(tmp_path):
    rng = np.random.default_rng(3)
    _, X, errors, z = make_rows(400, seed=1)
    X[:8] = rng.uniform(-40.0, 40.0, (8, 2))
    table = pd.DataFrame(X, columns=["a", "b"])
    table["kind"] = np.where(rng.random(400) < 0.2 + 0.6 * z, "u", "v")
    settings = SMALL | {"n_warmup": 400, "n_draws": 400}
    m = TableMixture(6, noise=True, **settings).fit(
        table, errors={"a": errors[:, 0], "b": errors[:, 1]}
    )
    assert m.n_clusters_ == 2
    assert (m.labels_[:8] == -1).sum() >= 6
    assert (m.labels_[8:] == -1).sum() <= 4
    m.report(tmp_path / "run.html", table)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_coverage_of_true_values(level):
    """Overlapping clusters, errors of all sizes: 20 fits, in batches for the standard error.

    Four standard errors: 8e-4 false alarms with 19 degrees of freedom.
    """
    inside = []
    for seed in range(20):
        X, _ = make_student_t(150, 2, 2, df=float("inf"), separation=4, random_state=seed)
        rng = np.random.default_rng(1000 + seed)
        errors = rng.uniform(0.2, 2.0, X.shape)
        seen = X + errors * rng.standard_normal(X.shape)
        m = GaussianMixture(4, **SMALL | {"random_state": seed}).fit(seen, errors=errors)
        found = m.impute(seen, level)
        inside.append(((found.lower <= X) & (X <= found.upper)).mean())
    error = np.std(inside, ddof=1) / np.sqrt(20)
    print(np.mean(inside), error)
    assert abs(np.mean(inside) - level) < 4.0 * error + 0.01
