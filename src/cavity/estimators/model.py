"""The model of a table: parts for continuous columns, categories and counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.collapse.problems import (
    DIAGONAL,
    FACTOR,
    FULL,
    TIED,
    CategoricalProblem,
    CountsProblem,
    GaussianProblem,
    StructuredProblem,
    StudentTProblem,
    TableProblem,
)
from cavity.collapse.registry import collapses_of
from cavity.estimators.gaps import filled
from cavity.estimators.validation import check_choice, check_count
from cavity.io.columns import CATEGORICAL, COUNT, OVERDISPERSED, Cells, Column
from cavity.priors.cluster_prior import ClusterPrior
from cavity.utils.threads import without_openmp

if TYPE_CHECKING:
    from cavity.likelihoods.latent_cells import LatentCells
    from cavity.likelihoods.missing import CellTraits
    from cavity.predict.noise import Noise

STRUCTURES = (FULL, DIAGONAL, TIED, FACTOR)
# The default number of factors is at most this.
MOST_FACTORS = 10


@dataclass(frozen=True)
class ModelRows:
    """Rows that a model is built for.

    Attributes
    ----------
    continuous : array, shape (n, d)
        In the model's units, NaN where missing.
    cells : Cells
        Categories and counts.
    levels : tuple of int
        Categories of each categorical column.
    weight : array, shape (n,), or None
    noise : Noise or None
        Distribution of rows outside every cluster, if there may be some.
    n_held : int
        Sweeps at the beginning in which nothing is learned of the clusters' prior.
    n_factors : int or None
        Factors of each cluster, where a fit has settled it.
    latent : LatentCells or None
        Continuous cells that are known up to an interval or an error.
    select : bool
        Whether independent columns have indicators that clusters differ in them.
    """

    continuous: np.ndarray
    cells: Cells
    levels: tuple[int, ...] = ()
    weight: np.ndarray | None = None
    noise: Noise | None = None
    n_held: int = 0
    n_factors: int | None = None
    latent: LatentCells | None = None
    select: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether rows have neither weights nor noise."""
        return self.weight is None and self.noise is None

    @property
    def weights(self) -> np.ndarray:
        """One weight per row."""
        return np.ones(len(self.continuous)) if self.weight is None else self.weight


def continuous_part(
    rows: ModelRows,
    df: float | str | None,
    covariance_type: str,
    prior: ClusterPrior,
    n_clusters: int,
    n_factors: int | None = None,
) -> Any:
    """Return the problem of the continuous columns.

    Parameters
    ----------
    rows : ModelRows
    df : float, "learn", "learn-each" or None
        Degrees of freedom; None for Gaussian clusters.
    covariance_type : {"full", "diag", "tied", "factor"}
    prior : ClusterPrior
    n_clusters : int
    n_factors : int, optional
        Of ``"factor"`` covariances.
    """
    missing = np.isnan(rows.continuous)
    traits = None
    if not rows.is_plain or missing.any():
        from cavity.likelihoods.missing import RowTraits

        traits = RowTraits(missing, rows.weights, None if rows.noise is None else rows.noise.box)
    y = filled(rows.continuous)
    d = y.shape[1]
    start, learn = (None, None) if df is None else tails_of(df)
    if covariance_type == FULL:
        niw, updates = prior.full(d, n_clusters, rows.n_held)
        if start is None:
            return GaussianProblem(y, niw, updates, traits, rows.latent)
        return StudentTProblem(y, niw, updates, start, learn, rows=traits, latent=rows.latent)
    count = 0
    if covariance_type == FACTOR:
        if rows.weight is not None:
            raise ValueError(
                "sample_weight is not supported with covariance_type='factor'. Repeat the "
                "rows, or use another covariance_type."
            )
        asked = n_factors if rows.n_factors is None else rows.n_factors
        count = number_of_factors(y, n_clusters) if asked is None else asked
        if count >= d:
            raise ValueError(
                f"n_factors={count} must be fewer than the {d} {'column' if d == 1 else 'columns'} "
                "there are; covariance_type='full' has no limit."
            )
    structured = prior.structured(d, n_clusters, covariance_type, rows.n_held)
    return StructuredProblem(
        y,
        covariance_type,
        structured,
        start,
        learn,
        rows=traits,
        n_factors=count,
        latent=rows.latent,
        select=rows.select and covariance_type == DIAGONAL,
    )


def cell_parts(rows: ModelRows) -> tuple[Any, ...]:
    """Return the problems of categories, counts and overdispersed counts that the table has."""
    cells, noise, n_held = rows.cells, rows.noise, rows.n_held

    def traits(log_noise: Any) -> CellTraits | None:
        if rows.is_plain:
            return None
        from cavity.likelihoods.missing import CellTraits

        return CellTraits(rows.weights, None if noise is None else log_noise(noise))

    parts: list[Any] = []
    if rows.levels:
        own = traits(lambda noise: noise.of_cells(cells.codes))
        given = cells.codes, rows.levels
        parts.append(CategoricalProblem(*given, n_held=n_held, rows=own, select=rows.select))
    if cells.counts.shape[1]:
        own = traits(lambda noise: noise.of_counts(cells.counts))
        parts.append(CountsProblem(cells.counts, n_held=n_held, rows=own, select=rows.select))
    if cells.overdispersed.shape[1]:
        parts.append(CountsProblem(cells.overdispersed, overdispersed=True, n_held=n_held))
    return tuple(parts)


def joint_problem(parts: tuple[Any, ...], collapse: str) -> Any:
    """Return the product of all parts; a single part itself, where it supports the collapse."""
    only = parts[0]
    # Expectation propagation imputes missing values by an update of the product's.
    by_product = collapse == "ep" and getattr(only, "rows", None) is not None
    if len(parts) == 1 and collapse in collapses_of(only.model) and not by_product:
        return only
    return TableProblem(parts)


def levels_of(columns: list[Column]) -> tuple[int, ...]:
    """Return the number of categories of each categorical column."""
    return tuple(len(column.categories) for column in columns if column.kind == CATEGORICAL)


def components(columns: list[Column]) -> dict[str, list[str]]:
    """Return the names of the components of the draws' parameters."""
    of = {kind: [c for c in columns if c.kind == kind] for kind in
          (CATEGORICAL, COUNT, OVERDISPERSED)}  # fmt: skip
    out = {
        "mean": [c.name for c in columns if c.measured],
        "share": [f"{c.name}={name}" for c in of[CATEGORICAL] for name in c.categories],
        "rate": [c.name for c in of[COUNT]],
        "mean_count": [c.name for c in of[OVERDISPERSED]],
    }
    out |= dict.fromkeys(("covariance", "variance", "uniqueness"), out["mean"])
    return {name: names for name, names in out.items() if names}


def features_of(standard: np.ndarray, cells: Cells) -> np.ndarray:
    """Return rows as points for k-means and nearest neighbors, missing values imputed."""
    blocks = [filled(standard) if standard.shape[1] else standard]
    for codes in cells.codes.T:
        # Two rows that differ are as far apart as a standard deviation and a half.
        shares = np.bincount(codes[codes >= 0], minlength=1) / max(int((codes >= 0).sum()), 1)
        block = (codes[:, None] == np.arange(shares.size)).astype(float)
        block[codes < 0] = shares
        blocks.append(block)
    for y in (*cells.counts.T, *cells.overdispersed.T):
        value = np.log1p(y)
        value = (value - np.nanmean(value)) / max(float(np.nanstd(value)), 1e-9)
        blocks.append(np.nan_to_num(value, nan=0.0)[:, None])
    return np.ascontiguousarray(np.hstack(blocks))


def check_covariance(covariance_type: Any, n_factors: Any, collapse: str) -> None:
    """Refuse an unknown covariance type, or one that the sampler does not support.

    Examples
    --------
    >>> check_covariance("tied", None, "naive")
    Traceback (most recent call last):
    ...
    ValueError: covariance_type='tied' needs collapse='collapsed', not 'naive'.
    """
    check_choice("covariance_type", covariance_type, STRUCTURES)
    if covariance_type != FULL and collapse not in ("collapsed", "auto"):
        raise ValueError(
            f"covariance_type={covariance_type!r} needs collapse='collapsed', not {collapse!r}."
        )
    if n_factors is not None:
        if covariance_type != FACTOR:
            raise ValueError(
                "n_factors needs covariance_type='factor', not "
                f"covariance_type={covariance_type!r}."
            )
        check_count("n_factors", n_factors, 1)


def tails_of(df: float | str) -> tuple[float, str | None]:
    """Return degrees of freedom, or where they start, and how they are learned.

    Examples
    --------
    >>> tails_of("learn"), tails_of(4)
    ((5.0, 'shared'), (4.0, None))
    """
    learn = {"learn": "shared", "learn-each": "each"}.get(str(df))
    return (5.0 if learn is not None else float(df)), learn


@without_openmp
def number_of_factors(standard: np.ndarray, n_clusters: int) -> int:
    """Return the default number of factors: those that stand out within clusters of k-means.

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
