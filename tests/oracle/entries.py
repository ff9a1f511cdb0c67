"""Entry kernels: the verbs of families and models, callable from a test."""

from __future__ import annotations

from cavity._numba.jit import compiled
from cavity.conjugate.niw import add_row as _add_row_of
from cavity.conjugate.niw import log_gamma_ratio as _log_gamma_ratio
from cavity.conjugate.niw import rank_one as _rank_one
from cavity.interface import (
    bounds,
    divergence,
    draw,
    evidence,
    evidences,
    hold,
    load,
    log_partition,
    project,
    put_back,
)


def _load(q, k):
    return load(q, k)


def _log_partition(q, k):
    return log_partition(q, k)


def _divergence(q, k, r, j):
    return divergence(q, k, r, j)


def _draws(q, k, parameters, rng, out_mean, out_whiten):
    for j in range(out_mean.shape[0]):
        draw(q, k, parameters, rng)
        for r in range(out_mean.shape[1]):
            out_mean[j, r] = parameters.mean[r, k]
            for c in range(r + 1):
                out_whiten[j, r, c] = parameters.whiten[r, c, k]


def _vector_draws(q, k, parameters, rng, out):
    for j in range(out.shape[0]):
        draw(q, k, parameters, rng)
        for t in range(out.shape[1]):
            out[j, t] = parameters.value[t, k]


def _ratios(x, d, out):
    for j in range(x.shape[0]):
        out[j] = _log_gamma_ratio(x[j], d)


def _move(q, k, kappa, nu, shift, scale, weight, y):
    return _rank_one(q, k, kappa, nu, shift, scale, weight, y)


def _add_row(q, k, w, count, y):
    return _add_row_of(q, k, w, count, y)


def _hold(q, k, room):
    hold(q, k, room)


def _put_back(q, k, room):
    put_back(q, k, room)


def _evidence(model, q, k, i):
    return evidence(model, q, k, i)


def _evidences(model, q, i, out):
    evidences(model, q, i, out)


def _all_evidence(model, q, k, out):
    for i in range(out.shape[0]):
        out[i] = evidence(model, q, k, i)


def _bounds(model, q, i, most, least):
    bounds(model, q, i, most, least)


def _project(model, q, k, i, fraction):
    project(model, q, k, i, fraction)


def call(kernel, *args):
    """Compile (or find) and run a kernel."""
    return compiled(kernel, tuple(a for a in args if isinstance(a, tuple)))(*args)
