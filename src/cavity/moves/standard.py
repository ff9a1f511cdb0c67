"""The moves of the mixtures, in one kernel: compiled together they cost a third of the time."""

from __future__ import annotations

from cavity.interface import attempt
from cavity.moves.division import divisions, exchanges
from cavity.moves.exchange import exchanges as allocate_exchanges
from cavity.moves.move import Move, Tries, begin_tries, end_tries
from cavity.moves.split_merge import splits_and_merges


class WholeClusterTries(Tries):
    """`WholeClusterMoves` for kernels."""


class StandardTries(Tries):
    """`StandardMoves` for kernels."""


@attempt.register(WholeClusterTries)
def _(move, state, prior, z, counts, rng):
    pace = move.pace
    if begin_tries(pace):
        anchors, room, n, tally = move.anchors, move.room, pace.n_tries, pace.tally
        allocate_exchanges(state, prior, z, counts, anchors, room, n[0], tally[0], rng)
        splits_and_merges(state, prior, z, counts, anchors, room, n[1], tally[1], rng)
        end_tries(pace, z.shape[0])


@attempt.register(StandardTries)
def _(move, state, prior, z, counts, rng):
    pace = move.pace
    if begin_tries(pace):
        anchors, room, n, tally = move.anchors, move.room, pace.n_tries, pace.tally
        exchanges(state, prior, z, counts, anchors, room, n[0], tally[0], rng)
        for kind in range(1, 3):
            divisions(state, prior, z, counts, anchors, room, kind == 1, n[kind], tally[kind], rng)
        end_tries(pace, z.shape[0])


class WholeClusterMoves(Move):
    """Exchange, split and merge, for collapses whose slots do not give the evidence of clusters."""

    name = "whole_clusters"
    kinds = ("exchange", "split_merge")
    scans = 1.0
    kernel = WholeClusterTries


class StandardMoves(Move):
    """Exchange, split and merge, pinch, for exact collapses."""

    name = "standard"
    kinds = ("exchange", "split_merge", "pinch")
    scans = 10.0
    kernel = StandardTries
