"""Observations that are a product of parts: a likelihood for each, independent given the cluster.

The evidence is the sum of the parts', and what an observation adds to a cluster or takes from it
goes to each. How a cluster is drawn is decided by the first part: where it has cheap bounds of its
evidence, those of the product are these plus what the rest says exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import verb
from cavity._numba.simd import WIDTH, load8, require_whole, store8
from cavity.interface import (
    accumulate,
    auxiliary,
    bounds,
    complete,
    evidence,
    evidence_after,
    evidences,
    integrated_evidence,
    log_densities,
    log_density,
    log_likelihood,
    observe,
    pick,
    project,
    set_auxiliary,
    settle,
    shift_own,
    visit,
    weigh,
)
from cavity.likelihoods.categorical import Categorical
from cavity.likelihoods.gaussian import ScaledGaussian
from cavity.likelihoods.missing import MissingOrWeightedRows
from cavity.likelihoods.poisson import Poisson
from cavity.likelihoods.sampled_student_t import SampledStudentT
from cavity.likelihoods.selection import draw_by_bounds, draw_from_scores
from cavity.likelihoods.student_t import StudentT


class Product(NamedTuple):
    """Two likelihoods of the same observations."""

    first: Any
    rest: Any
    scores: np.ndarray  # (slots,), room for what the rest says

    @property
    def own_width(self) -> int:
        """Numbers that are drawn with a label: those of the first part."""
        return int(getattr(self.first, "own_width", 1))


declare(Product, slots={"scores": 0})


def product_model(first: Any, rest: Any, n_slots: int) -> Product:
    """The product of two likelihoods; the number of slots is a multiple of eight."""
    require_whole(n_slots)
    return Product(first, rest, np.zeros(n_slots))


@evidence.register(Product)
def _(model, q, k, i):
    return evidence(model.first, q.first, k, i) + evidence(model.rest, q.rest, k, i)


@integrated_evidence.register(Product)
def _(model, q, k, i):
    return integrated_evidence(model.first, q.first, k, i) + evidence(model.rest, q.rest, k, i)


@evidences.register(Product)
def _(model, q, i, out):
    evidences(model.first, q.first, i, out)
    evidences(model.rest, q.rest, i, model.scores)
    for k in range(0, out.shape[0], WIDTH):
        store8(out, k, load8(out, k) + load8(model.scores, k))


@bounds.register(Product)
def _(model, q, i, most, least):
    bounds(model.first, q.first, i, most, least)
    evidences(model.rest, q.rest, i, model.scores)
    for k in range(0, most.shape[0], WIDTH):
        exact = load8(model.scores, k)
        store8(most, k, load8(most, k) + exact)
        store8(least, k, load8(least, k) + exact)


@evidence_after.register(Product)
def _(model, q, k, i):
    # What the rest says is known of all slots by now.
    return evidence_after(model.first, q.first, k, i) + model.scores[k]


@verb
def pick_by(first, model, q, i, weights, scores, mass, visited, rng):
    """``pick`` of a product whose first part is `first`: by all scores, or by bounds."""


@pick_by.register(None)
def _(first, model, q, i, weights, scores, mass, visited, rng):
    evidences(model, q, i, scores)
    return draw_from_scores(weights, scores, mass, rng)


def _by_bounds(first, model, q, i, weights, scores, mass, visited, rng):
    return draw_by_bounds(model, q, i, weights, scores, mass, visited, rng)


for _class in (StudentT, SampledStudentT):
    pick_by.register(_class)(_by_bounds)


@pick_by.register(MissingOrWeightedRows)
def _(first, model, q, i, weights, scores, mass, visited, rng):
    if first.weight[i] == 1.0:
        return pick_by(first.base, model, q, i, weights, scores, mass, visited, rng)
    evidences(model, q, i, scores)
    return draw_from_scores(weights, scores, mass, rng)


@pick.register(Product)
def _(model, q, i, weights, scores, mass, visited, rng):
    return pick_by(model.first, model, q, i, weights, scores, mass, visited, rng)


@observe.register(Product)
def _(model, q, k, i, sign):
    # Both, whatever the first says: a slot that is improper is gathered anew, all of it.
    first = observe(model.first, q.first, k, i, sign)
    rest = observe(model.rest, q.rest, k, i, sign)
    return first and rest


@accumulate.register(Product)
def _(model, q, k, i):
    accumulate(model.first, q.first, k, i)
    accumulate(model.rest, q.rest, k, i)


@project.register(Product)
def _(model, q, k, i, fraction):
    project(model.first, q.first, k, i, fraction)
    project(model.rest, q.rest, k, i, fraction)


def _exact_site(model, q, k, i, fraction):
    # A likelihood to a power is as conjugate as the likelihood: so much of its statistics.
    observe(model, q, k, i, fraction)


for _conjugate in (ScaledGaussian, Categorical, Poisson):
    project.register(_conjugate)(_exact_site)


@log_density.register(Product)
def _(model, parameters, k, i):
    first = log_density(model.first, parameters.first, k, i)
    return first + log_density(model.rest, parameters.rest, k, i)


@log_densities.register(Product)
def _(model, parameters, i, out):
    log_densities(model.first, parameters.first, i, out)
    log_densities(model.rest, parameters.rest, i, model.scores)
    for k in range(0, out.shape[0], WIDTH):
        store8(out, k, load8(out, k) + load8(model.scores, k))


@log_likelihood.register(Product)
def _(model, parameters, z):
    first = log_likelihood(model.first, parameters.first, z)
    return first + log_likelihood(model.rest, parameters.rest, z)


@complete.register(Product)
def _(model, q, k, i, rng):
    complete(model.first, q.first, k, i, rng)


# What is drawn with a label is the first part's alone.


@weigh.register(Product)
def _(model, q, k, i):
    return weigh(model.first, q.first, k, i) + evidence(model.rest, q.rest, k, i)


@shift_own.register(Product)
def _(model, q, i, old, new):
    first = shift_own(model.first, q.first, i, old, new)
    return first + shift_own(model.rest, q.rest, i, old, new)


@auxiliary.register(Product)
def _(model, i, out):
    auxiliary(model.first, i, out)


@set_auxiliary.register(Product)
def _(model, i, values):
    set_auxiliary(model.first, i, values)


@visit.register(Product)
def _(model, i, k, rng):
    visit(model.first, i, k, rng)
    visit(model.rest, i, k, rng)


@settle.register(Product)
def _(model, i, k):
    settle(model.first, i, k)
    settle(model.rest, i, k)
