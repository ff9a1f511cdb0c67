"""What a fitted series model answers: trends, factors, tables, pictures, predictions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.estimators.base import Fitted
from cavity.estimators.series_data import SeriesData, locate_rows
from cavity.estimators.series_model import start_df
from cavity.estimators.series_results import (
    AlignedFactors,
    Band,
    TrendMoments,
    align_factors,
    forecast_moments,
    normal_quantile,
    typical_members,
)
from cavity.estimators.series_saved import data_from
from cavity.estimators.validation import check_count
from cavity.posterior.posterior import Posterior
from cavity.posterior.units import SeriesUnits
from cavity.reading.frames import as_pandas

if TYPE_CHECKING:
    import pandas as pd

    from cavity.pictures.series import SeriesPicture
    from cavity.posterior.partition import Partition


class SeriesAnswers(Fitted):
    """Methods of a fitted `SeriesMixture`."""

    # Set by ``fit`` or ``load``.
    df: float | str | None
    _data: SeriesData
    _moments: TrendMoments
    _aligned: AlignedFactors | None = None
    _units: SeriesUnits

    def _restore(self, posterior: Posterior) -> None:
        """Set what a fit would have set from the data."""
        self._data, self._moments = data_from(posterior)

    def _settle(self, partition: Partition) -> None:
        super()._settle(partition)  # type: ignore[misc]
        self._aligned = None

    def _flat(self, name: str) -> np.ndarray:
        values = self.posterior_.parameters[name]
        return values.reshape(-1, *values.shape[2:])

    def _band(
        self, mean: np.ndarray, sd: np.ndarray, index: Any, columns: Any, level: float
    ) -> Band:
        import pandas as pd

        half = normal_quantile(level) * sd
        return Band(
            *(
                pd.DataFrame(v, index=index, columns=columns)
                for v in (mean, mean - half, mean + half)
            )
        )

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
        table = pd.DataFrame(rows, columns=["cluster", "rank", "series"])
        return table.pivot(index="cluster", columns="rank", values="series")

    # ------------------------------------------------------------------ pictures

    def plot_clusters(self, **options: Any) -> Any:
        """Draw the series of each cluster and their mean; see `cavity.pictures.series`."""
        from cavity.pictures.series import plot_clusters

        return plot_clusters(self._picture(), **options)

    def plot_factors(self, **options: Any) -> Any:
        """Draw the factors with their intervals; see `cavity.pictures.series`."""
        from cavity.pictures.series import plot_factors

        return plot_factors(self._picture(), **options)

    def plot_series(self, name: Any, *, steps: int = 0, **options: Any) -> Any:
        """Draw one series with data, trend, interval, gaps and a forecast of `steps` times."""
        from cavity.pictures.series import plot_series

        return plot_series(self._picture(steps), name, **options)

    def _picture(self, steps: int = 0) -> SeriesPicture:
        """What the pictures are drawn from; data as their trend is, at the covariates' mean."""
        import pandas as pd

        from cavity.pictures.series import SeriesPicture

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
            forecast=self.forecast(steps) if steps else None,
            value_name=data.columns[2],
            time_name=data.columns[1],
        )

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
        picture = self._picture()
        view = self.posterior_.view(self.partition_)
        names = self._data.series
        sections = series_sections(
            picture,
            typical=self.typical_series(1).to_numpy().ravel().tolist(),
            doubtful=[names[i] for i in view.in_doubt],
        )
        return write_report(
            path,
            self.posterior_,
            title=f"Clusters of {len(names)} series" if title is None else title,
            extra_sections=sections,
            settings=settings,
            partition=self.partition_,
        )

    # ------------------------------------------------------------------ prediction

    def forecast(self, steps: int = 1, *, level: float = 0.9, noise: bool = False) -> Band:
        """Trends beyond the data: mean and interval for the next `steps` times.

        Parameters
        ----------
        steps : int
        level : float
            Probability of the interval.
        noise : bool
            Of one new observation (without covariates' part) instead of the trend.
        """
        check_is_fitted(self)
        check_count("steps", steps, 1)
        mean, variance = self._ahead(np.arange(1, steps + 1))
        if noise:
            variance = variance + self._noise()[:, None]
        labels = self._data.axis.labels(self._data.axis.size, steps)
        return self._band(mean, np.sqrt(variance), self._data.series, labels, level)

    def _ahead(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of all trends some steps beyond the data, in the user's units."""
        last = self._flat("state_last").astype(float)
        level: Any = np.zeros_like(last)
        if self._units.intercept:
            # At the covariates' centre, as the trends are.
            beta = self._flat("beta")
            level = beta[..., 0] + beta[..., 1:] @ self._units.covariate_centre
        return forecast_moments(
            steps, self._flat("a"), self._flat("loading"), self._flat("var_x"), last, level
        )

    def _predictive(self, rows: Any, with_value: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and variance (noise included) of each new row, and its value."""
        check_is_fitted(self)
        rows = as_pandas(rows)
        if not hasattr(rows, "columns"):
            raise ValueError(
                "rows must be a DataFrame with columns "
                f"{', '.join(repr(c) for c in self._data.columns[:2])} and the covariates."
            )
        i, t, u, shift, y = locate_rows(rows, self._data, with_value=with_value)
        units, moments = self._units, self._moments
        size = self._data.axis.size
        inside = t < size
        at = np.minimum(t, size - 1)
        mean = moments.mean[i, at].astype(float) * units.scale[i] + units.centre
        variance = moments.variance[i, at].astype(float) * units.scale[i] ** 2
        if not inside.all():
            steps, which = np.unique(t[~inside] - size + 1, return_inverse=True)
            ahead_mean, ahead_variance = self._ahead(steps)
            mean[~inside] = ahead_mean[i[~inside], which]
            variance[~inside] = ahead_variance[i[~inside], which]
        if u.shape[1]:
            apart = u - units.covariate_centre
            slopes = self._flat("beta")[:, :, int(units.intercept) :]
            in_units = apart / units.covariate_scale
            cross = moments.cross[i, at].astype(float) * inside[:, None]
            variance += 2.0 * units.scale[i] ** 2 * (cross * in_units).sum(1)
            for s in np.unique(i):
                own = i == s
                draws = slopes[:, s] @ apart[own].T
                mean[own] += draws.mean(0)
                variance[own] += draws.var(0)
        return mean + shift, np.maximum(variance, 0.0) + self._noise()[i], y

    def _noise(self) -> np.ndarray:
        """Variance of one observation's noise per series.

        Student-t noise, whose variance may be infinite, counts as the normal noise with the same
        central 90%.
        """
        variance = self._flat("var_y")
        drawn = self.posterior_.drawn
        df = drawn["df"].reshape(-1, 1) if "df" in drawn else start_df(self.df)
        if np.all(np.isinf(df)):
            return variance.mean(0)
        from scipy.special import stdtrit

        return (variance * (stdtrit(df, 0.95) / normal_quantile(0.9)) ** 2).mean(0)

    def predict(self, rows: Any, *, level: float = 0.9) -> pd.DataFrame:
        """Predict observations: mean and interval per row, observation noise included.

        Parameters
        ----------
        rows : DataFrame
            The columns of series and time (``"series"`` and ``"time"`` after a wide fit), and
            the covariates and offset of the fit. Times may lie beyond the data.
        level : float
            Probability of the interval.
        """
        import pandas as pd

        mean, variance, _ = self._predictive(rows, False)
        # Other libraries' tables name no rows; an Arrow table's `index` is a method.
        index = rows.index if isinstance(rows, pd.DataFrame) else None
        sd = np.sqrt(variance)
        half = normal_quantile(level) * sd
        return pd.DataFrame(
            {"mean": mean, "lower": mean - half, "upper": mean + half, "sd": sd}, index=index
        )

    def score_samples(self, rows: Any) -> np.ndarray:
        """Log predictive density of held-out rows (with their values).

        The predictive distribution of a row is taken as normal with its exact posterior mean and
        variance.
        """
        mean, variance, y = self._predictive(rows, True)
        return -0.5 * (np.log(2.0 * np.pi * variance) + (y - mean) ** 2 / variance)

    def score(self, rows: Any, y: Any = None) -> float:
        """Mean log predictive density of held-out rows: a held-out log score."""
        return float(self.score_samples(rows).mean())
