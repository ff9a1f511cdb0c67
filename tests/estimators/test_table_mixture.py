"""TableMixture: what columns are taken for, its answers, and what is refused."""

from __future__ import annotations

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from loo_total import total_of
from sklearn.metrics import adjusted_rand_score

import cavity
from cavity import CoarseColumnsWarning, ColumnsNote, TableMixture
from cavity.datasets import make_table
from cavity.estimators.reading import take_columns, warn_of_columns

pytestmark = pytest.mark.first(4)

RUN = {"n_chains": 2, "n_warmup": 60, "n_draws": 60, "random_state": 0, "n_jobs": 1}
TYPES = {"count_0": "count"}


@pytest.fixture(scope="module")
def data():
    table, labels = make_table(
        150, 3, n_continuous=2, n_categorical=2, separation=4.0, missing=0.1, random_state=4
    )
    table["lucky"] = pd.array(np.where(labels == 1, True, False), dtype="boolean")
    table.loc[5, "lucky"] = pd.NA
    table["nothing"] = np.nan
    table.index = [f"customer {i}" for i in range(len(table))]
    table.loc["customer 9"] = None  # nothing is known of it
    return table, labels


@pytest.fixture(scope="module")
def fitted(data):
    with pytest.warns(ColumnsNote, match="'nothing' has no value"):
        return TableMixture(4, feature_types=TYPES, **RUN).fit(data[0])


def test_what_columns_are_taken_for(fitted):
    kinds = fitted.columns_["kind"].to_dict()
    assert kinds == {
        "size_0": "continuous",
        "size_1": "continuous",
        "kind_0": "categorical",
        "kind_1": "categorical",
        "count_0": "count",
        "lucky": "categorical",
        "nothing": "empty",
    }
    assert fitted.columns_.loc["kind_0", "categories"] == "a, b, c"


def test_clusters_are_found_and_new_rows_placed(fitted, data):
    table, labels = data
    assert adjusted_rand_score(labels, fitted.labels_) > 0.8
    assert adjusted_rand_score(fitted.labels_, fitted.predict(table)) > 0.9
    probability = fitted.predict_proba(table)
    assert probability.shape == (150, fitted.n_clusters_)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    membership = fitted.predict_proba(table, as_frame=True)
    assert membership.index.tolist() == table.index.tolist()
    whole = membership[[f"p_{k}" for k in range(fitted.n_clusters_)] + ["p_unmatched"]].sum(axis=1)
    np.testing.assert_allclose(whole, 1.0)
    assert np.isfinite(fitted.score_samples(table)).all()
    # Of a row of which nothing is known the density is that of nothing, and its places the weights.
    assert fitted.score_samples(table.loc[["customer 9"]])[0] == pytest.approx(0.0, abs=1e-9)
    shares = fitted.predict_proba(table.loc[["customer 9"]], as_frame=True)
    assert shares["p_0"].iloc[0] == pytest.approx(fitted.weights_[0], abs=0.1)


def test_the_density_by_hand(fitted, data):
    """One draw's mixture of t, categorical and Poisson densities, written out with SciPy."""
    from scipy import stats

    from cavity.predict.densities import entry_densities

    rows = fitted._predictor.rows(fitted._cells(data[0].iloc[:5]))
    draws = fitted._predictor.draws
    got = entry_densities(draws, rows)
    e = int(np.argmax(draws.slot >= 0))
    root = np.linalg.inv(draws.whiten[e])
    for i in range(5):
        there = np.isfinite(rows.continuous[i])
        value = draws.log_weight[e]
        if there.any():
            value += stats.multivariate_t.logpdf(
                rows.continuous[i, there], draws.mean[e, there],
                (root @ root.T)[np.ix_(there, there)], 2.0 * draws.alpha[e],
            )  # fmt: skip
        for j, code in enumerate(rows.codes[i]):
            if code >= 0:
                value += np.log(draws.share[e, draws.levels[j] + code])
        if np.isfinite(rows.counts[i, 0]):
            value += stats.poisson.logpmf(rows.counts[i, 0], draws.rate[e, 0])
        assert got[e, i] == pytest.approx(value, rel=1e-9)
    new = int(np.argmax(draws.slot < 0))
    y = rows.counts[0, 0] if np.isfinite(rows.counts[0, 0]) else 2.0
    size, mean = draws.size[new, 0], draws.rate[new, 0]
    from cavity.predict.densities import log_count

    expected = stats.nbinom.logpmf(y, size, size / (size + mean))
    assert log_count(np.array([y]), mean, size)[0] == pytest.approx(expected)


def test_clusters_in_each_columns_own_terms(fitted, data):
    summary = fitted.summary()
    # What a cluster is beside is what anybody who counts finds.
    of_all = summary.loc[0, "overall"]
    counted = data[0]["kind_0"].value_counts(normalize=True)
    np.testing.assert_allclose(of_all["kind_0"][counted.index], counted)
    assert of_all["size_0", ""] == pytest.approx(data[0]["size_0"].mean())
    assert of_all["count_0", ""] == pytest.approx(data[0]["count_0"].mean())
    shares = summary.xs("kind_0", level="column")
    np.testing.assert_allclose(shares.groupby("cluster")["estimate"].sum(), 1.0, atol=1e-6)
    assert (summary["lower"] <= summary["estimate"] + 1e-12).all()
    assert (summary["estimate"] <= summary["upper"] + 1e-12).all()
    apart = fitted.distinguishing_features(as_frame=True)
    assert len(apart) == fitted.n_clusters_ * 6
    words = fitted.distinguishing_features()
    assert len(words) == fitted.n_clusters_
    assert any("%" in text for text in words)
    assert "share[lucky=True]" in fitted.posterior_.summary().columns


def test_gaps_are_filled(fitted, data):
    table = data[0]
    filled = fitted.impute(table)
    assert not filled.mean.drop(columns="nothing").isna().to_numpy().any()
    there = table["size_0"].notna()
    pd.testing.assert_series_equal(filled.mean.loc[there, "size_0"], table.loc[there, "size_0"])
    cells = filled.cells
    assert len(cells) == table.drop(columns="nothing").isna().to_numpy().sum()
    numbers = cells.dropna(subset="lower")
    assert ((numbers["lower"] <= numbers["value"]) & (numbers["value"] <= numbers["upper"])).all()
    chances = cells.loc[cells["lower"].isna(), "probability"]
    assert chances.between(0.0, 1.0).all()
    share = fitted.category_probabilities(table, "kind_0")
    np.testing.assert_allclose(share.sum(axis=1), 1.0)
    with pytest.raises(ValueError, match="is not a categorical column"):
        fitted.category_probabilities(table, "size_0")


def test_new_rows_are_drawn(fitted, data):
    rows, labels = fitted.sample(300, random_state=0)
    assert rows.columns.tolist() == data[0].columns.tolist()
    assert set(rows["kind_0"]) <= {"a", "b", "c"}
    assert (rows["count_0"] >= 0).all()
    assert adjusted_rand_score(labels, fitted.predict(rows)) > 0.7


@pytest.mark.usefixtures("without_pictures")
def test_files_and_pages(fitted, data, tmp_path):
    path = fitted.save(tmp_path / "run.nc")
    again = cavity.load(path)
    assert isinstance(again, TableMixture)
    assert again.feature_types == TYPES
    np.testing.assert_array_equal(again.predict_proba(data[0]), fitted.predict_proba(data[0]))
    pd.testing.assert_frame_equal(again.summary(), fitted.summary())
    page = fitted.report(tmp_path / "page.html", data[0]).read_text()
    for words in ("What sets clusters apart", "taken for", "kind_0=a"):
        assert words in page


def test_a_run_goes_on_from_its_checkpoint(data, fitted, tmp_path):
    options = {**RUN, "feature_types": TYPES, "checkpoint": tmp_path / "c"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        TableMixture(4, **{**options, "n_draws": 20}).fit(data[0])
        longer = TableMixture(4, **options).fit(data[0])
    np.testing.assert_array_equal(longer.posterior_.labels, fitted.posterior_.labels)


def test_tables_of_other_libraries_are_the_same_table(data, fitted):
    import pyarrow as pa

    table = data[0].drop(columns="nothing").reset_index(drop=True)
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    whole = arrow.append_column("nothing", pa.nulls(150, pa.float64()))
    np.testing.assert_allclose(fitted.predict_proba(whole), fitted.predict_proba(data[0]))
    backed = whole.to_pandas(types_mapper=pd.ArrowDtype)
    np.testing.assert_allclose(fitted.predict_proba(backed), fitted.predict_proba(data[0]))
    nullable = data[0].convert_dtypes()
    nullable["nothing"] = pd.array([pd.NA] * 150, dtype="Float64")
    np.testing.assert_allclose(fitted.predict_proba(nullable), fitted.predict_proba(data[0]))
    category = data[0].astype({"kind_0": "category"})
    np.testing.assert_allclose(fitted.predict_proba(category), fitted.predict_proba(data[0]))


def test_a_table_of_polars_is_fitted_and_answered(data, fitted):
    import polars

    table = polars.from_pandas(data[0].reset_index(drop=True))
    same = TableMixture(4, **RUN, feature_types=TYPES).fit(table)
    np.testing.assert_array_equal(same.posterior_.labels, fitted.posterior_.labels)
    np.testing.assert_allclose(same.predict_proba(table), fitted.predict_proba(data[0]))
    filled, wanted = same.impute(table).cells, fitted.impute(data[0]).cells
    assert filled["value"].tolist() == wanted["value"].tolist()
    coded = table.with_columns(polars.col("kind_0").cast(polars.Categorical))
    np.testing.assert_allclose(same.predict_proba(coded), fitted.predict_proba(data[0]))


def test_unseen_categories_are_gaps_with_a_note(fitted, data):
    table = data[0].iloc[:3].copy()
    gap, new = table.copy(), table.copy()
    gap["kind_0"], new["kind_0"] = None, ["z", None, "y"]
    with pytest.warns(ColumnsNote, match="2 in column 'kind_0'"):
        got = fitted.predict_proba(new)
    np.testing.assert_array_equal(got, fitted.predict_proba(gap))


def test_chains_start_from_measurements_alone_as_well():
    # Colours part the rows across the groups that the measurements have.
    group, rows = np.repeat([0, 1], 40), np.arange(80)
    table = pd.DataFrame({"x": 3.0 * group + 0.01 * rows, "y": 3.0 * group - 0.01 * rows})
    for name in "abcdefgh":
        table[name] = np.where(rows % 2 == 0, "red", "green")
    plan = TableMixture(2).check(table).plan
    starts = [plan.start(chain, np.random.default_rng(0)) for chain in (0, 2)]
    assert adjusted_rand_score(rows % 2, starts[0]) == 1.0
    assert adjusted_rand_score(group, starts[1]) == 1.0


# --------------------------------------------------------------------------- what columns are


def taken(values, kind=None):
    from cavity.io.columns import take_column

    return take_column(pd.Series(values), "a", kind)


def test_the_rule():
    assert taken(["x", None, "y"]).categories == ("x", "y")
    assert taken([True, False, None]).categories == ("False", "True")
    assert taken(pd.Categorical(["b", "a", "b"])).categories == ("a", "b")
    assert taken([1.5, 2.0, 3.0]).kind == "continuous"
    assert taken([Decimal("1.5"), None, Decimal("2"), Decimal("7")]).kind == "continuous"
    two = taken([0, 1, 1, 0])
    assert (two.kind, two.categories) == ("categorical", ("0", "1"))
    assert "two values" in two.note
    few = taken(np.arange(60) % 4)
    assert few.kind == "continuous"
    assert few.note.endswith("taken as continuous, not as 'count'")
    assert few.proposed == "categorical"
    assert "'count'" not in taken(np.arange(60) % 4 - 1.5).note
    assert taken(np.arange(60)).note == ""
    assert taken([None, None]).kind == "empty"
    assert taken([3, 1, 2], "categorical").categories == ("1", "2", "3")
    assert "has no value in 33% of the rows" in taken(["x", None, "y"]).note
    assert taken(["x", None, "y", "x"]).note == ""


# --------------------------------------------------------------------------- labels, left-out rows


@pytest.fixture(scope="module")
def colours():
    """Forty rows of two categorical columns, some cells missing, and labels known for some."""
    rng = np.random.default_rng(3)
    truth = np.arange(40) % 2
    table = pd.DataFrame(
        {
            "colour": np.where(rng.random(40) < 0.2 + 0.6 * truth, "red", "green"),
            "shape": np.array(["disc", "cube", "cone"])[rng.integers(0, 2, 40) + truth],
        }
    )
    table.loc[[2, 11], "colour"] = None
    known = np.where(np.arange(40) < 8, truth, -1)
    m = TableMixture(2, prior="dirichlet", concentration=0.7, **RUN).fit(table, known_labels=known)
    return table, known, m


@pytest.mark.slow
def test_known_labels_hold_in_every_draw(colours, tmp_path):
    table, known, m = colours
    labels = m.posterior_.flat_labels
    told = labels[:, known >= 0]
    assert np.all((told == told[:, :1]) == (known[known >= 0] == known[0]))
    with pytest.raises(ValueError, match="known_labels has 3 different labels, but n_clusters=2"):
        TableMixture(2).check(table, known_labels=np.where(np.arange(40) < 3, np.arange(40), -1))


@pytest.mark.slow
def test_leave_one_out_by_hand(colours):
    """The normaliser of each row's Gibbs step, written out with counts."""
    table, known, m = colours
    draw = 17
    found = m._leave_one_out(table).log_densities(np.array([draw]))[0]
    z = m.posterior_.flat_labels[draw]
    prior = m.posterior_.drawn["cluster_prior"].reshape(-1, 5)[draw]
    columns = [pd.Categorical(table[name]).codes for name in table.columns]
    for i in range(40):
        others = np.arange(40) != i
        value = weight = 0.0
        for k in range(2):
            if known[i] >= 0 and known[i] != k:
                continue
            own = others & (z == k)
            share = own.sum() + 0.7
            weight += share
            for codes, a in zip(columns, (prior[:2], prior[2:]), strict=True):
                if codes[i] >= 0:
                    there = own & (codes >= 0)
                    above = (codes[there] == codes[i]).sum() + a[codes[i]]
                    share *= above / (there.sum() + a.sum())
            value += share
        assert found[i] == pytest.approx(np.log(value / weight), rel=1e-9)


@pytest.mark.slow
def test_leave_one_out_of_a_mixed_table(fitted, data):
    elpd = total_of(fitted.loo(data[0]))
    by_draws = fitted.score_samples(data[0]).sum()
    assert by_draws - 120.0 < elpd < by_draws
    with pytest.raises(ValueError, match="leave-one-out needs the data of the fit"):
        fitted.loo(data[0].iloc[:10])


# --------------------------------------------------------------------------- bad input


def frame(**columns):
    n = 30
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.standard_normal(n), **columns})


@pytest.mark.parametrize(
    ("columns", "types", "words"),
    [
        ({"a": [*["u"] * 29, 3]}, None, "Column 'a' mixes numbers and text: row 29.*row 0"),
        ({"a": pd.date_range("2020", periods=30)}, None, "Column 'a' holds dates.*days since"),
        ({"a": pd.to_timedelta(range(30), "s")}, None, "durations"),
        ({"a": [f"n {i}" for i in range(30)]}, {"a": "count"}, "cannot be count: it holds text"),
        ({"a": [-1] + [2] * 29}, {"a": "count"}, "Row 0, column 'a' is -1, below zero"),
        ({"a": [0.5] + [2] * 29}, {"a": "count"}, "Row 0, column 'a' is 0.5, no whole number"),
        ({"a": [1e12] + [2] * 29}, {"a": "overdispersed"}, "too large"),
        ({"a": [np.inf] + [2.0] * 29}, None, "infinity: row 0, column 'a'"),
        ({"a": [1.0] * 30}, {"b": "count"}, "feature_types names 'b'"),
        ({"a": [1.0] * 30}, {"a": "colour"}, "'colour'; a column is one of"),
        ({"a": [1.0] * 30}, "count", "must be a dictionary"),
    ],
)  # fmt: skip
def test_columns_that_are_refused(columns, types, words):
    with pytest.raises(ValueError, match=words):
        TableMixture(2, feature_types=types).check(frame(**columns))


def test_many_categories_are_refused():
    n = 20_000
    many = pd.DataFrame({"x": np.arange(n) * 0.1, "zip": [f"z{i % 10_000}" for i in range(n)]})
    with pytest.raises(ValueError, match="'zip' has 10,000 categories in 20,000 rows"):
        TableMixture(2).check(many)
    names = pd.DataFrame({"x": np.arange(80) * 0.1, "who": [f"w{i}" for i in range(80)]})
    with pytest.raises(ValueError, match="looks like the names of the rows"):
        TableMixture(2).check(names)


def test_other_refusals(fitted, data):
    with pytest.raises(ValueError, match="No column of X has any value"):
        TableMixture(2).check(pd.DataFrame({"a": [None, None], "b": [np.nan, np.nan]}))
    with pytest.raises(ValueError, match="more than one column named 'x'"):
        TableMixture(2).check(pd.DataFrame([[1.0, 2.0]] * 3, columns=["x", "x"]))
    with pytest.raises(TypeError, match="Row 0, column 'a' holds a dict"):
        TableMixture(2).check(frame(a=[{"b": 1}] * 30))
    with pytest.raises(ValueError, match="fewer than n_clusters"):
        TableMixture(50).check(frame())
    with pytest.raises(ValueError, match="continuous must be one of"):
        TableMixture(2, continuous="cauchy").check(frame())
    with pytest.raises(ValueError, match=r"not supported for these columns\. Use 'ep'"):
        TableMixture(2, collapse="collapsed", feature_types={"a": "overdispersed"}).check(
            frame(a=[0, 1, 2] * 10)
        )
    with pytest.raises(ValueError, match=r"was taken as continuous, but row 0.*'tall'"):
        fitted.predict(data[0].assign(size_0="tall"))
    with pytest.raises(ValueError, match="feature"):
        fitted.predict(data[0][["size_0"]])
    with pytest.raises(ValueError, match="infinity: row 0, column 'size_0'"):
        fitted.predict(data[0].assign(size_0=-np.inf))
    with pytest.raises(ValueError, match="Row 0, column 'count_0' is -2, below zero"):
        fitted.predict(data[0].assign(count_0=-2))
    with pytest.raises(ValueError, match=r"Row 0, column 'count_0' is 0.5, no whole number"):
        fitted.predict(data[0].assign(count_0=0.5))
    with pytest.raises(ValueError, match="known_labels has 3 different labels, but n_clusters=2"):
        TableMixture(2).check(frame(), known_labels=[0, 1, 2] + [-1] * 27)


def test_two_values_are_no_measurement():
    from cavity.estimators.coarse_columns import warn_of_coarse_columns

    two = np.where(np.arange(30) % 5 == 0, 1.0, 0.48)
    assert "'a' has two values, 0.48 and 1, and is taken as categorical" in taken(two).note
    spike = np.where(np.arange(60) % 3 == 0, 0.0, np.arange(60))
    assert "'a' is 0 in 33% of its rows" in taken(spike).note
    assert taken(np.arange(60.0)).note == ""
    # A mixture of measurements says so too, and what to do.
    words = r"'lip' has 2 values.*TableMixture.*--types lip=categorical"
    with pytest.warns(CoarseColumnsWarning, match=words):
        warn_of_coarse_columns(two[:, None], ["lip"])


def test_columns_of_few_values_are_told_before_sampling_with_what_to_type():
    cylinders = np.repeat([3.0, 4.0, 5.0, 6.0, 8.0], [4, 204, 3, 84, 108])
    table = pd.DataFrame({"Cylinders": cylinders, "weight": np.linspace(1613, 5140, 403)})
    assert taken(cylinders).kind == "continuous"
    with pytest.warns(ColumnsNote) as found:
        warn_of_columns(take_columns(table, None))
    text = str(found[0].message)
    assert text.startswith("Column 'Cylinders' has 5 values and is taken as continuous, not as")
    assert "chains then seldom agree" in text
    assert "feature_types={'Cylinders': 'categorical'} (--types Cylinders=categorical " in text
    assert "weight" not in text
    # As told, nothing is asked.
    assert taken(cylinders, "categorical").note == taken(cylinders, "count").note == ""


@pytest.mark.slow
def test_two_valued_columns_among_measurements():
    # As in E. coli's proteins: two columns are 0.48 but for some rows of one cluster.
    table, truth = make_table(
        320, 4, n_continuous=4, n_categorical=0, n_counts=0, separation=2.0, random_state=250
    )
    rng = np.random.default_rng(0)
    table["lip"] = np.where((truth == 0) & (rng.random(320) < 0.3), 1.0, 0.48)
    table["chg"] = np.where((truth == 1) & (rng.random(320) < 0.1), 0.5, 0.48)
    with pytest.warns(ColumnsNote, match="'lip' has two values"):
        found = TableMixture(8, random_state=0, n_warmup=300, n_draws=300).fit(table)
    assert adjusted_rand_score(truth, found.labels_) > 0.6
