"""scikit-learn's own checks of an estimator.

One does not apply: that whole weights give the numbers of repeated rows. Weights are relative here,
and the prior over partitions counts each row once: `tests/exact/test_row_priors.py`.
"""

import os
import pickle
import subprocess
import sys
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from cavity import GaussianMixture, StudentTMixture, TableMixture
from cavity.datasets import make_student_t

SMALL = {"n_chains": 1, "n_warmup": 5, "n_draws": 8, "random_state": 0}


ESTIMATORS = [StudentTMixture(2, **SMALL), GaussianMixture(2, **SMALL), TableMixture(2, **SMALL)]


def checks():
    for prototype in ESTIMATORS:
        for estimator, check in estimator_checks_generator(prototype):
            name = check.func.__name__
            # The first skips itself unless SciPy was told of array API before it was imported.
            left = ("check_array_api_input", "check_sample_weight_equivalence_on_dense_data")
            if name not in left:
                yield pytest.param(estimator, check, id=f"{type(prototype).__name__}-{name}")


@pytest.mark.variants(
    "slow",
    "GaussianMixture-*",
    "TableMixture-check_sample_weight*",
    # Rounded values that have weights, or are missing.
    "StudentTMixture-check_sample_weights_not_overwritten",
    "StudentTMixture-check_estimators_pickle*",
    # Tables of text alone, which have kernels of their own.
    "TableMixture-check_dtype_object",
    "TableMixture-check_estimators_pickle*",
    "TableMixture-check_fit_score_takes_y",
    "TableMixture-check_pipeline_consistency",
    # The same as another check, of data that cannot be written to, or of other types.
    "*-check_clustering1",
    "TableMixture-check_estimators_dtypes",
)
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learn_check(estimator, check):
    # A check that does not apply skips itself, and would count as passed.
    try:
        check(estimator)
    except SkipTest as reason:
        pytest.fail(f"scikit-learn skipped it: {reason}")


@pytest.mark.parametrize("prototype", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_the_checks_are_many_and_none_is_excused(prototype):
    """scikit-learn 1.9 has 45 beside that of the array API; releases differ by a few."""
    names = [p.values[1].func.__name__ for p in checks() if type(p.values[0]) is type(prototype)]
    assert len(names) >= 40
    if hasattr(prototype, "noise"):  # those that take weights
        assert "check_sample_weights_not_overwritten" in names
    assert {
        "check_clustering",
        "check_methods_subset_invariance",
        "check_n_features_in_after_fitting",
        "check_fit_idempotent",
        "check_f_contiguous_array_estimator",
    } <= set(names)
    assert not hasattr(prototype, "_xfail_checks")
    assert not any(p.marks for p in checks())


ARRAY_API = f"""
import warnings
warnings.simplefilter("ignore")
from sklearn.utils.estimator_checks import estimator_checks_generator
from cavity import GaussianMixture, StudentTMixture, TableMixture
done = 0
for kind in (StudentTMixture, GaussianMixture, TableMixture):
    for estimator, check in estimator_checks_generator(kind(2, **{SMALL!r})):
        if check.func.__name__ == "check_array_api_input":
            check(estimator)
            done += 1
print(done)
"""


@pytest.mark.slow
def test_scikit_learn_check_of_the_array_api():
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", ARRAY_API], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    # Releases of scikit-learn differ in whether they ask it of every estimator: as often as here.
    asked = [
        check
        for prototype in ESTIMATORS
        for _, check in estimator_checks_generator(prototype)
        if check.func.__name__ == "check_array_api_input"
    ]
    assert int(ran.stdout) == len(asked)


@pytest.fixture(scope="module")
def frame():
    X, _ = make_student_t(45, 3, 2, df=5, separation=15, random_state=2)
    return pd.DataFrame(X, columns=["width", "height"], index=[f"item {i}" for i in range(45)])


@pytest.fixture(scope="module")
def fitted(frame):
    return StudentTMixture(3, **SMALL).fit(frame)


def test_names_of_columns_and_rows_are_kept(fitted, frame):
    assert fitted.feature_names_in_.tolist() == ["width", "height"]
    assert fitted.n_features_in_ == 2
    assert fitted.posterior_.names.tolist() == frame.index.tolist()
    assert fitted.posterior_.record.columns == ("width", "height")


def test_fit_predict_gives_the_point_estimate(fitted, frame):
    labels = StudentTMixture(3, **SMALL).fit_predict(frame)
    np.testing.assert_array_equal(labels, fitted.labels_)
    np.testing.assert_array_equal(labels, fitted.posterior_.partition().labels)


def test_pickled_estimators_predict_alike(fitted, frame):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))
    np.testing.assert_array_equal(again.labels_, fitted.labels_)


def test_clones_have_the_settings_and_no_fit(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "posterior_")


def test_pipeline_and_held_out_score(frame):
    pipeline = make_pipeline(StandardScaler(), GaussianMixture(3, **SMALL))
    scores = cross_val_score(pipeline, frame, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
