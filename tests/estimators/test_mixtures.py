"""What the mixture estimators promise, on data small enough to be quick."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from loo_total import total_of
from scipy import stats
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score

from cavity import (
    ClusterLimitWarning,
    CoarseColumnsWarning,
    GaussianMixture,
    NotConvergedWarning,
    StudentTMixture,
    TableMixture,
)
from cavity.base import load
from cavity.datasets import make_student_t
from cavity.posterior import Loss, Posterior, expected_loss
from cavity.posterior.draws import canonical
from cavity.posterior.record import STEPS
from cavity.predict.draws import spread_draws
from cavity.priors import ClusterPrior, Dirichlet

pytestmark = pytest.mark.first(1)

RNG = np.random.default_rng(0)
SMALL = {"n_chains": 2, "n_warmup": 20, "n_draws": 30, "random_state": 4}
# Priors that are held: a chain without moves is compiled once for all tests.
HELD = {"cluster_prior": ClusterPrior(0.01, 6.0, 0.1), "concentration": 20.0}
BOTH = pytest.mark.parametrize("kind", [StudentTMixture, GaussianMixture])


@pytest.fixture(scope="module")
def data():
    return make_student_t(60, 3, 2, df=6, separation=25, random_state=7)


@pytest.fixture(scope="module")
def student_t(data):
    return StudentTMixture(3, n_jobs=2, **SMALL).fit(data[0])


@pytest.fixture(scope="module")
def gaussian(data):
    return GaussianMixture(3, n_jobs=2, **SMALL).fit(data[0])


@pytest.fixture(
    scope="module",
    params=["student_t", "gaussian"],
    ids=["StudentTMixture", "GaussianMixture"],
)
def fitted(request):
    return request.getfixturevalue(request.param)


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


@pytest.mark.slow
def test_the_answer_is_not_the_last_draw(data):
    X = np.random.default_rng(0).standard_normal((50, 2))
    m = StudentTMixture(3, prior="dirichlet", concentration=20.0, **SMALL).fit(X)
    draws = m.posterior_.flat_labels
    loss = m.partition_.loss
    mine = expected_loss(m.labels_, draws, loss=loss)
    assert m.partition_.expected_loss == pytest.approx(mine, abs=1e-12)
    assert mine < min(expected_loss(row, draws, loss=loss) for row in draws)
    last = draws[-1]
    assert m.posterior_.agreement(last)["ari"] < 1.0


@pytest.mark.slow
def test_the_loss_is_the_user_s(data, tmp_path):
    """Tables and pages read the same estimate, a file brings it back, and no draw depends on it."""
    X = np.random.default_rng(0).standard_normal((50, 2))
    checkpoint = {"checkpoint": tmp_path / "run.npz"}
    found, draws = {}, set()
    for loss in ("vi", "binder", "omari", Loss("vi", 0.5), Loss("binder", 1.6)):
        m = StudentTMixture(
            3, prior="dirichlet", concentration=20.0, loss=loss, **SMALL, **checkpoint
        ).fit(X)
        p = m.posterior_
        np.testing.assert_array_equal(m.labels_, p.partition(loss).labels)
        np.testing.assert_array_equal(m.labels_, p.view().labels)
        again = load(m.save(tmp_path / "m.nc"))
        assert again.loss == loss
        assert again.partition_.loss == p.loss == m.partition_.loss
        assert again.partition_.expected_loss == pytest.approx(m.partition_.expected_loss)
        found[str(loss)] = m.labels_
        draws.add(p.labels.tobytes())
    assert len(draws) == 1
    assert len({labels.tobytes() for labels in found.values()}) > 1
    with pytest.raises(ValueError, match="loss must be one of"):
        StudentTMixture(3, loss="rand").fit(X)


def test_same_seed_same_draws_whatever_the_threads(fitted, data):
    one = type(fitted)(3, n_jobs=1, **SMALL).fit(data[0]).posterior_
    two = fitted.posterior_
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(one.log_joint, two.log_joint)
    for name in one.parameters:
        np.testing.assert_array_equal(one.parameters[name], two.parameters[name])


def test_other_seed_other_draws(fitted, data):
    one = fitted.posterior_
    two = type(fitted)(3, **{**SMALL, "random_state": 5}).fit(data[0]).posterior_
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
        canonical(one.posterior_.labels)[:, -1], canonical(two.posterior_.labels)[:, -1]
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
    p = fitted.posterior_.drawn
    expected = _direct_density(fitted, data[0][:10])
    weight = p["weight"]
    try:
        p["weight"] = weight**1.1
        del fitted._predictor
        wrong = fitted.score_samples(data[0][:10])
    finally:
        p["weight"] = weight
        del fitted._predictor
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


@pytest.mark.parametrize("prior", ["dirichlet", "dp", "pitman-yor"])
@BOTH
def test_every_prior_runs(kind, prior, data):
    m = kind(3, prior=prior, concentration="learn", **SMALL).fit(data[0])
    assert np.isfinite(m.posterior_.log_joint).all()
    assert m.posterior_.parameters["concentration"].std() > 0
    assert m.posterior_.agreement(data[1].labels)["ari"] > 0.8


# Where no concentration is learned, sweeps are compiled without that step.
@pytest.mark.slow
@pytest.mark.parametrize("prior", ["fixed", "dirichlet", "dp", "pitman-yor"])
@BOTH
def test_every_prior_runs_as_given(kind, prior, data):
    m = kind(3, prior=prior, **SMALL).fit(data[0])
    assert np.isfinite(m.posterior_.log_joint).all()
    assert m.posterior_.agreement(data[1].labels)["ari"] > 0.8


@pytest.mark.variants("slow", "StudentTMixture-blocked", "*-naive")
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
    # Moves of EP have tests of their own (tests/exact/test_limits.py).
    options = {"keep_warmup": True, **({"moves": False} if collapse == "ep" else {})}
    m = kind(3, collapse=collapse, options=options, **SMALL).fit(data[0])
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


@pytest.mark.variants("slow", "inf-21.0-65.0")
@pytest.mark.parametrize(("true", "lower", "upper"), [(3.0, 2.4, 4.3), (np.inf, 21.0, 65.0)])
def test_learned_degrees_of_freedom_are_the_data_s(true, lower, upper):
    """However tight the clusters are; under the former fixed scale df = 3 came out as 5.5 here.

    Over other data sets of this size the posterior mean is 3.35 (standard deviation 0.19), and 43
    (4.4) without tails: five of these on either side, a false alarm below 1e-6.
    """
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
    fixed = kind(2, cluster_prior=ClusterPrior(covariance_scale=0.1), **SMALL).fit(X)
    assert "covariance_prior_scale" not in fixed.posterior_.parameters


@pytest.mark.variants("slow", "GaussianMixture")
@BOTH
def test_a_coarse_column_does_not_take_the_clustering_over(kind):
    """Zeros and ones: values are known up to a step, so narrow clusters gain little by them."""
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.standard_normal(200), rng.integers(2, size=200)])
    X[:100, 0] += 6.0
    m = kind(2, **SMALL).fit(X)
    assert sorted(np.bincount(m.labels_[:100], minlength=2).tolist()) == [0, 100]
    assert sorted(np.bincount(m.labels_[100:], minlength=2).tolist()) == [0, 100]
    assert np.nanmin(m.posterior_.parameters["covariance"][..., 1, 1]) > 1e-3


def test_a_saved_fit_gives_the_estimator_back(fitted, data, tmp_path):
    path = fitted.save(tmp_path / "run.nc")
    for again in (type(fitted).load(path), load(path)):
        assert type(again) is type(fitted)
        assert again.get_params() == fitted.get_params()
        np.testing.assert_array_equal(again.labels_, fitted.labels_)
        for name in ("weights_", "means_", "covariances_"):
            np.testing.assert_array_equal(getattr(again, name), getattr(fitted, name))
        for ask in ("predict_proba", "score_samples", "tail_probabilities"):
            np.testing.assert_array_equal(
                getattr(again, ask)(data[0]), getattr(fitted, ask)(data[0])
            )
        drawn = [m.sample(5, random_state=1)[0] for m in (again, fitted)]
        np.testing.assert_array_equal(*drawn)
        assert again.posterior_.record.seed == 4


@pytest.mark.variants("slow", "1e+130")
@pytest.mark.parametrize("scale", [1e-130, 1e130])
def test_a_fit_of_values_whose_fourth_powers_are_no_numbers_is_saved_too(
    data, gaussian, scale, tmp_path
):
    X = data[0] * scale
    m = GaussianMixture(3, **SMALL).fit(X)
    again = GaussianMixture.load(m.save(tmp_path / "run.nc"))
    np.testing.assert_array_equal(again.predict_proba(X), m.predict_proba(X))
    np.testing.assert_allclose(m.means_ / scale, gaussian.means_)


def test_settings_that_are_objects_come_back(data, tmp_path):
    start = np.arange(60) % 3
    prior = Dirichlet("learn", weights=[1, 1, 2])
    m = GaussianMixture(3, prior=prior, **{**SMALL, "init": start, "random_state": RNG}).fit(
        data[0]
    )
    again = GaussianMixture.load(m.save(tmp_path / "run.nc"))
    assert again.prior == m.prior
    np.testing.assert_array_equal(again.init, start)
    assert again.random_state is None  # a generator cannot be written down


def test_a_saved_fit_knows_its_columns(data, tmp_path):
    table = pd.DataFrame(data[0], columns=["a", "b"])
    m = GaussianMixture(3, **SMALL).fit(table)
    again = GaussianMixture.load(m.save(tmp_path / "run.nc"))
    np.testing.assert_array_equal(again.predict(table), m.predict(table))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(table[["b", "a"]])


def test_files_that_are_no_fit_of_this_estimator(fitted, tmp_path):
    path = Posterior.from_labels([[0, 0, 1]]).save(tmp_path / "other.nc")
    with pytest.raises(ValueError, match="an unknown model, not of StudentTMixture"):
        StudentTMixture.load(path)
    with pytest.raises(ValueError, match="no estimator of cavity answers for"):
        load(path)
    wrong = GaussianMixture if isinstance(fitted, StudentTMixture) else StudentTMixture
    with pytest.raises(ValueError, match=f"of {type(fitted).__name__}, not of {wrong.__name__}"):
        wrong.load(fitted.save(tmp_path / "run.nc"))


def test_parameters_of_the_estimate_have_scikit_learns_names(fitted, data):
    X, _ = data
    k = fitted.n_clusters_
    assert fitted.weights_.sum() == pytest.approx(1.0)
    assert (fitted.means_.shape, fitted.covariances_.shape) == ((k, 2), (k, 2, 2))
    assert fitted.cluster_centers_ is fitted.means_
    assert hasattr(fitted, "df_") == isinstance(fitted, StudentTMixture)
    own = [X[fitted.labels_ == j] for j in range(k)]
    # The Dirichlet's posterior mean. Sixty draws of weights whose standard deviation is
    # sqrt(2 / 9 / 121) = 0.043: five standard errors are 0.028, 2e-6 for the three.
    expected = [(20 + len(rows)) / (60 + len(X)) for rows in own]
    np.testing.assert_allclose(fitted.weights_, expected, atol=0.028)
    for j, rows in enumerate(own):
        # Mean and median of 20 rows differ with a standard deviation of 0.17 spreads: four of them
        # in six comparisons, 4e-4.
        spread = rows.std(axis=0)
        assert np.all(np.abs(fitted.means_[j] - np.median(rows, axis=0)) < 0.7 * spread)


def test_new_rows_are_drawn_from_the_mixture(fitted, data):
    """Shares of the clusters, five standard errors of 4,000 rows: 2e-6 for the three.

    Each column against its mixture over all draws and clusters: Kolmogorov-Smirnov at level 1e-4.
    """
    X, labels = fitted.sample(4000, random_state=2)
    assert X.shape == (4000, 2)
    shares = np.bincount(labels[labels >= 0], minlength=fitted.n_clusters_) / 4000
    assert np.all(np.abs(shares - fitted.weights_) < 5 * np.sqrt(2 / 9 / 4000))
    p = {name: v.reshape(60, *v.shape[2:]) for name, v in fitted.posterior_.parameters.items()}
    for j in range(2):
        scale = np.sqrt(p["covariance"][:, :, j, j])
        tails = (stats.t, p["df"]) if "df" in p else (stats.norm,)

        def mixture(x, j=j, scale=scale, tails=tails):
            z = (x[:, None, None] - p["mean"][:, :, j]) / scale
            parts = p["weight"] * tails[0].cdf(z, *tails[1:])
            return np.nansum(parts, axis=(1, 2)) / np.nansum(p["weight"])

        assert stats.kstest(X[:, j], mixture).pvalue > 1e-4
        # It has power: the other column's mixture is not this one's.
        assert stats.kstest(X[:, 1 - j], mixture).pvalue < 1e-8


def test_probabilities_of_training_rows_are_those_of_the_labels_table(fitted, data):
    """One rule matches clusters of draws to the estimate: the two tables cannot contradict.

    They differ by Monte Carlo error alone: sixty draws, five standard errors; 180 probabilities,
    nearly all of them next to 0 or 1, and so a false alarm below 1e-4.
    """
    table = fitted.predict_proba(data[0], as_frame=True)
    columns = [f"p_{k}" for k in range(fitted.n_clusters_)]
    np.testing.assert_allclose(table[[*columns, "p_unmatched"]].sum(axis=1), 1.0)
    allocated = fitted.posterior_.allocation_probabilities(fitted.partition_)
    found = fitted.predict_proba(data[0])
    assert np.abs(found - allocated).max() < 5 * np.sqrt(0.25 / 60)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(allocated.sum(axis=1), 1.0)


@pytest.mark.variants("slow", "10000000000.0")
@pytest.mark.parametrize("absurd", [1e10, pytest.param(1e30, marks=pytest.mark.slow)])
def test_one_absurd_value_spoils_nothing_but_its_row(absurd):
    """Eight tight clusters of eight rows; a value of 1e10 in one of them."""
    rng = np.random.default_rng(0)
    centres = np.array([(i, j) for i in range(4) for j in range(2)]) * 10.0
    X = np.repeat(centres, 8, axis=0) + 0.05 * rng.standard_normal((64, 2))
    truth = np.repeat(np.arange(8), 8)
    run = {"n_warmup": 200, "n_draws": 200, "random_state": 0}
    clean = StudentTMixture(8, **run).fit(X)
    X[20, 1] = absurd
    m = StudentTMixture(8, **run).fit(X)
    others = np.arange(64) != 20
    assert adjusted_rand_score(truth, clean.labels_) > 0.95
    assert adjusted_rand_score(truth[others], m.labels_[others]) > 0.95
    assert m.tail_probabilities(X).argmin() == 20


def test_the_row_that_was_spoiled_is_the_most_unusual():
    X = np.random.default_rng(3).standard_normal((50, 2))
    X[11] = [30.0, -40.0]
    m = StudentTMixture(1, **SMALL).fit(X)
    tail = m.tail_probabilities(X)
    assert tail.argmin() == 11
    assert tail[11] < 1 / 50
    assert np.all((tail > 0) & (tail <= 1))


def test_tail_probabilities_against_scipy(fitted, data):
    X = data[0]
    tail = fitted.tail_probabilities(X)
    expected = []
    for k in range(fitted.n_clusters_):
        away = X[5] - fitted.means_[k]
        distance = away @ np.linalg.solve(fitted.covariances_[k], away)
        if isinstance(fitted, StudentTMixture):
            expected.append(stats.f.sf(distance / 2, 2, fitted.df_[k]))
        else:
            expected.append(stats.chi2.sf(distance, 2))
    assert tail[5] == pytest.approx(max(expected), rel=1e-9)
    new = fitted.tail_probabilities(np.vstack([X[:3], [1e6, 99999.0]]))
    np.testing.assert_array_equal(new[:3], tail[:3])
    assert new[3] < 1e-3


def test_checkpoint_gives_the_same_draws(data, student_t, tmp_path):
    plain = student_t.posterior_
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


@pytest.mark.slow
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


# Parts of the package that only some fits need, or only what is asked of a fit later.
ONLY_SOME = (
    "collapse.ep", "collapse.naive", "collapse.structures", "collapse.tables",
    "likelihoods.latent_cells", "likelihoods.product", "moves.noise", "mcmc.remote", "distributed",
    "series", "predict.predictor", "posterior.diagnostics", "plotting", "report", "cli",
)  # fmt: skip


@pytest.mark.variants("slow", "class")
@pytest.mark.parametrize(
    ("assembled", "most"), [("", 99), ("collapses_of('student-t')", 118)], ids=["class", "collapse"]
)
def test_an_estimator_loads_what_all_its_fits_need(assembled, most):
    """Few modules before a fit, and the kernels of its own collapse with it."""
    code = (
        "import sys; from cavity import StudentTMixture\n"
        "from cavity.collapse.registry import collapses_of\n"
        f"{assembled}\n"
        "loaded = [m for m in sys.modules if m.split('.')[0] == 'cavity']\n"
        f"others = [m for m in {ONLY_SOME!r} if 'cavity.' + m in loaded]\n"
        "print(len(loaded), others)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    n, others = ran.stdout.split(" ", 1)
    assert others.strip() == "[]"
    assert int(n) <= most


def test_public_names():
    import cavity

    assert {"StudentTMixture", "GaussianMixture", "Posterior"} <= set(dir(cavity))
    with pytest.raises(AttributeError, match="no attribute 'Mixture'"):
        _ = cavity.Mixture


def test_fit_says_when_the_chains_are_not_shown_to_agree(data):
    """A category of its own, so that it can be silenced alone; the verdict stays on the object."""
    with pytest.warns(NotConvergedWarning, match="Not shown to have converged"):
        short = GaussianMixture(3, n_chains=1, n_warmup=0, n_draws=5, random_state=0).fit(data[0])
    assert short.converged_ is False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", NotConvergedWarning)
        warnings.simplefilter("ignore", ClusterLimitWarning)
        GaussianMixture(3, n_chains=1, n_warmup=0, n_draws=5, random_state=0).fit(data[0])


def test_coarse_columns_are_named_with_a_remedy(data):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(data[0], columns=["width", "height"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoarseColumnsWarning)
        StudentTMixture(2, **SMALL).fit(table)
        StudentTMixture(1, **SMALL).fit(np.round(table[:19]))  # rows too few to tell
        StudentTMixture(1, **SMALL).fit(table.assign(constant=3.0))
    spoiled = table.assign(sex=rng.integers(2, size=60), rain=np.maximum(table["width"], 0.0))
    with pytest.warns(CoarseColumnsWarning) as found:
        StudentTMixture(2, **SMALL).fit(spoiled)
    text = str(next(w.message for w in found if w.category is CoarseColumnsWarning))
    assert text.startswith("Column 'sex' has 2 values; column 'rain' is 0 in ")
    assert "Leave them out" in text
    assert "width" not in text.split(". A cluster")[0]


def test_moves_are_tried_counted_and_left_out_on_request(data, student_t):
    m = student_t
    assert m.posterior_.events["exchange_tries"].sum() > 0
    moves = m.diagnostics().moves
    assert moves.index.tolist() == ["exchange", "split and merge", "pinch"]
    for part in ("tries", "accepted"):
        total = m.posterior_.events[f"exchange_{part}"].sum()
        assert moves.loc["exchange", part] == total
    assert moves["acceptance"].between(0, 1).all()
    assert 0 < moves["time_share"].sum() < 1
    assert "split and merge" in str(m.diagnostics())
    assert not any("exchange" in name for name in m.diagnostics().events.index)
    settings = {**SMALL, **HELD, "options": {"moves": False}}
    plain = GaussianMixture(3, **settings).fit(data[0]).posterior_
    assert "exchange_tries" not in plain.events


@pytest.mark.variants(
    "slow",
    "GaussianMixture-*",
    "TableMixture-parallel",
    "StudentTMixture-parallel",
    "TableMixture-collapsed",
)
@pytest.mark.parametrize("collapse", ["collapsed", "parallel"])
@pytest.mark.parametrize("kind", [StudentTMixture, GaussianMixture, TableMixture])
def test_load_restores_every_fitted_attribute(kind, collapse, tmp_path, data):
    X = pd.DataFrame(data[0], columns=[f"c{j}" for j in range(data[0].shape[1])])
    m = kind(3, collapse=collapse, noise=collapse == "collapsed", **SMALL).fit(X)
    again = load(m.save(tmp_path / "run.nc"))
    names = [n for n in vars(m) if n.endswith("_") and not n.startswith("_")]
    assert {"labels_", "converged_", "means_", "n_features_in_", "weights_"} <= set(names)
    assert sorted(names) == sorted(n for n in vars(again) if n.endswith("_") and n[0] != "_")
    for name in names:
        value, other = getattr(m, name), getattr(again, name)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, other, err_msg=name)
        elif isinstance(value, bool | int):
            assert value == other, name
    if collapse == "collapsed":
        with pytest.raises(ValueError, match="Pass X to loo"):
            again.loo()
        assert total_of(m.loo()) == pytest.approx(total_of(again.loo(X)), rel=1e-7)


def test_fit_takes_what_check_returns(data, student_t):
    m = StudentTMixture(3, **SMALL)
    prepared = m.check(data[0])
    assert not hasattr(m, "n_features_in_")
    found = m.fit(prepared).posterior_.labels
    np.testing.assert_array_equal(found, student_t.posterior_.labels)
    with pytest.raises(ValueError, match="Settings have changed since check"):
        m.set_params(n_clusters=4).fit(prepared)


def test_predictions_of_rounded_rows_agree_with_their_draws(tmp_path):
    """Rows of overlapping clusters, two columns rounded to more than a cluster's width."""
    rng = np.random.default_rng(3)
    narrow = np.array([0.4, 0.4, 3.0])
    X = np.vstack([rng.normal(0.0, narrow, (60, 3)), rng.normal(0.9, 2.5, (60, 3))])
    X[:, :2] = np.round(X[:, :2])
    settings = {"n_chains": 2, "n_warmup": 200, "n_draws": 600, "progress": False}
    model = StudentTMixture(2, df=50.0, noise=False, random_state=0, **settings).fit(X)
    drawn = model.posterior_.allocation_probabilities()

    def apart(model):
        return np.abs(model.predict_proba(X) - drawn).max(axis=1)

    assert apart(model).max() < 0.1
    assert apart(load(model.save(tmp_path / "fit.nc"))).max() < 0.1
    # Taken as exact, rounded rows go to the narrow cluster too often.
    del model.posterior_.summaries[STEPS], model._predictor
    assert apart(model).max() > 0.2
