"""Leave-one-out and predictive densities of the estimators against enumeration and quadrature.

Eight rows, one far out, and every prior fixed: p(y_i | the others) is a ratio of two sums over all
labellings (or partitions).
"""

from __future__ import annotations

import functools

import enumeration
import numpy as np
import pytest
from scipy import integrate, special, stats

from cavity import GaussianMixture, StudentTMixture
from cavity.estimators.dequantize import within_steps
from cavity.predict.densities import predict_rows
from cavity.predict.draws import Rows, _spreads
from cavity.priors import ClusterPrior, PitmanYor

# Two values are close, so that none is known to have been rounded.
X = np.array([[-1.6], [-1.1], [-1.0985], [-0.2], [0.3], [0.8], [1.1], [9.0]])
DF = 4.0
KAPPA, NU, SCALE = 0.1, 4.0, 0.5
FIXED = {
    "cluster_prior": ClusterPrior(KAPPA, NU, SCALE),
    "n_chains": 4,
    "n_warmup": 100,
    "n_draws": 200,
    "thin": 3,
    "random_state": 1,
}
# Eight rows need no moves, and those of Gaussian rows are compiled without them for other tests.
WITHOUT_MOVES = {"options": {"moves": False}}
PRIORS = {
    "dirichlet": {"prior": "dirichlet", "concentration": 0.7},
    "fixed": {"prior": "fixed"},
    "dp": {"prior": "dp", "concentration": 1.3},
    "pitman-yor": {"prior": PitmanYor(0.8, discount=0.3)},
}
LOG_PRIOR = {
    "dirichlet": lambda z: enumeration.log_dirichlet(z, np.full(3, 0.7)),
    "fixed": lambda z: enumeration.log_fixed(z, np.full(3, 1 / 3)),
    "dp": lambda z: enumeration.log_restaurant(z, 1.3),
    "pitman-yor": lambda z: enumeration.log_restaurant(z, 0.8, 0.3),
}


@functools.cache
def fit(kind, prior, collapse="collapsed"):
    more = {"df": DF} if kind is StudentTMixture else WITHOUT_MOVES
    return kind(3, collapse=collapse, **more, **PRIORS[prior], **FIXED).fit(X)


def density_of(m, rows):
    """Log densities by all draws, in the model's units."""
    none = np.empty((len(rows), 0))
    packed = m._predictor.pack(np.arange(800))
    return predict_rows(packed, Rows(rows, none.astype(int), none), m.n_clusters_)[0]


def seen(m):
    """The rows as the model was given them."""
    return within_steps(m._units.standardise(X))


@functools.cache
def exact(kind, prior):
    """Log p(y_i | the others) of every row in the data's units."""
    y = seen(fit(kind, prior))
    psi = SCALE * (NU - 2.0)

    def log_evidence(rows):
        if kind is GaussianMixture:
            niw = np.zeros(1), KAPPA, NU, np.array([[psi]])
            marginals = enumeration.gaussian_marginals(rows, *niw)
        else:
            marginals = enumeration.student_t_marginals(
                rows[:, 0], 0.0, KAPPA, NU, psi, DF, step=0.15
            )
        n = len(rows)
        closed = prior in ("dirichlet", "fixed")
        states = enumeration.labellings(n, 3) if closed else enumeration.partitions(n)
        return special.logsumexp(enumeration.log_joint(states, marginals, LOG_PRIOR[prior]))

    whole = log_evidence(y)
    left = [log_evidence(np.delete(y, i, axis=0)) for i in range(len(y))]
    return whole - np.array(left) - fit(kind, prior)._units.log_volume


def harmonic(log_density):
    """Log of the harmonic mean over draws, and its standard error (draws taken as independent)."""
    inverse = np.exp(-(log_density - log_density.min(axis=0)))
    mean, error = inverse.mean(axis=0), inverse.std(axis=0) / np.sqrt(len(inverse))
    return log_density.min(axis=0) - np.log(mean), error / mean


CASES = [
    *(
        pytest.param(GaussianMixture, prior, marks=() if prior == "dp" else pytest.mark.exact)
        for prior in PRIORS
    ),
    *(
        pytest.param(StudentTMixture, prior, marks=pytest.mark.exact)
        for prior in ("dirichlet", "dp")
    ),
]


@pytest.mark.parametrize(("kind", "prior"), CASES)
def test_leave_one_out_is_exact(kind, prior):
    """800 draws of thinned chains, six standard errors and rounding: a false alarm below 1e-6."""
    m = fit(kind, prior)
    draws = m._leave_one_out(X).log_densities(np.arange(800)) - m._units.log_volume
    found, error = harmonic(draws)
    print(f"{kind.__name__}, {prior}: {found - exact(kind, prior)} +- {error}")
    assert np.all(np.abs(found - exact(kind, prior)) < 6.0 * error + 1e-3)
    # Of all rows together, and of the one far out, it is known well enough to be of use.
    assert error[-1] < 0.2
    result = m.loo(X)
    total = getattr(result, "elpd_loo", getattr(result, "elpd", None))
    # Smoothed by ArviZ, the row far out has a similar error.
    assert total == pytest.approx(exact(kind, prior).sum(), abs=0.2 + 4.0 * error[-1])


@pytest.mark.exact
@pytest.mark.parametrize("kind", [GaussianMixture, StudentTMixture])
def test_independent_columns_have_the_same_answer(kind):
    """With one column it is the same model; a row's own scale is integrated out by quadrature."""
    tails = {"df": DF} if kind is StudentTMixture else {}
    m = kind(3, covariance_type="diag", **tails, **PRIORS["dp"], **FIXED).fit(X)
    draws = m._leave_one_out(X).log_densities(np.arange(800)) - m._units.log_volume
    found, error = harmonic(draws)
    assert np.all(np.abs(found - exact(kind, "dp")) < 6.0 * error + 1e-3)


@pytest.mark.variants("exact", "StudentTMixture")
@pytest.mark.parametrize("kind", [GaussianMixture, StudentTMixture])
def test_drawn_parameters_would_be_optimistic(kind):
    """Negative control: the same identity with parameters that have seen the row far out."""
    m = fit(kind, "dp")
    drawn = density_of(m, seen(m))
    found, _ = harmonic(drawn - m._units.log_volume)
    assert found[-1] > exact(kind, "dp")[-1] + 0.5


@pytest.mark.exact
@pytest.mark.parametrize("collapse", ["naive", "ep", "blocked"])
def test_every_collapse_has_the_same_answer(collapse):
    """The estimator is that of the draws: exact samplers agree, and ep as well as it can."""
    m = fit(StudentTMixture, "dp", collapse)
    draws = m._leave_one_out(X).log_densities(np.arange(800)) - m._units.log_volume
    found, _ = harmonic(draws)
    np.testing.assert_allclose(found, exact(StudentTMixture, "dp"), atol=0.3)


@pytest.mark.parametrize(("kind", "prior"), CASES)
def test_the_predictive_density_integrates_to_one(kind, prior):
    m = fit(kind, prior)
    # Heavy tails: in the inverse hyperbolic sine of the distance.
    t = np.linspace(-25.0, 25.0, 20_001)
    density = np.exp(m.score_samples(np.sinh(t)[:, None]) + np.log(np.cosh(t)))
    assert integrate.trapezoid(density, t) == pytest.approx(1.0, abs=0.002)


# Three clusters of equal weight are hardly ever empty: there is next to nothing to leave out.
@pytest.mark.parametrize(("kind", "prior"), [case for case in CASES if case[1] != "fixed"])
def test_without_the_empty_clusters_it_does_not(kind, prior):
    """Negative control: what is left out is more than the tolerance above."""
    m = fit(kind, prior)
    share = 1.0 - np.nansum(m.posterior_.drawn["weight"], axis=2).mean()
    assert share > 0.005


@pytest.mark.variants(
    "exact", "0.01-4.0", "0.01-0.6", "1.0-150.0", "1.0-0.6", "30.0-150.0", "30.0-4.0"
)
@pytest.mark.parametrize("df", [0.6, 4.0, 150.0])
@pytest.mark.parametrize("kappa", [0.01, 1.0, 30.0])
def test_the_density_of_a_row_in_a_cluster_of_its_own(df, kappa):
    """A few scales stand for all: against quadrature, near and far out."""
    weight, spread = _spreads(0.5 * df, kappa)
    assert weight.sum() == pytest.approx(1.0)
    assert len(weight) <= 64
    y = np.array([0.0, 1.0, 5.0, 30.0, 300.0])
    t = stats.t(3.0, scale=np.sqrt(spread))
    found = (weight * t.pdf(y[:, None])).sum(axis=1)
    for value, at in zip(found, y, strict=True):

        def integrand(log_u, at=at):
            u = np.exp(log_u)
            scale = np.sqrt(1 / u + 1 / kappa)
            return (
                stats.gamma.pdf(u, 0.5 * df, scale=2 / df) * u * stats.t.pdf(at, 3.0, scale=scale)
            )

        wanted = integrate.quad(integrand, -60.0, 8.0, limit=500, points=[-5.0, 0.0])[0]
        assert value == pytest.approx(wanted, rel=0.02)


@pytest.mark.exact
@pytest.mark.parametrize("prior", PRIORS)
def test_the_predictive_density_is_exact(prior):
    """Log p(y_9 | eight rows) against enumeration over nine: means over draws, Gaussian clusters.

    Within five standard errors, by 40 batches of draws, at three places, two of them between the
    clusters: 2e-5 of false alarms for each.
    """
    m = fit(GaussianMixture, prior)
    y = seen(m)
    closed = prior in ("dirichlet", "fixed")
    niw = np.zeros(1), KAPPA, NU, np.array([[SCALE * (NU - 2.0)]])

    def log_evidence(rows):
        n = len(rows)
        states = enumeration.labellings(n, 3) if closed else enumeration.partitions(n)
        marginals = enumeration.gaussian_marginals(rows, *niw)
        return special.logsumexp(enumeration.log_joint(states, marginals, LOG_PRIOR[prior]))

    new = np.array([[-0.5], [2.0], [4.0]])
    density = np.exp(density_of(m, new))
    means = density.reshape(40, -1, len(new)).mean(axis=1)
    found, error = means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(40)
    wanted = [log_evidence(np.vstack([y, row])) - log_evidence(y) for row in new]
    print(prior, np.log(found), wanted, error / found)
    assert (error < 0.12 * found).all()
    assert (np.abs(found - np.exp(wanted)) < 5.0 * error).all()
