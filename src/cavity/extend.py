"""A likelihood of your own: register two functions, and sample.

A model is a NamedTuple that holds the data. Register for its class

* ``evidence(model, q, k, i)``: the log of the integral of observation i's likelihood against
  slot k of the approximating family, and
* ``project(model, q, k, i, fraction)``: replace slot k by the family member that matches the
  moments of slot k times the likelihood to the `fraction` (1 in plain EP),

and `sample` runs expectation propagation inside Gibbs sampling over partitions, compiled. A model
that is conjugate to its family registers ``evidence``, ``observe`` and ``accumulate`` instead and
asks for ``collapse="collapsed"``. `cavity.verbs` describes every function; ``docs/extending.md``
has a whole example. Helpers are compiled by `jit`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity.collapse.conjugate import ConjugateCollapse
from cavity.collapse.ep import EPCollapse
from cavity.collapse.selection import draw_by_bounds
from cavity.core.arrays import by_slot, copied, declare, grown
from cavity.core.compile import jit
from cavity.core.lanes import whole_vectors
from cavity.families.diagonal_normal import (
    DiagonalNormal,
    VectorParameters,
    diagonal_normal,
    set_moments,
    vector_parameters,
)
from cavity.families.normal_inverse_wishart import (
    GaussianParameters,
    NormalInverseWishart,
    gaussian_parameters,
    normal_inverse_wishart,
)
from cavity.posterior.posterior import Posterior
from cavity.posterior.record import RunRecord, versions
from cavity.priors.partition import (
    PartitionPrior,
    dirichlet,
    dirichlet_process,
    fixed_weights,
    pitman_yor,
)
from cavity.sampling.chains import run_chains
from cavity.sampling.fingerprint import data_digest
from cavity.sampling.sampler import PartitionSampler, slots_for
from cavity.verbs import (
    accumulate,
    bounds,
    divergence,
    draw,
    evidence,
    evidence_floor,
    evidences,
    load,
    log_partition,
    observe,
    pick,
    project,
)

_COLLAPSES = ("ep", "collapsed")
_PRIORS = ("fixed", "dirichlet", "dp", "pitman-yor")


def sample(
    model: Any,
    family: Any,
    parameters: Any,
    *,
    n: int,
    n_clusters: int,
    prior: str = "dirichlet",
    concentration: float | str = 1.0,
    weights: Any = None,
    discount: float = 0.25,
    collapse: str = "ep",
    init: Any = None,
    n_chains: int = 4,
    n_warmup: int = 200,
    n_draws: int = 300,
    thin: int = 1,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool | None = None,
    checkpoint: Any = None,
    names: Any = None,
    **ep_options: Any,
) -> Posterior:
    """Sample partitions under a likelihood of your own.

    Parameters
    ----------
    model : NamedTuple
        The data, of a class for which the verbs are registered.
    family : NamedTuple
        The distribution of a cluster's parameters, with one slot (or more) at its prior.
    parameters : NamedTuple
        Room for one slot's parameters as the family draws them.
    n : int
        Number of observations.
    n_clusters : int
        Number of clusters; under an open prior, how many to start from.
    prior : {"dirichlet", "fixed", "dp", "pitman-yor"}
        Partition prior.
    concentration : float or "learn"
        Its concentration; "learn" puts a Gamma(1, 1) prior on it.
    weights : array, optional
        Mixture weights of ``prior="fixed"``; equal ones by default.
    discount : float
        Of the Pitman-Yor process.
    collapse : {"ep", "collapsed"}
        How cluster parameters are integrated out.
    init : array of int, optional
        First labels; random ones by default.
    n_chains, n_warmup, n_draws, thin, n_jobs, random_state, progress, checkpoint
        As in the estimators.
    names : sequence, optional
        Names of the observations.
    **ep_options
        ``fraction``, ``damping``, ``pass_every``, ``pass_tolerance``, ``max_passes``,
        ``staleness_every`` of the EP collapse.

    Returns
    -------
    Posterior
        With the drawn cluster parameters under their own names.
    """
    _check(model, n, n_clusters, prior, concentration, collapse, ep_options)
    open_prior = prior in ("dp", "pitman-yor")
    n_slots = whole_vectors(slots_for(n_clusters, open_prior))
    learn = concentration == "learn"
    start = 1.0 if learn else float(concentration)
    labels = None if init is None else _labels(init, n, n_clusters)

    def partition_prior() -> PartitionPrior:
        if prior == "fixed":
            return fixed_weights(np.ones(n_clusters) if weights is None else weights)
        if prior == "dirichlet":
            return dirichlet(n_clusters, start)
        if prior == "dp":
            return dirichlet_process(n_slots, start)
        return pitman_yor(n_slots, start, discount)

    def make_sampler(chain: int, rng: np.random.Generator) -> PartitionSampler:
        # Every chain works in a model, a family and parameters of its own.
        own_model = copied(grown(model, n_slots))
        own = copied(grown(family, n_slots)), copied(grown(parameters, n_slots))
        driver: Any
        if collapse == "ep":
            driver = EPCollapse(own_model, *own, n=n, **ep_options)
        else:
            driver = ConjugateCollapse(own_model, *own)
        z = rng.integers(0, n_clusters, n) if labels is None else labels
        return PartitionSampler(
            driver,
            partition_prior(),
            z,
            rng,
            concentration_prior=(1.0, 1.0) if learn else None,
            describe=_describe,
            cluster_parameters=tuple(by_slot(parameters)),
        )

    settings: dict[str, Any] = {
        "model": type(model).__name__,
        "n": n,
        "n_clusters": n_clusters,
        "prior": prior,
        "concentration": concentration,
        "collapse": collapse,
        **ep_options,
    }
    run = run_chains(
        make_sampler,
        n_chains=n_chains,
        n_warmup=n_warmup,
        n_draws=n_draws,
        thin=thin,
        n_jobs=n_jobs,
        random_state=random_state,
        progress=progress,
        checkpoint=checkpoint,
        fingerprint={
            **settings,
            "data": data_digest(*(a for a in model if isinstance(a, np.ndarray))),
            "init": "random" if labels is None else data_digest(labels),
        },
        label=type(model).__name__,
    )
    return Posterior(
        run.labels,
        log_joint=run.log_joint,
        sweep_seconds=run.sweep_seconds,
        parameters=run.parameters,
        cluster_parameters=run.cluster_parameters,
        events=run.events,
        names=names,
        record=RunRecord(
            type(model).__name__,
            settings,
            max_clusters=None if open_prior else n_clusters,
            n_warmup=run.n_warmup,
            thin=run.thin,
            interrupted=run.interrupted,
            versions=versions(),
        ),
    )


def _describe(sampler: PartitionSampler) -> dict[str, np.ndarray]:
    """The drawn parameters of every cluster; NaN for empty slots."""
    out = by_slot(sampler.collapse.parameters)
    for array in out.values():
        array[sampler.counts == 0] = np.nan
    return out


def _check(
    model: Any,
    n: int,
    n_clusters: int,
    prior: str,
    concentration: float | str,
    collapse: str,
    ep_options: Mapping[str, Any],
) -> None:
    for name, value in (("n", n), ("n_clusters", n_clusters)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise ValueError(f"{name} must be a positive integer, not {value!r}")
    if prior not in _PRIORS:
        raise ValueError(f"prior must be one of {', '.join(_PRIORS)}, not {prior!r}")
    if collapse not in _COLLAPSES:
        raise ValueError(f"collapse must be one of {', '.join(_COLLAPSES)}, not {collapse!r}")
    if concentration != "learn" and not (
        isinstance(concentration, int | float) and concentration > 0.0
    ):
        raise ValueError(
            f"concentration must be a positive number or 'learn', not {concentration!r}"
        )
    if collapse != "ep" and ep_options:
        raise ValueError(f"{', '.join(ep_options)} can only be given with collapse='ep'")
    needed = (evidence, project) if collapse == "ep" else (evidence, observe, accumulate)
    missing = [v.__name__ for v in needed if type(model) not in v.verb.implementations]
    if missing:
        raise TypeError(
            f"{type(model).__name__} has no {' and no '.join(missing)}: write each as a function "
            f"decorated with @{missing[0]}.register({type(model).__name__})"
        )


def _labels(init: Any, n: int, n_clusters: int) -> np.ndarray:
    labels = np.asarray(init)
    if labels.shape != (n,) or labels.dtype.kind not in "iu":
        raise ValueError(f"init must hold {n} integer labels, not shape {labels.shape}")
    if labels.min() < 0 or labels.max() >= n_clusters:
        raise ValueError(f"init must hold labels from 0 to n_clusters - 1 = {n_clusters - 1}")
    return labels


__all__ = [
    "DiagonalNormal",
    "GaussianParameters",
    "NormalInverseWishart",
    "VectorParameters",
    "accumulate",
    "bounds",
    "declare",
    "diagonal_normal",
    "divergence",
    "draw",
    "draw_by_bounds",
    "evidence",
    "evidence_floor",
    "evidences",
    "gaussian_parameters",
    "jit",
    "load",
    "log_partition",
    "normal_inverse_wishart",
    "observe",
    "pick",
    "project",
    "sample",
    "set_moments",
    "vector_parameters",
]
