"""Clusters in terms of the columns: means, category probabilities, rates, and words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from cavity.io.columns import (
    CATEGORICAL,
    CONTINUOUS,
    COUNT,
    ORDINAL,
    OVERDISPERSED,
    Cells,
    Column,
)
from cavity.posterior.posterior import Posterior
from cavity.posterior.relabel import relabel, relabelled_parameter
from cavity.posterior.units import ColumnUnits
from cavity.predict.covariances import flat, matrices
from cavity.predict.draws import MAX_DRAWS, spread_draws

if TYPE_CHECKING:
    import pandas as pd

# Nearer to the others than this a cluster is not said to be apart.
NEAR = 0.5
_PARAMETER = {
    CONTINUOUS: "mean",
    CATEGORICAL: "share",
    COUNT: "rate",
    OVERDISPERSED: "mean_count",
}


def _figure(value: float, digits: int = 4) -> str:
    """A number as people write it: thousands in full, not as powers of ten.

    Examples
    --------
    >>> _figure(28481.6), _figure(0.0123456), _figure(3.2e9)
    ('28,482', '0.01235', '3.2e+09')
    """
    return f"{value:,.0f}" if 10**digits <= abs(value) < 1e8 else f"{value:.{digits}g}"


# Among the details of a run: every column over all rows.
OVERALL = "overall"


def overall_of(
    cells: Cells, columns: list[Column], weight: np.ndarray | None = None
) -> dict[str, list[float]]:
    """Mean of each column over the rows that have a value, or the shares of its categories."""
    of_kind = {
        CONTINUOUS: cells.continuous,
        ORDINAL: cells.continuous,
        CATEGORICAL: cells.codes,
        COUNT: cells.counts,
        OVERDISPERSED: cells.overdispersed,
    }
    at = dict.fromkeys(of_kind, 0)
    found = {}
    for column in columns:
        if column.kind not in of_kind:
            continue
        kind = CONTINUOUS if column.measured else column.kind
        values = of_kind[kind][:, at[kind]]
        at[kind] += 1
        there = values >= 0 if column.kind == CATEGORICAL else np.isfinite(values)
        parts = np.ones(int(there.sum())) if weight is None else weight[there]
        if column.kind == ORDINAL:
            values = np.searchsorted(column.thresholds, values)
        if column.kind in (CATEGORICAL, ORDINAL):
            sums = np.bincount(values[there], parts, minlength=len(column.categories))
        else:
            sums = np.atleast_1d(parts @ values[there])
        found[column.name] = (sums / parts.sum()).tolist()
    return found


def ordinal_shares(
    posterior: Posterior, c: int, ends: np.ndarray, chosen: np.ndarray
) -> np.ndarray:
    """Return the probability of each category in every slot of some draws, (draw, slot, category).

    Parameters
    ----------
    posterior : Posterior
    c : int
        Place of the ordinal column among the continuous ones.
    ends : array
        Ends of the intervals of its categories.
    chosen : array of int
    """
    mean = flat(posterior, "mean")[chosen][..., c]
    sd = np.sqrt(matrices(posterior, chosen)[..., c, c])
    z = (ends - mean[..., None]) / sd[..., None]
    if "df" in posterior.drawn:
        below = special.stdtr(flat(posterior, "df")[chosen][..., None], z)
    else:
        below = special.ndtr(z)
    return np.diff(below, axis=2)


@dataclass(frozen=True)
class Described:
    """One column in every cluster.

    Attributes
    ----------
    column : Column
    estimate, lower, upper : arrays, shape (cluster, components)
        One component, or one for each category.
    overall : array, shape (components,)
        Over all rows; over all clusters, weighed by their size, where the rows are in files.
    center, spread : float
        Median and robust standard deviation of a continuous column.
    with_value : bool
        Whether words give a continuous column's mean next to its distance from the median.
    """

    column: Column
    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    overall: np.ndarray
    center: float = 0.0
    spread: float = 1.0
    with_value: bool = True

    def sizes(self) -> np.ndarray:
        """How far each cluster is from all, in units that are comparable between columns."""
        here, all_of = self.estimate, self.overall
        if self.column.kind == CONTINUOUS:
            return np.abs(here[:, 0] - self.center) / self.spread
        if self.column.kind in (CATEGORICAL, ORDINAL):
            ratio = np.log(np.maximum(here, 1e-12) / np.maximum(all_of, 1e-12))
            return np.sqrt(2.0 * np.maximum((here * ratio).sum(axis=1), 0.0))
        ratio = np.log(np.maximum(here, 1e-12) / max(float(all_of[0]), 1e-12))
        divergence = here * ratio - here + all_of
        return np.sqrt(2.0 * np.maximum(divergence[:, 0], 0.0))

    def words(self, k: int) -> str:
        """What cluster k is like in this column."""
        name = self.column.name
        if self.column.kind == CONTINUOUS:
            away = f"{(self.estimate[k, 0] - self.center) / self.spread:+.1f}"
            if not self.with_value:
                return f"{name} {away}"
            return f"{name} {_figure(self.estimate[k, 0])} ({away})"
        if self.column.kind in (CATEGORICAL, ORDINAL):
            place = int(np.argmax(np.abs(self.estimate[k] - self.overall)))
            here, all_of = self.estimate[k, place], self.overall[place]
            return f"{name} {self.column.categories[place]} {here:.0%} (all: {all_of:.0%})"
        here, all_of = (_figure(value, 3) for value in (self.estimate[k, 0], self.overall[0]))
        return f"{name} {here} (all: {all_of})"


@dataclass(frozen=True)
class ClusterSummary:
    """Every column in every cluster."""

    described: tuple[Described, ...]
    n_clusters: int

    @classmethod
    def of(
        cls,
        posterior: Posterior,
        labels: np.ndarray,
        weights: np.ndarray,
        columns: list[Column],
        units: ColumnUnits,
        level: float,
    ) -> ClusterSummary:
        """From the draws, matched to the estimate, whose first clusters have these weights."""
        of_rows = posterior.record.details.get(OVERALL, {})
        found: dict[str, Any] = {
            name: posterior.parameter_summary(name, labels, level=level)
            for name in _PARAMETER.values()
            if name in posterior.cluster_parameters
        }
        at = dict.fromkeys(_PARAMETER, 0)
        if any(column.kind == ORDINAL for column in columns):
            chosen = spread_draws(posterior.n_chains * posterior.n_draws, MAX_DRAWS)
            own = relabel(posterior.flat_labels[chosen], np.unique(labels, return_inverse=True)[1])
        mixed = any(column.kind != CONTINUOUS for column in columns)
        out = []
        for column in columns:
            kind = CONTINUOUS if column.measured else column.kind
            if kind not in _PARAMETER:
                continue
            width = len(column.categories) if column.kind == CATEGORICAL else 1
            place = slice(at[kind], at[kind] + width)
            center, spread = 0.0, 1.0
            if column.kind == CONTINUOUS:
                center, spread = (float(v[place.start]) for v in (units.centre, units.scale))
            at[kind] += width
            values = found[_PARAMETER[kind]]
            if column.kind == ORDINAL:
                shares = ordinal_shares(posterior, place.start, column.ends, chosen)
                values = relabelled_parameter(shares, own, level)
                place = slice(None)
            mean, lower, upper = (
                np.array(values[key][: len(weights), place]) for key in ("mean", "lower", "upper")
            )
            # A row that could be anywhere may be a cluster of its own that no draw has: it could
            # be like any other.
            unknown = np.isnan(mean).any(axis=1)
            if unknown.all():  # every row is noise, or no draw has one of the clusters
                continue
            overall = weights[~unknown] @ mean[~unknown] / weights[~unknown].sum()
            mean[unknown] = overall
            overall = np.array(of_rows.get(column.name, overall))
            lower[unknown] = lower[~unknown].min(axis=0)
            upper[unknown] = upper[~unknown].max(axis=0)
            out.append(Described(column, mean, lower, upper, overall, center, spread, mixed))
        return cls(tuple(out), len(weights))

    def table(self) -> pd.DataFrame:
        """One row per cluster, column and category."""
        import pandas as pd

        rows = []
        for k in range(self.n_clusters):
            for one in self.described:
                names = one.column.categories or ("",)
                for c, name in enumerate(names):
                    rows.append(
                        (
                            k,
                            one.column.name,
                            name,
                            one.estimate[k, c],
                            one.lower[k, c],
                            one.upper[k, c],
                            one.overall[c],
                            one.column.kind,
                        )
                    )
        heads = ["cluster", "column", "category", "estimate", "lower", "upper", "overall", "kind"]
        return pd.DataFrame(rows, columns=heads).set_index(["cluster", "column", "category"])

    def features(self) -> pd.DataFrame:
        """One row per cluster and column, the farthest first."""
        import pandas as pd

        each = [one.sizes() for one in self.described]
        rows = []
        for k in range(self.n_clusters):
            sizes = np.array([of_clusters[k] for of_clusters in each])
            for j in np.argsort(-sizes, kind="stable").tolist():
                one = self.described[j]
                rows.append((k, one.column.name, sizes[j], one.words(k)))
        frame = pd.DataFrame(rows, columns=["cluster", "column", "size", "words"])
        return frame.set_index(["cluster", "column"])

    def sentences(self, most: int) -> list[str]:
        """For each cluster what sets it apart."""
        frame = self.features()
        out = []
        for k in range(self.n_clusters):
            if not self.described:
                out.append("in no draw")
                continue
            own = frame.loc[k]
            words = own.loc[own["size"] >= NEAR, "words"].tolist()[:most]
            out.append(", ".join(words) or "near the median in all columns")
        return out


def sections(summary: ClusterSummary, columns: list[Column]) -> list[tuple[str, Any, str]]:
    """Return the sections that only the page of a table has."""
    from cavity.report import markup

    taken = markup.Table(
        "taken-for",
        "What each column was taken for.",
        [
            markup.Column("column", [column.name for column in columns]),
            markup.Column("taken for", [column.kind for column in columns]),
            markup.Column("because", [column.reason for column in columns]),
            markup.Column("categories", [", ".join(column.categories) for column in columns]),
        ],
    )
    frame = summary.features().reset_index()
    apart = markup.Table(
        "apart",
        "Difference of each cluster from all rows in each column: for measurements from the "
        "median, in robust standard deviations; for shares and counts in comparable units.",
        [
            markup.numeric("cluster", frame["cluster"], form=lambda value: str(int(value))),
            markup.Column("column", frame["column"].tolist()),
            markup.numeric("how far", frame["size"]),
            markup.Column("in words", frame["words"].tolist()),
        ],
    )
    return [
        ("Columns", taken, "From the types and values of the columns, or as told."),
        ("What sets clusters apart", apart, "Click on a heading to sort."),
    ]


def relevance_section(table: pd.DataFrame) -> list[tuple[str, Any, str]]:
    """Return the section of a page that says which of several columns matter."""
    from cavity.report import markup

    if len(table) < 2:
        return []
    shown = markup.Table(
        "relevance",
        "Probability that the distribution of a column differs between clusters. An indicator is "
        "part of the fit. Marginal odds are computed afterwards, as if the clusters were known, "
        "and overstate differences in columns that formed the clusters.",
        [
            markup.Column("column", table.index.tolist()),
            markup.numeric("matters", table["probability"], form=markup.probability),
            markup.Column("by", table["basis"].tolist()),
            markup.Column("kind", table["kind"].tolist()),
        ],
    )
    return [("Which columns matter", shown, "")]
