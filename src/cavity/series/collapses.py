"""The series model under its collapses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity._numba.simd import whole_vectors
from cavity.collapse.driver import AssembledModel
from cavity.collapse.ep import EPCollapse
from cavity.collapse.naive import NaiveCollapse
from cavity.collapse.registry import supports
from cavity.series.collapse_comparison import LONGEST, ExactComparison
from cavity.series.corrected import CorrectedSeriesCollapse
from cavity.series.exact import ExactSeriesCollapse
from cavity.series.likelihood import factor_family, factor_paths
from cavity.series.problem import LONGEST_JOINT, SeriesProblem

# Moves of whole groups cost little beside the other work of a sweep: more of them than usual, and
# as many for each series however few these are (moves by themselves try more where there are fewer
# than `FEW` observations): all other work of a sweep is for each series too.
EFFORT, FEW = 16.0, 500
# Seconds that a sweep may take if every series is proposed another cluster, and numbers that the
# clusters' matrices may hold: beyond, EP.
AFFORDABLE, MOST_NUMBERS = 1.0, 25_000_000


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
    driver = ExactSeriesCollapse(model, family, paths, options.get("route", "auto"))
    return AssembledModel(driver, problem.updates(model, exact=True, approximate=False))


@supports("series", "naive")
def _(problem: SeriesProblem, n_slots: int, options: Mapping[str, Any]) -> AssembledModel:
    model, family, paths = _room(problem, n_slots)
    driver = NaiveCollapse(model, family, paths, conjugate=False)
    return AssembledModel(driver, problem.updates(model, exact=False, approximate=False))
