"""Series that trend: differences, forecasts of levels, the warning without them."""

import numpy as np
import pandas as pd
import pytest

import cavity
from cavity import SeriesMixture
from cavity.datasets import make_series
from cavity.series.data import differences, from_wide, with_terms
from cavity.series.predictions import TRENDING, SeriesForecaster

SHORT = {"n_chains": 1, "n_warmup": 150, "n_draws": 150, "random_state": 0, "progress": False}
AHEAD = 6
RAMPS = np.cumsum(np.ones((30, 9)), axis=1)


def trending(seed, n=40, n_times=48, n_clusters=3, missing=0.12):
    """Levels whose changes are series with a shared factor: slow ones, seen with little noise."""
    changes, truth = make_series(
        n, n_times, n_clusters, a=0.9, loading=0.3, var_x=0.05, var_y=0.02, random_state=seed
    )
    rng = np.random.default_rng(seed)
    levels = 10.0 * rng.standard_normal((n, 1)) + np.cumsum(changes, axis=1)
    return levels, np.where(rng.random(levels.shape) < missing, np.nan, levels), truth


def inside(band, values):
    return ((band.lower.to_numpy() < values) & (values < band.upper.to_numpy())).mean()


@pytest.fixture(scope="module")
def fits():
    levels, seen, _ = trending(7)
    Y = seen[:, :-AHEAD]
    return (
        levels,
        seen,
        SeriesMixture(3, difference=True, **SHORT).fit(Y),
        SeriesMixture(3, **SHORT).fit(Y),
    )


def test_differenced_series_are_forecast_better_than_by_their_last_value(fits):
    levels, seen, differenced, plain = fits
    later = levels[:, -AHEAD:]
    last = pd.DataFrame(seen[:, :-AHEAD]).ffill(axis=1).iloc[:, -1].to_numpy()[:, None]
    band = differenced.forecast(AHEAD)
    with pytest.warns(UserWarning, match="Fit with difference=True"):
        level_band = plain.forecast(AHEAD)
    walk, new, old = (
        np.abs(mean - later).mean() for mean in (last, band.mean.to_numpy(), level_band.mean)
    )
    assert new < 0.8 * walk
    assert new < 0.8 * np.mean(old)
    # Three factors move all series together, so that coverage varies much.
    assert inside(band, later) > 0.75


def test_forecasts_of_differenced_series_are_sums(fits):
    _, _, s, _ = fits
    changes = s._fitted().predictor.forecast(AHEAD, "observation", 0.9, changes=True).mean
    ahead = s.forecast(AHEAD).mean.to_numpy()
    np.testing.assert_allclose(np.diff(ahead, axis=1), changes.to_numpy()[:, 1:], atol=1e-9)
    ends = s._data.end
    whole = ends[1] == 0
    np.testing.assert_allclose(ahead[whole, 0], ends[0][whole] + changes.to_numpy()[whole, 0])
    # Of a series whose last values are missing, the changes since are those of its trend.
    i = int(np.flatnonzero(ends[1] == 1)[0])
    expected = ends[0][i] + s.trends_.mean.iloc[i, -1] + changes.iloc[i, 0]
    assert ahead[i, 0] == pytest.approx(expected)


def test_differenced_fits_are_saved_and_extended(fits, tmp_path):
    _, seen, s, _ = fits
    again = cavity.load(s.save(tmp_path / "run.nc"))
    pd.testing.assert_frame_equal(again.forecast(2).upper, s.forecast(2).upper)
    later = s.append(seen[:, -AHEAD:], n_draws=20)
    whole = with_terms(from_wide(seen), None, True)
    np.testing.assert_array_equal(later._data.y, whole.y)
    np.testing.assert_array_equal(later._data.end, whole.end)
    assert s.membership(seen[:3, :-AHEAD]).shape[0] == 3
    assert len(s.plot_series(0, steps=3).lines) > 0
    with pytest.raises(ValueError, match="not supported with difference=True"):
        s.predict_values(pd.DataFrame({"series": [0], "time": [1]}))


def test_differences_of_gappy_series():
    levels = np.array([[1.0, np.nan, 4.0, 5.0, np.nan], [np.nan, 2.0, 1.0, 1.5, 2.0]])
    changes, end = differences(levels)
    np.testing.assert_array_equal(
        changes, [[np.nan, np.nan, np.nan, 1.0, np.nan], [np.nan, np.nan, -1.0, 0.5, 0.5]]
    )
    np.testing.assert_array_equal(end, [[5.0, 2.0], [1.0, 0.0]])
    more, after = differences(np.array([[6.0, np.nan], [2.5, 3.0]]), *end)
    np.testing.assert_array_equal(more, [[np.nan, np.nan], [0.5, 0.5]])
    np.testing.assert_array_equal(after, [[6.0, 3.0], [1.0, 0.0]])
    nothing, still = differences(np.full((2, 2), np.nan), *end)
    assert np.isnan(nothing).all()
    np.testing.assert_array_equal(still, [[5.0, 2.0], [3.0, 2.0]])


def test_differences_that_are_refused():
    Y = np.arange(12.0).reshape(2, 6)
    rows = pd.DataFrame({"s": [0, 0, 1], "t": [0, 1, 0], "y": [1.0, 2.0, 3.0], "x": [0.0, 1, 2]})
    with pytest.raises(ValueError, match="does not go with covariates"):
        SeriesMixture(2, difference=True).check(
            rows, series="s", time="t", value="y", covariates=["x"]
        )
    with pytest.raises(ValueError, match="two times in a row"):
        SeriesMixture(2, difference=True).check(np.where(np.arange(6) % 2, np.nan, Y))
    with (
        pytest.warns(UserWarning, match="without any"),
        pytest.raises(ValueError, match="has none"),
    ):
        SeriesMixture(2, difference=True).check(np.where([[True], [False]], np.nan, Y))
    with pytest.raises(ValueError, match="difference=True is not supported"):
        SeriesMixture(2, difference=True, collapse="parallel").check(Y)


def test_forecasts_have_a_limit(fits):
    with pytest.raises(ValueError, match="ten times as far"):
        fits[2].forecast(10**6)


def test_series_of_few_values_are_not_said_to_trend():
    """Three values of noise are correlated with time by .7 in the median."""
    noise = np.random.default_rng(0).standard_normal((30, 3))
    for Y, trend in ((noise, False), (RAMPS[:, :3], False), (RAMPS, True)):
        forecaster = SeriesForecaster(None, from_wide(Y), None, None)
        assert (forecaster.trending() > TRENDING) is trend
