"""Joint-distribution tests of every sampler that draws parameters.

For each sampler some twenty means are compared; the largest score must stay below the normal
quantile of a 1e-4 false alarm per sampler, Bonferroni over its functions. Seeds are fixed.
"""

from __future__ import annotations

import numpy as np
import pytest
from joint import Case, seen, z_scores
from scipy import stats

from cavity.likelihoods.degrees_of_freedom import TailUpdate
from cavity.likelihoods.gaussian import distances, draw_scales
from cavity.priors.hyperpriors import ClusterHyperpriors

N_SWEEPS = 6000
CASES = [
    Case("gaussian", "collapsed", "dirichlet"),
    Case("gaussian", "naive", "pitman-yor"),
    Case("student-t", "blocked", "dp", "each"),
    Case("student-t", "naive", "dirichlet", "shared"),
    Case("student-t", "collapsed", "dirichlet", "shared"),
    Case("gaussian", "collapsed", "dp", None, True, moves=True),
    Case("student-t", "collapsed", "dp", "shared", True, moves=True),
]
# Other company of the same parts.
MORE = [
    Case("gaussian", "collapsed", "dp"),
    Case("gaussian", "naive", "dp"),
    Case("student-t", "blocked", "dirichlet", "shared"),
    Case("student-t", "naive", "dp", "each"),
    Case("gaussian", "collapsed", "dp", None, True),
    Case("gaussian", "naive", "dirichlet", None, True),
    Case("student-t", "blocked", "dp", "shared", True),
    Case("student-t", "naive", "dp", "shared", True),
    Case("student-t", "collapsed", "dp", "each"),
    Case("student-t", "collapsed", "pitman-yor", "shared", True),
]


# Rows whose values are missing: what fills them is drawn with all else.
GAPS = [
    Case("gaussian", "collapsed", "dp", None, True, moves=True, gaps=True),
    Case("gaussian", "naive", "dp", gaps=True),
    Case("student-t", "collapsed", "dp", "shared", True, moves=True, gaps=True),
    Case("student-t", "blocked", "dirichlet", "shared", gaps=True),
    Case("student-t", "naive", "dp", "each", gaps=True),
]


def case_name(case):
    words = [v for v in case if isinstance(v, str)]
    words += ["hyper"] * case.hyper + ["moves"] * case.moves + ["gaps"] * case.gaps
    return "-".join(words)


def threshold(n_functions):
    return stats.norm.isf(0.5e-4 / n_functions)


@pytest.mark.variants(
    "exact",
    "student-t-blocked-dp-each",
    "gaussian-naive-pitman-yor",
    "student-t-naive-dirichlet-shared",
    "student-t-collapsed-dirichlet-shared",
    "gaussian-collapsed-dirichlet",
    "student-t-collapsed-dp-shared-hyper-moves",
)
@pytest.mark.parametrize(
    "case",
    [*CASES, *(pytest.param(case, marks=pytest.mark.exact) for case in MORE)],
    ids=case_name,
)
def test_joint_distribution(case):
    scores = z_scores(case, N_SWEEPS, seed=1)
    print(f"{case}: largest {np.abs(scores).max():.1f} of {threshold(scores.size):.1f}")
    assert np.abs(scores).max() < threshold(scores.size)


@pytest.mark.exact
@pytest.mark.parametrize("case", GAPS, ids=case_name)
def test_joint_distribution_with_gaps(case):
    scores = z_scores(case, N_SWEEPS, seed=6)
    print(f"{case}: largest {np.abs(scores).max():.1f} of {threshold(scores.size):.1f}")
    assert np.abs(scores).max() < threshold(scores.size)


right_tails = TailUpdate.draw


def halved(self, chain, rng):
    right_tails(self, chain, rng)
    model, distance = chain.model, np.empty(chain.z.size)
    distances(model.y, chain.parameters, chain.z, distance)
    draw_scales(model.scale, model.alpha, 0.5 * distance, chain.z, model.y.shape[1], rng)


def without_jacobian(self, chain, rng):
    self.shape -= 1.0
    right_tails(self, chain, rng)
    self.shape += 1.0


@pytest.mark.exact
def test_half_the_quadratic_form_fails(monkeypatch):
    monkeypatch.setattr(TailUpdate, "draw", halved)
    scores = z_scores(Case("student-t", "blocked", "dirichlet", "shared"), 6000, seed=2)
    assert np.abs(scores).max() > 1.2 * threshold(scores.size)


def test_a_wrong_step_of_the_degrees_of_freedom_fails(monkeypatch):
    """A slice step that forgets that it works on the logarithm."""
    monkeypatch.setattr(TailUpdate, "draw", without_jacobian)
    scores = z_scores(Case("student-t", "naive", "dirichlet", "shared"), 6000, seed=3)
    assert np.abs(scores).max() > 1.2 * threshold(scores.size)


@pytest.mark.variants("exact", "naive", "collapsed")
@pytest.mark.parametrize("collapse", ["collapsed", "naive"])
def test_hyperparameters_given_wrong_covariances_fail(monkeypatch, collapse):
    """A conditional that leaves out the half of tr(Psi Sigma^-1) / 2."""
    right = ClusterHyperpriors.draw

    def doubled(self, chain, rng):
        wrong = chain.parameters._replace(whiten=np.sqrt(2.0) * chain.parameters.whiten)
        right(self, seen(chain, parameters=wrong), rng)

    monkeypatch.setattr(ClusterHyperpriors, "draw", doubled)
    scores = z_scores(Case("gaussian", collapse, "dp", None, True), 6000, seed=5)
    # The scale runs away, and some scores may be no numbers: those find nothing out here.
    assert np.nanmax(np.abs(scores)) > 1.2 * threshold(scores.size)


@pytest.mark.exact
def test_a_drifting_concentration_fails():
    def drift(sampler):
        sampler.prior.concentration[0] *= 1.1

    scores = z_scores(Case("gaussian", "collapsed", "dp"), 6000, seed=4, spoil=drift)
    assert np.abs(scores).max() > 1.2 * threshold(scores.size)
