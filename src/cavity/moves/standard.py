"""The moves of the mixtures, in one kernel: compiled together they cost a third of the time."""

from __future__ import annotations

from cavity.moves.exchange import exchanges
from cavity.moves.local_split_merge import pinches
from cavity.moves.move import Move
from cavity.moves.reshuffle import reshuffles
from cavity.moves.split_merge import splits_and_merges


def _of_whole_clusters(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    exchanges(state, prior, z, counts, anchors, room, n_tries[0], tally[0], rng)
    reshuffles(state, prior, z, counts, anchors, room, n_tries[1], tally[1], rng)
    splits_and_merges(state, prior, z, counts, anchors, room, n_tries[2], tally[2], rng)


def _all(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    exchanges(state, prior, z, counts, anchors, room, n_tries[0], tally[0], rng)
    reshuffles(state, prior, z, counts, anchors, room, n_tries[1], tally[1], rng)
    splits_and_merges(state, prior, z, counts, anchors, room, n_tries[2], tally[2], rng)
    pinches(state, prior, z, counts, anchors, room, n_tries[3], tally[3], rng)


class WholeClusterMoves(Move):
    """Exchange, reshuffle, split and merge: for collapses whose members cannot leave one by one."""

    name = "whole_clusters"
    kinds = ("exchange", "reshuffle", "split_merge")
    shares = (0.2, 0.15, 0.25)
    kernel = staticmethod(_of_whole_clusters)


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
    kernel = staticmethod(_all)
