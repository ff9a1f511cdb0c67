"""Other mixtures on the same data: scikit-learn's two, and ``studenttmixture`` where installed."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from reproduction.metrics import agreement

PEERS = {
    "cavity": "cavity",
    "GaussianMixture": "sklearn",
    "BayesianGaussianMixture": "sklearn",
    "studenttmixture": "studenttmixture",
}
"""Methods, and the module each needs."""


def fit_peer(
    method: str,
    X: np.ndarray,
    n_clusters: int,
    seed: int,
    X_test: np.ndarray,
    truth: np.ndarray,
    sound: np.ndarray,
) -> dict[str, float]:
    """Fit one method by its defaults (ten starts for the peers) and score it.

    Parameters
    ----------
    method : str
        One of `PEERS`.
    X : ndarray
        Training data, outliers included.
    n_clusters, seed : int
    X_test : ndarray
        Sound observations for the held-out log score.
    truth : ndarray
        Labels of the sound rows of X.
    sound : ndarray of bool
        Which rows of X are not outliers.

    Returns
    -------
    numbers : dict
        nmi, ari, test_score, seconds.
    """
    started = time.perf_counter()
    with warnings.catch_warnings():
        # Peers warn when a start has not converged; that is part of what is compared.
        warnings.simplefilter("ignore")
        labels, score = _METHODS[method](X, n_clusters, seed, X_test)
    seconds = time.perf_counter() - started
    nmi, ari = agreement(truth, labels[None, sound])
    return {"nmi": nmi[0], "ari": ari[0], "test_score": score, "seconds": seconds}


def _cavity(X: np.ndarray, k: int, seed: int, X_test: np.ndarray) -> tuple[np.ndarray, float]:
    from cavity import StudentTMixture

    model = StudentTMixture(
        n_clusters=k, max_sweeps=1000, random_state=seed, n_jobs=1, progress=False
    ).fit(X)
    return np.asarray(model.labels_), float(np.mean(model.score_samples(X_test)))


def _gaussian(X: np.ndarray, k: int, seed: int, X_test: np.ndarray) -> tuple[np.ndarray, float]:
    from sklearn.mixture import GaussianMixture

    model = GaussianMixture(k, n_init=10, random_state=seed).fit(X)
    return model.predict(X), float(model.score(X_test))


def _bayesian(X: np.ndarray, k: int, seed: int, X_test: np.ndarray) -> tuple[np.ndarray, float]:
    from sklearn.mixture import BayesianGaussianMixture

    model = BayesianGaussianMixture(n_components=k, n_init=10, random_state=seed).fit(X)
    return model.predict(X), float(model.score(X_test))


def _student_t(X: np.ndarray, k: int, seed: int, X_test: np.ndarray) -> tuple[np.ndarray, float]:
    from studenttmixture import EMStudentMixture

    model: Any = EMStudentMixture(n_components=k, n_init=10, random_state=seed)
    model.fit(X)
    return np.asarray(model.predict(X)), float(np.mean(model.score_samples(X_test)))


_METHODS = {
    "cavity": _cavity,
    "GaussianMixture": _gaussian,
    "BayesianGaussianMixture": _bayesian,
    "studenttmixture": _student_t,
}
