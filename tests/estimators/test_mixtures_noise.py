"""A noise class: rows outside every cluster."""

import numpy as np
import pandas as pd
import pytest

import cavity
from cavity import GaussianMixture, StudentTMixture

SMALL = {"n_chains": 2, "n_warmup": 60, "n_draws": 100, "random_state": 0, "n_jobs": 1}


def make_rows():
    """Two tight clusters, and rows scattered over a box around both."""
    rng = np.random.default_rng(3)
    X = 0.3 * rng.standard_normal((80, 2)) + np.repeat([[-3.0, 0.0], [3.0, 0.0]], 40, axis=0)
    far = np.array([[0.0, 8.0], [-9.0, -7.0], [8.0, 6.0], [0.5, -8.5], [9.0, -9.0], [-8.0, 9.0]])
    return np.vstack([X, far])


@pytest.fixture(scope="module")
def fitted():
    return GaussianMixture(2, noise=True, **SMALL).fit(make_rows())


def test_scattered_rows_are_noise(fitted):
    X = make_rows()
    assert (fitted.labels_[80:] == -1).all()
    assert (fitted.labels_[:80] >= 0).all()
    assert fitted.n_clusters_ == 2
    assert fitted.noise_probability_.shape == (86,)
    assert (fitted.noise_probability_[80:] > 0.9).all()
    assert fitted.noise_probability_[:80].max() < 0.5
    assert fitted.means_.shape == (2, 2)
    np.testing.assert_allclose(np.sort(fitted.means_[:, 0]), [-3.0, 3.0], atol=0.2)
    assert fitted.weights_.sum() == pytest.approx(1.0)
    # Clusters are counted without it.
    assert fitted.posterior_.n_clusters_posterior().loc[2] > 0.9
    # Without a place for them, the rows widen the clusters or make one of their own.
    plain = GaussianMixture(2, **SMALL).fit(X)
    assert plain.covariances_[:, 1, 1].max() > 4.0 * fitted.covariances_[:, 1, 1].max()


def test_new_rows(fitted):
    new = np.array([[-3.0, 0.1], [3.1, 0.0], [0.0, 7.0], [50.0, 50.0]])
    found = fitted.predict(new)
    assert found[:2].tolist() == fitted.predict(make_rows()[[0, 79]]).tolist()
    assert found[2:].tolist() == [-1, -1]
    table = fitted.membership(pd.DataFrame(new))
    assert table["cluster"].tolist() == found.tolist()
    places = table[["p_0", "p_1", "noise", "elsewhere"]].sum(axis=1)
    np.testing.assert_allclose(places, 1.0)
    np.testing.assert_allclose(fitted.predict_proba(new).sum(axis=1), 1.0)
    assert np.isfinite(fitted.score_samples(new)).all()
    rows, labels = fitted.sample(500, random_state=0)
    assert 0.01 < (labels == -1).mean() < 0.2
    assert np.isfinite(rows).all()


def test_files_page_and_leave_one_out(fitted, tmp_path):
    X = make_rows()
    fitted.save(tmp_path / "run.nc")
    again = cavity.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(again.labels_, fitted.labels_)
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    page = fitted.report(tmp_path / "page.html", X).read_text(encoding="utf-8")
    assert "outside every cluster" in page
    total = getattr(fitted.loo(X), "elpd_loo", 0.0)
    assert np.isfinite(total)
    assert fitted.distinguishing()[-1] == "noise: outside every cluster (label -1)"


def test_with_gaps_and_weights():
    X = make_rows()
    X[[3, 50, 82], [0, 1, 0]] = np.nan
    m = GaussianMixture(2, noise=True, **SMALL).fit(X)
    assert (m.labels_[[80, 81, 83, 84, 85]] == -1).all()
    assert np.isfinite(m.impute(X).mean).all()
    whole = ~np.isnan(X).any(axis=1)
    weighted = GaussianMixture(2, noise=True, **SMALL).fit(
        X[whole], sample_weight=np.full(int(whole.sum()), 2.0)
    )
    assert (weighted.labels_[-5:] == -1).sum() >= 4


def test_what_is_refused():
    X = make_rows()
    with pytest.raises(ValueError, match="noise must be True or False, not 'yes'"):
        GaussianMixture(2, noise="yes", **SMALL).check(X)
    with pytest.raises(ValueError, match="every prior but 'finite'"):
        GaussianMixture(2, noise=True, prior="finite", **SMALL).check(X)
    with pytest.raises(ValueError, match="missing values, sample_weight or noise"):
        StudentTMixture(2, noise=True, collapse="ep", **SMALL).check(X)
