"""The clustered model follows local trends that regressions cannot see."""

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
    assert covered == pytest.approx(0.9, abs=0.038)  # four standard errors at 1,000 sales


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


def test_a_region_never_seen_is_a_mixture_of_the_others(sales, clustered):
    _, test = sales
    new = test.head(5).assign(region="elsewhere")
    mixed = clustered.predict(new)
    everywhere = [clustered.predict(new.assign(region=r)) for r in clustered.regions_]
    assert np.allclose(np.log(mixed), np.mean(np.log(everywhere), axis=0))
    interval = clustered.predict_interval(new)
    known = clustered.predict_interval(test.head(5))
    assert (interval[:, 1] / interval[:, 0] > known[:, 1] / known[:, 0]).all()
    both = clustered.predict(test.head(3).assign(region=["elsewhere", *test["region"][1:3]]))
    assert np.allclose(both[1:], clustered.predict(test.head(3))[1:])
    assert np.isclose(both[0], mixed[0])
