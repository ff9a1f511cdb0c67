"""When an automatic run may end: the checks of the diagnostics, on chains as they stand."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from cavity.mcmc.draws import stack_parameter
from cavity.mcmc.schedule import Judge, Judgement
from cavity.posterior._draws import size_summaries
from cavity.posterior.checks import Checks, ess_needed, measure, problems_of
from cavity.posterior.effective import LEAST_DRAWS
from cavity.posterior.quantities import LOG_MARGINAL, named, scalars

# What each chain has drawn, by name.
Chains = Sequence[Mapping[str, np.ndarray]]


def judge_of(max_clusters: int | None, log_joint_is_marginal: bool) -> Judge:
    """What looks at the draws of an automatic run.

    The run may end once the diagnostics would call it converged. Chains in modes of negligible
    mass (`cavity.posterior.modes`) are set aside first, and waited for only as long as they are
    still on their way.

    Parameters
    ----------
    max_clusters : int or None
        Names that clusters may have, where the prior is over labels.
    log_joint_is_marginal : bool
        Whether the log joint density itself has no cluster parameters in it.
    """
    marginal = "log joint" if log_joint_is_marginal else LOG_MARGINAL

    def check(chains: Chains, cluster_parameters: Collection[str]) -> Checks:
        return measure(
            [chain["labels"] for chain in chains],
            _quantities(chains, cluster_parameters),
            marginal=marginal,
            max_clusters=max_clusters,
        )

    def judge(chains: Chains, cluster_parameters: Collection[str]) -> Judgement:
        if len(chains[0]["labels"]) < LEAST_DRAWS:
            return Judgement(False, 1.0)  # nothing can be told, nor how much is missing
        checks = check(chains, cluster_parameters)
        aside = _set_aside(checks)
        waiting = not all(checks.at_rest(chain) for chain in aside)
        if aside:
            kept = [chain for c, chain in enumerate(chains) if c not in aside]
            checks = check(kept, cluster_parameters)
        # One chain is judged by its halves, as well as that goes; the last of several is not.
        alone = bool(aside) and checks.n_chains == 1
        share = checks.effective[1] / ess_needed(checks.n_chains)
        return Judgement(not (problems_of(checks) or waiting or alone), share, aside)

    return judge


def _quantities(chains: Chains, with_clusters: Collection[str]) -> dict[str, np.ndarray]:
    """Label-free quantities by name, as those of a posterior."""
    sizes = [size_summaries(chain["labels"]) for chain in chains]
    n_clusters, largest, entropy = (np.stack(part) for part in zip(*sizes, strict=True))
    small = {}
    for key in chains[0]:
        kind, _, name = key.partition("/")
        has_clusters = name in with_clusters
        if kind == "parameters" and chains[0][key].ndim == 1 + has_clusters:
            small[name] = stack_parameter([chain[key] for chain in chains], has_clusters)
    log_joint = np.stack([chain["log_joint"] for chain in chains])
    return named(log_joint, (n_clusters, largest, entropy)) | scalars(small, with_clusters)


def _set_aside(checks: Checks) -> dict[int, dict[str, Any]]:
    """Chains in modes of negligible mass, and what the record says of each."""
    return {
        chain: {
            "below": mode.below,
            "n_clusters": int(np.median(checks.quantities["number of clusters"][chain])),
        }
        for mode in checks.modes
        if mode.negligible
        for chain in mode.chains
    }
