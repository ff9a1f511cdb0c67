"""What the series model has beside clusters: common factor, seasons, intervals, later times."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import trapezoid
from scipy.signal import lfilter
from sklearn.metrics import adjusted_rand_score

import cavity
from cavity import SeriesMixture
from cavity.datasets import make_series
from cavity.priors import SeriesPrior
from cavity.series.assign import new_series

pytestmark = pytest.mark.first(5)

SHORT = {"n_chains": 2, "n_warmup": 70, "n_draws": 40, "random_state": 0, "progress": False}


@pytest.fixture(scope="module")
def market():
    """Returns with a market: loadings of about one, sectors beside it."""
    rng = np.random.default_rng(1)
    return make_series(
        40, 96, 5, a=0.0, loading=0.7, common=rng.normal(1.0, 0.2, 40), var_y=0.5, random_state=1
    )


@pytest.fixture(scope="module")
def shared(market):
    return SeriesMixture(5, **SHORT | {"random_state": 2}).fit(market[0][:36, :84])


def test_a_market_is_found_and_taken_out(market, shared):
    Y, truth = market
    assert adjusted_rand_score(truth.labels[:36], shared.labels_) > 0.9
    band = shared.common_factor_
    assert band.mean.shape == (1, 84)
    # The factor is that of the truth, loadings are near it and in the data's units.
    assert np.corrcoef(band.mean.to_numpy()[0], truth.common_factor[:84])[0, 1] > 0.9
    assert shared.series_["common"].mean() == pytest.approx(1.0, abs=0.3)
    inside = (band.lower.to_numpy()[0] < truth.common_factor[:84]) & (
        truth.common_factor[:84] < band.upper.to_numpy()[0]
    )
    assert inside.mean() > 0.6
    # A fit without it has the market in its clusters.
    without = SeriesMixture(5, common_factor=False, **SHORT).fit(Y[:36, :84])
    assert adjusted_rand_score(truth.labels[:36], without.labels_) < 0.9
    with pytest.raises(AttributeError, match="no common factor"):
        _ = without.common_factor_


def test_pictures_show_clusters_without_the_market(shared):
    """What the factor moves is its autoregressive sum; without it a cluster's series are alike."""
    picture = shared._fitted().picture()
    table, g = shared.series_, shared.common_factor_.mean.to_numpy()[0]
    moved = (picture.trends.mean - picture.apart).to_numpy()
    for i in (0, 17):
        row = table.iloc[i]
        steps = row["common"] * np.append(0.0, g[1:])
        np.testing.assert_allclose(moved[i], lfilter([1.0], [1.0, -row["a"]], steps), atol=1e-6)

    def alike(curves):
        together = np.abs(np.corrcoef(curves))
        same = shared.labels_[:, None] == shared.labels_
        others = ~same & ~np.eye(len(same), dtype=bool)
        return together[same & ~np.eye(len(same), dtype=bool)].mean() - together[others].mean()

    assert alike(picture.apart.to_numpy()) > alike(picture.trends.mean.to_numpy()) + 0.2
    (axis,) = {ax.figure for ax in shared.plot_clusters(page=True)}
    assert "The common factor is removed." in axis.get_supxlabel()


def test_where_nothing_is_common_there_is_no_common_factor():
    for seed in range(3):
        Y, _ = make_series(24, 40, 3, random_state=seed)
        s = SeriesMixture(3, n_chains=1, n_warmup=1, n_draws=2, random_state=0).fit(Y)
        assert "common" not in s.posterior_.drawn


@pytest.mark.usefixtures("without_pictures")
def test_new_series_files_and_pictures_know_the_common_factor(market, shared, tmp_path):
    Y, truth = market
    found = shared.membership(Y[36:, :84])
    true = [np.bincount(truth.labels[:36][shared.labels_ == k]).argmax() for k in found["cluster"]]
    assert (np.array(true) == truth.labels[36:]).mean() >= 0.75
    again = cavity.load(shared.save(tmp_path / "run.nc"))
    pd.testing.assert_frame_equal(again.common_factor_.upper, shared.common_factor_.upper)
    pd.testing.assert_frame_equal(again.forecast(3).upper, shared.forecast(3).upper)
    assert len(shared.plot_common_factor().lines) == 2
    page = shared.report(tmp_path / "page.html").read_text()
    assert "Common factor" in page


def test_forecasts_have_the_variance_of_all_factors(shared):
    """One step ahead: loading^2 + common^2 + var_x, and the spread of what is known."""
    p = shared.posterior_.parameters
    step = p["loading"] ** 2 + p["common"] ** 2 + p["var_x"]
    centre = p["beta"][..., 0] + p["a"] * p["state_last"]
    flat = (-1, 36)
    variance = step.reshape(flat).mean(0) + centre.reshape(flat).var(0)
    band = shared.forecast(1, of="trend")
    width = (band.upper - band.lower).to_numpy()[:, 0] / 2 / 1.6448536
    # Quantiles of at least 4,000 paths have errors of up to 2% each.
    np.testing.assert_allclose(width, np.sqrt(variance), rtol=0.07)
    assert np.mean(width / np.sqrt(variance)) == pytest.approx(1.0, abs=0.01)


def test_a_common_factor_can_be_held_and_its_prior_stated(market):
    Y, _ = market
    short = SHORT | {"n_chains": 1, "n_draws": 10}
    s = SeriesMixture(5, common_factor=True, hold={"common": 1.0}, **short).fit(Y[:36])
    np.testing.assert_allclose(s.posterior_.parameters["common"], 1.0, rtol=1e-5)
    s = SeriesMixture(5, common_factor=True, priors=SeriesPrior(common=(1.0, 0.1)), **short)
    assert "common_mean" not in s.fit(Y[:36]).posterior_.drawn
    assert s.membership(Y[36:]).shape[0] == 4
    with pytest.raises(ValueError, match="common_factor must be True, False"):
        SeriesMixture(5, common_factor="yes").check(Y)
    with pytest.raises(ValueError, match="with common_factor=True alone"):
        SeriesMixture(5, hold={"common": 1.0}).check(Y)
    with pytest.raises(ValueError, match="the prior of common must hold two or three"):
        SeriesPrior(common=(1.0,))


# --------------------------------------------------------------------------- intervals


def test_forecast_and_predict_say_the_same(shared):
    ahead = pd.DataFrame({"series": [3, 3], "time": [84, 86]})
    for of in ("observation", "trend"):
        for level in (0.5, 0.9, 0.99):
            rows = shared.predict_values(ahead, of=of, level=level)
            band = shared.forecast(3, of=of, level=level)
            for name in ("mean", "lower", "upper"):
                expected = getattr(band, name).loc[3].iloc[[0, 2]]
                np.testing.assert_allclose(rows[name], expected, rtol=1e-9)
    pd.testing.assert_frame_equal(
        shared.forecast(2).upper, shared.forecast(2, of="observation").upper
    )
    trend = shared.predict_values(ahead, of="trend")
    assert (shared.predict_values(ahead)["upper"] > trend["upper"]).all()
    # Inside the data the trend's interval is that of `trends_`.
    inside = shared.predict_values(pd.DataFrame({"series": [3], "time": [10]}), of="trend")
    assert inside["upper"][0] == pytest.approx(shared.trends_.upper.loc[3, 10])
    for verb in (
        lambda: shared.forecast(1, of="mean"),
        lambda: shared.predict_values(ahead, of="mean"),
    ):
        with pytest.raises(ValueError, match="of must be"):
            verb()


def test_the_score_is_a_density(shared):
    """Student-t noise: the predictive density of a row integrates to one."""
    value = np.linspace(-60.0, 60.0, 6001)
    rows = pd.DataFrame({"series": 3, "time": 10, "value": value})
    density = np.exp(shared.score_samples(rows))
    assert trapezoid(density, value) == pytest.approx(1.0, abs=2e-3)
    band = shared.predict_values(rows[:1])
    inside = (value > band["lower"][0]) & (value < band["upper"][0])
    assert trapezoid(density[inside], value[inside]) == pytest.approx(0.9, abs=0.02)


# --------------------------------------------------------------------------- seasons


@pytest.fixture(scope="module")
def seasonal():
    Y, truth = make_series(24, 84, 3, random_state=1)
    size = np.random.default_rng(0).normal(1.0, 0.2, 24)
    pattern = 4.0 * np.sin(2 * np.pi * np.arange(84) / 12)
    months = pd.period_range("2015-01", periods=84, freq="M")
    names = [f"shop {i}" for i in range(24)]
    return pd.DataFrame(Y + size[:, None] * pattern, names, months), truth, size


@pytest.mark.slow
def test_seasons_are_apart_from_trends(seasonal, tmp_path):
    table, truth, size = seasonal
    s = SeriesMixture(3, season=12, **SHORT).fit(table.iloc[:, :72])
    assert adjusted_rand_score(truth.labels, s.labels_) > 0.9
    seasons = s.seasons_.mean
    assert seasons.shape == (24, 12)
    amplitude = seasons.to_numpy() @ np.sin(2 * np.pi * np.arange(12) / 12) / 6
    # Coefficients have a standard error of about 0.3 for one series.
    assert amplitude.mean() == pytest.approx(4.0 * size.mean(), abs=0.6)
    ahead, trend = s.forecast(12), s.forecast(12, of="trend")
    np.testing.assert_allclose(
        (ahead.mean - trend.mean).to_numpy(), seasons.to_numpy(), rtol=1e-6, atol=1e-6
    )
    plain = SeriesMixture(3, **SHORT).fit(table.iloc[:, :72])
    later = table.iloc[:, 72:]
    errors = [np.square(f.mean - later).mean(axis=None) for f in (ahead, plain.forecast(12))]
    assert errors[0] < errors[1]
    # Rows by name, new series and files have the season too.
    rows = pd.DataFrame({"series": ["shop 2"], "time": [table.columns[74]]})
    assert s.predict_values(rows)["mean"][0] == pytest.approx(ahead.mean.loc["shop 2"].iloc[2])
    assert s.membership(table.iloc[:2, :72]).shape[0] == 2
    again = cavity.load(s.save(tmp_path / "season.nc"))
    pd.testing.assert_frame_equal(again.forecast(2).upper, s.forecast(2).upper)
    with pytest.raises(AttributeError, match="no season"):
        _ = plain.seasons_


@pytest.mark.parametrize(
    ("season", "message"), [(1, "season must be"), (50, "needs two seasons"), ("x", "season must")]
)
def test_seasons_that_are_refused(seasonal, season, message):
    with pytest.raises(ValueError, match=message):
        SeriesMixture(3, season=season).check(seasonal[0])


@pytest.mark.parametrize("season", [2, 3, 4, 7, 12])
def test_waves_are_different_from_each_other(season):
    from cavity.series.data import season_names, season_terms

    terms = season_terms(season, np.arange(10 * season))
    assert terms.shape[1] == len(season_names(season)) == min(6, season - 1)
    assert (
        np.linalg.matrix_rank(np.column_stack([np.ones(10 * season), terms])) == terms.shape[1] + 1
    )
    np.testing.assert_allclose(terms[:season], terms[season : 2 * season], atol=1e-12)


# --------------------------------------------------------------------------- later times


def test_appended_times_are_as_if_they_had_been_there():
    """With all parameters held and clear clusters, append and a new fit are one posterior."""
    Y, truth = make_series(20, 50, 2, random_state=3)
    known = {
        "a": 0.95,
        "loading": 1.0,
        "var_x": 0.01,
        "var_y": 1.0,
        "var_x0": truth.var_x0,
        "beta": 0.0,
    }
    settings = SHORT | {"n_draws": 400, "hold": known, "df": None}
    s = SeriesMixture(2, init=truth.labels, **settings).fit(Y[:, :40])
    later = s.append(Y[:, 40:])
    whole = SeriesMixture(2, init=truth.labels, **settings).fit(Y)
    # Monte Carlo errors of 800 nearly independent draws, of means and standard deviations.
    sd = (whole.trends_.upper - whole.trends_.lower).to_numpy() / 3.29
    z = (later.trends_.mean - whole.trends_.mean).to_numpy() / sd
    assert np.abs(z).max() < 0.25
    ratio = (later.trends_.upper - later.trends_.lower) / (
        whole.trends_.upper - whole.trends_.lower
    )
    assert np.abs(ratio.to_numpy() - 1.0).max() < 0.2
    away = (later.forecast(3).mean - whole.forecast(3).mean).to_numpy() / sd[:, -1:]
    assert np.abs(away).max() < 0.25
    # What was there before is told better by what came after, and the fit itself is unchanged.
    assert s.trends_.mean.shape == (20, 40)
    assert np.abs(s.trends_.mean.iloc[:, -1] - whole.trends_.mean.iloc[:, 39]).max() > 0.05


@pytest.mark.slow
def test_forecasts_go_on_from_appended_times(market, shared, tmp_path):
    Y, _ = market
    later = shared.append(Y[:36, 84:90])
    assert list(later.forecast(2).mean.columns) == [90, 91]
    assert later.common_factor_.mean.shape == (1, 90)
    np.testing.assert_array_equal(later.labels_, shared.labels_)
    assert later.append(Y[:36, 90:]).trends_.mean.shape == (36, 96)
    again = cavity.load(later.save(tmp_path / "later.nc"))
    pd.testing.assert_frame_equal(again.forecast(2).upper, later.forecast(2).upper)
    assert again.append(Y[:36, 90:]).trends_.mean.shape == (36, 96)


def test_tables_and_rows_are_appended(seasonal):
    table, _, _ = seasonal
    short = SHORT | {"n_chains": 1, "n_draws": 10}
    s = SeriesMixture(3, season=12, **short).fit(table.iloc[:, :72])
    wide = s.append(table.iloc[::-1, 72:75])
    assert str(wide.trends_.mean.columns[-1]) == "2021-03"
    few = s.append(table.iloc[:5, [72, 74]])
    np.testing.assert_array_equal(few._data.count[:, 72:].sum(0), [5, 0, 5])
    np.testing.assert_array_equal(few._data.y[:5, 74], table.iloc[:5, 74])
    # Series with a gap among the columns of their table are assigned as they are.
    some = table.iloc[:4, [*range(40), *range(50, 72)]]
    assert new_series(s._data, some, None, None, None).count[:, 40:50].sum() == 0
    rows = table.iloc[:, 72:75].rename_axis(index="series", columns="time").stack()
    long = s.append(rows.rename("value").reset_index())
    pd.testing.assert_frame_equal(long.trends_.mean, wide.trends_.mean)
    np.testing.assert_allclose(long._data.y, wide._data.y)


def test_rows_with_covariates_and_offset_are_appended():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"who": rng.integers(0, 6, 900), "when": rng.integers(0, 40, 900)})
    rows["u"], rows["o"] = rng.standard_normal((2, 900))
    rows["v"] = 3.0 * rows["u"] + rows["o"] + rng.standard_normal(900)
    names = {"series": "who", "time": "when", "value": "v", "covariates": ["u"], "offset": "o"}
    s = SeriesMixture(2, **SHORT).fit(rows[rows["when"] < 35], **names)
    later = s.append(rows[rows["when"] >= 35])
    assert later._data.covariates.shape == (6, 40, 1)
    error = rows["v"] - later.predict_values(rows)["mean"]
    assert error.std() < 1.3
    with pytest.raises(ValueError, match="append needs rows"):
        s.append(np.zeros((6, 2)))


def one_cell(name, month):
    return pd.DataFrame([[0.0]], [name], pd.period_range(month, periods=1, freq="M"))


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (np.zeros((3, 2)), "Y has 3 series"),
        (one_cell("shop 0", "2016-01"),
         "append takes later times alone"),
        (one_cell("kiosk", "2021-01"),
         "'kiosk' was not in the data"),
    ],
)  # fmt: skip
def test_what_cannot_be_appended(seasonal, new, message):
    s = SeriesMixture(3, n_chains=1, n_warmup=1, n_draws=2, random_state=0)
    s.fit(seasonal[0].iloc[:, :72])
    with pytest.raises(ValueError, match=message):
        s.append(new)


def test_the_dendrogram_names_the_series(seasonal):
    s = SeriesMixture(3, n_chains=1, n_warmup=20, n_draws=20, random_state=0).fit(seasonal[0])
    labels = [text.get_text() for text in s.plot_dendrogram().get_xticklabels()]
    assert "shop 3" in labels
