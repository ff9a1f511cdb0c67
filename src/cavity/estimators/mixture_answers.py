"""What a fitted mixture answers: parameters of its clusters, new rows, checks of the fit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.estimators.checks import STATISTICS, predictive_check
from cavity.estimators.imputing import GapAnswers
from cavity.estimators.kept import NOISE, NOISE_BOX, VALUES
from cavity.estimators.leaving_out import df_of_all_slots
from cavity.estimators.placing import mean_over_draws
from cavity.estimators.structures import (
    flat,
    fresh_clusters,
    matrices,
    mean_matrices,
    most_draws,
)
from cavity.estimators.validation import check_count
from cavity.likelihoods.predictive import (
    MAX_DRAWS,
    NOISE_WEIGHT,
    MixtureDraws,
    cholesky,
    mixture_draws,
    predict,
    predict_with_noise,
    replicate,
    spread_draws,
)
from cavity.mcmc.runner import seed_entropy
from cavity.posterior.estimate import Partition

if TYPE_CHECKING:
    import pandas as pd


class MixtureAnswers(GapAnswers):
    """Methods of a fitted mixture."""

    # Set by ``fit`` or ``load``.
    means_: np.ndarray
    covariances_: np.ndarray

    def _check_data(self, X: Any, *, reset: bool) -> np.ndarray:
        raise TypeError("an estimator says how its data are checked")

    # ------------------------------------------------------------------ clusters of the estimate

    def _settle(self, partition: Partition) -> None:
        """Parameters of the point estimate's clusters, over the draws that have a match."""
        super()._settle(partition)  # type: ignore[misc]
        self._settle_noise()
        # Filled when first asked for; another estimate makes another mixture.
        self._cache: dict[str, MixtureDraws] = {}
        posterior = self.posterior_
        matched = posterior.relabel(partition)
        k = self.n_clusters_
        in_model = {
            name: mean_over_draws(matched.select(flat(posterior, name))[:, :k])
            for name in ("weight", "mean")
        }
        self.weights_ = in_model["weight"] / in_model["weight"].sum()
        self._standard = in_model["mean"], mean_matrices(posterior, matched, k)
        self.means_ = self._units.convert("mean", self._standard[0])
        self.covariances_ = self._units.convert("covariance", self._standard[1])
        if "df" in posterior.drawn:
            self.df_ = mean_over_draws(matched.select(flat(posterior, "df"))[:, :k])

    @property
    def cluster_centers_(self) -> np.ndarray:
        """Posterior means of the clusters' locations: ``means_``."""
        return self.means_

    def distinguishing(self, most: int = 3) -> list[str]:
        """For each cluster, the columns in which it differs most from the median of all rows.

        Differences are in robust standard deviations of the column.
        """
        check_is_fitted(self)
        columns = self.posterior_.record.columns
        out = []
        for row in self._standard[0]:
            order = np.argsort(-np.abs(row), kind="stable")[:most]
            words = [f"{columns[j]} {row[j]:+.1f}" for j in order if abs(row[j]) >= 0.5]
            out.append(", ".join(words) or "near the median in all columns")
        return out

    def furthest_columns(self, X: Any) -> list[str]:
        """For each row of the fit, the column in which it lies furthest out, and how far.

        In standard deviations from its cluster's centre; where a row is outside every cluster, or
        the only one of its own, in robust ones from the median of all rows. The cell to look at
        first if the row is suspected.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            The data of the fit.

        Examples
        --------
        >>> import numpy as np
        >>> from cavity import StudentTMixture
        >>> X = np.random.default_rng(0).standard_normal((60, 2))
        >>> X[7, 1] = -40.0
        >>> m = StudentTMixture(1, n_chains=2, n_warmup=20, n_draws=40, random_state=0).fit(X)
        >>> m.furthest_columns(X)[7].split()[0]
        'x1'
        """
        check_is_fitted(self)
        standard = self._standard_units(self._check_data(X, reset=False))
        labels = self.labels_
        if len(standard) != len(labels):
            raise ValueError(f"X must be the data of the fit, which had {len(labels)} rows.")
        far = standard.copy()
        means, covariances = self._standard
        for k, size in enumerate(np.bincount(labels[labels >= 0], minlength=len(means))):
            if size > 1:
                its = labels == k
                far[its] = (standard[its] - means[k]) / np.sqrt(np.diagonal(covariances[k]))
        far = np.where(np.isnan(far), 0.0, far)
        columns = self.posterior_.record.columns
        worst = np.abs(far).argmax(axis=1)
        return [f"{columns[j]} {row[j]:+.1f}" for j, row in zip(worst, far, strict=True)]

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        *,
        title: str | None = None,
        settings: Mapping[str, Any] | None = None,
        count_from: int = 0,
        tail: Any = None,
        furthest: Sequence[str] | None = None,
    ) -> Path:
        """Write the whole answer to one HTML page: summary in words, tables, pictures.

        Parameters
        ----------
        path : path
            File to write; one that is there is replaced.
        X : array or DataFrame, optional
            The data of the fit: drawn, and the rows far out listed.
        title : str, optional
        settings : mapping, optional
            What else to list under how it was run, such as the data's file.
        count_from : int
            Number of the first row, where rows have no names.
        tail, furthest : optional
            `tail_probabilities` and `furthest_columns` of `X`, if they are known already.
        """
        from cavity.report.html import write_report

        check_is_fitted(self)
        n = self.posterior_.n_observations
        if X is None and VALUES in self.posterior_.summaries:
            X = self.posterior_.summaries[VALUES]
        if X is not None and len(self._check_data(X, reset=False)) != n:
            raise ValueError(f"X must be the data of the fit, which had {n} rows.")
        if X is not None and tail is None:
            tail, furthest = self.tail_probabilities(X), self.furthest_columns(X)
        return write_report(
            path,
            self.posterior_,
            X,
            title=f"Clusters of {n} rows" if title is None else title,
            settings=settings,
            partition=self.partition_,
            features=self.distinguishing(),
            tail=tail,
            furthest=furthest,
            count_from=count_from,
        )

    # ------------------------------------------------------------------ prediction

    def _packed(self, chosen: np.ndarray) -> MixtureDraws:
        """Mixtures of some draws in standardised units, whose squares are always numbers."""
        posterior = self.posterior_
        weight = flat(posterior, "weight")[chosen]
        targets = posterior.relabel(self.partition_).targets(weight.shape[1])[chosen]
        targets = np.where(targets < self.n_clusters_, targets, -1)
        return mixture_draws(
            weight,
            flat(posterior, "mean")[chosen],
            matrices(posterior, chosen),
            flat(posterior, "df")[chosen] if "df" in posterior.drawn else None,
            targets,
            fresh_clusters(posterior, chosen, self.means_.shape[1]),
            df_of_all_slots(posterior, chosen)[:, -1] if "df" in posterior.drawn else None,
            flat(posterior, NOISE_WEIGHT)[chosen] if self._noisy else 0.0,
        )

    @property
    def _chosen(self) -> np.ndarray:
        """The draws that predictions average over."""
        n_kept = most_draws(self.posterior_, MAX_DRAWS)
        return spread_draws(self.posterior_.n_chains * self.posterior_.n_draws, n_kept)

    @property
    def _mixtures(self) -> MixtureDraws:
        if "mixtures" not in self._cache:
            self._cache["mixtures"] = self._packed(self._chosen)
        return self._cache["mixtures"]

    def _evaluate(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Log density (draw, n), and probability of each cluster and of elsewhere (n, K + 1).

        Of noise, where there may be some, in the column before the last.
        """
        check_is_fitted(self)
        X = self._check_data(X, reset=False)
        standard, k = self._standard_units(X), self.n_clusters_
        if self._noisy:
            log_weight = np.log(flat(self.posterior_, NOISE_WEIGHT)[self._chosen])
            log_noise = log_weight[:, None] + self._log_noise(standard)
            log_density, probability = predict_with_noise(self._mixtures, standard, k, log_noise)
        else:
            log_density, probability = predict(self._mixtures, standard, k)
        return log_density - self._units.log_volumes(X), probability

    def _log_noise(self, standard: np.ndarray) -> np.ndarray:
        """Log density of rows as noise; beyond the box it is taken to go on."""
        width = self.posterior_.summaries[NOISE_BOX][1]
        return -np.where(np.isnan(standard), 0.0, np.log(width)).sum(axis=1)

    def _said_of(self, X: Any) -> dict[str, np.ndarray]:
        return {"tail_probability": self.tail_probabilities(X)}

    def tail_probabilities(self, X: Any) -> np.ndarray:
        """Probability that a draw from the nearest cluster lies at least as far out as the row.

        Small where a row lies far from every cluster: the rows worth checking in the source of
        the data.

        Parameters
        ----------
        X : array or DataFrame of shape (n, d)
            Rows of the fit, or new ones.

        Returns
        -------
        array of shape (n,)
            Under ``means_``, ``covariances_`` and ``df_``: the squared Mahalanobis distance over
            d is then F(d, df), or chi-squared over d. The largest over the clusters. Of a row with
            gaps it is that of the values that are there, and 1 where none is.

        Examples
        --------
        >>> import numpy as np
        >>> from cavity import StudentTMixture
        >>> X = np.random.default_rng(0).standard_normal((60, 2))
        >>> X[7] = 40.0
        >>> m = StudentTMixture(1, n_chains=2, n_warmup=20, n_draws=40, random_state=0).fit(X)
        >>> int(m.tail_probabilities(X).argmin())
        7
        """
        check_is_fitted(self)
        X = self._check_data(X, reset=False)
        standard = self._standard_units(X)
        out = np.zeros(len(standard))
        patterns, at = np.unique(~np.isnan(standard), axis=0, return_inverse=True)
        at = at.reshape(-1)
        for number, there in enumerate(patterns):
            rows = at == number
            out[rows] = self._tails_of(standard[rows][:, there], there)
        return out

    def _tails_of(self, standard: np.ndarray, there: np.ndarray) -> np.ndarray:
        """Tail probabilities of rows with the same columns there."""
        from scipy import stats

        d = standard.shape[1]
        out = np.zeros(len(standard))
        if d == 0:
            return out + 1.0
        means, covariances = self._standard
        for k in range(self.n_clusters_):
            away = standard - means[k, there]
            root = cholesky(covariances[k][np.ix_(there, there)])
            with np.errstate(over="ignore", invalid="ignore"):
                distance = (np.linalg.solve(root, away.T) ** 2).sum(axis=0)
            if hasattr(self, "df_"):
                tail = stats.f.sf(distance / d, d, self.df_[k])
            else:
                tail = stats.chi2.sf(distance, d)
            out = np.maximum(out, np.nan_to_num(tail))
        return out

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw new rows from the posterior predictive distribution.

        Parameters
        ----------
        n_samples : int
        random_state : None, int or Generator

        Returns
        -------
        X : array of shape (n_samples, d)
        labels : array of int
            The cluster of the point estimate that each came from; -1 for one that matches none, and
            for noise.
        """
        check_is_fitted(self)
        check_count("n_samples", n_samples, 1)
        rng = np.random.default_rng(seed_entropy(random_state))
        draws = self._mixtures
        which = rng.integers(draws.start.size - 1, size=n_samples)
        rows = np.empty((n_samples, self.means_.shape[1]))
        labels = np.empty(n_samples, dtype=np.int64)
        for s in np.unique(which):
            here = which == s
            rows[here], labels[here] = replicate(draws, int(s), int(here.sum()), rng)
        if self._noisy:
            share = flat(self.posterior_, NOISE_WEIGHT)[self._chosen][which]
            outside = rng.random(n_samples) < share
            low, width = self.posterior_.summaries[NOISE_BOX]
            rows[outside] = low + width * rng.random((int(outside.sum()), low.size))
            labels[outside] = NOISE
        return self._units.convert("mean", rows), labels

    # ------------------------------------------------------------------ checks

    def predictive_check(
        self, X: Any, n_replicates: int = 200, random_state: Any = 0
    ) -> pd.DataFrame:
        """Does replicated data look like the data? One row per column and statistic.

        A posterior predictive p-value near 0 says that the model cannot produce what is in X:
        the centre and spread of a column, its bulk (95% reach) or its farthest value, the last
        two in units of the quartiles' spread.

        Parameters
        ----------
        X : array or DataFrame
            The data that the model was fitted to, or other data of the same kind.
        n_replicates : int
            Replicated data sets.
        random_state : None, int or Generator

        Returns
        -------
        DataFrame
            ``observed``, and ``mean``, ``lower``, ``upper`` of the replicates, and ``p``.
        """
        check_is_fitted(self)
        check_count("n_replicates", n_replicates, 20)
        X = self._check_data(X, reset=False)
        units = self._units
        table = predictive_check(
            self._mixtures,
            self._standard_units(X),
            list(self.posterior_.record.columns),
            n_replicates,
            random_state,
        )
        # Back to the data's units: medians move and scale, spreads scale, ratios stay.
        shown = ["observed", "mean", "lower", "upper"]
        values = np.array(table[shown]).reshape(X.shape[1], len(STATISTICS), len(shown))
        values[:, :2] *= units.scale[:, None, None]
        values[:, 0] += units.centre[:, None]
        table[shown] = values.reshape(len(table), -1)
        return table
