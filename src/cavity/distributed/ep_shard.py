"""What one shard does under expectation propagation: begin, sweep, answer.

A shard's labels and sites are its own and stay where it is; a sweep makes new ones from them, from
what it is told of the others and from a stream that it counts to, and leaves its arguments as they
are, so that a sweep that is repeated gives the same bits. Sums per cluster are all that leaves it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity._numba.jit import Kernels
from cavity.conjugate.niw import (
    GaussianParameters,
    normal_inverse_wishart,
    unpack,
)
from cavity.distributed.blocks import SWEEP, stream
from cavity.distributed.kernel import log_norms
from cavity.distributed.passes import Order, Shard, run_pass
from cavity.distributed.sites import load_slots, measure, put_in, shard_state, sum_sites
from cavity.likelihoods.student_t import student_t
from cavity.mcmc.sweep import sweep

# Rows whose distances from all clusters are in memory at once, at the start.
CHUNK = 1 << 16


class Told(NamedTuple):
    """What a shard is told: priors, parameters as drawn last, and the sites elsewhere."""

    prior: np.ndarray  # (P,), natural parameters of the clusters' prior
    partition: Any  # the partition prior's state
    alpha: np.ndarray  # (slots,), half the degrees of freedom
    parameters: GaussianParameters
    log_weight: np.ndarray  # (slots,), for a start
    others: np.ndarray  # (slots, P)
    elsewhere: np.ndarray  # (slots,)
    rungs: np.ndarray  # one over degrees of freedom to try, as in `cavity.distributed.kernel`
    key: tuple[int, int]
    fraction: float
    damping: float
    every: int  # sweeps from one projection of a row that stays to the next


class Answer(NamedTuple):
    """What a shard tells."""

    sums: np.ndarray  # (slots, P)
    counts: np.ndarray  # (slots,)
    labels: np.ndarray  # of the followed rows
    tails: np.ndarray  # like the rungs, of the labels before the sweep
    log_density: float  # of the rows, given the labels before the sweep
    counters: np.ndarray
    token: str


class Own(NamedTuple):
    """What a shard keeps from one sweep to the next."""

    z: np.ndarray
    sites: np.ndarray
    n_sweeps: int
    answer: Answer


def _rows(shard: Shard) -> np.ndarray:
    return np.ascontiguousarray(shard.y[:, : shard.layout.n_rows].T)


def _copied(value: Any) -> Any:
    """Arrays that kernels may write to; those that come over the network they may not."""
    return value._replace(**{name: np.array(getattr(value, name)) for name in value._fields})


class _Work:
    """One task: kernels and state, from what a shard has and is told."""

    def __init__(self, shard: Shard, told: Told, sites: np.ndarray, n_sweeps: int) -> None:
        self.y = _rows(shard)
        self.told = told
        family = normal_inverse_wishart(
            *unpack(np.array(told.prior), self.y.shape[1]), told.alpha.size
        )
        # Packed and unpacked again it need not be the same to the last bit.
        family.prior[:] = told.prior
        alpha = np.array(told.alpha)
        model = student_t(self.y, alpha, told.fraction)
        self.state = shard_state(
            model, family, sites, np.array(told.elsewhere), told.fraction, told.damping, n_sweeps,
            told.every,
        )  # fmt: skip
        self.kernels = Kernels()

    def load(self, z: np.ndarray) -> None:
        """Bring the slots in line with labels and sites."""
        improper = np.empty(self.told.alpha.size, dtype=bool)
        others = np.array(self.told.others)
        if self.kernels.run(load_slots, self.state, z, others, improper):
            self.kernels.run(put_in, self.state, z, improper)

    def measure(self, z: np.ndarray) -> tuple[np.ndarray, float]:
        """What the rows say of degrees of freedom to try, and their density in their clusters."""
        parameters = _copied(self.told.parameters)
        rungs, tails = np.array(self.told.rungs), np.zeros_like(self.told.rungs)
        constant = log_norms(self.told.alpha, self.y.shape[1]) - parameters.half_log_det
        log_density = self.kernels.run(
            measure, self.y, z, parameters, self.state.model.alpha, constant, rungs, tails
        )
        return tails, float(log_density)

    def answer(
        self, shard: Shard, z: np.ndarray, n_sweeps: int, tails: np.ndarray, log_density: float
    ) -> Own:
        """Sum up."""
        n_slots, width = self.state.base.shape
        sums, counts = np.zeros((n_slots, width)), np.zeros(n_slots, dtype=np.int64)
        self.kernels.run(sum_sites, z, self.state.sites, sums, counts)
        answer = Answer(
            sums, counts, z[shard.followed].astype(np.int32), tails, log_density,
            self.state.counters, shard.token,
        )  # fmt: skip
        return Own(z, self.state.sites, n_sweeps, answer)


def begin(
    shard: Shard, told: Told, labels: np.ndarray | Order | None = None, n_sweeps: int = 0
) -> Own:
    """Labels and their sites: the most likely labels, given ones, or those that a pass draws."""
    work = _Work(shard, told, np.zeros((shard.layout.n_rows, told.prior.size)), n_sweeps)
    if labels is None:
        z = likely_labels(work.y, told)
    elif isinstance(labels, Order):
        z = np.empty(shard.layout.n_rows, dtype=np.int32)
        run_pass(shard, labels, labels_out=z)
    else:
        z = np.array(labels, dtype=np.int32)
    tails, log_density = work.measure(z)
    work.load(np.zeros(0, dtype=np.int32))
    work.kernels.run(put_in, work.state, z, np.ones(told.alpha.size, dtype=bool))
    return work.answer(shard, z, n_sweeps, tails, log_density)


def likely_labels(y: np.ndarray, told: Told) -> np.ndarray:
    """The cluster with the largest share in every row, given parameters and weights."""
    n, d = y.shape
    whiten = np.moveaxis(told.parameters.whiten, 2, 0)
    mean = told.parameters.mean.T
    constant = told.log_weight + log_norms(told.alpha, d) - told.parameters.half_log_det
    z = np.empty(n, dtype=np.int32)
    for start in range(0, n, CHUNK):
        rows = y[start : start + CHUNK]
        score = np.empty((mean.shape[0], len(rows)))
        for k in range(mean.shape[0]):
            delta = (((rows - mean[k]) @ whiten[k].T) ** 2).sum(axis=1)
            a = told.alpha[k]
            score[k] = constant[k] - (a + 0.5 * d) * np.log1p(0.5 * delta / a)
        z[start : start + CHUNK] = score.argmax(axis=0)
    return z


def sweep_once(shard: Shard, own: Own, told: Told) -> Own:
    """One sweep over the rows of a shard; `own` is left as it is."""
    work = _Work(shard, told, own.sites.copy(), own.n_sweeps)
    z = own.z.copy()
    # Labels as they were go with the parameters, which were drawn given them.
    tails, log_density = work.measure(z)
    work.load(z)
    counts = np.bincount(z, minlength=told.alpha.size) + told.elsewhere
    prior = _copied(told.partition)
    rng = stream(told.key, shard.layout.first_block, own.n_sweeps, SWEEP)
    order = np.arange(z.size, dtype=np.int32)
    done = work.kernels.run(
        sweep, work.state, prior, z, counts, order, np.zeros(counts.size), 0, rng
    )
    if done < 0:
        row = shard.layout.first_row + int(order[-1 - done])
        raise FloatingPointError(
            f"no cluster gives row {row} a finite score; check its values against the scale of "
            "the others"
        )
    return work.answer(shard, z, own.n_sweeps + 1, tails, log_density)


def answer_of(own: Own) -> Answer:
    """What a shard tells after its sweep."""
    return own.answer


def labels_of(own: Own) -> np.ndarray:
    """Labels of all its rows, in as few bytes as hold them."""
    return own.z.astype(np.min_scalar_type(own.answer.counts.size))
