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
from cavity.series.results import (
    Band,
    TrendMoments,
    check_level,
    forecast_moments,
    normal_quantile,
    tables,
)

if TYPE_CHECKING:
    import pandas as pd

# The quantity that an interval is for.
OBSERVATION, TREND = "observation", "trend"
# Simulated paths at least, and the longest forecast in lengths of the data.
_LEAST_PATHS, _LONGEST = 4000, 10
# Median correlation with time beyond which forecasts need a trend; of random walks it is about .7.
TRENDING = 0.8
# Values of a series below which its correlation with time is mostly chance.
_LEAST_SEEN = 6


class Known(NamedTuple):
    """Draws that the times beyond the data depend on, in the user's units."""

    last: np.ndarray  # (draw, n) last states
    a: np.ndarray  # (draw, n)
    variance: np.ndarray  # (draw, n) of a step given the state before it
    level: np.ndarray  # (draw, n)
    noise: np.ndarray  # (draw, n) variances of observations
    df: np.ndarray | float


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

    def forecast(self, steps: int, of: str, level: float, *, changes: bool = False) -> Band:
        """Return mean and interval of every series at the next `steps` times.

        With `changes`, differenced series stay as they were modeled.
        """
        data = self.data
        check_count("steps", steps, 1)
        longest = self._longest()
        if steps > longest:
            raise ValueError(
                f"steps={steps} is more than {longest:,}, ten times as far as the data reach. "
                "Forecast fewer."
            )
        check_choice("of", of, (OBSERVATION, TREND))
        check_level(level)
        ahead = np.arange(1, steps + 1)
        known, noisy = self._known(), of == OBSERVATION
        mean, _ = self._ahead(ahead, known)
        season = None
        if of == OBSERVATION and data.season is not None:
            season = self.season_at(data.axis.size + np.arange(steps))
            mean = mean + season.mean(0)
        end = None
        if data.end is not None and not changes:
            end = self._end()
            mean = np.cumsum(mean, axis=1) + end[0][:, None]
        ends = [
            self._interval(
                i, ahead, known, noisy, level, None if season is None else season[:, i], end
            )
            for i in range(len(data.y))
        ]
        labels = data.axis.labels(data.axis.size, steps)
        return tables(mean, np.stack(ends, axis=1), data.series, labels, level)

    def _longest(self) -> int:
        """Most steps beyond the data that intervals are computed for."""
        return _LONGEST * self.data.axis.size

    def _interval(
        self,
        i: int,
        steps: np.ndarray,
        known: Known,
        noisy: bool,
        level: float,
        shift: np.ndarray | None = None,
        end: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Lower and upper ends at some steps beyond the data: quantiles of simulated paths.

        Paths of a series are the same in every call. `shift` (draw, step) is added to them. Paths
        of changes are summed, from `end` on.
        """
        states, noises, weights, starts = (np.random.default_rng([i, j]) for j in range(4))
        n_draws = len(known.last)
        shape = int(steps.max()), n_draws, -(-_LEAST_PATHS // n_draws)
        a, x = known.a[:, i, None], known.last[:, i, None]
        paths = np.sqrt(known.variance[:, i, None]) * states.standard_normal(shape)
        for path in paths:
            path += a * x
            x = path
        if noisy:
            noise = np.sqrt(known.noise[:, i, None]) * noises.standard_normal(shape)
            if np.all(np.isfinite(known.df)):
                half = 0.5 * np.broadcast_to(known.df, (n_draws, 1))
                noise /= np.sqrt(np.maximum(weights.standard_gamma(half, shape) / half, 1e-30))
            paths = paths + noise
        paths = paths[steps - 1] + known.level[:, i, None]
        if shift is not None:
            paths += shift.T[..., None]
        if end is not None:
            start = end[0][i] + end[1][i] * starts.standard_normal(shape[1:])
            paths = np.cumsum(paths, axis=0) + start
        tails = 0.5 + np.array([-0.5, 0.5]) * level
        return np.quantile(paths.reshape(len(steps), -1), tails, axis=1)

    def _end(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of each differenced series' level at the last time.

        Changes since its last value are taken as moving together, which is an upper bound.
        """
        assert self.data.end is not None
        level, since = self.data.end
        n_times = self.data.axis.size
        later = np.arange(n_times) >= n_times - since[:, None]
        scale = self.units.scale[:, None]
        mean = self.moments.mean * scale + self.units.centre
        sd = np.sqrt(self.moments.variance.astype(float)) * scale
        return level + (mean * later).sum(1), (sd * later).sum(1)

    def trending(self) -> float:
        """Median absolute correlation of the series with time; 0 for differenced series."""
        data = self.data
        if data.end is not None:
            return 0.0
        seen = data.count > 0
        time = np.where(seen, np.arange(data.axis.size), np.nan)
        y = np.where(seen, data.y, np.nan)[seen.sum(1) >= _LEAST_SEEN]
        time = time[seen.sum(1) >= _LEAST_SEEN]
        if not len(y):
            return 0.0
        y = y - np.nanmean(y, axis=1, keepdims=True)
        time = time - np.nanmean(time, axis=1, keepdims=True)
        square = np.nansum(y**2, axis=1) * np.nansum(time**2, axis=1)
        together = np.abs(np.nansum(y * time, axis=1))
        return float(np.median(together / np.sqrt(np.maximum(square, np.finfo(float).tiny))))

    def predict_values(self, rows: Any, of: str, level: float) -> pd.DataFrame:
        """Mean, interval and standard deviation at new rows."""
        import pandas as pd

        check_choice("of", of, (OBSERVATION, TREND))
        i, t, apart, mean, variance, shift, _ = self._predictive(rows, False)
        farthest = int(t.max(initial=0)) - self.data.axis.size + 1
        if farthest > self._longest():
            raise ValueError(
                f"rows holds a time {farthest:,} steps after the data, more than "
                f"{self._longest():,}, ten times as far as these reach. Leave out later rows."
            )
        if of == OBSERVATION:
            variance = variance + self.noise_variance(level)[i]
        sd = np.sqrt(variance)
        half = normal_quantile(level) * sd
        ends = np.array([mean - half, mean + half])
        beyond = t >= self.data.axis.size
        slopes, known = self._slopes(), self._known()
        for s in np.unique(i[beyond]):
            own = np.flatnonzero(beyond & (i == s))
            added = slopes[:, s] @ apart[own].T + shift[own]
            steps = t[own] - self.data.axis.size + 1
            ends[:, own] = self._interval(s, steps, known, of == OBSERVATION, level, added)
        # Other libraries' tables name no rows; an Arrow table's `index` is a method.
        index = rows.index if isinstance(rows, pd.DataFrame) else None
        return pd.DataFrame(
            {"mean": mean, "lower": ends[0], "upper": ends[1], "sd": sd}, index=index
        )

    def score_samples(self, rows: Any) -> np.ndarray:
        """Log predictive density of held-out rows."""
        i, _, _, mean, variance, _, y = self._predictive(rows, True)
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

    def _known(self) -> Known:
        """Return the draws that the times beyond the data depend on."""
        last = self.draws("state_last").astype(float)
        level: Any = np.zeros_like(last)
        if self.units.intercept:
            # At the covariates' center, as the trends are.
            beta = self.draws("beta")
            level = beta[..., 0] + beta[..., 1:] @ self.units.covariate_centre
        step = self.draws("loading").astype(float) ** 2 + self.draws("var_x")
        if self.has_common_factor:
            step += self.draws("common").astype(float) ** 2
        a, noise = self.draws("a").astype(float), self.draws("var_y").astype(float)
        return Known(last, a, step, level, noise, self._degrees_of_freedom())

    def _ahead(self, steps: np.ndarray, known: Known) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of all trends some steps beyond the data, in the user's units."""
        return forecast_moments(steps, known.a, known.variance, known.last, known.level)

    def _predictive(self, rows: Any, with_value: bool) -> tuple[np.ndarray, ...]:
        """Series, time and covariates of new rows, mean and variance (no noise), offset, value."""
        if self.data.end is not None:
            raise ValueError(
                "Values at given rows are not supported with difference=True. Use forecast for "
                "the times after the data."
            )
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
            ahead_mean, ahead_variance = self._ahead(steps, self._known())
            mean[~inside] = ahead_mean[i[~inside], which]
            variance[~inside] = ahead_variance[i[~inside], which]
        apart = u - units.covariate_centre
        if u.shape[1]:
            slopes = self._slopes()
            in_units = apart / units.covariate_scale
            cross = moments.cross[i, at].astype(float) * inside[:, None]
            variance += 2.0 * units.scale[i] ** 2 * (cross * in_units).sum(1)
            for s in np.unique(i):
                own = i == s
                draws = slopes[:, s] @ apart[own].T
                mean[own] += draws.mean(0)
                variance[own] += draws.var(0)
        return i, t, apart, mean + shift, np.maximum(variance, 0.0), shift, y

    def _slopes(self) -> np.ndarray:
        """Draws of the covariates' coefficients, (draw, n, c)."""
        if not self.data.covariates.shape[2]:
            return np.zeros((self.posterior.flat_labels.shape[0], len(self.data.y), 0))
        return self.draws("beta")[:, :, int(self.units.intercept) :]

    def _degrees_of_freedom(self) -> np.ndarray | float:
        """Degrees of freedom of the noise: one per draw if learned, infinite if Gaussian."""
        drawn = self.posterior.drawn
        return drawn["df"].reshape(-1, 1) if "df" in drawn else start_df(self.df)

    def noise_variance(self, level: float) -> np.ndarray:
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
