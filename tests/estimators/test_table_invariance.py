"""What must change nothing of a table's fit: the same draws, one by one, for the same seed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from cavity import TableMixture
from cavity.datasets import make_table

RUN = {"n_chains": 2, "n_warmup": 30, "n_draws": 40, "random_state": 0, "n_jobs": 1}


def draws_of(table, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = TableMixture(3, feature_types={"count_0": "count"}, **RUN).fit(table, **more)
    return m.posterior_.labels, m.posterior_.log_joint


@pytest.fixture(scope="module")
def table():
    return make_table(
        70, 3, n_continuous=2, n_categorical=2, separation=2.0, missing=0.1, random_state=6
    )[0]


@pytest.fixture(scope="module")
def plain(table):
    return draws_of(table)


def same(one, other):
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_allclose(one[1], other[1], rtol=1e-12)


def test_columns_without_any_value(table, plain):
    wider = table.assign(nothing=np.nan, nobody=None)
    same(draws_of(wider[["nothing", *table.columns, "nobody"]]), plain)


def test_the_order_of_kinds_of_columns(table, plain):
    same(draws_of(table[["kind_0", "count_0", "size_0", "kind_1", "size_1"]]), plain)


def test_names_of_categories_rows_and_columns(table, plain):
    other = table.assign(kind_0=table["kind_0"].map({"a": "ash", "b": "birch", "c": "cedar"}))
    other.index = [f"row {i}" for i in range(len(other))]
    same(draws_of(other.rename(columns={"size_0": "height"})), plain)


def test_equal_weights(table, plain):
    same(draws_of(table, sample_weight=np.full(len(table), 0.3)), plain)
    # Another seed, or another table, has other draws: the checks above can fail.
    changed = table.assign(size_0=table["size_0"].to_numpy()[::-1])
    assert (draws_of(changed)[0] != plain[0]).any()
