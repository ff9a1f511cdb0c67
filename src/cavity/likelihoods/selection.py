"""Drawing one cluster: by all scores, or lazily by bounds."""

from __future__ import annotations

import math

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.numerics import fast_exp
from cavity._numba.simd import WIDTH, first8, load8, max8, select, splat8, store8, sum8
from cavity._numba.slots import Eight
from cavity.interface import (
    bounds,
    evidence,
    evidence_after,
    evidences,
    log_densities,
    log_density,
    pick,
    pick_given,
)


@jit
def draw_from_scores(weights, scores, mass, rng):
    """Draw k with probability proportional to ``weights[k] * exp(scores[k])``."""
    n_slots = weights.shape[0]
    top = -math.inf
    for k in range(n_slots):
        if weights[k] > 0.0 and scores[k] > top:
            top = scores[k]
    total = 0.0
    for k in range(n_slots):
        mass[k] = weights[k] * fast_exp(scores[k] - top)
    for k in range(n_slots):
        total += mass[k] if weights[k] > 0.0 else 0.0
    target = rng.random() * total
    chosen = -1
    for k in range(n_slots):
        if weights[k] > 0.0 and mass[k] > 0.0:
            chosen = k
            target -= mass[k]
            if target < 0.0:
                break
    return chosen


@pick.register(None)
def _(model, q, i, weights, scores, mass, visited, rng):
    evidences(model, q, i, scores)
    return draw_from_scores(weights, scores, mass, rng)


@pick_given.register(None)
def _(model, parameters, i, weights, scores, mass, rng):
    log_densities(model, parameters, i, scores)
    return draw_from_scores(weights, scores, mass, rng)


def _evidences(model, q, i, out):
    for j in range(0, out.shape[0], WIDTH):
        store8(out, j, evidence(model, q, Eight(j), i))


def _log_densities(model, parameters, i, out):
    for j in range(0, out.shape[0], WIDTH):
        store8(out, j, log_density(model, parameters, Eight(j), i))


def side_by_side(*likelihoods: type) -> None:
    """Score eight slots at a time, by an ``evidence`` and a ``log_density`` that take eight.

    Both read arrays over slots by `cavity._numba.slots.take`. The number of slots is a multiple of
    eight.
    """
    for likelihood in likelihoods:
        evidences.register(likelihood)(_evidences)
        log_densities.register(likelihood)(_log_densities)


@jit(forceinline=True, internal=True)
def draw_by_bounds(model, q, i, weights, scores, mass, visited, rng):
    """Draw k with probability proportional to weight times evidence, exactly.

    Clusters are taken in decreasing order of (weight times) bound until the uniform variate is
    decided whatever the rest may be. Mostly bounds of the first two decide it; else evidences are
    computed, as many as it takes. The order does not depend on the variate, so the draw has exactly
    the probabilities of a full evaluation. The number of slots is a multiple of eight; -1 if no
    bound is finite.
    """
    n_slots = weights.shape[0]
    for j in range(0, n_slots, WIDTH):
        store8(mass, j, load8(weights, j))
    bounds(model, q, i, mass, scores)
    highest = splat8(-math.inf)
    for j in range(0, n_slots, WIDTH):
        score = select(load8(weights, j) > 0.0, load8(mass, j), -math.inf)
        highest = select(score > highest, score, highest)
    top = max8(highest)
    sum_of_bounds = splat8(0.0)
    for j in range(0, n_slots, WIDTH):
        weight = load8(weights, j)
        bound = select(weight > 0.0, weight * fast_exp(load8(mass, j) - top), 0.0)
        store8(mass, j, bound)
        sum_of_bounds = sum_of_bounds + bound
    all_bounds = sum8(sum_of_bounds)
    if not all_bounds > 0.0:
        return -1
    uniform = rng.random()
    # A slot that was taken leaves the race.
    first, most = largest_of(mass)
    rest = max(all_bounds - most, 0.0)
    least = weights[first] * fast_exp(scores[first] - top)
    if uniform * (least + rest) < least:
        return first
    mass[first] = -2.0
    second, next_most = largest_of(mass)
    next_least = weights[second] * fast_exp(scores[second] - top)
    if next_most > 0.0 and uniform * (most + next_least) >= most:
        # It is not the first. The two together have at least this share.
        rest = max(rest - next_most, 0.0)
        if uniform * (least + next_least + rest) < least + next_least:
            return second
    mass[first] = most
    rest = all_bounds
    total = 0.0
    for n_visited in range(n_slots):
        best, largest = largest_of(mass)
        rest = max(rest - largest, 0.0)
        # The cumulative sums of exact masses go to `scores`.
        mass[best] = -2.0
        if n_visited == n_slots - 1:
            rest = 0.0
        if largest > 0.0:
            total += weights[best] * fast_exp(evidence_after(model, q, best, i) - top)
        visited[n_visited] = best
        scores[n_visited] = total
        low = uniform * total
        high = uniform * (total + rest)
        for j in range(n_visited + 1):
            if scores[j] > low:
                if high < scores[j]:
                    return visited[j]
                break
    return visited[0]


@jit(forceinline=True, internal=True)
def largest_of(values):
    """Place and value of the largest of a multiple of eight values; the first wins ties."""
    highest = load8(values, 0)
    for j in range(WIDTH, values.shape[0], WIDTH):
        here = load8(values, j)
        highest = select(here > highest, here, highest)
    largest = max8(highest)
    for j in range(0, values.shape[0], WIDTH):
        place = first8(load8(values, j) == largest)
        if place < WIDTH:
            return j + place, largest
    return np.int64(0), largest
