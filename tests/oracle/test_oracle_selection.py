"""Drawing a cluster: the shares over a fine grid of uniforms are the exact probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from entries import _evidences, call
from scipy import special
from test_oracle_student_t import many_slots

from cavity._numba.jit import compiled
from cavity.likelihoods import selection
from cavity.likelihoods.student_t import student_t


def lazy_shares(model, q, i, weights, scores, mass, visited, rng, out):
    for j in range(out.shape[0]):
        out[j] = selection.draw_by_bounds(model, q, i, weights, scores, mass, visited, rng)


def full_draws(weights, scores, mass, rng, out):
    for j in range(out.shape[0]):
        out[j] = selection.draw_from_scores(weights, scores, mass, rng)


def exact_choice(order, mass, uniforms):
    """Inverse of the cumulative distribution taken in the given order of clusters."""
    cumulative = np.cumsum(mass[order])
    return order[np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")]


@pytest.mark.parametrize("d", [1, 3])
def test_lazy_draw_is_the_inverse_of_an_order_fixed_beforehand(d):
    """For every uniform the cluster is the one that a full evaluation gives in one fixed order.

    Hence the shares over uniforms are exactly the probabilities: the check is made variate by
    variate, not in distribution.
    """
    rng = np.random.default_rng(d)
    n_slots, n = 16, 20_000
    q, alpha = many_slots(rng, d, n_slots, 4.0)
    y = rng.standard_normal((6, d)) * np.array([0.1, 1.0, 1.0, 5.0, 20.0, 100.0])[:, None]
    model = student_t(y, alpha)
    scratch = np.zeros(n_slots), np.zeros(n_slots), np.zeros(n_slots, dtype=np.int64)
    lazy = compiled(lazy_shares, model)
    for i in range(len(y)):
        weights = rng.gamma(1.0, size=n_slots)
        weights[rng.integers(n_slots)] = 0.0
        scores = np.empty(n_slots)
        call(_evidences, model, q, i, scores)
        with np.errstate(divide="ignore"):
            mass = special.softmax(scores + np.log(weights))
        out = np.empty(n, dtype=np.int64)
        lazy(model, q, i, weights, *scratch, np.random.default_rng(i), out)
        uniforms = np.random.default_rng(i).random(n)
        # The order that the draws reveal: clusters by the smallest uniform that chose them.
        chosen = np.unique(out)
        first = [uniforms[out == k].min() for k in chosen]
        order = chosen[np.argsort(first)]
        order = np.concatenate([order, np.setdiff1d(np.arange(n_slots), order)])
        # Clusters that no variate chose are too rare to place in the order: a variate may err
        # by their share, no more.
        rare = mass[np.setdiff1d(np.arange(n_slots), chosen)].sum() + 1e-9
        below = exact_choice(order, mass, np.maximum(uniforms - rare, 0.0))
        above = exact_choice(order, mass, np.minimum(uniforms + rare, 1.0 - 1e-16))
        assert np.all((out == below) | (out == above))
        assert rare < 1e-3
        assert np.all(weights[chosen] > 0.0)


def test_full_draw_follows_weights_and_scores():
    weights = np.array([0.2, 0.0, 1.0, 3.0])
    scores = np.array([-700.0, 1000.0, -701.0, -1500.0])
    out = np.empty(10_000, dtype=np.int64)
    mass = np.zeros(4)
    compiled(full_draws, ())(weights, scores, mass, np.random.default_rng(0), out)
    p = np.array([0.2, 0.0, np.exp(-1.0), 0.0])
    uniforms = np.random.default_rng(0).random(10_000)
    np.testing.assert_array_equal(out, exact_choice(np.arange(4), p / p.sum(), uniforms))


def test_no_finite_score_is_told():
    out = np.empty(1, dtype=np.int64)
    for scores in (np.full(3, -np.inf), np.full(3, np.nan)):
        compiled(full_draws, ())(np.ones(3), scores, np.zeros(3), np.random.default_rng(0), out)
        assert out[0] == -1


def test_no_finite_bound_is_told():
    q, alpha = many_slots(np.random.default_rng(0), 2, 8, 4.0)
    model = student_t(np.full((1, 2), np.nan), alpha)
    scratch = np.zeros(8), np.zeros(8), np.zeros(8, dtype=np.int64)
    out = np.empty(1, dtype=np.int64)
    rng = np.random.default_rng(0)
    compiled(lazy_shares, model)(model, q, 0, np.ones(8), *scratch, rng, out)
    assert out[0] == -1
