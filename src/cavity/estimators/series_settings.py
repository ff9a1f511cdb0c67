"""Settings of a series model, checked before anything is computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.estimators.partition_settings import PartitionSettings
from cavity.estimators.validation import check_choice, check_count, check_number
from cavity.models.series.exact import ROUTES
from cavity.models.series.sampler import COLLAPSES, DRAWS

FIXABLE = ("a", "loading", "var_x", "var_y", "beta")
PAIRS = {
    "a_prior": "mean and standard deviation",
    "loading_prior": "mean and standard deviation",
    "var_x_prior": "shape and scale",
    "var_y_prior": "shape and scale",
}
TRIPLES = ("intercept_prior", "beta_prior")


class SeriesSettings(PartitionSettings):
    """Checks of the constructor's parameters."""

    # Set by the estimator's constructor.
    collapse: str
    init: Any
    draw: str
    route: str
    ep_fraction: float
    ep_damping: float
    ep_pass_every: int

    def _check_settings(self) -> None:
        self._check_run_and_prior()
        check_choice("collapse", self.collapse, COLLAPSES)
        check_choice("draw", self.draw, DRAWS)
        check_choice("route", self.route, tuple(ROUTES))
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
