"""Chains put together as the estimators do it, for tests of samplers."""

from __future__ import annotations

import numpy as np

from cavity.collapse.problems import (
    GaussianProblem,
    ScaleMixtureProblem,
    StructuredProblem,
    StudentTProblem,
)
from cavity.collapse.registry import assemble
from cavity.conjugate.normal import Tied
from cavity.mcmc.chain import PartitionSampler, slots_for
from cavity.priors.concentration import ConcentrationUpdate
from cavity.priors.structured import StructuredPrior
from cavity.series.parameters import EVERYTHING
from cavity.series.problem import SeriesProblem


def diagonal_collapse(y, niw, n_slots, df=None, rows=None):
    """Independent columns; with one column the same model as a full covariance."""
    prior = StructuredPrior(niw.mean, niw.kappa, niw.nu, np.diag(niw.psi) / (niw.nu - 2.0))
    return assemble(StructuredProblem(y, "diag", prior, df, rows=rows), "collapsed", n_slots)


def gaussian_collapse(y, niw, n_slots, collapse, updates=(), rows=None, latent=None):
    if collapse == "diag":
        return diagonal_collapse(y, niw, n_slots, rows=rows)
    return assemble(GaussianProblem(y, niw, tuple(updates), rows, latent), collapse, n_slots)


def student_t_collapse(
    y, niw, n_slots, collapse, df, learn_df=None, df_prior=(2.0, 0.1), updates=(), rows=None,
    latent=None, **options,
):  # fmt: skip
    if collapse == "diag":
        return diagonal_collapse(y, niw, n_slots, df, rows)
    problem = StudentTProblem(y, niw, tuple(updates), df, learn_df, df_prior, rows, latent)
    return assemble(problem, collapse, n_slots, options)


def scale_mixture_collapse(y, prior, n_slots, collapse, *, options=None, **constants):
    return assemble(ScaleMixtureProblem(y, prior, **constants), collapse, n_slots, options)


def series_chain(
    model,
    labels,
    prior,
    priors,
    hyper,
    rng,
    *,
    collapse="ep",
    moving=EVERYTHING,
    draw="auto",
    keep_trends=False,
    learn_df=False,
    concentration_prior=None,
    **options,
):
    """A started chain of the series model."""
    problem = SeriesProblem(model, priors, hyper, moving, draw, keep_trends, learn_df)
    n_used = int(np.max(labels, initial=-1)) + 1
    n_slots = slots_for(max(n_used, 1), True) if prior.is_open else max(prior.weights.size, n_used)
    updates = () if concentration_prior is None else (ConcentrationUpdate(*concentration_prior),)
    parts = assemble(problem, collapse, n_slots, options)
    return PartitionSampler(parts, prior, np.asarray(labels), rng, updates=updates)


def precisions(covariance, slots):
    """Inverse covariances of some slots, (slots, d, d)."""
    if isinstance(covariance, Tied):
        one = covariance.whiten.T @ covariance.whiten
        return np.broadcast_to(one, (slots.size, *one.shape))
    out = []
    for k in slots:
        root = covariance.root[:, k]
        inner = covariance.project[:, :, k]
        out.append((np.eye(root.size) - inner.T @ inner) * root * root[:, None])
    return np.array(out)
