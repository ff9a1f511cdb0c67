"""Functions shared by all families."""

from __future__ import annotations

from cavity._numba.jit import jit
from cavity.interface import common_density, draw, load, log_partition, prior_density


@jit(internal=True)
def load_slot(q, k):
    """Call ``load`` without copying it into the caller."""
    return load(q, k)


@jit(internal=True)
def to_prior(q, k):
    """Set slot k to the prior."""
    for p in range(q.natural.shape[1]):
        q.natural[k, p] = q.prior[p]
    load_slot(q, k)


@jit(internal=True)
def log_densities_of_parameters(q, parameters, counts, kept):
    """Log density of the occupied slots' parameters: in the prior, and in the slots themselves.

    `kept` is working memory for one slot.
    """
    natural = q.natural[0]
    # The first slot's memory holds the prior temporarily.
    for p in range(natural.shape[0]):
        kept[p] = natural[p]
    to_prior(q, 0)
    normaliser = log_partition(q, 0)
    for p in range(natural.shape[0]):
        natural[p] = kept[p]
    load_slot(q, 0)
    before, after = common_density(q)
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            before += prior_density(q, parameters, k) - normaliser
    # The same with each slot instead of the prior.
    for p in range(natural.shape[0]):
        kept[p] = q.prior[p]
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            for p in range(natural.shape[0]):
                q.prior[p] = q.natural[k, p]
            after += prior_density(q, parameters, k) - log_partition(q, k)
    for p in range(natural.shape[0]):
        q.prior[p] = kept[p]
    return before, after


def load_from(q, start):
    """Load every slot from `start` on."""
    for k in range(start, q.natural.shape[0]):
        load_slot(q, k)


def draw_from(q, parameters, start, rng):
    """Draw the parameters of every slot from `start` on; empty slots contain the prior."""
    for k in range(start, q.natural.shape[0]):
        draw(q, k, parameters, rng)


def draw_empty(q, parameters, counts, rng):
    """Set every empty slot to the prior and draw its parameters."""
    for k in range(q.natural.shape[0]):
        if counts[k] == 0:
            to_prior(q, k)
            draw(q, k, parameters, rng)


draw_slots, draw_empty_slots = jit(draw_from, internal=True), jit(draw_empty, internal=True)


@jit(internal=True)
def shift_slots(q, before):
    """Update every slot for a prior that has changed from `before`, with the same members."""
    for k in range(q.natural.shape[0]):
        for p in range(before.shape[0]):
            q.natural[k, p] += q.prior[p] - before[p]
        load_slot(q, k)


@jit(internal=True)
def first_occupied(counts):
    """First slot with members."""
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            return k
    return 0
