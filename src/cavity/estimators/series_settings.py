"""Settings of a series model, checked before anything is computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.estimators.validation import check_choice, check_count, check_number
from cavity.models.series.exact import ROUTES
from cavity.models.series.sampler import COLLAPSES, DRAWS
from cavity.priors import (
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
FIXABLE = ("a", "loading", "var_x", "var_y", "beta")
PAIRS = {
    "a_prior": "mean and standard deviation",
    "loading_prior": "mean and standard deviation",
    "var_x_prior": "shape and scale",
    "var_y_prior": "shape and scale",
}
TRIPLES = ("intercept_prior", "beta_prior")


class SeriesSettings:
    """Checks of the constructor's parameters, and the partition prior that they name."""

    # Set by the estimator's constructor.
    n_clusters: int
    collapse: str
    prior: Any
    concentration: Any
    n_chains: int
    n_warmup: int
    n_draws: int
    thin: int
    init: Any
    weights: Any
    discount: float
    draw: str
    route: str
    ep_fraction: float
    ep_damping: float
    ep_pass_every: int

    def _check_settings(self) -> None:
        check_count("n_clusters", self.n_clusters, 1)
        check_choice("collapse", self.collapse, COLLAPSES)
        check_choice("draw", self.draw, DRAWS)
        check_choice("route", self.route, tuple(ROUTES))
        check_count("n_chains", self.n_chains, 1)
        check_count("n_warmup", self.n_warmup, 0)
        check_count("n_draws", self.n_draws, 1)
        check_count("thin", self.thin, 1)
        check_number("ep_fraction", self.ep_fraction, 0.0, 1.0)
        check_number("ep_damping", self.ep_damping, 0.0, 1.0)
        check_count("ep_pass_every", self.ep_pass_every, 0)
        if self.collapse == "collapsed" and self.draw == "alternate":
            raise ValueError(
                "draw='alternate' would not leave the posterior unchanged under "
                "collapse='collapsed', whose label draws integrate factors and states out. Use "
                "draw='auto'."
            )
        if isinstance(self.init, str):
            check_choice("init", self.init, ("random",))
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
        else:
            check_number("concentration", self.concentration, 0.0)
        for name, meaning in PAIRS.items():
            self._check_hyper(name, 2, meaning)
        for name in TRIPLES:
            self._check_hyper(name, 3, "standard deviation, shape and scale")

    def _check_hyper(self, name: str, size: int, meaning: str) -> None:
        value = getattr(self, name)
        try:
            numbers = [float(v) for v in value]
        except (TypeError, ValueError):
            numbers = []
        free = name in ("a_prior", "loading_prior")
        ok = len(numbers) == size and all(v > 0 for v in numbers[int(free) :])
        ok = ok and all(np.isfinite(v) for v in numbers[: 1 if name == "a_prior" else size])
        if not ok:
            positive = "" if free else ", all positive"
            raise ValueError(
                f"{name} must hold {size} numbers ({meaning}{positive}), not {value!r}."
            )

    def _partition_prior(self) -> PartitionPrior:
        start = 1.0 if self.concentration == "learn" else float(self.concentration)
        if isinstance(self.prior, str):
            shape = None
            if self.weights is not None:
                shape = np.asarray(self.weights, dtype=float)
                if shape.shape != (self.n_clusters,) or not (shape > 0).all():
                    raise ValueError(
                        f"weights must hold n_clusters={self.n_clusters} positive numbers, not "
                        f"{self.weights!r}."
                    )
            if self.prior == "fixed":
                return fixed_weights(np.ones(self.n_clusters) if shape is None else shape)
            if self.prior == "dirichlet":
                return dirichlet(self.n_clusters, start, shape)
            if self.prior == "dp":
                return dirichlet_process(self.n_clusters, start)
            check_number("discount", self.discount, 0.0, strict=False)
            if self.discount >= 1.0:
                raise ValueError(f"discount must be below 1, not {self.discount!r}.")
            return pitman_yor(self.n_clusters, start, self.discount)
        given: Any = self.prior
        if not is_open(given) and given[0].size != self.n_clusters:
            raise ValueError(
                f"prior is over {given[0].size} clusters, but n_clusters={self.n_clusters}. Make "
                "them agree."
            )
        return given
