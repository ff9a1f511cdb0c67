"""What can be followed along a chain whatever its clusters are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cavity.posterior.posterior import Posterior


def label_free(posterior: Posterior) -> dict[str, np.ndarray]:
    """Quantities that relabelling cannot change, by name, each of shape (chain, draw).

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> list(label_free(Posterior.from_labels([[0, 0, 1]])))
    ['number of clusters', 'largest cluster', 'entropy of sizes']
    """
    found: dict[str, np.ndarray] = {}
    if posterior.log_joint is not None:
        found["log joint"] = posterior.log_joint
    found["number of clusters"] = posterior.n_occupied
    found["largest cluster"] = posterior.largest_cluster
    found["entropy of sizes"] = posterior.size_entropy
    for name, values in posterior.parameters.items():
        if name not in posterior.cluster_parameters and values.ndim == 2:
            found[name] = values
    return found
