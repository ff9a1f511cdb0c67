"""Fits of every collapse of the mixtures, to be killed and resumed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cavity import GaussianMixture, StudentTMixture
from cavity.datasets import make_student_t

COMMON = {
    "n_chains": 2,
    "n_warmup": 40,
    "n_draws": 160,
    "init": "random",
    "random_state": 3,
    "progress": False,
    "n_jobs": 1,
}
FITS = {
    "gaussian-collapsed": (GaussianMixture, {"collapse": "collapsed"}),
    # Not to be satisfied soon: overlapping clusters, and a limit to stop at.
    "gaussian-auto": (GaussianMixture, {"n_draws": "auto", "thin": 2, "max_sweeps": 500}),
    "gaussian-naive": (GaussianMixture, {"collapse": "naive", "concentration": "learn"}),
    "student-t-ep": (StudentTMixture, {"collapse": "ep"}),
    "student-t-ep-dp": (StudentTMixture, {"collapse": "ep", "prior": "dp", "n_clusters": 1}),
    "student-t-blocked": (StudentTMixture, {"collapse": "blocked", "df": "learn"}),
    "student-t-collapsed": (StudentTMixture, {"collapse": "collapsed"}),
    "student-t-collapsed-dp": (
        StudentTMixture,
        {"collapse": "collapsed", "prior": "dp", "n_clusters": 2, "concentration": "learn"},
    ),
    "student-t-naive-dp": (
        StudentTMixture,
        {"collapse": "naive", "prior": "dp", "concentration": "learn", "df": "learn"},
    ),
}


def fit(name: str, checkpoint: Path) -> dict[str, np.ndarray]:
    y, _ = make_student_t(150, 4, 2, 4.0, "medium", random_state=0)
    estimator, options = FITS[name]
    model = estimator(**{"n_clusters": 4, **COMMON, **options}, checkpoint=checkpoint).fit(y)
    posterior = model.posterior_
    arrays = {"labels": posterior.labels, "log_joint": posterior.log_joint}
    arrays |= {f"parameter {key}": value for key, value in posterior.parameters.items()}
    events = {key: value for key, value in posterior.events.items() if key != "move_seconds"}
    return arrays | {f"event {key}": value for key, value in events.items()}


def all_collapses(checkpoint: Path) -> dict[str, np.ndarray]:
    """One fit after the other, each with a checkpoint of its own."""
    out = {}
    for name in FITS:
        own = checkpoint.with_name(f"{checkpoint.stem}-{name}.checkpoint")
        out |= {f"{name} {key}": value for key, value in fit(name, own).items()}
    return out
