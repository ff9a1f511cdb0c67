"""Fits that find their own length: soon on easy data, later on hard, and honest about both."""

from __future__ import annotations

import numpy as np
import pytest

import cavity
from cavity import GaussianMixture, NotConvergedWarning, SeriesMixture, StudentTMixture
from cavity.datasets import make_series, make_student_t
from cavity.hedonic import HedonicIndex
from cavity.priors import ClusterPrior

# Priors that are held: how fast those that learn mix is not what is asked here.
HELD = {
    "cluster_prior": ClusterPrior(0.01, 6.0, 0.1),
    "concentration": 20.0,
}
QUICK = {"n_warmup": 60, "random_state": 0, "progress": False}


def blobs(separation, seed=1, n=120, n_clusters=3):
    normal = float("inf")
    return make_student_t(n, n_clusters, 2, normal, separation, random_state=seed)


def same_draws(one, other):
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.log_joint, other.log_joint)
    for name, values in one.parameters.items():
        np.testing.assert_array_equal(values, other.parameters[name], err_msg=name)


def test_a_draft_becomes_a_report_without_starting_over():
    X, _ = blobs(4, n=60, n_clusters=2)
    model = GaussianMixture(2, precision="draft", warm_start=True, **QUICK).fit(X)
    draft = model.posterior_
    assert model.converged_
    assert draft.diagnostics().sentences[0].startswith("Draft: the chains agree roughly")
    assert not draft.diagnostics(precision="report").converged
    report = model.set_params(precision="report").fit(X).posterior_
    assert report.diagnostics().sentences[0].startswith("Converged")
    assert draft.record.n_sweeps < report.record.n_sweeps
    same_draws(report, GaussianMixture(2, **QUICK).fit(X).posterior_)
    with pytest.raises(ValueError, match="the data are not the same"):
        model.fit(X + 1.0)
    cold = GaussianMixture(2, n_draws=20, **QUICK).fit(X)
    assert not hasattr(cold, "_chains")
    with pytest.warns(UserWarning, match="did not keep its chains"):
        cold.set_params(warm_start=True).fit(X)
    longer = cold.set_params(n_draws=40).fit(X)
    same_draws(longer.posterior_, GaussianMixture(2, n_draws=40, **QUICK).fit(X).posterior_)


def test_series_continue_in_memory():
    Y = make_series(20, 30, 2, random_state=0)[0]
    settings = {"n_chains": 2, "n_warmup": 5, "random_state": 0, "progress": False}
    model = SeriesMixture(2, n_draws=5, warm_start=True, **settings).fit(Y)
    longer = model.set_params(n_draws=15).fit(Y)
    whole = SeriesMixture(2, n_draws=15, **settings).fit(Y)
    same_draws(longer.posterior_, whole.posterior_)


@pytest.mark.slow
def test_max_seconds_keeps_what_there_is():
    """The warm-up is far from its end when the time is over."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((569, 30))
    X[:, 1:] += X[:, :1]
    model = StudentTMixture(
        10, n_warmup=5000, max_seconds=1.0, init="random", random_state=0, progress=False
    )
    with pytest.warns(NotConvergedWarning):
        model.fit(X)
    record = model.posterior_.record
    assert record.stopped == "max_seconds"
    assert model.labels_.shape == (569,)
    assert model.posterior_.n_draws >= 1
    assert not model.converged_


@pytest.mark.parametrize("estimator", [StudentTMixture, GaussianMixture, SeriesMixture])
def test_every_estimator_finds_its_own_length(estimator):
    assert estimator().precision == "report"
    assert estimator().warm_start is False
    with pytest.raises(ValueError, match="precision must be"):
        estimator(2, precision="rough").fit(np.zeros((20, 2)))
    assert estimator().n_draws == "auto"
    assert estimator().max_sweeps == 20_000
    assert estimator().max_seconds is None
    assert HedonicIndex().n_draws == "auto"


@pytest.mark.slow
def test_easy_data_end_early_and_hard_ones_late():
    easy = GaussianMixture(3, **QUICK, **HELD).fit(blobs(15)[0])
    hard = GaussianMixture(3, **QUICK, **HELD).fit(blobs(2.5)[0])
    for model in (easy, hard):
        record = model.posterior_.record
        assert model.converged_
        assert record.stopped == "converged"
        assert record.n_sweeps == model.posterior_.sweep_seconds.shape[1]
        assert record.n_warmup == pytest.approx(record.n_sweeps / 3, abs=1)
        assert (model.diagnostics().table["ess_bulk"].drop("pairs together (worst)") >= 400).all()
    assert easy.posterior_.record.n_sweeps <= 260
    assert hard.posterior_.record.n_sweeps >= 2 * easy.posterior_.record.n_sweeps


@pytest.mark.slow
def test_the_same_draws_whatever_the_threads():
    X, _ = blobs(3)
    one, two = (
        GaussianMixture(3, n_jobs=n_jobs, **QUICK, **HELD).fit(X).posterior_ for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(one.log_joint, two.log_joint)
    for name in ("n_sweeps", "n_warmup", "thin", "stopped", "set_aside"):
        assert getattr(one.record, name) == getattr(two.record, name)


@pytest.mark.slow
def test_the_limit_is_told_with_what_to_do(tmp_path):
    X, _ = blobs(1.5)
    with pytest.warns(NotConvergedWarning, match=r"R-hat .* Continue the run: max_sweeps="):
        model = GaussianMixture(3, max_sweeps=70, checkpoint=tmp_path / "c", **QUICK, **HELD).fit(X)
    assert model.posterior_.n_draws == 10
    assert model.posterior_.record.stopped == "max_sweeps"
    assert "came to its limit of 70 sweeps per chain" in model.diagnostics().verdict
    again = cavity.load(model.save(tmp_path / "run.nc"))
    assert again.posterior_.record == model.posterior_.record
    assert again.n_draws == "auto"
    # With a larger limit it goes on, to the draws that it would have had.
    longer = GaussianMixture(3, checkpoint=tmp_path / "c", **QUICK, **HELD).fit(X)
    whole = GaussianMixture(3, **QUICK, **HELD).fit(X)
    assert longer.converged_
    np.testing.assert_array_equal(longer.posterior_.labels, whole.posterior_.labels)


def test_a_limit_of_time():
    X, _ = blobs(1.5)
    settings = {**QUICK, "thin": 200, "max_sweeps": 10**7}
    with pytest.warns(NotConvergedWarning, match="Give it more time"):
        model = GaussianMixture(3, max_seconds=1.0, **settings).fit(X)
    assert model.posterior_.record.stopped == "max_seconds"


def test_stuck_chains_are_set_aside_and_told(monkeypatch):
    """A chain begins with two blobs in one cluster and two clusters in one blob, and stays."""
    X, truth = blobs(14, seed=3, n_clusters=5)
    truth = np.asarray(truth)
    wrong = np.where(truth == 1, 0, truth)
    wrong[(truth == 2) & (np.arange(len(truth)) % 2 == 0)] = 1

    def planted(X, n_clusters, init, chain, rng):
        return wrong if chain == 3 else truth

    monkeypatch.setattr("cavity.mixture.initial_labels", planted)
    settings = {**QUICK, **HELD, "options": {"moves": False}}
    model = GaussianMixture(5, **settings).fit(X)
    record = model.posterior_.record
    assert [facts["chain"] for facts in record.set_aside] == [3]
    assert record.set_aside[0]["below"] > 30
    assert model.posterior_.n_chains == 3
    assert model.converged_
    assert "1 of 4 chains was set aside" in model.diagnostics().verdict
    assert len(np.unique(np.stack([truth, model.labels_]), axis=1).T) == 5
    # A number of draws adapts nothing: the stuck chain is there, and the verdict is against it.
    with pytest.warns(NotConvergedWarning, match="sit in 2 modes"):
        fixed = GaussianMixture(5, n_draws=200, **settings).fit(X)
    assert fixed.posterior_.n_chains == 4
    assert "chain 3 (mean log joint" in fixed.diagnostics().verdict


@pytest.mark.slow
def test_series_and_their_running_moments(tmp_path):
    """Trends are those of the draws that were kept, also after a stop on the way."""
    Y, _ = make_series(12, 20, n_clusters=2, missing=0.1, random_state=1)
    settings = {**QUICK, "n_chains": 2, "options": {"keep_trends": True}}
    with pytest.warns(NotConvergedWarning):
        whole = SeriesMixture(2, max_sweeps=400, **settings).fit(Y)
    with pytest.warns(NotConvergedWarning):
        SeriesMixture(2, max_sweeps=233, checkpoint=tmp_path / "c", **settings).fit(Y)
    with pytest.warns(NotConvergedWarning):
        again = SeriesMixture(2, max_sweeps=400, checkpoint=tmp_path / "c", **settings).fit(Y)
    np.testing.assert_array_equal(whole.posterior_.labels, again.posterior_.labels)
    np.testing.assert_array_equal(whole.trends_.mean, again.trends_.mean)
    assert whole.posterior_.record.n_warmup == 180
    drawn = whole.posterior_.parameters["trend"].mean(axis=(0, 1))
    spread = whole.posterior_.parameters["trend"].std(axis=(0, 1))
    # Means given parameters instead of draws: alike to a few standard errors of slow chains.
    assert np.abs((whole.trends_.mean.to_numpy() - drawn) / spread).max() < 0.3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_draws": "many"}, "n_draws must be one of 'auto', not 'many'"),
        ({"max_sweeps": 0}, "max_sweeps must be an integer of at least 1"),
        ({"max_sweeps": 100}, "max_sweeps=100 leaves no sweep for a draw after n_warmup=200"),
        ({"n_warmup": 5}, "n_warmup must be an integer of at least 20 with n_draws='auto'"),
        ({"max_seconds": 0}, "max_seconds must be a number greater than 0"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture(2, **settings).check(np.zeros((9, 2)))
