"""Compiles what a first fit does not compile itself, in a second process meanwhile.

    python -m cavity.estimators.rehearsal REQUEST

That is all that the answer needs, and, if the request describes a mixture, whatever its chains
draw beside labels.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity._numba.claims import sharing_with_parent
from cavity.estimators.fitting import compile_beside_labels
from cavity.posterior.record import decode, encode
from cavity.posterior.rehearsal import rehearse as rehearse_answer

# What of a mixture's settings decides which kernels it needs, or the size of their arrays.
SETTINGS = (
    "n_clusters",
    "collapse",
    "collapse_options",
    "prior",
    "concentration",
    "df",
    "moves",
    "mean_prior_strength",
    "covariance_prior_df",
    "covariance_prior_scale",
    "noise",
    "intercept",
    "priors",
    "scales",
    "common_factor",
    "season",
    "hold",
    "keep_trends",
)
_TIMES = 12  # of made-up series


def request_of(model: str, settings: Mapping[str, Any], n_columns: int = 0) -> str:
    """What `rehearse` is to be told of a mixture, of rows in so many columns or of series.

    Examples
    --------
    >>> request_of("GaussianMixture", {"n_clusters": 3, "init": "random"}, 2)
    '{"model": "GaussianMixture", "n_columns": 2, "settings": {"n_clusters": 3}}'
    """
    chosen = {name: encode(settings[name]) for name in SETTINGS if name in settings}
    return json.dumps({"model": model, "n_columns": n_columns, "settings": chosen})


def rehearse(request: str = "") -> None:
    """Compile what answers need, and a mixture's draws beside labels, if there is a request."""
    rehearse_answer()
    if request:
        _rehearse_mixture(**json.loads(request))


def _rehearse_mixture(model: str, n_columns: int, settings: dict[str, Any]) -> None:
    import cavity

    given = {name: decode(value) for name, value in settings.items()}
    rng = np.random.default_rng(0)
    if n_columns:
        mixture = getattr(cavity, model)(**given)
        plan, *_ = mixture._plan(rng.standard_normal((mixture.n_clusters + 2, n_columns)))
    else:
        mixture = getattr(cavity, model)(**given)
        walks = rng.standard_normal((mixture.n_clusters + 2, _TIMES)).cumsum(axis=1)
        plan, *_ = mixture._plan(mixture._read(walks))
    compile_beside_labels(plan)


if __name__ == "__main__":
    with sharing_with_parent():
        rehearse(*sys.argv[1:])
