"""Fitted mixtures rebuilt from a saved posterior: plain numbers and text, never a pickle."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.estimators.mixtures import GaussianMixture, StudentTMixture
from cavity.posterior.losses import expected_loss
from cavity.posterior.partition import Partition
from cavity.posterior.posterior import Posterior

MIXTURES: dict[str, type[StudentTMixture] | type[GaussianMixture]] = {
    "GaussianMixture": GaussianMixture,
    "StudentTMixture": StudentTMixture,
}


def mixture_from_posterior(
    posterior: Posterior, labels: Any = None
) -> StudentTMixture | GaussianMixture:
    """Rebuild the fitted estimator that a posterior came from.

    Parameters
    ----------
    posterior : Posterior
        Of a mixture estimator, as fitted or as `Posterior.load` gives it.
    labels : array of int, optional
        The point estimate, where it is known; by default it is searched for again.

    Returns
    -------
    StudentTMixture or GaussianMixture
        Ready to predict. Settings that were arrays or objects are left at their defaults: they
        made the draws and have no part in predicting.

    Examples
    --------
    >>> from cavity import GaussianMixture
    >>> from cavity.datasets import make_student_t
    >>> X, truth = make_student_t(60, 2, 2, df=9, separation=20, random_state=1)
    >>> m = GaussianMixture(2, n_chains=1, n_warmup=20, n_draws=20, random_state=0).fit(X)
    >>> again = mixture_from_posterior(m.posterior_)
    >>> bool((again.predict(X) == m.predict(X)).all())
    True
    """
    record = posterior.record
    name = record.model
    if name not in MIXTURES:
        raise ValueError(
            f"This posterior is of {name or 'an unknown model'}, not of a mixture fitted by "
            f"{' or '.join(MIXTURES)}, so no mixture can be rebuilt from it."
        )
    estimator = MIXTURES[name]()
    known = estimator.get_params()
    estimator.set_params(**_plain_settings(dict(record.settings), known))
    estimator.n_features_in_ = len(record.columns)
    if record.columns_named:
        estimator.feature_names_in_ = np.array(record.columns, dtype=object)
    estimator._centre = np.array(record.details["centre"], dtype=float)
    estimator._scale = np.array(record.details["scale"], dtype=float)
    estimator._standard_covariance = None
    unit = estimator._scale**2
    if not np.all((unit > 1e-290) & (unit < 1e290)):
        raise ValueError(
            "This posterior is of data whose squares no number can hold, so its covariances are "
            "lost and nothing can be predicted from it. Rescale the columns and fit again."
        )
    estimator.posterior_ = posterior
    estimator._settle(posterior.partition("vi") if labels is None else _known(posterior, labels))
    return estimator


def _plain_settings(saved: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Settings that were written as themselves, not as the text of an object."""
    words = {"collapse", "df", "prior", "concentration", "init", "covariance_prior_scale"}
    return {
        key: value
        for key, value in saved.items()
        if key in known
        and (not isinstance(value, str) or (key in words and value.replace("-", "").isalpha()))
    }


def _known(posterior: Posterior, labels: Any) -> Partition:
    values = np.asarray(labels)
    n = posterior.n_observations
    if values.shape != (n,) or values.dtype.kind not in "iu" or values.min() < 0:
        raise ValueError(
            f"labels must be {n} integers from 0, one per observation of the posterior; got "
            f"{values.dtype} of shape {values.shape}."
        )
    draws = posterior.flat_labels
    return Partition(values.astype(np.int64), expected_loss(values, draws), "vi", 1.0, draws)
