"""One sequential allocation behind every move.

Members of some clusters are taken out and put back one after another: the first into slot a, the
second into slot b where there are two, every further one into a or b with probability
proportional to prior weight times evidence. What the evidence integrates out of a member is drawn
with its label.

By the chain rule the probability of the state over that of the proposal is the product of the
normalisers N_t = sum over the slots allowed of weight times evidence, whatever was drawn. So a
proposal is accepted by sum log N_t along its own path, less the same along the path that leads
back: the old labels and variables forced through in the same order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity.core.compile import jit
from cavity.families.common import load_slot, to_prior
from cavity.verbs import auxiliary, complete, evidence, observe, seat_weight, set_auxiliary


class Room(NamedTuple):
    """Scratch space of the moves of one chain."""

    members: np.ndarray  # (n,) of the clusters at hand, in the order of their allocation
    labels: np.ndarray  # (2, n) old and new
    values: np.ndarray  # (2, n) old and new auxiliary variables
    kept: np.ndarray  # (3, P) natural parameters of the slots at hand
    work: np.ndarray  # (1,) evidences computed


OLD, NEW = 0, 1


def room_for(n: int, width: int) -> Room:
    """Room for n observations and natural parameters of this width."""
    return Room(
        np.zeros(n, dtype=np.int64),
        np.zeros((2, n), dtype=np.int64),
        np.zeros((2, n)),
        np.zeros((3, width)),
        np.zeros(1, dtype=np.int64),
    )


@jit(internal=True)
def gather_members(model, z, first, second, a, b, room, start, rng):
    """Members of slots a and b (or a alone for b = -1) from place `start` on, the anchors first.

    The others come in random order. Old labels and variables are noted. Returns where they end.
    """
    members = room.members
    members[start] = first
    members[start + 1] = second
    stop = start + 2
    for i in range(z.shape[0]):
        if (z[i] == a or z[i] == b) and i != first and i != second:
            members[stop] = i
            stop += 1
    for last in range(stop - 1, start + 2, -1):
        other = start + 2 + int(rng.random() * (last - start - 1))
        members[last], members[other] = members[other], members[last]
    for t in range(start, stop):
        room.labels[OLD, t] = z[members[t]]
        room.values[OLD, t] = auxiliary(model, members[t])
    return stop


@jit(internal=True)
def keep_slot(state, k, place, room):
    """Note slot k, to be put back if the proposal is refused."""
    for p in range(room.kept.shape[1]):
        room.kept[place, p] = state.family.natural[k, p]


@jit(internal=True)
def put_back(state, counts, k, place, count, room):
    """Slot k as it was noted."""
    for p in range(room.kept.shape[1]):
        state.family.natural[k, p] = room.kept[place, p]
    load_slot(state.family, k)
    counts[k] = count


@jit(internal=True)
def clear(state, counts, k):
    """Slot k without members."""
    to_prior(state.family, k)
    counts[k] = 0


@jit(internal=True)
def allocate(state, prior, counts, a, b, room, start, stop, which, forced, rng):
    """Put members `start` to `stop` back; returns the sum of the log normalisers.

    ``which`` says where labels and variables are read from (forced) or written to.
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
        if t != start + 1 or b < 0:
            in_a = math.log(seat_weight(prior, counts, n_clusters, a)) + evidence(model, q, a, i)
            room.work[0] += 1
        if b >= 0 and t != start:
            in_b = math.log(seat_weight(prior, counts, n_clusters, b)) + evidence(model, q, b, i)
            room.work[0] += 1
        top = max(in_a, in_b)
        share = math.exp(in_a - top)
        both = share + math.exp(in_b - top)
        total += top + math.log(both)
        if forced:
            k = room.labels[which, t]
            set_auxiliary(model, i, room.values[which, t])
        else:
            k = a if rng.random() * both < share else b
            complete(model, q, k, i, rng)
            room.labels[which, t] = k
            room.values[which, t] = auxiliary(model, i)
        observe(model, q, k, i, 1.0)
        if counts[k] == 0:
            n_clusters += 1
        counts[k] += 1
    return total


@jit(internal=True)
def settle_labels(z, room, start, stop):
    """Take over the new labels of an accepted proposal."""
    for t in range(start, stop):
        z[room.members[t]] = room.labels[NEW, t]


@jit(internal=True)
def recall_values(model, room, start, stop):
    """The old auxiliary variables of a refused proposal."""
    for t in range(start, stop):
        set_auxiliary(model, room.members[t], room.values[OLD, t])
