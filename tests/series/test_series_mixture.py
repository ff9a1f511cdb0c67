"""SeriesMixture from data to answers."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.base import ClusterMixin, clone
from sklearn.metrics import adjusted_rand_score

from cavity import SeriesMixture
from cavity.datasets import make_series
from cavity.posterior.record import RunRecord
from cavity.priors import FixedWeights, PitmanYor, SeriesPrior

pytestmark = pytest.mark.first(2)

SHORT = {"n_chains": 2, "n_warmup": 40, "n_draws": 40, "random_state": 0, "progress": False}


def four(spread):
    """Four standard deviations, a false alarm of 6e-5.

    The spreads below were measured: each number's standard deviation over 24 other data sets of the
    same kind, fitted alike. So were the means of those that priors or dependence move.
    """
    return 4 * spread


@pytest.fixture(scope="module")
def wide():
    Y, truth = make_series(36, 60, 3, missing=0.25, random_state=2)
    return Y, truth


@pytest.fixture(scope="module")
def fitted(wide):
    return SeriesMixture(3, **SHORT).fit(wide[0])


def long_form(Y, truth, rng, held_out=0.0):
    """Rows with a covariate, several per cell, in random order, with names and months."""
    n_times = Y.shape[1]
    months = pd.period_range("2015-01", periods=n_times, freq="M")
    rows = []
    for i, t in zip(*np.nonzero(~np.isnan(Y)), strict=True):
        for _ in range(rng.integers(1, 3)):
            u = rng.standard_normal()
            value = 50 + 2.0 * u + truth.states[i, t] + rng.standard_normal()
            rows.append((f"s{i:02d}", months[t], u, value))
    frame = pd.DataFrame(rows, columns=["store", "month", "size", "sales"])
    frame = frame.sample(frac=1.0, random_state=1).reset_index(drop=True)
    test = rng.random(len(frame)) < held_out
    return frame[~test], frame[test]


@pytest.fixture(scope="module")
def long_fit(wide):
    train, test = long_form(*wide, np.random.default_rng(4), held_out=0.2)
    s = SeriesMixture(3, **SHORT)
    s.fit(train, series="store", time="month", value="sales", covariates=["size"])
    return s, train, test


@pytest.mark.variants("slow", "ep")
@pytest.mark.parametrize("collapse", ["auto", "ep", "collapsed", "naive"])
def test_clusters_are_recovered(wide, fitted, collapse):
    Y, truth = wide
    s = fitted if collapse == "auto" else SeriesMixture(3, collapse=collapse, **SHORT).fit(Y)
    assert adjusted_rand_score(truth.labels, s.labels_) > (0.95 if collapse != "naive" else 0.5)
    assert s.posterior_.labels.shape == (2, 40, 36)


@pytest.mark.slow
def test_the_estimate_has_no_more_clusters_than_the_prior_allows(wide, fitted):
    assert fitted.posterior_.record.max_clusters == 3
    short = {**SHORT, "n_chains": 1, "n_warmup": 2, "n_draws": 3}
    assert SeriesMixture(3, prior="dp", **short).fit(wide[0]).posterior_.record.max_clusters is None


def test_trends_cover_the_truth(wide, fitted):
    Y, truth = wide
    band = fitted.trends_
    assert band.mean.shape == Y.shape
    inside = (band.lower.to_numpy() < truth.states) & (truth.states < band.upper.to_numpy())
    assert inside.mean() == pytest.approx(0.9, abs=four(0.019))
    error = np.sqrt(np.mean((band.mean.to_numpy() - truth.states) ** 2))
    assert error < 0.46 + four(0.018)
    wider = fitted.trends_.at(0.99)
    assert (wider.upper.to_numpy() > band.upper.to_numpy()).all()


def test_factors_follow_the_truth_up_to_sign(wide, fitted):
    _, truth = wide
    factors = fitted.factors_
    assert factors.mean.shape == (3, 60)
    for k in range(3):
        true = np.bincount(truth.labels[fitted.labels_ == k]).argmax()
        r = np.corrcoef(factors.mean.to_numpy()[k], truth.factors[true])[0, 1]
        assert abs(r) > 0.7
    assert (fitted.series_["loading"].groupby(fitted.labels_).mean() > 0).all()


def test_parameters_are_in_the_users_units(wide):
    p = SeriesMixture(3, **SHORT | {"n_warmup": 150}).fit(wide[0]).posterior_.parameters
    # In so few observations var_y comes out below 1 and a below 0.95, a little.
    assert np.median(p["var_y"]) == pytest.approx(0.93, abs=four(0.048))
    assert np.median(np.abs(p["loading"])) == pytest.approx(1.09, abs=four(0.081))
    assert np.median(p["a"]) == pytest.approx(0.88, abs=four(0.039))


def test_scales_that_are_refused(wide):
    with pytest.raises(ValueError, match="scales must be"):
        SeriesMixture(3, scales="some").check(wide[0])
    with pytest.raises(ValueError, match="var_x is shared by all series"):
        SeriesMixture(3, scales="each", hold={"var_x": 0.1}).check(wide[0])
    with pytest.raises(ValueError, match="refresh_every'] must be 1"):
        SeriesMixture(3, collapse="ep", options={"refresh_every": 2}).check(wide[0])


def test_fit_takes_what_check_prepared(wide):
    quick = {"n_chains": 1, "n_warmup": 3, "n_draws": 4, "random_state": 2, "collapse": "naive"}
    s = SeriesMixture(3, **quick)
    found = s.fit(s.check(wide[0])).posterior_
    again = SeriesMixture(3, **quick).fit(wide[0]).posterior_
    np.testing.assert_array_equal(found.labels, again.labels)
    prepared = s.check(wide[0])
    with pytest.raises(ValueError, match="Settings have changed since check"):
        s.set_params(n_draws=5).fit(prepared)


@pytest.mark.slow
def test_loud_series_do_not_decide():
    """Clusters are the same however loud some series are, but for the default scale."""
    Y, truth = make_series(36, 60, 3, random_state=4)
    loud = np.where(np.arange(36) % 5 == 0, 100.0, 1.0)[:, None]
    s = SeriesMixture(3, **SHORT).fit(Y * loud)
    assert adjusted_rand_score(truth.labels, s.labels_) == 1.0
    other = SeriesMixture(3, scales="all", **SHORT).fit(Y * loud)
    assert adjusted_rand_score(truth.labels, other.labels_) < 0.9


@pytest.mark.variants("slow", "1000000000.0")
@pytest.mark.parametrize("factor", [1e-8, 1e9])
def test_scale_and_level_do_not_matter(wide, fitted, factor):
    Y, _ = wide
    s = SeriesMixture(3, **SHORT).fit(Y * factor + 3 * factor)
    np.testing.assert_array_equal(s.labels_, fitted.labels_)
    a, b = s.trends_.mean.to_numpy(), fitted.trends_.mean.to_numpy()
    np.testing.assert_allclose(a / factor - 3, b, atol=0.2)


def test_same_seed_same_draws_whatever_the_number_of_threads(wide, fitted):
    again = SeriesMixture(3, **SHORT, n_jobs=1).fit(wide[0])
    np.testing.assert_array_equal(again.posterior_.labels, fitted.posterior_.labels)
    np.testing.assert_array_equal(again.posterior_.log_joint, fitted.posterior_.log_joint)
    other = SeriesMixture(3, **SHORT | {"random_state": 5}).fit(wide[0])
    assert not np.array_equal(other.posterior_.log_joint, fitted.posterior_.log_joint)


def test_results_carry_the_users_labels(long_fit, wide):
    s, _, _ = long_fit
    _, truth = wide
    assert list(s.trends_.mean.index[:2]) == ["s00", "s01"]
    assert str(s.trends_.mean.columns[0]) == "2015-01"
    assert str(s.forecast(3).mean.columns[-1]) == "2020-03"
    assert s.posterior_.names[0] == "s00"
    assert adjusted_rand_score(truth.labels, s.labels_) > 0.95
    assert s.series_["beta[size]"].mean() == pytest.approx(2.0, abs=four(0.016))
    # What is level and what is a slow state is hard to tell; their sum is not.
    assert s.series_["beta[intercept]"].mean() == pytest.approx(50.0, abs=four(0.87))
    gap = s.trends_.mean.to_numpy() - truth.states
    assert gap.mean() == pytest.approx(50.0, abs=four(0.025))
    assert set(s.typical_series(2).to_numpy().ravel()) <= set(s.series_.index)
    assert RunRecord.from_json(s.posterior_.record.to_json()) == s.posterior_.record


def test_what_sets_a_cluster_of_series_apart(long_fit):
    """Times and names that the trends themselves have."""
    s, _, _ = long_fit
    trends = s.trends_.mean
    lines = trends.sub(trends.mean(axis=1), axis=0).div(trends.std(axis=1, ddof=0), axis=0)
    lines = lines.mul(np.where(s.series_["loading"] < 0, -1.0, 1.0), axis=0)
    assert "common_factor" not in s.posterior_.drawn
    typical = s.typical_series(2)
    for k, words in enumerate(s.distinguishing_features(2)):
        own = lines[s.labels_ == k].mean()
        assert words.startswith(f"highest {own.idxmax()}, lowest {own.idxmin()}; ")
        assert words.endswith(f"like {', '.join(typical.loc[k])}")
        against = int((s.series_["loading"][s.labels_ == k] < 0).sum())
        assert (f"{against} of {(s.labels_ == k).sum()} the other way round" in words) == (
            against > 0
        )


def test_numbers_that_name_series_stay_whole(fitted):
    """Also where a small cluster leaves gaps in the table."""
    uneven = copy.copy(fitted._fitted())
    uneven.labels = np.where(np.arange(len(fitted.labels_)) < 4, 0, fitted.labels_)
    typical = uneven.typical_series(len(fitted.labels_))
    assert typical.isna().to_numpy().any()
    named = {str(name) for name in typical.stack().dropna()}
    assert named == {str(name) for name in fitted.series_.index}
    assert ".0" not in " ".join(uneven.distinguishing_features(uneven.picture(), typical))


def test_predictions_of_held_out_rows(long_fit):
    s, _, test = long_fit
    out = s.predict_values(test)
    assert (out.index == test.index).all()
    error = test["sales"] - out["mean"]
    assert np.sqrt((error**2).mean()) < 1.06 + four(0.037)
    inside = test["sales"].between(out["lower"], out["upper"])
    assert inside.mean() == pytest.approx(0.9, abs=four(0.021))
    # better than a normal with the rows' own mean and spread
    spread = test["sales"].std()
    naive = -0.5 * np.log(2 * np.pi * spread**2) - 0.5
    assert s.score(test) > naive + 1.09 - four(0.099)
    assert s.score_samples(test).shape == (len(test),)


def test_predictions_beyond_the_data_are_forecasts(long_fit):
    s, _, _ = long_fit
    rows = pd.DataFrame({"store": ["s03"] * 2, "month": ["2020-01", "2020-06"], "size": [0.0, 1.0]})
    rows["month"] = pd.PeriodIndex(rows["month"], freq="M")
    out = s.predict_values(rows)
    ahead = s.forecast(6)
    centre = s._units.covariate_centre[0]
    slope = s.series_.loc["s03", "beta[size]"]
    expected = ahead.mean.loc["s03"].iloc[[0, 5]].to_numpy() + slope * (
        np.array([0.0, 1.0]) - centre
    )
    np.testing.assert_allclose(out["mean"], expected, rtol=1e-4)
    width = (ahead.upper - ahead.lower).to_numpy()
    # Quantiles of simulated paths have errors of up to 2%.
    assert (np.diff(width, axis=1) > -0.06 * width[:, 1:]).all()


def test_forecasts_cover_what_came():
    Y, _ = make_series(60, 70, 3, random_state=8)
    s = SeriesMixture(3, **SHORT).fit(Y[:, :65])
    band = s.forecast(5)
    inside = (band.lower.to_numpy() < Y[:, 65:]) & (Y[:, 65:] < band.upper.to_numpy())
    # 90% intervals of 300 values that three factors move together: far fewer are independent.
    assert inside.mean() > 0.9 - four(0.069)


def test_offset_is_given_back(wide):
    train, _ = long_form(*wide, np.random.default_rng(4))
    train = train.assign(trend=lambda d: 0.5 * d["month"].dt.month)
    train["sales"] += train["trend"]
    s = SeriesMixture(3, **SHORT)
    s.fit(train, series="store", time="month", value="sales", covariates="size", offset="trend")
    out = s.predict_values(train)
    # Noise of one and 2,400 rows: a standard error of 0.0145; five of them, 3e-7.
    assert np.sqrt(((train["sales"] - out["mean"]) ** 2).mean()) < 1.07


def test_held_parameters_are_held(wide):
    Y, truth = wide
    known = {"a": 0.95, "loading": 1.0, "var_x": 0.01, "var_y": truth.var_y}
    s = SeriesMixture(3, hold=known, **SHORT).fit(Y)
    p = s.posterior_.parameters
    np.testing.assert_allclose(p["a"], 0.95, rtol=1e-6)
    np.testing.assert_allclose(p["loading"], 1.0, rtol=1e-6)
    np.testing.assert_allclose(p["var_x"], 0.01)
    np.testing.assert_allclose(p["var_y"], 1.0, rtol=1e-6)


def test_all_states_on_request(wide, fitted):
    Y, _ = wide
    s = SeriesMixture(3, options={"keep_trends": True}, **SHORT).fit(Y)
    trend = s.posterior_.parameters["trend"]
    assert trend.shape == (2, 40, *Y.shape)
    spread = trend.reshape(-1, *Y.shape)
    # The summary on the fly is that of the draws up to Monte Carlo error: sqrt(t / 80) standard
    # deviations with an autocorrelation time of t sweeps, which is below 20 here. A standard
    # deviation of 80 draws errs by 8 %, the median of 36 series' by 1.6 %: six of these.
    sd = (s.trends_.upper - s.trends_.lower).to_numpy() / 2 / 1.645
    z = (spread.mean(0) - s.trends_.mean.to_numpy()) / sd
    assert np.sqrt((z**2).mean()) < 0.5
    assert np.median(spread.std(0) / sd) == pytest.approx(1.0, abs=0.1)
    assert "trend" not in fitted.posterior_.parameters


@pytest.mark.variants("slow", "dp")
@pytest.mark.parametrize("prior", ["dp", pytest.param("pitman-yor", marks=pytest.mark.slow)])
def test_open_number_of_clusters(wide, prior):
    Y, truth = wide
    s = SeriesMixture(2, prior=prior, concentration="learn", **SHORT).fit(Y)
    assert 3 <= s.n_clusters_ <= 6
    assert adjusted_rand_score(truth.labels, s.labels_) > 0.8
    assert np.isfinite(s.factors_.mean.to_numpy()).all()


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["dp", "finite"])
@pytest.mark.parametrize("collapse", ["corrected", "ep", "collapsed", "naive"])
def test_priors_on_the_number_of_clusters_under_every_collapse(wide, collapse, prior):
    Y, truth = wide
    s = SeriesMixture(3, prior=prior, collapse=collapse, **SHORT).fit(Y)
    assert adjusted_rand_score(truth.labels, s.labels_) > (0.8 if collapse != "naive" else 0.4)


def test_moves_are_counted_and_can_be_left_out(fitted, wide):
    assert fitted.posterior_.events["split_merge_tries"].sum() > 0
    assert len(fitted.diagnostics().moves) == 2
    without = SeriesMixture(3, options={"moves": False}, **SHORT).fit(wide[0])
    assert len(without.diagnostics().moves) == 0
    assert without.posterior_.record.details["collapse"] == "corrected"


@pytest.mark.slow
def test_fixed_weights_and_given_start(wide):
    Y, truth = wide
    s = SeriesMixture(3, prior=FixedWeights([1, 1, 2]), init=truth.labels, **SHORT).fit(Y)
    assert adjusted_rand_score(truth.labels, s.labels_) == 1.0


@pytest.mark.slow
def test_alternation_is_offered(wide):
    Y, truth = wide
    s = SeriesMixture(3, options={"draw": "alternate"}, **SHORT).fit(Y)
    assert adjusted_rand_score(truth.labels, s.labels_) > 0.9


def test_a_checkpoint_continues_to_the_same_draws(wide, fitted, tmp_path):
    Y, _ = wide
    options = SHORT | {"n_jobs": 1}
    whole = fitted
    path = tmp_path / "run.checkpoint"
    SeriesMixture(3, **options | {"n_draws": 15}, checkpoint=path).fit(Y)
    continued = SeriesMixture(3, **options, checkpoint=path).fit(Y)
    np.testing.assert_array_equal(continued.posterior_.labels, whole.posterior_.labels)
    np.testing.assert_array_equal(continued.posterior_.log_joint, whole.posterior_.log_joint)
    np.testing.assert_array_equal(continued.trends_.mean.to_numpy(), whole.trends_.mean.to_numpy())


@pytest.mark.variants("slow", "ep-shape[12]", "collapsed-shape[12]", "naive-shape[12]")
@pytest.mark.parametrize("shape", [(3, 1), (1, 20), (2, 2)])
@pytest.mark.parametrize("collapse", ["auto", "ep", "collapsed", "naive"])
def test_very_little_data(shape, collapse):
    Y = np.random.default_rng(0).standard_normal(shape)
    s = SeriesMixture(2, collapse=collapse, n_chains=1, n_warmup=3, n_draws=5, random_state=0).fit(
        Y
    )
    assert s.labels_.shape == (shape[0],)
    assert np.isfinite(s.trends_.mean.to_numpy()).all()
    assert np.isfinite(s.forecast(2).upper.to_numpy()).all()


def test_a_series_without_observations_is_said_and_kept(wide):
    Y = wide[0].copy()
    Y[5] = np.nan
    with pytest.warns(UserWarning, match="1 series without any observation"):
        s = SeriesMixture(3, **SHORT).fit(Y)
    band = s.trends_
    assert np.isfinite(band.mean.to_numpy()).all()
    width = (band.upper - band.lower).to_numpy().mean(1)
    assert width[5] > 2 * np.delete(width, 5).mean()


def test_constant_data():
    s = SeriesMixture(2, n_chains=1, n_warmup=5, n_draws=5, random_state=0).fit(
        np.full((4, 9), 3.0)
    )
    assert np.isfinite(s.trends_.upper.to_numpy()).all()


def test_long_gap_and_near_unit_root():
    rng = np.random.default_rng(0)
    Y = np.cumsum(rng.standard_normal((8, 300)), axis=1)
    Y[:, 80:250] = np.nan
    Y[3, 30:] = np.nan
    s = SeriesMixture(2, n_chains=1, n_warmup=20, n_draws=20, random_state=0).fit(Y)
    band = s.trends_
    for table in (band.mean, band.lower, band.upper):
        assert np.isfinite(table.to_numpy()).all()
    width = (band.upper - band.lower).to_numpy()
    assert (width > 0).all()
    assert width[:, 160].mean() > width[:, 40].mean()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_clusters": 0}, "n_clusters must be an integer"),
        ({"collapse": "blocked"}, "one of 'auto', 'ep', 'corrected', 'collapsed', 'naive'"),
        ({"options": {"draw": "both"}}, "draw'. must be one of"),
        ({"options": {"speed": 1}}, "is not an option of collapse='auto'"),
        ({"options": "fast"}, "must be a dictionary"),
        (
            {"collapse": "collapsed", "options": {"draw": "alternate"}},
            "Use 'auto'",
        ),
        ({"prior": "flat"}, "prior must be one of"),
        ({"prior": 3}, "a prior from cavity.priors"),
        ({"concentration": -1.0}, "concentration must be"),
        ({"concentration": "much"}, "concentration must be"),
        ({"concentration": "learn", "prior": "fixed"}, "has no concentration"),
        ({"init": "kmeans"}, "init must be"),
        ({"init": [0, 1]}, "init has shape"),
        ({"hold": {"a": 1.0}}, "a must be held between"),
        ({"hold": {"loading": 1e10}}, "Check it, and the data for outliers"),
        ({"hold": {"speed": 1.0}}, "hold must be a dictionary of values by name"),
        ({"priors": (0.5, 0.1)}, "priors must be a cavity.priors.SeriesPrior"),
        ({"prior": FixedWeights([1.0, 2.0])}, "weights of FixedWeights are 2"),
        ({"prior": PitmanYor(1.0), "concentration": 2.0}, "given twice"),
        ({"collapse": "ep", "options": {"fraction": 0.0}}, "fraction'. must be"),
        ({"n_jobs": 0}, "n_jobs must be None"),
        ({"random_state": "a"}, "random_state must be"),
        ({"n_draws": 0}, "n_draws must be"),
    ],
)
def test_settings_that_are_refused(wide, settings, message):
    with pytest.raises(ValueError, match=message):
        SeriesMixture(**{"n_clusters": 3, "progress": False} | settings).fit(wide[0])


def test_calls_that_are_refused(wide, fitted):
    Y, _ = wide
    with pytest.raises(ValueError, match="needs time=, value= as well as series"):
        SeriesMixture(3).fit(pd.DataFrame(Y), series="a")
    with pytest.raises(ValueError, match="no DataFrame"):
        SeriesMixture(3).fit(Y, series="a", time="b", value="c")
    with pytest.raises(ValueError, match="covariates need a long frame"):
        SeriesMixture(3).fit(Y, covariates=["u"])
    with pytest.raises(ValueError, match="steps must be"):
        fitted.forecast(0)
    with pytest.raises(ValueError, match="no observations to append"):
        fitted.append(np.empty((len(Y), 0)))
    with pytest.raises(ValueError, match="level must lie"):
        fitted.trends_.at(1.0)
    with pytest.raises(ValueError, match="rows must be a DataFrame"):
        fitted.predict_values(Y)
    with pytest.raises(ValueError, match="series '99' was not in the data"):
        fitted.predict_values(pd.DataFrame({"series": [99], "time": [3]}))
    with pytest.raises(ValueError, match="ten times as far as these reach"):
        fitted.predict_values(pd.DataFrame({"series": [0], "time": [10**7]}))


def test_the_estimator_is_scikit_learns(wide):
    s = SeriesMixture(4, hold={"a": 0.5}, options={"draw": "joint"})
    assert clone(s).get_params() == s.get_params()
    # Its predict gives values, not labels: it does not pose as one of scikit-learn's clusterers.
    assert not isinstance(s, ClusterMixin)


def test_power_ep_and_passes(wide):
    Y, truth = wide
    options = {"fraction": 0.5, "damping": 0.8, "pass_every": 10}
    s = SeriesMixture(3, collapse="ep", options=options, **SHORT).fit(Y)
    assert adjusted_rand_score(truth.labels, s.labels_) > 0.9
    assert s.posterior_.events["invalid_cavities"].sum() == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"a": (0.5,)}, "prior of a must hold two or three numbers"),
        ({"a": (0.5, 0.0)}, "prior of a must hold two or three numbers"),
        ({"loading": (np.nan, 1.0)}, "prior of loading must hold two or three numbers"),
        ({"var_y": (1.0, -2.0)}, "prior of var_y must hold 2 numbers"),
        ({"beta": (1.0, 1.0)}, "prior of beta must hold 3 numbers"),
        ({"var_x0": 1.0}, "the prior of var_x0 must hold 2 numbers"),
    ],
)
def test_priors_that_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SeriesPrior(**settings)


def test_priors_cannot_be_changed():
    prior = SeriesPrior(a=[0.5, 0.2])
    assert prior.a == (0.5, 0.2)
    with pytest.raises(AttributeError):
        prior.a = (0.0, 1.0)


@pytest.mark.parametrize("form", ["wide", "long"])
def test_a_saved_fit_answers_as_the_fitted_one(fitted, long_fit, form, tmp_path):
    s, rows = (fitted, None) if form == "wide" else (long_fit[0], long_fit[2])
    again = SeriesMixture.load(s.save(tmp_path / "run.nc"))
    np.testing.assert_array_equal(again.labels_, s.labels_)
    for name in ("trends_", "factors_"):
        for part in ("mean", "lower", "upper"):
            pd.testing.assert_frame_equal(
                getattr(getattr(again, name), part), getattr(getattr(s, name), part)
            )
    pd.testing.assert_frame_equal(again.forecast(5).upper, s.forecast(5).upper)
    pd.testing.assert_frame_equal(again.series_, s.series_)
    pd.testing.assert_frame_equal(again.typical_series(2), s.typical_series(2))
    if rows is None:
        rows = pd.DataFrame({"series": [0, 3], "time": [5, 70]})
    pd.testing.assert_frame_equal(again.predict_values(rows), s.predict_values(rows))
    if form == "wide":
        new = np.full((1, 60), np.nan)
        new[0, 5:50] = 1.0
        pd.testing.assert_frame_equal(again.membership(new), s.membership(new))


def test_new_series_find_their_clusters(wide):
    """Thirty series are fitted, six are new: most go where their like went."""
    Y, truth = wide
    s = SeriesMixture(3, **SHORT).fit(Y[:30])
    home = {k: np.bincount(truth.labels[:30][s.labels_ == k]).argmax() for k in range(3)}
    found = s.membership(Y[30:])
    right = [home[k] == t for k, t in zip(found["cluster"], truth.labels[30:], strict=True)]
    assert sum(right) >= 5
    columns = ["p_0", "p_1", "p_2", "p_unmatched"]
    np.testing.assert_allclose(found[columns].sum(axis=1), 1.0)
    np.testing.assert_array_equal(s.predict(Y[30:]), found["cluster"])
    p = s.predict_proba(Y[30:])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(p.argmax(axis=1), found["cluster"])
    blank = np.full((2, 60), np.nan)
    blank[1, 3] = 0.1
    unsure = s.membership(blank)
    assert unsure["probability"].max() < 0.7  # next to nothing is known of them


def test_new_series_that_cannot_be_placed(fitted, long_fit):
    with pytest.raises(ValueError, match="has 5 times, the fit had 60"):
        fitted.membership(np.zeros((1, 5)))
    with pytest.raises(ValueError, match="fitted with covariates"):
        long_fit[0].membership(np.zeros((1, 60)))
    rows = pd.DataFrame({"s": ["x", "x"], "t": [3, 75], "v": [0.0, 1.0]})
    with pytest.raises(ValueError, match="beyond the fit's last time"):
        fitted.membership(rows, series="s", time="t", value="v")


@pytest.mark.variants("slow", "1000000.0")
@pytest.mark.parametrize("level", [1e6, 1e8])
def test_trends_keep_their_digits_far_from_zero(level):
    """Unit noise about a high level: errors of rounding stay far below the noise."""
    rng = np.random.default_rng(0)
    Y = level + rng.standard_normal((6, 30)).cumsum(axis=1)
    at_zero = SeriesMixture(2, **SHORT).fit(Y - level)
    s = SeriesMixture(2, **SHORT).fit(Y)
    error = np.abs(s.trends_.mean.to_numpy() - level - at_zero.trends_.mean.to_numpy())
    assert error.max() < 1e-3
    ahead = s.forecast(3).mean.to_numpy() - level - at_zero.forecast(3).mean.to_numpy()
    assert np.abs(ahead).max() < 1e-3


@pytest.mark.variants("slow", "1e+50", "1e-60", "1e-120")
@pytest.mark.parametrize("scale", [1e-120, 1e-60, 1e50, 1e120])
def test_any_scale_that_is_promised_works(scale):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((6, 30)).cumsum(axis=1)
    plain, s = (SeriesMixture(2, **SHORT).fit(Y * c) for c in (1.0, scale))
    for name in ("loading", "var_y", "var_x", "state_last"):
        values = s.posterior_.parameters[name]
        assert np.isfinite(values).all()
        assert (values != 0).all()
    np.testing.assert_allclose(s.trends_.upper / scale, plain.trends_.upper, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_bands_of_trends_that_are_known_very_precisely():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((4, 20)).cumsum(axis=1)
    s = SeriesMixture(2, hold={"var_y": 1e-8}, **SHORT).fit(Y)
    width = (s.trends_.upper - s.trends_.lower).to_numpy()
    assert np.isfinite(width).all()
    assert (width >= 0).all()


@pytest.mark.timeout(60)
def test_one_wild_value_and_a_held_variance_are_refused_not_endless():
    Y = np.random.default_rng(0).standard_normal((5, 10))
    Y[2, 3] = 1e20
    with pytest.raises(ValueError, match=r"var_x is held at 1\.0, which is outside"):
        SeriesMixture(2, hold={"var_x": 1.0}, **SHORT).fit(Y)
