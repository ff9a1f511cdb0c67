"""Drawing one cluster: by all scores, or lazily by bounds."""

from __future__ import annotations

import math

from cavity._jit import jit
from cavity._numerics import fast_exp
from cavity.verbs import bounds, evidence, evidences, pick


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


@jit(forceinline=True, internal=True)
def draw_by_bounds(model, q, i, weights, scores, mass, visited, rng):
    """Draw k with probability proportional to weight times evidence, exactly.

    Clusters are evaluated in decreasing order of (weight times) bound until the
    uniform variate is decided whatever the rest may be. The order does not depend on the
    variate, so the draw has exactly the probabilities of a full evaluation.
    """
    n_slots = weights.shape[0]
    bounds(model, q, i, scores)
    top = -math.inf
    for k in range(n_slots):
        if weights[k] > 0.0 and scores[k] > top:
            top = scores[k]
    rest = 0.0
    for k in range(n_slots):
        mass[k] = weights[k] * fast_exp(scores[k] - top)
    for k in range(n_slots):
        rest += mass[k]
    uniform = rng.random()
    total = 0.0
    for n_visited in range(n_slots):
        best = -1
        largest = -1.0
        for k in range(n_slots):
            if mass[k] > largest:
                largest = mass[k]
                best = k
        rest = max(rest - largest, 0.0)
        # A visited slot leaves the race; the cumulative sums of exact masses go to `scores`.
        mass[best] = -2.0
        exact = (
            weights[best] * math.exp(evidence(model, q, best, i) - top) if largest > 0.0 else 0.0
        )
        total += exact
        visited[n_visited] = best
        scores[n_visited] = total
        if n_visited == n_slots - 1:
            rest = 0.0
        low = uniform * total
        high = uniform * (total + rest)
        for j in range(n_visited + 1):
            if scores[j] > low:
                if high < scores[j]:
                    return visited[j]
                break
    return visited[0]
