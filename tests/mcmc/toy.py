"""A sampler in plain NumPy whose clusters come and go, for tests of the runner alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cavity.mcmc import runner as chains
from cavity.mcmc.draws import ChainRun
from cavity.mcmc.schedule import AutomaticSchedule, FixedSchedule


class RandomWalk:
    """Labels that wander over slots; the number of slots grows, parameters follow."""

    cluster_parameters = ("centre", "size")

    def __init__(self, n: int, rng: np.random.Generator, *, growth: float = 0.05) -> None:
        self.z = rng.integers(0, 3, size=n)
        self.centre = rng.standard_normal((3, 2))
        self.growth = growth
        self.sum_centre = np.zeros(2)
        self.n_kept = 0
        self.n_moves = 0

    def sweep(self, rng: np.random.Generator) -> None:
        if rng.random() < self.growth:
            self.centre = np.vstack([self.centre, rng.standard_normal((1, 2))])
        moving = rng.random(len(self.z)) < 0.3
        self.n_moves += int(moving.sum())
        self.z[moving] = rng.integers(0, len(self.centre), size=moving.sum())
        self.centre += 0.1 * rng.standard_normal(self.centre.shape)
        rng.integers(0, 100, dtype=np.uint32)  # leaves half a word in the bit generator

    def labels(self) -> np.ndarray:
        return self.z

    def log_joint(self) -> float:
        return float(-0.5 * np.sum(self.centre**2))

    def record(self) -> dict[str, np.ndarray]:
        return {
            "centre": self.centre,
            "size": np.bincount(self.z, minlength=len(self.centre)),
            "spread": np.array(self.centre.std()),
        }

    def keep(self) -> None:
        self.sum_centre += self.centre.sum(axis=0)
        self.n_kept += 1

    def events(self) -> dict[str, float]:
        return {"moves": float(self.n_moves)}

    def summaries(self):
        return {"n_kept": np.array(self.n_kept), "sum_centre": self.sum_centre}

    def forget(self) -> None:
        self.n_kept = 0
        self.sum_centre = np.zeros(2)

    def state(self) -> dict[str, np.ndarray]:
        return {
            "z": self.z.copy(),
            "centre": self.centre.copy(),
            "sum_centre": self.sum_centre.copy(),
            "counts": np.array([self.n_kept, self.n_moves]),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.z = state["z"].copy()
        self.centre = state["centre"].copy()
        self.sum_centre = state["sum_centre"].copy()
        self.n_kept, self.n_moves = (int(v) for v in state["counts"])


def run_chains(
    make_sampler, *, n_warmup=200, n_draws=300, thin=1, early=False, **settings
) -> ChainRun:
    """A run of so many draws."""
    length = FixedSchedule(n_warmup, n_draws, thin, early)
    return chains.run_chains(make_sampler, length, **settings)


def run_until(
    judge, make_sampler, *, n_warmup=20, max_sweeps=2000, thin=1, early=False, **settings
):
    """An automatic run."""
    length = AutomaticSchedule(judge, n_warmup, max_sweeps, thin, early)
    return chains.run_chains(make_sampler, length, **settings)


def make_walk(n: int = 40, **options: float):
    """A factory of started samplers, as `run_chains` wants it."""
    return lambda chain, rng: RandomWalk(n, rng, **options)


def assert_same_draws(a, b) -> None:
    """Equal bit for bit in all but the time it took."""
    np.testing.assert_array_equal(a.labels, b.labels)
    assert a.labels.dtype == b.labels.dtype
    np.testing.assert_array_equal(a.log_joint, b.log_joint)
    assert a.parameters.keys() == b.parameters.keys()
    for name, values in a.parameters.items():
        np.testing.assert_array_equal(values, b.parameters[name], err_msg=name)
    for name, counts in a.events.items():
        np.testing.assert_array_equal(counts, b.events[name], err_msg=name)
    assert (a.labels_warmup is None) == (b.labels_warmup is None)
    if a.labels_warmup is not None:
        np.testing.assert_array_equal(a.labels_warmup, b.labels_warmup)
    for one, other in zip(a.summaries, b.summaries, strict=True):
        for first, second in zip(one, other, strict=True):
            for name, value in first.items():
                np.testing.assert_array_equal(value, second[name], err_msg=name)
    assert (a.stopped, a.n_warmup, a.thin, a.aside) == (b.stopped, b.n_warmup, b.thin, b.aside)
    for one, other in zip(a.samplers, b.samplers, strict=True):
        for name, value in one.state().items():
            np.testing.assert_array_equal(value, other.state()[name], err_msg=name)
