"""The adapter against sktime itself: its own checks, and what it clusters."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = [pytest.mark.sktime, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def clusterer():
    from cavity.sktime import SeriesMixtureClusterer

    return SeriesMixtureClusterer


def test_its_examples_run():
    import doctest

    from cavity import sktime

    results = doctest.testmod(sktime)
    assert results.attempted > 0
    assert results.failed == 0


def test_it_passes_the_checks_of_sktime(clusterer):
    from sktime.utils.estimator_checks import check_estimator

    results = check_estimator(clusterer, raise_exceptions=False, verbose=False)
    failed = {name: result for name, result in results.items() if result != "PASSED"}
    assert len(results) > 20
    assert not failed


def test_clusters_of_a_panel_are_recovered(clusterer):
    from sklearn.metrics import adjusted_rand_score

    from cavity.datasets import make_series

    Y, truth = make_series(30, 60, 3, missing=0.2, random_state=1)
    settings = {"n_chains": 2, "n_warmup": 60, "n_draws": 40, "progress": False}
    fitted = clusterer(3, random_state=0, settings=settings).fit(Y[:26, None, :])
    assert adjusted_rand_score(truth.labels[:26], fitted.labels_) > 0.9
    p = fitted.predict_proba(Y[26:, None, :])
    np.testing.assert_allclose(p.sum(1), 1.0)
    found = fitted.predict(Y[26:, None, :])
    same = np.concatenate([fitted.labels_, found])
    assert adjusted_rand_score(truth.labels, same) > 0.85
