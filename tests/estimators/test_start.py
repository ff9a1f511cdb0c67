"""Where chains start: short runs, of which each chain goes on with one, by mass."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GaussianMixture, StudentTMixture
from cavity.datasets import make_student_t
from cavity.estimators.start import LOOKED_AT, RUN_SWEEPS, chosen_run
from cavity.priors import ClusterPrior

NORMAL = float("inf")
# Priors that are held, under which chains stay where they are.
HELD = {
    "cluster_prior": ClusterPrior(0.01, 6.0, 0.1),
    "concentration": 20.0,
}


class Played:
    """A chain of given densities and labels."""

    def __init__(self, density, labels):
        self.density, self.drawn = density, labels
        self.n_sweeps = 0

    def sweep(self, rng):
        self.n_sweeps += 1

    def log_marginal(self):
        return self.density

    def labels(self):
        return self.drawn[self.n_sweeps % len(self.drawn)]


SURE = np.array([[0, 0, 0, 1, 1, 1]])


def shares(chains, n=400):
    """How often each of some chains is chosen."""
    rng = np.random.default_rng(1)
    found = [chosen_run(lambda run: Played(*chains[run]), len(chains), 2, rng) for _ in range(n)]
    assert all(chain.n_sweeps == RUN_SWEEPS for chain in found)
    return [sum(chain.density == density for chain in found) / n for density, _ in chains]


def test_a_run_is_chosen_by_its_mass():
    """Odds of 3 to 1 are met within four standard errors; a hopeless run is never chosen."""
    likely, unlikely, hopeless = shares([(0.0, SURE), (-np.log(3.0), SURE), (-40.0, SURE)])
    assert hopeless == 0
    assert abs(likely - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 400)
    assert likely + unlikely == 1


def test_doubt_counts_but_a_run_on_its_way_does_not_win():
    rng = np.random.default_rng(0)
    # Three rows in doubt, each between two clusters: 3 log 2 nats of entropy, half of it counts.
    doubt = np.tile(SURE, (LOOKED_AT, 1))
    doubt[:, :3] = rng.integers(2, size=(LOOKED_AT, 3))
    doubtful = shares([(-0.5, doubt), (0.0, SURE)])[0]
    assert doubtful > 0.5
    # Two hundred rows anywhere look like 138 nats of entropy.
    wandering = rng.integers(2, size=(LOOKED_AT, 200))
    still = np.repeat([[0, 1]], 100, axis=1)
    assert shares([(-90.0, wandering), (0.0, still)]) == [0, 1]


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
    monkeypatch.setattr("cavity.mixture.runs_of", lambda *of: 1)
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
