"""Forms of a cluster's covariance: what is asked for, its prior, and what draws of it say.

Draws of a full covariance are kept as matrices, those of the other forms as they were drawn:
``variance``, ``shared_covariance``, or ``loading`` and ``uniqueness``. Whatever needs matrices asks
here for those of some draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity._numba.arrays import copied
from cavity.collapse.structures import DIAGONAL, FACTOR, TIED, StructuredProblem
from cavity.conjugate.nig import unpack_diagonal
from cavity.conjugate.niw import covariances
from cavity.conjugate.normal import factors, set_factors, set_tied
from cavity.estimators.cluster_prior import (
    CENTRE_SPREAD,
    DIAGONAL_SHAPE,
    SHARE_TAIL,
    SPARE_START,
    STRENGTH_RATE,
    STRENGTH_SHAPE,
    STRENGTH_START,
    TYPICAL_SHARE,
    TYPICAL_SPARE,
    starting_scale,
)
from cavity.estimators.validation import check_choice, check_count
from cavity.likelihoods.factor_loadings import draw_from_prior
from cavity.likelihoods.missing import RowTraits
from cavity.likelihoods.predictive import CLUSTER_PRIOR, FreshClusters, cholesky, fresh_niw
from cavity.posterior.posterior import Posterior
from cavity.priors import covariance_scale
from cavity.priors.mean_spread import SpreadPrior
from cavity.priors.structured import StructuredPrior

FULL = "full"
STRUCTURES = (FULL, DIAGONAL, TIED, FACTOR)
# The most factors that the rule gives a cluster.
MOST_FACTORS = 10
# Matrices of so many numbers in all are made at a time, for predictions.
MOST_NUMBERS = 20_000_000


def check_structure(covariance: Any, n_factors: Any, collapse: str) -> None:
    """Refuse a form of covariance that is none, or that the sampler does not have.

    Examples
    --------
    >>> check_structure("tied", None, "naive")
    Traceback (most recent call last):
    ...
    ValueError: covariance='tied' goes with collapse='collapsed' only, not with 'naive'.
    """
    check_choice("covariance", covariance, STRUCTURES)
    if covariance != FULL and collapse not in ("collapsed", "auto"):
        raise ValueError(
            f"covariance={covariance!r} goes with collapse='collapsed' only, not with {collapse!r}."
        )
    if n_factors is not None:
        if covariance != FACTOR:
            raise ValueError(
                f"n_factors is for covariance='factor'; covariance={covariance!r} has no factors."
            )
        check_count("n_factors", n_factors, 1)


def structured_problem(
    estimator: Any,
    standard: np.ndarray,
    n_held: int,
    df: float | None,
    learn_df: str | None,
    rows: RowTraits | None,
    n_factors: int | None = None,
) -> StructuredProblem:
    """The problem of an estimator's settings for standardised rows."""
    d = standard.shape[1]
    structure = estimator.covariance
    if structure == FACTOR:
        if rows is not None and np.any(rows.weight != 1.0):
            raise ValueError(
                "sample_weight cannot be had with covariance='factor': each of the rows that a row "
                "stands for has factors of its own. Repeat the rows, or use another covariance."
            )
        asked = estimator.n_factors if n_factors is None else n_factors
        n_factors = number_of_factors(standard, estimator.n_clusters) if asked is None else asked
        if n_factors >= d:
            raise ValueError(
                f"n_factors={n_factors} must be fewer than the {d} "
                f"{'column' if d == 1 else 'columns'} there are; covariance='full' has no limit."
            )
    prior = structured_prior(
        d,
        estimator.n_clusters,
        structure,
        estimator.mean_prior_strength,
        estimator.covariance_prior_df,
        estimator.covariance_prior_scale,
        n_held,
    )
    return StructuredProblem(
        standard, structure, prior, df, learn_df, rows=rows, n_factors=int(n_factors or 0)
    )


def tails_of(df: float | str) -> tuple[float, str | None]:
    """Degrees of freedom, or where they start, and how they are learned.

    Examples
    --------
    >>> tails_of("learn"), tails_of(4)
    ((5.0, 'shared'), (4.0, None))
    """
    learn = {"learn": "shared", "learn-each": "each"}.get(str(df))
    return (5.0 if learn is not None else float(df)), learn


def structured_prior(
    d: int,
    n_clusters: int,
    structure: str,
    strength: float | str,
    df: float | str,
    scale: float | str,
    n_held: int = 0,
) -> StructuredPrior:
    """Prior of clusters with a structured covariance, as `cluster_prior` has it for a full one.

    Where clusters share their covariance, neither its degrees of freedom nor its mean can be
    learned from one matrix: they are held at what is typical.
    """
    shared = structure == TIED
    start = starting_scale(n_clusters, d) if isinstance(scale, str) else float(scale)
    least = d + 1.0 if shared else 2.0
    nu = least + SPARE_START if isinstance(df, str) else float(df)
    if not nu > least:
        words = f"the number of columns plus 1 ({d + 1})" if shared else "2"
        raise ValueError(
            f"covariance_prior_df must exceed {words} with covariance={structure!r}, not {df!r}."
        )
    learned = isinstance(scale, str) and not shared
    return StructuredPrior(
        mean=np.zeros(d),
        kappa=STRENGTH_START if isinstance(strength, str) else float(strength),
        nu=nu,
        scale=np.full(d, TYPICAL_SHARE if shared and isinstance(scale, str) else start),
        variance=covariance_scale.scale_prior(
            covariance_scale.DIAGONAL, DIAGONAL_SHAPE, np.full(d, TYPICAL_SHARE), SHARE_TAIL
        )
        if learned
        else None,
        typical=TYPICAL_SPARE if isinstance(df, str) and not shared else None,
        spread=SpreadPrior(STRENGTH_SHAPE, STRENGTH_RATE, CENTRE_SPREAD)
        if isinstance(strength, str)
        else None,
        n_held=n_held,
    )


def number_of_factors(standard: np.ndarray, n_clusters: int) -> int:
    """How many factors a cluster is given: those that stand out within clusters of k-means.

    Eigenvalues of the correlations within clusters that exceed what independent columns would
    show by chance, (1 + sqrt(d / n))^2, at least one and at most ten, and fewer than columns.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> two = rng.standard_normal((500, 2)) @ rng.standard_normal((2, 30))
    >>> number_of_factors(two + rng.standard_normal((500, 30)), 1)
    2
    """
    from sklearn.cluster import KMeans

    X = np.clip(standard, -8.0, 8.0)
    n, d = X.shape
    k = min(n_clusters, max(n // 10, 1))
    z = np.zeros(n, dtype=int)
    if k > 1:
        z = KMeans(k, n_init=1, random_state=0).fit_predict(X)
    for own in range(k):
        X = np.where((z == own)[:, None], X - X[z == own].mean(axis=0), X)
    sd = X.std(axis=0)
    X = X[:, sd > 1e-9] / sd[sd > 1e-9]
    values = np.linalg.eigvalsh(X.T @ X / max(n - k, 1))
    edge = (1.0 + np.sqrt(X.shape[1] / max(n - k, 1))) ** 2
    return int(np.clip((values > edge).sum(), 1, max(1, min(MOST_FACTORS, d - 1))))


# --------------------------------------------------------------------------- draws


def block_names(structure: str) -> tuple[str, ...]:
    """Parameters of a continuous block with a cluster axis, but for those that updates record."""
    extra = {FULL: ("covariance",), DIAGONAL: ("variance",)}
    return ("mean", *extra.get(structure, ()))


def describe_block(parameters: Any, counts: np.ndarray) -> dict[str, np.ndarray]:
    """Parameters of every slot of a continuous block, by name."""
    out = {"mean": parameters.mean.T}
    if hasattr(parameters, "variance"):
        out["variance"] = parameters.variance.T
    elif hasattr(parameters, "whiten"):
        d, _, n_slots = parameters.whiten.shape
        out["covariance"] = np.empty((n_slots, d, d))
        covariances(parameters.whiten, counts, out["covariance"])
    return out


def describe_prior(family: Any) -> np.ndarray:
    """Natural parameters of the prior of cluster parameters, and what else says it."""
    common = getattr(getattr(family, "covariance", None), "prior", np.empty(0))
    return np.concatenate([family.prior, common])


def structure_of(posterior: Posterior) -> str:
    """The form of covariance of some draws."""
    names = {"variance": DIAGONAL, "shared_covariance": TIED, "loading": FACTOR}
    return next((form for name, form in names.items() if name in posterior.drawn), FULL)


def factors_of(posterior: Posterior) -> int | None:
    """How many factors the clusters of some draws have; None where they have none."""
    return int(posterior.drawn["loading"].shape[4]) if "loading" in posterior.drawn else None


def prior_width(structure: str, d: int) -> int:
    """How many numbers the prior of a continuous block has in a draw."""
    if d == 0:
        return 0
    return {DIAGONAL: 2 + 2 * d, TIED: 1 + d, FACTOR: 3 + 2 * d}.get(
        structure, 2 + d + d * (d + 1) // 2
    )


def flat(posterior: Posterior, name: str) -> np.ndarray:
    """Draws of a parameter in the model's units, chains one after the other."""
    values = posterior.drawn[name]
    return values.reshape(-1, *values.shape[2:])


def matrices(posterior: Posterior, chosen: np.ndarray) -> np.ndarray:
    """Covariances of every slot in some draws, (draw, slot, d, d); NaN where a slot is empty."""
    structure = structure_of(posterior)
    if structure == FULL:
        return flat(posterior, "covariance")[chosen]
    mean = flat(posterior, "mean")[chosen]
    d = mean.shape[2]
    if structure == DIAGONAL:
        return flat(posterior, "variance")[chosen][..., None] * np.eye(d)
    if structure == TIED:
        shared = flat(posterior, "shared_covariance")[chosen]
        return np.where(np.isnan(mean)[..., None], np.nan, shared[:, None])
    loading, own = flat(posterior, "loading")[chosen], flat(posterior, "uniqueness")[chosen]
    return loading @ np.swapaxes(loading, 2, 3) + own[..., None] * np.eye(d)


def most_draws(posterior: Posterior, usual: int) -> int:
    """How many draws predictions average over: fewer where their matrices are large."""
    n_slots, d = posterior.drawn["mean"].shape[2:]
    return int(np.clip(MOST_NUMBERS // max(n_slots * d * d, 1), 20, usual))


def mean_matrices(posterior: Posterior, matched: Any, k: int) -> np.ndarray:
    """Posterior means of the covariances of the estimate's first k clusters, (k, d, d).

    A cluster that no draw matches takes the mean of all.
    """
    d = posterior.drawn["mean"].shape[3]
    total, count = np.zeros((k, d, d)), np.zeros(k)
    step = max(1, MOST_NUMBERS // max(posterior.drawn["mean"].shape[2] * d * d, 1))
    for first in range(0, len(matched.slots), step):
        slots = matched.slots[first : first + step, :k]
        chosen = np.arange(first, first + len(slots))
        values = matrices(posterior, chosen)[np.arange(len(slots))[:, None], np.maximum(slots, 0)]
        there = (slots >= 0) & np.isfinite(values).all(axis=(2, 3))
        total += np.where(there[..., None, None], values, 0.0).sum(axis=0)
        count += there.sum(axis=0)
    out = total / np.maximum(count, 1.0)[:, None, None]
    out[count == 0] = total.sum(axis=0) / max(count.sum(), 1.0)
    return out


def fresh_clusters(posterior: Posterior, chosen: np.ndarray, d: int) -> FreshClusters:
    """What a cluster to come would be like in some draws.

    The covariance of one with a structure is drawn from its prior, once for each draw.
    """
    structure = structure_of(posterior)
    prior = flat(posterior, CLUSTER_PRIOR)[chosen][:, : prior_width(structure, d)]
    if structure == FULL:
        return fresh_niw(prior, d)
    rng = np.random.default_rng(0)
    centre, kappa, sigma = [], [], []
    for place, row in zip(chosen, prior, strict=True):
        if structure == DIAGONAL:
            mean, strength, nu, psi = unpack_diagonal(row)
            made = np.diag(0.5 * psi / rng.standard_gamma(0.5 * nu, d))
        else:
            mean, strength = row[1 : 1 + d] / row[0], float(row[0])
            if structure == TIED:
                made = flat(posterior, "shared_covariance")[place]
            else:
                n_factors = posterior.drawn["loading"].shape[4]
                own = factors(np.ones(d), n_factors, 1, row[1 + d :])
                draw_from_prior(own, 0, rng)
                loading = (own.scaled[:, :, 0] / own.root[:, 0]).T
                made = np.diag(own.variance[:, 0]) + loading @ loading.T
        centre.append(mean)
        kappa.append(strength)
        sigma.append(made)
    return FreshClusters(
        np.array(centre), np.array(kappa), np.array(sigma), np.full(len(prior), np.inf)
    )


def set_block(
    family: Any, parameters: Any, posterior: Posterior, draw: int, rng: np.random.Generator
) -> None:
    """Give a continuous block the cluster parameters and prior of a draw.

    Where covariances of empty slots are needed, they are drawn from their prior.
    """
    structure = structure_of(posterior)
    mean = flat(posterior, "mean")[draw]
    used = np.flatnonzero(np.isfinite(mean[:, 0]))
    parameters.mean[:, used] = mean[used].T
    prior = flat(posterior, CLUSTER_PRIOR)[draw]
    family.prior[:] = prior[: family.prior.size]
    if structure == FULL:
        root = cholesky(flat(posterior, "covariance")[draw][used])
        eye = np.broadcast_to(np.eye(mean.shape[1]), root.shape)
        parameters.whiten[:, :, used] = np.moveaxis(np.tril(np.linalg.solve(root, eye)), 0, 2)
        diagonal = np.diagonal(root, axis1=1, axis2=2)
        parameters.half_log_det[used] = np.log(diagonal).sum(axis=1)
    elif structure == DIAGONAL:
        parameters.variance[:, used] = flat(posterior, "variance")[draw][used].T
    elif structure == TIED:
        for covariance in (family.covariance, parameters.covariance):
            set_tied(covariance, flat(posterior, "shared_covariance")[draw])
    else:
        own = family.covariance
        own.prior[:] = prior[family.prior.size : family.prior.size + own.prior.size]
        loading, variance = (flat(posterior, name)[draw] for name in ("loading", "uniqueness"))
        for k in range(parameters.mean.shape[1]):
            if k in used:
                set_factors(own, k, variance[k], loading[k])
            else:
                draw_from_prior(own, k, rng)
        for there, here in zip(copied(own), parameters.covariance, strict=True):
            here[...] = there
