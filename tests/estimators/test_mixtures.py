"""What the mixture estimators promise, on data small enough to be quick."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

from cavity import GaussianMixture, StudentTMixture
from cavity.datasets import make_student_t
from cavity.estimators.predictive import spread_draws
from cavity.estimators.saved import mixture_from_posterior
from cavity.estimators.unusual import tail_probabilities
from cavity.posterior import Posterior, expected_loss

SMALL = {"n_chains": 2, "n_warmup": 20, "n_draws": 30, "random_state": 4}
BOTH = pytest.mark.parametrize("kind", [StudentTMixture, GaussianMixture])


@pytest.fixture(scope="module")
def data():
    return make_student_t(60, 3, 2, df=6, separation=25, random_state=7)


@pytest.fixture(scope="module", params=[StudentTMixture, GaussianMixture])
def fitted(request, data):
    return request.param(3, **SMALL).fit(data[0])


def test_well_separated_clusters_are_found(fitted, data):
    assert fitted.posterior_.agreement(data[1].labels)["ari"] > 0.9
    assert fitted.n_clusters_ == 3
    assert fitted.labels_.shape == (60,)
    assert set(fitted.labels_) == {0, 1, 2}


def test_shapes_of_the_draws(fitted):
    p = fitted.posterior_
    assert p.labels.shape == (2, 30, 60)
    assert p.labels.dtype.itemsize == 1
    assert p.log_joint.shape == (2, 30)
    assert p.sweep_seconds.shape == (2, 50)
    assert p.labels_warmup is None


def test_the_answer_is_not_the_last_draw(data):
    X = np.random.default_rng(0).standard_normal((50, 2))
    m = StudentTMixture(3, **SMALL).fit(X)
    draws = m.posterior_.flat_labels
    mine = expected_loss(m.labels_, draws)
    assert m.partition_.expected_loss == pytest.approx(mine, abs=1e-12)
    assert mine < min(expected_loss(row, draws) for row in draws)
    last = draws[-1]
    assert m.posterior_.agreement(last)["ari"] < 1.0


@BOTH
def test_same_seed_same_draws_whatever_the_threads(kind, data):
    one = kind(3, n_jobs=1, **SMALL).fit(data[0]).posterior_
    two = kind(3, n_jobs=2, **SMALL).fit(data[0]).posterior_
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(one.log_joint, two.log_joint)
    for name in one.parameters:
        np.testing.assert_array_equal(one.parameters[name], two.parameters[name])


@BOTH
def test_other_seed_other_draws(kind, data):
    one = kind(3, **SMALL).fit(data[0]).posterior_
    two = kind(3, **{**SMALL, "random_state": 5}).fit(data[0]).posterior_
    assert not np.array_equal(one.parameters["mean"], two.parameters["mean"])


@BOTH
def test_relabelled_start_changes_no_partition(kind, data):
    """Clusters have no names: renaming those of the start renames those of the draws."""
    X, truth = data
    rename = np.array([2, 0, 1])
    settings = {**SMALL, "n_warmup": 0, "n_draws": 5}
    one = kind(3, init=truth.labels, **settings).fit(X)
    two = kind(3, init=rename[truth.labels], **settings).fit(X)
    # Draws of the two runs differ, since random numbers meet clusters in another order; on clusters
    # this far apart both stay at the same partition.
    np.testing.assert_array_equal(
        one.posterior_.canonical_labels()[:, -1], two.posterior_.canonical_labels()[:, -1]
    )
    np.testing.assert_array_equal(one.labels_, two.labels_)


def test_units_and_origins_of_columns_do_not_matter(fitted, data):
    X = data[0] * np.array([1e4, 1e-3]) + np.array([-7.0, 1e2])
    other = type(fitted)(3, **SMALL).fit(X)
    np.testing.assert_array_equal(other.labels_, fitted.labels_)
    np.testing.assert_allclose(
        other.score_samples(X), fitted.score_samples(data[0]) - np.log(10.0), atol=1e-6
    )


def _direct_density(m, X):
    """Log predictive density, draw by draw and cluster by cluster with SciPy."""
    p = m.posterior_.parameters
    flat = {name: p[name].reshape(-1, *p[name].shape[2:]) for name in p}
    per_draw = []
    for s in spread_draws(len(flat["weight"])):
        terms = []
        for k in np.flatnonzero(np.isfinite(flat["weight"][s])):
            mean, covariance = flat["mean"][s, k], flat["covariance"][s, k]
            if "df" in flat:
                density = stats.multivariate_t(mean, covariance, df=flat["df"][s, k])
            else:
                density = stats.multivariate_normal(mean, covariance)
            terms.append(np.log(flat["weight"][s, k]) + density.logpdf(X))
        per_draw.append(logsumexp(terms, axis=0))
    return logsumexp(per_draw, axis=0) - np.log(len(per_draw))


def test_score_samples_is_the_mixture_density(fitted, data):
    X = np.vstack([data[0][:10], data[0][:3] + 100.0])
    expected = _direct_density(fitted, X)
    np.testing.assert_allclose(fitted.score_samples(X), expected, rtol=1e-9, atol=1e-9)
    assert fitted.score(X) == pytest.approx(expected.mean())


def test_a_density_with_wrong_weights_is_noticed(fitted, data):
    """Negative control of the comparison above."""
    p = fitted.posterior_.parameters
    expected = _direct_density(fitted, data[0][:10])
    weight = p["weight"]
    try:
        p["weight"] = weight[:, :, ::-1]
        wrong = fitted.score_samples(data[0][:10])
    finally:
        p["weight"] = weight
    assert np.abs(wrong - expected).max() > 1e-6


def test_probabilities(fitted, data):
    probability = fitted.predict_proba(data[0])
    assert probability.shape == (60, 3)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    np.testing.assert_array_equal(fitted.predict(data[0]), probability.argmax(axis=1))
    assert np.mean(fitted.predict(data[0]) == fitted.labels_) > 0.95


def test_densities_far_away_are_ordered_and_never_nan(fitted):
    away = np.array([[1e3, 0.0], [1e6, 0.0], [1e100, 0.0], [1e200, 0.0]])
    score = fitted.score_samples(away)
    assert not np.isnan(score).any()
    assert np.all(np.diff(score) < 0)
    if isinstance(fitted, StudentTMixture):
        assert np.isfinite(score).all()
    np.testing.assert_allclose(fitted.predict_proba(away).sum(axis=1), 1.0)


@pytest.mark.parametrize("prior", ["fixed", "dirichlet", "dp", "pitman-yor"])
@BOTH
def test_every_prior_runs(kind, prior, data):
    m = kind(3, prior=prior, **SMALL).fit(data[0])
    assert np.isfinite(m.posterior_.log_joint).all()
    assert m.posterior_.agreement(data[1].labels)["ari"] > 0.8


@pytest.mark.parametrize(
    ("kind", "collapse"),
    [
        (StudentTMixture, "ep"),
        (StudentTMixture, "blocked"),
        (StudentTMixture, "naive"),
        (GaussianMixture, "collapsed"),
        (GaussianMixture, "naive"),
    ],
)
def test_every_collapse_runs(kind, collapse, data):
    m = kind(3, collapse=collapse, keep_warmup=True, **SMALL).fit(data[0])
    assert np.isfinite(m.posterior_.log_joint).all()
    assert m.posterior_.agreement(data[1].labels)["ari"] > 0.8
    assert m.posterior_.labels_warmup.shape == (2, 20, 60)


@pytest.mark.parametrize("df", ["learn", "learn-each"])
def test_degrees_of_freedom_are_drawn_when_asked(df, data):
    m = StudentTMixture(3, df=df, **SMALL).fit(data[0])
    drawn = m.posterior_.parameters["df"]
    drawn = drawn[np.isfinite(drawn)]
    assert len(np.unique(drawn)) > 10
    assert (drawn > 0).all()


@pytest.mark.parametrize(("true", "lower", "upper"), [(3.0, 2.0, 4.5), (np.inf, 20.0, 200.0)])
def test_learned_degrees_of_freedom_are_the_data_s(true, lower, upper):
    """However tight the clusters are; under the former fixed scale df = 3 came out as 5.5 here."""
    X, _ = make_student_t(600, 4, 2, true, "easy", random_state=208)
    m = StudentTMixture(4, n_chains=2, n_warmup=100, n_draws=100, random_state=0).fit(X)
    assert lower < np.nanmean(m.posterior_.parameters["df"]) < upper


@BOTH
def test_the_scale_of_covariances_is_learned_by_column(kind):
    """Clusters that are tight in one column and wide in the other."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 2)) * [0.01, 1.0]
    X[:100] += [3.0, 0.5]
    m = kind(2, **SMALL).fit(X)
    drawn = m.posterior_.parameters["covariance_prior_scale"]
    assert drawn.shape == (2, 30, 2)
    tight, wide = np.median(drawn, axis=(0, 1))
    assert 1e-6 < tight < 1e-3
    assert 0.1 < wide < 10.0
    fixed = kind(2, covariance_prior_scale=0.1, **SMALL).fit(X)
    assert "covariance_prior_scale" not in fixed.posterior_.parameters


@BOTH
def test_a_coarse_column_keeps_the_scale_of_its_steps(kind):
    """Noughts and ones: a cluster with one of them has no width there, and the scale a floor."""
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.standard_normal(200), rng.integers(2, size=200)])
    X[:100, 0] += 6.0
    m = kind(2, **SMALL).fit(X)
    # A step of one has variance 1/12; the interquartile range of one makes the unit 1/1.349.
    floor = 1.349**2 / 12.0
    lowest = m.posterior_.parameters["covariance_prior_scale"][..., 1].min()
    assert floor <= lowest < 1.1 * floor


def test_learned_concentration_is_kept(data):
    m = GaussianMixture(3, prior="dp", concentration="learn", **SMALL).fit(data[0])
    assert m.posterior_.parameters["concentration"].std() > 0


def test_a_saved_posterior_gives_the_estimator_back(fitted, data, tmp_path):
    path = fitted.posterior_.save(tmp_path / "run.nc")
    again = mixture_from_posterior(Posterior.load(path), fitted.labels_)
    assert type(again) is type(fitted)
    assert again.n_clusters == 3
    np.testing.assert_array_equal(again.labels_, fitted.labels_)
    np.testing.assert_array_equal(again.predict_proba(data[0]), fitted.predict_proba(data[0]))
    np.testing.assert_array_equal(again.score_samples(data[0]), fitted.score_samples(data[0]))
    searched = mixture_from_posterior(Posterior.load(path))
    np.testing.assert_array_equal(searched.labels_, fitted.labels_)


def test_a_saved_posterior_knows_its_columns(data, tmp_path):
    table = pd.DataFrame(data[0], columns=["a", "b"])
    m = GaussianMixture(3, **SMALL).fit(table)
    again = mixture_from_posterior(Posterior.load(m.posterior_.save(tmp_path / "run.nc")))
    np.testing.assert_array_equal(again.predict(table), m.predict(table))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(table[["b", "a"]])


def test_draws_of_other_samplers_are_no_mixture():
    with pytest.raises(ValueError, match="unknown model, not of a mixture"):
        mixture_from_posterior(Posterior.from_labels([[0, 0, 1]]))


def test_wrong_labels_for_a_saved_posterior(fitted):
    with pytest.raises(ValueError, match="labels must be 60 integers"):
        mixture_from_posterior(fitted.posterior_, [0, 1])


def test_the_row_that_was_spoiled_is_the_most_unusual():
    X = np.random.default_rng(3).standard_normal((50, 2))
    X[11] = [30.0, -40.0]
    m = StudentTMixture(1, **SMALL).fit(X)
    tail = tail_probabilities(m, X)
    assert tail.argmin() == 11
    assert tail[11] < 1 / 50
    assert np.all((tail > 0) & (tail <= 1))


def test_tail_probabilities_against_scipy(fitted, data):
    X = data[0]
    tail = tail_probabilities(fitted, X)
    k = fitted.labels_[5]
    mean = fitted.posterior_.parameter_summary("mean")["mean"][k]
    covariance = fitted.posterior_.parameter_summary("covariance")["mean"][k]
    away = X[5] - mean
    distance = away @ np.linalg.solve(covariance, away)
    if isinstance(fitted, StudentTMixture):
        df = fitted.posterior_.parameter_summary("df")["mean"][k]
        expected = stats.f.sf(distance / 2, 2, df)
    else:
        expected = stats.chi2.sf(distance, 2)
    assert tail[5] == pytest.approx(expected, rel=1e-9)


def test_checkpoint_gives_the_same_draws(data, tmp_path):
    plain = StudentTMixture(3, **SMALL).fit(data[0]).posterior_
    settings = {**SMALL, "n_draws": 10}
    path = tmp_path / "checkpoint"
    StudentTMixture(3, checkpoint=path, **settings).fit(data[0])
    longer = StudentTMixture(3, checkpoint=path, **SMALL).fit(data[0]).posterior_
    np.testing.assert_array_equal(longer.labels, plain.labels)
    np.testing.assert_array_equal(longer.log_joint, plain.log_joint)


INTERRUPTED = """
import sys, threading, time, os, signal, warnings
import numpy as np
from cavity import StudentTMixture
warnings.simplefilter("ignore")
X = np.random.default_rng(0).standard_normal((60, 2))
m = StudentTMixture(2, n_chains=2, n_warmup=5, n_draws=10_000_000, random_state=0, n_jobs=1)
StudentTMixture(2, n_chains=1, n_warmup=1, n_draws=1, random_state=0).fit(X)
print("ready", flush=True)
m.fit(X)
p = m.posterior_
assert p.record.interrupted
assert 0 < p.n_draws < 10_000_000
assert np.isfinite(p.log_joint).all()
assert m.labels_.shape == (60,) and m.predict(X).shape == (60,)
print("draws", p.n_draws, flush=True)
"""


def test_an_interrupt_leaves_the_draws_usable():
    import signal
    import time

    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    assert out.startswith("draws ")


HEAVY = ("numba", "sklearn", "pandas", "matplotlib", "scipy", "arviz", "xarray", "rich", "typer")


def test_import_is_quick_and_light():
    code = (
        "import sys, time; start = time.perf_counter(); import cavity; "
        "took = time.perf_counter() - start; "
        f"print(took, [m for m in {HEAVY!r} if m in sys.modules])"
    )
    # The best of three: the first may have to write byte code or wait for the disk.
    took = []
    for _ in range(3):
        out = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        seconds, loaded = out.stdout.split(" ", 1)
        assert loaded.strip() == "[]"
        took.append(float(seconds))
    assert min(took) < 1.5


def test_public_names():
    import cavity

    assert {"StudentTMixture", "GaussianMixture", "Posterior"} <= set(dir(cavity))
    with pytest.raises(AttributeError, match="no attribute 'Mixture'"):
        _ = cavity.Mixture
