"""The clustered model follows local trends that regressions cannot see."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from reproduction.housing import simulate_sales, split

from cavity.hedonic import HedonicIndex


@pytest.fixture(scope="module")
def sales():
    return split(simulate_sales(4000, seed=3))


@pytest.fixture(scope="module")
def clustered(sales):
    train, _ = sales
    model = HedonicIndex(
        n_clusters=3, n_chains=2, n_warmup=60, n_draws=100, random_state=0, progress=False
    )
    return model.fit(train, train["price"])


def test_trends_are_followed_and_intervals_cover(sales, clustered):
    train, test = sales
    flat = HedonicIndex("regression", random_state=0, progress=False).fit(train, train["price"])

    def spread(model):
        return np.std(np.log(model.predict(test) / test["price"]))

    # The noise of a sale is 0.15; the trends wander by another 0.1.
    assert spread(clustered) < 0.16 < 0.175 < spread(flat)
    interval = clustered.predict_interval(test, 0.9)
    covered = np.mean((interval[:, 0] <= test["price"]) & (test["price"] <= interval[:, 1]))
    assert covered == pytest.approx(0.9, abs=0.038)  # four standard errors at 1,000 sales: 6e-5


def test_index_differs_between_regions_in_shape(clustered):
    index = clustered.price_index()
    wide = np.log(index.pivot(index="region", columns="month", values="price"))
    changes = wide.sub(wide.mean(axis=1), axis=0)
    assert (changes - changes.mean()).abs().max(axis=None) > 0.05
    width = np.log(index["upper"] / index["lower"])
    assert (width > 0).all()
    # One sale is far less certain than the index.
    assert width.median() < 0.5 * 2 * 1.645 * 0.15


def test_regions_are_the_series_in_order(clustered):
    mixture = clustered.local_.mixture
    assert mixture.posterior_.labels.shape == (2, 100, len(clustered.regions_))
    assert list(mixture.series_.index) == list(clustered.regions_)


def test_months_without_any_sale_are_in_the_index(sales):
    train, _ = sales
    quarterly = train[train["sale_date"].dt.month % 3 == 1]
    model = HedonicIndex(
        n_clusters=2, n_chains=1, n_warmup=5, n_draws=10, random_state=0, progress=False
    ).fit(quarterly, quarterly["price"])
    index = model.price_index(["tract 0"])
    assert len(index) == len(model.months_) == 22
    assert np.isfinite(index["price"]).all()


def test_labels_and_certainty_by_region(clustered):
    mixture = clustered.local_.mixture
    assert np.array_equal(clustered.labels_, mixture.labels_)
    assert clustered.posterior_ is mixture.posterior_
    table = clustered.region_clusters()
    assert list(table["region"]) == list(clustered.regions_)
    assert np.array_equal(table["cluster"], clustered.labels_)
    assert table["certainty"].between(0, 1).all()
    assert table["n_sales"].sum() == 3000


def test_diagnostics_are_those_of_the_clusters(clustered):
    diagnostics = clustered.diagnostics(n_pairs=5)
    assert len(diagnostics.pairs) == 5
    assert diagnostics.verdict == clustered.posterior_.diagnostics(n_pairs=5).verdict


def test_forecasts_widen_with_the_months(clustered):
    index = clustered.price_index(["tract 0"], steps=6)
    width = np.log(index["upper"] / index["lower"]).to_numpy()
    assert width[-1] > width[-7]


def test_a_region_never_seen_is_refused(sales, clustered):
    _, test = sales
    with pytest.raises(ValueError, match="row 0: no sales were seen in the region 'elsewhere'"):
        clustered.predict(test.head(5).assign(region="elsewhere"))


def test_a_picture_of_the_clusters(clustered):
    axes = clustered.plot_clusters()
    sizes = np.bincount(clustered.labels_)
    assert len(axes) == len(sizes)
    index = clustered.price_index().pivot(index="region", columns="month", values="price")
    for k, ax in enumerate(axes):
        many = "one region" if sizes[k] == 1 else f"{sizes[k]} regions"
        assert ax.get_title(loc="left") == f"cluster {k}: {many}"
        members = index.to_numpy()[clustered.labels_ == k]
        expected = 100 * members / members[:, :1]
        drawn = np.array([line.get_ydata() for line in ax.get_lines()])
        assert np.allclose(drawn, [*expected, expected.mean(axis=0)])
    plt.close(axes[0].figure)
    figure, one = plt.subplots()
    with pytest.raises(ValueError, match="axes; got"):
        clustered.plot_clusters(ax=[one] * (len(axes) + 1))
    plt.close(figure)
