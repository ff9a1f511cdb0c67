"""What a fitted table answers: its clusters in each column's own terms, new rows, their gaps."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.estimators.imputed_tables import ImputedTable, imputed_table
from cavity.estimators.kept import DATA, NOISE, NOISE_BOX
from cavity.estimators.noise import TableNoise
from cavity.estimators.placing import PlacingAnswers, mean_over_draws
from cavity.estimators.structures import (
    flat,
    mean_matrices,
    most_draws,
)
from cavity.estimators.table_draws import pack_draws
from cavity.estimators.table_input import TableInput
from cavity.estimators.table_words import ClusterWords
from cavity.estimators.validation import check_count, check_number
from cavity.io.columns import (
    CATEGORICAL,
    CONTINUOUS,
    COUNT,
    OVERDISPERSED,
    Cells,
    Column,
    cells_of,
)
from cavity.likelihoods.missing import NOISE_SLOT
from cavity.likelihoods.predictive import (
    MAX_DRAWS,
    NOISE_WEIGHT,
    spread_draws,
)
from cavity.likelihoods.table_predictive import (
    Rows,
    TableDraws,
    fill_rows,
    predict_rows,
)
from cavity.mcmc.fingerprint import data_digest
from cavity.mcmc.runner import seed_entropy
from cavity.posterior.estimate import Partition
from cavity.posterior.posterior import Posterior
from cavity.utils.notices import ColumnsNote

if TYPE_CHECKING:
    import pandas as pd

# Draws of what a gap may hold, for its interval.
SAMPLES = 400


class TableAnswers(TableInput, PlacingAnswers):
    """Methods of a fitted table."""

    # ------------------------------------------------------------------ clusters of the estimate

    def _restore(self, posterior: Posterior) -> None:
        """Set what a fit would have set from the data."""
        super()._restore(posterior)
        taken_for = posterior.record.details["taken_for"]
        self._columns = [Column.from_plain(plain) for plain in taken_for]

    def _settle(self, partition: Partition) -> None:
        """Parameters of the point estimate's clusters, over the draws that have a match."""
        super()._settle(partition)  # type: ignore[misc]
        self._settle_noise()
        # Filled when first asked for; another estimate makes another mixture.
        self._cache: dict[str, Any] = {}
        posterior = self.posterior_
        matched = posterior.relabel(partition)
        found = {
            name: mean_over_draws(matched.select(flat(posterior, name))[:, : self.n_clusters_])
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
        return self._words().sentences(most)

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
        counts = np.hstack([cells.counts, cells.overdispersed])
        return Rows(self._standard_units(cells.continuous), cells.codes, counts)

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

        With the data of the fit, X, continuous columns are drawn, rows where they are there.
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
            if names:
                drawn = pd.DataFrame(values, columns=names)
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
