"""What a fitted mixture answers: parameters of its clusters, new rows, checks of the fit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.collapse.leave_one_out import leave_one_out
from cavity.collapse.registry import assemble
from cavity.estimators.base import Fitted
from cavity.estimators.checks import STATISTICS, predictive_check
from cavity.estimators.recording import within_steps
from cavity.estimators.validation import check_count
from cavity.models.degrees_of_freedom import DF_PRIOR, draw_df
from cavity.models.predictive import (
    CLUSTER_PRIOR,
    MAX_DRAWS,
    MixtureDraws,
    cholesky,
    mixture_draws,
    predict,
    replicate,
    spread_draws,
)
from cavity.posterior.partition import Partition
from cavity.posterior.posterior import Posterior
from cavity.posterior.units import ColumnUnits
from cavity.sampling.chains import seed_entropy

if TYPE_CHECKING:
    import pandas as pd


# Names under which a fit over shards keeps which rows are followed, and their values.
FOLLOWED, VALUES = "followed_rows", "followed_values"
# New rows further out than this, in robust standard deviations, are taken to be this far.
FARTHEST_NEW = 1e300


class MixtureAnswers(Fitted):
    """Methods of a fitted mixture."""

    # Set by ``fit`` or ``load``.
    means_: np.ndarray
    covariances_: np.ndarray
    weights_: np.ndarray
    n_clusters: int
    _units: ColumnUnits

    def _check_data(self, X: Any, *, reset: bool) -> np.ndarray:
        raise TypeError("an estimator says how its data are checked")

    def _own_problem(self, standard: np.ndarray) -> Any:
        raise TypeError("an estimator says what its problem is")

    def _prior_state(self, n_slots: int) -> Any:
        raise TypeError("an estimator says what its prior over partitions is")

    # ------------------------------------------------------------------ clusters of the estimate

    def _restore(self, posterior: Posterior) -> None:
        """Set what a fit would have set from the data."""
        record = posterior.record
        self.n_features_in_ = len(record.columns)
        if record.columns_named:
            self.feature_names_in_ = np.array(record.columns, dtype=object)

    def _settle(self, partition: Partition) -> None:
        """Parameters of the point estimate's clusters, over the draws that have a match."""
        super()._settle(partition)  # type: ignore[misc]
        # Filled when first asked for; another estimate makes another mixture.
        self._cache: dict[str, MixtureDraws] = {}
        posterior = self.posterior_
        matched = posterior.relabel(partition)
        in_model = {
            name: _mean_over_draws(matched.select(_flat(posterior, name)))
            for name in ("weight", "mean", "covariance")
        }
        self.weights_ = in_model["weight"] / in_model["weight"].sum()
        self._standard = in_model["mean"], in_model["covariance"]
        self.means_ = self._units.convert("mean", in_model["mean"])
        self.covariances_ = self._units.convert("covariance", in_model["covariance"])
        if "df" in posterior.drawn:
            self.df_ = _mean_over_draws(matched.select(_flat(posterior, "df")))

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

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any = None,
        *,
        title: str | None = None,
        settings: Mapping[str, Any] | None = None,
        count_from: int = 0,
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
        """
        from cavity.report.html import write_report

        check_is_fitted(self)
        n = self.posterior_.n_observations
        if X is None and VALUES in self.posterior_.summaries:
            X = self.posterior_.summaries[VALUES]
        if X is not None and len(self._check_data(X, reset=False)) != n:
            raise ValueError(f"X must be the data of the fit, which had {n} rows.")
        return write_report(
            path,
            self.posterior_,
            X,
            title=f"Clusters of {n} rows" if title is None else title,
            settings=settings,
            partition=self.partition_,
            features=self.distinguishing(),
            tail=None if X is None else self.tail_probabilities(X),
            count_from=count_from,
        )

    # ------------------------------------------------------------------ prediction

    def _packed(self, chosen: np.ndarray) -> MixtureDraws:
        """Mixtures of some draws in standardised units, whose squares are always numbers."""
        posterior = self.posterior_
        weight = _flat(posterior, "weight")[chosen]
        targets = posterior.relabel(self.partition_).targets(weight.shape[1])[chosen]
        return mixture_draws(
            weight,
            _flat(posterior, "mean")[chosen],
            _flat(posterior, "covariance")[chosen],
            _flat(posterior, "df")[chosen] if "df" in posterior.drawn else None,
            targets,
            _flat(posterior, CLUSTER_PRIOR)[chosen],
            self._df_of_all_slots(chosen)[:, -1] if "df" in posterior.drawn else None,
        )

    def _df_of_all_slots(self, chosen: np.ndarray, extra: int = 1) -> np.ndarray:
        """Degrees of freedom of every slot and of some more; those of empty ones from their prior.

        Where all clusters share theirs, so do empty ones.
        """
        df = np.pad(_flat(self.posterior_, "df")[chosen], ((0, 0), (0, extra)), "constant",
                    constant_values=np.nan)  # fmt: skip
        empty = ~np.isfinite(df)
        if self.posterior_.record.settings.get("df") == "learn-each":
            df[empty] = draw_df(*DF_PRIOR, int(empty.sum()), np.random.default_rng(0))
        else:
            df[empty] = np.broadcast_to(np.nanmax(df, axis=1, keepdims=True), df.shape)[empty]
        return df

    @property
    def _mixtures(self) -> MixtureDraws:
        if "mixtures" not in self._cache:
            posterior = self.posterior_
            chosen = spread_draws(posterior.n_chains * posterior.n_draws)
            self._cache["mixtures"] = self._packed(chosen)
        return self._cache["mixtures"]

    def _standardised(self, X: np.ndarray) -> np.ndarray:
        """Rows in the model's units; what is beyond all numbers there stays as far as they go."""
        with np.errstate(over="ignore"):
            return np.clip(self._units.standardise(X), -FARTHEST_NEW, FARTHEST_NEW)

    def _evaluate(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Log density (draw, n), and probability of each cluster and of elsewhere (n, K + 1)."""
        check_is_fitted(self)
        X = self._check_data(X, reset=False)
        units = self._units
        log_density, probability = predict(self._mixtures, self._standardised(X), self.n_clusters_)
        return log_density - units.log_volume, probability

    def predict(self, X: Any) -> np.ndarray:
        """Most probable cluster of the point estimate for each row of X."""
        return self.predict_proba(X).argmax(axis=1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each cluster of the point estimate for each row of X, (n, K).

        Averaged over (at most 200, evenly spread) draws. A draw's cluster that matches none of
        the estimate's is left out and the rest made to sum to one: these are probabilities given
        that the row is in one of these clusters. `membership` shows what was left out.
        """
        probability = self._evaluate(X)[1]
        return _given_matched(probability)

    def membership(self, X: Any) -> pd.DataFrame:
        """Where each row of X belongs, by column of a table.

        Returns
        -------
        DataFrame
            ``cluster``, its ``probability``, ``tail_probability`` and ``log_density`` (see
            `tail_probabilities` and `score_samples`), ``p_0``, ``p_1``, ... and ``elsewhere``, the
            probability of a cluster that matches none of the estimate's. The last ones sum to one.
        """
        import pandas as pd

        log_density, probability = self._evaluate(X)
        index = X.index if hasattr(X, "index") and hasattr(X, "columns") else None
        cluster = probability[:, :-1].argmax(axis=1)
        table = {
            "cluster": cluster,
            "probability": probability[np.arange(len(cluster)), cluster],
            "tail_probability": self.tail_probabilities(X),
            "log_density": _log_mean_exp(log_density),
        }
        table |= {f"p_{k}": probability[:, k] for k in range(self.n_clusters_)}
        table["elsewhere"] = probability[:, -1]
        return pd.DataFrame(table, index=index)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log posterior predictive density of each row of X, its cluster integrated out."""
        return _log_mean_exp(self._evaluate(X)[0])

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log posterior predictive density of the rows of X: a held-out log score."""
        return float(self.score_samples(X).mean())

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
            d is then F(d, df), or chi-squared over d. The largest over the clusters.

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
        from scipy import stats

        check_is_fitted(self)
        X = self._check_data(X, reset=False)
        standard = self._standardised(X)
        d = standard.shape[1]
        out = np.zeros(len(standard))
        means, covariances = self._standard
        for k in range(self.n_clusters_):
            away = standard - means[k]
            root = cholesky(covariances[k])
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
            The cluster of the point estimate that each came from; -1 for one that matches none.
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
        return self._units.convert("mean", rows), labels

    # ------------------------------------------------------------------ checks

    def loo(self, X: Any, **options: Any) -> Any:
        """Leave-one-out of the fitted data: how well each row is foretold by all others.

        In each draw a row is taken out of its cluster, and its density is that under all clusters
        of the others and a new one, each cluster's parameters integrated out exactly; the mean of
        its inverse over draws is that of the leave-one-out density. Smoothed and judged by ArviZ
        (PSIS-LOO). The draws are those of the fit: approximate if ``collapse="ep"``.

        Parameters
        ----------
        X : array or DataFrame
            The data that the model was fitted to.
        options
            Passed to ``arviz.loo``, such as ``pointwise=True``.
        """
        check_is_fitted(self)
        X = self._check_data(X, reset=False)
        posterior = self.posterior_
        if FOLLOWED in posterior.summaries:
            raise ValueError(
                "Leave-one-out needs all labels of a draw, and a fit over shards keeps those of "
                "some rows. For rows that were left out use score_samples."
            )
        if len(X) != posterior.n_observations:
            raise ValueError(
                f"X has {len(X)} rows, the fit had {posterior.n_observations}: leave-one-out needs "
                "the data that the model was fitted to. For other rows use score_samples."
            )
        per_chain = spread_draws(posterior.n_draws, MAX_DRAWS)
        chosen = np.add.outer(np.arange(posterior.n_chains) * posterior.n_draws, per_chain)
        seen = within_steps(self._standardised(X))
        density = self._left_out(seen, chosen.ravel()) - self._units.log_volume
        thinned = Posterior(
            posterior.labels[:, per_chain], point_log_lik=density.reshape(*chosen.shape, -1)
        )
        return thinned.loo(**options)

    def _left_out(self, standard: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Log density of each row given the others' part of each chosen draw, (draw, n)."""
        posterior = self.posterior_
        labels = posterior.flat_labels[chosen]
        n_slots = max(self.n_clusters, int(labels.max()) + 2)
        collapse = assemble(self._own_problem(standard), "collapsed", n_slots).collapse
        width = collapse.state.scores.size
        alphas, scales = None, None
        if "df" in posterior.drawn:
            n_kept = posterior.drawn["df"].shape[2]
            df = self._df_of_all_slots(chosen, width - n_kept)
            alphas, scales = 0.5 * df, self._scales(standard, chosen, labels)
        priors = _flat(posterior, CLUSTER_PRIOR)[chosen]
        out = np.empty(labels.shape)
        for s in range(len(out)):
            out[s] = leave_one_out(
                collapse,
                labels[s],
                self._partition_prior(int(chosen[s]), width),
                priors[s],
                None if alphas is None else alphas[s],
                None if scales is None else scales[s],
            )
        return out

    def _scales(self, standard: np.ndarray, chosen: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """A draw of each row's scale variable given the draw's cluster parameters, (draw, n)."""
        posterior = self.posterior_
        rng = np.random.default_rng(0)
        n, d = standard.shape
        mean, covariance, df = (_flat(posterior, k)[chosen] for k in ("mean", "covariance", "df"))
        out = np.empty(labels.shape)
        for s, z in enumerate(labels.astype(np.int64)):
            distance = np.empty(n)
            for k in np.unique(z):
                own = z == k
                away = np.linalg.solve(cholesky(covariance[s, k]), (standard[own] - mean[s, k]).T)
                with np.errstate(over="ignore"):
                    distance[own] = np.square(away).sum(axis=0)
            shape = 0.5 * (df[s, z] + d)
            # No scale is nought: a row so far out has the smallest number there is.
            out[s] = np.maximum(rng.gamma(shape) / (0.5 * (df[s, z] + distance)), 1e-300)
        return out

    def _partition_prior(self, draw: int, n_slots: int) -> Any:
        """The prior over partitions as it was in a draw."""
        prior = self._prior_state(n_slots)
        if hasattr(prior, "concentration"):
            prior.concentration[0] = _flat(self.posterior_, "concentration")[draw]
        return prior

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
            self._standardised(X),
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


def _flat(posterior: Posterior, name: str) -> np.ndarray:
    """Draws of a cluster parameter in the model's units, chains one after the other."""
    values = posterior.drawn[name]
    return values.reshape(-1, *values.shape[2:])


def _mean_over_draws(values: np.ndarray) -> np.ndarray:
    """Mean over the draws (the first axis) that have a match; some draw always has one.

    A cluster of the estimate that no draw matches would have none: it then takes the mean of all
    clusters, which is at least a number of the right kind.
    """
    present = np.isfinite(values).all(axis=tuple(range(2, values.ndim)))
    count = present.sum(axis=0)
    shape = (*present.shape, *(1,) * (values.ndim - 2))
    total = np.where(present.reshape(shape), values, 0.0).sum(axis=0)
    out = total / np.maximum(count, 1).reshape(-1, *(1,) * (values.ndim - 2))
    if not count.all():
        out[count == 0] = total.sum(axis=0) / max(int(count.sum()), 1)
    return out


def _given_matched(probability: np.ndarray) -> np.ndarray:
    """Probabilities of the clusters given that it is one of them; equal where none is."""
    inside = probability[:, :-1]
    total = inside.sum(axis=1, keepdims=True)
    even = np.full(inside.shape, 1.0 / inside.shape[1])
    return np.where(total > 0.0, inside / np.where(total > 0.0, total, 1.0), even)


def _log_mean_exp(log_density: np.ndarray) -> np.ndarray:
    """Logarithm of the mean density over draws."""
    top = log_density.max(axis=0)
    # So far out that no draw gives a density above zero, the answer is minus infinity.
    lift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return lift + np.log(np.mean(np.exp(log_density - lift), axis=0))
