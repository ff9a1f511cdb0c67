"""Moves of many labels leave the posterior as it is: enumeration, and mistakes that are found."""

from __future__ import annotations

import math

import enumeration
import numpy as np
import pytest
import small
from builders import gaussian_collapse
from mistakes import MostlyMoves, rewritten, with_mistake

from cavity._numba.jit import Kernels, jit
from cavity.interface import attempt, evidence, observe
from cavity.mcmc.chain import PartitionSampler
from cavity.moves import allocation, division, split_merge
from cavity.moves.anchors import Anchors, draw_pair, nearest_anchors
from cavity.moves.move import Move, Tries, begin_tries, end_tries
from cavity.moves.standard import StandardMoves, WholeClusterMoves
from cavity.priors.cluster import NIWPrior
from cavity.priors.partition import dirichlet

pytestmark = pytest.mark.first(3)

LEVEL = 1e-4  # of each test; some forty of them
MOVES = {
    "split-merge": (StandardMoves, "split_merge"),
    "exchange": (StandardMoves, "exchange"),
    "pinch": (StandardMoves, "pinch"),
    "whole-split-merge": (WholeClusterMoves, "split_merge"),
    "whole-exchange": (WholeClusterMoves, "exchange"),
}
SAMPLERS = ("gaussian-collapsed", "student-t-collapsed")


def everyone(n):
    """Every pair of observations may be an anchor."""
    others = [[j for j in range(n) if j != i] for i in range(n)]
    return Anchors(np.arange(n), np.array(others))


def chain(name, prior, rng, move, only=None):
    """A chain that tries each kind of a move, or only one, four times after a sweep."""
    made = move(everyone(small.N), 0)
    made.pace.rate[:] = [4.0 if only in (None, kind) else 0.0 for kind in move.kinds]
    return PartitionSampler(
        small.collapse(name),
        small.partition_prior(prior),
        np.zeros(small.N, dtype=int),
        rng,
        moves=[made],
    )


@pytest.mark.exact
@pytest.mark.parametrize("prior", small.PRIORS)
@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("move", MOVES)
def test_sweeps_with_a_move_follow_the_enumerated_posterior(move, name, prior):
    """One sweep in four, moves all the time: a wrong move would show."""
    rng = np.random.default_rng(11)
    exact = small.exact(small.likelihood_of(name), prior)
    sampler = chain(name, prior, rng, *MOVES[move])

    result = enumeration.compare(exact, enumeration.visits(MostlyMoves(sampler), exact, 5000, rng))
    print(f"{move}, {name}, {prior}: {result}; {sampler.events()}")
    assert sampler.events()[f"{MOVES[move][1]}_accepted"] > 30
    assert result.p_value > LEVEL


@pytest.mark.variants("exact", "student-t-*", "gaussian-collapsed-d*")
@pytest.mark.parametrize(
    "prior", ["dirichlet", "dp", pytest.param("pitman-yor", marks=pytest.mark.exact), "finite"]
)
@pytest.mark.parametrize("name", SAMPLERS)
def test_all_moves_together(name, prior):
    rng = np.random.default_rng(12)
    exact = small.exact(small.likelihood_of(name), prior)
    sampler = chain(name, prior, rng, StandardMoves)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, 5000, rng))
    assert result.p_value > LEVEL


def visits_p_value(prior, move, only=None):
    rng = np.random.default_rng(13)
    exact = small.exact("gaussian", prior)
    sampler = chain("gaussian-collapsed", prior, rng, move, only)
    visited = enumeration.visits(MostlyMoves(sampler, 40), exact, 20_000, rng)
    return enumeration.compare(exact, visited).p_value


@pytest.mark.exact
def test_an_exchange_that_often_stops_after_its_merge():
    """With no slack, the probability to go on after the merge matters."""
    space = {**vars(division), "SLACK": 0.0}
    eager = rewritten(division.exchanges, "def ", "def ", space)
    made = with_mistake(division, StandardMoves, "exchanges", eager)
    assert visits_p_value("dirichlet", made, "exchange") > LEVEL


@pytest.mark.exact
def test_an_allocation_with_its_ratio_turned_over_is_found():
    wrong = rewritten(allocation.decide, "there - back", "back - there", vars(allocation))
    careless = with_mistake(split_merge, WholeClusterMoves, "decide", wrong)
    assert visits_p_value("dp", careless) < LEVEL


# Function, what stands there, what a mistake makes of it, the prior and the kind of move.
MISTAKES = {
    "choices-certain": (
        "divide",
        "(leaves if k == small else stays) / (leaves + stays)",
        "1.0",
        "dp",
        "split_merge",
    ),
    "merge-given-up-too-soon": (
        "divide",
        "floor = math.exp(min(least, 0.0))",
        "floor = math.exp(min(least, 0.0) + 2.0)",
        "dp",
        "split_merge",
    ),
    "split-certain-way-there": ("propose_split", "-gain - there", "-gain", "dp", "split_merge"),
    "seats-forgotten": ("join_slots", "math.log(seats) +", "", "dp", "split_merge"),
    "free-slots-forgotten": (
        "divisions",
        "log_chance(prior, n_free, splits)",
        "0.0",
        "dirichlet",
        "split_merge",
    ),
    "members-left-behind": ("gather", "inside < counts[small]", "False", "dp", "pinch"),
    "exchange-certain-split": (
        "exchanges",
        "split + max(merge, -SLACK)",
        "max(merge, -SLACK) - split",
        "dirichlet",
        "exchange",
    ),
}


@pytest.mark.variants("exact", "merge-*", "split-*", "seats-*", "free-*", "members-*", "exchange-*")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_move_with_a_mistake_is_found(mistake):
    name, old, new, prior, kind = MISTAKES[mistake]
    wrong = rewritten(getattr(division, name), old, new, vars(division))
    assert visits_p_value(prior, with_mistake(division, StandardMoves, name, wrong), kind) < LEVEL


def test_an_exchange_leaves_a_mode_that_gibbs_does_not():
    """Three groups; one has two clusters and two share one: every step of Gibbs goes uphill."""
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(c, 0.3, (40, 2)) for c in (-6.0, 0.0, 6.0)])
    truth = np.repeat([0, 1, 2], 40)
    start = np.where(truth == 0, np.arange(120) % 2, 2)
    niw = NIWPrior(np.zeros(2), 0.05, 5.0, np.eye(2))
    left = {}
    for with_moves in (False, True):
        moves = [StandardMoves(nearest_anchors(y), 50)] if with_moves else []
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
        end_tries(pace, z.shape[0])


class SwapTwo(Move):
    """A toy move: two observations exchange their clusters."""

    name = "swap"
    kinds = ("swap",)
    scans = 0.1
    kernel = SwapTries


@pytest.mark.exact
def test_a_toy_move_joins_as_one_class():
    """Written with the verbs alone: it is tried, counted, saved, and changes no posterior."""
    rng = np.random.default_rng(15)
    exact = small.exact("gaussian", "dirichlet")
    sampler = chain("gaussian-collapsed", "dirichlet", rng, SwapTwo)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, 5000, rng))
    assert sampler.events()["swap_accepted"] > 100
    assert result.p_value > LEVEL
    saved = sampler.state()
    assert saved["move.swap.tally"].tolist() == sampler.moves[0].tally.tolist()


def test_the_number_of_tries_is_set_in_warm_up_and_then_frozen():
    rng = np.random.default_rng(16)
    y = rng.standard_normal((60, 2))
    niw = NIWPrior(np.zeros(2), 0.05, 5.0, np.eye(2))
    move = StandardMoves(nearest_anchors(y), 20)
    parts = gaussian_collapse(y, niw, 4, "collapsed")
    sampler = PartitionSampler(parts, dirichlet(4), np.arange(60) % 4, rng, moves=[move])
    seen = []
    for _ in range(40):
        sampler.sweep(rng)
        seen.append(float(move.pace.rate[0]))
    assert len(set(seen[:20])) > 1
    assert len(set(seen[20:])) == 1


def adapt(pace, n):
    """``end_tries`` as an entry kernel."""
    end_tries(pace, n)


def test_kinds_that_are_accepted_are_tried_more_often():
    """A tenth of the evidences for each, the rest by acceptances; fewer if all is in vain."""
    move = StandardMoves(nearest_anchors(np.random.default_rng(17).standard_normal((100, 2))), 20)
    pace = move.pace
    pace.drawn[:] = 99
    pace.tally[:, allocation.WORK] = 9_900
    spent = {}
    for name, accepted in {"none": (0, 0, 0), "alike": (9, 9, 9), "one": (0, 99, 0)}.items():
        pace.tally[:, allocation.ACCEPTED] = accepted
        Kernels().run(adapt, pace, 100)
        # A try costs a scan.
        spent[name] = pace.rate.copy()
    np.testing.assert_allclose(spent["alike"], spent["alike"][0])
    assert spent["none"].sum() < spent["alike"].sum() < StandardMoves.scans
    share = spent["one"] / spent["one"].sum()
    np.testing.assert_allclose(share, [0.1 + 1.4 / 105, 0.1 + 70.7 / 105, 0.1 + 1.4 / 105])
