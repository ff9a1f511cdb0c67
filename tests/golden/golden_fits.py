"""Short fits with fixed seeds that cover every estimator, collapse, prior and option.

Their draws are recorded in ``golden.json``. A change of structure must reproduce them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from cavity import GaussianMixture, SeriesMixture, StudentTMixture, TableMixture
from cavity.datasets import make_series, make_student_t, make_table
from cavity.priors import ClusterPrior, PitmanYor

SETTINGS = {"n_chains": 2, "n_warmup": 5, "n_draws": 15, "n_jobs": 2, "random_state": 1}


def rows(missing: float = 0.0, dim: int = 2) -> np.ndarray:
    X, _ = make_student_t(40, 3, dim, df=4, separation=6, random_state=11)
    if missing:
        rng = np.random.default_rng(5)
        X[rng.random(X.shape) < missing] = np.nan
    return X


def weights() -> np.ndarray:
    return np.random.default_rng(6).integers(1, 4, 40).astype(float)


def some_labels() -> np.ndarray:
    known = np.full(40, -1)
    known[:4] = [0, 0, 1, 1]
    return known


def series(missing: float = 0.0, common: float = 0.0) -> np.ndarray:
    Y, _ = make_series(18, 24, 3, missing=missing, common=common, random_state=3)
    return Y


def _fit(estimator: Any, *arguments: Any, **options: Any) -> Callable[[], tuple[Any, Any]]:
    return lambda: (estimator.fit(*arguments, **options), arguments[0])


def student_t(**settings: Any) -> StudentTMixture:
    return StudentTMixture(**{"n_clusters": 4, **SETTINGS, **settings})


def gaussian(**settings: Any) -> GaussianMixture:
    return GaussianMixture(**{"n_clusters": 4, **SETTINGS, **settings})


def table(**settings: Any) -> TableMixture:
    return TableMixture(**{"n_clusters": 4, **SETTINGS, **settings})


def series_mixture(**settings: Any) -> SeriesMixture:
    return SeriesMixture(**{"n_clusters": 4, **SETTINGS, **settings})


def _mixed(missing: float = 0.0) -> Any:
    return make_table(40, 3, missing=missing, random_state=4)[0]


FITS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "student-t collapsed finite": _fit(student_t(), rows()),
    "student-t ep": _fit(student_t(collapse="ep"), rows()),
    "student-t blocked dp": _fit(student_t(collapse="blocked", prior="dp"), rows()),
    "student-t naive dirichlet": _fit(student_t(collapse="naive", prior="dirichlet"), rows()),
    "student-t fixed df": _fit(student_t(df=3.0, prior="fixed"), rows()),
    "student-t df for each cluster": _fit(student_t(df="learn-each"), rows()),
    "student-t pitman-yor": _fit(student_t(prior=PitmanYor(discount=0.2)), rows()),
    "student-t missing values": _fit(student_t(), rows(missing=0.15)),
    "student-t weights": _fit(student_t(), rows(), sample_weight=weights()),
    "student-t known labels": _fit(student_t(), rows(), known_labels=some_labels()),
    "student-t noise": _fit(student_t(noise=True), rows()),
    "student-t without moves": _fit(student_t(options={"moves": False}, init="random"), rows()),
    "student-t tied": _fit(student_t(covariance_type="tied"), rows(dim=3)),
    "student-t diag": _fit(student_t(covariance_type="diag"), rows(dim=3)),
    "student-t factor": _fit(student_t(covariance_type="factor", n_factors=1), rows(dim=4)),
    "student-t diagonal scale": _fit(
        student_t(cluster_prior=ClusterPrior(covariance_scale="diagonal")), rows()
    ),
    "student-t parallel": _fit(student_t(collapse="parallel"), rows()),
    "gaussian collapsed": _fit(gaussian(), rows()),
    "gaussian dp": _fit(gaussian(prior="dp"), rows()),
    "gaussian naive": _fit(gaussian(collapse="naive"), rows()),
    "gaussian missing values and noise": _fit(gaussian(noise=True), rows(missing=0.15)),
    "gaussian weights": _fit(gaussian(), rows(), sample_weight=weights()),
    "gaussian diag": _fit(gaussian(covariance_type="diag"), rows(dim=3)),
    "table": _fit(table(), _mixed()),
    "table missing values": _fit(table(), _mixed(missing=0.15)),
    "table gaussian dp noise": _fit(table(continuous="gaussian", prior="dp", noise=True), _mixed()),
    "table weights and known labels": _fit(
        table(), _mixed(), known_labels=some_labels(), sample_weight=weights()
    ),
    "table parallel": _fit(table(collapse="parallel"), _mixed()),
    "series ep": _fit(series_mixture(collapse="ep"), series()),
    "series collapsed dp": _fit(series_mixture(collapse="collapsed", prior="dp"), series()),
    "series corrected missing values": _fit(
        series_mixture(collapse="corrected"), series(missing=0.2)
    ),
    "series naive": _fit(series_mixture(collapse="naive"), series()),
    "series common factor": _fit(series_mixture(common_factor=True), series(common=1.0)),
    "series gaussian noise, season": _fit(series_mixture(df=None, season=4), series()),
    "series parallel": _fit(series_mixture(collapse="parallel"), series()),
}


def answers(m: Any, X: Any) -> dict[str, list[float]]:
    """Return a few numbers from every prediction of a fitted mixture of rows."""
    probability = m.predict_proba(X[:6])
    loo = m.loo(X)
    found = {
        "predict_proba": probability[:, 0],
        "score_samples": m.score_samples(X[:6]),
        "loo": [loo["elpd_loo"] if "elpd_loo" in loo else loo["elpd"]],
        "weights": m.weights_,
    }
    if isinstance(m, TableMixture):
        found["sample"] = np.nan_to_num(m.sample(2, random_state=3)[0].iloc[:, 0])
        return found
    found["means"] = m.means_[:, 0]
    found["covariances"] = m.covariances_[:, 0, -1]
    found["tails"] = m.tail_probabilities(X[:6])
    found["sample"] = m.sample(2, random_state=3)[0].ravel()
    if np.isnan(X).any():
        found["impute"] = m.impute(X).upper[np.isnan(X)][:6]
    return found


# Their predictions are on record too: one for each way of making them.
ANSWERED = (
    "student-t collapsed finite",
    "student-t ep",
    "student-t pitman-yor",
    "student-t df for each cluster",
    "student-t missing values",
    "student-t weights",
    "student-t noise",
    "student-t tied",
    "student-t diag",
    "student-t factor",
    "gaussian collapsed",
    "gaussian missing values and noise",
    "table",
    "table missing values",
    "table gaussian dp noise",
)


def draws(name: str) -> dict[str, Any]:
    """Fit and return a digest of every label, the last labels and the log joint of each chain."""
    m, X = FITS[name]()
    p = m.posterior_
    labels = np.ascontiguousarray(p.labels, dtype="<i4")
    found: dict[str, Any] = {
        "labels": hashlib.sha256(labels.tobytes()).hexdigest(),
        "last": labels[:, -1].tolist(),
        "log_joint": [[float(x) for x in chain] for chain in p.log_joint],
    }
    if name in ANSWERED:
        found["answers"] = {
            key: [float(x) for x in np.asarray(values).ravel()]
            for key, values in answers(m, X).items()
        }
    return found
