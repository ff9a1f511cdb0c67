"""What can be followed along a chain whatever its clusters are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cavity.posterior.posterior import Posterior

# The log joint density with cluster parameters integrated out, among the recorded parameters.
LOG_MARGINAL = "log_marginal"


def label_free(posterior: Posterior) -> dict[str, np.ndarray]:
    """Quantities that relabelling cannot change, by name, each of shape (chain, draw).

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> list(label_free(Posterior.from_labels([[0, 0, 1]])))
    ['number of clusters', 'largest cluster', 'entropy of sizes']
    """
    sizes = (posterior.n_occupied, posterior.largest_cluster, posterior.size_entropy)
    # What becomes every observation's own in the data's units is followed in those of the model.
    drawn = scalars(posterior.drawn, posterior.cluster_parameters)
    return named(posterior.log_joint, sizes) | drawn | scalar_parameters(posterior)


def shown(posterior: Posterior) -> dict[str, np.ndarray]:
    """The same as pictures show them: noise is no cluster."""
    return label_free(posterior) | {"number of clusters": posterior.n_proper}


def named(
    log_joint: np.ndarray | None, sizes: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> dict[str, np.ndarray]:
    """The log joint density and what follows from the sizes of clusters, by their names."""
    found = {} if log_joint is None else {"log joint": log_joint}
    return found | dict(
        zip(("number of clusters", "largest cluster", "entropy of sizes"), sizes, strict=True)
    )


def scalar_parameters(posterior: Posterior) -> dict[str, np.ndarray]:
    """Parameters that are one number in each draw, also those that all clusters share."""
    return scalars(posterior.parameters, posterior.cluster_parameters)


def scalars(
    parameters: Mapping[str, np.ndarray], cluster_parameters: Iterable[str]
) -> dict[str, np.ndarray]:
    """Parameters, of those of shape (chain, draw, ...), that are one number in each draw."""
    found: dict[str, np.ndarray] = {}
    with_clusters = frozenset(cluster_parameters)
    for name, values in parameters.items():
        if name not in with_clusters:
            if values.ndim == 2:
                found[name] = values
        elif values.ndim == 3 and (shared := _shared(values)) is not None:
            found[name] = shared
    return found


def _shared(values: np.ndarray) -> np.ndarray | None:
    """What the clusters of each draw have in common, (chain, draw); None if they differ.

    Examples
    --------
    >>> _shared(np.array([[[4.0, 4.0, np.nan], [np.nan, 5.0, 5.0]]])).tolist()
    [[4.0, 5.0]]
    >>> _shared(np.array([[[4.0, 3.0]]])) is None
    True
    """
    there = np.isfinite(values)
    number = there.sum(axis=2)
    # Where no draw has two clusters, nothing tells what is shared from what is not.
    if number.min() < 1 or number.max() < 2:
        return None
    low = np.where(there, values, np.inf).min(axis=2)
    high = np.where(there, values, -np.inf).max(axis=2)
    return low if np.array_equal(low, high) else None
