"""Predictions of a fitted series model: at new rows, and at times beyond the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity.estimators.validation import check_choice, check_count
from cavity.io.frames import as_pandas
from cavity.posterior.posterior import Posterior
from cavity.posterior.units import SeriesUnits
from cavity.series.data import SeriesData, locate_rows, season_names, season_terms
from cavity.series.problem import start_df
from cavity.series.results import Band, TrendMoments, band, forecast_moments, normal_quantile

if TYPE_CHECKING:
    import pandas as pd

# The quantity that an interval is for.
OBSERVATION, TREND = "observation", "trend"


class SeriesForecaster(NamedTuple):
    """Predictive distributions from the draws of a fit; see the methods of `SeriesMixture`."""

    posterior: Posterior
    data: SeriesData
    moments: TrendMoments
    df: float | str | None  # the estimator's setting

    @property
    def units(self) -> SeriesUnits:
        """Units of the draws."""
        units = self.posterior.units
        assert isinstance(units, SeriesUnits)
        return units

    @property
    def has_common_factor(self) -> bool:
        """Whether all series share a factor."""
        return "common_factor" in self.posterior.drawn

    def draws(self, name: str) -> np.ndarray:
        """Draws of a parameter in the data's units, all chains in one axis."""
        values = self.posterior.parameters[name]
        return values.reshape(-1, *values.shape[2:])

    def forecast(self, steps: int, of: str, level: float) -> Band:
        """Mean and interval of every series at the next `steps` times."""
        check_count("steps", steps, 1)
        check_choice("of", of, (OBSERVATION, TREND))
        data = self.data
        mean, variance = self._ahead(np.arange(1, steps + 1))
        if of == OBSERVATION:
            if data.season is not None:
                waves = self.season_at(data.axis.size + np.arange(steps))
                mean, variance = mean + waves.mean(0), variance + waves.var(0)
            variance = variance + self._noise(level)[:, None]
        labels = data.axis.labels(data.axis.size, steps)
        return band(mean, np.sqrt(variance), data.series, labels, level)

    def predict_values(self, rows: Any, of: str, level: float) -> pd.DataFrame:
        """Mean, interval and standard deviation at new rows."""
        import pandas as pd

        check_choice("of", of, (OBSERVATION, TREND))
        i, mean, variance, _ = self._predictive(rows, False)
        if of == OBSERVATION:
            variance = variance + self._noise(level)[i]
        # Other libraries' tables name no rows; an Arrow table's `index` is a method.
        index = rows.index if isinstance(rows, pd.DataFrame) else None
        sd = np.sqrt(variance)
        half = normal_quantile(level) * sd
        return pd.DataFrame(
            {"mean": mean, "lower": mean - half, "upper": mean + half, "sd": sd}, index=index
        )

    def score_samples(self, rows: Any) -> np.ndarray:
        """Log predictive density of held-out rows."""
        i, mean, variance, y = self._predictive(rows, True)
        noise = self.draws("var_y").mean(0)[i]
        df = self._degrees_of_freedom()
        if np.all(np.isinf(df)):
            return _log_normal(y - mean, variance + noise)
        return _log_normal_plus_student_t(y - mean, variance, noise, float(np.mean(df)))

    def season_at(self, position: np.ndarray) -> np.ndarray:
        """Season of every series at some times, draw by draw: (draw, n, times)."""
        season = self.data.season
        assert season is not None
        n_waves = len(season_names(season))
        terms = season_terms(season, position) - self.units.covariate_centre[-n_waves:]
        return self.draws("beta")[..., -n_waves:] @ terms.T

    def _ahead(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of all trends some steps beyond the data, in the user's units."""
        last = self.draws("state_last").astype(float)
        level: Any = np.zeros_like(last)
        if self.units.intercept:
            # At the covariates' center, as the trends are.
            beta = self.draws("beta")
            level = beta[..., 0] + beta[..., 1:] @ self.units.covariate_centre
        step = self.draws("loading").astype(float) ** 2 + self.draws("var_x")
        if self.has_common_factor:
            step += self.draws("common").astype(float) ** 2
        return forecast_moments(steps, self.draws("a"), step, last, level)

    def _predictive(self, rows: Any, with_value: bool) -> tuple[np.ndarray, ...]:
        """Series of each new row, mean and variance (without noise), and its value."""
        rows = as_pandas(rows)
        data, units, moments = self.data, self.units, self.moments
        if not hasattr(rows, "columns"):
            raise ValueError(
                "rows must be a DataFrame with columns "
                f"{', '.join(repr(c) for c in data.columns[:2])} and the covariates."
            )
        i, t, u, shift, y = locate_rows(rows, data, with_value=with_value)
        size = data.axis.size
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
            slopes = self.draws("beta")[:, :, int(units.intercept) :]
            in_units = apart / units.covariate_scale
            cross = moments.cross[i, at].astype(float) * inside[:, None]
            variance += 2.0 * units.scale[i] ** 2 * (cross * in_units).sum(1)
            for s in np.unique(i):
                own = i == s
                draws = slopes[:, s] @ apart[own].T
                mean[own] += draws.mean(0)
                variance[own] += draws.var(0)
        return i, mean + shift, np.maximum(variance, 0.0), y

    def _degrees_of_freedom(self) -> np.ndarray | float:
        """Degrees of freedom of the noise: one per draw if learned, infinite if Gaussian."""
        drawn = self.posterior.drawn
        return drawn["df"].reshape(-1, 1) if "df" in drawn else start_df(self.df)

    def _noise(self, level: float) -> np.ndarray:
        """Variance of one observation's noise per series.

        The variance of Student-t noise may be infinite. It counts as the normal noise with the same
        central interval of probability `level`.
        """
        half = normal_quantile(level)
        variance, df = self.draws("var_y"), self._degrees_of_freedom()
        if np.all(np.isinf(df)):
            return variance.mean(0)
        from scipy.special import stdtrit

        return (variance * (stdtrit(df, 0.5 + 0.5 * level) / half) ** 2).mean(0)


def _log_normal(e: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return -0.5 * (np.log(2.0 * np.pi * variance) + e**2 / variance)


def _log_normal_plus_student_t(
    e: np.ndarray, variance: np.ndarray, noise: np.ndarray, df: float
) -> np.ndarray:
    """Log density at `e` of a normal plus a Student-t variable: quadrature over its precision."""
    from scipy import stats
    from scipy.special import logsumexp

    weights = stats.gamma(0.5 * df, scale=2.0 / df)
    ends = np.log(np.maximum(weights.ppf([1e-12, 1.0 - 1e-12]), 1e-30))
    log_w = np.linspace(ends[0], ends[1], 120)
    log_p = weights.logpdf(np.exp(log_w)) + log_w
    log_p -= logsumexp(log_p)
    total = variance[:, None] + noise[:, None] * np.exp(-log_w)
    return logsumexp(log_p + _log_normal(e[:, None], total), axis=1)
