"""The prior of cluster parameters that the mixtures set up, and the data that they see."""

import numpy as np
import pytest

from cavity import StudentTMixture
from cavity.estimators.dequantize import LEAST_STEP, recording_steps, within_steps
from cavity.priors.cluster_prior import ClusterPrior, starting_scale


@pytest.mark.parametrize("df", [5.0, 8.0])
def test_what_is_given_is_not_learned(df):
    niw, updates = ClusterPrior(0.1, df, 0.3).full(2, 4)
    assert updates == ()
    # The mean of an inverse Wishart is psi over nu - d - 1.
    np.testing.assert_allclose(niw.psi / (niw.nu - 3.0), 0.3 * np.eye(2))
    assert (niw.kappa, niw.nu) == (0.1, df)


@pytest.mark.parametrize("scale", ["full", "diagonal"])
@pytest.mark.parametrize("df", ["learn", 8.0])
def test_a_learned_scale_starts_where_the_number_of_clusters_says_whatever_nu(df, scale):
    niw, (update,) = ClusterPrior("learn", df, scale).full(2, 4)
    np.testing.assert_allclose(niw.psi / (niw.nu - 3.0), starting_scale(4, 2) * np.eye(2))
    assert (update.typical > 0.0) == (df == "learn")


def test_the_number_of_clusters_is_no_part_of_the_prior():
    few, many = (ClusterPrior().full(2, k)[1][0] for k in (2, 50))
    assert few.typical == many.typical
    assert few.spread == many.spread
    for name, value in few.scale._asdict().items():
        np.testing.assert_array_equal(value, getattr(many.scale, name))


@pytest.mark.parametrize(
    "settings",
    [
        {"mean_strength": 0},
        {"covariance_df": np.inf},
        {"covariance_scale": -1},
        {"covariance_scale": "guess"},
        {"covariance_scale": None},
        {"mean_strength": True},
    ],
)
def test_values_out_of_range_are_refused(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"cluster_prior.{name} must be"):
        ClusterPrior(**settings)


def test_steps_that_rounding_has_blurred():
    column = np.array([0.1, 0.2, 0.1 + 0.2, 0.3, 0.7])
    assert recording_steps(column[:, None])[0] == pytest.approx(0.1)


@pytest.mark.parametrize("absurd", [1e10, -1e30, 1e100])
def test_one_absurd_value_does_not_make_gaps_look_like_rounding(absurd):
    column = np.append(np.arange(40.0) / 8.0, absurd)
    assert recording_steps(column[:, None])[0] == pytest.approx(1.0 / 8.0)


def test_rare_ones_do_not_make_a_step_wider_than_the_column():
    column = np.zeros(1000)
    column[:3] = 1.0
    standard = column / column.std()
    assert recording_steps(standard[:, None])[0] == pytest.approx(np.sqrt(12.0))


def test_values_stay_within_their_steps_and_are_no_longer_tied():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal(300), rng.integers(5, size=300) / 2.0])
    seen = within_steps(X)
    assert np.abs(seen - X)[:, 0].max() <= LEAST_STEP / 2.0
    assert np.abs(seen - X)[:, 1].max() <= 0.25
    assert np.unique(seen[:, 1]).size == 300
    # Within a step every place is as good as any other; the chi-squared test has level 1e-4.
    places = np.histogram(seen[:, 1] - X[:, 1], 10, (-0.25, 0.25))[0]
    assert ((places - 30.0) ** 2 / 30.0).sum() < 33.7
    np.testing.assert_array_equal(seen, within_steps(X))


@pytest.mark.slow
def test_the_answer_does_not_depend_on_the_order_of_rounded_rows():
    """Ratings from 1 to 7, twice: as far apart as two seeds are (.008), not .08 as before."""
    rng = np.random.default_rng(7)
    apart = np.where(rng.random(60) < 0.5, 3, 5)[:, None]
    X = np.clip(np.round(apart + rng.standard_normal((60, 2))), 1, 7)
    order = np.random.default_rng(1).permutation(60)
    settings = {"n_chains": 2, "n_warmup": 200, "n_draws": 1000, "noise": False}
    first, second = (
        StudentTMixture(5, random_state=seed, **settings).fit(rows).posterior_.similarity()
        for seed, rows in enumerate((X, X[order]))
    )
    back = np.argsort(order)
    apart = np.abs(first - second[np.ix_(back, back)])
    assert apart.mean() < 0.025
    assert apart.max() < 0.15
