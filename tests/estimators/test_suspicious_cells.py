"""Suspicious cells of tables: by the definition of their tails, and by example."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from cavity import TableMixture
from cavity.predict.draws import FreshClusters, Rows, continuous_entries
from cavity.predict.suspicious import cell_tails

RUN = {"n_chains": 2, "n_warmup": 60, "n_draws": 60, "random_state": 0, "n_jobs": 1}
TYPOS = {3: ("income", 41.2), 57: ("income", 23.9), 90: ("age", 1974.0), 20: ("kind", "c")}


def mixture_draws(df):
    """One draw of two clusters in two columns, with shares of two categories."""
    draws = continuous_entries(
        np.array([[0.7, 0.3]]),
        np.array([[[0.0, 0.0], [3.0, 1.0]]]),
        np.array([[[[1.0, 0.6], [0.6, 2.0]], [[0.5, -0.1], [-0.1, 0.4]]]]),
        None if df is None else np.full((1, 2), df),
        np.array([[0, 1]]),
        FreshClusters(np.zeros((1, 2)), np.ones(1), np.eye(2)[None], np.full(1, np.inf)),
        None if df is None else np.full(1, df),
    )
    share = np.array([[0.9, 0.1], [0.2, 0.8]])
    rate = np.array([[3.0], [8.0]])
    size = np.array([[np.inf], [2.5]])
    return draws._replace(share=share, levels=np.array([0, 2]), rate=rate, size=size)


@pytest.mark.parametrize("df", [None, 3.0])
def test_tails_by_their_definition(df):
    """Conditional distributions by integrating the joint density on a grid."""
    draws = mixture_draws(df)
    rows = Rows(
        np.array([[1.0, 2.5], [2.0, np.nan]]), np.array([[1], [-1]]), np.array([[6.0], [1.0]])
    )
    none = np.full((2, 2), np.nan)
    found = cell_tails(draws, rows, none, np.zeros(2, dtype=int), 2)
    mean, cov = [[0.0, 0.0], [3.0, 1.0]], [[[1.0, 0.6], [0.6, 2.0]], [[0.5, -0.1], [-0.1, 0.4]]]
    pi, share = [0.7, 0.3], [[0.9, 0.1], [0.2, 0.8]]
    count = [stats.poisson(3.0), stats.nbinom(2.5, 2.5 / 10.5)]
    x = np.linspace(-400.0, 400.0, 800_001)

    def joint(k, points, seen=(0, 1)):
        at = np.array(mean[k])[list(seen)]
        c = np.array(cov[k])[np.ix_(seen, seen)]
        if df is None:
            return stats.multivariate_normal(at, c).pdf(points)
        return stats.multivariate_t(at, c, df).pdf(points)

    def two_sided(density, value):
        mass = np.cumsum(density) / density.sum()
        below = np.interp(value, x, mass)
        return min(1.0, 2.0 * min(below, 1.0 - below))

    # The first row: each measurement, with the category and the count of the row.
    others = [pi[k] * share[k][1] * count[k].pmf(6) for k in (0, 1)]
    along = sum(
        w * joint(k, np.column_stack([x, np.full(x.size, 2.5)])) for k, w in enumerate(others)
    )
    assert found[0, 0] == pytest.approx(two_sided(along, 1.0), rel=2e-3)
    along = sum(
        w * joint(k, np.column_stack([np.full(x.size, 1.0), x])) for k, w in enumerate(others)
    )
    assert found[0, 1] == pytest.approx(two_sided(along, 2.5), rel=2e-3)
    weight = np.array([pi[k] * joint(k, [1.0, 2.5]) * count[k].pmf(6) for k in (0, 1)])
    q = weight @ np.array(share) / weight.sum()
    assert found[0, 2] == pytest.approx(q[q <= q[1]].sum())
    weight = np.array([pi[k] * joint(k, [1.0, 2.5]) * share[k][1] for k in (0, 1)])
    weight /= weight.sum()
    below = sum(w * c.cdf(6) for w, c in zip(weight, count, strict=True))
    above = sum(w * c.sf(5) for w, c in zip(weight, count, strict=True))
    assert found[0, 3] == pytest.approx(min(1.0, 2.0 * min(below, above)))
    # The second row lacks a measurement and the category.
    along = sum(pi[k] * count[k].pmf(1) * joint(k, x[:, None], (0,)) for k in (0, 1))
    assert found[1, 0] == pytest.approx(two_sided(along, 2.0), rel=2e-3)
    assert np.isnan(found[1, [1, 2]]).all()


def customers(seed=0):
    """Two segments with skewed incomes, and typing errors."""
    rng = np.random.default_rng(seed)
    segment = np.arange(240) % 2
    table = pd.DataFrame(
        {
            "age": rng.normal(35.0 + 15.0 * segment, 4.0),
            "income": np.exp(rng.normal(10.2 + 0.9 * segment, 0.25)),
            "visits": rng.poisson(4.0 + 8.0 * segment),
            "kind": np.where(rng.random(240) < 0.02 + 0.96 * segment, "a", "b"),
        }
    )
    table.loc[7, "age"] = np.nan
    clean = table.copy()
    for row, (column, value) in TYPOS.items():
        table.loc[row, column] = value
    return clean, table


def fitted(table):
    return TableMixture(3, feature_types={"visits": "count"}, **RUN).fit(table)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("without_pictures")
def test_typing_errors_are_named(tmp_path):
    """Incomes a thousand times too small, a birth year, and a category that nobody else has."""
    clean, table = customers()
    m = fitted(table)
    found = m.suspicious_cells(table)
    named = set(zip(found["row"], found["column"], strict=True))
    assert {(str(row), column) for row, (column, _) in TYPOS.items() if column != "kind"} <= named
    assert len(found) <= len(TYPOS) + 3
    assert (found["tail_probability"].to_numpy() < 1.0 / 240).all()
    page = m.report(tmp_path / "page.html", table).read_text(encoding="utf-8")
    assert "income 41.2" in page
    # Negative control: under the model about one is expected in a clean table.
    assert len(fitted(clean).suspicious_cells(clean)) <= 3
