"""The log joint density is one documented density, the same for every collapse of a model."""

from __future__ import annotations

import numpy as np
import pytest
import small
from builders import gaussian_collapse, series_chain, student_t_collapse
from scipy import stats

from cavity.conjugate.niw import unpack
from cavity.likelihoods.degrees_of_freedom import HIGHEST, LOWEST
from cavity.mcmc.chain import PartitionSampler
from cavity.priors.cluster import NIWPrior
from cavity.priors.concentration import ConcentrationUpdate
from cavity.priors.covariance_df import LEAST, MOST
from cavity.priors.covariance_scale import FULL, scale_prior
from cavity.priors.hyperpriors import ClusterHyperpriors
from cavity.priors.mean_spread import SpreadPrior
from cavity.priors.partition import dirichlet, dirichlet_process
from cavity.series.parameters import SeriesPriors
from cavity.series.state_space import factor_series

D = 2
NIW = NIWPrior(np.array([0.3, -0.2]), 0.4, 5.0, np.array([[1.0, 0.0], [0.0, 0.6]]))
SCALE = scale_prior(FULL, 5.0, np.array([0.5, 0.3]), 0.5)
TYPICAL = 3.0
SPREAD = SpreadPrior(2.0, 3.0, 0.6)
DF_PRIOR = (2.0, 0.3)
GAMMA = (2.0, 0.7)


def written_out(sampler, likelihood, learn_df):
    """The density by SciPy, term by term."""
    y, z = sampler.model.y, sampler.z
    p = sampler.parameters
    centre, kappa, nu, psi = unpack(sampler.family.prior, D)
    total = small.enumeration.log_restaurant(z, float(sampler.prior.concentration[0]))
    total += stats.gamma.logpdf(sampler.prior.concentration[0], GAMMA[0], scale=1 / GAMMA[1])
    spare = nu - D - 1.0
    (mean,) = (u.scale.mean for u in sampler.updates if isinstance(u, ClusterHyperpriors))
    total += stats.wishart.logpdf(psi / spare, SCALE.strength, np.diag(mean / SCALE.strength))
    total += stats.betaprime(SCALE.tail, SCALE.tail, scale=SCALE.typical).logpdf(mean).sum()
    inside = MOST / (MOST + TYPICAL) - LEAST / (LEAST + TYPICAL)
    total += np.log(TYPICAL / inside) - 2.0 * np.log(TYPICAL + spare)
    total += stats.gamma.logpdf(kappa, SPREAD.shape, scale=1.0 / SPREAD.rate)
    total += stats.norm.logpdf(centre, scale=SPREAD.spread).sum()
    occupied = np.unique(z)
    for k in occupied:
        precision = p.whiten[:, :, k].T @ p.whiten[:, :, k]
        sigma = np.linalg.inv(precision)
        total += stats.invwishart.logpdf(sigma, nu, psi)
        total += stats.multivariate_normal.logpdf(p.mean[:, k], centre, sigma / kappa)
        if likelihood == "gaussian":
            rows = stats.multivariate_normal(p.mean[:, k], sigma)
        else:
            rows = stats.multivariate_t(p.mean[:, k], sigma, 2.0 * sampler.model.alpha[k])
        total += np.sum(rows.logpdf(y[z == k]))
    if learn_df is not None:
        prior = stats.gamma(DF_PRIOR[0], scale=1 / DF_PRIOR[1])
        df = 2.0 * sampler.model.alpha[occupied if learn_df == "each" else [0]]
        cut = np.log(prior.cdf(HIGHEST) - prior.cdf(LOWEST))
        total += np.sum(prior.logpdf(df) - cut)
    return total


@pytest.mark.variants("exact", "student-t-ep-*")
@pytest.mark.parametrize(
    ("likelihood", "collapse", "learn_df"),
    [
        ("gaussian", "collapsed", None),
        ("gaussian", "naive", None),
        ("student-t", "ep", "shared"),
        ("student-t", "ep", None),
        ("student-t", "blocked", "each"),
        ("student-t", "naive", "shared"),
    ],
)
def test_against_scipy(likelihood, collapse, learn_df):
    rng = np.random.default_rng(0)
    y = rng.standard_normal((9, D)) * [1.0, 0.7]
    scale = ClusterHyperpriors(D, SCALE, TYPICAL, SPREAD)
    if likelihood == "gaussian":
        parts = gaussian_collapse(y, NIW, 8, collapse, (scale,))
    else:
        parts = student_t_collapse(
            y, NIW, 8, collapse, 4.0, learn_df=learn_df, df_prior=DF_PRIOR, updates=(scale,)
        )
    sampler = PartitionSampler(
        parts, dirichlet_process(8), np.arange(9) % 3, rng, updates=(ConcentrationUpdate(*GAMMA),)
    )
    for _ in range(3):
        sampler.sweep(rng)
        expected = written_out(sampler, likelihood, learn_df)
        assert sampler.log_joint() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("collapse", ["collapsed", "naive"])
def test_without_cluster_parameters_it_is_the_evidence(collapse):
    """Recorded as log_marginal: against SciPy, and whatever the drawn parameters are."""
    rng = np.random.default_rng(3)
    y = rng.standard_normal((9, D)) * [1.0, 0.7]
    sampler = PartitionSampler(
        gaussian_collapse(y, NIW, 8, collapse),
        dirichlet_process(8, 1.5),
        np.arange(9) % 3,
        rng,
        from_slots=True,
    )
    prior_before = sampler.family.prior.copy()
    for _ in range(3):
        sampler.sweep(rng)
        # One row after another, each by its predictive Student-t density.
        expected = small.enumeration.log_restaurant(sampler.z, 1.5)
        for k in np.unique(sampler.z):
            centre, kappa, nu, psi = NIW.mean, NIW.kappa, NIW.nu, np.array(NIW.psi)
            for row in y[sampler.z == k]:
                freedom = nu - D + 1
                shape = psi * (kappa + 1) / (kappa * freedom)
                expected += stats.multivariate_t.logpdf(row, centre, shape, freedom)
                psi = psi + kappa / (kappa + 1) * np.outer(row - centre, row - centre)
                centre = (kappa * centre + row) / (kappa + 1)
                kappa, nu = kappa + 1, nu + 1
        joint = []
        for _ in range(3):
            joint.append(sampler.log_joint())
            assert float(sampler.record()["log_marginal"]) == pytest.approx(expected, rel=1e-9)
            sampler.collapse.draw_parameters(sampler.z, rng)
        assert len(set(joint)) == 3, "the parameters were not drawn anew"
    np.testing.assert_array_equal(sampler.family.prior, prior_before)


@pytest.mark.parametrize("collapse", ["ep", "collapsed", "naive"])
def test_series_have_one_density_whatever_the_collapse(collapse):
    """Two chains put into the same state by hand give the same number."""
    rng = np.random.default_rng(1)
    y = rng.standard_normal((5, 6)).cumsum(axis=1)
    model = factor_series(
        y, a=0.5, loading=0.5, var_x=0.4, var_y=0.6, population=(0.5, 4.0, 0.2, 1.0)
    )
    none = np.zeros(0)
    priors = SeriesPriors(3.0, 0.2, 3.0, 1.0, none, none, none, none)
    chains = [
        series_chain(
            model, [0, 0, 1, 1, 0], dirichlet(2), priors, np.zeros((2, 0)), rng, collapse=kind
        )
        for kind in (collapse, "naive")
    ]
    for chain in chains:
        chain.parameters.value[:] = np.linspace(-1.0, 1.0, 6)[:, None] * np.arange(1, 9)
    assert chains[0].log_joint() == pytest.approx(chains[1].log_joint(), rel=1e-12)
    # Written out: data given factors, factors, labels, parameters.
    m, eta = model.own, chains[0].parameters.value
    total = 0.0
    for i, k in enumerate([0, 0, 1, 1, 0]):
        mean, covariance = np.zeros(6), np.zeros((6, 6))
        x_mean, x_cov = 0.0, np.zeros((7, 7))
        x_cov[0, 0] = m.var_x0[0]
        for t in range(6):
            x_mean = m.a[i] * x_mean + m.loading[i] * eta[t, k]
            mean[t] = x_mean
            x_cov[t + 1, : t + 1] = m.a[i] * x_cov[t, : t + 1]
            x_cov[: t + 1, t + 1] = x_cov[t + 1, : t + 1]
            x_cov[t + 1, t + 1] = m.a[i] ** 2 * x_cov[t, t] + m.var_x[0]
        covariance = x_cov[1:, 1:] + m.var_y[i] * np.eye(6)
        total += stats.multivariate_normal.logpdf(y[i], mean, covariance)
    total += stats.norm.logpdf(eta[:, :2]).sum()
    total += small.enumeration.log_dirichlet([0, 0, 1, 1, 0], np.ones(2))
    cut = stats.truncnorm((-1 - 0.5) / 0.5, (1 - 0.5) / 0.5, 0.5, 0.5)
    total += cut.logpdf(m.a).sum() + stats.norm.logpdf(m.loading, 0.2, 1.0).sum()
    total += stats.invgamma.logpdf(m.var_x, 3.0, scale=0.2).sum()
    total += stats.invgamma.logpdf(m.var_y, 3.0, scale=1.0).sum()
    total += stats.invgamma.logpdf(m.var_x0, 2.0, scale=1.0).sum()
    assert chains[0].log_joint() == pytest.approx(total, rel=1e-10)
