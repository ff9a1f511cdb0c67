"""A small table of every kind of part, with gaps, and the exact posterior of its partitions."""

from __future__ import annotations

import functools

import enumeration
import numpy as np
import small
from scipy import special, stats

from cavity.collapse.problems import (
    CategoricalProblem,
    CountsProblem,
    GaussianProblem,
    StudentTProblem,
    TableProblem,
)
from cavity.collapse.registry import assemble

Y, N = small.Y, small.N
CODES = np.array([[0, 0], [0, 2], [-1, 1], [1, 1], [1, -1], [-1, -1]])
LEVELS = (2, 3)
CONCENTRATION = np.array([0.6, 1.1, 0.4, 0.7, 1.5])
COUNTS = np.array([[0.0, 20.0], [2.0, np.nan], [1.0, 15.0], [7.0, 3.0], [np.nan, 0.0], [9.0, 4.0]])
GAMMA = (np.array([1.3, 0.7]), np.array([0.5, 0.1]))
DISPERSION = np.array([2.0, 1.5])
NO_ROWS: dict = {}


def problem(names, y=Y, codes=CODES, counts=COUNTS, learn=False, rows=NO_ROWS):
    """A table of the named parts with a fixed prior each; `rows` are their traits by name."""
    made = {
        "gaussian": lambda: GaussianProblem(y, small.NIW, rows=rows.get("gaussian")),
        "student-t": lambda: StudentTProblem(
            y, small.NIW, (), small.DF, rows=rows.get("student-t")
        ),
        "categorical": lambda: CategoricalProblem(
            codes, LEVELS, CONCENTRATION, learn=learn, rows=rows.get("categorical")
        ),
        "poisson": lambda: CountsProblem(counts, GAMMA, learn=learn, rows=rows.get("poisson")),
        "negative-binomial": lambda: CountsProblem(
            counts, GAMMA, learn=learn, dispersion=DISPERSION, overdispersed=True
        ),
    }
    return TableProblem(tuple(made[name]() for name in names))


def parts(names, collapse, **data):
    return assemble(problem(names, **data), collapse, small.SLOTS)


def _members(mask, n):
    return [i for i in range(n) if mask >> i & 1]


def categorical_marginals(codes, levels, concentration):
    """Log probability of every subset's categories, cell after cell."""
    start = np.concatenate([[0], np.cumsum(levels)])
    out = {}
    for mask in range(1, 1 << len(codes)):
        total = 0.0
        for j in range(len(levels)):
            weight = concentration[start[j] : start[j + 1]].copy()
            for i in _members(mask, len(codes)):
                if codes[i, j] >= 0:
                    total += np.log(weight[codes[i, j]] / weight.sum())
                    weight[codes[i, j]] += 1.0
        out[mask] = total
    return out


def poisson_marginals(counts, shape, rate):
    """Log probability of every subset's counts: gamma and Poisson integrated in closed form."""
    out = {}
    for mask in range(1, 1 << len(counts)):
        total = 0.0
        for j in range(counts.shape[1]):
            y = counts[_members(mask, len(counts)), j]
            y = y[np.isfinite(y)]
            a, b = shape[j] + y.sum(), rate[j] + y.size
            total += shape[j] * np.log(rate[j]) - special.gammaln(shape[j])
            total += special.gammaln(a) - a * np.log(b) - special.gammaln(y + 1.0).sum()
        out[mask] = total
    return out


def negative_binomial_marginals(counts, shape, rate, dispersion):
    """The same for overdispersed counts, by the trapezoid rule over the log mean."""
    x = np.linspace(-60.0, 12.0, 40_001)
    total = dict.fromkeys(range(1, 1 << len(counts)), 0.0)
    for j in range(counts.shape[1]):
        log_w = stats.gamma.logpdf(np.exp(x), shape[j], scale=1.0 / rate[j]) + x
        log_w += np.log(x[1] - x[0])
        r = dispersion[j]
        log_f = [
            np.zeros(x.size) if np.isnan(y) else stats.nbinom.logpmf(y, r, r / (r + np.exp(x)))
            for y in counts[:, j]
        ]
        for mask, value in enumeration._subsets(log_w, log_f).items():
            total[mask] += value
    return total


@functools.cache
def marginals(name):
    if name in ("gaussian", "student-t"):
        return small.marginals(name)
    if name == "categorical":
        return categorical_marginals(CODES, LEVELS, CONCENTRATION)
    if name == "poisson":
        return poisson_marginals(COUNTS, *GAMMA)
    return negative_binomial_marginals(COUNTS, *GAMMA, DISPERSION)


@functools.cache
def exact(names, prior="dp"):
    """The posterior of a product: logarithms of the parts' marginals add up."""
    table = {m: sum(marginals(name)[m] for name in names) for m in range(1, 1 << N)}
    labelled = prior in small.CLOSED
    states = enumeration.labellings(N, 3) if labelled else enumeration.partitions(N)
    return enumeration.posterior(states, table, small.log_prior(prior), labelled)
