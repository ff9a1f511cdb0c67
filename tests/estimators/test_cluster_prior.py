"""The prior of cluster parameters that the mixtures set up, in standardised units."""

import numpy as np
import pytest

from cavity.estimators.cluster_prior import SCALE_FLOOR, cluster_prior, recording_variance


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return np.column_stack([rng.standard_normal(300), rng.integers(5, size=300)])


@pytest.mark.parametrize("df", [None, 5.0, 8.0])
def test_a_fixed_scale_is_the_prior_mean(X, df):
    niw, updates = cluster_prior(X, 4, 0.1, df, 0.3)
    assert updates == ()
    # The mean of an inverse Wishart is psi over nu - d - 1.
    np.testing.assert_allclose(niw.psi / (niw.nu - 3.0), 0.3 * np.eye(2))
    assert (niw.kappa, niw.nu) == (0.1, 4.0 if df is None else df)


@pytest.mark.parametrize("df", [None, 8.0])
def test_a_learned_scale_is_a_share_of_the_column_s_variance_whatever_nu(X, df):
    niw, (update,) = cluster_prior(X, 4, 0.1, df, "learn")
    spare = niw.nu - 3.0
    np.testing.assert_allclose(update.mean / spare, 0.2 / 4.0)
    assert update.floor[0] / spare == pytest.approx(SCALE_FLOOR, rel=0.5)
    assert update.floor[1] / spare == pytest.approx(1.0 / 12.0)
    start = np.diag(niw.psi) / spare
    assert start[0] == pytest.approx(0.2 / 4.0)
    assert start[1] == pytest.approx(1.0 / 12.0)


def test_steps_that_rounding_has_blurred():
    column = np.array([0.1, 0.2, 0.1 + 0.2, 0.3, 0.7])
    assert recording_variance(column[:, None])[0] == pytest.approx(0.01 / 12.0)


@pytest.mark.parametrize("absurd", [1e10, -1e30, 1e100])
def test_one_absurd_value_does_not_make_gaps_look_like_rounding(absurd):
    column = np.append(np.arange(40.0) / 8.0, absurd)
    assert recording_variance(column[:, None])[0] == pytest.approx(1.0 / 64.0 / 12.0)


def test_rare_ones_do_not_make_a_floor_above_the_variance():
    column = np.zeros(1000)
    column[:3] = 1.0
    standard = column / column.std()
    assert recording_variance(standard[:, None])[0] == 1.0
