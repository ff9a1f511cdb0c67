"""What a fitted table answers: its clusters in each column's own terms, new rows, their gaps."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.core.notices import ColumnsNote
from cavity.estimators.base import Fitted
from cavity.estimators.imputed_tables import ImputedTable, imputed_table
from cavity.estimators.imputing import DATA, NOISE, NOISE_BOX
from cavity.estimators.leaving_out import LeaveOneOut, df_of_all_slots
from cavity.estimators.mixture_answers import (
    FARTHEST_NEW,
    _given_matched,
    _log_mean_exp,
    _mean_over_draws,
)
from cavity.estimators.noise import NoiseAnswers, TableNoise
from cavity.estimators.structures import (
    flat,
    fresh_clusters,
    matrices,
    mean_matrices,
    most_draws,
    prior_width,
    structure_of,
)
from cavity.estimators.table_words import ClusterWords
from cavity.estimators.validation import check_count, check_number
from cavity.models.predictive import (
    CLUSTER_PRIOR,
    MAX_DRAWS,
    NOISE_WEIGHT,
    mixture_draws,
    spread_draws,
)
from cavity.models.rows import NOISE_SLOT
from cavity.models.table_predictive import (
    Rows,
    TableDraws,
    covariances_of,
    fill_rows,
    predict_rows,
)
from cavity.posterior.partition import Partition
from cavity.posterior.posterior import Posterior
from cavity.posterior.units import ColumnUnits
from cavity.reading.columns import (
    CATEGORICAL,
    CONTINUOUS,
    COUNT,
    OVERDISPERSED,
    Cells,
    Column,
    cells_of,
)
from cavity.sampling.chains import seed_entropy
from cavity.sampling.fingerprint import data_digest

if TYPE_CHECKING:
    import pandas as pd

# Draws of what a gap may hold, for its interval.
SAMPLES = 400


class TableAnswers(NoiseAnswers, LeaveOneOut, Fitted):
    """Methods of a fitted table."""

    weights_: np.ndarray
    n_clusters: int
    n_features_in_: int
    _units: ColumnUnits
    _columns: list[Column]

    def _frame(self, X: Any, *, reset: bool) -> Any:
        raise TypeError("an estimator says how its data are checked")

    # ------------------------------------------------------------------ clusters of the estimate

    def _restore(self, posterior: Posterior) -> None:
        """Set what a fit would have set from the data."""
        record = posterior.record
        self.n_features_in_ = len(record.columns)
        if record.columns_named:
            self.feature_names_in_ = np.array(record.columns, dtype=object)
        self._columns = [Column.from_plain(plain) for plain in record.details["taken_for"]]

    def _settle(self, partition: Partition) -> None:
        """Parameters of the point estimate's clusters, over the draws that have a match."""
        super()._settle(partition)  # type: ignore[misc]
        self._settle_noise()
        # Filled when first asked for; another estimate makes another mixture.
        self._cache: dict[str, Any] = {}
        posterior = self.posterior_
        matched = posterior.relabel(partition)
        found = {
            name: _mean_over_draws(matched.select(flat(posterior, name))[:, : self.n_clusters_])
            for name in posterior.cluster_parameters
            if name not in ("covariance", "variance", "loading", "uniqueness")
        }
        self.weights_ = found["weight"] / found["weight"].sum()
        if "mean" in found:
            self.means_ = self._units.convert("mean", found["mean"])
            self.covariances_ = self._units.convert(
                "covariance", mean_matrices(posterior, matched, self.n_clusters_)
            )
        if "df" in found:
            self.df_ = found["df"]

    @property
    def columns_(self) -> pd.DataFrame:
        """What each column was taken for: ``kind``, ``reason`` and ``categories``, by name."""
        import pandas as pd

        check_is_fitted(self, "posterior_")
        return pd.DataFrame(
            {
                "kind": [column.kind for column in self._columns],
                "reason": [column.reason for column in self._columns],
                "categories": [", ".join(column.categories) for column in self._columns],
            },
            index=pd.Index([column.name for column in self._columns], name="column"),
        )

    def _words(self, level: float = 0.95) -> ClusterWords:
        check_is_fitted(self, "posterior_")
        key = f"words {level}"
        if key not in self._cache:
            self._cache[key] = ClusterWords.of(
                self.posterior_,
                self.partition_.labels,
                self.weights_,
                self._columns,
                self._units,
                level,
            )
        words: ClusterWords = self._cache[key]
        return words

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """The clusters in each column's own terms.

        Parameters
        ----------
        level : float
            Probability of the intervals.

        Returns
        -------
        DataFrame
            One row per cluster and column; of a categorical column one per category:
            ``estimate`` (a mean, a share, or a mean count), ``lower`` and ``upper``, ``overall``
            (the same over all clusters, weighed by their size), and ``kind``.
        """
        return self._words(check_number("level", level, 0.0, 0.999999)).table()

    def what_sets_apart(self) -> pd.DataFrame:
        """For each cluster and column how far it is from the others, the farthest first.

        ``size`` is comparable between columns: the difference in standard deviations of a
        measurement, and for shares and counts the root of twice the Kullback-Leibler divergence,
        which is the same number for a normal distribution. ``words`` says it.
        """
        return self._words().apart()

    def distinguishing(self, most: int = 3) -> list[str]:
        """For each cluster, in words, the columns that set it apart most."""
        return self._in_words(self._words().sentences(most))

    # ------------------------------------------------------------------ new rows

    def _rows(self, X: Any) -> Rows:
        """Rows in the model's units; categories that the fit has not seen are gaps, with a note."""
        check_is_fitted(self, "posterior_")
        cells = cells_of(self._frame(X, reset=False), self._columns)
        if cells.unseen:
            listed = ", ".join(f"{n} in column {name!r}" for name, n in cells.unseen.items())
            warnings.warn(
                f"Cells with a category that the fit has not seen are taken as missing: {listed}. "
                "Filter cavity.ColumnsNote to silence this.",
                ColumnsNote,
                stacklevel=4,
            )
        with np.errstate(over="ignore"):
            standard = np.clip(
                self._units.standardise(cells.continuous), -FARTHEST_NEW, FARTHEST_NEW
            )
        counts = np.hstack([cells.counts, cells.overdispersed])
        return Rows(standard, cells.codes, counts)

    def _chosen(self) -> np.ndarray:
        """The draws that new rows are placed by."""
        n_kept = MAX_DRAWS
        if "mean" in self.posterior_.drawn:
            n_kept = most_draws(self.posterior_, MAX_DRAWS)
        return spread_draws(self.posterior_.n_chains * self.posterior_.n_draws, n_kept)

    def _table_draws(self) -> TableDraws:
        if "draws" not in self._cache:
            self._cache["draws"] = self._packed(self._chosen())
        draws: TableDraws = self._cache["draws"]
        return draws

    def _packed(self, chosen: np.ndarray) -> TableDraws:
        """The mixtures of some draws."""
        matched = self.posterior_.relabel(self.partition_)
        return pack_draws(self.posterior_, matched, self._columns, chosen, self.n_clusters_)

    def _evaluate(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Log density (draw, n), and probability of each cluster and of elsewhere (n, K + 1).

        Of noise, where there may be some, in the column before the last.
        """
        rows = self._rows(X)
        log_noise = None
        if self._noisy:
            share = np.log(flat(self.posterior_, NOISE_WEIGHT)[self._chosen()])
            log_noise = share[:, None] + self._noise.log_density(rows)
        log_density, probability = predict_rows(
            self._table_draws(), rows, self.n_clusters_, log_noise
        )
        return log_density - self._units.log_volumes(rows.continuous), probability

    @property
    def _noise(self) -> TableNoise:
        """What rows outside every cluster are."""
        kept = self.posterior_.summaries.get(NOISE_BOX)
        d = sum(column.kind == CONTINUOUS for column in self._columns)
        levels = [len(one.categories) for one in self._columns if one.kind == CATEGORICAL]
        return TableNoise.from_kept(kept, d, levels)

    def predict(self, X: Any) -> np.ndarray:
        """Most probable cluster of the point estimate for each row of X; -1 if noise is more so."""
        probability = self._evaluate(X)[1]
        if self._noisy:
            return self._best(probability)
        return _given_matched(probability[:, :-1]).argmax(axis=1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each cluster of the point estimate for each row of X, (n, K).

        As for `StudentTMixture`; what is missing of a row is integrated out.
        """
        return _given_matched(self._evaluate(X)[1][:, : self.n_clusters_])

    def membership(self, X: Any) -> pd.DataFrame:
        """Where each row of X belongs: ``cluster``, ``probability``, ``log_density``, ``p_0``...

        The last columns, with ``noise`` if rows may be noise, and ``elsewhere``, the probability of
        a cluster that matches none of the estimate's, sum to one.
        """
        import pandas as pd

        log_density, probability = self._evaluate(X)
        index = X.index if isinstance(X, pd.DataFrame) else None
        cluster = probability[:, :-1].argmax(axis=1)
        table = {
            "cluster": np.where(cluster == self.n_clusters_, NOISE, cluster),
            "probability": probability[np.arange(len(cluster)), cluster],
            "log_density": _log_mean_exp(log_density),
        }
        table |= {f"p_{k}": probability[:, k] for k in range(self.n_clusters_)}
        if self._noisy:
            table["noise"] = probability[:, self.n_clusters_]
        table["elsewhere"] = probability[:, -1]
        return pd.DataFrame(table, index=index)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log posterior predictive density of what is there of each row of X."""
        return _log_mean_exp(self._evaluate(X)[0])

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log posterior predictive density of the rows of X: a held-out log score."""
        return float(self.score_samples(X).mean())

    def impute(self, X: Any, level: float = 0.9, random_state: Any = 0) -> ImputedTable:
        """Values for the missing cells of X, given what is there of their rows.

        Parameters
        ----------
        X : DataFrame or array
            The rows of the fit, or new ones.
        level : float
            Probability of the intervals.
        random_state : None, int or Generator
            Seed of the draws that the intervals come from.

        Returns
        -------
        ImputedTable
            ``mean``, ``lower``, ``upper`` and ``probability``, tables like X, and ``cells``, the
            same by row and column. Rows of the very table of the fit are in the cluster that each
            draw has them in. `category_probabilities` has all categories' probabilities.
        """
        check_number("level", level, 0.0, 0.999999)
        frame = self._frame(X, reset=False)
        rows = self._rows(X)
        rng = np.random.default_rng(seed_entropy(random_state))
        draws = self._table_draws()
        labels = None
        if self.posterior_.summaries.get(DATA, [""])[0] == digest_of(
            cells_of(frame, self._columns)
        ):
            labels = self.posterior_.flat_labels[self._chosen()]
        slot = NOISE_SLOT if self._noisy else None
        filled = fill_rows(draws, rows, SAMPLES, rng, labels, slot)
        tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
        return imputed_table(frame, self._columns, self._units, rows, draws, filled, tails)

    def category_probabilities(self, X: Any, column: str) -> pd.DataFrame:
        """Probability of every category of a column given the rest of each row of X.

        Cells of the column itself are not looked at, whether they are there or not.
        """
        import pandas as pd

        names = [c.name for c in self._columns if c.kind == CATEGORICAL]
        if column not in names:
            raise ValueError(f"{column!r} is no categorical column; these are: {names}.")
        rows = self._rows(X)
        c = names.index(column)
        codes = rows.codes.copy()
        codes[:, c] = -1
        draws = self._table_draws()
        filled = fill_rows(draws, rows._replace(codes=codes), 1, np.random.default_rng(0))
        own = next(one for one in self._columns if one.name == column)
        share = filled.share[:, draws.levels[c] : draws.levels[c + 1]]
        index = X.index if isinstance(X, pd.DataFrame) else None
        return pd.DataFrame(share, index=index, columns=list(own.categories))

    def sample(
        self, n_samples: int = 1, random_state: Any = None
    ) -> tuple[pd.DataFrame, np.ndarray]:
        """Draw new rows, without gaps, from the posterior predictive distribution.

        Returns
        -------
        X : DataFrame
            With the columns of the fit; one without any value in the fit has none here.
        labels : array of int
            The cluster of the point estimate that each came from; -1 for one that matches none, and
            for noise.
        """
        check_is_fitted(self, "posterior_")
        check_count("n_samples", n_samples, 1)
        rng = np.random.default_rng(seed_entropy(random_state))
        draws = self._table_draws()
        weight = np.exp(draws.log_weight)
        entry = rng.choice(weight.size, size=n_samples, p=weight / weight.sum())
        d = draws.mean.shape[1]
        a = draws.alpha[entry]
        heavy = np.isfinite(a)
        scale = np.ones(n_samples)
        scale[heavy] = np.maximum(rng.gamma(a[heavy]) / a[heavy], 1e-200)
        measured = rng.standard_normal((n_samples, d))
        if d:
            root = np.linalg.cholesky(draws.covariance)[entry]
            away = np.einsum("nij,nj->ni", root, measured) / np.sqrt(scale)[:, None]
            measured = draws.mean[entry] + away
        size, rate = draws.size[entry], draws.rate[entry]
        spread = np.where(np.isfinite(size), size, 1.0)
        own = np.where(np.isfinite(size), rng.gamma(spread) / spread, 1.0)
        counts = rng.poisson(np.minimum(rate * own, 1e15)) if rate.shape[1] else rate
        codes = np.empty((n_samples, draws.levels.size - 1), dtype=np.int64)
        for c, (first, last) in enumerate(zip(draws.levels[:-1], draws.levels[1:], strict=True)):
            sums = np.cumsum(draws.share[entry, first:last], axis=1)
            codes[:, c] = (rng.random(n_samples)[:, None] * sums[:, -1:] > sums).sum(axis=1)
        rows, labels = Rows(measured, codes, counts), draws.target[entry]
        if self._noisy:
            share = float(flat(self.posterior_, NOISE_WEIGHT)[self._chosen()].mean())
            outside = rng.random(n_samples) < share
            for own, drawn in zip(rows, self._noise.draw(n_samples, rng), strict=True):
                own[outside] = drawn[outside]
            labels = np.where(outside, NOISE, labels)
        return self._frame_of(rows), labels

    def _frame_of(self, rows: Rows) -> pd.DataFrame:
        """Whole rows as a table with the columns of the fit."""
        import pandas as pd

        measured = self._units.convert("mean", rows.continuous)
        out: dict[str, Any] = {}
        at = {CONTINUOUS: 0, CATEGORICAL: 0, COUNT: 0}
        at[OVERDISPERSED] = sum(column.kind == COUNT for column in self._columns)
        for column in self._columns:
            c = at.get(column.kind, 0)
            at[column.kind] = c + 1
            if column.kind == CONTINUOUS:
                out[column.name] = measured[:, c]
            elif column.kind == CATEGORICAL:
                out[column.name] = np.array(column.categories, dtype=object)[rows.codes[:, c]]
            elif column.kind in (COUNT, OVERDISPERSED):
                out[column.name] = rows.counts[:, c]
            else:
                out[column.name] = np.full(len(rows.codes), np.nan)
        return pd.DataFrame(out)

    # ------------------------------------------------------------------ the page

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        *,
        title: str | None = None,
        settings: Mapping[str, Any] | None = None,
        count_from: int = 0,
    ) -> Path:
        """Write the whole answer to one HTML page, as `StudentTMixture.report` does.

        With the data of the fit, X, continuous columns without gaps are drawn.
        """
        import pandas as pd

        from cavity.estimators.table_words import sections
        from cavity.report.html import write_report

        check_is_fitted(self, "posterior_")
        n = self.posterior_.n_observations
        drawn = None
        if X is not None:
            frame = self._frame(X, reset=False)
            if len(frame) != n:
                raise ValueError(f"X must be the data of the fit, which had {n} rows.")
            values = cells_of(frame, self._columns).continuous
            names = [column.name for column in self._columns if column.kind == CONTINUOUS]
            whole = np.isfinite(values).all(axis=0)
            if whole.any():
                kept = [name for name, there in zip(names, whole, strict=True) if there]
                drawn = pd.DataFrame(values[:, whole], columns=kept)
        return write_report(
            path,
            self.posterior_,
            drawn,
            title=f"Clusters of {n} rows" if title is None else title,
            settings=settings,
            partition=self.partition_,
            features=self.distinguishing(),
            extra_sections=sections(self._words(), self._columns),
            count_from=count_from,
        )


def digest_of(cells: Cells) -> str:
    """Digest of a table's cells."""
    return data_digest(cells.continuous, cells.codes, cells.counts, cells.overdispersed)


def pack_draws(
    posterior: Posterior,
    matched: Any,
    columns: list[Column],
    chosen: np.ndarray,
    n_clusters: int,
) -> TableDraws:
    """The mixtures of some draws: every occupied cluster, and what stands for the others."""
    weight = flat(posterior, "weight")[chosen]
    targets = matched.targets(weight.shape[1])[chosen]
    # The estimate's clusters beyond these are noise.
    targets = np.where(targets < n_clusters, targets, -1)
    noise = flat(posterior, NOISE_WEIGHT)[chosen] if posterior.record.noise else 0.0
    prior = flat(posterior, CLUSTER_PRIOR)[chosen]
    used = np.isfinite(weight) & (weight > 0.0)
    empty = 1.0 - noise - np.where(used, weight, 0.0).sum(axis=1)
    rng = np.random.default_rng(0)
    d = sum(column.kind == CONTINUOUS for column in columns)
    width = prior_width(structure_of(posterior), d)
    if d:
        packed = mixture_draws(
            weight,
            flat(posterior, "mean")[chosen],
            matrices(posterior, chosen),
            flat(posterior, "df")[chosen] if "df" in posterior.drawn else None,
            targets,
            fresh_clusters(posterior, chosen, d),
            df_of_all_slots(posterior, chosen)[:, -1] if "df" in posterior.drawn else None,
            noise,
        )
        start, log_weight, target = packed.start, packed.log_weight, packed.target
        mean, covariance, alpha = packed.mean, covariances_of(packed), packed.alpha
    else:
        # The clusters of each draw in their order, and one more for what is empty.
        share = np.column_stack([np.where(used, weight, 0.0), np.maximum(empty, 0.0)])
        there = share > 1e-12
        start = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        log_weight = np.log(share[there])
        target = np.column_stack([targets, np.full(len(targets), -1)])[there]
        n = log_weight.size
        mean, covariance, alpha = np.empty((n, 0)), np.empty((n, 0, 0)), np.full(n, np.inf)
    draw = np.repeat(np.arange(len(chosen)), np.diff(start))
    slot = _slots_of(start, used)
    shares, levels = _shares_of(posterior, chosen, columns, prior, width, draw, slot)
    rate, size = _rates_of(posterior, chosen, columns, prior, draw, slot, rng)
    return TableDraws(
        start, log_weight, target, slot, mean, covariance, alpha, shares, levels, rate, size
    )


def _slots_of(start: np.ndarray, used: np.ndarray) -> np.ndarray:
    """The slot of every entry; -1 for one that stands for empty clusters, which come last."""
    out = np.full(int(start[-1]), -1)
    for s, row in enumerate(used):
        own = np.flatnonzero(row)
        out[start[s] : start[s] + own.size] = own
    return out


def _shares_of(
    posterior: Posterior,
    chosen: np.ndarray,
    columns: list[Column],
    prior: np.ndarray,
    width: int,
    draw: np.ndarray,
    slot: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Shares of every entry: as drawn, or expected of a cluster to come."""
    sizes = [len(column.categories) for column in columns if column.kind == CATEGORICAL]
    levels = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    if not sizes:
        return np.empty((draw.size, 0)), levels
    concentration = prior[:, width : width + levels[-1]]
    total = np.add.reduceat(concentration, levels[:-1], axis=1)
    expected = concentration / np.repeat(total, sizes, axis=1)
    drawn = flat(posterior, "share")[chosen]
    out = drawn[draw, np.maximum(slot, 0)]
    out[slot < 0] = expected[draw[slot < 0]]
    return out, levels


def _rates_of(
    posterior: Posterior,
    chosen: np.ndarray,
    columns: list[Column],
    prior: np.ndarray,
    draw: np.ndarray,
    slot: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and dispersion of the counts of every entry.

    A Poisson count with a rate from the prior is negative binomial. The mean of an overdispersed
    one in a cluster to come is drawn from its prior, once for each draw.
    """
    n_plain = sum(column.kind == COUNT for column in columns)
    n_over = sum(column.kind == OVERDISPERSED for column in columns)
    rate = np.empty((draw.size, n_plain + n_over))
    size = np.full(rate.shape, np.inf)
    # The gamma priors of all counts come last among the natural parameters.
    gammas = prior[:, prior.shape[1] - 2 * (n_plain + n_over) :]
    a, b = gammas[:, 0::2], gammas[:, 1::2]
    new = slot < 0
    if n_plain:
        rate[:, :n_plain] = flat(posterior, "rate")[chosen][draw, np.maximum(slot, 0)]
        rate[new, :n_plain] = (a / b)[draw[new], :n_plain]
        size[new, :n_plain] = a[draw[new], :n_plain]
    if n_over:
        rate[:, n_plain:] = flat(posterior, "mean_count")[chosen][draw, np.maximum(slot, 0)]
        drawn = rng.gamma(a[:, n_plain:]) / b[:, n_plain:]
        rate[new, n_plain:] = np.maximum(drawn[draw[new]], 1e-300)
        size[:, n_plain:] = flat(posterior, "dispersion")[chosen][draw]
    return rate, size
