"""Predictions of a fitted mixture: clusters, densities, tail probabilities, new rows."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity.io.columns import CATEGORICAL, CONTINUOUS, COUNT, ORDINAL, OVERDISPERSED, Cells, Column
from cavity.posterior.estimate import Partition
from cavity.posterior.posterior import Posterior
from cavity.posterior.record import NOISE_BOX, NOISE_LABEL, NOISE_WEIGHT
from cavity.posterior.relabel import given_matched
from cavity.posterior.units import ColumnUnits
from cavity.predict.covariances import flat, mean_matrices, most_draws
from cavity.predict.densities import log_mean_exp, predict_rows
from cavity.predict.draws import (
    MAX_DRAWS,
    MixtureDraws,
    Rows,
    cholesky,
    replicate,
    spread_draws,
)
from cavity.predict.noise import Noise
from cavity.predict.packing import pack_draws

if TYPE_CHECKING:
    import pandas as pd

# New rows further out than this, in robust standard deviations, are taken to be this far.
FARTHEST_NEW = 1e300


class Clusters(NamedTuple):
    """Posterior means of the estimate's clusters, in the model's units."""

    weights: np.ndarray  # (cluster,)
    means: np.ndarray | None  # (cluster, d)
    covariances: np.ndarray | None  # (cluster, d, d)
    df: np.ndarray | None  # (cluster,)


class Predictor:
    """Predictions by the draws of a fit.

    Parameters
    ----------
    posterior : Posterior
    partition : Partition
        The point estimate.
    n_clusters : int
        Its clusters, without noise.
    columns : list of Column
        Columns of the data.
    """

    def __init__(
        self, posterior: Posterior, partition: Partition, n_clusters: int, columns: list[Column]
    ) -> None:
        self.posterior, self.partition = posterior, partition
        self.n_clusters, self.columns = n_clusters, columns

    @property
    def units(self) -> ColumnUnits:
        """Units of the continuous columns."""
        units: Any = self.posterior.units
        return units

    @cached_property
    def chosen(self) -> np.ndarray:
        """Draws that predictions average over: at most 200, evenly spread."""
        n_kept = most_draws(self.posterior, MAX_DRAWS)
        return spread_draws(self.posterior.n_chains * self.posterior.n_draws, n_kept)

    @cached_property
    def draws(self) -> MixtureDraws:
        """The mixtures of the chosen draws."""
        return self.pack(self.chosen)

    def pack(self, chosen: np.ndarray) -> MixtureDraws:
        """Return the mixtures of some draws."""
        matched = self.posterior.relabel(self.partition)
        return pack_draws(self.posterior, matched, self.columns, chosen, self.n_clusters)

    @cached_property
    def clusters(self) -> Clusters:
        """Parameters of the estimate's clusters, over the draws that have a match."""
        posterior, k = self.posterior, self.n_clusters
        matched = posterior.relabel(self.partition)
        found = {
            name: mean_over_draws(matched.select(flat(posterior, name))[:, :k])
            for name in ("weight", "mean", "df")
            if name in posterior.drawn
        }
        weight = found["weight"]
        return Clusters(
            weight / weight.sum(),
            found.get("mean"),
            mean_matrices(posterior, matched, k) if "mean" in found else None,
            found.get("df"),
        )

    @cached_property
    def noise(self) -> Noise | None:
        """Distribution of rows outside every cluster; None if there can be none."""
        if not self.posterior.record.noise:
            return None
        d = sum(column.measured for column in self.columns)
        levels = [len(one.categories) for one in self.columns if one.kind == CATEGORICAL]
        return Noise.from_kept(self.posterior.summaries.get(NOISE_BOX), d, levels)

    def rows(self, cells: Cells) -> Rows:
        """Return cells in the model's units, limited to finite squares."""
        with np.errstate(over="ignore"):
            standard = self.units.standardise(cells.continuous)
        standard = np.clip(standard, -FARTHEST_NEW, FARTHEST_NEW)
        counts = np.hstack([cells.counts, cells.overdispersed])
        errors = cells.scaled_errors(self.units.scale)
        if cells.low is not None and cells.high is not None:
            bounded = np.isfinite(cells.low) | np.isfinite(cells.high)
            standard = np.where(bounded, np.nan, standard)
        return Rows(standard, cells.codes, counts, errors, cells.low, cells.high)

    @property
    def thresholds(self) -> dict[int, np.ndarray]:
        """Thresholds of the ordinal columns, by place among the continuous ones."""
        measured = [column for column in self.columns if column.measured]
        return {c: np.array(one.thresholds) for c, one in enumerate(measured) if one.thresholds}

    # ------------------------------------------------------------------ where rows belong

    def evaluate(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        """Return log densities (draw, n) and probabilities; see `predict_rows`."""
        rows, log_noise = self.rows(cells), None
        if self.noise is not None:
            share = np.log(flat(self.posterior, NOISE_WEIGHT)[self.chosen])
            log_noise = share[:, None] + self.noise.log_density(rows)
        log_density, probability = predict_rows(self.draws, rows, self.n_clusters, log_noise)
        return log_density - self.units.log_volumes(cells.continuous), probability

    def labels(self, cells: Cells) -> np.ndarray:
        """Return the most probable cluster of each row; -1 if noise is more probable."""
        probability = self.evaluate(cells)[1]
        best = given_matched(probability[:, :-1]).argmax(axis=1)
        return np.where(best == self.n_clusters, NOISE_LABEL, best)

    def probabilities(self, cells: Cells) -> np.ndarray:
        """Return the probability of each cluster, given that it is one of the estimate's."""
        return given_matched(self.evaluate(cells)[1][:, : self.n_clusters])

    def frame(self, cells: Cells, index: Any = None) -> pd.DataFrame:
        """Return a table with the cluster of each row and all probabilities."""
        import pandas as pd

        log_density, probability = self.evaluate(cells)
        best = probability[:, :-1].argmax(axis=1)
        table: dict[str, Any] = {
            "cluster": np.where(best == self.n_clusters, NOISE_LABEL, best),
            "probability": probability[np.arange(len(best)), best],
        }
        if all(column.kind == CONTINUOUS for column in self.columns):
            table["tail_probability"] = self.tails(cells)
        table["log_density"] = log_mean_exp(log_density)
        table |= {f"p_{k}": probability[:, k] for k in range(self.n_clusters)}
        if self.noise is not None:
            table["p_noise"] = probability[:, self.n_clusters]
        table["p_unmatched"] = probability[:, -1]
        return pd.DataFrame(table, index=index)

    def log_scores(self, cells: Cells) -> np.ndarray:
        """Return the log posterior predictive density of each row."""
        return log_mean_exp(self.evaluate(cells)[0])

    # ------------------------------------------------------------------ distances

    def tails(self, cells: Cells) -> np.ndarray:
        """Return each row's tail probability under the nearest cluster."""
        own = self.rows(cells)
        standard = own.continuous
        variance = None if own.errors is None else np.square(own.errors)
        out = np.zeros(len(standard))
        patterns, at = np.unique(~np.isnan(standard), axis=0, return_inverse=True)
        at = at.reshape(-1)
        for number, there in enumerate(patterns):
            rows = at == number
            more = None if variance is None else variance[rows][:, there]
            out[rows] = self._tails_of(standard[rows][:, there], there, more)
        return out

    def _tails_of(
        self, standard: np.ndarray, there: np.ndarray, variance: np.ndarray | None
    ) -> np.ndarray:
        """Return tail probabilities of rows that have the same columns observed.

        `variance` has squared errors.
        """
        from scipy import stats

        d = standard.shape[1]
        out = np.zeros(len(standard))
        found = self.clusters
        if d == 0 or found.means is None or found.covariances is None:
            return out + 1.0
        for k in range(self.n_clusters):
            away = standard - found.means[k, there]
            covariance = found.covariances[k][np.ix_(there, there)]
            with np.errstate(over="ignore", invalid="ignore"):
                if variance is None:
                    white = np.linalg.solve(cholesky(covariance), away.T).T
                else:
                    each = cholesky(covariance + variance[:, :, None] * np.eye(d))
                    white = np.linalg.solve(each, away[:, :, None])[:, :, 0]
                distance = (white**2).sum(axis=1)
            if found.df is not None:
                tail = stats.f.sf(distance / d, d, found.df[k])
            else:
                tail = stats.chi2.sf(distance, d)
            out = np.maximum(out, np.nan_to_num(tail))
        return out

    def furthest_columns(self, cells: Cells, labels: np.ndarray) -> list[str]:
        """Return, for each row of the fit, the continuous column furthest out, and how far."""
        standard = self.rows(cells).continuous
        means, covariances = self.clusters.means, self.clusters.covariances
        if means is None or covariances is None:
            return [""] * len(standard)
        far = standard.copy()
        for k, size in enumerate(np.bincount(labels[labels >= 0], minlength=len(means))):
            if size > 1:
                its = labels == k
                far[its] = (standard[its] - means[k]) / np.sqrt(np.diagonal(covariances[k]))
        far = np.where(np.isnan(far), 0.0, far)
        names = [column.name for column in self.columns if column.measured]
        worst = np.abs(far).argmax(axis=1)
        return [f"{names[j]} {row[j]:+.1f}" for j, row in zip(worst, far, strict=True)]

    def cell_tails(self, cells: Cells, labels: np.ndarray) -> np.ndarray:
        """Return the tail probability of each cell given the rest of its row; see `cell_tails`."""
        from cavity.predict import suspicious

        total = self.posterior.n_chains * self.posterior.n_draws
        kept = most_draws(self.posterior, suspicious.N_DRAWS)
        logarithms = np.full(cells.continuous.shape, np.nan)
        with np.errstate(invalid="ignore"):
            positive = (cells.continuous > 0.0).sum(axis=0) == np.isfinite(cells.continuous).sum(
                axis=0
            )
        logarithms[:, positive] = np.log(cells.continuous[:, positive])
        draws = self.pack(spread_draws(total, kept))
        return suspicious.cell_tails(draws, self.rows(cells), logarithms, labels, self.n_clusters)

    def suspicious_cells(self, cells: Cells, labels: np.ndarray) -> pd.DataFrame:
        """Return the least probable cell of each row, with its tail probability.

        ``row_tail`` is corrected for the number of cells of the row.
        """
        import pandas as pd

        tails = self.cell_tails(cells, labels)
        seen = np.isfinite(tails)
        worst = np.where(seen, tails, 2.0).argmin(axis=1)
        least = np.where(seen, tails, 1.0).min(axis=1)
        ordered = [column for column in self.columns if column.measured]
        for kind in (CATEGORICAL, COUNT, OVERDISPERSED):
            ordered += [column for column in self.columns if column.kind == kind]
        d, c = cells.continuous.shape[1], cells.codes.shape[1]
        counts = np.hstack([cells.counts, cells.overdispersed])
        values: list[Any] = []
        for i, j in enumerate(worst):
            if not seen[i, j]:
                values.append(None)
            elif j < d:
                values.append(float(cells.continuous[i, j]))
            elif j < d + c:
                values.append(ordered[j].categories[cells.codes[i, j - d]])
            else:
                values.append(int(counts[i, j - d - c]))
        return pd.DataFrame(
            {
                "column": [ordered[j].name for j in worst],
                "value": pd.Series(values, dtype=object),
                "tail_probability": least,
                "row_tail": np.minimum(1.0, least * np.maximum(seen.sum(axis=1), 1)),
            }
        )

    # ------------------------------------------------------------------ new rows

    def replicate(self, s: int, n: int, rng: np.random.Generator) -> tuple[Rows, np.ndarray]:
        """Draw rows from draw s, noise included, and the estimate's cluster that each is from."""
        rows, labels = replicate(self.draws, s, n, rng)
        if self.noise is not None:
            share = flat(self.posterior, NOISE_WEIGHT)[self.chosen][s]
            outside = rng.random(n) < share
            drawn = self.noise.draw(int(outside.sum()), rng)
            for whole, part in zip(rows[:3], drawn[:3], strict=True):
                whole[outside] = part
            labels[outside] = NOISE_LABEL
        return rows, labels

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Rows, np.ndarray]:
        """Draw rows, in the data's units, and the estimate's cluster that each is from."""
        draws = self.draws
        which = rng.integers(draws.start.size - 1, size=n)
        rows = Rows(
            np.empty((n, draws.mean.shape[1])),
            np.empty((n, draws.levels.size - 1), dtype=np.int64),
            np.empty((n, draws.rate.shape[1])),
        )
        labels = np.empty(n, dtype=np.int64)
        for s in np.unique(which):
            here = which == s
            made, labels[here] = self.replicate(int(s), int(here.sum()), rng)
            for whole, part in zip(rows[:3], made[:3], strict=True):
                whole[here] = part
        return rows._replace(continuous=self.units.convert("mean", rows.continuous)), labels

    def as_frame(self, rows: Rows) -> pd.DataFrame:
        """Return rows without missing values as a table with the columns of the fit."""
        import pandas as pd

        out: dict[str, Any] = {}
        at = {CONTINUOUS: 0, CATEGORICAL: 0, COUNT: 0}
        at[OVERDISPERSED] = sum(column.kind == COUNT for column in self.columns)
        for column in self.columns:
            kind = CONTINUOUS if column.measured else column.kind
            c = at.get(kind, 0)
            at[kind] = c + 1
            if column.kind == CONTINUOUS:
                out[column.name] = rows.continuous[:, c]
            elif column.kind == ORDINAL:
                codes = np.searchsorted(column.thresholds, rows.continuous[:, c])
                names = np.array(column.categories, dtype=object)
                out[column.name] = pd.Categorical(names[codes], list(names), ordered=True)
            elif column.kind == CATEGORICAL:
                out[column.name] = np.array(column.categories, dtype=object)[rows.codes[:, c]]
            elif column.kind in (COUNT, OVERDISPERSED):
                out[column.name] = rows.counts[:, c]
            else:
                out[column.name] = np.full(len(rows.codes), np.nan)
        return pd.DataFrame(out)

    def entries_of_fit(self) -> np.ndarray:
        """Return the entry that each row of the fit belongs to in each draw, (n, draw).

        It is -1 where a draw has the row as noise, which says nothing of its missing values.
        """
        draws, labels = self.draws, self.posterior.flat_labels[self.chosen].astype(np.int64)
        place = np.full((len(labels), int(labels.max()) + 1), -1)
        known = draws.slot >= 0
        inside = known & (draws.slot < place.shape[1])
        place[draws.draw[inside], draws.slot[inside]] = np.flatnonzero(inside)
        out = np.take_along_axis(place, labels, axis=1)
        outside = (labels == 0) & (self.noise is not None)
        return np.ascontiguousarray(np.where(outside, -1, out).T)


def mean_over_draws(values: np.ndarray) -> np.ndarray:
    """Return the mean over the draws (the first axis) that have a match.

    A cluster that no draw matches takes the mean of all clusters.
    """
    present = np.isfinite(values).all(axis=tuple(range(2, values.ndim)))
    count = present.sum(axis=0)
    shape = (*present.shape, *(1,) * (values.ndim - 2))
    total = np.where(present.reshape(shape), values, 0.0).sum(axis=0)
    out = total / np.maximum(count, 1).reshape(-1, *(1,) * (values.ndim - 2))
    if not count.all():
        out[count == 0] = total.sum(axis=0) / max(int(count.sum()), 1)
    return out
