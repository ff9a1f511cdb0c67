"""Ordinal columns of tables: what is taken for one, and fits, predictions and files with them."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from cavity import TableMixture, load
from cavity.io.columns import Column, cells_of, take_column

SMALL = {"n_chains": 2, "n_warmup": 60, "n_draws": 60, "random_state": 0, "progress": False}
GRADES = ["bad", "fair", "good"]


def make_rows(n=160, seed=0):
    """Two clusters, whose latent grades and sizes are correlated within them."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % 2
    latent = rng.standard_normal((n, 3)) @ np.linalg.cholesky(0.5 * np.eye(3) + 0.5).T
    latent = latent + 3.0 * z[:, None] * [1.0, -1.0, 1.0]
    codes = np.column_stack(
        [
            np.searchsorted([0.5, 2.5], latent[:, 0]),
            np.searchsorted([-3.5, -1.5, 0.0], latent[:, 1]),
        ]
    )
    table = pd.DataFrame(
        {
            "grade": pd.Categorical.from_codes(codes[:, 0], GRADES, ordered=True),
            "stars": codes[:, 1] + 1.0,
            "size": latent[:, 2],
        }
    )
    return table, codes, z


@pytest.fixture(scope="module")
def fitted():
    table, codes, z = make_rows()
    # Latent values start without clusters, and take a hundred sweeps or two to find them.
    longer = SMALL | {"n_warmup": 300, "n_draws": 200}
    m = TableMixture(2, feature_types={"stars": "ordinal"}, **longer)
    m.fit(table)
    return table, codes, z, m


def test_columns_are_taken_as_ordinal(fitted):
    *_, m = fitted
    assert m.columns_["kind"].tolist() == ["ordinal", "ordinal", "continuous"]
    assert m.columns_["categories"].tolist()[:2] == ["bad, fair, good", "1, 2, 3, 4"]


def test_thresholds_are_normal_quantiles_of_the_shares():
    values = pd.Series(pd.Categorical(list("aabbbbc"), categories=list("dabc"), ordered=True))
    column = take_column(values, "x")
    assert column.categories == ("a", "b", "c")
    np.testing.assert_allclose(column.thresholds, stats.norm.ppf([2 / 7, 6 / 7]))
    assert Column.from_plain(column.to_plain()) == column
    cells = cells_of(pd.DataFrame({"x": ["b", None, "q"]}), [column])
    assert cells.unseen == {"x": 1}
    assert cells.low[:, 0].tolist() == [column.thresholds[0], -np.inf, -np.inf]
    center = stats.truncnorm(*column.thresholds).mean()
    np.testing.assert_allclose(cells.continuous[:, 0], [center, np.nan, np.nan])


def test_clusters_are_described_by_categories(fitted):
    table, _codes, z, m = fitted
    assert max((m.labels_ == z).mean(), (m.labels_ != z).mean()) > 0.97
    summary = m.summary()
    shares = summary.loc[summary["kind"] == "ordinal", "estimate"]
    np.testing.assert_allclose(shares.groupby(level=[0, 1]).sum(), 1.0)
    for k in range(2):
        observed = table["grade"][m.labels_ == k].value_counts(normalize=True)
        found = shares.loc[k, "grade"]
        assert (found - observed.reindex(found.index, fill_value=0.0)).abs().max() < 0.12
    assert any("grade" in words or "stars" in words for words in m.distinguishing_features())


def test_missing_grades_are_imputed(fitted):
    table, codes, _, m = fitted
    table = table.copy()
    table.loc[:9, "stars"] = np.nan
    table.loc[[20], "grade"] = None
    found = m.impute(table)
    assert len(found.cells) == 11
    right = found.mean["stars"][:10].astype(float) == codes[:10, 1] + 1
    assert right.mean() >= 0.5  # one in four by chance
    assert found.probability["stars"][:10].between(0.25, 1.0).all()
    assert (found.probability["stars"][10:] == 1.0).all()
    assert found.mean["grade"][20] in GRADES
    whole = m.category_probabilities(table[:3], "grade")
    assert whole.columns.tolist() == GRADES
    np.testing.assert_allclose(whole.sum(axis=1), 1.0)


def test_predictions_and_files(fitted, tmp_path):
    table, _, _, m = fitted
    again = load(m.save(tmp_path / "run.nc"))
    placed = again.predict(table)
    assert (placed == m.labels_).mean() > 0.97
    sampled, _ = m.sample(200, random_state=0)
    assert sampled["grade"].cat.categories.tolist() == GRADES
    assert set(sampled["stars"].astype(float)) <= {1.0, 2.0, 3.0, 4.0}
    scores = again.score_samples(table[20:25])
    assert np.isfinite(scores).all()
    # Probabilities of all grades, given the rest, add up to the density of the rest.
    rows = pd.concat([table[30:31]] * 5, ignore_index=True)
    rows["grade"] = pd.Categorical([*GRADES, None, "good"], GRADES, ordered=True)
    scores = m.score_samples(rows)
    assert abs(np.logaddexp.reduce(scores[:3]) - scores[3]) < 0.02
    assert again.predictive_check(table, 50).index.get_level_values(0).unique().tolist() == ["size"]
    with pytest.raises(ValueError, match="Leave-one-out is not available for ordinal columns"):
        m.loo()


WORDS = pd.DataFrame({"x": [1.0, 2.5, 4.0, 0.5], "grade": ["bad", "good", "bad", "good"]})
NUMBERS = WORDS.assign(grade=[1, 2, 2, 3])


@pytest.mark.parametrize(
    ("table", "settings", "message"),
    [
        (
            WORDS,
            {},
            "Column 'grade' cannot be ordinal: it holds text .row 0.*whose order is unknown",
        ),
        (WORDS.assign(grade=1), {}, "Column 'grade' has the category '1' alone"),
        (NUMBERS, {"collapse": "ep"}, "collapse='ep' is not supported with ordinal columns"),
        (NUMBERS, {"noise": True}, "noise=True is not supported with ordinal columns"),
        (NUMBERS, {"collapse": "parallel"}, "Ordinal columns are not supported for sharded data"),
    ],
)
def test_what_is_refused(table, settings, message):
    estimator = TableMixture(1, feature_types={"grade": "ordinal"}, **settings)
    with pytest.raises(ValueError, match=message):
        estimator.check(table)


def test_errors_and_weights_are_refused_for_ordinal_columns():
    estimator = TableMixture(1, feature_types={"grade": "ordinal"})
    with pytest.raises(ValueError, match="errors are given for column 'grade', which is ordinal"):
        estimator.check(NUMBERS, errors={"grade": 0.5})
    with pytest.raises(ValueError, match="sample_weight is not supported with ordinal columns"):
        estimator.check(NUMBERS, sample_weight=[1.0, 2.0, 1.0, 1.0])


@pytest.mark.slow
@pytest.mark.parametrize("structure", ["full", "diag", "tied"])
@pytest.mark.parametrize("continuous", ["gaussian", "student-t"])
def test_clusters_of_many_items_are_found(structure, continuous):
    table, _, z = make_rows(300, seed=1)
    table.loc[:19, "stars"] = np.nan
    table["kind"] = np.where(np.random.default_rng(0).random(300) < 0.2 + 0.6 * z, "u", "v")
    m = TableMixture(
        6, feature_types={"stars": "ordinal"}, continuous=continuous, covariance_type=structure,
        **SMALL | {"n_warmup": 400, "n_draws": 400},
    ).fit(table, errors={"size": 0.3})  # fmt: skip
    # Columns are correlated within a cluster, which independent ones need two clusters for.
    assert m.n_clusters_ == (4 if structure == "diag" else 2)
    assert pd.crosstab(m.labels_, z).max(axis=1).sum() > 0.97 * len(table)
