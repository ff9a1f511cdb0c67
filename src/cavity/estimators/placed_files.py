"""Where each row of a fit's data, or of new data, belongs: written file by file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.estimators.sharded import check_client
from cavity.models.predictive import spread_draws
from cavity.posterior.posterior import Posterior
from cavity.scale.results import N_DRAWS, place_all


class FilePlacing:
    """The method `place` of estimators that take rows in shards."""

    posterior_: Posterior

    def _to_place(self, X: Any, client: Any) -> Any:
        """The source of rows to be placed."""
        raise TypeError("an estimator says how its data are read")

    def _placement(self, chosen: np.ndarray, source: Any) -> Any:
        """What places the rows of a source, by the chosen draws."""
        raise TypeError("an estimator says how its rows are placed")

    def place(
        self, X: Any, folder: str | os.PathLike[str], *, client: Any = None, n_draws: int = N_DRAWS
    ) -> list[Path]:
        """Write each row's cluster, probabilities and log density, one Parquet file per part of X.

        Rows of the fit and new ones alike. Files have the names of X's files, and their rows
        are in the same order.

        Parameters
        ----------
        X : path, Dask DataFrame, array or DataFrame
            With the columns of the fit; a path is that of a Parquet file, a folder or a pattern.
            Of a table, categories that the fit has not seen are taken as missing.
        folder : path
            Where to write; made if it is not there.
        client : distributed.Client, optional
            Cluster that does it.
        n_draws : int
            Draws to average over, evenly spread.

        Returns
        -------
        list of Path
            The files, with the columns ``cluster``, ``probability`` (of that cluster),
            ``log_density``, ``p_0``, ``p_1``, ... and ``elsewhere``; see `membership`.

        Examples
        --------
        >>> import tempfile, numpy as np, pandas as pd
        >>> from cavity import GaussianMixture
        >>> X = np.random.default_rng(0).standard_normal((60, 2))
        >>> m = GaussianMixture(2, n_chains=1, n_warmup=20, n_draws=20, random_state=0).fit(X)
        >>> (path,) = m.place(X, tempfile.mkdtemp())
        >>> pd.read_parquet(path).shape[0]
        60
        """
        check_is_fitted(self, "posterior_")
        check_client(client)
        source = self._to_place(X, client)
        posterior = self.posterior_
        chosen = spread_draws(posterior.n_chains * posterior.n_draws, n_draws)
        return place_all(source, self._placement(chosen, source), Path(folder), client)
