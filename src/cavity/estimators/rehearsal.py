"""Compiles what a first fit does not compile itself, in a second process meanwhile.

    python -m cavity.estimators.rehearsal REQUEST

That is all that the answer needs, and, if the request describes a mixture, the share of its
sampler's kernels that `cavity.estimators.fitting.SHARED_KERNELS` names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity.estimators.fitting import compile_share
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
)


def request_of(model: str, settings: Mapping[str, Any], n_columns: int) -> str:
    """What `rehearse` is to be told of a mixture.

    Examples
    --------
    >>> request_of("GaussianMixture", {"n_clusters": 3, "init": "random"}, 2)
    '{"model": "GaussianMixture", "n_columns": 2, "settings": {"n_clusters": 3}}'
    """
    chosen = {name: encode(settings[name]) for name in SETTINGS if name in settings}
    return json.dumps({"model": model, "n_columns": n_columns, "settings": chosen})


def rehearse(request: str = "") -> None:
    """Compile a mixture's share of kernels, if there is a request, and what answers need."""
    if request:
        _rehearse_mixture(**json.loads(request))
    rehearse_answer()


def _rehearse_mixture(model: str, n_columns: int, settings: dict[str, Any]) -> None:
    from cavity.estimators import mixtures

    given = {name: decode(value) for name, value in settings.items()}
    mixture = getattr(mixtures, model)(**given)
    rows = np.random.default_rng(0).standard_normal((mixture.n_clusters + 2, n_columns))
    compile_share(mixture._plan(rows)[0])


if __name__ == "__main__":
    rehearse(*sys.argv[1:])
