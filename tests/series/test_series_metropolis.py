"""Steps of what all series share: there and back, with the right ratio of priors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from cavity.series.metropolis import BEGINNING, DYNAMICS, OWN_NOISE, AdaptiveMetropolis
from cavity.series.parameters import EVERYTHING, KNOWN, Hyperprior, SeriesPriors
from cavity.series.state_space import factor_series

ONE = np.ones(1)
LEARNED = SeriesPriors(
    3.0, 0.2, 3.0, 1.0, 0 * ONE, ONE, 4 * ONE, 0.3 * ONE, a=Hyperprior(True, 1.5, 2.0, 0.1)
)
STATED = LEARNED._replace(a=KNOWN)
STEP = np.array([0.3, 0.4, -0.2])


def parameters(a):
    m = factor_series(np.zeros((len(a), 3)), a=np.array(a), loading=0.4, var_x=0.4, var_y=0.6,
                      population=(0.6, 9.0, 0.0, 2.0))  # fmt: skip
    return m.own


def read(own, learned):
    values = [own.var_x[0], *own.a]
    return np.array([*values, own.population[0], 1 / own.population[1]] if learned else values)


def write(own, values, learned):
    own.var_x[0] = values[0]
    own.a[:] = values[1 : 1 + own.a.size]
    if learned:
        own.population[0], own.population[1] = values[-2], 1 / values[-1]


def log_prior(own, priors):
    """Of var_x, the a_i, and their population if it is learned, by SciPy."""
    mean, sd = own.population[0], own.population[1] ** -0.5
    total = stats.invgamma(priors.var_x_shape, scale=priors.var_x_scale).logpdf(own.var_x[0])
    inside = stats.truncnorm((-1 - mean) / sd, (1 - mean) / sd, mean, sd)
    total += inside.logpdf(own.a).sum()
    if priors.a.learned:
        total += -0.5 * priors.a.precision * mean**2
        total += stats.invgamma(priors.a.shape, scale=priors.a.scale).logpdf(sd**2)
    return total


@pytest.mark.parametrize("priors", [LEARNED, STATED], ids=["learned", "stated"])
@pytest.mark.parametrize("backwards", [False, True])
def test_the_gain_is_the_priors_ratio_times_the_jacobian(priors, backwards):
    learned = priors.a.learned
    step = STEP if learned else STEP * [1, 1, 0]
    steps, own = AdaptiveMetropolis(priors), parameters([0.9, -0.2, 0.7])
    before, start = log_prior(own, priors), read(own, learned)

    def moved(values):
        one = parameters([0.9, -0.2, 0.7])
        write(one, values, learned)
        steps.take(one, ONE.copy(), step, backwards=backwards)
        return read(one, learned)

    gain = steps.take(own, ONE.copy(), step, backwards=backwards)
    sides = 1e-6 * np.eye(start.size)
    columns = [(moved(start + side) - moved(start - side)) / 2e-6 for side in sides]
    volume = math.log(abs(np.linalg.det(columns)))
    # The proposal is symmetric in log var_x and in the logarithm of the population's variance.
    assert gain == pytest.approx(log_prior(own, priors) - before + volume, abs=1e-5)


@pytest.mark.parametrize("backwards", [False, True])
def test_the_way_back_takes_the_other_order(backwards):
    steps, own = AdaptiveMetropolis(LEARNED), parameters([0.9, -0.2, 0.7])
    start = read(own, True)
    gain = steps.take(own, ONE, STEP, backwards=backwards)
    assert steps.take(own, ONE, -STEP, backwards=not backwards) == pytest.approx(-gain, abs=1e-10)
    np.testing.assert_allclose(read(own, True), start, rtol=1e-12)
    # In the same order it does not lead back: this is why a coin decides the order.
    steps.take(own, ONE, STEP, backwards=backwards)
    steps.take(own, ONE, -STEP, backwards=backwards)
    assert np.abs(read(own, True) - start).max() > 1e-4


def test_steps_of_the_beginning_have_the_priors_ratio():
    """Both are symmetric in the logarithm of a variance, and go together or not at all."""
    steps, own, spread = AdaptiveMetropolis(LEARNED, BEGINNING), parameters([0.9, 0.7]), 0.4 * ONE

    def log_prior_of_logs():
        start = stats.invgamma(LEARNED.var_x0_shape, scale=LEARNED.var_x0_scale)
        levels = stats.invgamma(4.0, scale=0.3)
        values = own.var_x0[0], spread[0]
        return start.logpdf(values[0]) + levels.logpdf(values[1]) + np.log(values).sum()

    before = log_prior_of_logs()
    gain = steps.take(own, spread, np.array([0.5, -0.8]))
    assert gain == pytest.approx(log_prior_of_logs() - before, abs=1e-12)
    assert spread[0] == pytest.approx(0.4 * math.exp(-0.8))
    assert steps.directions(EVERYTHING, levels=True) == [0, 1]
    assert steps.directions(EVERYTHING) == []
    assert steps.directions(EVERYTHING._replace(var_x0=False), levels=True) == []


def drawn_from_the_prior(steps, n):
    """Variances that many steps visit where the data say nothing, thinned."""
    rng, own, spread = np.random.default_rng(4), parameters([0.5, 0.2]), 0.4 * ONE
    ways, out = steps.directions(EVERYTHING, levels=True), []
    for number in range(n):
        steps.attempt(own, spread, ways, 0.0, lambda: 0.0, rng)
        if number > 500 and number % 20 == 0:
            out.append([own.var_x0[0], spread[0]])
    return np.array(out)


def test_walks_and_leaps_visit_what_they_should(monkeypatch):
    """False alarm below 1e-4; leaps taken as if they were walks are noticed."""
    start = stats.invgamma(LEARNED.var_x0_shape, scale=LEARNED.var_x0_scale)
    levels = stats.invgamma(4.0, scale=0.3)
    found = drawn_from_the_prior(AdaptiveMetropolis(LEARNED, BEGINNING), 30_000)
    for values, reference in zip(found.T, (start, levels), strict=True):
        assert stats.kstest(values, reference.cdf).pvalue > 5e-5
    leap = AdaptiveMetropolis._independence_proposal
    monkeypatch.setattr(
        AdaptiveMetropolis, "_independence_proposal", lambda *given: (leap(*given)[0], 0.0)
    )
    found = drawn_from_the_prior(AdaptiveMetropolis(LEARNED, BEGINNING), 30_000)
    assert stats.kstest(found[:, 1], levels.cdf).pvalue < 5e-5


def test_leaps_are_made_where_they_go_further():
    """A density that stands still is leapt about; one that follows the a_i is walked along."""
    rng = np.random.default_rng(7)
    for spread_of_target, better in ((0.5, True), (None, False)):
        steps, own = AdaptiveMetropolis(LEARNED, OWN_NOISE), parameters([0.5, 0.4, 0.6])
        centre = 0.0

        def density(own=own, width=spread_of_target):
            away = math.log(own.var_x[0]) - centre  # noqa: B023
            return -0.5 * (away / (width or 0.02)) ** 2

        ways = steps.directions(EVERYTHING)
        for _ in range(400):
            if spread_of_target is None:
                centre += 0.1 * rng.standard_normal() - 0.02 * centre
            steps.attempt(own, ONE, ways, density(), density, rng)
        assert steps.independence_is_better() == better
        assert steps.jumps[:, 0].sum() == 100


def test_a_place_is_where_steps_lead():
    cases = (LEARNED, DYNAMICS, STEP), (STATED, DYNAMICS, STEP * [1, 1, 0])
    for priors, block, step in (*cases, (LEARNED, BEGINNING, STEP[:2])):
        steps, own, spread = AdaptiveMetropolis(priors, block), parameters([0.9, -0.2]), 0.4 * ONE
        ways = np.flatnonzero(step)
        before = steps.place(own, spread)
        steps.take(own, spread, step)
        np.testing.assert_allclose((steps.place(own, spread) - before)[ways], step[ways])


def test_near_a_unit_root_no_step_leads_beyond_it():
    steps, own = AdaptiveMetropolis(LEARNED), parameters([0.9999, 0.998, 0.9])
    for _ in range(5):
        assert steps.take(own, ONE, np.array([0.0, 1.0, 0.0])) > -math.inf
    assert own.a.max() < 1.0


def test_steps_adapt_to_the_density_and_then_stay():
    """A density that is narrow in one direction: the metric finds it, tuning ends."""
    steps, own = AdaptiveMetropolis(LEARNED), parameters([0.5, 0.4, 0.6])
    rng = np.random.default_rng(0)

    def density():
        return -0.5 * (math.log(own.var_x[0]) / 0.01) ** 2

    before, accepted, after_tuning = density(), 0, None
    ways = steps.directions(EVERYTHING)
    for number in range(900):
        took, before = steps.attempt(own, ONE, ways, before, density, rng)
        if number == 400:
            after_tuning = steps.tuning[0], steps.metric.copy()
        accepted += took and number > 400
    assert 0.15 < accepted / 500 < 0.6
    assert steps.tuning[0] == after_tuning[0]
    np.testing.assert_array_equal(steps.metric, after_tuning[1])
    assert abs(math.log(own.var_x[0])) < 0.06
