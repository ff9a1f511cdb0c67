"""Local trends of regions, clustered: a `SeriesMixture` of what the global part leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.hedonic.design import month_labels

if TYPE_CHECKING:
    import pandas as pd

    from cavity import Posterior


class ClusteredTrends:
    """Regional regressions plus regional trends whose clusters share latent factors.

    Attributes
    ----------
    mixture : SeriesMixture
        The fitted model; its series are the regions, in their order.
    """

    def __init__(self, mixture: Any, regions: np.ndarray) -> None:
        self.mixture = mixture
        self._regions = regions
        self._noise = mixture.noise_variance()

    @classmethod
    def fit(
        cls, rows: Any, residual: np.ndarray, regions: np.ndarray, **settings: Any
    ) -> ClusteredTrends:
        """Sample clusters, trends and regressions of what the global part leaves."""
        from cavity import SeriesMixture

        table = _table(rows, regions).assign(residual=residual)
        covariates = [c for c in table.columns if c.startswith("u")]
        mixture = SeriesMixture(**settings)
        mixture.fit(table, series="region", time="month", value="residual", covariates=covariates)
        return cls(mixture, regions)

    @property
    def labels(self) -> np.ndarray:
        """Cluster of each region in the partition nearest to all draws."""
        return np.asarray(self.mixture.labels_)

    @property
    def posterior(self) -> Posterior:
        """Draws of the clusters of the regions."""
        return self.mixture.posterior_

    def effect(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of trend plus regression."""
        found = self.mixture.predict_values(_table(rows, self._regions), of="trend")
        return found["mean"].to_numpy(), found["sd"].to_numpy() ** 2

    def noise(self, rows: Any) -> np.ndarray:
        """Variance of the noise of the region's sales."""
        return self._noise[rows.region]


def _table(rows: Any, regions: np.ndarray) -> pd.DataFrame:
    import pandas as pd

    splines = {f"u{j}": column for j, column in enumerate(rows.splines.T)}
    # As periods every month is a time of the series, also where none has sales in some months.
    months = month_labels(rows.month)
    return pd.DataFrame({"region": regions[rows.region], "month": months, **splines})
