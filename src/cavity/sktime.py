"""`SeriesMixture` as a clusterer of sktime: for its pipelines, tuning and data containers.

The extra ``cavity[sktime]`` installs what this module needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    from sktime.clustering.base import BaseClusterer
except ImportError as error:
    raise ImportError(
        "cavity.sktime needs sktime, which is not installed: pip install 'cavity[sktime]'."
    ) from error

from cavity.series.mixture import SeriesMixture


class SeriesMixtureClusterer(BaseClusterer):
    """Bayesian clusters of series that share a latent factor, with sktime's interface.

    Parameters
    ----------
    n_clusters : int
        As for `cavity.SeriesMixture`.
    random_state : None or int
    settings : dict, optional
        Further settings of `cavity.SeriesMixture`, such as ``{"prior": "dp", "season": 12}``.

    Attributes
    ----------
    mixture_ : cavity.SeriesMixture
        The fitted model, with trends, factors, forecasts and diagnostics.
    labels_ : ndarray of shape (n_series,)

    Notes
    -----
    New series (``predict``, ``predict_proba``) cover the times of the fit; NaN is not observed.

    Examples
    --------
    >>> from cavity.datasets import make_series
    >>> from cavity.sktime import SeriesMixtureClusterer
    >>> Y, truth = make_series(30, 60, n_clusters=3, random_state=1)
    >>> short = {"n_chains": 2, "n_warmup": 40, "n_draws": 40, "progress": False}
    >>> clusterer = SeriesMixtureClusterer(3, random_state=0, settings=short)
    >>> clusterer.fit(Y[:, None, :]).predict(Y[:2, None, :]).shape
    (2,)
    """

    _tags = {  # noqa: RUF012  (sktime's own form)
        "authors": "cavity",
        "X_inner_mtype": "numpy3D",
        "capability:multivariate": False,
        "capability:unequal_length": False,
        "capability:missing_values": True,
        "capability:out_of_sample": True,
        "capability:predict": True,
        "capability:predict_proba": True,
        "capability:random_state": True,
    }

    def __init__(
        self, n_clusters: int = 10, random_state: Any = None, settings: Any = None
    ) -> None:
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.settings = settings
        super().__init__()

    def _fit(self, X: np.ndarray, y: Any = None) -> SeriesMixtureClusterer:
        settings = {} if self.settings is None else dict(self.settings)
        mixture = SeriesMixture(self.n_clusters, random_state=self.random_state, **settings)
        self.mixture_ = mixture.fit(X[:, 0, :])
        self.labels_ = self.mixture_.labels_
        return self

    def _predict(self, X: np.ndarray, y: Any = None) -> np.ndarray:
        return self.mixture_.predict(X[:, 0, :])

    def _predict_proba(self, X: np.ndarray) -> np.ndarray:
        # Clusters that stayed empty have columns of zeros.
        p = self.mixture_.predict_proba(X[:, 0, :])
        return np.pad(p, ((0, 0), (0, max(self.n_clusters - p.shape[1], 0))))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Settings that sktime's own checks run with."""
        short = {"n_chains": 1, "n_warmup": 5, "n_draws": 10, "progress": False, "n_jobs": 1}
        return [
            {"n_clusters": 2, "random_state": 0, "settings": short},
            {"n_clusters": 3, "random_state": 1, "settings": short | {"df": None}},
        ]
