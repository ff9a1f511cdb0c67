"""Moves of many labels leave the posterior as it is: enumeration, and mistakes that are found."""

from __future__ import annotations

import math

import enumeration
import numpy as np
import pytest
import small
from builders import gaussian_collapse
from mistakes import MostlyMoves, rewritten, with_mistake

from cavity._numba.jit import jit
from cavity.interface import attempt, evidence, observe
from cavity.mcmc.chain import PartitionSampler
from cavity.moves import allocation, reshuffle, split_merge
from cavity.moves import local_split_merge as pinch
from cavity.moves.anchors import Anchors, draw_pair, nearest_anchors
from cavity.moves.exchange import Exchange
from cavity.moves.local_split_merge import Pinch
from cavity.moves.move import Move, Tries, begin_tries, end_tries
from cavity.moves.reshuffle import Reshuffle
from cavity.moves.split_merge import SplitMerge
from cavity.moves.standard import StandardMoves
from cavity.priors.cluster import NIWPrior
from cavity.priors.partition import dirichlet

pytestmark = pytest.mark.first(3)

LEVEL = 1e-4  # of each test; some forty of them
MOVES = {
    "reshuffle": Reshuffle,
    "split-merge": SplitMerge,
    "exchange": Exchange,
    "pinch": Pinch,
}
SAMPLERS = ("gaussian-collapsed", "student-t-collapsed")


def everyone(n):
    """Every pair of observations may be an anchor."""
    others = [[j for j in range(n) if j != i] for i in range(n)]
    return Anchors(np.arange(n), np.array(others))


def chain(name, prior, rng, moves):
    parts = small.collapse(name)
    made = [kind(everyone(small.N), 0) for kind in moves]
    for move in made:
        move.pace.rate[:] = 4
    return PartitionSampler(
        parts, small.partition_prior(prior), np.zeros(small.N, dtype=int), rng, moves=made
    )


@pytest.mark.exact
@pytest.mark.parametrize("prior", small.PRIORS)
@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("move", MOVES)
def test_sweeps_with_a_move_follow_the_enumerated_posterior(move, name, prior):
    """One sweep in four, moves all the time: a wrong move would show."""
    rng = np.random.default_rng(11)
    exact = small.exact(small.likelihood_of(name), prior)
    sampler = chain(name, prior, rng, [MOVES[move]])

    result = enumeration.compare(exact, enumeration.visits(MostlyMoves(sampler), exact, 5000, rng))
    print(f"{move}, {name}, {prior}: {result}; {sampler.events()}")
    assert sampler.events()[f"{sampler.moves[0].kinds[0]}_accepted"] > 30
    assert result.p_value > LEVEL


@pytest.mark.variants(
    "exact", "student-t-collapsed-dirichlet", "student-t-collapsed-finite", "gaussian-collapsed-d*"
)
@pytest.mark.parametrize(
    "prior", ["dirichlet", "dp", pytest.param("pitman-yor", marks=pytest.mark.exact), "finite"]
)
@pytest.mark.parametrize("name", SAMPLERS)
def test_all_moves_together(name, prior):
    rng = np.random.default_rng(12)
    exact = small.exact(small.likelihood_of(name), prior)
    sampler = chain(name, prior, rng, [StandardMoves])
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, 5000, rng))
    assert result.p_value > LEVEL


@pytest.mark.variants("exact", "cavity.moves.reshuffle*")
@pytest.mark.parametrize(
    ("module", "kind", "prior"),
    [(reshuffle, Reshuffle, "dirichlet"), (split_merge, SplitMerge, "dp")],
)
def test_a_move_with_its_ratio_turned_over_is_found(module, kind, prior):
    wrong = rewritten(allocation.decide, "there - back", "back - there", vars(allocation))
    careless = with_mistake(module, kind, "decide", wrong)
    rng = np.random.default_rng(13)
    exact = small.exact("gaussian", prior)
    sampler = chain("gaussian-collapsed", prior, rng, [careless])
    visited = enumeration.visits(MostlyMoves(sampler, 40), exact, 20_000, rng)
    assert enumeration.compare(exact, visited).p_value < LEVEL


@pytest.mark.exact
def test_a_split_that_forgets_the_free_slots_is_found():
    """Negative control of the numbered slots of a closed prior."""
    wrong = rewritten(
        split_merge.splits_and_merges,
        "log_chance(prior, n_free, together)",
        "0.0",
        vars(split_merge),
    )
    careless = with_mistake(split_merge, SplitMerge, "splits_and_merges", wrong)
    rng = np.random.default_rng(13)
    exact = small.exact("gaussian", "dirichlet")
    sampler = chain("gaussian-collapsed", "dirichlet", rng, [careless])
    visited = enumeration.visits(MostlyMoves(sampler, 40), exact, 20_000, rng)
    assert enumeration.compare(exact, visited).p_value < LEVEL


@pytest.mark.exact
def test_a_pinch_that_leaves_members_behind_is_found():
    """Negative control: a cluster goes back whose other members no way there would reach."""
    space = vars(pinch)
    wrong = rewritten(pinch.gather_neighbours, "inside < counts[small] - 1e-6", "False", space)
    tries = rewritten(pinch.pinches, "WORK", "WORK", {**space, "gather_neighbours": wrong})
    careless = with_mistake(pinch, Pinch, "pinches", tries)
    rng = np.random.default_rng(13)
    exact = small.exact("gaussian", "dp")
    sampler = chain("gaussian-collapsed", "dp", rng, [careless])
    visited = enumeration.visits(MostlyMoves(sampler, 40), exact, 20_000, rng)
    assert enumeration.compare(exact, visited).p_value < LEVEL


def test_an_exchange_leaves_a_mode_that_gibbs_does_not():
    """Three groups; one has two clusters and two share one: every step of Gibbs goes uphill."""
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(c, 0.3, (40, 2)) for c in (-6.0, 0.0, 6.0)])
    truth = np.repeat([0, 1, 2], 40)
    start = np.where(truth == 0, np.arange(120) % 2, 2)
    niw = NIWPrior(np.zeros(2), 0.05, 5.0, np.eye(2))
    left = {}
    for with_moves in (False, True):
        moves = [Exchange(nearest_anchors(y), 50)] if with_moves else []
        parts = gaussian_collapse(y, niw, 3, "collapsed")
        sampler = PartitionSampler(parts, dirichlet(3, 30.0), start, rng, moves=moves)
        for _ in range(100):
            sampler.sweep(rng)
        z = sampler.labels()
        left[with_moves] = len({int(z[0]), int(z[50]), int(z[100])}) == 3
    assert left == {False: False, True: True}


@jit(internal=True)
def swaps(state, prior, z, counts, anchors, room, n_tries, tally, rng):
    """The labels of two members of different clusters change places."""
    model, q = state.model, state.family
    for _ in range(n_tries[0]):
        i, j = draw_pair(anchors, rng)
        a, b = z[i], z[j]
        if a == b:
            continue
        tally[0, 0] += 1
        observe(model, q, a, i, -1.0)
        observe(model, q, b, j, -1.0)
        gain = evidence(model, q, a, j) + evidence(model, q, b, i)
        gain -= evidence(model, q, a, i) + evidence(model, q, b, j)
        tally[0, 2] += 4
        if math.log1p(-rng.random()) < gain:
            tally[0, 1] += 1
            z[i], z[j] = b, a
        observe(model, q, z[i], i, 1.0)
        observe(model, q, z[j], j, 1.0)


class SwapTries(Tries):
    """The toy for kernels."""


@attempt.register(SwapTries)
def _(move, state, prior, z, counts, rng):
    pace = move.pace
    if begin_tries(pace):
        swaps(state, prior, z, counts, move.anchors, move.room, pace.n_tries, pace.tally, rng)
        end_tries(pace, counts, z.shape[0])


class SwapTwo(Move):
    """A toy move: two observations exchange their clusters."""

    name = "swap"
    kinds = ("swap",)
    shares = (0.1,)
    kernel = SwapTries


def test_a_toy_move_joins_as_one_class():
    """Written with the verbs alone: it is tried, counted, saved, and changes no posterior."""
    rng = np.random.default_rng(15)
    exact = small.exact("gaussian", "dirichlet")
    sampler = chain("gaussian-collapsed", "dirichlet", rng, [SwapTwo])
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, 5000, rng))
    assert sampler.events()["swap_accepted"] > 100
    assert result.p_value > LEVEL
    saved = sampler.state()
    assert saved["move.swap.tally"].tolist() == sampler.moves[0].tally.tolist()


def test_the_number_of_tries_is_set_in_warm_up_and_then_frozen():
    rng = np.random.default_rng(16)
    y = rng.standard_normal((60, 2))
    niw = NIWPrior(np.zeros(2), 0.05, 5.0, np.eye(2))
    move = Reshuffle(nearest_anchors(y), 20)
    parts = gaussian_collapse(y, niw, 4, "collapsed")
    sampler = PartitionSampler(parts, dirichlet(4), np.arange(60) % 4, rng, moves=[move])
    seen = []
    for _ in range(40):
        sampler.sweep(rng)
        seen.append(float(move.pace.rate[0]))
    assert len(set(seen[:20])) > 1
    assert len(set(seen[20:])) == 1


class Unhurried(StandardMoves):
    """As many tries as if there were few clusters."""

    many = np.inf


def test_many_small_clusters_are_split_and_merged_more_often():
    y = np.random.default_rng(17).standard_normal((600, 2))
    niw = NIWPrior(np.zeros(2), 0.05, 5.0, np.eye(2))
    rates = {}
    for kind in (Unhurried, StandardMoves):
        rng = np.random.default_rng(18)
        move = kind(nearest_anchors(y), 20)
        parts = gaussian_collapse(y, niw, 12, "collapsed")
        prior = dirichlet(12, 100.0)
        sampler = PartitionSampler(parts, prior, np.arange(600) % 12, rng, moves=[move])
        for _ in range(20):
            sampler.sweep(rng)
        rates[kind] = move.pace.rate[move.kinds.index("split_merge")]
    assert 1.4 < rates[StandardMoves] / rates[Unhurried] < 2.8, rates
