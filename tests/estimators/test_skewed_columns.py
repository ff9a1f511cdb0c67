"""Columns whose logarithm is the better measurement are pointed out, and no others."""

import warnings

import numpy as np
import pandas as pd
import pytest

from cavity import GaussianMixture, SkewedColumnsWarning, TableMixture
from cavity.estimators.skewed_columns import is_skewed

SHORT = {"n_chains": 1, "n_warmup": 2, "n_draws": 4, "random_state": 0}


def draws(seed, n=300):
    rng = np.random.default_rng(seed)
    halves = np.where(np.arange(n) < n // 4, 8.0, 0.0)
    return {
        "lognormal": np.exp(rng.normal(size=n)),
        "two lognormal groups": np.exp(halves / 8.0 + 0.8 * rng.normal(size=n)),
        "exponential": rng.exponential(size=n) ** 0.7,
        "normal": rng.normal(20.0, 2.0, n),
        "t": 60.0 + rng.standard_t(3, n),
        "uniform": rng.uniform(1.0, 9.0, n),
        "two groups": 20.0 + halves + rng.normal(size=n),
        "negative": np.exp(rng.normal(size=n)) - 1.0,
        "few values": np.exp(rng.integers(1, 12, n)),
    }


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("lognormal", 40, 40),
        ("two lognormal groups", 36, 40),
        ("exponential", 0, 4),
        ("normal", 0, 0),
        ("t", 0, 0),
        ("uniform", 0, 0),
        ("two groups", 0, 0),
        ("negative", 0, 0),
        ("few values", 0, 0),
    ],
)
def test_what_is_skewed(name, least, most):
    assert least <= sum(is_skewed(draws(seed)[name]) for seed in range(40)) <= most


def test_gaps_are_no_values():
    values = draws(0)["lognormal"]
    values[::7] = np.nan
    assert is_skewed(values)
    assert not is_skewed(values[:39])


@pytest.mark.parametrize("estimator", [GaussianMixture, TableMixture])
def test_they_are_named_with_a_remedy(estimator):
    made = draws(1)
    table = pd.DataFrame({"size": made["normal"], "the price": made["lognormal"]})
    with pytest.warns(SkewedColumnsWarning) as found:
        estimator(2, **SHORT).fit(table)
    (text,) = [str(w.message) for w in found if w.category is SkewedColumnsWarning]
    assert text.startswith("Column 'the price' has a long tail to the right that its logarithm")
    assert "--log 'the price'" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error", SkewedColumnsWarning)
        estimator(2, **SHORT).fit(table.assign(**{"the price": np.log(table["the price"])}))


def test_many_are_counted():
    rng = np.random.default_rng(2)
    table = pd.DataFrame(np.exp(rng.normal(size=(200, 10))), columns=list("abcdefghij"))
    with pytest.warns(SkewedColumnsWarning, match="'g', 'h' and 2 more have a long tail"):
        GaussianMixture(2, **SHORT).fit(table)
