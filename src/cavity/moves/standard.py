"""The moves of the mixtures, in one kernel: compiled together they cost a third of the time."""

from __future__ import annotations

from cavity._numba.jit import jit
from cavity.interface import attempt
from cavity.moves.exchange import exchanges
from cavity.moves.local_split_merge import pinches
from cavity.moves.move import Move, Tries, begin_tries, end_tries
from cavity.moves.reshuffle import reshuffles
from cavity.moves.split_merge import splits_and_merges


@jit(internal=True)
def _of_whole_clusters(move, state, prior, z, counts, rng):
    anchors, room, n, tally = move.anchors, move.room, move.pace.n_tries, move.pace.tally
    exchanges(state, prior, z, counts, anchors, room, n[0], tally[0], rng)
    reshuffles(state, prior, z, counts, anchors, room, n[1], tally[1], rng)
    splits_and_merges(state, prior, z, counts, anchors, room, n[2], tally[2], rng)


class WholeClusterTries(Tries):
    """`WholeClusterMoves` for kernels."""


class StandardTries(Tries):
    """`StandardMoves` for kernels."""


@attempt.register(WholeClusterTries)
def _(move, state, prior, z, counts, rng):
    if begin_tries(move.pace):
        _of_whole_clusters(move, state, prior, z, counts, rng)
        end_tries(move.pace, counts, z.shape[0])


@attempt.register(StandardTries)
def _(move, state, prior, z, counts, rng):
    pace = move.pace
    if begin_tries(pace):
        _of_whole_clusters(move, state, prior, z, counts, rng)
        pinches(
            state, prior, z, counts, move.anchors, move.room, pace.n_tries[3], pace.tally[3], rng
        )
        end_tries(pace, counts, z.shape[0])


class WholeClusterMoves(Move):
    """Exchange, reshuffle, split and merge: for collapses whose members cannot leave one by one."""

    name = "whole_clusters"
    kinds = ("exchange", "reshuffle", "split_merge")
    shares = (0.2, 0.15, 0.25)
    kernel = WholeClusterTries


class StandardMoves(Move):
    """Exchange, reshuffle, split and merge, pinch.

    The number of clusters is what chains are slowest in. A reshuffle leaves it as it is, and what
    it does the scan does as well, if more slowly: it is accepted most often and helps least.
    """

    name = "standard"
    kinds = ("exchange", "reshuffle", "split_merge", "pinch")
    shares = (0.25, 0.1, 1.2, 0.2)
    worth = (1.0, 0.1, 1.0, 1.0)
    many = 12.0
    least_cost = (0.05, 0.05, 0.05, 0.0)
    kernel = StandardTries
