"""Leave-one-out of a fitted mixture or table: how well each row is foretold by all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.collapse.leave_one_out import leave_one_out
from cavity.collapse.registry import assemble
from cavity.conjugate.product import ProductFamily
from cavity.estimators.base import Fitted
from cavity.estimators.kept import FOLLOWED
from cavity.estimators.structures import flat, prior_width, set_block, structure_of
from cavity.likelihoods.degrees_of_freedom import DF_PRIOR, draw_df
from cavity.likelihoods.predictive import CLUSTER_PRIOR, MAX_DRAWS, spread_draws
from cavity.posterior.posterior import Posterior


class LeaveOneOut(Fitted):
    """Leave-one-out densities by the draws of the fit."""

    n_clusters: int

    if TYPE_CHECKING:
        # Of every estimator of rows, which is behind this class and not before it.
        def _prior_state(self, n_slots: int) -> Any: ...

    def _problem_of_fit(self, X: Any) -> tuple[Any, np.ndarray]:
        """The problem of the rows of the fit, and what each one's log density loses to units."""
        raise TypeError("an estimator says what its problem is")

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
        check_is_fitted(self, "posterior_")
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
        problem, volumes = self._problem_of_fit(X)
        per_chain = spread_draws(posterior.n_draws, MAX_DRAWS)
        chosen = np.add.outer(np.arange(posterior.n_chains) * posterior.n_draws, per_chain)
        density = self._left_out(problem, chosen.ravel()) - volumes
        thinned = Posterior(
            posterior.labels[:, per_chain], point_log_lik=density.reshape(*chosen.shape, -1)
        )
        return thinned.loo(**options)

    def _left_out(self, problem: Any, chosen: np.ndarray) -> np.ndarray:
        """Log density of each row given the others' part of each chosen draw, (draw, n)."""
        posterior = self.posterior_
        labels = posterior.flat_labels[chosen]
        # Arrays of draws are as wide as the draw with the most slots, which may be none of these.
        n_slots = max(
            self.n_clusters + bool(posterior.record.noise),
            int(labels.max()) + 2,
            posterior.drawn["weight"].shape[2],
        )
        collapse = assemble(problem, "collapsed", n_slots).collapse
        width = collapse.state.scores.size
        alphas = None
        if "df" in posterior.drawn:
            n_kept = posterior.drawn["df"].shape[2]
            alphas = 0.5 * df_of_all_slots(posterior, chosen, width - n_kept)
        rng = np.random.default_rng(0)
        out = np.empty(labels.shape)
        for s, draw in enumerate(chosen.tolist()):
            _set_draw(collapse.family, collapse.parameters, posterior, draw, rng)
            prior = self._prior_state(width)
            if prior.has_concentration:
                prior.concentration[0] = flat(posterior, "concentration")[draw]
            alpha = None if alphas is None else alphas[s]
            out[s] = leave_one_out(collapse, labels[s], prior, alpha, rng)
        return out


def _set_draw(
    family: Any, parameters: Any, posterior: Posterior, draw: int, rng: np.random.Generator
) -> None:
    """Give all parts their prior in a draw, and the continuous block its parameters."""
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


def df_of_all_slots(posterior: Posterior, chosen: np.ndarray, extra: int = 1) -> np.ndarray:
    """Degrees of freedom of every slot and of some more; those of empty ones from their prior.

    Where all clusters share theirs, so do empty ones.
    """
    df = np.pad(flat(posterior, "df")[chosen], ((0, 0), (0, extra)), "constant",
                constant_values=np.nan)  # fmt: skip
    empty = ~np.isfinite(df)
    if posterior.record.settings.get("df") == "learn-each":
        df[empty] = draw_df(*DF_PRIOR, int(empty.sum()), np.random.default_rng(0))
    else:
        df[empty] = np.broadcast_to(np.nanmax(df, axis=1, keepdims=True), df.shape)[empty]
    return df
