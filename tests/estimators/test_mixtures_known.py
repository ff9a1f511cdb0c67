"""Weights, and labels that are known for some rows."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

import cavity
from cavity import GaussianMixture, StudentTMixture, WeightsWarning
from cavity.estimators.known import check_known

pytestmark = pytest.mark.first(6)

SMALL = {"n_chains": 2, "n_warmup": 60, "n_draws": 60, "random_state": 0, "n_jobs": 1}
# Rows with weights run the kernels of those with a noise class, which other tests compile too.
WEIGHTED = {**SMALL, "noise": True}


def make_rows(n=40, apart=6.0, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 2
    return rng.standard_normal((n, 2)) + apart * truth[:, None], truth


@pytest.fixture(params=[StudentTMixture, pytest.param(GaussianMixture, marks=pytest.mark.slow)])
def kind(request):
    return request.param


def test_weights_move_means_and_not_shares(kind):
    """Within what two runs of one fit differ by."""
    X, truth = make_rows()
    weight = np.where(np.arange(40) % 4 == 0, 5.0, 1.0)
    m = kind(2, **{**WEIGHTED, "n_draws": 400}).fit(X, sample_weight=weight)
    order = np.argsort(m.means_[:, 0])
    expected = [np.average(X[truth == k], axis=0, weights=weight[truth == k]) for k in (0, 1)]
    np.testing.assert_allclose(m.means_[order], expected, atol=0.15)
    np.testing.assert_allclose(m.weights_, 0.5, atol=0.05)
    total = getattr(m.loo(X), "elpd_loo", None)
    assert total is None or np.isfinite(total)


def same_draws(one, other):
    np.testing.assert_array_equal(one.posterior_.labels, other.posterior_.labels)
    np.testing.assert_array_equal(one.posterior_.log_joint, other.posterior_.log_joint)


@pytest.mark.variants("slow", "0.00*", "2.0")
@pytest.mark.parametrize("weight", [0.5, 1.0 / 150.0, 2.0])
def test_equal_weights_change_nothing(weight, iris_without_weights):
    """Iris, room for ten clusters: once ten arbitrary ones with weights of 0.5, 1/n or 2."""
    X, plain = iris_without_weights
    other = StudentTMixture(10, **SMALL).fit(X, sample_weight=np.full(150, weight))
    same_draws(other, plain)


@pytest.fixture(scope="module")
def iris_without_weights():
    X = load_iris().data
    return X, StudentTMixture(10, **SMALL).fit(X)


def test_weights_are_relative():
    X, _ = make_rows()
    weight = np.random.default_rng(0).uniform(0.2, 3.0, 40)
    one = StudentTMixture(2, **WEIGHTED).fit(X, sample_weight=weight)
    for factor in (0.5, 1.0 / weight.sum(), 3e5):
        same_draws(StudentTMixture(2, **WEIGHTED).fit(X, sample_weight=factor * weight), one)
    # Negative control: other weights, other draws.
    other = StudentTMixture(2, **WEIGHTED).fit(X, sample_weight=weight[::-1])
    assert (other.posterior_.log_joint != one.posterior_.log_joint).any()


def test_large_weights_need_no_memory_and_are_warned_of():
    X, _ = make_rows(200)
    weight = np.where(np.arange(200) == 7, 30.0, 1.0) * 1e7
    tracemalloc.start()
    with pytest.warns(WeightsWarning, match=r"1 of 200 rows .* \(row 7 has 26.2 times\)") as found:
        StudentTMixture(1, **WEIGHTED).fit(X, sample_weight=weight)
    assert tracemalloc.get_traced_memory()[1] < 1e8
    tracemalloc.stop()
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeightsWarning)
        StudentTMixture(1, **WEIGHTED).fit(X, sample_weight=np.where(np.arange(200) < 99, 8.0, 1.0))


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        ([0.0] + [1.0] * 39, "sample_weight is zero in row 0: .* Leave rows without weight"),
        ([1.0] * 39 + [-2.0], "sample_weight is -2 in row 39: it must be a positive number"),
        ([1.0, np.nan] + [1.0] * 38, "sample_weight is nan in row 1"),
        ([1.0, np.inf] + [1.0] * 38, "sample_weight is inf in row 1"),
        ([1.0] * 39, r"sample_weight.shape == \(39,\), expected \(40,\)"),
        (np.ones((40, 2)), "Sample weights must be 1D array or scalar"),
        (["a"] * 40, "sample_weight must hold numbers"),
        ([1e-4] + [1.0] * 39, "sample_weight in row 0 is less than 0.001 of the mean weight"),
    ],
)
def test_weights_that_are_refused(weight, sentence):
    X, _ = make_rows()
    with pytest.raises(ValueError, match=sentence):
        GaussianMixture(2, **SMALL).check(X, sample_weight=weight)


def test_a_weight_for_a_row_with_gaps_is_refused():
    X, _ = make_rows()
    X[3, 1] = np.nan
    GaussianMixture(2, **SMALL).check(X, sample_weight=np.full(40, 2.0))
    weight = np.where(np.arange(40) == 3, 40.0, 20.0)
    with pytest.raises(ValueError, match=r"Row 3 of X has gaps and 1\.95 times the mean of "):
        GaussianMixture(2, **SMALL).check(X, sample_weight=weight)
    with pytest.raises(ValueError, match="sample_weight is not supported with collapse='ep'"):
        StudentTMixture(2, collapse="ep", **SMALL).check(X[:3], sample_weight=[1, 2, 3])


def test_known_labels_hold_in_every_draw(kind, tmp_path):
    """Labels against the grain: rows that lie together are known to be apart."""
    X, _truth = make_rows(apart=2.0)
    known = np.full(40, -1)
    known[[0, 2, 4]] = 7
    known[[1, 6]] = 3
    for prior in ("dirichlet", "dp"):
        m = kind(3, prior=prior, concentration="learn", **SMALL).fit(X, known_labels=known)
        draws = m.posterior_.flat_labels
        assert (draws[:, 0] == draws[:, 2]).all()
        assert (draws[:, 0] == draws[:, 4]).all()
        assert (draws[:, 1] == draws[:, 6]).all()
        assert (draws[:, 0] != draws[:, 1]).all()
        assert len(np.unique(draws[:, 10])) > 1
    m.save(tmp_path / "run.nc")
    found = cavity.load(tmp_path / "run.nc").loo(X)
    assert np.isfinite(getattr(found, "elpd_loo", getattr(found, "elpd", None)))


@pytest.mark.slow
def test_a_few_known_labels_decide_what_the_rows_leave_open():
    """Two long clusters side by side that overlap: a few labels place the cut."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((120, 2)) * [5.0, 0.7]
    truth = np.arange(120) % 2
    X[:, 1] += 3.2 * truth
    known = np.where(np.arange(120) < 12, truth, -1)
    m = GaussianMixture(2, **SMALL).fit(X, known_labels=known)
    plain = GaussianMixture(2, **SMALL).fit(X)
    found = [adjusted_rand_score(truth, fit.labels_) for fit in (m, plain)]
    assert found[0] > max(0.85, found[1])


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (
            [0, 1, 2] + [-1] * 37,
            "3 different labels, but n_clusters=2. Raise n_clusters",
        ),
        ([0, -2] + [-1] * 38, "known_labels is -2 in row 1. Labels are whole numbers from 0"),
        ([0, 1.5] + [-1] * 38, "known_labels is 1.5 in row 1"),
        ([0, "oak"] + [None] * 38, "known_labels is 'oak' in row 1"),
        ([0, True] + [None] * 38, "known_labels is True in row 1"),
        ([0, -1], "known_labels has shape .* but X has 40 rows"),
    ],
)
def test_labels_that_are_refused(labels, sentence):
    X, _ = make_rows()
    with pytest.raises(ValueError, match=sentence):
        GaussianMixture(2, **SMALL).check(X, known_labels=labels)


def test_y_is_ignored(kind):
    X, truth = make_rows()
    plain = kind(2, **SMALL).fit(X)
    some = np.where(np.arange(40) < 5, truth, -1)
    for y in (truth, some, truth.astype(str)):
        np.testing.assert_array_equal(kind(2, **SMALL).fit(X, y).labels_, plain.labels_)


def test_all_labels_may_be_known():
    X, truth = make_rows(apart=2.0)
    m = StudentTMixture(2, **SMALL).fit(X, known_labels=truth)
    assert adjusted_rand_score(truth, m.labels_) == 1.0


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, None, 1], dtype=object),
        [0, None, 1],
        [0.0, np.nan, 1.0],
        ["a", None, "b"],
        np.array(["a", np.nan, "b"], dtype=object),
        pd.Categorical(["a", None, "b"]),
        pd.array([0, None, 1], dtype="Int64"),
        np.ma.masked_array([0, 5, 1], mask=[False, True, False]),
        np.ma.masked_array(["a", "b", "b"], mask=[False, True, False]),
    ],
)
def test_partial_labels_of_any_type_are_honored(labels):
    assert check_known(labels, 3, 2, False).home.tolist() == [0, -1, 1]


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["a", np.nan, "b"]),
        np.array(["a", "-1", "b"]),
        ["a", "", "b"],
        [0, 10**400, 1],
        [0, 2**63, 1],
        [0, 1e300, 1],
        [0, "a", 1],
        [True, None, False],
    ],
)
def test_labels_of_unclear_meaning_are_refused(labels):
    with pytest.raises(ValueError, match=r"known_labels is .* in row"):
        check_known(labels, 3, 5, False)
