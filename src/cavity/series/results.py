"""Posterior curves: bands, moments over chains, aligned factors; their storage in a file."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity.series.data import SeriesData
from cavity.series.time_axis import TimeAxis

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior.posterior import Posterior


# Probability of the intervals, unless another is asked for.
LEVEL = 0.9
TAILS = (0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL)


class Band(NamedTuple):
    """Posterior mean and interval of curves, one row each, one column per time.

    Attributes
    ----------
    mean, lower, upper : pandas.DataFrame
    level : float
        Probability of the interval.
    """

    mean: pd.DataFrame
    lower: pd.DataFrame
    upper: pd.DataFrame
    level: float = LEVEL

    def at(self, level: float) -> Band:
        """Return the curves with intervals scaled to another probability as normal ones are."""
        ratio = normal_quantile(level) / normal_quantile(self.level)
        lower, upper = (self.mean + ratio * (end - self.mean) for end in (self.lower, self.upper))
        return Band(self.mean, lower, upper, level)


def tables(mean: Any, ends: Any, index: Any, columns: Any, level: float = LEVEL) -> Band:
    """Return curves and the lower and upper ends of their intervals as tables."""
    import pandas as pd

    mean, lower, upper = (pd.DataFrame(v, index=index, columns=columns) for v in (mean, *ends))
    return Band(mean, lower, upper, level)


def normal_band(mean: np.ndarray, sd: np.ndarray, index: Any, columns: Any) -> Band:
    """Return curves with intervals of a normal distribution."""
    half = normal_quantile(LEVEL) * sd
    return tables(mean, (mean - half, mean + half), index, columns)


def drawn_band(draws: np.ndarray, index: Any, columns: Any) -> Band:
    """Return curves with quantiles of their draws, the first axis."""
    ends = np.quantile(draws, TAILS, axis=0)
    return tables(draws.mean(0), ends, index, columns)


def normal_quantile(level: float) -> float:
    """Half width, in standard deviations, of a central interval of a normal distribution."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + 0.5 * check_level(level)))


def check_level(level: float) -> float:
    """Return the probability of an interval if it lies between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, not {level!r}.")
    return level


class TrendMoments(NamedTuple):
    """Posterior moments of every trend over all chains, in the model's units."""

    mean: np.ndarray  # (n, T)
    variance: np.ndarray  # (n, T)
    cross: np.ndarray  # (n, T, c) covariance with the coefficients of the covariates


def pool_trends(parts: list[dict[str, np.ndarray]]) -> TrendMoments:
    """Moments over all chains from the running ones of their parts, by the total variance's law."""
    kept = [part for part in parts if part["n_kept"] > 0]
    if not kept:
        raise ValueError("no draw was kept, so there are no trends. Ask for more draws.")
    total = float(sum(part["n_kept"] for part in kept))
    mean = np.zeros_like(kept[0]["trend_mean"])
    beta = np.zeros_like(kept[0]["beta_mean"])
    for part in kept:
        share = float(part["n_kept"]) / total
        mean += share * part["trend_mean"]
        beta += share * part["beta_mean"]
    variance = np.zeros(mean.shape, dtype=np.float32)
    cross = np.zeros_like(kept[0]["trend_cross"])
    for part in kept:
        share = float(part["n_kept"]) / total
        apart = (part["trend_mean"] - mean).astype(np.float32)
        variance += np.float32(1.0 / total) * part["trend_square"]
        variance += np.float32(share) * apart * apart
        cross += np.float32(1.0 / total) * part["trend_cross"]
        away = (part["beta_mean"] - beta).astype(np.float32)
        cross += np.float32(share) * apart[..., None] * away[:, None]
    return TrendMoments(mean, variance, cross)


class AlignedFactors(NamedTuple):
    """Factors and loadings of the point estimate's clusters, draw by draw."""

    mean: np.ndarray  # (cluster, T)
    ends: np.ndarray  # (2, cluster, T) of the intervals
    loading: np.ndarray  # (n,) posterior mean, with its factor's sign
    loading_sd: np.ndarray  # (n,)


def align_factors(
    labels: np.ndarray,
    slots: np.ndarray,
    factor: np.ndarray,
    loading: np.ndarray,
    estimate: np.ndarray,
) -> AlignedFactors:
    """Factors of the clusters of the estimate, in number and in sign.

    A cluster of the estimate takes, in each draw, the factor of the slot that is matched to it;
    draws without a match are skipped. Neither sign of (loading, factor) is preferred by the
    model: each draw's is turned to agree with the others', and all together so that most loadings
    are positive.

    Parameters
    ----------
    labels : (draw, n), slots : (draw, cluster), -1 for no match, factor : (draw, slot, T), \
loading : (draw, n), estimate : (n,)
    """
    n_clusters, n_times = slots.shape[1], factor.shape[2]
    mean = np.zeros((n_clusters, n_times))
    # Where nothing is known, the factor has its prior.
    ends = np.empty((2, n_clusters, n_times))
    ends[0], ends[1] = -normal_quantile(LEVEL), normal_quantile(LEVEL)
    average = loading.mean(0).astype(float)
    spread = loading.std(0).astype(float)
    for k in range(n_clusters):
        present = np.flatnonzero(slots[:, k] >= 0)
        members = np.flatnonzero(estimate == k)
        if not present.size:
            continue
        slot = slots[present, k]
        paths = factor[present, slot].astype(float)
        loads = loading[np.ix_(present, members)].astype(float)
        # Loadings of members that sat elsewhere in a draw belong to another factor.
        here = labels[np.ix_(present, members)] == slot[:, None]
        loads_here = np.where(here, loads, 0.0)
        sign = np.ones(present.size)
        for _ in range(3):
            reference = (sign[:, None] * loads_here).mean(0)
            if not reference.any():
                reference = loads_here[-1]
            sign = np.where(loads_here @ reference < 0, -1.0, 1.0)
        if (sign[:, None] * loads_here).mean() < 0:
            sign = -sign
        paths *= sign[:, None]
        mean[k] = paths.mean(0)
        ends[:, k] = np.quantile(paths, TAILS, axis=0)
        turned = sign[:, None] * loads
        for j, i in enumerate(members):
            own = turned[here[:, j], j]
            if own.size:
                average[i], spread[i] = own.mean(), own.std()
    return AlignedFactors(mean, ends, average, spread)


def forecast_moments(
    steps: np.ndarray,
    a: np.ndarray,
    step_variance: np.ndarray,
    last: np.ndarray,
    level: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of trends some steps beyond the data, over all draws.

    Parameters
    ----------
    steps : (h,)
        Numbers of steps, at least one.
    a, step_variance, last, level : (draw, n)
        Autoregression, variance of a step given the state before it, the last state, and the
        intercept.

    Returns
    -------
    mean, variance : (n, h)
    """
    n = a.shape[1]
    mean = np.empty((n, len(steps)))
    variance = np.empty((n, len(steps)))
    a = a.astype(float)
    for j, h in enumerate(steps):
        power = a**h
        centre = level + power * last
        grown = np.where(
            np.abs(a) < 1 - 1e-12, (1 - power**2) / np.maximum(1 - a**2, 1e-300), float(h)
        )
        mean[:, j] = centre.mean(0)
        variance[:, j] = centre.var(0) + (step_variance * grown).mean(0)
    return mean, variance


def typical_members(similarity: np.ndarray, estimate: np.ndarray, n: int) -> list[np.ndarray]:
    """For each cluster its members most often found with the others, most typical first."""
    out = []
    for k in range(int(estimate.max()) + 1):
        members = np.flatnonzero(estimate == k)
        score = similarity[np.ix_(members, members)].mean(1)
        out.append(members[np.argsort(-score, kind="stable")[:n]])
    return out


def summaries_of(data: SeriesData, moments: TrendMoments) -> dict[str, np.ndarray]:
    """Return what predictions need beyond the draws: observations, moments of the trends."""
    return {
        "y": data.y,
        "count": data.count,
        "covariates": data.covariates,
        "series": _index_values(data.series),
        "trend_mean": moments.mean,
        "trend_variance": moments.variance,
        "trend_cross": moments.cross,
        **({} if data.end is None else {"end": data.end}),
    }


def details_of(data: SeriesData) -> dict[str, Any]:
    """Return the description of the data for the record; `data_from` reads it again."""
    times = data.axis.labels()
    axis = {f.name: getattr(data.axis, f.name) for f in dataclasses.fields(data.axis)}
    axis["zone"] = None if data.axis.zone is None else str(data.axis.zone)
    return {
        "n_times": data.axis.size,
        "n_values": int(data.count.sum(dtype=float)),
        "times": [str(times[0]), str(times[-1])],
        "covariates": list(data.covariate_names),
        "axis": axis,
        "columns": list(data.columns),
        "offset_column": data.offset_column,
        "season": data.season,
        "series_dtype": str(data.series.dtype),
        "curves": ["factor"],
        "series_name": None if data.series.name is None else str(data.series.name),
    }


def data_from(posterior: Posterior) -> tuple[SeriesData, TrendMoments]:
    """Data (but for what cells scatter about their means) and moments of a saved fit."""
    kept, details = posterior.summaries, posterior.record.details
    y = kept["y"]
    names = tuple(details["covariates"])
    data = SeriesData(
        y=y,
        count=kept["count"],
        covariates=kept["covariates"],
        scatter=np.zeros((len(y), 1, 1)),
        series=_index(kept["series"], details["series_dtype"], details["series_name"]),
        axis=TimeAxis(**details["axis"]),
        covariate_names=names,
        columns=tuple(details["columns"]),
        offset_column=details["offset_column"],
        season=details.get("season"),
        end=kept.get("end"),
    )
    moments = TrendMoments(kept["trend_mean"], kept["trend_variance"], kept["trend_cross"])
    return data, moments


def _index_values(index: pd.Index) -> np.ndarray:
    if index.dtype.kind in "iuf":
        return index.to_numpy()
    return np.array([str(v) for v in index], dtype=str)


def _index(values: np.ndarray, dtype: str, name: str | None) -> pd.Index:
    """The user's names of the series; those that are neither numbers nor text come as text."""
    import pandas as pd

    if values.dtype.kind in "iuf":
        return pd.Index(values, name=name)
    index = pd.Index(values.astype(object), name=name)
    if dtype.startswith("datetime64"):
        return pd.DatetimeIndex(pd.to_datetime(index), name=name)
    if dtype.startswith("period"):
        return pd.PeriodIndex(index, freq=dtype[len("period[") : -1], name=name)
    return index
