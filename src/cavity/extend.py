"""User-defined likelihoods: register two functions, and sample.

A model is a NamedTuple that holds the data. Register for its class

* ``evidence(model, q, k, i)``: the log of the integral of observation i's likelihood against
  slot k of the approximating family, and
* ``project(model, q, k, i, fraction)``: replace slot k by the family member that matches the
  moments of slot k times the likelihood to the `fraction` (1 in plain EP),

and `sample` runs expectation propagation inside Gibbs sampling over partitions, compiled. A model
that is conjugate to its family registers ``evidence``, ``observe`` and ``accumulate`` instead and
asks for ``collapse="collapsed"``. `cavity.interface` describes every function;
``docs/extending.md`` has a whole example. Helpers are compiled by `jit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import compiled, jit
from cavity.collapse.driver import AssembledModel
from cavity.collapse.problems import OwnProblem, TableProblem
from cavity.collapse.registry import assemble
from cavity.collapse.scores import cluster_scores
from cavity.conjugate.diagonal_normal import (
    DiagonalNormal,
    VectorParameters,
    diagonal_normal,
    set_moments,
    vector_parameters,
)
from cavity.conjugate.niw import (
    GaussianParameters,
    NormalInverseWishart,
    gaussian_parameters,
    normal_inverse_wishart,
)
from cavity.estimators.description import Describer
from cavity.estimators.fitting import Plan, RunSettings, run_plan
from cavity.estimators.validation import check_choice, check_count
from cavity.interface import (
    accumulate,
    bounds,
    divergence,
    draw,
    evidence,
    evidences,
    load,
    log_partition,
    observe,
    pick,
    project,
)
from cavity.likelihoods.selection import draw_by_bounds
from cavity.mcmc.fingerprint import data_digest
from cavity.mcmc.schedule import AUTO
from cavity.mixture import table_parts
from cavity.posterior.convergence import PRECISIONS
from cavity.posterior.groups import (
    OVERLAP,
    OVERLAP_DRAWS,
    chosen_draws,
    overlaps,
    rows_to_use,
)
from cavity.posterior.posterior import Posterior
from cavity.posterior.record import CLUSTER_PRIOR
from cavity.priors.specifications import specification

_COLLAPSES = ("ep", "collapsed")
# Draws and observations that groups are computed from: each draw costs about a sweep.
GROUP_DRAWS, GROUP_ROWS = 100, 500


def sample(
    model: Any,
    family: Any,
    parameters: Any,
    *,
    n: int,
    n_clusters: int,
    prior: Any = "finite",
    concentration: float | str | None = None,
    collapse: str = "ep",
    init: Any = None,
    n_chains: int = 4,
    n_warmup: int = 200,
    n_draws: int | str = AUTO,
    thin: int = 1,
    max_sweeps: int = 20_000,
    max_seconds: float | None = None,
    precision: str = "report",
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: bool | None = None,
    checkpoint: Any = None,
    names: Any = None,
    columns: Any = None,
    **ep_options: Any,
) -> Posterior:
    """Sample partitions under a user-defined likelihood.

    Parameters
    ----------
    model : NamedTuple
        The data, of a class for which the verbs are registered.
    family : NamedTuple
        The distribution of a cluster's parameters, with one slot (or more) at its prior.
    parameters : NamedTuple
        Storage for the parameters of slots, as the family draws them.
    n : int
        Number of observations.
    n_clusters : int
        Maximum number of clusters. For priors without a limit, the number to start with.
    prior : {"finite", "dirichlet", "fixed", "dp", "pitman-yor"} or a prior from `cavity.priors`
        Partition prior.
    concentration : float, "learn" or None
        Its concentration, as for `StudentTMixture`.
    collapse : {"ep", "collapsed"}
        Way in which cluster parameters are integrated out.
    init : array of int, optional
        First labels; random ones by default.
    n_chains, n_warmup, n_draws, thin, max_sweeps, max_seconds, precision, n_jobs, random_state, \
progress, checkpoint
        As in the estimators.
    names : sequence, optional
        Names of the observations.
    columns : DataFrame, optional
        Further columns of the same observations, taken as `TableMixture` takes them: each cluster
        then also has its measurements, categories and missing values. They are exact under either
        collapse, except for heavy tails and missing values under EP.
    **ep_options
        ``fraction``, ``damping``, ``pass_every``, ``pass_tolerance``, ``max_passes``,
        ``staleness_every``, ``refresh_every`` of the EP collapse.

    Returns
    -------
    Posterior
        With the drawn cluster parameters under their own names. Its log joint density has the
        cluster parameters integrated out, as the collapse does it: by EP, or exactly up to terms
        that no partition changes.
    """
    _check(model, n, n_clusters, collapse, ep_options)
    check_choice("precision", precision, tuple(PRECISIONS))
    specified = specification(prior, concentration)
    labels = None if init is None else _labels(init, n, n_clusters)

    own = OwnProblem(model, family, parameters, n, conjugate=collapse == "collapsed")
    beside, digest = ((), "") if columns is None else table_parts(columns, n_clusters, n_warmup)
    problem = TableProblem((*beside, own))
    if any(part.n != n for part in beside):
        raise ValueError(f"columns has {beside[0].n} rows, but n is {n}: give a row for each.")
    describe = Describer(problem.parts)

    def assembled(n_slots: int) -> AssembledModel:
        return assemble(problem, collapse, n_slots, ep_options)._replace(movable="never")

    settings: dict[str, Any] = {
        "n": n,
        "n_clusters": n_clusters,
        "prior": prior,
        "concentration": concentration,
        "collapse": collapse,
        "precision": precision,
        **ep_options,
    }
    plan = Plan(
        name=type(model).__name__,
        n=n,
        n_clusters=n_clusters,
        assemble=assembled,
        # Only the user's functions can select some of the observations.
        assemble_few=lambda n_slots: (n, assembled(n_slots)),
        prior=specified,
        start=lambda chain, rng: rng.integers(0, n_clusters, n) if labels is None else labels,
        n_start=n_clusters,
        fingerprint={
            "model": type(model).__name__,
            "settings": settings,
            "data": data_digest(*(a for a in model if isinstance(a, np.ndarray))),
            "columns": digest,
            "init": "random" if labels is None else data_digest(labels),
        },
        describe=lambda sampler: _describe(describe(sampler)),
        cluster_parameters=tuple(name for name in describe.names if name != "weight"),
        marginal=True,
    )
    run = run_plan(
        plan,
        RunSettings(
            n_chains=n_chains,
            n_warmup=n_warmup,
            n_draws=n_draws,
            thin=thin,
            max_sweeps=max_sweeps,
            max_seconds=max_seconds,
            precision=precision,
            n_jobs=n_jobs,
            random_state=random_state,
            progress=progress,
            checkpoint=checkpoint,
        ),
    )
    posterior = plan.posterior(run, names=names, settings=settings)
    posterior.summaries.update(_overlaps(plan, assembled, posterior))
    return posterior


def _overlaps(
    plan: Plan, assembled: Callable[[int], AssembledModel], posterior: Posterior
) -> dict[str, np.ndarray]:
    """Return the overlaps of clusters in some draws, from evidences given all other labels.

    Learned priors of further columns are as at the start of a chain.
    """
    p, rng = posterior, np.random.default_rng(0)
    n_slots = max(plan.n_slots, int(p.labels.max()) + 2)
    chosen = chosen_draws(p.n_chains, p.n_draws, n_slots, GROUP_DRAWS)
    rows = rows_to_use(p.n_observations, GROUP_ROWS)
    out = np.tile(np.eye(n_slots, dtype=np.float32), (len(chosen), 1, 1))
    for s, place in enumerate(chosen.tolist()):
        sampler = plan.sampler(assembled(n_slots), p.flat_labels[place], rng)
        prior = sampler.prior
        if prior.has_concentration:
            prior.concentration[0] = p.drawn["concentration"].reshape(-1)[place]
        state, counts = sampler.collapse.state, sampler.counts
        scores = np.empty((counts.size, rows.size))
        kernel = compiled(cluster_scores, (state, prior))
        kernel(state, prior, sampler.z, counts, rows, np.zeros(counts.size), scores)
        there = np.flatnonzero(counts)
        out[s][np.ix_(there, there)] = overlaps(scores[there])
    return {OVERLAP: out, OVERLAP_DRAWS: chosen}


def _describe(drawn: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the drawn parameters of every cluster."""
    return {name: value for name, value in drawn.items() if name not in ("weight", CLUSTER_PRIOR)}


def _check(
    model: Any, n: int, n_clusters: int, collapse: str, ep_options: Mapping[str, Any]
) -> None:
    check_count("n", n, 1)
    check_count("n_clusters", n_clusters, 1)
    check_choice("collapse", collapse, _COLLAPSES)
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
