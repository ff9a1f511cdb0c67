"""Exact posteriors of labels and column indicators of a few rows, by enumeration of both."""

from __future__ import annotations

import itertools
from dataclasses import replace

import enumeration
import numpy as np
import small
import structured
import table_cases
from scipy import special, stats

from cavity.collapse.problems import (
    CategoricalProblem,
    CountsProblem,
    TableProblem,
    part_at,
    paths_of,
)
from cavity.collapse.registry import assemble
from cavity.mcmc.chain import PartitionSampler
from cavity.moves.anchors import all_anchors
from cavity.moves.standard import StandardMoves

N = 5
CODES, COUNTS = table_cases.CODES[:N], table_cases.COUNTS[:N]
# Rows of the Student-t case: a grid over the scales of all rows has no room for more.
FEW = 4


def problem(name, df=None, gaps=False):
    """A problem with an indicator for each of two columns of every part."""
    if name == "diag":
        made = structured.problem("diag", df, structured.MISSING if gaps else None)
        if df is not None:
            made = replace(made, y=made.y[:FEW])
        return replace(made, prior=made.prior._replace(n_held=0), select=True)
    parts = {
        "categorical": CategoricalProblem(
            CODES, table_cases.LEVELS, table_cases.CONCENTRATION, learn=False, select=True
        ),
        "poisson": CountsProblem(COUNTS, table_cases.GAMMA, learn=False, select=True),
    }
    if name == "table":
        return TableProblem(tuple(parts.values()))
    return parts[name]


def chain(made, rng, moves=False):
    """A chain under a Dirichlet process."""
    parts = assemble(made, "collapsed", small.SLOTS)
    kinds = [StandardMoves(all_anchors(made.n), 0)] if moves else []
    for move in kinds:
        move.pace.rate[:] = 4
    prior = small.partition_prior("dp")
    return PartitionSampler(parts, prior, np.zeros(made.n, dtype=int), rng, moves=kinds)


def families(sampler, made):
    """The family of every part."""
    n_parts = len(made.parts) if isinstance(made, TableProblem) else 1
    return [part_at(sampler.family, path) for path in paths_of(n_parts)]


def column_marginals(name, gaps=False):
    """Log marginal of every subset of rows, column by column: a list for each part."""
    if name == "table":
        return column_marginals("categorical") + column_marginals("poisson")
    if name == "diag":
        return [_diagonal_marginals(gaps)]
    if name == "categorical":
        ends = np.cumsum([0, *table_cases.LEVELS])
        return [
            [
                table_cases.categorical_marginals(
                    CODES[:, [j]], table_cases.LEVELS[j : j + 1],
                    table_cases.CONCENTRATION[ends[j] : ends[j + 1]],
                )
                for j in range(2)
            ]
        ]  # fmt: skip
    shape, rate = table_cases.GAMMA
    return [
        [
            table_cases.poisson_marginals(COUNTS[:, [j]], shape[[j]], rate[[j]])
            for j in range(2)
        ]
    ]  # fmt: skip


def _diagonal_marginals(gaps):
    prior = structured.prior("diag")
    missing = structured.MISSING if gaps else np.zeros_like(structured.MISSING)
    out = []
    for j in range(structured.D):
        niw = prior.mean[[j]], prior.kappa, prior.nu, (prior.nu - 2.0) * prior.scale[[[j]]]
        table = {}
        for mask in range(1, 1 << N):
            rows = [i for i in range(N) if mask >> i & 1 and not missing[i, j]]
            table[mask] = (
                enumeration.niw_marginal(structured.Y[rows][:, [j]], *niw) if rows else 0.0
            )
        out.append(table)
    return out


def masks_of(z):
    """Members of each cluster as bits."""
    return [sum(1 << int(i) for i in np.flatnonzero(z == k)) for k in np.unique(z)]


def log_indicators(active):
    """Log probability of indicators, the share of columns that matter integrated out."""
    return special.betaln(1 + active.sum(), 1 + len(active) - active.sum())


def exact(name, gaps=False, log_indicators=log_indicators):
    """The posterior over partitions and indicators."""
    tables = column_marginals(name, gaps)
    full = (1 << N) - 1
    log_prior = small.log_prior("dp")
    states, log_p = [], []
    for z in enumeration.partitions(N):
        masks = masks_of(z)
        for active in itertools.product((0, 1), repeat=2 * len(tables)):
            total = log_prior(z)
            for part, columns in enumerate(tables):
                own = np.array(active[2 * part : 2 * part + 2])
                total += log_indicators(own)
                for table, matters in zip(columns, own, strict=True):
                    total += sum(table[mask] for mask in masks) if matters else table[full]
            states.append([*z, *active])
            log_p.append(total)
    return enumeration.Exact(np.array(states), special.softmax(log_p), True)


def exact_student_t(df, step=0.5):
    """The same of Student-t rows, whose scales belong to all columns: by a grid over the scales."""
    y, prior, d = structured.Y[:FEW], structured.prior("diag"), structured.D
    alpha = 0.5 * df
    log_u = np.arange(-18.0 / (alpha + 0.5 * d), np.log(1.0 + 20.0 / alpha) + step, step)
    log_w = stats.gamma.logpdf(np.exp(log_u), alpha, scale=1.0 / alpha) + log_u
    places = np.indices((log_u.size,) * FEW).reshape(FEW, -1)
    u = np.exp(log_u)[places]
    weight = log_w[places].sum(axis=0) + 0.5 * d * log_u[places].sum(axis=0)
    tables = []
    for j in range(d):
        psi = (prior.nu - 2.0) * prior.scale[j]
        table = {}
        for mask in range(1, 1 << FEW):
            rows = [i for i in range(FEW) if mask >> i & 1]
            own, m = u[rows], len(rows)
            total = prior.kappa + own.sum(axis=0)
            centre = (prior.kappa * prior.mean[j] + y[rows, j] @ own) / total
            after = psi + y[rows, j] ** 2 @ own + prior.kappa * prior.mean[j] ** 2
            after = after - total * centre**2
            value = 0.5 * np.log(prior.kappa / total) + 0.5 * prior.nu * np.log(psi)
            value -= 0.5 * (prior.nu + m) * np.log(after)
            value += special.gammaln(0.5 * (prior.nu + m)) - special.gammaln(0.5 * prior.nu)
            table[mask] = value
        tables.append(table)
    log_prior, full = small.log_prior("dp"), (1 << FEW) - 1
    states, log_p = [], []
    for z in enumeration.partitions(FEW):
        masks = masks_of(z)
        for active in itertools.product((0, 1), repeat=d):
            given = weight
            for table, matters in zip(tables, active, strict=True):
                given = given + (sum(table[m] for m in masks) if matters else table[full])
            states.append([*z, *active])
            log_p.append(log_prior(z) + log_indicators(np.array(active)) + special.logsumexp(given))
    return enumeration.Exact(np.array(states), special.softmax(log_p), True)


def visits(sampler, made, exact, n_sweeps, rng):
    """Indices of the states that a chain visits."""
    found = families(sampler, made)
    rows = np.empty((n_sweeps, exact.states.shape[1]), dtype=np.int64)
    for row in range(-50, n_sweeps):
        sampler.sweep(rng)
        if row >= 0:
            z = enumeration.canonical(sampler.labels())
            rows[row] = np.concatenate([z, *(q.active for q in found)])
    return enumeration.lookup(exact, rows)
