"""Fits that learn which columns matter, and odds of columns after other fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import cavity
from cavity import GaussianMixture, StudentTMixture, TableMixture
from cavity.predict.column_relevance import relevance_words

RUN = {"n_chains": 2, "n_warmup": 60, "n_draws": 80, "random_state": 0, "progress": False}


@pytest.fixture(scope="module")
def rows():
    """Two groups that differ in the second and last of five columns, a few values missing."""
    rng = np.random.default_rng(0)
    z = np.repeat([0, 1], 60)
    X = rng.standard_normal((120, 5)) * [1.0, 1.0, 10.0, 0.1, 1.0] + 5.0
    X[:, [1, 4]] += 5.0 * z[:, None]
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, z


@pytest.fixture(scope="module")
def fitted(rows):
    return GaussianMixture(4, covariance_type="diag", select_columns=True, **RUN).fit(rows[0])


@pytest.fixture(scope="module")
def table(rows):
    """A table in which one column of every kind differs between the groups, and one does not."""
    rng = np.random.default_rng(1)
    z = rows[1]
    return pd.DataFrame(
        {
            "size": rng.normal(6.0 * z),
            "weight": rng.normal(size=120),
            "color": np.where(rng.random(120) < 0.1 + 0.8 * z, "red", "green"),
            "town": rng.choice(["a", "b", "c"], 120),
            "visits": rng.poisson(1 + 5 * z),
            "calls": rng.poisson(4, 120),
        }
    )


def test_the_columns_that_carry_the_groups_are_named(rows, fitted):
    found = fitted.column_relevance()
    assert set(found.index[:2]) == {"x1", "x4"}
    assert (found["basis"] == "indicator").all()
    assert found["probability"].iloc[1] > 0.99
    assert found["probability"].iloc[2] < 0.5
    assert found["probability"].is_monotonic_decreasing
    assert adjusted_rand_score(rows[1], fitted.labels_) == 1.0
    summary = fitted.summary()
    np.testing.assert_allclose(
        summary["p_matters"].xs(0, level="cluster").droplevel("category"),
        found["probability"].sort_index(),
    )
    assert "2 of 5 columns matter for the clusters: x" in relevance_words(found)


def test_shared_columns_are_the_same_in_all_clusters_of_a_draw(fitted):
    """In occupied clusters and in new ones, so that they have no part in predictions."""
    drawn = fitted.posterior_.drawn
    shared = drawn["measurement_active"][:, :, None, :] == 0
    assert 0.4 < shared.mean() < 0.7
    for name in ("mean", "variance"):
        values = drawn[name]
        first = np.take_along_axis(values, np.argmax(np.isfinite(values), axis=2)[:, :, None], 2)
        occupied = np.isfinite(values)
        same = np.where(shared & occupied, values == first, True)
        assert same.all()
        assert not np.where(~shared & occupied, values == first, True).all()
    packed = fitted._predictor.draws
    new = np.flatnonzero(packed.slot < 0)
    assert new.size
    of_draw = np.reshape(shared, (-1, shared.shape[-1]))
    for entry in new[:20]:
        other = int(packed.start[packed.draw[entry]])
        columns = of_draw[packed.draw[entry]]
        np.testing.assert_allclose(packed.mean[entry, columns], packed.mean[other, columns])


def test_a_saved_fit_has_the_same_probabilities(fitted, rows, tmp_path):
    loaded = cavity.load(fitted.save(tmp_path / "run.nc"))
    pd.testing.assert_frame_equal(loaded.column_relevance(), fitted.column_relevance())
    page = loaded.report(tmp_path / "run.html", rows[0]).read_text()
    assert "Which columns matter" in page


def test_a_continued_fit_has_the_draws_of_a_long_one(rows, fitted):
    short = {**RUN, "n_draws": 40}
    m = GaussianMixture(
        4, covariance_type="diag", select_columns=True, warm_start=True, **short
    ).fit(rows[0])
    m.set_params(n_draws=80).fit(rows[0])
    np.testing.assert_array_equal(m.posterior_.labels, fitted.posterior_.labels)
    for name in ("measurement_matters", "measurement_active"):
        np.testing.assert_array_equal(m.posterior_.drawn[name], fitted.posterior_.drawn[name])


@pytest.mark.slow
@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_a_table_of_every_kind_of_column(table, covariance_type):
    """Measurements with a full covariance have marginal odds, and the others indicators."""
    types = {"visits": "count", "calls": "count"}
    m = TableMixture(
        3,
        covariance_type=covariance_type,
        continuous="gaussian",
        select_columns=True,
        feature_types=types,
        **RUN,
    ).fit(table)
    found = m.column_relevance()
    assert set(found.index[:3]) == {"size", "color", "visits"}
    assert found["probability"].iloc[2] > 0.9
    assert found["probability"].iloc[3] < 0.5
    basis = found["basis"]
    assert (basis[["color", "town", "visits", "calls"]] == "indicator").all()
    expected = "indicator" if covariance_type == "diag" else "marginal"
    assert (basis[["size", "weight"]] == expected).all()
    assert np.isfinite(m.score_samples(table)).all()


def test_marginal_odds_after_a_fit_without_indicators(rows, tmp_path):
    X, _ = rows
    m = StudentTMixture(4, **RUN).fit(X)
    found = m.column_relevance()
    assert set(found.index[:2]) == {"x1", "x4"}
    assert (found["basis"] == "marginal").all()
    assert found["probability"].iloc[1] > 0.9
    assert found["probability"].iloc[2] < 0.5
    assert "by the marginal odds of each column: x" in relevance_words(found)
    assert "p_matters" not in m.summary()
    loaded = cavity.load(m.save(tmp_path / "run.nc"))
    with pytest.raises(ValueError, match=r"without its data. Pass X to column_relevance"):
        loaded.column_relevance()
    # Units and distributions of columns have no part: only ranks count.
    other = np.where(np.arange(5) == 2, np.exp(X), X)
    pd.testing.assert_frame_equal(loaded.column_relevance(other), found)


@pytest.mark.parametrize(
    ("kind", "settings", "fit", "words"),
    [
        (GaussianMixture, {}, {}, "covariance_type='diag', not 'full'"),
        (GaussianMixture, {"select_columns": 1}, {}, "select_columns must be True or False"),
        (
            GaussianMixture,
            {"covariance_type": "diag", "noise": True},
            {},
            "noise=True is not supported with select_columns=True",
        ),
        (
            GaussianMixture,
            {"covariance_type": "diag"},
            {"sample_weight": np.ones(120) + np.arange(120.0)},
            "sample_weight is not supported with select_columns=True",
        ),
        (TableMixture, {"collapse": "naive"}, {}, "needs collapse='collapsed', not 'naive'"),
        (TableMixture, {}, {}, "all columns are measurements with covariance_type='full'"),
    ],
)
def test_what_has_no_indicators_is_refused(rows, kind, settings, fit, words):
    X = np.nan_to_num(rows[0])
    data = pd.DataFrame(X, columns=list("abcde")) if kind is TableMixture else X
    with pytest.raises(ValueError, match=words):
        kind(4, **{"select_columns": True, **settings, **RUN}).fit(data, **fit)


def test_overdispersed_counts_are_refused(table):
    with pytest.raises(ValueError, match="Column 'visits' has overdispersed counts"):
        TableMixture(3, select_columns=True, feature_types={"visits": "overdispersed"}, **RUN).fit(
            table
        )


def test_leave_one_out_is_refused(fitted):
    with pytest.raises(ValueError, match="not available with select_columns=True"):
        fitted.loo()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 204))
@pytest.mark.parametrize("kind", [GaussianMixture, StudentTMixture])
def test_six_columns_of_45_carry_the_groups(seed, kind):
    """The index is at least 0.9 of that of k-means on the six alone, and the six are named."""
    rng = np.random.default_rng(seed)
    z = rng.integers(4, size=300)
    X = rng.standard_normal((300, 45))
    six = rng.choice(45, 6, replace=False)
    X[:, six] += 1.8 * rng.standard_normal((4, 6))[z]
    known = KMeans(4, n_init=10, random_state=seed).fit_predict(X[:, six])
    m = kind(
        10, covariance_type="diag", select_columns=True, n_chains=2, n_warmup=400, n_draws=400,
        random_state=seed, progress=False,
    ).fit(X)  # fmt: skip
    found = m.column_relevance()["probability"]
    assert set(found.index[found > 0.5]) == {f"x{j}" for j in six}
    assert adjusted_rand_score(z, m.labels_) >= 0.9 * adjusted_rand_score(z, known)
