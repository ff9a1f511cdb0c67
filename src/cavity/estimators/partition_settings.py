"""Settings that every estimator shares: the length of the run and the prior over partitions."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from cavity.estimators.validation import check_choice, check_count, check_number
from cavity.priors.partition import (
    Dirichlet,
    DirichletProcess,
    FixedWeights,
    PartitionPrior,
    PitmanYor,
    dirichlet,
    dirichlet_process,
    fixed_weights,
    is_open,
    pitman_yor,
)

PRIORS = ("fixed", "dirichlet", "dp", "pitman-yor")


class PartitionSettings:
    """Checks of the shared parameters, and the partition prior that they name."""

    # Set by the estimator's constructor.
    n_clusters: int
    prior: Any
    concentration: Any
    n_chains: int
    n_warmup: int
    n_draws: int
    thin: int
    weights: Any
    discount: float

    def _open(self) -> bool:
        return self.prior in ("dp", "pitman-yor") or is_open(self.prior)

    def _start_concentration(self) -> float:
        """Where none is given: its value, or the start of a learned one."""
        return 1.0

    def _check_run_and_prior(self) -> None:
        check_count("n_clusters", self.n_clusters, 1)
        check_count("n_chains", self.n_chains, 1)
        check_count("n_warmup", self.n_warmup, 0)
        check_count("n_draws", self.n_draws, 1)
        check_count("thin", self.thin, 1)
        if isinstance(self.prior, str):
            check_choice("prior", self.prior, PRIORS)
        elif not isinstance(self.prior, FixedWeights | Dirichlet | DirichletProcess | PitmanYor):
            raise ValueError(
                f"prior must be one of {', '.join(map(repr, PRIORS))} or a prior object from "
                f"cavity.priors, not {self.prior!r}."
            )
        if isinstance(self.concentration, str):
            if self.concentration != "learn":
                raise ValueError(
                    "concentration must be a positive number or 'learn', not "
                    f"{self.concentration!r}."
                )
            if self.prior == "fixed" or isinstance(self.prior, FixedWeights):
                raise ValueError("concentration='learn' needs a prior that has one, not 'fixed'.")
        elif self.concentration is not None:
            check_number("concentration", self.concentration, 0.0)
        if self.prior == "pitman-yor":
            check_number("discount", self.discount, 0.0, strict=False)
            if self.discount >= 1.0:
                raise ValueError(f"discount must be below 1, not {self.discount!r}.")

    def _partition_prior(self, n_slots: int) -> PartitionPrior:
        """The prior of one chain; open ones have room for `n_slots` clusters."""
        start = self._start_concentration()
        if isinstance(self.concentration, Real):
            start = float(self.concentration)
        if self.prior == "fixed":
            return fixed_weights(self._check_weights())
        if self.prior == "dirichlet":
            return dirichlet(self.n_clusters, start, self._check_weights())
        if self.prior == "dp":
            return dirichlet_process(n_slots, start)
        if self.prior == "pitman-yor":
            return pitman_yor(n_slots, start, self.discount)
        given: Any = self.prior
        if isinstance(given, PitmanYor):
            return pitman_yor(n_slots, float(given.concentration[0]), float(given.discount[0]))
        if isinstance(given, DirichletProcess):
            return dirichlet_process(n_slots, float(given.concentration[0]))
        size = given[0].size
        if size != self.n_clusters:
            raise ValueError(
                f"prior is over {size} clusters, but n_clusters={self.n_clusters}. Make them agree."
            )
        # Each chain changes its own copy.
        return type(given)(*(np.array(a, dtype=float) for a in given))

    def _check_weights(self) -> np.ndarray:
        if self.weights is None:
            return np.ones(self.n_clusters)
        weights = np.asarray(self.weights, dtype=float)
        if weights.shape != (self.n_clusters,) or not np.all(weights > 0.0):
            raise ValueError(
                f"weights must hold n_clusters={self.n_clusters} positive numbers, not "
                f"{self.weights!r}."
            )
        return weights
