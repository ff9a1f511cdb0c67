"""What a mixture answers for rows in shards."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.estimators.mixture_answers import MixtureAnswers
from cavity.estimators.placed_files import FilePlacing
from cavity.estimators.sharded import is_in_shards, source_of
from cavity.scale.results import Placement


class ShardAnswers(FilePlacing, MixtureAnswers):
    """Methods of a fitted mixture for data in files or on a cluster."""

    def _to_place(self, X: Any, client: Any) -> Any:
        sharded = is_in_shards(X)
        rows = X if sharded else self._check_data(X, reset=False)
        return source_of(rows, client, tuple(self.posterior_.record.columns), sharded)

    def _placement(self, chosen: np.ndarray, source: Any) -> Placement:
        units = self._units
        return Placement(self._packed(chosen), self.n_clusters_, units.centre, units.scale)
