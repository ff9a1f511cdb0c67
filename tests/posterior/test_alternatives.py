"""What the answer would be with another number of clusters."""

import numpy as np
import pytest

from cavity.posterior import Posterior
from cavity.posterior.record import RunRecord

ONE = [0] * 6 + [1] * 5 + [2] * 4


def swapped(labels, **changes):
    """Labels with the clusters of some observations changed: at_<position>=<cluster>."""
    found = list(labels)
    for at, cluster in changes.items():
        found[int(at.removeprefix("at_"))] = cluster
    return found


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ([0] * 6 + [1] * 9, "With 2 clusters (30%): clusters 1 and 2 merge."),
        (
            [0] * 6 + [1] * 3 + [3] * 2 + [2] * 4,
            "With 4 clusters (30%): cluster 1 splits into 3 and 2 observations.",
        ),
        (
            swapped([0] * 6 + [1] * 9, at_0=1),
            "With 2 clusters (30%): clusters 1 and 2 merge; 1 observation moves elsewhere.",
        ),
        (
            [0] * 4 + [3] * 2 + [3] * 2 + [1] * 3 + [2] * 4,
            "With 4 clusters (30%): 4 observations of several clusters form a new one.",
        ),
    ],
)
def test_the_difference_is_told(other, words):
    posterior = Posterior.from_labels([ONE] * 7 + [other] * 3)
    assert [str(found) for found in posterior.alternatives()] == [words]


def test_a_small_cluster_that_wanders_is_told_of():
    """Draws of four clusters agree on nothing but the three."""
    draws = [swapped(ONE, **{f"at_{i}": 3}) for i in range(15) if i not in (0, 6, 11)]
    found = Posterior.from_labels([ONE] * 20 + draws).alternatives()
    assert len(found) == 1
    assert found[0].partition.n_clusters == 3
    assert "1 small one more differs from draw to draw" in found[0].difference


def test_rare_numbers_and_the_answer_s_own_are_left_out():
    posterior = Posterior.from_labels([ONE] * 19 + [[0] * 15])
    assert posterior.alternatives() == []
    assert [found.n_clusters for found in posterior.alternatives(least=0.05)] == [1]


def test_noise_is_no_cluster():
    """The first slot is noise: it counts neither in the number nor in the interval."""
    first = [0, 0] + [1] * 6 + [2] * 6
    second = [0, 0] + [1] * 6 + [2] * 3 + [3] * 3
    draws = np.array([[first] * 7 + [second] * 3])
    posterior = Posterior(draws, record=RunRecord("a mixture", noise=True))
    (found,) = posterior.alternatives()
    assert (found.n_clusters, found.probability) == (3, 0.3)
    assert found.difference == "cluster 1 splits into 3 and 3 rows"
