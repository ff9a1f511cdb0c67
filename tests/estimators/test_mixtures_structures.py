"""Mixtures with independent columns, one covariance for all clusters, or factors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from loo_total import total_of
from sklearn.metrics import adjusted_rand_score

from cavity import GaussianMixture, StudentTMixture, TableMixture, load
from cavity.estimators.model import number_of_factors
from cavity.priors import ClusterPrior

N, D = 90, 4
SHORT = {"n_chains": 2, "n_warmup": 60, "n_draws": 60, "random_state": 0, "n_jobs": 1}
pytestmark = pytest.mark.filterwarnings("ignore::cavity.NotConvergedWarning")
FORMS = [pytest.param(form, marks=pytest.mark.slow) for form in ("diag", "tied", "factor")]


def rows(seed=0):
    """Two clusters side by side, a factor through both, a twentieth of the cells missing."""
    rng = np.random.default_rng(seed)
    truth = np.arange(N) % 2
    X = 5.0 * truth[:, None] + rng.standard_normal((N, D))
    X += rng.standard_normal((N, 1)) * np.array([1.0, 1.0, -0.5, 0.0])
    whole = X.copy()
    gap = rng.random(X.shape) < 0.05
    gap[gap.all(axis=1), 0] = False
    X[gap] = np.nan
    return X, whole, truth


@pytest.fixture(scope="module", params=FORMS)
def fitted(request):
    X, _, _ = rows()
    options = {"moves": False}  # which are enumerated in tests/exact/test_structures.py
    kind = request.param
    return StudentTMixture(2, covariance_type=kind, options=options, **SHORT).fit(X), kind


def test_clusters_and_their_covariances(fitted):
    m, form = fitted
    _, _, truth = rows()
    assert adjusted_rand_score(truth, m.labels_) > 0.9
    assert m.covariances_.shape == (2, D, D)
    assert np.linalg.eigvalsh(m.covariances_).min() > 0.0
    off = m.covariances_[:, ~np.eye(D, dtype=bool)]
    if form == "diag":
        assert np.all(off == 0.0)
        assert m.posterior_.parameters["variance"].shape[-1] == D
    elif form == "tied":
        assert np.array_equal(m.covariances_[0], m.covariances_[1])
        assert m.covariances_[0, 0, 1] > 0.3
    else:
        assert m.posterior_.parameters["loading"].shape[-2:] == (D, 1)
        assert np.all(m.covariances_[:, 0, 1] > 0.3)


def test_new_rows(fitted):
    m, _ = fitted
    X, whole, _ = rows(1)
    place = m.predict_proba(X, as_frame=True)
    parts = place.filter(regex=r"^p_").to_numpy()
    assert parts.sum(axis=1) == pytest.approx(1.0)
    assert np.isfinite(m.score_samples(whole)).all()
    assert np.isfinite(m.tail_probabilities(X)).all()
    drawn, labels = m.sample(200, 0)
    assert drawn.shape == (200, D)
    assert set(labels) <= {-1, 0, 1}


def test_the_density_is_one(fitted):
    """Over the plane of two columns, the others missing."""
    m, _ = fitted
    grid = np.linspace(-25.0, 30.0, 111)
    cells = np.full((grid.size**2, D), np.nan)
    cells[:, :2] = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    total = np.exp(m.score_samples(cells)).sum() * (grid[1] - grid[0]) ** 2
    assert total == pytest.approx(1.0, abs=0.02)


def test_gaps_are_filled(fitted):
    m, _ = fitted
    X, whole, _ = rows()
    gap = np.isnan(X)
    filled = m.impute(X)
    assert np.all(filled.lower[gap] < filled.upper[gap])
    assert np.sqrt(np.mean((filled.mean - whole)[gap] ** 2)) < 2.0


def test_leave_one_out_and_files(fitted, tmp_path):
    m, _ = fitted
    X, _, _ = rows()
    # By the kept draws' parameters, which know the row, its density is higher.
    elpd = total_of(m.loo(X))
    assert m.score_samples(X).sum() - 60.0 < elpd < m.score_samples(X).sum()
    again = load(m.save(tmp_path / "run.nc"))
    assert again.covariance_type == m.covariance_type
    assert again.covariances_ == pytest.approx(m.covariances_)
    assert again.predict_proba(X) == pytest.approx(m.predict_proba(X))
    assert m.report(tmp_path / "run.html", X).stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("form", ["diag", "tied", "factor"])
def test_a_run_goes_on_from_its_checkpoint(form, tmp_path):
    X, _, _ = rows()
    path = tmp_path / "run.ckpt"
    settings = {"covariance_type": form, "prior": "dp", **SHORT}
    once = StudentTMixture(2, **settings).fit(X)
    StudentTMixture(2, **{**settings, "n_draws": 20}, checkpoint=path).fit(X)
    done = StudentTMixture(2, **settings, checkpoint=path).fit(X)
    assert np.array_equal(done.posterior_.labels, once.posterior_.labels)
    for name, values in once.posterior_.drawn.items():
        assert np.array_equal(done.posterior_.drawn[name], values, equal_nan=True), name


@pytest.mark.slow
@pytest.mark.parametrize("form", ["diag", "tied"])
def test_weights_and_noise(form):
    _, whole, truth = rows()
    weight = np.where(np.arange(N) < 10, 3.0, 1.0)
    m = GaussianMixture(2, covariance_type=form, **SHORT).fit(whole, sample_weight=weight)
    again = GaussianMixture(2, covariance_type=form, **SHORT).fit(
        np.repeat(whole, weight.astype(int), axis=0)
    )
    order = np.argsort(m.means_[:, 0]), np.argsort(again.means_[:, 0])
    assert m.means_[order[0]] == pytest.approx(again.means_[order[1]], abs=0.15)
    far = np.vstack([whole, [[40.0, -40.0, 40.0, -40.0]]])
    noisy = StudentTMixture(2, covariance_type=form, noise=True, **SHORT).fit(far)
    assert noisy.labels_[-1] == -1
    assert adjusted_rand_score(truth, noisy.labels_[:-1]) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("form", ["diag", "tied", "factor"])
def test_a_block_of_a_table(form, tmp_path):
    X, _, truth = rows()
    table = pd.DataFrame(X, columns=list("abcd"))
    table["kind"] = np.where(np.random.default_rng(0).random(N) < 0.1 + 0.8 * truth, "x", "y")
    m = TableMixture(2, covariance_type=form, **SHORT).fit(table)
    assert adjusted_rand_score(truth, m.labels_) > 0.9
    assert m.covariances_.shape == (2, D, D)
    assert m.predict_proba(table).sum(axis=1) == pytest.approx(1.0)
    assert m.impute(table).mean[list("abcd")].notna().to_numpy().all()
    again = load(m.save(tmp_path / "run.nc"))
    assert again.score_samples(table) == pytest.approx(m.score_samples(table))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"covariance_type": "round"}, "covariance_type must be one of"),
        ({"covariance_type": "tied", "collapse": "naive"}, "needs collapse='collapsed'"),
        ({"covariance_type": "diag", "n_factors": 2}, "n_factors needs covariance_type='factor'"),
        ({"covariance_type": "factor", "n_factors": 0}, "n_factors must be"),
        ({"covariance_type": "factor", "n_factors": 4}, "fewer than the 4 columns"),
        (
            {"covariance_type": "diag", "cluster_prior": ClusterPrior(covariance_df=1.5)},
            "must exceed 2",
        ),
        (
            {"covariance_type": "tied", "cluster_prior": ClusterPrior(covariance_df=4.5)},
            r"columns plus 1 \(5\)",
        ),
        ({"covariance_type": "tied", "collapse": "parallel"}, "needs collapse='collapsed'"),
    ],
)
def test_settings_that_are_refused(settings, sentence):
    _, whole, _ = rows()
    with pytest.raises(ValueError, match=sentence):
        GaussianMixture(2, **settings).fit(whole)


def test_combinations_that_are_refused():
    _, whole, _ = rows()
    with pytest.raises(ValueError, match="Repeat the rows"):
        GaussianMixture(2, covariance_type="factor").fit(whole, sample_weight=np.arange(N) + 1.0)
    table = pd.DataFrame(whole, columns=list("abcd")).assign(visits=np.arange(N) % 5)
    types = {"visits": "overdispersed"}
    with pytest.raises(ValueError, match="not supported with overdispersed counts"):
        TableMixture(2, covariance_type="diag", feature_types=types).fit(table)


def test_the_number_of_factors_follows_the_data():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((400, 20))
    assert number_of_factors(noise, 1) == 1
    three = noise + rng.standard_normal((400, 3)) @ rng.standard_normal((3, 20))
    assert number_of_factors(three, 1) == 3
