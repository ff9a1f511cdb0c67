"""`SeriesMixture` over series in shards: what it refuses, the fit, where each series belongs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.distributed.mixture_weights import is_supported
from cavity.estimators.base import Estimator
from cavity.estimators.fitting import posterior_of
from cavity.estimators.sharded import check_client, is_dask_frame, is_in_shards
from cavity.estimators.validation import check_names
from cavity.series.assign import SeriesAssignment
from cavity.series.common_factor import move_together
from cavity.series.data import SeriesData
from cavity.series.problem import check_priors
from cavity.series.results import TrendMoments, details_of, pool_trends, summaries_of
from cavity.series.shards import spread
from cavity.series.sources import array_source, series_source

PARALLEL = "parallel"
# Collapses under which files of series may be fitted: both mean this sampler.
SPREAD = ("auto", PARALLEL)


class SeriesSpread(SeriesAssignment, Estimator):
    """Fits of a series model that share every sweep."""

    moves: bool
    intercept: bool
    scales: str
    season: int | None
    hold: Any
    keep_trends: bool
    common_factor: bool | str
    _moments: TrendMoments

    def _is_spread(self, Y: Any) -> bool:
        """Whether a sweep over these series is shared."""
        return is_in_shards(Y) or self.collapse == PARALLEL

    def _check_spread(self, Y: Any, covariates: Sequence[str], offset: Any) -> None:
        """Refuse what series in shards cannot have, each by its name."""
        if is_dask_frame(Y):
            raise ValueError(
                "Series in shards are read from Parquet files or memory, not from a Dask "
                "DataFrame: write it with to_parquet, a row per series, and give the folder."
            )
        if self.collapse not in SPREAD:
            raise ValueError(
                f"collapse={self.collapse!r} is not supported for sharded data. "
                f"Use collapse={PARALLEL!r}, which is exact."
            )
        for given, word in (
            (len(covariates) > 0, "covariates"),
            (offset is not None, "an offset"),
            (self.season is not None, "a season"),
            (self.common_factor is True, "common_factor=True"),
            (bool(self.hold), "parameters to hold"),
            (bool(self.keep_trends), "keep_trends=True"),
            (not isinstance(self.init, str), "labels to start from"),
        ):
            if given:
                raise ValueError(
                    f"{word} cannot be had with series in shards, or collapse={PARALLEL!r}; leave "
                    "it out, or fit the series in memory by another collapse."
                )
        prior = self._specification()
        if prior.is_open or not is_supported(prior.state(self.n_clusters, self.n_clusters, 1)):
            raise ValueError(
                "Over series in shards, prior must be 'finite', 'dirichlet' or 'fixed', not "
                f"{type(prior).__name__}."
            )

    def _fit_shards(
        self,
        Y: Any,
        client: Any,
        *,
        names: str | None,
        read: Any,
        covariates: Sequence[str],
        offset: Any,
    ) -> None:
        """Sample over series in blocks, here or on a cluster; ``read()`` gives those in memory."""
        self._check_spread(Y, covariates, offset)
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
        prior = self._specification()
        if n < max(2, self.n_clusters):
            raise ValueError(
                f"There are {n} series: clustering needs at least 2, and no fewer than "
                f"n_clusters={self.n_clusters}."
            )
        fit, volume, n_silent = spread(
            source, client, self.n_jobs, axis_of=data, names=names, prior=prior,
            n_clusters=self.n_clusters, series_prior=check_priors(self.priors),
            intercept=bool(self.intercept), each=self.scales != "all", df=self.df,
            moves=bool(self.moves),
        )  # fmt: skip
        with fit.executor:
            if self.common_factor == "auto" and move_together(fit.data, fit.units):
                raise ValueError(
                    "All series move together, and a common factor cannot be had with series in "
                    "shards: take its mean off them first, or say common_factor=False."
                )
            if n_silent:
                warnings.warn(
                    f"{n_silent} series without any observation: their clusters are the prior's "
                    "guess.",
                    UserWarning,
                    stacklevel=3,
                )
            run = fit.run(
                self._run_settings(),
                {
                    "model": type(self).__name__,
                    "settings": {**self._settings(), "collapse": PARALLEL},
                    "data": source.digest,
                },
                type(self).__name__,
            )
        moments = pool_trends([part for chain in run.summaries for part in chain])
        self._data, self._moments = fit.data, moments
        posterior = posterior_of(
            run,
            type(self).__name__,
            self.n_clusters,
            names=check_names(fit.data.series, "series"),
            units=fit.units,
            volume=volume,
            summaries=summaries_of(fit.data, moments),
            settings=self._settings(),
            noun="series",
            details=details_of(fit.data) | {"collapse": PARALLEL, "n_series": n},
        )
        self._finish(posterior)

    def place(
        self,
        Y: str | os.PathLike[str],
        folder: str | os.PathLike[str],
        *,
        series: str | None = None,
        client: Any = None,
        n_draws: int = 50,
    ) -> list[Path]:
        """Write each series' cluster and its probabilities, one Parquet file for each of Y's.

        Series of the fit and new ones alike, each by itself given the clusters (see `assign`).

        Parameters
        ----------
        Y : path
            Of a Parquet file, a folder or a pattern: a row per series, a column per time, over the
            times of the fit.
        folder : path
            Where to write; made if it is not there. Files have the names of Y's, and their rows
            are in the same order.
        series : str, optional
            A column with names, which goes with them.
        client : distributed.Client, optional
            Cluster that does it.
        n_draws : int
            Draws to average over.

        Returns
        -------
        list of Path
            The files, with the columns ``cluster``, ``probability``, ``elsewhere``, ``p_0``, ...

        Examples
        --------
        >>> import pathlib, tempfile, pandas as pd
        >>> from cavity import SeriesMixture
        >>> from cavity.datasets import make_series
        >>> Y, truth = make_series(30, 60, n_clusters=3, random_state=1)
        >>> s = SeriesMixture(3, n_chains=2, n_warmup=40, n_draws=40, random_state=0).fit(Y)
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> frame = pd.DataFrame(Y, columns=[str(t) for t in range(60)])
        >>> frame.to_parquet(folder / "series.parquet")
        >>> (path,) = s.place(folder / "series.parquet", folder / "placed")
        >>> pd.read_parquet(path)["cluster"].shape
        (30,)
        """
        from cavity.series.placing import place_series

        check_is_fitted(self, "posterior_")
        check_client(client)
        return place_series(self._assigner(n_draws), Y, Path(folder), series, client)
