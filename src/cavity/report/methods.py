"""The pictures as methods of a posterior; matplotlib is loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes


class Pictures:
    """Methods that draw; each one is the function of the same name in `cavity.report.plots`."""

    def plot_similarity(self, partition: Any = None, *, ax: Any = None) -> Axes:
        """Similarity matrix in the order of a partition; see `cavity.report.plots`."""
        from cavity.report import plots

        return plots.plot_similarity(self, partition, ax=ax)  # type: ignore[arg-type]

    def plot_trace(self, quantities: Sequence[str] | None = None, *, ax: Any = None) -> np.ndarray:
        """Label-free quantities along each chain; see `cavity.report.plots`."""
        from cavity.report import plots

        return plots.plot_trace(self, quantities, ax=ax)  # type: ignore[arg-type]

    def plot_n_clusters(self, partition: Any = None, *, ax: Any = None) -> Axes:
        """Posterior of the number of clusters; see `cavity.report.plots`."""
        from cavity.report import plots

        return plots.plot_n_clusters(self, partition, ax=ax)  # type: ignore[arg-type]

    def plot_certainty(
        self, partition: Any = None, *, threshold: float = 0.8, ax: Any = None
    ) -> Axes:
        """Certainty of each observation, cluster by cluster; see `cavity.report.plots`."""
        from cavity.report import plots

        return plots.plot_certainty(self, partition, threshold=threshold, ax=ax)  # type: ignore[arg-type]

    def plot_clusters(self, X: Any, partition: Any = None, **options: Any) -> Any:
        """The data `X` coloured by cluster; options as in `cavity.report.plots.plot_clusters`."""
        from cavity.report import plots

        return plots.plot_clusters(self, X, partition, **options)  # type: ignore[arg-type]
