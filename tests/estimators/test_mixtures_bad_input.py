"""Bad data and bad settings: a sentence that says what is wrong, or a right answer."""

import numpy as np
import pandas as pd
import pytest

from cavity import GaussianMixture, StudentTMixture
from cavity.priors import ClusterPrior, Dirichlet, DirichletProcess, FixedWeights, PitmanYor

SMALL = {"n_chains": 2, "n_warmup": 10, "n_draws": 20, "random_state": 0}


@pytest.fixture(params=[StudentTMixture, GaussianMixture])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(1)
    return np.vstack([rng.standard_normal((20, 3)), rng.standard_normal((20, 3)) + 9.0])


def check_usable(m, X):
    """The fit is whole: finite draws, one label per row, finite predictions."""
    assert np.isfinite(m.posterior_.log_joint).all()
    assert m.labels_.shape == (len(X),)
    assert np.isfinite(m.score_samples(X)).all()
    np.testing.assert_allclose(m.predict_proba(X).sum(axis=1), 1.0)


# ------------------------------------------------------------------ data that cannot be clustered


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (np.empty((0, 3)), r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required"),
        (np.empty((5, 0)), r"0 feature\(s\) \(shape=\(5, 0\)\) while a minimum of 1 is required"),
        (np.ones((1, 3)), "n_samples=1: clustering needs at least 2 rows. Give more data"),
        (np.arange(5.0), "Expected 2D array, got 1D array instead"),
        (np.zeros((3, 4, 2)), "Found array with dim 3"),
        ([["a", "b"], ["c", "d"]], "could not convert string to float"),
        (
            np.array([["1.5", "2"], ["3", "high"]]),
            "X holds text or dates: row 1, column 1 is 'high', could not convert string to float. "
            "Drop or encode such columns first",
        ),
        (np.ones((4, 2)) + 1j, "Complex data not supported"),
        (
            np.full((4, 1), [1.0]) * [[1e305], [1.0], [2.0], [3.0]],
            "Column 0 reaches 1e.305, whose square is beyond floating point. Divide it by a power",
        ),
    ],
)
def test_data_that_is_refused(kind, bad, sentence):
    with pytest.raises(ValueError, match=sentence):
        kind(2, **SMALL).fit(bad)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (np.inf, "Input X contains infinity: row 3, column {}. Replace infinite values first"),
        (-np.inf, "Input X contains infinity: row 3, column {}. Replace infinite values first"),
    ],
)
def test_values_that_are_no_numbers_are_placed(kind, X, value, sentence):
    bad = X.copy()
    bad[3, 1] = value
    with pytest.raises(ValueError, match=sentence.format("1")):
        kind(2, **SMALL).fit(bad)
    with pytest.raises(ValueError, match=sentence.format("'b'")):
        kind(2, **SMALL).fit(pd.DataFrame(bad, columns=["a", "b", "c"]))
    bad[5, 0] = value
    with pytest.raises(ValueError, match="2 such values in all"):
        kind(2, **SMALL).fit(bad)


def test_text_columns_are_named(kind):
    table = pd.DataFrame({"size": [1, 2, 3], "shop": ["x", "y", "z"]})
    with pytest.raises(ValueError, match="Column 'shop' of X holds text or dates, not numbers"):
        kind(2, **SMALL).fit(table)
    table["day"] = pd.to_datetime(["2020-01-01"] * 3)
    with pytest.raises(ValueError, match="Columns 'shop', 'day' of X hold text or dates"):
        kind(2, **SMALL).fit(table)


@pytest.mark.variants("slow", "GaussianMixture")
def test_fewer_rows_than_clusters(kind, X):
    sentence = "n_samples=3 rows, fewer than n_clusters=5. Lower n_clusters, or use prior='dp'"
    with pytest.raises(ValueError, match=sentence):
        kind(5, **SMALL).fit(X[:3])
    check_usable(kind(5, prior="dp", concentration="learn", **SMALL).fit(X[:3]), X[:3])


def test_one_value_beyond_all_measure(kind, X):
    bad = X.copy()
    bad[7, 2] = 1e200
    with pytest.raises(ValueError, match=r"X\[7\], column 2 is \de.* standard deviations from the"):
        kind(2, **SMALL).fit(bad)


# ------------------------------------------------------------------ odd data that can be clustered


def test_one_column(kind, X):
    m = kind(2, **SMALL).fit(X[:, :1])
    check_usable(m, X[:, :1])
    assert m.n_clusters_ == 2


@pytest.mark.variants("slow", "GaussianMixture")
def test_two_rows(kind, X):
    check_usable(kind(2, **SMALL).fit(X[[0, -1]]), X[[0, -1]])


def test_constant_columns_say_nothing(kind, X):
    m = kind(2, **SMALL).fit(np.column_stack([X, np.full(len(X), 7.0)]))
    check_usable(m, np.column_stack([X, np.full(len(X), 7.0)]))
    assert m.n_clusters_ == 2
    assert m.posterior_.agreement(np.repeat([0, 1], 20))["ari"] == 1.0


@pytest.mark.variants(
    "slow",
    "StudentTMixture-7.0",
    "StudentTMixture--*",
    "GaussianMixture-7.0",
    "GaussianMixture-0.0",
)
@pytest.mark.parametrize("value", [0.0, 7.0, -1e12])
def test_duplicates_of_one_point_are_one_cluster(kind, value):
    X = np.full((30, 2), value)
    m = kind(2, **(SMALL | {"n_warmup": 200, "n_draws": 200})).fit(X)
    check_usable(m, X)
    assert m.n_clusters_ == 1


def test_rounding_error_is_no_spread(kind):
    X = 1.0 + 1e-15 * np.random.default_rng(0).standard_normal((30, 2))
    check_usable(kind(2, **SMALL).fit(X), X)


@pytest.mark.variants("slow", "GaussianMixture")
def test_more_columns_than_rows(kind):
    X = np.random.default_rng(0).standard_normal((6, 10))
    check_usable(kind(2, **SMALL).fit(X), X)


@pytest.mark.variants("slow", "*-1e+100", "*-1e-100")
@pytest.mark.parametrize("unit", [1e135, 1e-135, 1e100, 1e-100])
def test_huge_and_tiny_values_give_the_same_answer(kind, X, unit):
    plain = kind(2, **SMALL).fit(X)
    m = kind(2, **SMALL).fit(X * unit)
    check_usable(m, X * unit)
    np.testing.assert_array_equal(m.labels_, plain.labels_)
    np.testing.assert_allclose(m.predict_proba(X * unit), plain.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(
        m.score_samples(X * unit) + 3 * np.log(unit), plain.score_samples(X), atol=1e-6
    )


def test_one_code_for_missing_does_not_flatten_its_column(kind, X):
    bad = X.copy()
    bad[0, 0] = 1e30
    m = kind(3, **(SMALL | {"n_warmup": 100, "random_state": 1})).fit(bad)
    check_usable(m, bad)
    assert m.posterior_.agreement(np.r_[2, np.repeat([0, 1], [19, 20])])["ari"] > 0.9


@pytest.mark.variants("slow", "GaussianMixture")
def test_integers_and_lists(kind):
    rows = [[1, 2], [2, 1], [40, 41], [41, 40]] * 3
    m = kind(2, **SMALL).fit(rows)
    check_usable(m, rows)


# ------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_clusters": 0}, "n_clusters must be an integer of at least 1, not 0"),
        ({"n_clusters": 2.5}, "n_clusters must be an integer of at least 1, not 2.5"),
        ({"collapse": "guess"}, "collapse must be one of .*, not 'guess'"),
        ({"prior": "flat"}, "prior must be one of 'finite', .*, not 'flat'"),
        ({"prior": None}, "prior must be one of .* or a prior from cavity.priors"),
        ({"init": "best"}, "init must be one of .*, not 'best'"),
        ({"init": [0, 1]}, r"init has shape \(2,\), but X has 40 rows: give one label per row"),
        ({"init": np.arange(40)}, "init has 40 distinct labels, but n_clusters=2"),
        ({"init": np.zeros(40)}, "init must hold integer labels, one per row of X"),
        ({"concentration": -1}, "concentration must be a number between .* or 'learn', not -1"),
        (
            {"concentration": "guess"},
            "concentration must be a number between .* or 'learn', not 'guess'",
        ),
        ({"concentration": "learn", "prior": "fixed"}, "has no concentration to give or to learn"),
        ({"n_chains": 0}, "n_chains must be an integer of at least 1, not 0"),
        ({"n_warmup": -1}, "n_warmup must be an integer of at least 0, not -1"),
        ({"n_draws": 0}, "n_draws must be an integer of at least 1, not 0"),
        ({"thin": 0}, "thin must be an integer of at least 1, not 0"),
        ({"n_jobs": 0}, "n_jobs must be None"),
        ({"n_jobs": True}, "n_jobs must be None"),
        ({"n_jobs": np.nan}, "n_jobs must be None"),
        ({"random_state": "a"}, "random_state must be None, an int, a numpy Generator"),
        ({"random_state": -1}, "random_state must not be negative, not -1"),
        ({"prior": FixedWeights([1, 1, 1])}, "weights of FixedWeights are 3, but n_clusters=2"),
        ({"cluster_prior": "guess"}, "cluster_prior must be a cavity.priors.ClusterPrior"),
        ({"cluster_prior": ClusterPrior(covariance_df=2)}, r"exceed .* plus 1 \(4\), not 2"),
    ],
)
def test_settings_that_are_refused(kind, X, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        kind(**{"n_clusters": 2, **SMALL, **settings}).fit(X)


@pytest.mark.parametrize("df", [-1, 0, np.nan, np.inf, "some", None])
def test_degrees_of_freedom_that_are_refused(X, df):
    with pytest.raises(ValueError, match=f"df must be .*, not {df!r}"):
        StudentTMixture(2, df=df, **SMALL).fit(X)


@pytest.mark.parametrize(("name", "least"), [("fraction", 0.01), ("damping", 0.001)])
@pytest.mark.parametrize("value", [0.0, 1e-9, 1.5, "half"])
def test_ep_options_that_are_refused(X, name, least, value):
    sentence = rf"options\['{name}'\] must be a number at least {least} and at most 1"
    with pytest.raises(ValueError, match=sentence):
        StudentTMixture(2, collapse="ep", **SMALL, options={name: value}).fit(X)


def test_options_of_another_collapse(kind, X):
    collapse = "blocked" if kind is StudentTMixture else "collapsed"
    with pytest.raises(ValueError, match=f"is not an option of collapse='{collapse}'"):
        kind(2, **SMALL, collapse=collapse, options={"damping": 0.5}).fit(X)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FixedWeights([1, -1]), "weights must hold positive numbers, one per cluster"),
        (lambda: PitmanYor(discount=1.5), "discount must be a number from 0 to below 1, not 1.5"),
        (lambda: DirichletProcess(0.0), "concentration must be a number between"),
        (lambda: Dirichlet(1e307), "concentration must be a number between"),
    ],
)
def test_priors_that_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_priors_cannot_be_changed():
    with pytest.raises(AttributeError):
        DirichletProcess(1.0).concentration = 2.0


def test_unknown_options(kind):
    with pytest.raises(TypeError, match="unexpected keyword argument 'n_components'"):
        kind(2, n_components=3)
    with pytest.raises(ValueError, match="Invalid parameter 'n_components'"):
        kind(2).set_params(n_components=3)


def test_a_checkpoint_that_cannot_be_written_is_known_before_sampling(kind, X, tmp_path):
    with pytest.raises(FileNotFoundError, match="checkpoint's folder does not exist; make it"):
        kind(2, checkpoint=tmp_path / "none" / "c", **{**SMALL, "n_draws": 10**9}).fit(X)


# ------------------------------------------------------------------ prediction


@pytest.fixture(scope="module", params=[StudentTMixture, GaussianMixture])
def fitted(request, X):
    return request.param(2, **SMALL).fit(pd.DataFrame(X, columns=["a", "b", "c"]))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("method", ["predict", "predict_proba", "score_samples", "score"])
def test_wrong_shapes_at_predict(fitted, X, method):
    ask = getattr(fitted, method)
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3 features"):
        ask(X[:, :2])
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        ask(X[0])
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        ask(X[:0])
    with pytest.raises(ValueError, match="feature names should match"):
        ask(pd.DataFrame(X, columns=["a", "b", "d"]))


def test_infinite_values_at_predict(fitted, X):
    bad = pd.DataFrame(X.copy(), columns=["a", "b", "c"])
    bad.iloc[4, 2] = np.inf
    with pytest.raises(ValueError, match="infinity: row 4, column 'c'"):
        fitted.predict(bad)


def test_predict_before_fit(kind, X):
    with pytest.raises(ValueError, match="not fitted yet"):
        kind(2).predict(X)


@pytest.mark.parametrize("wrap", [list, np.array, pd.DataFrame])
def test_integers_beyond_floating_point_are_infinite(wrap):
    with pytest.raises(ValueError, match="infinity: row 1, column"):
        StudentTMixture(2).check(wrap([[1, 2], [10**400, 3], [4, 5]]))


@pytest.mark.parametrize("cell", [{"a": 1}, [1, 2], np.array([1, 2])], ids=type)
def test_cells_that_are_no_numbers_are_refused_by_place(cell):
    with pytest.raises(TypeError, match="in row 1, column 0"):
        StudentTMixture(2).check([[1.0, 2.0], [cell, 3.0], [4.0, 5.0]])


@pytest.mark.parametrize("value", [10**400, 10**5000], ids=["long", "longest"])
@pytest.mark.parametrize(
    "name", ["n_clusters", "n_draws", "max_sweeps", "df", "concentration", "max_seconds"]
)
def test_integers_without_bounds_are_refused(X, name, value):
    with pytest.raises(ValueError, match=f"{name} must be"):
        StudentTMixture(**{"n_clusters": 2, name: value}).check(X)


def test_flags_are_true_or_false(X):
    for settings in ({"progress": "yes"}, {"options": {"moves": 1}}):
        with pytest.raises(ValueError, match="must be True or False"):
            StudentTMixture(2, **settings).check(X)
