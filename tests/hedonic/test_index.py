"""The estimator recovers the truth of simulated sales and refuses bad tables with a reason."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from cavity.hedonic import HedonicIndex
from cavity.hedonic.plots import draw_index


def simulate(n=3000, n_regions=8, seed=0):
    rng = np.random.default_rng(seed)
    region = rng.integers(0, n_regions, n)
    months = rng.integers(0, 36, n)
    level = np.linspace(-0.4, 0.4, n_regions)
    slope = rng.normal(0, 0.2, n_regions)
    sqft = rng.lognormal(7.4, 0.35, n)
    log_price = (
        12.5
        + 0.005 * months
        + 0.03 * np.sin(2 * np.pi * months / 12)
        + (0.7 + slope[region]) * (np.log(sqft) - 7.4)
        + level[region]
        + 0.15 * rng.standard_normal(n)
    )
    sales = pd.DataFrame(
        {
            "region": [f"tract {r}" for r in region],
            "sale_date": pd.PeriodIndex(
                [pd.Period(ordinal=480 + int(m), freq="M") for m in months]
            ).to_timestamp(),
            "sqft": sqft,
        }
    )
    return sales, np.exp(log_price), level


def fitted(local="regression", **kwargs):
    sales, price, level = simulate()
    kwargs = {"features": ["sqft"], "random_state": 0, "progress": False, **kwargs}
    model = HedonicIndex(local, **kwargs)
    return model.fit(sales[:2000], price[:2000]), sales[2000:], price[2000:], level


def test_local_regressions_predict_better_and_their_intervals_cover():
    flat, sales, price, _ = fitted("none")
    local, _, _, level = fitted("regression")

    def error(model):
        return np.std(np.log(model.predict(sales) / price))

    # A sale's noise is 0.15; that of its estimate from 1,000 sales, 0.15 / sqrt(2,000) = 0.0034.
    # Three of these above, for what the regressions err: 1e-3. The flat one lacks levels that
    # spread by 0.26.
    assert error(local) < 0.16 < 0.25 < error(flat)
    for probability in (0.5, 0.9):  # 1,000 sales, four standard errors: 6e-5 for each
        interval = local.predict_interval(sales, probability)
        covered = np.mean((interval[:, 0] <= price) & (price <= interval[:, 1]))
        four = 4 * np.sqrt(probability * (1 - probability) / 1000)
        assert covered == pytest.approx(probability, abs=four)
    # 250 sales of a region: a standard error of 0.15 / sqrt(250) = 0.0095. Five of them in the
    # largest of eight: 5e-6.
    levels = local.local_.draws.beta[:, :, 0].mean(axis=0)
    assert np.abs(levels - levels.mean() - level).max() < 0.05


def test_without_a_level_the_regression_cannot_hold_it():
    local, sales, price, _ = fitted("regression")
    without, _, _, _ = fitted("regression", region_level=False)
    spread = [np.std(np.log(m.predict(sales) / price)) for m in (local, without)]
    assert spread[0] < spread[1]


def test_index_is_the_price_of_one_house():
    model, _, _, level = fitted()
    index = model.price_index(["tract 0", "tract 7"], season=False)
    assert len(index) == 72
    assert ((index["lower"] < index["price"]) & (index["price"] < index["upper"])).all()
    ratio = index["price"].to_numpy()[36:] / index["price"].to_numpy()[:36]
    # Two levels of 0.0095 each, and slopes away from the middle of the features: 0.02 together.
    # Five of them: 6e-7.
    assert np.log(ratio).mean() == pytest.approx(level[7] - level[0], abs=0.1)
    # The trend is a spline of 2,000 sales; each end of it rests on some 100 of them, with a
    # standard error of 0.015: seven of the difference's.
    growth = np.log(index["price"].iloc[35] / index["price"].iloc[0])
    assert growth == pytest.approx(0.005 * 35, abs=0.15)
    larger = model.price_index(["tract 0"], house={"sqft": 5000.0})
    assert (larger["price"].to_numpy() > index["price"].to_numpy()[:36]).all()
    seasonal = model.price_index(["tract 0"], season=True)["price"].to_numpy()
    assert np.ptp(np.log(seasonal / index["price"].to_numpy()[:36])) > 0.03


@pytest.mark.parametrize("answer", ["predict", "predict_interval"])
def test_a_region_never_seen_is_refused_by_name(answer):
    model, sales, _, _ = fitted("none")
    new = sales.head(20).assign(region=["tract 1"] * 3 + ["elsewhere"] * 17)
    message = r"Column 'region', row 3: no sales were seen in the region 'elsewhere'.*17 row"
    with pytest.raises(ValueError, match=message):
        getattr(model, answer)(new)


def test_dates_that_cannot_be_known_are_refused():
    model, sales, _, _ = fitted("none", horizon=2)
    last = model.months_[-1]

    def at(period):
        return sales.head(2).assign(sale_date=[sales["sale_date"].iloc[0], period.to_timestamp()])

    assert np.isfinite(model.predict(at(last + 2))).all()
    with pytest.raises(ValueError, match=r"row 1: 2013-03 lies after 2013-02, horizon=2 months"):
        model.predict(at(last + 3))
    with pytest.raises(ValueError, match=r"row 1: 2009-12 lies before the first sale of the fit"):
        model.predict(at(model.months_[0] - 1))
    for horizon in (-1, 1.5, True):
        with pytest.raises(ValueError, match="horizon must be a number of months"):
            fitted("none", horizon=horizon)


def test_an_index_goes_on_up_to_the_horizon():
    model, _, _, _ = fitted("regression", horizon=3)
    plain = model.price_index(["tract 0", "tract 1"])
    longer = model.price_index(["tract 0", "tract 1"], steps=3)
    assert longer["month"].iloc[-1] == model.months_[-1] + 3
    merged = longer.merge(plain, on=["region", "month"])
    assert np.array_equal(merged["price_x"], merged["price_y"])
    for steps in (4, -1):
        with pytest.raises(ValueError, match="steps must lie between 0 and horizon=3"):
            model.price_index(steps=steps)


def test_clusters_are_asked_of_clustered_models_only():
    model, _, _, _ = fitted("regression")
    for ask in (
        lambda: model.labels_,
        lambda: model.posterior_,
        model.diagnostics,
        model.region_clusters,
        model.plot_clusters,
    ):
        with pytest.raises(AttributeError, match=r"local='regression', which has none; use local"):
            ask()
    with pytest.raises(NotFittedError):
        HedonicIndex().labels_  # noqa: B018


def test_a_picture_of_an_index():
    model, _, _, _ = fitted("regression")
    ax = model.plot_index(["tract 0", "tract 3"], steps=6)
    index = model.price_index(["tract 3"], steps=6)
    lines = {tuple(line.get_ydata()): line.get_linestyle() for line in ax.get_lines()}
    assert lines[tuple(index["price"][:36])] == "-"
    assert lines[tuple(index["price"][35:])] == ":"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["tract 0", "tract 3"]
    band = ax.collections[1].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(index["lower"].min())
    assert band.max() == pytest.approx(index["upper"].max())
    again = model.plot_index(["tract 1"], ax=ax)
    assert again is ax
    plt.close(ax.figure)
    with pytest.raises(ValueError, match="9 regions are too many for one picture"):
        draw_index(pd.DataFrame({"region": list("abcdefghia")}), model.months_[-1])


def test_estimator_can_be_cloned_and_repeated():
    first, sales, _, _ = fitted()
    again = clone(first).fit(*simulate()[:2])
    assert again.get_params()["features"] == ["sqft"]
    same, _, _, _ = fitted()
    assert np.array_equal(first.predict(sales), same.predict(sales))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s, p: (s.drop(columns="sqft"), p), "lack the column.s. 'sqft'"),
        (lambda s, p: (s, p[:-1]), "y must have one price per sale"),
        (lambda s, p: (s, -p), "Prices must be positive and finite; row 0"),
        (lambda s, p: (s.assign(sqft=0.0), p), "column 'sqft', row 0"),
        (
            lambda s, p: (s.assign(region=[None, *s["region"][1:]]), p),
            "'region' has no value in row 0",
        ),
        (lambda s, p: (s.iloc[:0], p[:0]), "no sales"),
    ],
)
def test_bad_tables_are_refused(change, message):
    sales, price, _ = simulate(100)
    with pytest.raises(ValueError, match=message):
        HedonicIndex("none", features=["sqft"]).fit(*change(sales, price))


def test_bad_arguments_are_refused():
    sales, price, _ = simulate(100)
    with pytest.raises(TypeError, match="pandas DataFrame; got ndarray"):
        HedonicIndex("none", features=["sqft"]).fit(sales.to_numpy(), price)
    with pytest.raises(ValueError, match="local must be one of"):
        HedonicIndex("global", features=["sqft"]).fit(sales, price)
    model = HedonicIndex("none", features=["sqft"]).fit(sales, price)
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\)"):
        model.predict_interval(sales, 1.0)
    with pytest.raises(ValueError, match=r"No sales were seen in the region\(s\) tract 99"):
        model.price_index(["tract 99"])
    with pytest.raises(TypeError, match=r"a list of regions, such as \['tract 1'\]"):
        model.price_index("tract 1")
    with pytest.raises(ValueError, match=r"unknown feature\(s\) rooms"):
        model.price_index(house={"rooms": 3})
