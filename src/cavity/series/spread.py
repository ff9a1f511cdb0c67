"""Fits of a `SeriesMixture` whose sweeps are shared by threads or the workers of a cluster."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.distributed.mixture_weights import is_supported
from cavity.estimators.fitting import posterior_of
from cavity.estimators.sharded import PARALLEL, run_of
from cavity.estimators.sharding import is_dask_frame, is_in_shards
from cavity.estimators.validation import check_names
from cavity.series.common_factor import move_together
from cavity.series.data import SeriesData
from cavity.series.problem import check_priors
from cavity.series.results import details_of, pool_trends, summaries_of
from cavity.series.shards import spread
from cavity.series.sources import array_source, series_source

# Collapses under which files of series may be fitted: both mean this sampler.
SPREAD = ("auto", PARALLEL)


def is_spread(estimator: Any, Y: Any) -> bool:
    """Whether a sweep over these series is shared by threads or workers."""
    return is_in_shards(Y) or estimator.collapse == PARALLEL


def check_spread(estimator: Any, Y: Any, covariates: Sequence[str], offset: Any) -> None:
    """Refuse what series in shards cannot have, each by its name."""
    if is_dask_frame(Y):
        raise ValueError(
            "Series in shards are read from Parquet files or memory, not from a Dask "
            "DataFrame: write it with to_parquet, a row per series, and give the folder."
        )
    if estimator.collapse not in SPREAD:
        raise ValueError(
            f"collapse={estimator.collapse!r} is not supported for sharded data. "
            f"Use collapse={PARALLEL!r}, which is exact."
        )
    for given, word in (
        (len(covariates) > 0, "covariates"),
        (offset is not None, "an offset"),
        (estimator.season is not None, "a season"),
        (bool(estimator.difference), "difference=True"),
        (estimator.common_factor is True, "common_factor=True"),
        (bool(estimator.hold), "parameters to hold"),
        (estimator._option("keep_trends"), "options={'keep_trends': True}"),
        (not isinstance(estimator.init, str), "labels to start from"),
    ):
        if given:
            raise ValueError(
                f"{word} cannot be had with series in shards, or collapse={PARALLEL!r}; leave "
                "it out, or fit the series in memory by another collapse."
            )
    prior = estimator._specification()
    if prior.is_open or not is_supported(
        prior.state(estimator.n_clusters, estimator.n_clusters, 1)
    ):
        raise ValueError(
            "Over series in shards, prior must be 'finite', 'dirichlet' or 'fixed', not "
            f"{type(prior).__name__}."
        )


def fit_spread(
    estimator: Any,
    Y: Any,
    client: Any,
    *,
    names: str | None,
    read: Any,
    covariates: Sequence[str],
    offset: Any,
) -> None:
    """Sample over series in blocks, here or on a cluster; ``read()`` gives those in memory."""
    check_spread(estimator, Y, covariates, offset)
    data: SeriesData | None = None
    if is_in_shards(Y):
        source: Any = series_source(Y, names)
    else:
        data = read()
        if data.count.max(initial=0) > 1:
            row, column = (int(v) for v in np.argwhere(data.count > 1)[0])
            raise ValueError(
                f"Series {str(data.series[row])!r} has several values at "
                f"{data.axis.labels()[column]}; with collapse={PARALLEL!r} there may be one. "
                "Average them first."
            )
        source = array_source(data)
    n = sum(source.sizes)
    prior = estimator._specification()
    if n < max(2, estimator.n_clusters):
        raise ValueError(
            f"There are {n} series: clustering needs at least 2, and no fewer than "
            f"n_clusters={estimator.n_clusters}."
        )
    fit, volume, n_silent = spread(
        source, client, estimator.n_jobs, axis_of=data, names=names, prior=prior,
        n_clusters=estimator.n_clusters, series_prior=check_priors(estimator.priors),
        intercept=bool(estimator.intercept), each=estimator.scales != "all", df=estimator.df,
        moves=estimator._option("moves"),
    )  # fmt: skip
    with fit.executor:
        if estimator.common_factor == "auto" and move_together(fit.data, fit.units):
            raise ValueError(
                "All series move together, and a common factor cannot be had with series in "
                "shards: take its mean off them first, or say common_factor=False."
            )
        if n_silent:
            warnings.warn(
                f"{n_silent} series without any observation: their clusters are the prior's guess.",
                UserWarning,
                stacklevel=3,
            )
        run = run_of(estimator, source, client).chains(fit.sampler, estimator.n_clusters)
    moments = pool_trends([part for chain in run.summaries for part in chain])
    estimator._data, estimator._moments = fit.data, moments
    posterior = posterior_of(
        run,
        type(estimator).__name__,
        estimator.n_clusters,
        names=check_names(fit.data.series, "series"),
        units=fit.units,
        volume=volume,
        summaries=summaries_of(fit.data, moments),
        settings=estimator._settings(),
        noun="series",
        details=details_of(fit.data) | {"collapse": PARALLEL, "n_series": n},
    )
    estimator._finish(posterior)
