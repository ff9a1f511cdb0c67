"""Leave-one-out densities from the draws of a fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cavity.collapse.leave_one_out import leave_one_out
from cavity.collapse.registry import assemble
from cavity.conjugate.product import ProductFamily
from cavity.posterior.posterior import Posterior
from cavity.posterior.record import CLUSTER_PRIOR
from cavity.predict.covariances import (
    df_of_all_slots,
    flat,
    prior_width,
    set_block,
    structure_of,
)
from cavity.predict.draws import MAX_DRAWS, spread_draws


class LeaveOneOut:
    """Leave-one-out densities by the draws of a fit.

    Parameters
    ----------
    posterior : Posterior
    problem : problem
        Of the rows of the fit.
    volumes : array, shape (n,)
        Subtracted from log densities: from the model's units to the data's.
    prior_state : callable
        ``prior_state(n_slots)``: the partition prior that chains start with.
    n_clusters : int
        The estimator's setting.
    """

    def __init__(
        self,
        posterior: Posterior,
        problem: Any,
        volumes: np.ndarray,
        prior_state: Callable[[int], Any],
        n_clusters: int,
    ) -> None:
        self.posterior, self.problem, self.volumes = posterior, problem, volumes
        self.prior_state, self.n_clusters = prior_state, n_clusters

    def compare(self, **options: Any) -> Any:
        """Return ArviZ's PSIS-LOO of at most 200 draws of each chain."""
        posterior = self.posterior
        per_chain = spread_draws(posterior.n_draws, MAX_DRAWS)
        chosen = np.add.outer(np.arange(posterior.n_chains) * posterior.n_draws, per_chain)
        density = self.log_densities(chosen.ravel()) - self.volumes
        thinned = Posterior(
            posterior.labels[:, per_chain], point_log_lik=density.reshape(*chosen.shape, -1)
        )
        return thinned.loo(**options)

    def log_densities(self, chosen: np.ndarray) -> np.ndarray:
        """Return each row's log density given the others' part of each chosen draw, (draw, n)."""
        posterior = self.posterior
        labels = posterior.flat_labels[chosen]
        # Arrays of draws are as wide as the draw with the most slots, which may be none of these.
        n_slots = max(
            self.n_clusters + bool(posterior.record.noise),
            int(labels.max()) + 2,
            posterior.drawn["weight"].shape[2],
        )
        collapse = assemble(self.problem, "collapsed", n_slots).collapse
        width = collapse.state.scores.size
        alphas = None
        if "df" in posterior.drawn:
            n_kept = posterior.drawn["df"].shape[2]
            alphas = 0.5 * df_of_all_slots(posterior, chosen, width - n_kept)
        rng = np.random.default_rng(0)
        out = np.empty(labels.shape)
        for s, draw in enumerate(chosen.tolist()):
            _set_draw(collapse.family, collapse.parameters, posterior, draw, rng)
            prior = self.prior_state(width)
            if prior.has_concentration:
                prior.concentration[0] = flat(posterior, "concentration")[draw]
            alpha = None if alphas is None else alphas[s]
            out[s] = leave_one_out(collapse, labels[s], prior, alpha, rng)
        return out


def _set_draw(
    family: Any, parameters: Any, posterior: Posterior, draw: int, rng: np.random.Generator
) -> None:
    """Give all parts their prior in a draw, and the continuous columns their parameters."""
    prior = flat(posterior, CLUSTER_PRIOR)[draw]
    used = kept = 0
    if "mean" in posterior.drawn:
        product = isinstance(family, ProductFamily)
        block = family.first if product else family
        values = parameters.first if product else parameters
        set_block(block, values, posterior, draw, rng)
        used = block.prior.size
        kept = prior_width(structure_of(posterior), posterior.drawn["mean"].shape[3])
    family.prior[used:] = prior[kept:]
