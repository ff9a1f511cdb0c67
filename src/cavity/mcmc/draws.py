"""What one chain has drawn so far, in as little memory as it takes.

Rows already written are never touched again: a checkpoint can therefore be written from views of
these arrays while the chain goes on. Whenever a buffer must become wider (more clusters, a larger
integer type) a new one replaces it and the old one stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from cavity.mcmc.runner import Sampler
    from cavity.mcmc.schedule import Stage


class Drawn(NamedTuple):
    """Some draws, the first axis of every array."""

    labels: np.ndarray
    log_joint: np.ndarray
    record: dict[str, np.ndarray]


def current_draw(sampler: Sampler) -> Drawn:
    """Return the state of a sampler as one draw, which its running summaries take in."""
    labels, log_joint = sampler.labels()[None].copy(), np.array([sampler.log_joint()])
    drawn = Drawn(labels, log_joint, {k: np.array(v)[None] for k, v in sampler.record().items()})
    sampler.keep()
    return drawn


def mark_empty(record: dict[str, np.ndarray], names: Iterable[str], counts: np.ndarray) -> None:
    """Cut cluster parameters to the slots that are counted, and put NaN where a slot is empty."""
    empty = np.flatnonzero(counts == 0)
    for name in names:
        record[name] = np.array(record[name][: counts.size])
        if empty.size:
            record[name][empty] = np.nan


def smallest_integer_type(low: int, high: int) -> np.dtype[Any]:
    """Smallest integer type that holds `low` to `high`; unsigned unless `low` is negative.

    Examples
    --------
    >>> from cavity.mcmc.draws import smallest_integer_type
    >>> smallest_integer_type(0, 255), smallest_integer_type(0, 256)
    (dtype('uint8'), dtype('uint16'))
    """
    if low < 0:
        return np.promote_types(np.min_scalar_type(low), np.min_scalar_type(-max(high, 0) - 1))
    return np.min_scalar_type(high)


class LabelRows:
    """Rows of labels in the smallest integer type that has been needed so far."""

    def __init__(self, n_rows: int, n: int) -> None:
        self._buffer = np.empty((n_rows, n), dtype=np.uint8)
        self.n_written = 0

    @property
    def n_rows(self) -> int:
        """Rows that there is room for."""
        return len(self._buffer)

    def extend(self, rows: np.ndarray) -> None:
        """Write the next rows."""
        if rows.shape[1:] != self._buffer.shape[1:]:
            raise ValueError(
                f"the sampler gave labels of shape {rows.shape[1:]}, "
                f"after labels of shape {self._buffer.shape[1:]}"
            )
        self._fit(smallest_integer_type(int(rows.min(initial=0)), int(rows.max(initial=0))))
        self._buffer[self.n_written : self.n_written + len(rows)] = rows
        self.n_written += len(rows)

    def chosen(self, rows: np.ndarray, n_rows: int) -> LabelRows:
        """Some of the rows, with room for `n_rows` of them in all."""
        out = LabelRows(n_rows, self._buffer.shape[1])
        out.extend(self.written()[rows])
        return out

    def _fit(self, needed: np.dtype[Any]) -> None:
        dtype = np.promote_types(self._buffer.dtype, needed)
        if dtype != self._buffer.dtype:
            wider = np.empty(self._buffer.shape, dtype=dtype)
            wider[: self.n_written] = self._buffer[: self.n_written]
            self._buffer = wider

    def written(self) -> np.ndarray:
        """View of the rows so far."""
        return self._buffer[: self.n_written]


class ParameterRows:
    """Rows of one recorded quantity; with a cluster axis, padded by NaN as clusters appear."""

    def __init__(self, name: str, n_rows: int, first: np.ndarray, has_clusters: bool) -> None:
        self.name = name
        self.has_clusters = has_clusters
        self._inner = first.shape[1:] if has_clusters else first.shape
        dtype = first.dtype
        if has_clusters and dtype.kind != "f":
            dtype = np.dtype(np.float64)  # NaN marks a cluster that is not there
        shape = (n_rows, len(first), *self._inner) if has_clusters else (n_rows, *self._inner)
        self._buffer = np.empty(shape, dtype=dtype)
        self._n_clusters = len(first) if has_clusters else 0
        self.n_written = 0

    def extend(self, rows: np.ndarray) -> None:
        """Write the next rows."""
        if rows.shape[1 + self.has_clusters :] != self._inner:
            raise ValueError(
                f"the sampler's record {self.name!r} changed shape to {rows.shape[1:]}; only the "
                "first axis of a cluster parameter may change"
            )
        stop = self.n_written + len(rows)
        if not self.has_clusters:
            self._buffer[self.n_written : stop] = rows
        else:
            self._fit(rows.shape[1])
            self._buffer[self.n_written : stop, : rows.shape[1]] = rows
            self._buffer[self.n_written : stop, rows.shape[1] : self._n_clusters] = np.nan
        self.n_written = stop

    def chosen(self, rows: np.ndarray, n_rows: int) -> ParameterRows:
        """Some of the rows, with room for `n_rows` of them in all."""
        written = self.written()
        first = np.empty(written.shape[1:], dtype=written.dtype)
        out = ParameterRows(self.name, n_rows, first, self.has_clusters)
        out.extend(written[rows])
        return out

    def _fit(self, n_clusters: int) -> None:
        before = self._n_clusters
        if n_clusters <= before:
            return
        self._n_clusters = n_clusters
        capacity = self._buffer.shape[1]
        if n_clusters > capacity:
            # Grow by half again, so that clusters arriving one by one do not cost a copy each.
            capacity = max(n_clusters, capacity + capacity // 2)
            wider = np.empty((len(self._buffer), capacity, *self._inner), dtype=self._buffer.dtype)
            wider[: self.n_written, :before] = self._buffer[: self.n_written, :before]
            self._buffer = wider
        # Room beyond the clusters is never touched, so the system need not provide it.
        self._buffer[: self.n_written, before:n_clusters] = np.nan

    def written(self) -> np.ndarray:
        """View of the rows so far, as wide as the largest number of clusters."""
        rows = self._buffer[: self.n_written]
        return rows[:, : self._n_clusters] if self.has_clusters else rows


class Draws:
    """Everything one chain keeps: labels, log joint, recorded quantities, seconds per sweep.

    Parameters
    ----------
    n : int
        Observations.
    stage : Stage
        What is kept, and how much of it there will be.
    n_warmup : int or None
        Sweeps, from the first, whose labels are kept beside the draws; None for none.
    cluster_parameters : iterable of str
        Names of recorded quantities whose first axis is the cluster.
    """

    def __init__(
        self, n: int, stage: Stage, *, n_warmup: int | None, cluster_parameters: Iterable[str]
    ) -> None:
        self._cluster_parameters = frozenset(cluster_parameters)
        self._n_rows = max(stage.n_draws(), 1)
        self._labels = LabelRows(self._n_rows, n)
        self._warmup = None if n_warmup is None else LabelRows(n_warmup, n)
        self._log_joint = np.empty(self._n_rows)
        self._sweeps = np.empty(self._n_rows, dtype=np.int64)
        self._seconds = np.empty(stage.end)
        self._parameters: dict[str, ParameterRows] = {}
        self._blocks: dict[int, dict[str, np.ndarray]] = {}
        self.n_sweeps = 0

    @property
    def n_draws(self) -> int:
        """Draws so far."""
        return self._labels.n_written

    def enter(self, stage: Stage) -> None:
        """Let go of what a new stage does not keep, and make room for what it adds."""
        rows = np.flatnonzero(stage.keeps(self._sweeps[: self.n_draws]))
        self._n_rows = max(stage.n_draws(), len(rows), 1)
        self._log_joint = _chosen(self._log_joint, rows, self._n_rows)
        self._sweeps = _chosen(self._sweeps, rows, self._n_rows)
        self._seconds = _chosen(self._seconds, np.arange(self.n_sweeps), stage.end)
        for name, kept in self._parameters.items():
            self._parameters[name] = kept.chosen(rows, self._n_rows)
        self._labels = self._labels.chosen(rows, self._n_rows)
        self._blocks = {k: v for k, v in self._blocks.items() if k >= stage.n_warmup}

    def add_sweeps(self, n_sweeps: int, seconds: float) -> None:
        """Note the wall time of so many more sweeps together."""
        self._seconds[self.n_sweeps : self.n_sweeps + n_sweeps] = seconds / n_sweeps
        self.n_sweeps += n_sweeps

    def add_warmup(self, labels: np.ndarray) -> None:
        """Note the labels of one warm-up sweep, if these are kept."""
        if self._warmup is not None and self.n_sweeps <= self._warmup.n_rows:
            self._warmup.extend(labels[None])

    def add_draws(self, sweeps: np.ndarray | list[int], drawn: Drawn) -> None:
        """Note the states after these sweeps as draws."""
        if np.isnan(drawn.log_joint).any():
            raise ValueError(
                "The log joint density is not a number: data and priors are too far apart in scale "
                "for floating point. Use less extreme priors, or standardize the data."
            )
        if self.n_draws and drawn.record.keys() != self._parameters.keys():
            odd = sorted(drawn.record.keys() ^ self._parameters.keys())
            raise ValueError(f"the sampler records {odd} in some draws and not in others")
        for name, values in drawn.record.items():
            self._rows(name, values[0]).extend(values)
        rows = slice(self.n_draws, self.n_draws + len(drawn.labels))
        self._log_joint[rows] = drawn.log_joint
        self._sweeps[rows] = sweeps
        self._labels.extend(drawn.labels)

    def add_block(self, start: int, summaries: Mapping[str, np.ndarray]) -> None:
        """Note running summaries of the draws from `start` sweeps until now."""
        if summaries:
            self._blocks[start] = {name: np.array(value) for name, value in summaries.items()}

    def blocks(self) -> list[dict[str, np.ndarray]]:
        """Summaries of stretches of the draws, the earliest first."""
        return [self._blocks[start] for start in sorted(self._blocks)]

    def _rows(self, name: str, first: np.ndarray) -> ParameterRows:
        if name not in self._parameters:
            has_clusters = name in self._cluster_parameters
            self._parameters[name] = ParameterRows(name, self._n_rows, first, has_clusters)
        return self._parameters[name]

    def arrays(self) -> dict[str, np.ndarray]:
        """Views of everything so far, by name; `load` takes them back."""
        arrays = {
            "labels": self._labels.written(),
            "log_joint": self._log_joint[: self.n_draws],
            "sweeps": self._sweeps[: self.n_draws],
            "sweep_seconds": self._seconds[: self.n_sweeps],
        }
        if self._warmup is not None:
            arrays["labels_warmup"] = self._warmup.written()
        for name, rows in self._parameters.items():
            arrays[f"parameters/{name}"] = rows.written()
        for start, block in self._blocks.items():
            arrays |= {f"block/{start}/{name}": value for name, value in block.items()}
        return arrays

    def load(self, arrays: Mapping[str, np.ndarray], record: Mapping[str, np.ndarray]) -> None:
        """Take over the draws of an earlier run, which records the same quantities.

        The object must be empty.
        """
        n_draws = len(arrays["log_joint"])
        names = {name.partition("/")[2] for name in arrays if name.startswith("parameters/")}
        if n_draws and names != record.keys():
            raise ValueError(f"draws of {sorted(names ^ record.keys())} are missing or unknown")
        for name, rows in arrays.items():
            if rows.dtype.kind not in "biuf":
                raise ValueError(f"{name} are no numbers")
            drawn = name in ("labels", "sweeps") or name.startswith("parameters/")
            if drawn and len(rows) != n_draws:
                raise ValueError(f"{name} has {len(rows)} draws, log_joint has {n_draws}")
        if arrays["labels"].min(initial=0) < 0:
            raise ValueError("labels are negative")
        for name, rows in arrays.items():
            kind, _, rest = name.partition("/")
            if kind == "parameters" and len(rows):
                begin = rest in self._cluster_parameters
                if rows.shape[1 + begin :] != np.shape(record[rest])[begin:]:
                    raise ValueError(f"{name} has draws of another shape")
                self._rows(rest, rows[0]).extend(rows)
            elif kind == "block":
                start, _, summary = rest.partition("/")
                self._blocks.setdefault(int(start), {})[summary] = rows
        self._log_joint[: len(arrays["log_joint"])] = arrays["log_joint"]
        self._sweeps[: len(arrays["sweeps"])] = arrays["sweeps"]
        self._labels.extend(arrays["labels"])
        if self._warmup is not None:
            self._warmup.extend(arrays["labels_warmup"])
        self.n_sweeps = len(arrays["sweep_seconds"])
        self._seconds[: self.n_sweeps] = arrays["sweep_seconds"]


def _chosen(values: np.ndarray, rows: np.ndarray, size: int) -> np.ndarray:
    """Some values at the head of a new array; the old one stays as it is for a checkpoint."""
    out = np.empty(size, dtype=values.dtype)
    out[: len(rows)] = values[rows]
    return out


def stack_labels(rows: list[np.ndarray]) -> np.ndarray:
    """Stack the label rows of several chains in their common integer type; empties the list.

    Labels are what fills the memory of a long run: each chain's own are let go once copied, so
    that they never exist twice.
    """
    if len(rows) == 1:
        return rows.pop()[None]
    dtype = np.result_type(*(r.dtype for r in rows))
    out = np.empty((len(rows), *rows[0].shape), dtype=dtype)
    for chain in range(len(out)):
        out[chain] = rows.pop(0)
    return out


def stack_parameter(rows: list[np.ndarray], has_clusters: bool) -> np.ndarray:
    """Stack one quantity over chains; chains with fewer clusters are padded by NaN."""
    if not has_clusters:
        return np.stack(rows)
    n_clusters = max(r.shape[1] for r in rows)
    shape = (len(rows), len(rows[0]), n_clusters, *rows[0].shape[2:])
    out = np.full(shape, np.nan, dtype=np.result_type(*(r.dtype for r in rows)))
    for chain, r in enumerate(rows):
        out[chain, :, : r.shape[1]] = r
    return out


@dataclass(frozen=True)
class ChainRun:
    """What the chains drew.

    Attributes
    ----------
    labels : array of int, shape (chain, draw, n)
        In the smallest integer type that holds them.
    log_joint : array, shape (chain, draw)
    sweep_seconds : array, shape (chain, sweep)
        Wall time of every sweep, warm-up included.
    labels_warmup : array of int, shape (chain, sweep, n), or None
        Labels after each warm-up sweep, when these were kept.
    parameters : dict of arrays, each of shape (chain, draw, ...)
        Recorded quantities; NaN where a cluster did not exist.
    cluster_parameters : tuple of str
        Names in `parameters` whose third axis is the cluster.
    events : dict of arrays, each of shape (chain,)
        Counters of the samplers.
    samplers : list of Sampler
        The chains at their end. After an interrupt some may have gone a few sweeps further than
        the draws, which are cut to the number that all chains have.
    summaries : list of lists of dicts of arrays
        Each chain's running summaries of its kept draws, in stretches.
    entropy : int
        What the chains' generators were spawned from: the seed, drawn if none was given.
    stopped : {"n_draws", "converged", "modes", "max_sweeps", "max_seconds", "interrupted"}
        Why the run ended.
    n_warmup, thin : int
        Sweeps before the first draw, and sweeps per draw.
    aside : dict of int to dict
        Chains that were set aside, by their number, and what is known of them; all else is of the
        others.
    unvisited : tuple of mappings
        Modes that short runs found before the chains began and that no chain came to.
    """

    labels: np.ndarray
    log_joint: np.ndarray
    sweep_seconds: np.ndarray
    labels_warmup: np.ndarray | None
    parameters: dict[str, np.ndarray]
    cluster_parameters: tuple[str, ...]
    events: dict[str, np.ndarray]
    samplers: list[Sampler]
    summaries: list[list[dict[str, np.ndarray]]]
    entropy: int
    stopped: str
    n_warmup: int
    thin: int
    aside: dict[int, Mapping[str, Any]]
    unvisited: tuple[Mapping[str, Any], ...] = ()

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.stopped == "interrupted"


def assemble(
    samplers: list[Sampler], arrays: list[dict[str, np.ndarray]], n_draws: int, **more: Any
) -> ChainRun:
    """Stack the arrays of several chains; these are let go one by one, so none exists twice."""
    cluster_parameters = tuple(samplers[0].cluster_parameters)
    parameters = {
        name.partition("/")[2]: stack_parameter(
            [part.pop(name)[:n_draws] for part in arrays],
            has_clusters=name.partition("/")[2] in cluster_parameters,
        )
        for name in [key for key in arrays[0] if key.startswith("parameters/")]
    }
    warmup = None
    if "labels_warmup" in arrays[0]:
        least = min(len(part["labels_warmup"]) for part in arrays)
        warmup = stack_labels([part.pop("labels_warmup")[:least] for part in arrays])
    events = [sampler.events() for sampler in samplers]
    # Chains stopped before their first draw may stand at different sweeps.
    n_sweeps = min(int(part["sweeps"][n_draws - 1]) for part in arrays)
    return ChainRun(
        labels=stack_labels([part.pop("labels")[:n_draws] for part in arrays]),
        log_joint=np.stack([part["log_joint"][:n_draws] for part in arrays]),
        sweep_seconds=np.stack([part["sweep_seconds"][:n_sweeps] for part in arrays]),
        labels_warmup=warmup,
        parameters=parameters,
        cluster_parameters=cluster_parameters,
        events={
            name: np.array([float(event.get(name, 0.0)) for event in events]) for name in events[0]
        },
        samplers=samplers,
        **more,
    )
