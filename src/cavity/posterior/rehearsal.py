"""Compiles all that the answer of a fit needs, on a few made-up draws.

A first fit has a second process do this while it compiles the sampler's kernels.
"""

from __future__ import annotations

import numpy as np

from cavity.posterior.losses import DEFAULT
from cavity.posterior.posterior import Posterior


def rehearse() -> None:
    """Find the partition of some draws, what they say of it, and whether chains agree.

    Examples
    --------
    >>> from cavity.posterior.rehearsal import rehearse
    >>> rehearse()
    """
    labels = np.random.default_rng(0).integers(3, size=(2, 4, 12))
    posterior = Posterior(labels, log_joint=np.zeros(labels.shape[:2]))
    posterior.view(posterior.partition(DEFAULT))
    posterior.diagnostics()
