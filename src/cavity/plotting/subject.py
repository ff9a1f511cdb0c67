"""What a picture of clusters needs to know of them."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Clusters(Protocol):
    """Clusters of a point estimate, and how sure they are; `cavity.posterior.view.View` is one."""

    @property
    def labels(self) -> np.ndarray:
        """Cluster of each observation, 0, 1, ..., the largest first."""

    @property
    def sizes(self) -> np.ndarray:
        """Number of observations in each cluster."""

    @property
    def n(self) -> int:
        """Number of observations."""

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""

    @property
    def looks(self) -> np.ndarray:
        """What each observation looks like: its cluster, -1 outside every cluster."""

    def look(self, k: int) -> int:
        """What a cluster looks like: its number, -1 for noise."""

    def cluster_name(self, k: int) -> str:
        """What a cluster is called: its number, or noise."""

    @property
    def noise(self) -> int | None:
        """The cluster that is noise, if one is."""

    @property
    def certainty(self) -> np.ndarray:
        """Probability that each observation shares its cluster with another member."""

    @property
    def order(self) -> np.ndarray:
        """Observations by cluster, the most certain of each first."""

    @property
    def in_doubt(self) -> np.ndarray:
        """Positions of the observations in doubt, the least probable first."""

    @property
    def noun(self) -> str:
        """What one observation is called."""

    def name(self, position: int) -> str:
        """Name of an observation."""
