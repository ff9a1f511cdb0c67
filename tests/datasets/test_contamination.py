"""Outliers lie where they should; the spoiled wine table says truly what was done to it."""

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_wine

from cavity.datasets import add_outliers, load_wine_with_bad_rows


def test_outliers_are_uniform_over_three_times_the_range():
    """Kolmogorov-Smirnov at level 1e-4 for each of two columns."""
    X = np.random.default_rng(0).normal(size=(2000, 2)) * [1, 50] + [3, -7]
    out, mask = add_outliers(X, 0.5, random_state=1)
    assert np.array_equal(out[~mask], X)
    assert mask.sum() == 1000
    for j in range(2):
        low, high = X[:, j].min(), X[:, j].max()
        law = stats.uniform((low + high) / 2 - 1.5 * (high - low), 3 * (high - low))
        assert stats.kstest(out[mask, j], law.cdf).pvalue > 1e-4


def test_no_outliers_is_the_data():
    X = np.arange(6.0).reshape(3, 2)
    out, mask = add_outliers(X, 0.0)
    assert np.array_equal(out, X)
    assert not mask.any()


@pytest.mark.parametrize(
    ("X", "fraction", "message"),
    [
        ([1.0, 2.0], 0.1, "X must be a table"),
        (np.empty((0, 2)), 0.1, "X must be a table"),
        ([[1.0, np.nan]], 0.1, "row 0, column 1 is nan"),
        ([[1.0, 2.0]], -0.1, "fraction must be a number at least 0"),
    ],
)
def test_outliers_refuse_bad_input(X, fraction, message):
    with pytest.raises(ValueError, match=message):
        add_outliers(X, fraction)


def test_wine_changes_only_the_spoiled_rows():
    table, truth = load_wine_with_bad_rows()
    clean = load_wine().data
    changed = (table.to_numpy() != clean).any(axis=1)
    assert np.array_equal(changed, truth.spoiled)
    assert truth.spoiled.sum() == 12
    assert np.array_equal(truth.spoiled, truth.fault != "")
    assert {fault.split(" in ")[0] for fault in truth.fault if fault} == {
        "unit mix-up",
        "decimal slip",
        "saturated sensor",
    }
    # Every fault puts the row outside what sound wines show.
    low, high = clean.min(axis=0), clean.max(axis=0)
    values = table.to_numpy()[truth.spoiled]
    assert ((values < low) | (values > high)).any(axis=1).all()


def test_wine_is_reproducible_and_settable():
    first, _ = load_wine_with_bad_rows(3)
    assert first.equals(load_wine_with_bad_rows(3)[0])
    assert not first.equals(load_wine_with_bad_rows(4)[0])
    assert not load_wine_with_bad_rows(n_bad=0)[1].spoiled.any()
    with pytest.raises(ValueError, match="n_bad must be at most 178"):
        load_wine_with_bad_rows(n_bad=500)
