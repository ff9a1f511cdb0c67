"""Signs of loadings: drawn with the label of one series, and turned for a whole cluster.

The sign of (loadings, factor) of a cluster is not identified, so two clusters may hold the same
factor in mirror image. A series that could only change its label would never cross over, nor would
the two ever meet: its label and the sign of its loading are drawn as one block.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cavity._numba.jit import jit
from cavity.likelihoods.selection import draw_from_scores
from cavity.series.state import LOADING_MEAN, LOADING_PRECISION
from cavity.updates import LIKELIHOOD, Chain, Update


@jit(internal=True)
def sign_pull(m, i):
    """Half the log prior density of series i's loading as it is over that of it turned."""
    population = m.own.population
    return population[LOADING_PRECISION] * population[LOADING_MEAN] * m.own.loading[i]


@jit(internal=True)
def both_signs(m, i, here, turned):
    """Log likelihood of series i with its sign integrated out where it is free.

    `here` and `turned` are those with the loading as it is and turned; what the two densities of
    the prior share is left out.
    """
    if not m.own.free_signs:
        return here
    pull = sign_pull(m, i)
    here += pull
    turned -= pull
    return max(here, turned) + math.log1p(math.exp(-abs(here - turned)))


@jit(internal=True)
def draw_label_and_sign(m, i, weights, scores, mass, rng):
    """Draw a slot for series i, and the sign of its loading with it where signs are free.

    ``m.scratch.signed`` has the series' log likelihood in every slot with the loading as it is,
    and turned. `scores` receives the log likelihoods from which the slot was drawn: with the sign
    integrated out where it is free.
    """
    signed = m.scratch.signed
    n_slots = scores.shape[0]
    if not m.own.free_signs:
        for k in range(n_slots):
            scores[k] = signed[0, k]
        return draw_from_scores(weights, scores, mass, rng)
    for k in range(n_slots):
        scores[k] = both_signs(m, i, signed[0, k], signed[1, k])
    k = draw_from_scores(weights, scores, mass, rng)
    if k >= 0:
        ratio = math.exp(min(signed[0, k] - signed[1, k] + 2.0 * sign_pull(m, i), 700.0))
        if rng.random() * (1.0 + ratio) < 1.0:
            m.own.loading[i] = -m.own.loading[i]
    return k


def turned(
    total: np.ndarray,
    population: np.ndarray,
    counts: np.ndarray,
    together: bool,
    rng: np.random.Generator,
) -> np.ndarray:
    """Which occupied clusters to turn, given the sum of the loadings of each.

    The population's mean is turned in place, if it is turned with them.
    """
    pull = population[LOADING_PRECISION] * population[LOADING_MEAN] * total
    # A logistic function that does not overflow.
    probability = 0.5 - 0.5 * np.tanh(pull)
    chosen = rng.random(total.size) < probability
    if together and rng.random() < 0.5:
        chosen = ~chosen
        population[LOADING_MEAN] *= -1.0
    return chosen & (counts > 0)


Turn = Callable[[np.ndarray, np.ndarray], None]


class ClusterFlips(Update):
    """Turns the signs of all loadings of a cluster and of its factor.

    The likelihood does not change and the factor's prior is symmetric: the prior of the loadings
    alone decides, and each cluster is turned with its exact conditional probability.

    Parameters
    ----------
    turn : callable, optional
        ``turn(z, chosen)`` turns whatever else the collapse keeps about the chosen slots.
    together : bool
        Turn all clusters with the mean of the loadings' population as well, which is learned and
        as likely with either sign.
    """

    name = "flips"
    changes = frozenset({LIKELIHOOD})

    def __init__(self, turn: Turn | None = None, *, together: bool = False) -> None:
        self.turn = turn
        self.together = together

    def draw(self, chain: Chain, rng: np.random.Generator) -> None:
        """Turn each occupied cluster or not, and then all of them or none."""
        own, z = chain.model.own, chain.z
        if not own.free_signs:
            return
        total = np.bincount(z, own.loading, chain.counts.size)
        chosen = turned(total, own.population, chain.counts, self.together, rng)
        own.loading[chosen[z]] *= -1.0
        chain.parameters.value[:, chosen] *= -1.0
        if self.turn is not None:
            self.turn(z, chosen)
