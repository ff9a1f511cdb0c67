"""What may be said before chains agree: whether each of them alone gives the same answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cavity.posterior.modes import evenly, subset_of_observations
from cavity.posterior.partition import find_partition, usual_clusters

if TYPE_CHECKING:
    from cavity.posterior.posterior import Posterior

# Adjusted Rand index between two chains' answers: the same for all purposes, or nearly.
SAME, NEARLY = 0.95, 0.8
_DRAWS = 200
_ROWS = 1_000


def answers_of_chains(p: Posterior) -> np.ndarray:
    """Adjusted Rand index between the answers that each chain alone gives, (chain, chain).

    Each answer is the partition of least expected loss over some hundred draws of the chain, of a
    thousand observations at most.
    """
    from sklearn.metrics import adjusted_rand_score

    rows = subset_of_observations(p.n_observations, _ROWS)
    answers = []
    for chain, draws in enumerate(p.labels):
        some = evenly(draws, _DRAWS)[:, rows]
        found = find_partition(
            some, p.loss, n_restarts=0, max_clusters=usual_clusters(p.n_occupied[chain])
        )
        answers.append(found.labels)
    agreement = np.ones((p.n_chains, p.n_chains))
    for i in range(p.n_chains):
        for j in range(i):
            agreement[i, j] = agreement[j, i] = adjusted_rand_score(answers[i], answers[j])
    return agreement


def provisional_words(p: Posterior) -> str:
    """What may be reported of chains that have not been shown to agree.

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> import numpy as np
    >>> two, other = [0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1]
    >>> provisional_words(Posterior(np.array([[two] * 5, [other] * 5])))
    'Until then report none of this: taken alone, two of the chains give different clusters \
(adjusted Rand -0.11).'
    """
    least = float(p.chain_agreement.min())
    if least >= SAME:
        return (
            "Until then the clusters may be reported as provisional, and no probability with them: "
            f"taken alone, every chain gives the same ones (adjusted Rand {_at_least(least)})."
        )
    if least >= NEARLY:
        return (
            "Until then report the clusters as provisional at most, and no probability with them: "
            f"taken alone, the chains give nearly the same (adjusted Rand {_at_least(least)})."
        )
    return (
        "Until then report none of this: taken alone, two of the chains give different clusters "
        f"(adjusted Rand {least:.2f})."
    )


def _at_least(index: float) -> str:
    words = f"{index:.2f}"
    return words if words == "1.00" else f"{words} or more"
