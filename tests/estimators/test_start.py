"""Where chains start: short runs that all share, and a chain in each mode that they found."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from cavity import GaussianMixture, NotConvergedWarning, StudentTMixture
from cavity.datasets import make_student_t
from cavity.estimators.start import (
    LOOKED_AT,
    QUIET_ROUNDS,
    ROUND,
    RUN_SWEEPS,
    ShortRun,
    StartingRuns,
    survey,
)
from cavity.priors import ClusterPrior

NORMAL = float("inf")
# Priors that are held, under which chains stay where they are.
HELD = {
    "cluster_prior": ClusterPrior(0.01, 6.0, 0.1),
    "concentration": 20.0,
}


SURE = np.array([[0, 0, 0, 1, 1, 1]])
OTHER = np.array([[0, 1, 0, 1, 0, 1]])


def ended(density, labels):
    """A short run of constant density, in turn at each of some labels."""
    drawn = np.resize(labels, (LOOKED_AT, labels.shape[1]))
    return ShortRun(labels[0], drawn, np.full(LOOKED_AT, density), {})


def test_a_mode_counts_once_however_many_runs_reach_it():
    modes, order, _ = survey([ended(0.0, SURE)] * 5 + [ended(0.0, OTHER)], 2)
    assert [len(mode.runs) for mode in modes] == [5, 1]
    assert order[:2] == [0, 5]
    assert sorted(order) == list(range(6))


def test_a_mode_of_next_to_no_mass_is_no_start():
    modes, order, best = survey([ended(-2.0, OTHER), ended(0.0, SURE)], 2)
    assert [mode.runs for mode in modes] == [(1,), (0,)]
    assert order == [1, 0]
    assert best == pytest.approx(np.log(2.0))
    hopeless = np.array([[0, 0, 1, 1, 0, 1]])
    modes, order, _ = survey([ended(0.0, SURE), ended(-20.0, hopeless)], 2)
    assert (len(modes), order) == (1, [0])


def test_a_run_on_its_way_shows_no_mode():
    """Two hundred rows anywhere may hold 138 nats of entropy, or none."""
    rng = np.random.default_rng(0)
    wandering = rng.integers(2, size=(LOOKED_AT, 200))
    still = np.repeat([[0, 1]], 100, axis=1)
    modes, order, _ = survey([ended(-90.0, wandering), ended(0.0, still)], 2)
    assert [mode.runs for mode in modes] == [(1,)]
    assert order == [1, 0]


class Played:
    """A chain that stays in the first or the second mode, as its start says."""

    def __init__(self, labels, rng):
        self.z, self.n_sweeps = labels, 0

    def sweep(self, rng):
        self.n_sweeps += 1

    def log_marginal(self):
        return -1.0

    def labels(self):
        return self.z

    def state(self):
        return {"n_sweeps": np.array(self.n_sweeps)}

    def restore(self, state):
        self.n_sweeps = int(state["n_sweeps"])


def played(n_chains, n_threads=1, n_modes=2):
    def first(run, rng):
        return (SURE, OTHER)[int(rng.integers(n_modes))][0]

    return StartingRuns(first, Played, 16, n_chains, n_threads, 2)


def generator(chain=0, seed=3):
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed).spawn(9)[chain]))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_chains_start_in_all_modes_and_share_the_runs(n_threads):
    starts = played(4, n_threads)
    chains = [starts.sampler(chain, generator(chain)) for chain in (2, 0, 1, 3)]
    assert all(chain.n_sweeps == RUN_SWEEPS for chain in chains)
    assert len({tuple(chain.labels()) for chain in chains[1:3]}) == 2
    # They depend on the seed alone.
    others = played(2)
    others.sampler(1, generator(1))
    assert [tuple(run.start) for run in others.runs] == [tuple(run.start) for run in starts.runs]
    assert starts.unvisited([SURE]) == ()


def test_runs_end_when_they_find_nothing_new():
    starts = played(4, n_modes=1)
    starts.sampler(0, generator())
    assert len(starts.runs) == (1 + QUIET_ROUNDS) * ROUND


def test_a_mode_without_a_chain_is_noted_until_one_comes_there():
    starts = played(1)
    begun = starts.sampler(0, generator()).labels()
    other = SURE[0] if tuple(begun) == tuple(OTHER[0]) else OTHER[0]
    (facts,) = starts.unvisited([np.tile(begun, (9, 1))])
    assert (facts["n_clusters"], facts["below"]) == (2, [0.0, 0.0])
    assert 0 < facts["runs"] < len(starts.runs)
    assert starts.unvisited([np.stack([begun, 1 - other])]) == ()


def symmetric(n=24):
    """Four blobs and their mirror image: two halves are left and right, or up and down."""
    rng = np.random.default_rng(0)
    corners = 3.0 * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    X = corners[np.arange(n) % 4] + rng.standard_normal((n, 2))
    return np.vstack([X, X[:, ::-1]])


def test_two_modes_that_were_seen_are_not_one_that_converged():
    settings = {"n_warmup": 120, "max_sweeps": 360, "noise": False, "progress": False}
    with pytest.warns(NotConvergedWarning, match="sit in 2 modes"):
        model = StudentTMixture(2, random_state=1, **settings).fit(symmetric())
    assert not model.converged_
    with pytest.warns(NotConvergedWarning, match="no chain visits it: 2 clusters"):
        model = StudentTMixture(2, n_chains=1, random_state=0, **settings).fit(symmetric())
    assert len(model.posterior_.record.unvisited) == 1


@pytest.mark.variants("slow", "1")
@pytest.mark.parametrize("n_chains", [1, 2])
def test_a_run_that_stays_in_one_of_two_modes_ends_soon(n_chains):
    settings = {"noise": False, "progress": False, "random_state": 0, "n_chains": n_chains}
    with pytest.warns(NotConvergedWarning, match="modes|no chain visits it"):
        model = StudentTMixture(2, **settings).fit(symmetric())
    record = model.posterior_.record
    assert record.stopped == "modes"
    assert record.n_sweeps < 8_000
    assert len(record.unvisited) == 2 - n_chains
    assert not model.converged_
    assert "since longer ones seldom move between modes" in str(model.diagnostics().verdict)


def test_the_same_draws_whatever_the_threads_and_after_a_stop(tmp_path):
    settings = {"n_warmup": 120, "n_chains": 2, "progress": False, "random_state": 0}
    X = symmetric()

    def labels(**more):
        return GaussianMixture(3, **{**settings, **more}).fit(X).posterior_.labels

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        one = labels(n_draws=9, n_jobs=1)
        np.testing.assert_array_equal(one, labels(n_draws=9, n_jobs=2))
        labels(n_draws=4, checkpoint=tmp_path / "c")
        np.testing.assert_array_equal(one, labels(n_draws=9, checkpoint=tmp_path / "c"))


def test_no_chain_stays_where_a_bad_start_led(monkeypatch):
    """Every second start has two groups in one cluster and two clusters in one group."""
    X, truth = make_student_t(120, 5, 2, NORMAL, 14, random_state=3)
    wrong = np.where(truth.labels == 1, 0, truth.labels)
    wrong[(truth.labels == 2) & (np.arange(120) % 2 == 0)] = 1

    def planted(X, n_clusters, init, start, rng):
        return wrong if start % 2 == 1 else truth.labels

    monkeypatch.setattr("cavity.mixture.initial_labels", planted)
    settings = {
        "options": {"moves": False},
        "n_warmup": 120,
        "progress": False,
        "random_state": 0,
        **HELD,
    }
    model = GaussianMixture(5, max_sweeps=360, **settings).fit(X)
    assert not model.posterior_.record.set_aside
    assert len(model.diagnostics().modes) == 1
    # With no choice of runs half of the chains stay there.
    monkeypatch.setattr("cavity.mixture.runs_of", lambda *of: 0)
    model = GaussianMixture(5, max_sweeps=360, **settings).fit(X)
    assert [facts["chain"] for facts in model.posterior_.record.set_aside] == [1, 3]


@pytest.mark.parametrize(
    ("n", "n_clusters"), [(90, 20), pytest.param(600, 10, marks=pytest.mark.slow)]
)
def test_three_clear_groups_stay_three_with_room_for_more(n, n_clusters):
    rng = np.random.default_rng(5)
    truth = np.arange(n) % 3
    X = 10.0 * np.array([[0, 0], [1, 0], [0, 1]])[truth] + rng.standard_normal((n, 2))
    model = StudentTMixture(n_clusters, random_state=0, progress=False).fit(X)
    assert model.converged_
    assert model.n_clusters_ == 3
    assert len(model.posterior_.doubtful()) == 0


@pytest.mark.slow
def test_groups_in_six_of_45_columns_are_found():
    from sklearn.metrics import adjusted_rand_score

    rng = np.random.default_rng(2)
    truth = np.arange(300) % 3
    X = rng.standard_normal((300, 45))
    X[:, :6] += 3.0 * rng.standard_normal((3, 6))[truth]
    model = StudentTMixture(3, random_state=0, progress=False).fit(X)
    assert adjusted_rand_score(truth, model.labels_) > 0.9
