"""Splines, seasons and months."""

import numpy as np
import pandas as pd
import pytest

from cavity.hedonic.design import LogQuartileSplines, SeasonalTrend, month_labels, month_numbers


def test_splines_span_smooth_functions_and_are_centred():
    rng = np.random.default_rng(0)
    X = rng.lognormal(size=(2000, 1))
    splines = LogQuartileSplines().fit(X)
    S = splines.transform(X)
    assert np.allclose(S.mean(axis=0), 0)
    target = np.log(X[:, 0]) ** 2  # a quadratic spline holds it exactly
    design = np.column_stack([np.ones(len(S)), S])
    fit = design @ np.linalg.lstsq(design, target, rcond=None)[0]
    assert np.allclose(fit, target)


def test_ties_and_constants_make_fewer_knots():
    X = np.column_stack([np.repeat([1.0, 2.0], [60, 40]), np.full(100, 3.0)])
    S = LogQuartileSplines().fit_transform(X)
    assert S.shape == (100, 2)  # two knots: one segment of degree two; the constant has none
    assert np.isfinite(S).all()
    with pytest.raises(ValueError, match="X has 1 columns; fitted with 2"):
        LogQuartileSplines().fit(X).transform(X[:, :1])


def test_features_that_have_no_logarithm_are_named():
    table = pd.DataFrame({"sqft": [1.0, 2.0], "lot": [3.0, 0.0]})
    with pytest.raises(ValueError, match=r"column 'lot', row 1 is 0\.0"):
        LogQuartileSplines().fit(table)
    with pytest.raises(ValueError, match="column 0, row 0 is nan"):
        LogQuartileSplines().fit([[np.nan]])


def test_trend_and_season_recover_their_functions():
    months = np.arange(480, 564)
    trend = SeasonalTrend().fit(months)
    season = 0.1 * np.sin(2 * np.pi * months / 12)
    y = 0.01 * (months - 480) + season
    design = np.column_stack([np.ones(84), trend.transform(months)])
    coef = np.linalg.lstsq(design, y, rcond=None)[0]
    assert np.abs(design @ coef - y).max() < 0.01
    flat = np.column_stack([np.ones(84), trend.transform(months, season=False)]) @ coef
    assert np.abs((flat - y + season) - (flat - y + season).mean()).max() < 0.01
    # The season repeats beyond the months seen.
    later = np.arange(564, 576)
    assert np.allclose(trend.transform(later)[:, -5:], trend.transform(later - 12)[:, -5:])


def test_one_month_has_no_trend():
    assert SeasonalTrend().fit([5, 5]).transform([5]).shape[1] == 5


@pytest.mark.parametrize(
    "dates",
    [
        ["2010-01-31", "2010-02-01"],
        pd.to_datetime(["2010-01-31", "2010-02-01"]),
        pd.PeriodIndex(["2010-01", "2010-02"], freq="M"),
        pd.Series(pd.to_datetime(["2010-01-31", "2010-02-01"]), index=[7, 9]),
    ],
)
def test_months_of_any_kind_of_date(dates):
    assert month_numbers(dates).tolist() == [480, 481]
    assert [str(m) for m in month_labels([480, 481])] == ["2010-01", "2010-02"]


def test_bad_dates_are_named():
    with pytest.raises(ValueError, match="Column 'when' must hold dates"):
        month_numbers(["soon"], "when")
    with pytest.raises(ValueError, match="Column 'when' has no date in row 1"):
        month_numbers(["2010-01-01", None], "when")
