"""Later times appended to a fit: states and factors are drawn again, given all data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cavity.io.frames import as_pandas
from cavity.posterior.posterior import Posterior
from cavity.posterior.record import ESTIMATE
from cavity.posterior.units import SeriesUnits
from cavity.predict.draws import spread_draws
from cavity.priors.series import SeriesPrior
from cavity.series.data import SeriesData, differences, from_wide, locate_rows, season_terms
from cavity.series.likelihood import FactorPaths, factor_paths
from cavity.series.parameters import NOTHING
from cavity.series.problem import LONGEST_JOINT, build_priors, check_priors, start_df
from cavity.series.results import TrendMoments, details_of, pool_trends, summaries_of
from cavity.series.state_space import FactorSeries, factor_series
from cavity.series.update import SeriesUpdate

# Rounds at the first draw, and at each later one, where not all is drawn in one block.
_FIRST, _LATER = 30, 3
# What a draw has per series or in common that the extended model takes over.
_TAKEN = ("a", "loading", "var_y", "beta", "common")
_SCALARS = ("var_x", "var_x0", "df")


@dataclass
class _Chain:
    """The part of a chain that an update needs."""

    model: FactorSeries
    parameters: FactorPaths
    z: np.ndarray
    counts: np.ndarray
    family: Any = None
    prior: Any = None


def append_times(
    posterior: Posterior,
    estimate: np.ndarray,
    data: SeriesData,
    priors: SeriesPrior | None,
    df: float | str | None,
    n_draws: int,
    rng: np.random.Generator,
) -> tuple[Posterior, TrendMoments]:
    """Draw states and factors again given later observations too.

    Parameters
    ----------
    posterior : Posterior
        The fit's.
    estimate : (n,) array
        Labels of the point estimate.
    data : SeriesData
        Those of the fit and the new ones, from `appended`.
    priors : SeriesPrior or None
    df : float, "learn" or None
    n_draws : int
        Draws of the fit to keep, at most.
    rng : numpy.random.Generator
    """
    kept = spread_draws(posterior.n_draws, max(1, n_draws // posterior.n_chains))
    drawn = {
        name: np.array(values[:, kept])
        for name, values in posterior.drawn.items()
        if name not in ("trend", "factor", "common_factor")
    }
    labels = posterior.labels[:, kept]
    moments = _draw_again(posterior, data, priors, df, labels, kept, drawn, rng)
    log_joint = posterior.log_joint
    extended = Posterior(
        labels,
        log_joint=None if log_joint is None else log_joint[:, kept],
        sweep_seconds=posterior.sweep_seconds,
        parameters=drawn,
        cluster_parameters=posterior.cluster_parameters,
        events=posterior.events,
        names=posterior.names,
        units=posterior.units,
        summaries=summaries_of(data, moments) | {ESTIMATE: estimate},
        record=replace(posterior.record, details=details_of(data)),
    )
    return extended, moments


def appended(old: SeriesData, Y: Any) -> SeriesData:
    """Return the fit's data with the new times appended."""
    size = old.axis.size
    Y = as_pandas(Y)
    if 0 in np.shape(Y):
        raise ValueError("Y has no observations to append. Give at least one time.")
    y, count, covariates = _later(old, Y)
    end = old.end
    if end is not None:
        y, end = differences(np.where(count > 0, y, np.nan), *end)
        count = np.isfinite(y).astype(float)
    if old.season is not None:
        waves = season_terms(old.season, size + np.arange(y.shape[1]))
        covariates[:, :, covariates.shape[2] - waves.shape[1] :] = waves
    counts = np.concatenate([old.count.astype(float), count], axis=1)
    return replace(
        old,
        y=np.concatenate([old.y, y], axis=1),
        count=counts.astype(old.count.dtype if counts.max() < 2**16 else float),
        covariates=np.concatenate([old.covariates, covariates], axis=1),
        axis=replace(old.axis, size=size + y.shape[1]),
        end=end,
    )


def _later(old: SeriesData, Y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cell means, counts and covariates of the new times."""
    n, c, size = len(old.y), old.covariates.shape[2], old.axis.size
    rows = hasattr(Y, "columns") and all(name in Y.columns for name in old.columns)
    if not rows and (old.given_covariates or old.offset_column is not None):
        listed = ", ".join(repr(name) for name in old.columns)
        raise ValueError(
            f"append needs rows with the columns of the fit ({listed}, and covariates or "
            "offset), as the fit had covariates or an offset."
        )
    if not rows:
        wide = from_wide(Y)
        position = size + np.arange(wide.y.shape[1])
        order = np.arange(n)
        if hasattr(Y, "columns"):
            position = old.axis.locate(wide.axis.labels())
            order = wide.series.get_indexer(old.series)
            unknown = wide.series[~wide.series.isin(old.series)]
            if len(unknown):
                raise ValueError(
                    f"series {str(unknown[0])!r} was not in the data that the model was fitted "
                    "to. `predict` assigns new series to clusters."
                )
        elif len(wide.y) != n:
            raise ValueError(f"Y has {len(wide.y)} series, the fit had {n}.")
        _refuse_earlier(position, size, old)
        y = np.full((n, int(position.max()) - size + 1), np.nan)
        present = order >= 0
        y[np.ix_(present, position - size)] = wide.y[order[present]]
        return y, np.isfinite(y).astype(float), np.zeros((*y.shape, c))
    code, position, u, shift, value = locate_rows(Y, old, with_value=True)
    _refuse_earlier(position, size, old)
    shape = (n, int(position.max()) - size + 1)
    cell = code * shape[1] + position - size
    count = np.bincount(cell, minlength=shape[0] * shape[1]).astype(float)

    def mean(values: np.ndarray, empty: float) -> np.ndarray:
        total = np.bincount(cell, values, minlength=count.size)
        out = np.full(count.size, empty)
        return np.divide(total, count, out=out, where=count > 0).reshape(shape)

    covariates = [mean(u[:, j], 0.0) for j in range(c)]
    stacked = np.stack(covariates, axis=2) if c else np.zeros((*shape, 0))
    return mean(value - shift, np.nan), count.reshape(shape), stacked


def _draw_again(
    old: Posterior,
    data: SeriesData,
    prior: SeriesPrior | None,
    df: float | str | None,
    labels: np.ndarray,
    kept: np.ndarray,
    drawn: dict[str, np.ndarray],
    rng: np.random.Generator,
) -> TrendMoments:
    """Draw states and factors given all else of each draw, into `drawn`; moments of trends."""
    units = old.units
    assert isinstance(units, SeriesUnits)
    factor = old.drawn["factor"]
    n_slots, n_times = factor.shape[2], data.y.shape[1]
    shared = "common" in drawn
    p = data.covariates.shape[2] + units.intercept
    model = factor_series(
        data.y, data.count, (data.covariates - units.covariate_centre) / units.covariate_scale,
        a=0.5, loading=0.0, var_x=1.0, var_y=1.0, df=start_df(df),
        common=0.0 if shared else None, centre=units.centre, scale=units.scale,
        n_slots=n_slots, intercept=units.intercept,
    )  # fmt: skip
    priors = build_priors(check_priors(prior), p, units.intercept)
    update = SeriesUpdate(
        model, priors, np.array([np.zeros(p), np.ones(p)]), NOTHING,
        joint=n_times <= LONGEST_JOINT, approximate=False,
    )  # fmt: skip
    paths = factor_paths(n_times, model.scratch.lanes.shape[1])
    at_once = update.joint and not shared and not model.own.tails.size
    head = labels.shape[:2]
    drawn["factor"] = np.zeros((*head, n_slots, n_times), dtype=np.float32)
    drawn["state_last"] = np.zeros((*head, len(data.y)))
    if shared:
        drawn["common_factor"] = np.zeros((*head, n_times), dtype=np.float32)
    before = factor.shape[3]
    rounds = 1 if at_once else _FIRST
    for place in np.ndindex(*head):
        source = place[0], kept[place[1]]
        _take_over(model, drawn, place)
        paths.value[:before, :n_slots] = np.nan_to_num(factor[source].T)
        if shared:
            model.own.common_factor[:before] = old.drawn["common_factor"][source]
        z = labels[place].astype(np.int32)
        counts = np.bincount(z, minlength=paths.value.shape[1])
        chain = _Chain(model, paths, z, counts)
        for _ in range(rounds):
            update.draw(chain, rng)
        update.keep(chain)
        drawn["factor"][place] = np.where(
            counts[:n_slots, None] > 0, paths.value.T[:n_slots], np.nan
        )
        drawn["state_last"][place] = update.last
        if shared:
            drawn["common_factor"][place] = model.own.common_factor
        rounds = 1 if at_once else _LATER
    return pool_trends([update.summaries()])


def _take_over(model: FactorSeries, drawn: dict[str, np.ndarray], place: tuple[int, ...]) -> None:
    """Set the parameters of one draw."""
    for name in _TAKEN:
        if name in drawn:
            getattr(model.own, name)[:] = drawn[name][place]
    for name in _SCALARS:
        if name in drawn:
            getattr(model.own, name)[0] = drawn[name][place]


def _refuse_earlier(position: np.ndarray, size: int, old: SeriesData) -> None:
    if position.size and int(position.min()) < size:
        raise ValueError(
            f"the new times begin at {old.axis.labels(int(position.min()), 1)[0]}, and the fit has "
            f"data until {old.axis.labels()[-1]}: append takes later times alone. Fit again to "
            "change earlier ones."
        )
