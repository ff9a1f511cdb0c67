"""Summaries of a fitted series model: trends, factors, tables, pictures, the report."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.series.common_factor import common_factor_words
from cavity.series.predictions import TREND, SeriesForecaster
from cavity.series.results import (
    LEVEL,
    AlignedFactors,
    Band,
    align_factors,
    drawn_band,
    normal_band,
    tables,
    typical_members,
)

if TYPE_CHECKING:
    import pandas as pd

    from cavity.plotting.series_picture import SeriesPicture
    from cavity.posterior.estimate import Partition


class SeriesSummary:
    """Curves and tables of one fit; see the attributes of `SeriesMixture`.

    Parameters
    ----------
    predictor : SeriesForecaster
    partition : Partition
        The point estimate.
    common_factor : bool or "auto"
        The estimator's setting.
    """

    def __init__(
        self, predictor: SeriesForecaster, partition: Partition, common_factor: bool | str
    ) -> None:
        self.predictor = predictor
        self.partition = partition
        self.labels = partition.labels.astype(np.int64)
        self.common_factor_setting = common_factor

    @property
    def _times(self) -> pd.Index:
        return self.predictor.data.axis.labels()

    def trends(self) -> Band:
        """Posterior mean and interval of each series' trend."""
        data, units, moments = self.predictor.data, self.predictor.units, self.predictor.moments
        scale = units.scale[:, None]
        sd = np.sqrt(moments.variance.astype(float)) * scale
        return normal_band(moments.mean * scale + units.centre, sd, data.series, self._times)

    def factors(self) -> Band:
        """Posterior mean and interval of each cluster's factor."""
        aligned = self.aligned
        names = np.arange(self.partition.n_clusters)
        return tables(aligned.mean, aligned.ends, names, self._times)

    def seasons(self) -> Band:
        """Posterior mean and interval of each series' season."""
        data = self.predictor.data
        if data.season is None:
            raise AttributeError(
                "This fit has no season. Pass season=, for instance SeriesMixture(season=12)."
            )
        position = np.arange(data.season)
        return drawn_band(self.predictor.season_at(position), data.series, position)

    def common_factor(self) -> Band:
        """Posterior mean and interval of the common factor, in one row."""
        if not self.predictor.has_common_factor:
            raise AttributeError(
                "This fit has no common factor. Pass SeriesMixture(common_factor=True)."
            )
        draws = self.predictor.draws("common_factor").astype(float)
        return drawn_band(draws[:, None], ["common"], self._times)

    def all_factors(self) -> Band:
        """Factors of the clusters and, in a last row ``"common"``, the common factor."""
        import pandas as pd

        own = self.factors()
        if not self.predictor.has_common_factor:
            return own
        pairs = zip(own[:3], self.common_factor()[:3], strict=True)
        mean, lower, upper = (pd.concat(pair) for pair in pairs)
        return Band(mean, lower, upper)

    @cached_property
    def aligned(self) -> AlignedFactors:
        """Factors and loadings of the estimate's clusters."""
        posterior = self.predictor.posterior
        return align_factors(
            posterior.flat_labels,
            posterior.relabel(self.partition).slots,
            self.predictor.draws("factor"),
            self.predictor.draws("loading"),
            self.labels,
        )

    def table(self) -> pd.DataFrame:
        """Per series: cluster, number of observations, posterior means of its parameters."""
        import pandas as pd

        predictor, aligned = self.predictor, self.aligned
        data, draws = predictor.data, predictor.draws
        table = {
            "cluster": self.labels,
            "n_observations": data.count.sum(1, dtype=float).astype(np.int64),
            "a": draws("a").mean(0),
            "loading": aligned.loading,
            "loading_sd": aligned.loading_sd,
            **({"common": draws("common").mean(0)} if predictor.has_common_factor else {}),
            "var_y": draws("var_y").mean(0),
        }
        if "beta" in predictor.posterior.parameters:
            names = ["intercept"] * predictor.units.intercept + list(data.covariate_names)
            for j, name in enumerate(names):
                table[f"beta[{name}]"] = draws("beta")[:, :, j].mean(0)
        return pd.DataFrame(table, index=data.series)

    def typical_series(self, n: int = 3) -> pd.DataFrame:
        """The `n` series of each cluster most often found with its other members."""
        import pandas as pd

        similarity = np.asarray(self.predictor.posterior.similarity())
        series = self.predictor.data.series
        rows = [
            (k, rank, series[i])
            for k, own in enumerate(typical_members(similarity, self.labels, n))
            for rank, i in enumerate(own)
        ]
        # As objects: integers that name series would become floats next to a missing value.
        table = pd.DataFrame(rows, columns=["cluster", "rank", "series"]).astype({"series": object})
        return table.pivot(index="cluster", columns="rank", values="series")

    def distinguishing_features(self, picture: SeriesPicture, typical: pd.DataFrame) -> list[str]:
        """For each cluster, when its series are high and low, and the most typical of them."""
        times, lines = picture.trends.mean.columns, picture.standardised
        out = []
        for k, names in enumerate(typical.to_numpy()):
            members = np.flatnonzero(self.labels == k)
            mean = lines[members].mean(axis=0)
            words = [f"highest {times[mean.argmax()]}, lowest {times[mean.argmin()]}"]
            against = int(picture.turned[members].sum())
            if against:
                words.append(f"{against} of {len(members)} the other way round")
            named = [str(name) for name in names if name == name]
            words.append(f"like {', '.join(named)}" if len(members) > 1 else f"only {named[0]}")
            out.append("; ".join(words))
        return out

    def common_factor_words(self) -> str:
        """Describe whether a common factor was removed, and why."""
        n_times = self.predictor.data.y.shape[1]
        has_one = self.predictor.has_common_factor
        return common_factor_words(self.common_factor_setting, has_one, n_times)

    def picture(self, steps: int = 0) -> SeriesPicture:
        """Input of the plots: data as their trend is, at the covariates' mean."""
        import pandas as pd

        from cavity.plotting.series_picture import SeriesPicture

        predictor, trends = self.predictor, self.trends()
        data, units = predictor.data, predictor.units
        y = np.where(data.count > 0, data.y, np.nan).astype(float)
        if data.covariates.shape[2]:
            slopes = predictor.draws("beta")[:, :, int(units.intercept) :].mean(0)
            y -= np.einsum("itc,ic->it", data.covariates - units.covariate_centre, slopes)
        shared = predictor.has_common_factor
        return SeriesPicture(
            trends,
            self.labels,
            factors=self.factors(),
            signs=np.sign(self.aligned.loading),
            observed=pd.DataFrame(y, index=data.series, columns=trends.mean.columns),
            common=self.common_factor() if shared else None,
            apart=trends.mean - self._moved_by_common_factor() if shared else None,
            forecast=predictor.forecast(steps, TREND, LEVEL, changes=True) if steps else None,
            value_name=data.columns[2] if data.end is None else f"change of {data.columns[2]}",
            time_name=data.columns[1],
        )

    def _moved_by_common_factor(self) -> np.ndarray:
        """Part of each trend that is due to the common factor, (series, time), by means."""
        draws = self.predictor.draws
        a, loading = draws("a").mean(0), draws("common").mean(0)
        g = draws("common_factor").mean(0).astype(float)
        moved = np.zeros((len(a), len(g)))
        for t in range(1, len(g)):
            moved[:, t] = a * moved[:, t - 1] + loading * g[t]
        return moved

    def report(
        self,
        path: str | os.PathLike[str],
        title: str | None,
        settings: Mapping[str, Any] | None,
        further: Iterable[Any] = (),
    ) -> Path:
        """Write the HTML report."""
        from cavity.report.html import write_report
        from cavity.report.series import series_sections

        posterior, names = self.predictor.posterior, self.predictor.data.series
        picture, typical = self.picture(), self.typical_series()
        sections = series_sections(
            picture,
            typical=typical[0].tolist(),
            doubtful=[names[i] for i in posterior.view(self.partition).in_doubt],
            preface=self.common_factor_words(),
        )
        return write_report(
            path,
            posterior,
            title=f"Clusters of {len(names)} series" if title is None else title,
            extra_sections=[*sections, *further],
            features=self.distinguishing_features(picture, typical),
            settings=settings,
            partition=self.partition,
        )
