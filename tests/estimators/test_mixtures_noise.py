"""A noise class: rows outside every cluster."""

import numpy as np
import pandas as pd
import pytest
from loo_total import total_of
from scipy import stats

import cavity
from cavity import GaussianMixture, StudentTMixture
from cavity.datasets import add_outliers, make_student_t
from cavity.estimators.noise import is_noisy, rows_alone, without_leftovers
from cavity.predict.noise import REACH, Noise, noise_box

SMALL = {"n_chains": 2, "n_warmup": 60, "n_draws": 100, "random_state": 0, "n_jobs": 1}


def make_rows():
    """Two tight clusters, and rows scattered over a box around both."""
    rng = np.random.default_rng(3)
    X = 0.3 * rng.standard_normal((80, 2)) + np.repeat([[-3.0, 0.0], [3.0, 0.0]], 40, axis=0)
    far = np.array([[0.0, 8.0], [-9.0, -7.0], [8.0, 6.0], [0.5, -8.5], [9.0, -9.0], [-8.0, 9.0]])
    return np.vstack([X, far])


@pytest.fixture(scope="module")
def fitted():
    return StudentTMixture(2, noise=True, **SMALL).fit(make_rows())


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
    plain = GaussianMixture(2, noise=False, **SMALL).fit(X)
    assert plain.covariances_[:, 1, 1].max() > 4.0 * fitted.covariances_[:, 1, 1].max()


def test_noise_has_one_probability(fitted):
    """Noise matches noise in every draw, and nothing else does."""
    rows = fitted.posterior_.observations()
    outside = (rows["cluster"] == -1).to_numpy()
    assert outside.sum() == 6
    chance = fitted.noise_probability_
    np.testing.assert_allclose(rows["probability"][outside], chance[outside])
    elsewhere = (rows["alternative"] == -1).to_numpy(bool, na_value=False)
    np.testing.assert_allclose(rows["alternative_probability"][elsewhere], chance[elsewhere])


def test_replicates_have_noise_and_weights_their_error(fitted):
    X = make_rows()
    # The farthest rows of the data are noise, and so are those of replicates.
    assert fitted.predictive_check(X, 100)["p"].min() > 0.01
    # Forty of 86 rows: what such a share leaves open about the population, by its Beta.
    found = fitted.posterior_.parameter_summary("weight")
    exact = stats.beta(86 * 0.46, 86 * 0.54).ppf([0.025, 0.975])
    assert np.ptp(exact) == pytest.approx(found["upper"][0] - found["lower"][0], rel=0.15)


@pytest.mark.usefixtures("without_pictures")
def test_the_report_names_rows_outside_every_cluster(fitted, tmp_path):
    page = fitted.report(tmp_path / "page.html", make_rows()).read_text()
    part = page.partition('id="outside"')[2].partition("</table>")[0]
    assert part.count("<tr>") == 7  # and a head


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_draws_with_every_row_in_the_noise():
    # Values so close that they are not taken for rounded ones, which have kernels of their own.
    X = np.array([[0.0, -2.0], [0.005, 4.0], [6.0, 4.005]])
    m = StudentTMixture(2, noise=True, **SMALL).fit(X)
    none = (m.posterior_.flat_labels == 0).all(axis=1)
    assert none.any()
    # No cluster has degrees of freedom then, so that the shared ones come from their prior.
    assert not np.isfinite(m.posterior_.drawn["df"].reshape(len(none), -1)[none]).any()
    assert np.isfinite(m.score_samples(X)).all()
    assert m.posterior_.groups().n_clusters_posterior().loc[0] == pytest.approx(none.mean())


def test_rows_alone_decide_whether_there_is_noise():
    X = make_rows()
    assert np.flatnonzero(rows_alone(X)).tolist() == list(range(80, 86))
    assert is_noisy("auto", X)
    assert not is_noisy("auto", X[:80])
    # One alone is not enough, nor are fewer than one in fifty.
    assert not is_noisy("auto", X[:81])
    rng = np.random.default_rng(0)
    many = np.vstack([rng.standard_normal((800, 2)), 50.0 * rng.standard_normal((5, 2))])
    assert rows_alone(many)[800:].sum() >= 4
    assert not is_noisy("auto", many)
    # What is set is set.
    assert is_noisy(True, X[:80])
    assert not is_noisy(False, X)


@pytest.mark.parametrize("df", [2.0, 5.0, np.inf])
@pytest.mark.parametrize("d", [2, 6])
def test_heavy_tails_are_not_noise_and_rows_everywhere_are(df, d):
    X, _ = make_student_t(400, 4, d, df=df, separation=12, random_state=3)
    X = X / X.std(axis=0)
    assert not is_noisy("auto", X)
    assert is_noisy("auto", add_outliers(X, 0.05, random_state=3)[0])


CLEAN = {
    "t3": lambda rng, d: rng.standard_normal((300, d)) / np.sqrt(rng.chisquare(3, (300, 1)) / 3),
    "cauchy": lambda rng, d: rng.standard_normal((300, d)) / rng.standard_normal((300, 1)),
    "lognormal": lambda rng, d: np.exp(rng.standard_normal((300, d))),
    "normal": lambda rng, d: rng.standard_normal((300, d)) + 6.0 * rng.integers(3, size=(300, 1)),
}


@pytest.mark.variants("slow", "*-2")
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("name", CLEAN)
def test_clean_tables_seldom_have_noise(name, d):
    """Once 13 to 19% of t3 and lognormal tables, 31% of Cauchy, 22 to 43% of one column."""
    rng = np.random.default_rng(7)
    found = 0
    for _ in range(40):
        X = CLEAN[name](rng, d)
        low, middle, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
        found += is_noisy("auto", 1.349 * (X - middle) / (high - low))
    print(f"{name} d={d}: {found} of 40")
    # Rates of 5% or less: six or more of 40 have probability .014.
    assert found <= 6


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_density_of_noise_is_proper(d):
    """By importance sampling from wide Cauchy columns, box ends and what is beyond included."""
    rng = np.random.default_rng(8)
    box = np.vstack([rng.uniform(-9.0, -5.0, d), rng.uniform(10.0, 20.0, d)])
    noise = Noise(box, np.empty(0), np.empty(0, dtype=np.int64))
    x = 6.0 * rng.standard_cauchy((400_000, d))
    log_proposal = -np.log(6.0 * np.pi * (1.0 + (x / 6.0) ** 2)).sum(axis=1)
    ratio = np.exp(noise.of_measurements(x) - log_proposal)
    error = ratio.std() / np.sqrt(len(x))
    assert abs(ratio.mean() - 1.0) < 4.0 * error < 0.1
    inside = box[0] + 0.1 * box[1] + 0.8 * box[1] * rng.random((50, d))
    np.testing.assert_allclose(noise.of_measurements(inside), -np.log(box[1]).sum())
    drawn = noise.draw(20_000, rng).continuous
    outside = ((drawn < box[0]) | (drawn > box[0] + box[1])).any(axis=1)
    assert 0.007 < outside.mean() < 0.013
    # Far out it falls off, and with all columns missing there is no density.
    far = box[0] + box[1] * np.array([[10.0], [1000.0]])
    steps = np.diff(noise.of_measurements(far))
    assert steps[0] == pytest.approx(-2.0 * d * np.log(100.0), rel=0.05)
    assert noise.of_measurements(np.full((1, d), np.nan))[0] == 0.0


def test_scores_of_a_fit_with_noise_integrate_to_one():
    """On a wide grid; the density was constant beyond the data and integrated to more."""
    rng = np.random.default_rng(9)
    x = np.concatenate([rng.standard_normal(60), rng.uniform(-60.0, 60.0, 6)])
    m = StudentTMixture(2, noise=True, **SMALL).fit(x[:, None])
    low, high = -60_000.0, 60_000.0
    # Fine in the middle, in logarithms further out.
    t = np.linspace(np.arcsinh(low), np.arcsinh(high), 20_001)
    density = np.exp(m.score_samples(np.sinh(t)[:, None])) * np.cosh(t)
    assert density.sum() * (t[1] - t[0]) == pytest.approx(1.0, abs=0.002)
    far = m.score_samples([[1e3], [1e5]])
    assert far[0] > far[1] + 8.0
    assert m.predict([[1e5]])[0] == -1


def test_rows_that_repeat_each_other_tell_nothing():
    assert not rows_alone(np.repeat(np.arange(6.0), 10)[:, None]).any()
    assert not rows_alone(np.zeros((3, 2))).any()


def test_by_default_the_data_decide(fitted):
    X = make_rows()
    m = StudentTMixture(2, **SMALL).fit(X)
    np.testing.assert_array_equal(m.labels_, fitted.labels_)
    inside = StudentTMixture(2, **SMALL).fit(X[:80])
    assert not inside.posterior_.record.noise
    assert (inside.labels_ >= 0).all()


def test_a_row_that_is_rarely_noise_is_not_left_alone():
    draws = np.array([[1, 1, 2, 2, 1, 0, 0], [1, 1, 2, 2, 0, 0, 0], [1, 1, 2, 2, 2, 0, 0]])
    draws = np.vstack([draws, draws[:1]])
    outside = (draws == 0).mean(axis=0)
    found = without_leftovers(np.array([0, 0, 1, 1, 2, 2, 2]), outside, draws)
    assert found.tolist() == [0, 0, 1, 1, 0, 2, 2]
    # Where all are noise, and where none is left behind, nothing changes.
    same = np.array([0, 0, 0, 0, 0, 1, 1])
    assert without_leftovers(same, outside, draws).tolist() == same.tolist()
    # Rows that are noise now and then are no cluster beyond those that there may be.
    rare = np.where(draws == 0, 1, draws)
    rare[0, 5:] = 0
    chosen = np.array([0, 0, 1, 1, 0, 2, 2])
    assert without_leftovers(chosen, (rare == 0).mean(axis=0), rare, 3).tolist() == chosen.tolist()
    assert without_leftovers(chosen, (rare == 0).mean(axis=0), rare, 2).tolist()[5:] == [0, 0]
    everything = np.ones(7)
    assert without_leftovers(same, everything, draws).tolist() == same.tolist()


def test_noise_lies_beyond_clean_data():
    # Over the bare range of a clean table noise would take the edges of clusters.
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 3))
    low, width = noise_box(X, "auto")
    assert (low <= -REACH).all()
    assert (low + width >= REACH).all()
    low, width = noise_box(20.0 * X, "auto")
    np.testing.assert_allclose(low, 20.0 * (X.min(axis=0) - 0.1 * np.ptp(X, axis=0)))
    np.testing.assert_allclose(width, 20.0 * 1.2 * np.ptp(X, axis=0))
    # Unless somebody asks for rows that are scattered among the others.
    np.testing.assert_allclose(noise_box(X, True)[1], 1.2 * np.ptp(X, axis=0))


@pytest.mark.slow
def test_a_background_is_found_if_it_is_asked_for():
    rng = np.random.default_rng(11)
    groups = [rng.normal(c, 0.4, (40, 2)) for c in ((2.0, 3.0), (7.0, 7.0), (8.0, 2.0))]
    X = np.vstack([*groups, rng.uniform(0.0, 10.0, (80, 2))])
    m = GaussianMixture(6, noise=True, random_state=0, n_jobs=1).fit(X)
    assert m.n_clusters_ == 3
    assert (m.labels_[120:] == -1).mean() > 0.7
    assert (m.labels_[:120] == -1).mean() < 0.1


def test_new_rows(fitted):
    new = np.array([[-3.0, 0.1], [3.1, 0.0], [0.0, 7.0], [50.0, 50.0]])
    found = fitted.predict(new)
    assert found[:2].tolist() == fitted.predict(make_rows()[[0, 79]]).tolist()
    assert found[2:].tolist() == [-1, -1]
    table = fitted.predict_proba(pd.DataFrame(new), as_frame=True)
    assert table["cluster"].tolist() == found.tolist()
    places = table[["p_0", "p_1", "p_noise", "p_unmatched"]].sum(axis=1)
    np.testing.assert_allclose(places, 1.0)
    np.testing.assert_allclose(fitted.predict_proba(new).sum(axis=1), 1.0)
    assert np.isfinite(fitted.score_samples(new)).all()
    rows, labels = fitted.sample(500, random_state=0)
    assert 0.01 < (labels == -1).mean() < 0.2
    assert np.isfinite(rows).all()


@pytest.mark.usefixtures("without_pictures")
def test_files_page_and_leave_one_out(fitted, tmp_path):
    X = make_rows()
    fitted.save(tmp_path / "run.nc")
    again = cavity.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(again.labels_, fitted.labels_)
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    page = fitted.report(tmp_path / "page.html", X).read_text(encoding="utf-8")
    assert "outside every cluster" in page
    assert "has 80 rows in 2 clusters of 40 and 40. 6 rows are outside every cluster" in page
    view = fitted.posterior_.view()
    assert (view.n_clusters, view.n_proper, view.noise) == (3, 2, 2)
    assert view.cluster_name(2) == "noise"
    assert fitted.posterior_.summary().index.tolist() == [0, 1, "noise"]
    np.testing.assert_array_equal(view.looks, fitted.labels_)
    legend = fitted.posterior_.plot_clusters(X).get_legend().get_texts()
    assert "noise  (6)" in [text.get_text() for text in legend]
    # Another partition may have no cluster that is noise.
    assert fitted.posterior_.view(np.zeros(86, dtype=int)).noise is None
    total = total_of(fitted.loo(X))
    assert np.isfinite(total)
    words = fitted.distinguishing_features()
    assert len(words) == 2
    assert view.with_noise(words) == [*words, "noise: outside every cluster (label -1)"]


def test_with_weights():
    X = make_rows()[4:]
    weight = np.linspace(0.5, 1.5, len(X))
    weighted = StudentTMixture(2, noise=True, **SMALL).fit(X, sample_weight=weight)
    assert (weighted.labels_[-5:] == -1).sum() >= 4


@pytest.mark.slow
def test_with_gaps():
    X = make_rows()
    X[[3, 50, 82], [0, 1, 0]] = np.nan
    m = StudentTMixture(2, noise=True, **SMALL).fit(X)
    assert (m.labels_[[80, 81, 83, 84, 85]] == -1).all()
    assert np.isfinite(m.impute(X).mean).all()


def test_what_is_refused():
    X = make_rows()
    with pytest.raises(ValueError, match="noise must be True, False or 'auto', not 'yes'"):
        GaussianMixture(2, noise="yes", **SMALL).check(X)
    with pytest.raises(ValueError, match="noise=True is not supported with collapse='ep'"):
        StudentTMixture(2, noise=True, collapse="ep", **SMALL).check(X)


def test_the_column_that_a_suspected_row_is_suspected_for():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    X[40:, 0] += 12.0
    X[5, 2], X[50, 1], X[60] = 9.0, -7.0, np.nan
    X[60, 0] = 12.5
    m = StudentTMixture(2, noise=False, **SMALL).fit(X)
    told = m.furthest_columns(X)
    # The centre of a row's own cluster counts: the first column's value is usual in its group.
    assert told[5].split()[0] == "x2"
    assert float(told[5].split()[1]) > 3
    assert told[50].split()[0] == "x1"
    assert float(told[50].split()[1]) < -3
    assert told[60].split()[0] == "x0"
    with pytest.raises(ValueError, match="the data of the fit, which had 80 rows"):
        m.furthest_columns(X[:10])
