"""Agreement with given labels, and of two fits of the same observations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.posterior.convergence import similarity_distance
from cavity.posterior.draws import subset_of_observations
from cavity.posterior.losses import as_loss, losses_to_draws, partition_distance
from cavity.posterior.similarity import similarity

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior.posterior import Posterior


def _codes(labels: Any, n: int) -> np.ndarray:
    import pandas as pd

    values = pd.Series(np.asarray(labels).tolist())
    if len(values) != n:
        raise ValueError(f"labels has {len(values)} entries for {n} observations")
    if values.isna().any():
        at = int(np.flatnonzero(values.isna())[0])
        raise ValueError(
            f"labels has no value at observation {at}; leave out what has no given label"
        )
    return pd.factorize(values)[0]


def agreement(p: Posterior, labels: Any, estimate: np.ndarray) -> pd.Series:
    """Agreement of an estimate, and of the draws on average, with given labels."""
    import pandas as pd
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    given = _codes(labels, p.n_observations)
    against = given.astype(np.int64)
    return pd.Series(
        {
            "nmi": float(normalized_mutual_info_score(given, estimate)),
            "ari": float(adjusted_rand_score(given, estimate)),
            "vi": partition_distance(estimate, against),
            "expected_ari": 1.0 - float(_mean_loss(p, against, "omari")),
            "expected_vi": float(_mean_loss(p, against, "vi")),
        },
        name="agreement",
    )


def _mean_loss(p: Posterior, labels: np.ndarray, loss: str) -> float:
    return float(losses_to_draws(labels, p.flat_labels, as_loss(loss)).mean())


@dataclass(frozen=True)
class Comparison:
    """Two fits of the same observations, side by side.

    Attributes
    ----------
    nmi, ari, vi : float
        Agreement of the two point estimates.
    similarity_difference : float
        Distance of the similarity matrices, 0 (same) to 1 (nothing in common).
    table : DataFrame
        For each fit: clusters of the estimate, posterior mean number of clusters, expected VI of
        its estimate under its own draws and under the other fit's.
    overlap : DataFrame
        Observations shared by each cluster of the first estimate (rows) and the second (columns).
    loo : DataFrame or None
        ArviZ's comparison by PSIS-LOO, where both fits kept the log density of observations.
    """

    nmi: float
    ari: float
    vi: float
    similarity_difference: float
    table: pd.DataFrame
    overlap: pd.DataFrame
    loo: pd.DataFrame | None

    def __str__(self) -> str:
        first = (
            f"The estimates agree with adjusted Rand {self.ari:.3f}, NMI {self.nmi:.3f}, VI "
            f"{self.vi:.3f} nats; the similarity matrices differ by "
            f"{self.similarity_difference:.3f} of 1."
        )
        parts = [first, self.table.to_string(float_format=lambda v: f"{v:.4g}")]
        if self.loo is not None:
            parts.append(self.loo.to_string())
        return "\n\n".join(parts)


def compare(first: Posterior, second: Posterior, n_rows: int = 500) -> Comparison:
    """Compare two fits; see `Posterior.compare`."""
    import pandas as pd
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    n = first.n_observations
    if second.n_observations != n:
        raise ValueError(
            f"the fits are of {n} and {second.n_observations} observations; only fits of the same "
            "observations can be compared"
        )
    if (
        first.names is not None
        and second.names is not None
        and not np.array_equal(first.names, second.names)
    ):
        raise ValueError("the fits name their observations differently; put both in one order")
    a, b = first.partition(), second.partition()
    rows = subset_of_observations(n, n_rows)
    difference = similarity_distance(
        similarity(first.flat_labels[:, rows]), similarity(second.flat_labels[:, rows])
    )
    table = pd.DataFrame(
        {
            "clusters": [a.n_clusters, b.n_clusters],
            "mean_clusters": [first.n_occupied.mean(), second.n_occupied.mean()],
            "expected_vi_own": [
                _mean_loss(first, a.labels, "vi"),
                _mean_loss(second, b.labels, "vi"),
            ],
            "expected_vi_other": [
                _mean_loss(second, a.labels, "vi"),
                _mean_loss(first, b.labels, "vi"),
            ],
        },
        index=pd.Index(["first", "second"], name="fit"),
    )
    overlap = pd.crosstab(pd.Series(a.labels, name="first"), pd.Series(b.labels, name="second"))
    loo = None
    if first.point_log_lik is not None and second.point_log_lik is not None:
        from cavity.posterior.arviz import import_arviz

        results = {"first": first.loo(pointwise=True), "second": second.loo(pointwise=True)}
        loo = import_arviz().compare(results)
    return Comparison(
        nmi=float(normalized_mutual_info_score(a.labels, b.labels)),
        ari=float(adjusted_rand_score(a.labels, b.labels)),
        vi=partition_distance(a.labels, b.labels),
        similarity_difference=difference,
        table=table,
        overlap=overlap,
        loo=loo,
    )
