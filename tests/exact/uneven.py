"""Five rows in two columns with gaps, weights or known labels, and their exact posteriors.

Marginals of clusters are brute force: missing cells are integrated over on a grid, or all columns'
parameters by a mean over very many draws from their prior.
"""

from __future__ import annotations

import functools

import enumeration
import numpy as np
import small
from builders import gaussian_collapse, student_t_collapse
from scipy import special

from cavity.likelihoods.missing import RowTraits
from cavity.mcmc.chain import PartitionSampler
from cavity.moves.anchors import all_anchors

Y = small.PLANE
NIW = small.PLANE_NIW
N, D = Y.shape
MISSING = np.zeros((N, D), dtype=bool)
MISSING[[0, 2, 4], [1, 0, 1]] = True
ONES = np.ones(N)


def traits(missing=MISSING, weight=ONES, box=None):
    return RowTraits(missing, np.asarray(weight, float), box)


def collapse(name, rows, niw=NIW, y=Y, slots=small.SLOTS, df=small.DF, **options):
    """A model under a collapse; the gaps start at nought."""
    likelihood, _, kind = name.rpartition("-")
    y = np.where(rows.missing, 0.0, y)
    if likelihood == "gaussian":
        return gaussian_collapse(y, niw, slots, kind, rows=rows, **options)
    return student_t_collapse(y, niw, slots, kind, df, rows=rows, **options)


def chain(name, rows, prior, rng, moves=(), z=None, **options):
    parts = collapse(name, rows, **options)
    made = [kind(all_anchors(N), 0) for kind in moves]
    for move in made:
        move.pace.rate[:] = 4
    z = np.zeros(N, dtype=int) if z is None else z
    return PartitionSampler(parts, prior, z, rng, moves=made)


# --------------------------------------------------------------------------- cells on a grid


def grid(step=0.2, reach=5.6):
    """Nodes and log weights of an integral over the line, for tails that fall slowly."""
    t = np.arange(-reach, reach + step, step)
    return np.sinh(t), np.log(np.cosh(t) * step)


def log_niw(y, niw):
    """Log marginal likelihood of complete clusters, (..., n, d)."""
    mean, kappa, nu, psi = niw
    n, d = y.shape[-2:]
    centre = y.mean(axis=-2)
    away = y - centre[..., None, :]
    scatter = np.swapaxes(away, -1, -2) @ away
    shift = centre - mean
    scatter = scatter + kappa * n / (kappa + n) * shift[..., :, None] * shift[..., None, :]
    value = -0.5 * n * d * np.log(np.pi) + 0.5 * d * np.log(kappa / (kappa + n))
    value += special.multigammaln(0.5 * (nu + n), d) - special.multigammaln(0.5 * nu, d)
    value += 0.5 * nu * np.linalg.slogdet(psi)[1]
    return value - 0.5 * (nu + n) * np.linalg.slogdet(psi + scatter)[1]


def with_cells(members, missing, step=0.2):
    """Every completion of a cluster's cells from the grid, and its log weight."""
    nodes, log_weight = grid(step)
    cells = np.argwhere(missing)
    if not len(cells):
        return members[None], np.zeros(1)
    places = np.indices((nodes.size,) * len(cells)).reshape(len(cells), -1)
    rows = np.repeat(members[None], places.shape[1], axis=0)
    for place, (i, j) in zip(places, cells, strict=True):
        rows[:, i, j] = nodes[place]
    return rows, log_weight[places].sum(axis=0)


@functools.cache
def gaussian_tables():
    """Log marginals of every subset; and means of the missing cells given each subset alone."""
    marginals, means = {}, {}
    for mask in range(1, 1 << N):
        own = [i for i in range(N) if mask >> i & 1]
        rows, log_weight = with_cells(Y[own], MISSING[own])
        log_p = log_niw(rows, NIW) + log_weight
        marginals[mask] = float(special.logsumexp(log_p))
        p = special.softmax(log_p)
        for place, i in enumerate(own):
            if MISSING[i].any():
                j = int(np.flatnonzero(MISSING[i])[0])
                # Bounded, so that tails do not matter.
                means[mask, i] = float(p @ np.tanh(rows[:, place, j]))
    return marginals, means


# --------------------------------------------------------------------------- parameters by draws


@functools.cache
def parameter_draws(n_draws=1_500_000, seed=5):
    rng = np.random.default_rng(seed)
    # A root of each precision (Bartlett), times that of the prior; written out for two columns.
    prior = np.linalg.cholesky(np.linalg.inv(NIW.psi))
    first, last = (np.sqrt(rng.chisquare(NIW.nu - j, n_draws)) for j in range(2))
    side = prior[1, 0] * first + prior[1, 1] * rng.standard_normal(n_draws)
    first, last = prior[0, 0] * first, prior[1, 1] * last
    inverse = np.zeros((n_draws, D, D))
    inverse[:, 0, 0], inverse[:, 1, 1] = 1.0 / first, 1.0 / last
    inverse[:, 1, 0] = -side / (first * last)
    root = np.swapaxes(inverse, 1, 2)
    noise = rng.standard_normal((n_draws, D, 1)) / np.sqrt(NIW.kappa)
    return NIW.mean + (root @ noise)[:, :, 0], root @ inverse


def log_density_of(y, there, mean, sigma, df):
    """Log density of what is there of a row, under each of many parameters."""
    if not there.any():
        return np.zeros(len(mean))
    block = sigma[:, there][:, :, there]
    away = (y - mean)[:, there]
    form = np.einsum("ni,nij,nj->n", away, np.linalg.inv(block), away)
    d = int(there.sum())
    value = -0.5 * np.log(np.linalg.det(block))
    if df is None:
        return value - 0.5 * (d * np.log(2.0 * np.pi) + form)
    value += special.gammaln(0.5 * (df + d)) - special.gammaln(0.5 * df)
    return value - 0.5 * d * np.log(df * np.pi) - 0.5 * (df + d) * np.log1p(form / df)


@functools.cache
def marginals_by_draws(df):
    """Log marginal of every subset: the mean likelihood over draws of the parameters."""
    mean, sigma = parameter_draws()
    each = [log_density_of(Y[i], ~MISSING[i], mean, sigma, df) for i in range(N)]
    out = {}
    for mask in range(1, 1 << N):
        total = sum(each[i] for i in range(N) if mask >> i & 1)
        out[mask] = float(special.logsumexp(total) - np.log(len(mean)))
    return out


def exact(marginals, log_prior, labelled=False, n_clusters=3):
    states = enumeration.labellings(N, n_clusters) if labelled else enumeration.partitions(N)
    return enumeration.posterior(states, marginals, log_prior, labelled)


def allowed(posterior, keep):
    """The posterior given that a state is among those kept."""
    chosen = np.array([keep(z) for z in posterior.states])
    p = posterior.probability[chosen]
    return enumeration.Exact(posterior.states[chosen], p / p.sum(), posterior.labelled)
