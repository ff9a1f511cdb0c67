"""Problems: the model, data and priors of a mixture or of one part of a table, as plain values.

`cavity.collapse.registry` finds the module that assembles a problem for a chain when it is first
asked for it. So a problem needs none of the kernels of its likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cavity.collapse.registry import collapses_of
from cavity.priors.cluster import DF_PRIOR, NIWPrior
from cavity.priors.structured import StructuredPrior
from cavity.updates import Update

if TYPE_CHECKING:
    from cavity.likelihoods.categorical import Categorical
    from cavity.likelihoods.latent_cells import LatentCells
    from cavity.likelihoods.missing import CellTraits, RowKinds, RowTraits
    from cavity.likelihoods.poisson import Poisson
    from cavity.likelihoods.scale_mixture_rows import RowMarks

# Likelihoods are imported where rows are made ready for chains: only some fits need each of them.

# Covariance types of clusters.
FULL = "full"
DIAGONAL, TIED, FACTOR = "diag", "tied", "factor"


class _Rows:
    """Fields and methods shared by problems of measurements."""

    y: np.ndarray
    rows: RowTraits | None

    @property
    def n(self) -> int:
        """Number of observations."""
        return len(self.y)

    @cached_property
    def kinds(self) -> RowKinds:
        """Kinds of rows with missing values, weights or noise, shared by all chains."""
        from cavity.likelihoods.missing import row_kinds

        if self.rows is None:
            raise ValueError("all rows are plain")
        return row_kinds(self.rows)


@dataclass(frozen=True)
class GaussianProblem(_Rows):
    """Rows in Gaussian clusters.

    Attributes
    ----------
    y : array of shape (n, d)
    prior : NIWPrior
        Prior of each cluster's mean and covariance, or the start of a learned one.
    updates : tuple of Update
        Updates that learn the prior.
    rows : RowTraits, optional
        Missing values, weights and noise of rows, if any; missing cells of `y` then hold starting
        values.
    latent : LatentCells, optional
        Cells known up to an interval or an error; `y` then holds where a chain may start.
    """

    y: np.ndarray
    prior: NIWPrior
    updates: tuple[Update, ...] = ()
    rows: RowTraits | None = None
    latent: LatentCells | None = None

    model: ClassVar[str] = "gaussian"


@dataclass(frozen=True)
class StudentTProblem(_Rows):
    """Rows in Student-t clusters.

    Attributes
    ----------
    y, prior, updates, rows, latent
        As in `GaussianProblem`.
    df : float
        Degrees of freedom, or where learned ones start.
    learn_df : {None, "shared", "each"}
    df_prior : (float, float)
        Shape and rate of learned ones' gamma prior.
    """

    y: np.ndarray
    prior: NIWPrior
    updates: tuple[Update, ...] = ()
    df: float = 5.0
    learn_df: str | None = None
    df_prior: tuple[float, float] = DF_PRIOR
    rows: RowTraits | None = None
    latent: LatentCells | None = None

    model: ClassVar[str] = "student-t"


@dataclass(frozen=True)
class ScaleMixtureProblem:
    """Contaminated Gaussian observations in one dimension.

    Attributes
    ----------
    y : array of shape (n,)
    prior : (float, float)
        Mean and variance of the normal prior of a cluster's mean.
    variance, contamination, inflation : float
    """

    y: np.ndarray
    prior: tuple[float, float]
    variance: float = 1.0
    contamination: float = 0.2
    inflation: float = 5.0

    model: ClassVar[str] = "scale-mixture"

    @property
    def n(self) -> int:
        """Number of observations."""
        return len(self.y)


@dataclass(frozen=True)
class StructuredProblem:
    """Rows in Gaussian or Student-t clusters with a structured covariance.

    Attributes
    ----------
    y : array of shape (n, d)
    structure : {"diag", "tied", "factor"}
    prior : StructuredPrior
    df : float or None
        Degrees of freedom, or where learned ones start; None for Gaussian clusters.
    learn_df : {None, "shared", "each"}
    df_prior : (float, float)
        Shape and rate of learned ones' gamma prior.
    rows : RowTraits, optional
        Missing values, weights and noise of rows, if any.
    n_factors : int
        Number of factors of factor covariances.
    latent : LatentCells, optional
        Cells known up to an interval or an error.
    select : bool
        Whether columns may have one distribution that all clusters share; for ``"diag"``.
    """

    y: np.ndarray
    structure: str
    prior: StructuredPrior
    df: float | None = None
    learn_df: str | None = None
    df_prior: tuple[float, float] = DF_PRIOR
    rows: RowTraits | None = None
    n_factors: int = 0
    latent: LatentCells | None = None
    select: bool = False

    model: ClassVar[str] = "structured"

    @property
    def n(self) -> int:
        """Number of observations."""
        return len(self.y)

    @cached_property
    def marks(self) -> RowMarks:
        """Kinds of rows, shared by all chains."""
        from cavity.likelihoods.scale_mixture_rows import row_marks

        n, d = self.y.shape
        return row_marks(n, d, self.rows)


@dataclass(frozen=True)
class CategoricalProblem:
    """Columns of categories.

    Attributes
    ----------
    codes : array of int, shape (n, columns)
        Category of each cell from 0, -1 where it is missing.
    levels : tuple of int
        Number of categories of each column.
    concentration : array, optional
        Prior concentration of every category, column after column; one each by default.
    learn : bool
        Whether these are only where learned ones start.
    n_held : int
        Sweeps until they are learned.
    rows : CellTraits, optional
        Weights and noise, where not all rows are plain.
    select : bool
        Whether columns may have one distribution that all clusters share; not with `rows`.
    """

    codes: np.ndarray
    levels: tuple[int, ...]
    concentration: np.ndarray | None = None
    learn: bool = True
    n_held: int = 0
    rows: CellTraits | None = None
    select: bool = False

    model: ClassVar[str] = "categorical"

    @property
    def n(self) -> int:
        """Number of observations."""
        return len(self.codes)

    @cached_property
    def start(self) -> np.ndarray:
        """Offsets of each column's categories, and the total."""
        return np.concatenate([[0], np.cumsum(self.levels)]).astype(np.int64)

    @cached_property
    def likelihood(self) -> Categorical:
        """The rows, shared by all chains and never changed."""
        from cavity.likelihoods.categorical import Categorical, places_of

        return Categorical(places_of(self.codes, self.start))


@dataclass(frozen=True)
class CountsProblem:
    """Columns of counts, Poisson or overdispersed.

    Attributes
    ----------
    y : array of float, shape (n, columns)
        Whole numbers, NaN where missing.
    prior : (array, array), optional
        Shape and rate of each column's gamma prior; by default one, and one over the mean.
    learn : bool
        Whether these are only where learned ones start.
    dispersion : array, optional
        Dispersion of negative binomial counts, if known; learned by default.
    overdispersed : bool
        Negative binomial counts, which only EP collapses.
    n_held : int
        Sweeps until the prior is learned.
    rows : CellTraits, optional
        Weights and noise, where not all rows are plain.
    select : bool
        Whether columns may have one distribution that all clusters share; not with `rows`.
    """

    y: np.ndarray
    prior: tuple[np.ndarray, np.ndarray] | None = None
    learn: bool = True
    dispersion: np.ndarray | None = None
    overdispersed: bool = False
    n_held: int = 0
    rows: CellTraits | None = None
    select: bool = False

    @property
    def model(self) -> str:
        """Name under which its collapses are registered."""
        return "negative-binomial" if self.overdispersed else "poisson"

    @property
    def n(self) -> int:
        """Number of observations."""
        return len(self.y)

    @cached_property
    def likelihood(self) -> Poisson:
        """The rows as Poisson counts, shared by all chains and never changed."""
        from cavity.likelihoods.poisson import Poisson, whole_counts

        return Poisson(*whole_counts(np.asarray(self.y, dtype=float)))

    @property
    def centre(self) -> np.ndarray:
        """Typical count of each column: its mean plus one half."""
        weight = np.ones(self.n) if self.rows is None else self.rows.weight
        seen = weight @ np.isfinite(self.y)
        centre: np.ndarray = weight @ np.nan_to_num(self.y) / np.where(seen > 0.0, seen, 1.0) + 0.5
        return centre


@dataclass(frozen=True)
class OwnProblem:
    """A user-defined likelihood as a part of a table.

    Attributes
    ----------
    likelihood, family, parameters : NamedTuple
        As `cavity.extend.sample` takes them.
    n : int
        Number of observations.
    conjugate : bool
        Whether it has ``observe`` and ``accumulate``, or ``project``.
    """

    likelihood: Any
    family: Any
    parameters: Any
    n: int
    conjugate: bool = False

    model: ClassVar[str] = "own"


@dataclass(frozen=True)
class TableProblem:
    """Rows in several parts.

    Attributes
    ----------
    parts : tuple of problems
        At least one; all of as many rows.
    """

    parts: tuple[Any, ...]

    model: ClassVar[str] = "table"

    @property
    def n(self) -> int:
        """Number of observations."""
        return int(self.parts[0].n)

    @property
    def collapses(self) -> tuple[str, ...]:
        """Collapses that every part supports; under EP, conjugate parts stay exact."""
        return tuple(
            c for c in ("collapsed", "ep", "naive") if all(_allows(p, c) for p in self.parts)
        )


def first_rows(part: Any, n: int) -> Any:
    """Return a part with only its first rows, for compilation."""
    name = "codes" if isinstance(part, CategoricalProblem) else "y"
    few = replace(part, **{name: np.ascontiguousarray(getattr(part, name)[:n])})
    if getattr(part, "latent", None) is not None:
        few = replace(few, latent=part.latent.first(n))
    return few if part.rows is None else replace(few, rows=part.rows.first(n))


def has_weights_or_noise(rows: RowTraits | CellTraits | None) -> bool:
    """Return whether rows have weights or noise, for which EP has no projection."""
    from cavity.likelihoods.missing import RowTraits

    if isinstance(rows, RowTraits):
        return rows.box is not None or bool(np.any(rows.weight != 1.0))
    return rows is not None


def _allows(part: Any, collapse: str) -> bool:
    if isinstance(part, OwnProblem):
        return collapse == "collapsed" if part.conjugate else collapse == "ep"
    if collapse == "ep" and has_weights_or_noise(part.rows):
        return False
    known = collapses_of(part.model)
    exact_sites = "collapsed" in known and part.model != "structured"
    return collapse in known or (collapse == "ep" and exact_sites)


Path = tuple[str, ...]


def paths_of(n_parts: int) -> list[Path]:
    """Return the path of each part in a product, nested to the right.

    Examples
    --------
    >>> paths_of(3)
    [('first',), ('rest', 'first'), ('rest', 'rest')]
    >>> paths_of(1)
    [()]
    """
    out = [(*("rest",) * j, "first") for j in range(n_parts - 1)]
    return [*out, ("rest",) * (n_parts - 1)]


def part_at(value: Any, path: Path) -> Any:
    """Return the part of a product at a path."""
    for name in path:
        value = getattr(value, name)
    return value
