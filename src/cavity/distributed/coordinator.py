"""What coordinates shards: all of a chain's state but labels, and what a draw of it says.

Slots, parameters of clusters as drawn last, priors that are learned: a few kilobytes in the process
that calls ``fit``. The labels that the runner sees are those of the rows that are followed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import fitting, flatten, rebuilt, saved_array
from cavity._numba.jit import Kernels
from cavity.conjugate.common import log_densities_of_parameters
from cavity.distributed.clusters import Makeup
from cavity.distributed.df_grid import Tails, log_density, no_ladder
from cavity.distributed.executor import ShardExecutor
from cavity.distributed.kernel import atoms_of
from cavity.distributed.mixture_weights import Weights, log_first
from cavity.distributed.passes import PassTotal, ShardRequest, run_all
from cavity.distributed.pilot import Scouts
from cavity.distributed.split_merge import KINDS, Mixture, SplitMerge
from cavity.likelihoods.degrees_of_freedom import draw_df
from cavity.mcmc.chain import Describe, prior_of_partition
from cavity.priors.partition import is_open
from cavity.updates import Update


def densities_of_parameters(q, parameters, counts, kept):
    """Log densities of the occupied slots' parameters, as an entry kernel."""
    return log_densities_of_parameters(q, parameters, counts, kept)


class Model(NamedTuple):
    """What updates read of a likelihood."""

    alpha: np.ndarray


class Coordinator:
    """Base of the samplers over shards.

    Parameters
    ----------
    executor : ShardExecutor
        With its rows loaded.
    scouts : Scouts
        The rows that are followed.
    makeup : Makeup
        The prior of clusters' parameters.
    prior : NamedTuple
        The partition prior's state, with a slot for every cluster.
    tails : Tails
    updates : iterable of Update
        What learns the priors.
    n_slots : int
    rng : numpy.random.Generator
    moves : bool
        Whether splits and merges are tried.
    describe : callable, optional
        See `cavity.mcmc.chain.PartitionSampler`.
    cluster_parameters : tuple of str
        What it gives with a cluster axis.
    """

    counts: np.ndarray
    z: np.ndarray
    weights: Weights

    def __init__(
        self,
        executor: ShardExecutor,
        scouts: Scouts,
        makeup: Makeup,
        prior: Any,
        tails: Tails,
        updates: Iterable[Update],
        n_slots: int,
        rng: np.random.Generator,
        moves: bool = True,
        describe: Describe | None = None,
        cluster_parameters: tuple[str, ...] = (),
    ) -> None:
        self.executor = executor
        self.scouts = scouts
        self.prior = prior
        self.tails = tails
        self.updates = tuple(updates)
        self.describe = describe
        own = () if math.isinf(tails.df) else ("df",)
        self.cluster_parameters = (*cluster_parameters, *own)
        self.d = scouts.d
        self.makeup = makeup
        self.family: Any
        self.parameters: Any
        self.family, self.parameters = makeup.families(n_slots)
        self.model = Model(np.full(n_slots, 0.5 * tails.df))
        first, second = (int(word) for word in rng.integers(0, 2**63, size=2))
        self.key = first, second
        self.n_sweeps = 0
        self._kernels = Kernels()
        self._log_likelihood = math.nan
        self._log_marginal = math.nan  # of the state that log_joint saw last
        self.ladder = no_ladder()
        has_weights = hasattr(prior, "concentration")
        self._moves = SplitMerge(scouts, executor.n_rows) if moves and has_weights else None
        self._accepted = dict.fromkeys(KINDS, 0)
        self._asked = dict.fromkeys(KINDS, 0)
        self._log_mixture = math.nan  # of all rows, labels summed out
        self._table: np.ndarray | None = None

    @property
    def n_slots(self) -> int:
        """Room for so many clusters."""
        return self.counts.size

    @property
    def n_used(self) -> int:
        """Slots that a record tells of."""
        return int(np.flatnonzero(self.counts)[-1]) + 1 if is_open(self.prior) else self.n_slots

    def _renew_empty_tails(self, rng: np.random.Generator) -> None:
        """Degrees of freedom of clusters without rows, from their prior."""
        if self.tails.learn == "each":
            empty = np.flatnonzero(self.counts == 0)
            self.model.alpha[empty] = 0.5 * draw_df(*self.tails.gamma, empty.size, rng)

    # ------------------------------------------------------------------ splits and merges

    def _mixture(self) -> Mixture:
        locations = self.makeup.locations(self.parameters, self.n_slots)
        return Mixture(self.weights.weight, locations, self.model.alpha)

    def _set(self, mixture: Mixture) -> None:
        self.weights = self.weights._replace(weight=mixture.weight)
        self.makeup.set_locations(self.parameters, mixture.locations)

    def _request(
        self, mixture: Mixture, purpose: int, ladder: np.ndarray | None = None
    ) -> ShardRequest:
        mean, whiten, half_log_det, log_share, log_rate = (
            np.array(part) for part in zip(*mixture.locations, strict=True)
        )
        atoms = atoms_of(
            mixture.weight, mean, whiten, half_log_det, mixture.alpha, log_share, log_rate
        )
        rungs = no_ladder() if ladder is None else 1.0 / ladder
        return ShardRequest(atoms, rungs, self.key, self.n_sweeps, purpose)

    def _try(
        self, kind: str, purpose: int, ladder: np.ndarray | None, rng: np.random.Generator
    ) -> PassTotal | None:
        """Propose a split or merge; what a pass over all rows has drawn, if it was accepted."""
        assert self._moves is not None
        now = self._mixture()
        found = self._moves.propose(
            now, self._scouted(now), self.prior, self.family.prior, kind, rng
        )
        if found is None:
            return None
        self._asked[kind] += 1
        request = self._request(found.mixture, purpose, ladder)
        drawn = run_all(self.executor, request)
        weights = self.weights._replace(weight=found.mixture.weight)
        gain = drawn.log_mixture - self._log_mixture - found.scouted
        gain += log_first(weights, np.rint(drawn.statistics[:, 1]))
        gain -= log_first(self.weights, self.counts)
        if not math.log1p(-rng.random()) < gain:
            return None
        self._accepted[kind] += 1
        self._set(found.mixture)
        self._log_mixture = drawn.log_mixture
        self._table = None
        return drawn

    def _scouted(self, now: Mixture) -> np.ndarray:
        """What the scouts say of the present clusters, computed once."""
        if self._table is None:
            self._table = self.scouts.table(self._request(now, 0).atoms, now.locations)
        return self._table

    def _move_events(self) -> dict[str, float]:
        """How often splits and merges were tried, weighed by a pass, and accepted."""
        out = {}
        if self._moves is not None:
            for kind in KINDS:
                out[f"{kind}_tries"] = float(self._moves.tried[kind])
                out[f"{kind}_accepted"] = float(self._accepted[kind])
                out[f"{kind}_evidences"] = float(self._asked[kind])
        return out

    def _counted(self) -> np.ndarray:
        tried = {} if self._moves is None else self._moves.tried
        parts = (tried, self._accepted, self._asked)
        return np.array([part.get(kind, 0) for part in parts for kind in KINDS])

    def _restore_counted(self, counted: np.ndarray) -> None:
        tried = {} if self._moves is None else self._moves.tried
        for part, own in zip(
            (tried, self._accepted, self._asked), counted.reshape(3, -1), strict=True
        ):
            part.update(zip(KINDS, (int(value) for value in own), strict=True))

    # ------------------------------------------------------------------ what a draw says

    def labels(self) -> np.ndarray:
        """Current slot of every followed row."""
        return self.z

    def _log_joint(self, of_rows: float, counts: np.ndarray | None = None) -> float:
        """Log joint density, given that of the rows and the cluster sizes that go with it."""
        counts = self.counts if counts is None else counts
        total = of_rows + self._kernels.run(prior_of_partition, self.prior, counts)
        total += sum((update.log_density(self) for update in self.updates), 0.0)
        before, after = self._kernels.run(
            densities_of_parameters, self.family, self.parameters, self.counts,
            np.empty(self.family.natural.shape[1]),
        )  # fmt: skip
        total += before + log_density(self.model.alpha, self.counts, self.tails)
        self._log_marginal = float(total - after)
        return float(total)

    def record(self) -> dict[str, np.ndarray]:
        """Cluster parameters, whatever the updates show, log densities and concentration."""
        out = {} if self.describe is None else self.describe(self)  # type: ignore[arg-type]
        for update in self.updates:
            out |= update.record(self)
        if not math.isinf(self.tails.df):
            out["df"] = 2.0 * self.model.alpha
        used = self.n_used
        for name in self.cluster_parameters:
            values = np.array(out[name][:used])
            values[self.counts[:used] == 0] = np.nan
            out[name] = values
        out["log_likelihood"] = np.array(self._log_likelihood)
        out["log_marginal"] = np.array(self._log_marginal)
        if hasattr(self.prior, "concentration"):
            out["concentration"] = self.prior.concentration[0].copy()
        return out

    def note_prior(self) -> None:
        """Slots are made of the prior as it is whenever they are loaded."""

    def keep(self) -> None:
        """Nothing is summed up on the way."""

    def summaries(self) -> dict[str, np.ndarray]:
        """None."""
        return {}

    def forget(self) -> None:
        """None."""

    # ------------------------------------------------------------------ survival

    def _arrays(self) -> dict[str, np.ndarray]:
        """Copies of what the samplers have in common."""
        return {
            "key": np.array(self.key, dtype=np.int64),
            "n_sweeps": np.array(self.n_sweeps),
            "alpha": self.model.alpha.copy(),
            "log_likelihood": np.array(self._log_likelihood),
            "log_mixture": np.array(self._log_mixture),
            "moved": self._counted(),
            **flatten(self.prior, "prior."),
            **flatten(self.family, "family."),
            **flatten(self.parameters, "parameters."),
            **{
                f"update.{update.name}.{name}": value
                for update in self.updates
                for name, value in update.arrays().items()
            },
        }

    def _restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take that over; slots, labels and sizes are there already."""
        self.model = Model(fitting(saved_array(state, "alpha"), self.model.alpha, "alpha"))
        self._log_likelihood = float(saved_array(state, "log_likelihood"))
        self._log_mixture = float(saved_array(state, "log_mixture"))
        self._restore_counted(fitting(saved_array(state, "moved"), self._counted(), "moved"))
        self._table = None
        first, second = (int(word) for word in saved_array(state, "key"))
        self.key = first, second
        self.n_sweeps = int(saved_array(state, "n_sweeps"))
        self.prior = rebuilt(self.prior, state, "prior.")
        self.family = rebuilt(self.family, state, "family.")
        self.parameters = rebuilt(self.parameters, state, "parameters.")
        for update in self.updates:
            prefix = f"update.{update.name}."
            own = {k[len(prefix) :]: v for k, v in state.items() if k.startswith(prefix)}
            update.restore(own, self)
