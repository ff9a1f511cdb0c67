"""Groups of fits: shapes that one cluster cannot have, new rows, files, tables, warnings."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

import cavity
from cavity import ClusterLimitWarning, StudentTMixture, TableMixture
from cavity.predict.draws import Rows
from cavity.predict.groups import _Directions

pytestmark = pytest.mark.first(14)

SHORT = {"n_chains": 1, "n_warmup": 120, "n_draws": 30, "thin": 2, "random_state": 0, "n_jobs": 1}


def fitted(X, n_clusters=10):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StudentTMixture(n_clusters, **SHORT).fit(X)


@pytest.fixture(scope="module")
def circles():
    X, truth = make_circles(240, factor=0.4, noise=0.05, random_state=1)
    return X, truth, fitted(X)


@pytest.mark.slow
def test_two_circles_are_two_groups(circles):
    _, truth, m = circles
    assert m.n_clusters_ > 5
    assert m.n_groups_ == 2
    assert adjusted_rand_score(truth, m.group_labels_) > 0.95
    assert m.posterior_.groups().n_clusters_posterior()[2] > 0.8


def test_new_rows_get_groups(circles):
    X, _, m = circles
    new, truth = make_circles(200, factor=0.4, noise=0.05, random_state=2)
    assert adjusted_rand_score(truth, m.predict(new, level="groups")) > 0.95
    probability = m.predict_proba(new, level="groups")
    assert probability.shape == (200, 2)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    table = m.predict_proba(new, level="groups", as_frame=True)
    assert {"cluster", "p_0", "p_1", "p_unmatched"} <= set(table.columns)
    assert (m.predict(X, level="groups") == m.group_labels_).mean() > 0.97
    with pytest.raises(ValueError, match="level"):
        m.predict(new, level="group")


def test_groups_come_back_from_a_file(circles, tmp_path):
    X, _, m = circles
    other = cavity.load(m.save(tmp_path / "run.nc"))
    np.testing.assert_array_equal(other.group_labels_, m.group_labels_)
    np.testing.assert_array_equal(other.predict(X, level="groups"), m.predict(X, level="groups"))


@pytest.mark.usefixtures("without_pictures")
def test_the_report_shows_both_levels(circles, tmp_path):
    X, _, m = circles
    page = m.report(tmp_path / "run.html", X).read_text()
    assert "2 well-separated groups" in page
    assert "one group" in page


def test_fit_warns_at_the_limit_and_says_what_to_do(circles):
    X, _, m = circles
    with pytest.warns(ClusterLimitWarning, match="Read the groups") as caught:
        again = StudentTMixture(10, **SHORT).fit(X)
    assert caught[0].filename == __file__
    assert not again.converged_
    assert "limit" in m.diagnostics().verdict
    rng = np.random.default_rng(0)
    blobs = rng.standard_normal((90, 2)) + np.repeat([[0.0], [30.0], [60.0]], 30, axis=0)
    with pytest.warns(ClusterLimitWarning, match="allow more, unless"):
        m = StudentTMixture(3, **SHORT).fit(blobs)
    assert m.n_groups_ == m.n_clusters_ == 3


@pytest.mark.slow
def test_weights_that_are_given_have_no_limit():
    rng = np.random.default_rng(0)
    blobs = rng.standard_normal((90, 2)) + np.repeat([[0.0], [30.0], [60.0]], 30, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClusterLimitWarning)
        StudentTMixture(3, prior="fixed", **SHORT).fit(blobs)


@pytest.mark.variants("slow", "uniform", "gaussian", "exponential")
@pytest.mark.parametrize("kind", ["moons", "uniform", "gaussian", "exponential", "blobs"])
def test_shapes(kind):
    rng = np.random.default_rng(3)
    X, truth = rng.standard_normal((200, 2)), np.zeros(200)
    if kind == "moons":
        X, truth = make_moons(200, noise=0.05, random_state=3)
    elif kind == "uniform":
        X = rng.random((200, 2))
    elif kind == "exponential":
        X = rng.exponential(size=(200, 2))
    elif kind == "blobs":
        truth = rng.integers(0, 4, 200)
        X += 8.0 * np.column_stack([truth // 2, truth % 2])
    m = fitted(X)
    assert adjusted_rand_score(truth, m.group_labels_) > 0.9
    share = m.posterior_.groups().n_clusters_posterior().get(len(set(truth)), 0.0)
    assert share > (0.5 if kind == "moons" else 0.9)


def test_units_of_columns_do_not_matter():
    rng = np.random.default_rng(5)
    X, mean = rng.standard_normal((50, 3)), rng.standard_normal((4, 3))
    root = np.tril(rng.standard_normal((4, 3, 3))) + 3.0 * np.eye(3)
    pairs = np.array([0, 1, 0]), np.array([1, 2, 3])

    def places(scale):
        whiten = np.linalg.inv(root * scale[:, None])
        draw = SimpleNamespace(mean=mean * scale, whiten=whiten)
        rows = Rows(X * scale, np.empty((50, 0), int), np.empty((50, 0)))
        return _Directions(draw, rows, np.zeros((4, 50)))(*pairs)

    scale = np.array([1000.0, 0.3, 7.0])
    np.testing.assert_allclose(places(scale), places(np.ones(3)), rtol=1e-8, atol=1e-9)


def test_tables_and_missing_values_have_groups():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 160)
    frame = pd.DataFrame({f"q{j}": np.where(rng.random(160) < 0.1 + 0.8 * truth, "a", "b")
                          for j in range(8)})  # fmt: skip
    frame["size"] = 6.0 * truth + rng.exponential(size=160)
    frame.loc[::9, "size"] = np.nan
    frame["visits"] = rng.poisson(1.0 + 6.0 * truth)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = TableMixture(5, feature_types={"visits": "count"}, **SHORT).fit(frame)
        X = np.column_stack([truth * 20.0 + rng.standard_normal(160), rng.standard_normal(160)])
        X[::7, 1] = np.nan
        gaps = StudentTMixture(4, **SHORT).fit(X)
    assert m.n_groups_ == 2
    assert adjusted_rand_score(truth, m.group_labels_) > 0.9
    assert adjusted_rand_score(truth, m.predict(frame, level="groups")) > 0.9
    assert adjusted_rand_score(truth, gaps.group_labels_) == 1.0


def test_noise_belongs_to_no_group():
    rng = np.random.default_rng(1)
    X = np.vstack([rng.standard_normal((80, 2)), rng.standard_normal((80, 2)) + 12.0])
    X[:4] = [[90.0, -80.0], [-95.0, 60.0], [70.0, 99.0], [-60.0, -90.0]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = StudentTMixture(4, noise=True, **SHORT).fit(X)
    assert m.n_groups_ == 2
    assert m.group_labels_[:4].tolist() == m.labels_[:4].tolist() == [-1] * 4
    assert set(m.predict(X, level="groups")) <= {-1, 0, 1}
