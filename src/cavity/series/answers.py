"""What a fitted series model answers: trends, factors, tables, pictures, predictions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.posterior.posterior import Posterior
from cavity.posterior.units import SeriesUnits
from cavity.series.data import SeriesData
from cavity.series.predictions import SeriesPredictions
from cavity.series.results import (
    AlignedFactors,
    Band,
    TrendMoments,
    align_factors,
    data_from,
    typical_members,
)

if TYPE_CHECKING:
    import pandas as pd

    from cavity.plotting.series_picture import SeriesPicture
    from cavity.posterior.estimate import Partition


class SeriesAnswers(SeriesPredictions):
    """Methods of a fitted `SeriesMixture`."""

    # Set by ``fit`` or ``load``.
    _data: SeriesData
    _moments: TrendMoments
    _aligned: AlignedFactors | None = None
    _units: SeriesUnits
    common_factor: bool | str

    def _restore(self, posterior: Posterior) -> None:
        """Set what a fit would have set from the data."""
        self._data, self._moments = data_from(posterior)

    def _settle(self, partition: Partition) -> None:
        super()._settle(partition)  # type: ignore[misc]
        self._aligned = None

    def trends(self, level: float = 0.9) -> Band:
        """Posterior mean and interval of each series' trend: state plus level, without noise."""
        check_is_fitted(self)
        scale = self._units.scale[:, None]
        mean = self._moments.mean * scale + self._units.centre
        sd = np.sqrt(self._moments.variance.astype(float)) * scale
        return self._band(mean, sd, self._data.series, self._data.axis.labels(), level)

    def factors(self, level: float = 0.9) -> Band:
        """Posterior mean and interval of each cluster's factor, with the sign of most loadings."""
        aligned = self._align()
        return self._band(
            aligned.mean, np.sqrt(aligned.variance), np.arange(self.n_clusters_),
            self._data.axis.labels(), level,
        )  # fmt: skip

    @property
    def trends_(self) -> Band:
        """Trends with 90% intervals."""
        return self.trends()

    @property
    def factors_(self) -> Band:
        """Factors with 90% intervals."""
        return self.factors()

    @property
    def seasons_(self) -> Band:
        """Each series' season with 90% intervals, from the first time's place in it on."""
        check_is_fitted(self)
        season = self._data.season
        if season is None:
            raise AttributeError(
                "there is no season in this fit: SeriesMixture(season=12) has one."
            )
        draws = self._season_at(np.arange(season))
        return self._band(draws.mean(0), draws.std(0), self._data.series, np.arange(season), 0.9)

    def common_factor_band(self, level: float = 0.9) -> Band:
        """Posterior mean and interval of the factor that all series share, in one row."""
        check_is_fitted(self)
        if "common_factor" not in self.posterior_.drawn:
            raise AttributeError(
                "there is no common factor in this fit: SeriesMixture(common_factor=True) has one."
            )
        draws = self._flat("common_factor").astype(float)
        mean, sd = draws.mean(0)[None], draws.std(0)[None]
        return self._band(mean, sd, ["common"], self._data.axis.labels(), level)

    @property
    def common_factor_(self) -> Band:
        """The factor that all series share, with 90% intervals."""
        return self.common_factor_band()

    def all_factors(self, level: float = 0.9) -> Band:
        """Factors of the clusters and, in a last row ``"common"``, the one that all share."""
        import pandas as pd

        own = self.factors(level)
        if not self._shares:
            return own
        return Band(*map(pd.concat, zip(own, self.common_factor_band(level), strict=True)))

    def _align(self) -> AlignedFactors:
        check_is_fitted(self)
        if self._aligned is None:
            self._aligned = align_factors(
                self.posterior_.flat_labels,
                self.posterior_.relabel(self.partition_).slots,
                self._flat("factor"),
                self._flat("loading"),
                self.labels_,
            )
        return self._aligned

    @property
    def series_(self) -> pd.DataFrame:
        """Per series: cluster, number of observations, posterior means of its parameters."""
        import pandas as pd

        aligned = self._align()
        table = {
            "cluster": self.labels_,
            "n_observations": self._data.count.sum(1, dtype=float).astype(np.int64),
            "a": self._flat("a").mean(0),
            "loading": aligned.loading,
            "loading_sd": aligned.loading_sd,
            **({"common": self._flat("common").mean(0)} if self._shares else {}),
            "var_y": self._flat("var_y").mean(0),
        }
        if "beta" in self.posterior_.parameters:
            names = ["intercept"] * self._units.intercept + list(self._data.covariate_names)
            for j, name in enumerate(names):
                table[f"beta[{name}]"] = self._flat("beta")[:, :, j].mean(0)
        return pd.DataFrame(table, index=self._data.series)

    def typical_series(self, n: int = 3) -> pd.DataFrame:
        """The `n` series of each cluster most often found with its other members."""
        import pandas as pd

        check_is_fitted(self)
        members = typical_members(np.asarray(self.posterior_.similarity()), self.labels_, n)
        rows = [
            (k, rank, self._data.series[i]) for k, own in enumerate(members)
            for rank, i in enumerate(own)
        ]  # fmt: skip
        # As objects: numbers that name series would be no whole ones beside a gap.
        table = pd.DataFrame(rows, columns=["cluster", "rank", "series"]).astype({"series": object})
        return table.pivot(index="cluster", columns="rank", values="series")

    def distinguishing(self, most: int = 3) -> list[str]:
        """For each cluster, when its series are high and low, and the most typical of them.

        Trends are brought to mean zero and unit spread, without what a common factor moves in
        them, and turned over where a series moves against its cluster.
        """
        check_is_fitted(self)
        return self._apart(self._picture(), self.typical_series(most))

    def _apart(self, picture: SeriesPicture, typical: pd.DataFrame) -> list[str]:
        """What sets each cluster apart, from what the report has at hand as well."""
        times, lines = picture.trends.mean.columns, picture.standardised
        out = []
        for k, names in enumerate(typical.to_numpy()):
            members = np.flatnonzero(self.labels_ == k)
            mean = lines[members].mean(axis=0)
            words = [f"highest {times[mean.argmax()]}, lowest {times[mean.argmin()]}"]
            against = int(picture.turned[members].sum())
            if against:
                words.append(f"{against} of {len(members)} the other way round")
            named = [str(name) for name in names if name == name]
            words.append(f"like {', '.join(named)}" if len(members) > 1 else f"only {named[0]}")
            out.append("; ".join(words))
        return out

    # ------------------------------------------------------------------ pictures

    def plot_clusters(self, **options: Any) -> Any:
        """Draw the series of each cluster and their mean; see `cavity.plotting.series`."""
        from cavity.plotting.series import plot_clusters

        return plot_clusters(self._picture(), **options)

    def plot_factors(self, **options: Any) -> Any:
        """Draw the factors with their intervals; see `cavity.plotting.series`."""
        from cavity.plotting.series import plot_factors

        return plot_factors(self._picture(), **options)

    def common_factor_words(self) -> str:
        """Whether a movement of all series was taken out, and why; empty if it was not to be."""
        from cavity.series.common_factor import common_factor_words

        check_is_fitted(self)
        return common_factor_words(self.common_factor, self._shares, self._data.y.shape[1])

    def plot_common_factor(self, **options: Any) -> Any:
        """Draw the factor that all series share; see `cavity.plotting.series`."""
        from cavity.plotting.series import plot_common_factor

        return plot_common_factor(self._picture(), **options)

    def plot_dendrogram(self, **options: Any) -> Any:
        """Show which series join first, by name; see `Posterior.plot_dendrogram`."""
        check_is_fitted(self)
        return self.posterior_.plot_dendrogram(self.partition_, **options)

    def plot_series(self, name: Any, *, steps: int = 0, **options: Any) -> Any:
        """Draw one series with data, trend, interval, gaps and a forecast of `steps` times."""
        from cavity.plotting.one_series import plot_series

        return plot_series(self._picture(steps), name, **options)

    def _picture(self, steps: int = 0) -> SeriesPicture:
        """What the pictures are drawn from; data as their trend is, at the covariates' mean."""
        import pandas as pd

        from cavity.plotting.series_picture import SeriesPicture

        check_is_fitted(self)
        data, units, trends = self._data, self._units, self.trends_
        y = np.where(data.count > 0, data.y, np.nan).astype(float)
        if data.covariates.shape[2]:
            slopes = self._flat("beta")[:, :, int(units.intercept) :].mean(0)
            y -= np.einsum("itc,ic->it", data.covariates - units.covariate_centre, slopes)
        return SeriesPicture(
            trends,
            self.labels_,
            factors=self.factors_,
            signs=np.sign(self._align().loading),
            observed=pd.DataFrame(y, index=data.series, columns=trends.mean.columns),
            common=self.common_factor_ if self._shares else None,
            apart=trends.mean - self._moved_by_all() if self._shares else None,
            forecast=self.forecast(steps, of="trend") if steps else None,
            value_name=data.columns[2],
            time_name=data.columns[1],
        )

    def _moved_by_all(self) -> np.ndarray:
        """What the common factor moves in each trend, (series, time), by posterior means.

        Loadings are in the units of the data, as `posterior_.parameters` has them.
        """
        a, loading = self._flat("a").mean(0), self._flat("common").mean(0)
        g = self._flat("common_factor").mean(0).astype(float)
        moved = np.zeros((len(a), len(g)))
        for t in range(1, len(g)):
            moved[:, t] = a * moved[:, t - 1] + loading * g[t]
        return moved

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Path:
        """Write the whole answer to one HTML page: summary in words, tables, pictures.

        Parameters
        ----------
        path : path
            File to write; one that is there is replaced.
        title : str, optional
        settings : mapping, optional
            What else to list under how it was run, such as the data's file.
        """
        from cavity.report.html import write_report
        from cavity.report.series import series_sections

        check_is_fitted(self)
        picture, typical = self._picture(), self.typical_series()
        view = self.posterior_.view(self.partition_)
        names = self._data.series
        sections = series_sections(
            picture,
            typical=typical[0].tolist(),
            doubtful=[names[i] for i in view.in_doubt],
            preface=self.common_factor_words(),
        )
        return write_report(
            path,
            self.posterior_,
            title=f"Clusters of {len(names)} series" if title is None else title,
            extra_sections=sections,
            features=self._apart(picture, typical),
            settings=settings,
            partition=self.partition_,
        )
