"""The series model under each collapse, and the distance of EP's label draws from exact ones.

Every so many sweeps the probabilities of one series' cluster given all other labels are computed
twice: as EP draws it, and exactly. The diagnostics show their total variation. The chain itself is
not changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity._numba.arrays import fitting, saved_array
from cavity._numba.jit import Kernels, jit
from cavity._numba.simd import whole_vectors
from cavity.collapse.driver import AssembledModel
from cavity.collapse.ep import EPCollapse
from cavity.collapse.naive import NaiveCollapse
from cavity.collapse.registry import supports
from cavity.conjugate.common import load_slot, to_prior
from cavity.interface import evidences, hold, put_back
from cavity.priors.partition import named_slots, seat_weight
from cavity.series.corrected import CorrectedSeriesCollapse
from cavity.series.exact import (
    EvidenceWorkspace,
    ExactSeriesCollapse,
    evidence_workspace,
    group_evidence,
)
from cavity.series.likelihood import both_signs, factor_family, factor_paths
from cavity.series.problem import LONGEST_JOINT, SeriesProblem
from cavity.series.state_space import FactorSeries
from cavity.updates import Chain, Update

# Longest series for which exact probabilities are computed, and the share of a sweep's time that
# they may take, within bounds of one comparison in so many sweeps.
LONGEST, SHARE, OFTENEST, RAREST = 1000, 0.05, 5, 200


@jit(internal=True)
def _normalize(mass, weights):
    """Turn log scores into probabilities, under these weights."""
    top = -math.inf
    for k in range(weights.shape[0]):
        if weights[k] > 0.0:
            top = max(top, mass[k])
    total = 0.0
    for k in range(weights.shape[0]):
        mass[k] = weights[k] * math.exp(mass[k] - top) if weights[k] > 0.0 else 0.0
        total += mass[k]
    for k in range(weights.shape[0]):
        mass[k] /= total


def compare(state, room, prior, z, counts, i, held, weights, approximate, exact):
    """Total variation between EP's and the exact probabilities of series i's cluster.

    All empty slots count as one. `approximate` and `exact` receive the probabilities.
    """
    model, q = state.model, state.family
    home = np.int64(z[i])
    n_slots = counts.shape[0]
    counts[home] -= 1
    n_clusters = 0
    for k in range(n_slots):
        if counts[k] > 0:
            n_clusters += 1
    new = np.int64(-1)
    for k in range(n_slots):
        weights[k] = seat_weight(prior, counts, n_clusters, k)
        if counts[k] == 0 and weights[k] > 0.0:
            if new < 0:
                new = np.int64(k)
            else:
                if named_slots(prior):
                    weights[new] += weights[k]
                weights[k] = 0.0
    hold(q, home, held)
    if counts[home] == 0:
        to_prior(q, home)
    else:
        for p in range(q.natural.shape[1]):
            q.natural[home, p] -= state.sites[i, p]
        load_slot(q, home)
    evidences(model, q, i, approximate)
    for k in range(n_slots):
        approximate[k] = both_signs(
            model, i, model.scratch.signed[0, k], model.scratch.signed[1, k]
        )
    put_back(q, home, held)
    for k in range(n_slots):
        if weights[k] > 0.0:
            n = 0
            for j in range(z.shape[0]):
                if z[j] == k and j != i:
                    room.members[n] = j
                    n += 1
            before = group_evidence(model, room, n)[0]
            room.members[n] = i
            here, turned = group_evidence(model, room, n + 1)
            exact[k] = both_signs(model, i, here, turned) - before
    counts[home] += 1
    _normalize(approximate, weights)
    _normalize(exact, weights)
    distance = 0.0
    for k in range(n_slots):
        distance += 0.5 * abs(approximate[k] - exact[k])
    return distance


def sweeps_between(n: int, n_times: int, n_slots: int) -> int:
    """Return the number of sweeps between comparisons, which keeps their cost low.

    Nanoseconds, roughly as measured: exact evidences of all clusters, and a sweep of EP.
    """
    matrices = n_slots * n_times * n_times * (1.0 + 0.018 * n_times)
    comparison = 2.0 * matrices + 2.0 * n * n_times * (15.0 + 0.1 * n_times)
    sweep = n * n_times * (1.5 * n_slots + 150.0)
    if n_times <= 500:
        sweep += 2.5 * (matrices + n * n_times * (15.0 + 0.1 * n_times))
    return int(np.clip(math.ceil(comparison / (SHARE * sweep)), OFTENEST, RAREST))


class ExactComparison(Update):
    """Compares EP's conditional probabilities of labels with exact ones, now and then.

    Parameters
    ----------
    collapse : EPCollapse
        The chain's.
    """

    name = "comparison"
    # Before the series' parameters change: the sites are those that labels were drawn with.
    first = True

    def __init__(self, collapse: Any) -> None:
        model: FactorSeries = collapse.model
        n, n_times = model.cells.y.shape
        self.collapse = collapse
        self.every = sweeps_between(n, n_times, collapse.family.natural.shape[0])
        self.order = np.random.default_rng(0).permutation(n)
        self.n_sweeps = np.zeros(1, dtype=np.int64)
        # Number of comparisons, sum of their distances, the largest; whether draws are kept.
        self.found = np.zeros(4)
        self._room: EvidenceWorkspace | None = None
        self._kernels = Kernels()

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Compare a series if one is due; nothing is drawn."""
        self.n_sweeps += 1
        # The first sweep compares too: its kernel is compiled before any chain's clock runs.
        turn, rest = divmod(int(self.n_sweeps[0]) - 1, self.every)
        if rest:
            return
        if self._room is None:
            self._room = evidence_workspace(chain.model)
        size = chain.counts.size
        distance = self._kernels.run(
            compare, self.collapse.state, self._room, chain.prior, chain.z, chain.counts,
            int(self.order[turn % self.order.size]), self.collapse.state.held,
            np.zeros(size), np.zeros(size), np.zeros(size),
        )  # fmt: skip
        if math.isfinite(distance):
            self.found[:2] += 1.0, distance
            self.found[2] = max(self.found[2], distance)

    def keep(self, chain: Chain) -> None:
        """Reset at the first kept draw: comparisons of warm-up do not count."""
        if not self.found[3]:
            self.found[:] = 0.0, 0.0, 0.0, 1.0

    def forget(self) -> None:
        """Reset at the next kept draw."""
        self.found[3] = 0.0

    def events(self) -> dict[str, float]:
        """Comparisons, their mean distance and the largest."""
        number, total, largest, _ = self.found.tolist()
        if not number:
            return {}
        return {
            "labels_compared": number,
            "ep_distance": total / number,
            "ep_distance_worst": largest,
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the counters."""
        return {"n_sweeps": self.n_sweeps.copy(), "found": self.found.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray], chain: Chain) -> None:
        """Continue from ``arrays``."""
        for name in ("n_sweeps", "found"):
            setattr(self, name, fitting(saved_array(arrays, name), getattr(self, name), name))


# Moves of whole groups cost little compared with a sweep: more of them than usual, and
# as many for each series however few these are (moves by themselves try more where there are fewer
# than `FEW` observations): all other work of a sweep is for each series too.
EFFORT, FEW = 16.0, 500
# Seconds that a sweep may take if every series is proposed another cluster, and numbers that the
# clusters' matrices may hold: beyond, EP.
AFFORDABLE, MOST_NUMBERS = 1.0, 25_000_000
# Longest series for which a T x T matrix is kept for each cluster.
LONGEST_EXACT = 2000


def affordable_collapse(n: int, n_times: int, n_clusters: int) -> str:
    """The collapse for so many series of such a length, where the user states none.

    Examples
    --------
    >>> affordable_collapse(300, 200, 20), affordable_collapse(10_000, 200, 20)
    ('corrected', 'ep')
    """
    # An exact sampler must draw factors and states as one block.
    if n_times > LONGEST_JOINT or n_clusters * n_times * n_times > MOST_NUMBERS:
        return "ep"
    nanoseconds = 4000.0 + n_times * n_times * (1.0 + 0.018 * n_times)
    return "corrected" if 2e-9 * n * nanoseconds <= AFFORDABLE else "ep"


def _room(problem: SeriesProblem, n_slots: int) -> tuple[Any, Any, Any]:
    n_slots = whole_vectors(n_slots)
    n_times = problem.data.cells.y.shape[1]
    model = problem.likelihood(n_slots)
    return model, factor_family(n_times, n_slots), factor_paths(n_times, n_slots)


class SeriesEP(EPCollapse):
    """Expectation propagation for factors, whose signs can be turned."""

    def turn(self, z: np.ndarray, chosen: np.ndarray) -> None:
        """Turn the factors of the chosen slots around: their means, and their members' sites."""
        half = self.family.mean.shape[0]
        self.state.sites[chosen[z], half:] *= -1.0
        self.family.natural[chosen, half:] *= -1.0
        self.family.mean[:, chosen] *= -1.0


@supports("series", "ep")
def _(problem: SeriesProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    model, family, paths = _room(problem, n_slots)
    # Sites in single precision: half the memory; the clusters' sums stay double. The series'
    # parameters are drawn after every sweep, and every site follows them.
    # What the diagnostics show is the distance from exact, not how stale sites are.
    settings = {"site_type": np.float32, "refresh_every": 1, "staleness_every": 0, **options}
    n, n_times = model.cells.y.shape
    driver = SeriesEP(model, family, paths, n=n, **settings)
    updates = problem.updates(model, exact=False, approximate=True, turn=driver.turn)
    if n_times <= LONGEST:
        updates = (*updates, ExactComparison(driver))
    return AssembledModel(driver, updates)


@supports("series", "corrected")
def _(problem: SeriesProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    model, family, paths = _room(problem, n_slots)
    driver = CorrectedSeriesCollapse(model, family, paths)
    updates = problem.updates(model, exact=True, approximate=False)
    effort = EFFORT * problem.n / (problem.n + FEW)
    return AssembledModel(driver, updates, movable="confirmed", effort=effort)


@supports("series", "collapsed")
def _(problem: SeriesProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    model, family, paths = _room(problem, n_slots)
    driver = ExactSeriesCollapse(model, family, paths)
    return AssembledModel(driver, problem.updates(model, exact=True, approximate=False))


@supports("series", "naive")
def _(problem: SeriesProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    model, family, paths = _room(problem, n_slots)
    driver = NaiveCollapse(model, family, paths, conjugate=False)
    return AssembledModel(driver, problem.updates(model, exact=False, approximate=False))
