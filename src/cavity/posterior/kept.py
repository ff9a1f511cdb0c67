"""Draws as they were kept: checked against each other, with their shapes and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from cavity.posterior import _draws
from cavity.posterior.record import RunRecord
from cavity.posterior.units import Converted, Units


def _finite_shape(value: Any, name: str, head: tuple[int, ...]) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be numeric, got {array.dtype}")
    if array.shape[: len(head)] != head:
        raise ValueError(f"{name} must start with shape {head} as the labels do; got {array.shape}")
    return array


class KeptDraws:
    """What `cavity.posterior.Posterior` is made from; its docstring says what each part is."""

    def __init__(
        self,
        labels: Any,
        *,
        log_joint: Any = None,
        sweep_seconds: Any = None,
        labels_warmup: Any = None,
        parameters: Mapping[str, Any] | None = None,
        cluster_parameters: Iterable[str] = (),
        events: Mapping[str, Any] | None = None,
        point_log_lik: Any = None,
        names: Sequence[Any] | np.ndarray | None = None,
        record: RunRecord | None = None,
        units: Units | None = None,
        summaries: Mapping[str, Any] | None = None,
    ) -> None:
        self.labels = _draws.as_labels(labels, ndim=(3,))
        chains, draws, n = self.labels.shape
        head = (chains, draws)
        self.log_joint = None if log_joint is None else _finite_shape(log_joint, "log_joint", head)
        if self.log_joint is not None and self.log_joint.shape != head:
            raise ValueError(f"log_joint must have shape {head}; got {self.log_joint.shape}")
        self.sweep_seconds = (
            None
            if sweep_seconds is None
            else _finite_shape(sweep_seconds, "sweep_seconds", (chains,))
        )
        self.labels_warmup = None
        if labels_warmup is not None and np.size(labels_warmup):
            self.labels_warmup = _draws.as_labels(labels_warmup, ndim=(3,), what="labels_warmup")
            if self.labels_warmup.shape[::2] != (chains, n):
                raise ValueError(
                    f"labels_warmup must have shape ({chains}, warm-up sweep, {n}); "
                    f"got {self.labels_warmup.shape}"
                )
        self.drawn = {
            str(name): _finite_shape(value, f"parameters[{name!r}]", head)
            for name, value in (parameters or {}).items()
        }
        self.units = units
        self.parameters: Mapping[str, np.ndarray] = Converted(self.drawn, units)
        self.cluster_parameters = tuple(cluster_parameters)
        self._check_cluster_parameters()
        self.events = {
            str(name): _finite_shape(value, f"events[{name!r}]", (chains,))
            for name, value in (events or {}).items()
        }
        self.point_log_lik = (
            None
            if point_log_lik is None
            else _finite_shape(point_log_lik, "point_log_lik", (chains, draws, n))
        )
        self.names = self._check_names(names, n)
        self.record = RunRecord("") if record is None else record
        self.summaries = {str(k): np.asarray(v) for k, v in (summaries or {}).items()}

    def _check_cluster_parameters(self) -> None:
        top = int(self.labels.max())
        for name in self.cluster_parameters:
            if name not in self.drawn:
                raise ValueError(f"cluster_parameters names {name!r}, which parameters has not")
            shape = self.drawn[name].shape
            if len(shape) < 3 or shape[2] <= top:
                raise ValueError(
                    f"parameters[{name!r}] has shape {shape}; its third axis must be the cluster "
                    f"slot and reach the largest label, {top}"
                )

    @staticmethod
    def _check_names(names: Any, n: int) -> np.ndarray | None:
        if names is None:
            return None
        array = np.asarray(names)
        if array.ndim != 1:
            # Rows named by tuples (a pandas MultiIndex) become text.
            array = np.array([str(name) for name in names])
        if array.dtype.kind not in "iu":
            array = np.array([str(name) for name in array.tolist()])
        if len(array) != n:
            raise ValueError(f"names has {len(array)} entries for {n} observations")
        return array

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return self.labels.shape[0]

    @property
    def n_draws(self) -> int:
        """Number of kept draws of each chain."""
        return self.labels.shape[1]

    @property
    def n_observations(self) -> int:
        """Number of observations."""
        return self.labels.shape[2]

    @property
    def noun(self) -> str:
        """What one observation is called: "row", "series", or "observation" if it is not known."""
        return self.record.noun if self.record.model else "observation"

    @property
    def flat_labels(self) -> np.ndarray:
        """Labels of all chains' draws, one after the other: (chain * draw, n)."""
        return self.labels.reshape(-1, self.n_observations)

    def canonical_labels(self) -> np.ndarray:
        """Labels renamed in each draw by first appearance, so that equal partitions are equal."""
        return _draws.canonical(self.labels)

    @cached_property
    def _sizes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        head = self.labels.shape[:2]
        n_clusters, largest, entropy = _draws.size_summaries(self.flat_labels)
        return n_clusters.reshape(head), largest.reshape(head), entropy.reshape(head)

    @property
    def n_occupied(self) -> np.ndarray:
        """Number of occupied clusters in each draw, (chain, draw)."""
        return self._sizes[0]

    @property
    def largest_cluster(self) -> np.ndarray:
        """Size of the largest cluster in each draw, (chain, draw)."""
        return self._sizes[1]

    @property
    def size_entropy(self) -> np.ndarray:
        """Entropy of the cluster sizes in each draw (nats), (chain, draw)."""
        return self._sizes[2]
