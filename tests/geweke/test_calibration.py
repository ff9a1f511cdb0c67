"""Simulation-based calibration of the public estimators at their default priors.

Everything is drawn from the documented priors with NumPy and SciPy, data last; a fit of the data
follows; the rank of each true value among the fit's draws is uniform if generator and sampler have
the same priors and the sampler is right. Units are held: the standardisation of columns would
make the prior depend on the data.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cavity import GaussianMixture, StudentTMixture, mixture
from cavity.likelihoods.degrees_of_freedom import DF_PRIOR, HIGHEST, LOWEST
from cavity.priors import cluster_prior
from cavity.priors.cluster_prior import (
    CENTRE_SPREAD,
    FULL_SPARE,
    SHARE_TAIL,
    STRENGTH_RATE,
    STRENGTH_SHAPE,
    TYPICAL_SHARE,
    TYPICAL_SPARE,
)
from cavity.priors.covariance_df import LEAST, MOST
from cavity.priors.specifications import FiniteMixture

N, D, K = 30, 2, 3
N_DATA, N_BINS = 60, 5
DRAWS, THIN = 99, 12
# Of all statistics of a study together.
FALSE_ALARM = 1e-3


def simulated(kind, rng):
    """Hyperparameters, clusters, labels and data from their priors."""
    mean = TYPICAL_SHARE * rng.gamma(SHARE_TAIL, size=D) / rng.gamma(SHARE_TAIL, size=D)
    strength = D + FULL_SPARE
    S = stats.wishart(strength, np.diag(mean / strength)).rvs(random_state=rng)
    ends = np.array([LEAST, MOST])
    share = rng.uniform(*(ends / (ends + TYPICAL_SPARE)))
    spare = TYPICAL_SPARE * share / (1.0 - share)
    nu = spare + D + 1.0
    kappa = rng.gamma(STRENGTH_SHAPE, 1.0 / STRENGTH_RATE)
    centre = CENTRE_SPREAD * rng.standard_normal(D)
    df = np.inf
    while kind is StudentTMixture and not LOWEST <= df <= HIGHEST:
        df = rng.gamma(DF_PRIOR[0], 1.0 / DF_PRIOR[1])
    prior = FiniteMixture()
    chances = np.arange(1.0, K + 1.0) ** -prior.power
    number = 1 + rng.choice(K, p=chances / chances.sum())
    concentration = rng.gamma(prior.gamma[0], 1.0 / prior.gamma[1])
    z = rng.choice(number, size=N, p=rng.dirichlet(np.full(number, concentration)))
    y = np.empty((N, D))
    for k in np.unique(z):
        members = z == k
        covariance = stats.invwishart(nu, spare * S).rvs(random_state=rng)
        mean = rng.multivariate_normal(centre, covariance / kappa)
        u = np.ones(members.sum()) if np.isinf(df) else rng.gamma(0.5 * df, 2.0 / df, members.sum())
        noise = rng.multivariate_normal(np.zeros(D), covariance, members.sum())
        y[members] = mean + noise / np.sqrt(u)[:, None]
    truth = {
        "concentration": concentration,
        "covariance_prior_df": nu,
        "mean_prior_strength": kappa,
        "centre": centre[0],
        "scale": S[0, 0],
        "df": df,
        **of_labels(z[None], rng)[0],
    }
    return y, truth


def of_labels(z, rng):
    """What labels say whatever their names; ties are broken at random."""
    out = []
    for row in z:
        sizes = np.bincount(row)
        shares = sizes[sizes > 0] / N
        out.append(
            {
                "number": len(shares) + rng.uniform(0.0, 1e-6),
                "entropy": -(shares * np.log(shares)).sum() + rng.uniform(0.0, 1e-6),
                "first pair": float(row[0] == row[1]) + rng.uniform(0.0, 1e-6),
                "pairs of five": np.mean(row[:5, None] == row[None, :5]) + rng.uniform(0.0, 1e-6),
            }
        )
    return out


def ranks(kind, monkeypatch):
    """Ranks of the true values, from 0 to DRAWS, one row per data set."""
    monkeypatch.setattr(
        mixture, "robust_standardiser", lambda X, *given: (np.zeros(X.shape[1]), np.ones(D))
    )
    monkeypatch.setattr(mixture, "within_steps", lambda X, *given: X)
    rng = np.random.default_rng(11)
    found = []
    settings = {"n_clusters": K, "n_chains": 1, "n_warmup": 400, "n_jobs": 1, "noise": False}
    for seed in range(N_DATA):
        y, truth = simulated(kind, rng)
        model = kind(**settings, n_draws=DRAWS, thin=THIN, progress=False, random_state=seed).fit(y)
        drawn = model.posterior_.drawn
        labels = of_labels(model.posterior_.flat_labels, rng)
        values = {name: np.array([row[name] for row in labels]) for name in labels[0]}
        values |= {
            name: drawn[name].ravel()
            for name in ("concentration", "covariance_prior_df", "mean_prior_strength")
            if name in drawn
        }
        if "df" in drawn:  # one value that all occupied clusters share
            values["df"] = np.nanmax(drawn["df"], axis=-1).ravel()
        values["centre"] = drawn["mean_prior_centre"][..., 0].ravel()
        values["scale"] = drawn["covariance_prior_scale"][..., 0].ravel()
        found.append({name: int((v < truth[name]).sum()) for name, v in values.items()})
    return {name: np.array([row[name] for row in found]) for name in found[0]}


def p_values(found):
    """Of the uniformity of each statistic's ranks, by chi-squared over bins."""
    out = {}
    for name, rank in found.items():
        counts = np.bincount(rank * N_BINS // (DRAWS + 1), minlength=N_BINS)
        out[name] = stats.chisquare(counts).pvalue
    return out


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [StudentTMixture, GaussianMixture])
def test_default_fits_are_calibrated(kind, monkeypatch):
    p = p_values(ranks(kind, monkeypatch))
    print(p)
    assert min(p.values()) > FALSE_ALARM / len(p), p


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_calibration_notices_another_prior(monkeypatch):
    """Negative control: a sampler that takes means to lie further apart than the generator does."""
    monkeypatch.setattr(cluster_prior, "STRENGTH_RATE", 10.0 * STRENGTH_RATE)
    p = p_values(ranks(GaussianMixture, monkeypatch))
    print(p)
    assert p["mean_prior_strength"] < FALSE_ALARM / len(p), p
