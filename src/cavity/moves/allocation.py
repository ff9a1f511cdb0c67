"""A sequential allocation for moves, where slots do not give the evidence of their members.

Moves of exact collapses are in `cavity.moves.division`.

Members of some clusters are taken out and put back one after another: the first into slot a, the
second into slot b where there are two, every further one into a or b with probability
proportional to prior weight times evidence. What the evidence integrates out of a member is drawn
with its label.

By the chain rule the probability of the state over that of the proposal is the product of the
normalisers N_t = sum over the slots allowed of weight times evidence, whatever was drawn. So a
proposal is accepted by sum log N_t along its own path, less the same along the path that leads
back: the old labels and variables forced through in the same order.

Under expectation propagation a member is put in by projection, one after another, and what is its
own is its site, computed anew on either path. The sum of the logarithms of the evidences met is
then EP's evidence of the partition after a single pass in that order: an approximation, and so is
the acceptance. Refused, slots and sites are as they were.

A collapse whose slots approximate an exact target has the last word: what is accepted here is
confirmed there (``confirm``), by the ratio of exact to approximate evidence.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity.conjugate.common import load_slot, to_prior
from cavity.interface import (
    complete,
    confirm,
    evidence,
    insert,
    note,
    recall,
    remove,
)
from cavity.priors.partition import join, leave, log_seat


class Room(NamedTuple):
    """Scratch space of the moves of one chain."""

    members: np.ndarray  # (n,) of the clusters at hand, in the order of their allocation
    labels: np.ndarray  # (2, n) old and new
    values: np.ndarray  # (n, own) what was each member's own before
    kept: np.ndarray  # (5, P) natural parameters of the slots at hand
    work: np.ndarray  # (1,) evidences computed


OLD, NEW = 0, 1
# Columns of a tally: tries that found a proposal, those that changed labels, evidences computed.
TRIES, ACCEPTED, WORK = 0, 1, 2
NO_SLOT = np.int64(-1)
NO_GROUP = (NO_SLOT, NO_SLOT, NO_SLOT)


def room_for(n: int, width: int, own: int) -> Room:
    """Room for n observations with `own` numbers each, and natural parameters of this width."""
    return Room(
        np.zeros(n, dtype=np.int64),
        np.zeros((2, n), dtype=np.int64),
        np.zeros((n, own)),
        np.zeros((5, width)),
        np.zeros(1, dtype=np.int64),
    )


@jit(internal=True)
def gather_members(state, z, first, second, a, b, room, start, rng):
    """Members of slots a and b (or a alone for b = -1) from place `start` on, the anchors first.

    The others come in random order. Their labels and what is their own are noted. Returns where
    they end.
    """
    members = room.members
    members[start] = first
    members[start + 1] = second
    stop = start + 2
    for i in range(z.shape[0]):
        if (z[i] == a or z[i] == b) and i != first and i != second:
            members[stop] = i
            stop += 1
    shuffle_and_note(state, z, room, start, 2, stop, rng)
    return stop


@jit(internal=True)
def shuffle_members(z, room, start, n_first, stop, rng):
    """Shuffle members `start` to `stop`, but for the first few, and note their labels."""
    members, first = room.members, start + n_first
    for last in range(stop - 1, first, -1):
        other = first + int(rng.random() * (last - first + 1))
        members[last], members[other] = members[other], members[last]
    for t in range(start, stop):
        room.labels[OLD, t] = z[members[t]]


@jit(internal=True)
def shuffle_and_note(state, z, room, start, n_first, stop, rng):
    """Shuffle members `start` to `stop`, but for the first few, and note what they have."""
    shuffle_members(z, room, start, n_first, stop, rng)
    for t in range(start, stop):
        note(state, room.members[t], room.values[t])


@jit(internal=True)
def take_out(state, prior, z, counts, room, stop):
    """Take the members out one by one; the others stay in their slots."""
    for t in range(stop):
        i, k = room.members[t], room.labels[OLD, t]
        leave(prior, counts, k)
        z[i] = -1
        remove(state, z, counts, i, k)


@jit(internal=True)
def label(state, z, room, stop, accepted):
    """Give members that were taken out their new labels, or the old ones with what they had."""
    for t in range(stop):
        i = room.members[t]
        z[i] = room.labels[NEW if accepted else OLD, t]
        if not accepted:
            recall(state, i, room.values[t])


@jit(internal=True)
def allocate(state, prior, counts, a, b, room, start, stop, second, forced, rng):
    """Put members `start` to `stop` back; returns the sum of the log normalisers.

    They go where the old labels say, with what was their own (forced), or where the draws do. The
    first goes to slot a, and where there is a slot b the one at place `second` to that.
    """
    model, q = state.model, state.family
    n_clusters = 0
    for k in range(counts.shape[0]):
        if counts[k] > 0:
            n_clusters += 1
    total = 0.0
    for t in range(start, stop):
        i = room.members[t]
        in_a = -math.inf
        in_b = -math.inf
        if t != second or b < 0:
            in_a = log_seat(prior, counts, n_clusters, i, a) + evidence(model, q, a, i)
            room.work[0] += 1
        if b >= 0 and t != start:
            in_b = log_seat(prior, counts, n_clusters, i, b) + evidence(model, q, b, i)
            room.work[0] += 1
        top = max(in_a, in_b)
        share = math.exp(in_a - top)
        both = share + math.exp(in_b - top)
        total += top + math.log(both)
        if forced:
            k = room.labels[OLD, t]
            recall(state, i, room.values[t])
        else:
            # One that may be in neither slot goes to the first: the proposal is refused.
            k = a if not both > 0.0 or rng.random() * both < share else b
            complete(model, q, k, i, rng)
            room.labels[NEW, t] = k
        insert(state, i, k)
        if counts[k] == 0:
            n_clusters += 1
        join(prior, counts, k)
    return total


@jit(internal=True)
def take_slot(q, k, out):
    """Copy a slot's natural parameters."""
    for p in range(out.shape[0]):
        out[p] = q.natural[k, p]


@jit(internal=True)
def set_slot(q, k, natural):
    """Give a slot natural parameters."""
    for p in range(natural.shape[0]):
        q.natural[k, p] = natural[p]
    load_slot(q, k)


@jit(internal=True)
def _clear(state, counts, slots):
    """The slots at hand without members; -1 is none."""
    for k in slots:
        if k >= 0:
            to_prior(state.family, k)
            counts[k] = 0


@jit(internal=True)
def decide(state, prior, z, counts, first, second, middle, stop, chance, room, tally, rng):
    """Propose a new allocation of the members gathered, and accept or refuse it.

    Parameters
    ----------
    first, second : (int, int, int)
        Of the members before `middle` and from there to `stop`: the slot of the first anchor, and
        the slot of the second one in the old allocation and in the new, -1 where all are in one.
        A group without members has three times -1.
    chance : float
        Log of the chance of the proposal on the way back over that on the way there, but for the
        allocations themselves.
    """
    q = state.family
    slots = (first[0], max(first[1], first[2]), second[0])
    sizes = (
        counts[slots[0]],
        counts[slots[1]] if slots[1] >= 0 else 0,
        counts[slots[2]] if slots[2] >= 0 else 0,
    )
    for place in range(3):
        if slots[place] >= 0:
            take_slot(q, slots[place], room.kept[place])
    _clear(state, counts, slots)
    back = allocate(state, prior, counts, first[0], first[1], room, 0, middle, 1, True, rng)
    place = middle + 1
    back += allocate(
        state, prior, counts, second[0], second[1], room, middle, stop, place, True, rng
    )
    _clear(state, counts, slots)
    there = allocate(state, prior, counts, first[0], first[2], room, 0, middle, 1, False, rng)
    there += allocate(
        state, prior, counts, second[0], second[2], room, middle, stop, place, False, rng
    )
    tally[TRIES] += 1
    accepted = math.log1p(-rng.random()) < there - back + chance
    if accepted and confirm(state, room, slots, room.labels[NEW], stop, rng):
        moved = 0
        for t in range(stop):
            moved |= z[room.members[t]] != room.labels[NEW, t]
            z[room.members[t]] = room.labels[NEW, t]
        # Members that are all back where they were are no move, and earn no further tries.
        tally[ACCEPTED] += moved
        return
    for t in range(stop):
        recall(state, room.members[t], room.values[t])
    for place in range(3):
        k = slots[place]
        if k >= 0:
            set_slot(q, k, room.kept[place])
            counts[k] = sizes[place]
