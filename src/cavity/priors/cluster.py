"""The prior of a cluster's mean and covariance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class NIWPrior(NamedTuple):
    """Normal inverse Wishart: NIW(mean, kappa, nu, psi)."""

    mean: np.ndarray
    kappa: float
    nu: float
    psi: np.ndarray
