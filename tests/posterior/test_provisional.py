"""What may be said before chains agree."""

import numpy as np
import pytest

from cavity.posterior import Posterior

N = 60
TRUTH = np.repeat([0, 1, 2], 20)


def chain(rng, labels, wandering, n_draws=40):
    """Draws around some labels, of which so many observations wander."""
    draws = np.tile(labels, (n_draws, 1))
    for draw in draws:
        draw[rng.choice(N, wandering, replace=False)] = rng.integers(3, size=wandering)
    return draws


@pytest.mark.parametrize(
    ("moved", "words"),
    [
        (0, "report the clusters only as provisional"),
        (3, "at most as provisional"),
        (20, "report none of this"),
    ],
)
def test_chains_that_are_not_shown_to_agree(moved, words):
    """Too few effective draws; what may be reported depends on the chains' own answers."""
    rng = np.random.default_rng(0)
    other = TRUTH.copy()
    other[:moved] = 1 + np.arange(moved) % 2
    posterior = Posterior(np.array([chain(rng, TRUTH, 2), chain(rng, other, 2)]))
    found = posterior.diagnostics()
    assert not found.converged
    assert words in found.meanwhile
    assert found.meanwhile in found.sentences
    assert np.allclose(posterior.chain_agreement, posterior.chain_agreement.T)
    assert (posterior.chain_agreement.min() >= 0.95) == (moved == 0)


def test_nothing_is_said_of_chains_that_agree_or_cannot_be_compared():
    rng = np.random.default_rng(1)
    alone = Posterior(chain(rng, TRUTH, 2)[None])
    assert alone.diagnostics().meanwhile == ""
    still = Posterior(np.tile(TRUTH, (4, 200, 1)))
    assert still.diagnostics().converged
    assert still.diagnostics().meanwhile == ""
