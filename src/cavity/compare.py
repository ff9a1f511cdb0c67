"""A table to choose by: fits of the same rows, one line each."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from cavity.base import Estimator
from cavity.posterior.record import DATA
from cavity.utils.text import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Rounds in which stacking weights are found; each raises the score.
_ROUNDS = 2000
# Characters in a printed line.
PRINTED = 100


class ModelComparison(pd.DataFrame):
    """Fits of the same rows, one per row: a DataFrame with a picture and a page."""

    def __repr__(self) -> str:
        """Return the table, rounded."""
        return self._rounded().to_string(line_width=PRINTED)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        from cavity.report.comparison import EXPLAINED

        notes = [
            f"<b>{escape(name)}</b>: {escape(text)}"
            for name, text in EXPLAINED.items()
            if name.split(",")[0] in self
        ]
        return f"{self._rounded().to_html()}<p><small>{'; '.join(notes)}.</small></p>"

    def _rounded(self) -> pd.DataFrame:
        one = ["elpd", "se", "difference", "difference_se", "bic", "seconds"]
        return self.round({name: 1 if name in one else 3 for name in self})

    def plot_differences(self, *, ax: Any = None) -> Axes:
        """Draw the difference of each fit to the best, with one and two standard errors.

        Parameters
        ----------
        ax : matplotlib axes, optional
        """
        from cavity.plotting.comparison import draw_differences

        if "elpd" not in self:
            raise ValueError("These fits have no leave-one-out densities that can be compared.")
        return draw_differences(self, ax)

    def report(self, path: str | os.PathLike[str], *, title: str = "Model comparison") -> Path:
        """Write an HTML page: conclusion in words, table, picture, settings of the fits.

        Parameters
        ----------
        path : path
            File to write; an existing one is replaced.
        title : str
        """
        from cavity.report.comparison import write_comparison

        return write_comparison(
            path, self, rows=self.attrs["rows"], fits=self.attrs["fits"], title=title
        )


def compare_models(models: Mapping[str, Any], X: Any = None) -> ModelComparison:
    """Compare fits of the same rows.

    Parameters
    ----------
    models : mapping of str to estimator
        Fitted estimators by name.
    X : array or DataFrame, optional
        The data of the fits. Needed for estimators that were loaded from files.

    Returns
    -------
    ModelComparison
        A DataFrame with one row per fit, the best first, with ``plot_differences()`` and
        ``report(path)``. ``elpd`` is the expected log predictive density by
        leave-one-out (PSIS-LOO), with standard error ``se``, the ``difference`` to the best and
        its standard error ``difference_se``; ``stacking`` is the weight of the fit in the best
        average of their predictions. All are missing where fits have other columns or no
        leave-one-out densities. ``n_clusters`` is the most probable number, with a 90% interval
        from ``n_lower`` to ``n_upper``. ``ari`` is the adjusted Rand index of the clusters with
        those of the first line. ``entropy_r2`` is one minus the entropy of the
        assignment probabilities over its maximum, ``assignment`` the mean probability of the
        assigned cluster, ``smallest`` the share of the smallest cluster. ``bic`` is that of the
        point estimate, for complete numbers without noise. ``converged`` and ``seconds`` are of
        the run.

    Examples
    --------
    >>> from cavity import GaussianMixture
    >>> from cavity.datasets import make_student_t
    >>> X, _ = make_student_t(80, 2, 2, df=float("inf"), separation=12, random_state=1)
    >>> short = {"n_chains": 2, "n_warmup": 20, "n_draws": 50, "random_state": 0}
    >>> fits = {str(k): GaussianMixture(k, **short).fit(X) for k in (1, 2)}
    >>> compare_models(fits).index.tolist()
    ['2', '1']
    """
    if not models:
        raise ValueError("models is empty. Pass fitted estimators by name.")
    for name, m in models.items():
        if not isinstance(m, Estimator) or not hasattr(m, "posterior_"):
            raise TypeError(f"{name!r} is not a fitted estimator of cavity, but {m!r}.")
    sizes = {name: m.posterior_.n_observations for name, m in models.items()}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name!r} has {n}" for name, n in sizes.items())
        raise ValueError(f"Only fits of the same rows can be compared: {listed} rows.")
    digests = {np.asarray(m.posterior_.summaries[DATA]).tobytes() for m in models.values()}
    # Fits of other columns have no data in common, whatever X is.
    X = X if len(digests) == 1 else None
    table = pd.DataFrame({name: _row(m, X) for name, m in models.items()}).T.convert_dtypes()
    pointwise = _pointwise(models, X) if len(digests) == 1 else None
    if pointwise is not None:
        best = int(pointwise.sum(axis=0).argmax())
        apart = pointwise - pointwise[:, [best]]
        scale = np.sqrt(len(pointwise))
        predictive = pd.DataFrame(
            {
                "elpd": pointwise.sum(axis=0),
                "se": scale * pointwise.std(axis=0, ddof=1),
                "difference": apart.sum(axis=0),
                "difference_se": scale * apart.std(axis=0, ddof=1),
                "stacking": stacking_weights(pointwise),
            },
            index=list(models),
        )
        table = predictive.join(table).sort_values("elpd", ascending=False, kind="stable")
    first = models[table.index[0]].partition_.labels
    agreement = [adjusted_rand_score(first, models[name].partition_.labels) for name in table.index]
    table.insert(list(table).index("entropy_r2"), "ari", agreement)
    found = ModelComparison(table)
    p = next(iter(models.values())).posterior_
    found.attrs = {
        "rows": count(p.n_observations, p.record.noun),
        "fits": {str(name): repr(models[name]) for name in table.index},
    }
    return found


def stacking_weights(pointwise: np.ndarray) -> np.ndarray:
    """Return weights of models that maximize the leave-one-out density of their average.

    Parameters
    ----------
    pointwise : array, shape (n, models)
        Leave-one-out log densities.

    Examples
    --------
    >>> stacking_weights(np.log([[0.9, 0.1], [0.8, 0.2]])).round(3).tolist()
    [1.0, 0.0]
    """
    density = np.exp(pointwise - pointwise.max(axis=1, keepdims=True))
    weight: np.ndarray = np.full(density.shape[1], 1.0 / density.shape[1])
    for _ in range(_ROUNDS):
        joint = density * weight
        weight = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
    return weight


def _pointwise(models: Mapping[str, Any], X: Any) -> np.ndarray | None:
    """Return leave-one-out log densities, (n, models); None if they do not compare."""
    if not all(getattr(m, "_has_loo", False) for m in models.values()):
        return None
    columns = []
    for m in models.values():
        with warnings.catch_warnings():
            # Pareto shapes of single rows are in the table of `loo`, not of a comparison.
            warnings.simplefilter("ignore", UserWarning)
            found = m.loo(X, pointwise=True)
        values = found.elpd_i if hasattr(found, "elpd_i") else found.loo_i
        columns.append(np.asarray(values, dtype=float))
    return np.column_stack(columns)


def _row(m: Any, X: Any) -> dict[str, Any]:
    """Return what a table says about one fit, predictive density apart."""
    p = m.posterior_
    view = p.view(m.partition_)
    chance = view.relabelling.probabilities
    kept = np.clip(chance / np.maximum(chance.sum(axis=1, keepdims=True), 1e-12), 1e-300, 1.0)
    n_clusters = chance.shape[1]
    entropy = -(kept * np.log(kept)).sum(axis=1).mean()
    number = p.n_clusters_posterior()
    low, high = np.quantile(p.n_proper, [0.05, 0.95])
    return {
        "n_clusters": int(number.idxmax()),
        "n_lower": int(low),
        "n_upper": int(high),
        "entropy_r2": 1.0 - entropy / np.log(n_clusters) if n_clusters > 1 else 1.0,
        "assignment": float(view.probability.mean()),
        "smallest": float(view.proper_sizes.min(initial=view.n) / view.n),
        "bic": _bic(m, X),
        "converged": bool(m.converged_),
        "seconds": float(p.sweep_seconds.sum(axis=1).max()),
    }


def _bic(m: Any, X: Any) -> float | None:
    """Return -2 log L + q log n at the posterior means, q counting free parameters."""
    from scipy import special, stats

    X = getattr(m, "_data", None) if X is None else X
    if X is None or m.posterior_.record.noise or not hasattr(m, "covariances_"):
        return None
    cells = m._cells(X)
    others = cells.codes.shape[1] + cells.counts.shape[1] + cells.overdispersed.shape[1]
    X = cells.continuous
    if others or np.isnan(X).any() or not m._has_loo:
        return None
    n, d = X.shape
    n_clusters = len(m.weights_)
    df = getattr(m, "df_", np.full(n_clusters, np.inf))
    log_density = np.column_stack(
        [
            stats.multivariate_t(mean, covariance, df=nu).logpdf(X).reshape(n)
            for mean, covariance, nu in zip(m.means_, m.covariances_, df, strict=True)
        ]
    )
    full = d * (d + 1) // 2
    q = m.n_factors or 1
    forms = {
        "full": n_clusters * full,
        "diag": n_clusters * d,
        "tied": full,
        "factor": n_clusters * (d * (q + 1) - q * (q - 1) // 2),
    }
    n_tails = 0
    if hasattr(m, "df_"):
        n_tails = {"learn": 1, "learn-each": n_clusters}.get(str(m.df), 0)
    free = n_clusters - 1 + n_clusters * d + forms[m.covariance_type] + n_tails
    value = special.logsumexp(log_density + np.log(m.weights_), axis=1).sum()
    return float(-2.0 * value + free * np.log(n))
