"""Local trends of regions, clustered: a `SeriesMixture` of what the global part leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


class ClusteredTrends:
    """Regional regressions plus regional trends whose clusters share latent factors.

    A region never seen is an even mixture of all regions that were.

    Attributes
    ----------
    mixture : SeriesMixture
        The fitted model; its series are the regions, in their order.
    """

    def __init__(self, mixture: Any, regions: np.ndarray) -> None:
        self.mixture = mixture
        self._regions = regions
        draws = np.asarray(mixture.posterior_.parameters["var_y"])
        self._noise = draws.reshape(-1, draws.shape[-1]).mean(axis=0)

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

    def effect(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of trend plus regression."""
        seen = rows.region >= 0
        mean, var = np.empty(len(seen)), np.empty(len(seen))
        if seen.any():
            mean[seen], var[seen] = self._known(type(rows)(*(part[seen] for part in rows)))
        for row in np.flatnonzero(~seen):
            repeated = [np.repeat(part[row : row + 1], len(self._regions), axis=0) for part in rows]
            everywhere = type(rows)(*repeated)._replace(region=np.arange(len(self._regions)))
            means, variances = self._known(everywhere)
            mean[row], var[row] = means.mean(), variances.mean() + means.var()
        return mean, var

    def noise(self, rows: Any) -> np.ndarray:
        """Posterior mean of the noise variance of the region; the mean over regions if unseen."""
        return np.append(self._noise, self._noise.mean())[rows.region]

    def _known(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        found = self.mixture.predict(_table(rows, self._regions))
        # What is predicted there is a sale; its noise is not part of the effect.
        var = found["sd"].to_numpy() ** 2 - self._noise[rows.region]
        return found["mean"].to_numpy(), np.maximum(var, 0.0)


def _table(rows: Any, regions: np.ndarray) -> pd.DataFrame:
    import pandas as pd

    splines = {f"u{j}": column for j, column in enumerate(rows.splines.T)}
    return pd.DataFrame({"region": regions[rows.region], "month": rows.month, **splines})
