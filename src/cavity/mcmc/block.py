"""Many sweeps of a chain in one compiled call, with the draws that are kept of them.

Between two sweeps nothing runs in Python, so that chains on threads do not wait for each other.
What a kept draw shows is one row of numbers: log joint density, log likelihood, log joint density
without cluster parameters, concentration, and then whatever each update shows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity._numba.jit import cycles, jit, wide_vectors
from cavity.conjugate.common import log_densities_of_parameters
from cavity.interface import (
    attempt,
    draw_parameters,
    family_of,
    log_likelihood,
    log_weight,
    parameters_of,
    refresh,
    show,
    step,
    tidy,
)
from cavity.mcmc.sweep import sweep_part
from cavity.priors.partition import log_prior, renew_slots

# Where a block stands: sweeps done, position in the scan (at its end, what follows the moves is
# still to come), draws kept, and what went wrong.
DONE, POSITION, KEPT, FAILURE = range(4)
# What a call does: sweeps, only what follows a scan and its moves, or one draw of the state.
SWEEPS, DRAW, SHOW = range(3)
# The first numbers of a row.
LOG_JOINT, LOG_LIKELIHOOD, LOG_MARGINAL, CONCENTRATION, SHOWN = range(5)


class Block(NamedTuple):
    """Work of one call, and room for the draws that it keeps."""

    task: int
    keeps: np.ndarray  # (sweeps,), whether each is a draw
    pause: int  # after the moves of the sweep of this number there is something to do in Python
    new_prior: bool  # whether updates change the prior of clusters
    at: np.ndarray  # (4,)
    clock: np.ndarray  # (2,), cycles of the moves, and of all
    order: np.ndarray  # (n,)
    weights: np.ndarray  # (slots,)
    slot: np.ndarray  # room for the natural parameters of one
    numbers: np.ndarray  # (draws, width)
    labels: np.ndarray  # (draws, n)
    sizes: np.ndarray  # (draws, slots)


@jit(internal=True)
def _draw_rest(state, beside, prior, z, counts, steps, new_prior, rng):
    """Draw what is not a label; a failure of what comes before the parameters is negative."""
    family, parameters = family_of(state, beside), parameters_of(state, beside)
    failed = step(steps.first, state.model, family, parameters, prior, z, counts, rng)
    if failed != 0:
        return -failed
    draw_parameters(state, beside, z, rng)
    failed = step(steps.rest, state.model, family, parameters, prior, z, counts, rng)
    if failed == 0:
        refresh(state, beside, z, counts, new_prior, rng)
    return failed


@jit(internal=True)
def _keep(state, beside, prior, z, counts, steps, block):
    """Write the state as a draw."""
    row = block.at[KEPT]
    out = block.numbers[row]
    model, family, parameters = state.model, family_of(state, beside), parameters_of(state, beside)
    before, after = log_densities_of_parameters(family, parameters, counts, block.slot)
    of_labels = log_prior(prior, counts)
    likelihood = log_likelihood(model, parameters, z)
    updates = log_weight(steps, model, family, parameters, prior, counts)
    total = of_labels + updates + likelihood + before
    out[LOG_JOINT] = total
    out[LOG_LIKELIHOOD] = likelihood
    # By Bayes' theorem: p(labels, data) = p(labels, data, parameters) / p(parameters | ...).
    out[LOG_MARGINAL] = total - after
    out[CONCENTRATION] = prior.concentration[0]
    show(steps, model, family, parameters, prior, counts, out[SHOWN:])
    for i in range(z.shape[0]):
        block.labels[row, i] = z[i]
    for k in range(counts.shape[0]):
        block.sizes[row, k] = counts[k]
    block.at[KEPT] += 1


def run_block(state, beside, prior, z, counts, moves, steps, block, rng):
    """Sweep until the block is done, or something is left to Python: see `block.at`."""
    wide_vectors()
    at = block.at
    if block.task == SHOW:
        _keep(state, beside, prior, z, counts, steps, block)
        return
    if block.task == DRAW:
        at[FAILURE] = _draw_rest(state, beside, prior, z, counts, steps, block.new_prior, rng)
        return
    n = z.shape[0]
    begun = cycles()
    while at[DONE] < block.keeps.shape[0]:
        if at[POSITION] < n:
            at[POSITION] = sweep_part(
                state, prior, z, counts, block.order, block.weights, at[POSITION], rng
            )
            if at[POSITION] < n:
                break
            renew_slots(prior, counts)
            before = cycles()
            attempt(moves, state, prior, z, counts, rng)
            block.clock[0] += cycles() - before
            renew_slots(prior, counts)
            tidy(state, z, counts)
            if at[DONE] + 1 == block.pause:
                break
        at[POSITION] = 0
        at[FAILURE] = _draw_rest(state, beside, prior, z, counts, steps, block.new_prior, rng)
        if at[FAILURE] != 0:
            break
        if block.keeps[at[DONE]]:
            _keep(state, beside, prior, z, counts, steps, block)
        at[DONE] += 1
    block.clock[1] += cycles() - begun
