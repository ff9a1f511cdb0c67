"""Leave-one-out and posterior predictive checks of the mixtures."""

import numpy as np
import pytest

from cavity import GaussianMixture, StudentTMixture
from cavity.datasets import make_student_t

SHORT = {"n_chains": 2, "n_warmup": 40, "n_draws": 60, "random_state": 0}


@pytest.fixture(scope="module")
def heavy():
    """Heavy-tailed data, rows enough to show it, with a Student-t and a Gaussian fit."""
    X, _ = make_student_t(400, 2, 2, df=2.0, separation=20, random_state=4)
    X = X * [1.0, 1e-3] + [0.0, 50.0]
    return X, StudentTMixture(2, **SHORT).fit(X), GaussianMixture(2, **SHORT).fit(X)


def test_loo_prefers_the_right_tails(heavy):
    X, student, gaussian = heavy
    ours, theirs = student.loo(X), gaussian.loo(X)
    elpd = [getattr(r, "elpd_loo", getattr(r, "elpd", None)) for r in (ours, theirs)]
    assert elpd[0] > elpd[1] + 20
    # In the data's own units, and close to (a little below) the in-sample score.
    in_sample = student.score_samples(X).sum()
    assert in_sample - 40 < elpd[0] < in_sample


def test_loo_wants_the_fitted_rows(heavy):
    X, student, _ = heavy
    with pytest.raises(ValueError, match="399 rows, the fit had 400"):
        student.loo(X[1:])


def test_predictive_check_sees_tails_that_the_model_cannot_make(heavy):
    X, student, gaussian = heavy
    good = student.predictive_check(X, n_replicates=100)
    assert good.shape == (8, 5)
    assert list(good.index.names) == ["column", "statistic"]
    assert good["p"].min() > 0.01
    assert gaussian.predictive_check(X, n_replicates=100)["p"].min() <= 0.02
    # The units are the data's.
    assert good.loc[("x1", "median"), "observed"] == pytest.approx(np.median(X[:, 1]))
    spread = np.subtract(*np.quantile(X[:, 1], [0.75, 0.25]))
    assert good.loc[("x1", "quartile spread"), "observed"] == pytest.approx(spread)
    between = good["lower"] <= good["mean"]
    assert (between & (good["mean"] <= good["upper"])).sum() >= 7


def test_predictive_check_needs_a_value(heavy):
    *_, gaussian = heavy
    with pytest.raises(ValueError, match="no value in a continuous column"):
        gaussian.predictive_check(np.full((4, gaussian.n_features_in_), np.nan), n_replicates=20)


def test_predictive_check_is_repeatable_and_checks_its_settings(heavy):
    X, student, _ = heavy
    first = student.predictive_check(X, n_replicates=20, random_state=3)
    assert first.equals(student.predictive_check(X, n_replicates=20, random_state=3))
    with pytest.raises(ValueError, match="n_replicates must be an integer of at least 20"):
        student.predictive_check(X, n_replicates=1)
