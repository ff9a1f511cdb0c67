"""Runs of single chains whose every sweep is looked at: traces, efficiency, clocks.

Samplers are compared from the same starting labels, one chain on one thread. The clock is the
chain runner's: it counts sweeps alone, neither compilation (a tiny run comes first) nor what is
evaluated here afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from reproduction.metrics import agreement, recorded_sweeps

N_PAIRS = 50

_warmed: set[str] = set()


def warm_up(name: str, tiny: Callable[[], Any]) -> None:
    """Compile what a sampler needs, once per process, by a tiny run."""
    if name not in _warmed:
        tiny()
        _warmed.add(name)


def paper_prior(n_clusters: int, d: int) -> dict[str, Any]:
    """Settings of a mixture under a prior that is fixed, as the paper's is: nothing is learned.

    Examples
    --------
    >>> paper_prior(20, 2)["cluster_prior"].covariance_df
    4.0
    """
    from cavity.priors.cluster_prior import ClusterPrior, starting_scale

    return {
        "prior": "dirichlet",
        "concentration": 20.0,
        "cluster_prior": ClusterPrior(0.01, d + 2.0, starting_scale(n_clusters, d)),
        "noise": False,
    }


def random_labels(n: int, n_clusters: int, seed: Any) -> np.ndarray:
    """Return starting labels, uniform at random: the same for all samplers of a trial."""
    return np.random.default_rng(seed).integers(0, n_clusters, n)


def cumulative_seconds(posterior: Any) -> np.ndarray:
    """Return the clock after each sweep of the only chain."""
    return np.cumsum(np.asarray(posterior.sweep_seconds)[0])


def trace_agreement(posterior: Any, truth: np.ndarray, points: int = 60) -> pd.DataFrame:
    """Return NMI and adjusted Rand with the truth along the chain, and the clock.

    Returns
    -------
    trace : DataFrame
        sweep (counted from 1), seconds, nmi, ari, log_joint.
    """
    labels = np.asarray(posterior.labels)[0]
    sweeps = recorded_sweeps(len(labels), points)
    nmi, ari = agreement(truth, labels[sweeps - 1])
    return pd.DataFrame(
        {
            "sweep": sweeps,
            "seconds": cumulative_seconds(posterior)[sweeps - 1],
            "nmi": nmi,
            "ari": ari,
            "log_joint": np.asarray(posterior.log_joint)[0][sweeps - 1],
        }
    )


def efficiency(posterior: Any) -> dict[str, float]:
    """Effective draws of label-free quantities in the second half of the chain, and its seconds.

    Returns
    -------
    numbers : dict
        ``ess_log_joint``, ``ess_entropy``, ``ess_pairs`` (median over a fixed set of pairs of
        observations of the effective draws of "they share a cluster"), and ``half_seconds``.
    """
    from cavity.posterior.convergence import choose_pairs
    from cavity.posterior.effective import ess

    labels = np.asarray(posterior.labels)
    half = labels.shape[1] // 2
    late = labels[:, half:]
    pairs = choose_pairs(list(late), N_PAIRS)
    together = [(late[:, :, i] == late[:, :, j]).astype(float) for i, j in pairs]
    # Two observations that are always, or never, together say nothing about mixing.
    moving = [ess(t) for t in together if t.min() < t.max()]
    return {
        "ess_log_joint": float(ess(np.asarray(posterior.log_joint)[:, half:])),
        "ess_entropy": float(ess(np.asarray(posterior.size_entropy)[:, half:])),
        "ess_pairs": float(np.median(moving)) if moving else float("nan"),
        "half_seconds": float(np.asarray(posterior.sweep_seconds)[0][half:].sum()),
    }


def log_time_average(trace: pd.DataFrame, value: str, low: float, high: float) -> float:
    """Return the mean of a step-wise trace over the logarithm of time between two clocks.

    Examples
    --------
    >>> trace = pd.DataFrame({"sweep": [1, 2], "seconds": [1.0, 10.0], "nmi": [0.0, 1.0]})
    >>> round(log_time_average(trace, "nmi", 1.0, 100.0), 6)
    0.5
    """
    one = trace.sort_values("sweep")
    seconds, values = one["seconds"].to_numpy(), one[value].to_numpy()
    edges = np.clip(np.append(seconds, np.inf), low, high)
    widths = np.diff(np.log(edges))
    total = widths.sum()
    return float((widths * values).sum() / total) if total > 0 else float("nan")
