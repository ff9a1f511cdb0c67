"""Probabilities that columns matter: from indicators of a fit, or by marginal odds after it.

The marginal odds of a column are those of a distribution per cluster against one for all, given the
labels of a draw, whatever the other columns say. Measurements are replaced by normal scores of
their ranks, so that neither their distribution nor outliers count; within a cluster the scores are
normal with a conjugate prior. Categories have a Dirichlet prior, counts a gamma prior.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse, special, stats

from cavity.io.columns import CATEGORICAL, COUNT, OVERDISPERSED, Cells, Column
from cavity.posterior.posterior import Posterior
from cavity.predict.draws import spread_draws
from cavity.updates import CATEGORIES, COUNTS, MEASUREMENTS

if TYPE_CHECKING:
    import pandas as pd

INDICATOR, MARGINAL = "indicator", "marginal"
# Marginal odds are averaged over so many draws.
N_DRAWS = 100
# Prior of the scores' mean and variance in a cluster: NIG(0, kappa, nu, psi).
_KAPPA, _NU, _PSI = 0.2, 4.0, 1.0


def column_relevance(posterior: Posterior, columns: list[Column], cells: Cells | None) -> Any:
    """Return the table of `cavity.mixture.Mixture.column_relevance`.

    Parameters
    ----------
    posterior : Posterior
    columns : list of Column
    cells : Cells or None
        Of the data; columns without indicators are left out if there are none.
    """
    import pandas as pd

    found = _of_indicators(posterior, columns)
    basis = dict.fromkeys(found, INDICATOR)
    rest = [column for column in columns if column.name not in found and column.kind != "empty"]
    if rest and cells is not None:
        for name, value in _marginal(posterior, columns, cells).items():
            if name not in found:
                found[name], basis[name] = value, MARGINAL
    kinds = {column.name: column.kind for column in columns}
    names = [column.name for column in columns if column.name in found]
    table: pd.DataFrame = pd.DataFrame(
        {
            "probability": [found[name] for name in names],
            "basis": [basis[name] for name in names],
            "kind": [kinds[name] for name in names],
        },
        index=pd.Index(names, name="column"),
    )
    return table.sort_values("probability", ascending=False, kind="stable")


def relevance_words(table: pd.DataFrame) -> str:
    """Return a paragraph that names the columns that matter, or those that do not.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame(
    ...     {"probability": [0.99, 0.1], "basis": "indicator"}, index=["a", "b"]
    ... )
    >>> relevance_words(table)
    '1 of 2 columns matters for the clusters: a (0.99). The others: at most 0.10.'
    """
    parts = []
    for basis in (INDICATOR, MARGINAL):
        own = table[table["basis"] == basis]["probability"]
        inside, outside = own[own > 0.5], own[own <= 0.5]
        if not len(own):
            continue
        if basis == INDICATOR:
            verb = "matters" if len(inside) == 1 else "matter"
            text = f"{len(inside)} of {len(own)} columns {verb} for the clusters"
            text += f": {_listed(inside)}." if len(inside) else "."
            if len(outside):
                text += f" The others: at most {outside.max():.2f}."
            parts.append(text)
        elif len(outside):
            parts.append(
                "Little or no difference between clusters, by the marginal odds of each column: "
                f"{_listed(outside)}."
            )
    return " ".join(parts)


def _listed(values: pd.Series, most: int = 20) -> str:
    words = [f"{name} ({value:.2f})" for name, value in values.items()]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def _of_indicators(posterior: Posterior, columns: list[Column]) -> dict[str, float]:
    """Return the probability of each column with an indicator, for draws of several clusters."""
    labels = posterior.flat_labels
    several = labels.min(axis=1) < labels.max(axis=1)
    out: dict[str, float] = {}
    for name, kinds in (
        (MEASUREMENTS, None),
        (CATEGORIES, (CATEGORICAL,)),
        (COUNTS, (COUNT,)),
    ):
        if name in posterior.parameters:
            own = [c.name for c in columns if (c.measured if kinds is None else c.kind in kinds)]
            values = posterior.parameters[name].reshape(len(labels), -1)
            out |= dict(zip(own, (values * several[:, None]).mean(axis=0).tolist(), strict=True))
    return out


def _marginal(posterior: Posterior, columns: list[Column], cells: Cells) -> dict[str, float]:
    """Return the mean probability of each column over draws, with prior odds of one."""
    measured = [column for column in columns if column.measured]
    over = [column for column in columns if column.kind == OVERDISPERSED]
    groups: tuple[tuple[list[Column], _Scores | _Categories | _Counts], ...] = (
        (measured + over, _Scores(np.hstack([cells.continuous, cells.overdispersed]))),
        ([c for c in columns if c.kind == CATEGORICAL], _Categories(cells.codes)),
        ([c for c in columns if c.kind == COUNT], _Counts(cells.counts)),
    )
    draws = posterior.flat_labels[spread_draws(len(posterior.flat_labels), N_DRAWS)]
    total = [np.zeros(len(own)) for own, _ in groups]
    for z in draws:
        inside = np.flatnonzero(z > 0) if posterior.record.noise else np.arange(z.size)
        slot = np.unique(z[inside], return_inverse=True)[1].reshape(-1)
        n_clusters = int(slot.max(initial=-1)) + 1
        if n_clusters < 2:
            continue
        member = sparse.csr_matrix(
            (np.ones(inside.size), (slot, inside)), shape=(n_clusters, z.size)
        )
        for sums, (own, model) in zip(total, groups, strict=True):
            if own:
                sums += special.expit(_log_odds(model, member))
    return {
        column.name: float(value)
        for sums, (own, _) in zip(total, groups, strict=True)
        for column, value in zip(own, sums / len(draws), strict=True)
    }


def _log_odds(model: _Scores | _Categories | _Counts, member: Any) -> np.ndarray:
    """Return the log odds of every column that it has a distribution per cluster."""
    own = [np.asarray(member @ values) for values in model.sums]
    every = [values.sum(axis=0, keepdims=True) for values in own]
    odds: np.ndarray = model.log_mass(*own).sum(axis=0) - model.log_mass(*every)[0]
    return odds


# Columns of one kind: the terms of their sums, and the log marginal likelihood of each cluster and
# column given its sums.


class _Scores:
    def __init__(self, values: np.ndarray) -> None:
        there = ~np.isnan(values)
        rank = stats.rankdata(values, axis=0, nan_policy="omit") if values.size else values
        y = np.where(there, stats.norm.ppf((rank - 0.5) / np.maximum(there.sum(axis=0), 1)), 0.0)
        self.sums = [there.astype(float), y, y * y]

    def log_mass(self, *sums: np.ndarray) -> np.ndarray:
        n, first, second = sums
        kappa, nu = _KAPPA + n, _NU + n
        psi = _PSI + second - first * first / kappa
        mass: np.ndarray = special.gammaln(0.5 * nu) - special.gammaln(0.5 * _NU)
        mass += 0.5 * (np.log(_KAPPA / kappa) + _NU * np.log(_PSI) - nu * np.log(psi))
        return mass


class _Categories:
    def __init__(self, codes: np.ndarray) -> None:
        self.levels = [int(column.max(initial=0)) + 1 for column in codes.T]
        blocks = [
            column[:, None] == np.arange(size)
            for column, size in zip(codes.T, self.levels, strict=True)
        ]
        self.sums = [np.hstack(blocks).astype(float)] if blocks else [np.empty((len(codes), 0))]

    def log_mass(self, *sums: np.ndarray) -> np.ndarray:
        (members,) = sums
        start = np.cumsum([0, *self.levels[:-1]])
        size = np.array(self.levels)
        total = np.add.reduceat(members, start, axis=1)
        mass: np.ndarray = np.add.reduceat(special.gammaln(1.0 + members), start, axis=1)
        return mass + special.gammaln(size) - special.gammaln(size + total)


class _Counts:
    def __init__(self, counts: np.ndarray) -> None:
        there = ~np.isnan(counts)
        y = np.where(there, counts, 0.0)
        self.sums = [there.astype(float), y]
        self.rate = there.sum(axis=0) / (y.sum(axis=0) + 0.5 * there.sum(axis=0) + 1e-300)

    def log_mass(self, *sums: np.ndarray) -> np.ndarray:
        n, total = sums
        mass: np.ndarray = special.gammaln(1.0 + total) + np.log(self.rate)
        return mass - (1.0 + total) * np.log(self.rate + n)
