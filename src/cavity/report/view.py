"""A posterior seen from one partition: what all pictures and tables of a report share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior import Posterior


@dataclass(frozen=True)
class View:
    """The certainties of a partition, computed once.

    Attributes
    ----------
    posterior : Posterior
    labels : array of int, shape (n,)
        Clusters of the partition looked at, 0, 1, ...
    frame : DataFrame
        `Posterior.certainty`, with the observations' positions as index (names may repeat).
    threshold : float
        Below it an observation is doubtful; see `Posterior.doubtful`.
    """

    posterior: Posterior
    labels: np.ndarray
    frame: pd.DataFrame
    threshold: float

    @classmethod
    def of(cls, posterior: Posterior, partition: Any = None, threshold: float = 0.8) -> View:
        """Look at `posterior` from `partition`, the VI estimate by default."""
        if not 0 <= threshold <= 1:
            raise ValueError(f"threshold must lie in [0, 1]; got {threshold}")
        frame = posterior.certainty(partition).reset_index(drop=True)
        return cls(posterior, frame["cluster"].to_numpy(np.int64), frame, threshold)

    @property
    def n(self) -> int:
        """Number of observations."""
        return len(self.labels)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of observations in each cluster."""
        return np.bincount(self.labels)

    @property
    def n_clusters(self) -> int:
        """Number of clusters of the partition."""
        return len(self.sizes)

    @property
    def certainty(self) -> np.ndarray:
        """Certainty of each observation."""
        return self.frame["certainty"].to_numpy()

    @cached_property
    def doubtful(self) -> pd.DataFrame:
        """The doubtful observations by position, the least certain first."""
        from cavity.posterior.summary import doubtful_frame

        return doubtful_frame(self.frame, self.threshold)

    @cached_property
    def in_doubt(self) -> np.ndarray:
        """Positions of the doubtful observations, the least certain first."""
        return self.doubtful.index.to_numpy(np.int64)

    def name(self, position: int) -> str:
        """Name of an observation; its position where there are no names."""
        names = self.posterior.names
        return str(position if names is None else names[position])
