"""What estimators of rows share: forms and priors of their clusters, noise, starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cavity.estimators.base import Estimator
from cavity.estimators.fitting import prior_of_rows
from cavity.estimators.kept import KNOWN, WEIGHTS
from cavity.estimators.known import row_places, with_known
from cavity.estimators.noise import check_noise
from cavity.estimators.start import STARTS, initial_labels
from cavity.estimators.structures import check_structure
from cavity.estimators.validation import check_choice, check_number

# Sweeps until the prior of cluster parameters is learned, if the warm-up is long enough.
HELD = 50
# Rows that kernels are compiled with.
FEW = 4


@dataclass(repr=False, eq=False, kw_only=True)
class RowEstimator(Estimator):
    """Base of mixtures of rows and of tables."""

    init: Any = "dispersed"
    moves: bool = True
    mean_prior_strength: float | str = "learn"
    covariance_prior_df: float | str = "learn"
    covariance_prior_scale: float | str = "full"
    noise: bool | str = "auto"
    covariance: str = "full"
    n_factors: int | None = None

    _starts: ClassVar[tuple[str, ...]] = STARTS

    def _check_settings(self) -> None:
        super()._check_settings()
        check_noise(self.noise)
        check_structure(self.covariance, self.n_factors, self.collapse)
        for name, low, high, words in (
            ("mean_prior_strength", 1e-12, 1e12, ("learn",)),
            ("covariance_prior_df", 1.0, 1e9, ("learn",)),
            ("covariance_prior_scale", 1e-12, 1e12, ("full", "diagonal")),
            # Of Student-t clusters.
            ("df", 0.05, 1e6, ("learn", "learn-each")),
        ):
            value = getattr(self, name, "learn")
            if isinstance(value, str):
                check_choice(name, value, words)
            else:
                check_number(name, value, low, high, strict=False)

    @property
    def _n_held(self) -> int:
        """Sweeps in which nothing is learned of the clusters' prior."""
        return min(HELD, self.n_warmup // 2)

    def _prior_state(self, n_slots: int) -> Any:
        """The prior over partitions with which chains start."""
        n, kept = self.posterior_.n_observations, self.posterior_.summaries
        noisy = self.posterior_.record.noise
        places = row_places(kept.get(WEIGHTS), kept.get(KNOWN), n, noisy)
        return prior_of_rows(self._specification(), self.n_clusters, n_slots, n, places)

    def _first_labels(
        self,
        views: Sequence[np.ndarray],
        start: Any,
        n_start: int,
        home: np.ndarray | None,
        noisy: bool,
    ) -> Callable[[int, np.random.Generator], np.ndarray]:
        """What gives a chain its first labels: by the rows as points, and by labels known.

        Where there are several views of the rows, starts take them in turn.
        """

        def labels(chain: int, rng: np.random.Generator) -> np.ndarray:
            # Of two starts that follow each other one is from k-means and one at random.
            points = views[chain // 2 % len(views)]
            z = initial_labels(points, n_start, start, chain, rng)
            z = z if home is None else with_known(z, home)
            # The first slot is that of noise, and no row starts there.
            return z + 1 if noisy else z

        return labels
