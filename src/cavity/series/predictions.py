"""What a fitted series model expects: at new rows, and at times beyond the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.estimators.base import Fitted
from cavity.estimators.validation import check_choice, check_count
from cavity.io.frames import as_pandas
from cavity.posterior.units import SeriesUnits
from cavity.series.data import SeriesData, locate_rows, season_names, season_terms
from cavity.series.problem import start_df
from cavity.series.results import Band, TrendMoments, forecast_moments, normal_quantile

if TYPE_CHECKING:
    import pandas as pd

# What an interval is for.
OBSERVATION, TREND = "observation", "trend"


class SeriesPredictions(Fitted):
    """Predictions and forecasts of a fitted `SeriesMixture`."""

    df: float | str | None
    _data: SeriesData
    _moments: TrendMoments
    _units: SeriesUnits

    def _flat(self, name: str) -> np.ndarray:
        values = self.posterior_.parameters[name]
        return values.reshape(-1, *values.shape[2:])

    @property
    def _shares(self) -> bool:
        """Whether all series share a factor."""
        return "common_factor" in self.posterior_.drawn

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

    def forecast(self, steps: int = 1, *, of: str = OBSERVATION, level: float = 0.9) -> Band:
        """The next `steps` times of every series: mean and interval.

        Parameters
        ----------
        steps : int
        of : {"observation", "trend"}
            What the interval is for, as in `predict`: one new observation (at the covariates'
            mean), or the trend without noise.
        level : float
            Probability of the interval.
        """
        check_is_fitted(self)
        check_count("steps", steps, 1)
        check_choice("of", of, (OBSERVATION, TREND))
        mean, variance = self._ahead(np.arange(1, steps + 1))
        if of == OBSERVATION:
            if self._data.season is not None:
                waves = self._season_at(self._data.axis.size + np.arange(steps))
                mean, variance = mean + waves.mean(0), variance + waves.var(0)
            variance = variance + self._noise(level)[:, None]
        labels = self._data.axis.labels(self._data.axis.size, steps)
        return self._band(mean, np.sqrt(variance), self._data.series, labels, level)

    def _season_at(self, position: np.ndarray) -> np.ndarray:
        """The season of every series at some times, draw by draw: (draw, n, times)."""
        season = self._data.season
        assert season is not None
        n_waves = len(season_names(season))
        terms = season_terms(season, position) - self._units.covariate_centre[-n_waves:]
        return self._flat("beta")[..., -n_waves:] @ terms.T

    def _ahead(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of all trends some steps beyond the data, in the user's units."""
        last = self._flat("state_last").astype(float)
        level: Any = np.zeros_like(last)
        if self._units.intercept:
            # At the covariates' centre, as the trends are.
            beta = self._flat("beta")
            level = beta[..., 0] + beta[..., 1:] @ self._units.covariate_centre
        step = self._flat("loading").astype(float) ** 2 + self._flat("var_x")
        if self._shares:
            step += self._flat("common").astype(float) ** 2
        return forecast_moments(steps, self._flat("a"), step, last, level)

    def _predictive(self, rows: Any, with_value: bool) -> tuple[np.ndarray, ...]:
        """Series of each new row, mean and variance (without noise), and its value."""
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
        return i, mean + shift, np.maximum(variance, 0.0), y

    def _degrees(self) -> np.ndarray | float:
        """Degrees of freedom of the noise: one per draw if learned; infinite if Gaussian."""
        drawn = self.posterior_.drawn
        return drawn["df"].reshape(-1, 1) if "df" in drawn else start_df(self.df)

    def _noise(self, level: float) -> np.ndarray:
        """Variance of one observation's noise per series.

        Student-t noise, whose variance may be infinite, counts as the normal noise with the same
        central interval of probability `level`.
        """
        half = normal_quantile(level)
        variance, df = self._flat("var_y"), self._degrees()
        if np.all(np.isinf(df)):
            return variance.mean(0)
        from scipy.special import stdtrit

        return (variance * (stdtrit(df, 0.5 + 0.5 * level) / half) ** 2).mean(0)

    def predict(self, rows: Any, *, of: str = OBSERVATION, level: float = 0.9) -> pd.DataFrame:
        """What is expected at new rows: mean and interval of each.

        Parameters
        ----------
        rows : DataFrame
            The columns of series and time (``"series"`` and ``"time"`` after a wide fit), and
            the covariates and offset of the fit. Times may lie beyond the data.
        of : {"observation", "trend"}
            What the interval is for, as in `forecast`: an observation, or what it is expected to be
            without noise.
        level : float
            Probability of the interval.
        """
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
        """Log predictive density of held-out rows (with their values).

        What is expected of a row is taken as normal with its exact posterior mean and variance; to
        this comes the noise, Gaussian or Student-t, at the posterior means of its variance and
        degrees of freedom.
        """
        i, mean, variance, y = self._predictive(rows, True)
        noise = self._flat("var_y").mean(0)[i]
        df = self._degrees()
        if np.all(np.isinf(df)):
            total = variance + noise
            return -0.5 * (np.log(2.0 * np.pi * total) + (y - mean) ** 2 / total)
        return _log_density(y - mean, variance, noise, float(np.mean(df)))

    def score(self, rows: Any, y: Any = None) -> float:
        """Mean log predictive density of held-out rows: a held-out log score."""
        return float(self.score_samples(rows).mean())


def _log_density(e: np.ndarray, variance: np.ndarray, noise: np.ndarray, df: float) -> np.ndarray:
    """Log density at `e` of a normal plus a Student-t variable: quadrature over its precision."""
    from scipy import stats
    from scipy.special import logsumexp

    weights = stats.gamma(0.5 * df, scale=2.0 / df)
    ends = np.log(np.maximum(weights.ppf([1e-12, 1.0 - 1e-12]), 1e-30))
    log_w = np.linspace(ends[0], ends[1], 120)
    log_p = weights.logpdf(np.exp(log_w)) + log_w
    log_p -= logsumexp(log_p)
    total = variance[:, None] + noise[:, None] * np.exp(-log_w)
    log_n = -0.5 * (np.log(2.0 * np.pi * total) + e[:, None] ** 2 / total)
    return logsumexp(log_p + log_n, axis=1)
