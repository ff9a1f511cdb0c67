"""What a mixture answers for rows in shards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from cavity.distributed.results import N_DRAWS
from cavity.estimators.mixture_answers import MixtureAnswers
from cavity.estimators.sharded import check_client, is_in_shards, predict_parts, source_of


class ShardAnswers(MixtureAnswers):
    """Methods of a fitted mixture for data in files or on a cluster."""

    def predict_to_parquet(
        self, X: Any, folder: str | os.PathLike[str], *, client: Any = None, n_draws: int = N_DRAWS
    ) -> list[Path]:
        """Write each row's cluster, probabilities and log density, one Parquet file per part of X.

        Rows of the fit and new ones alike. Files have the names of X's files, and their rows
        are in the same order.

        Parameters
        ----------
        X : path, Dask DataFrame, array or DataFrame
            With the columns of the fit; a path is that of a Parquet file, a folder or a pattern.
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
            ``log_density``, ``p_0``, ``p_1``, ... and ``p_unmatched``; see `membership`.

        Examples
        --------
        >>> import tempfile, numpy as np, pandas as pd
        >>> from cavity import GaussianMixture
        >>> X = np.random.default_rng(0).standard_normal((60, 2))
        >>> m = GaussianMixture(2, n_chains=1, n_warmup=20, n_draws=20, random_state=0).fit(X)
        >>> (path,) = m.predict_to_parquet(X, tempfile.mkdtemp())
        >>> pd.read_parquet(path).shape[0]
        60
        """
        check_is_fitted(self)
        check_client(client)
        self._refuse_noise_in_files()
        if is_in_shards(X):
            source = source_of(X, client, tuple(self.posterior_.record.columns), True)
        else:
            X = self._check_data(X, reset=False)
            source = source_of(X, client, tuple(self.posterior_.record.columns), False)
        return predict_parts(self, source, folder, client, n_draws)
