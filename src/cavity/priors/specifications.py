"""Specifications of partition priors: immutable, and the same for every chain.

Each chain has its own state (`cavity.priors.partition`), made from the specification.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from cavity.priors import partition
from cavity.priors.concentration import ConcentrationUpdate
from cavity.updates import Update
from cavity.utils.text import shown

# A concentration beyond these makes sums of sizes and logarithms lose all their digits.
LEAST, MOST = 1e-100, 1e100


@dataclass(frozen=True)
class _Concentrated:
    """Base class of priors with a concentration."""

    concentration: float | str | None = None

    is_open: ClassVar[bool] = True
    gamma: ClassVar[tuple[float, float]] = (1.0, 1.0)  # shape and rate of a learned one's prior

    def __post_init__(self) -> None:
        check_concentration(self.concentration)

    @property
    def learned(self) -> bool:
        """Whether the concentration is learned."""
        return self.concentration == "learn"

    @property
    def start(self) -> float:
        """The concentration, or the starting value of a learned one."""
        return float(self.concentration) if isinstance(self.concentration, Real) else 1.0

    def updates(self) -> tuple[Update, ...]:
        """Return the updates that learn the prior."""
        return (ConcentrationUpdate(*self.gamma),) if self.learned else ()


@dataclass(frozen=True)
class FixedWeights:
    """Known mixture weights; equal by default."""

    weights: Any = None

    is_open: ClassVar[bool] = False

    def updates(self) -> tuple[Update, ...]:
        """Return no updates."""
        return ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _weights(self.weights))

    def state(self, n_clusters: int, n_slots: int, n: float) -> partition.PartitionPrior:
        """Return the prior of one chain."""
        weights = _over(self.weights, n_clusters, "FixedWeights")
        return partition.padded(partition.fixed_weights(weights), n_slots)


@dataclass(frozen=True)
class Dirichlet(_Concentrated):
    """Dirichlet prior on the weights of a given number of clusters.

    Parameters
    ----------
    concentration : float, "learn" or None
        Dirichlet parameter of each cluster, or learn it from the sizes. None is one over the
        number of clusters, which keeps unneeded clusters empty.
    weights : sequence of float, optional
        Shape: cluster k has Dirichlet parameter ``concentration * weights[k]``. Ones by default.
    """

    weights: Any = None

    is_open: ClassVar[bool] = False
    gamma: ClassVar[tuple[float, float]] = (1.0, 0.1)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "weights", _weights(self.weights))

    def state(self, n_clusters: int, n_slots: int, n: float) -> partition.PartitionPrior:
        """Return the prior of one chain."""
        weights = _over(self.weights, n_clusters, "Dirichlet")
        each = 1.0 / n_clusters if self.concentration is None else self.start
        prior = partition.dirichlet(n_clusters, each, weights)
        return partition.padded(prior, n_slots)


@dataclass(frozen=True)
class DirichletProcess(_Concentrated):
    """The Chinese restaurant process: any number of clusters.

    Parameters
    ----------
    concentration : float, "learn" or None
        Mass of a new cluster, or learn it from the sizes; None is 1.
    """

    def state(self, n_clusters: int, n_slots: int, n: float) -> partition.PartitionPrior:
        """Return the prior of one chain."""
        return partition.dirichlet_process(n_slots, self.start)


@dataclass(frozen=True)
class PitmanYor(_Concentrated):
    """The two-parameter Chinese restaurant process: sizes follow a power law.

    Parameters
    ----------
    concentration : float, "learn" or None
        Mass of a new cluster, or learn it from the sizes; None is 1.
    discount : float
        In [0, 1): larger values give more small clusters.
    """

    discount: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        value = self.discount
        if not isinstance(value, Real) or isinstance(value, bool) or not 0.0 <= value < 1.0:
            raise ValueError(f"discount must be a number from 0 to below 1, not {value!r}.")

    def state(self, n_clusters: int, n_slots: int, n: float) -> partition.PartitionPrior:
        """Return the prior of one chain."""
        return partition.pitman_yor(n_slots, self.start, float(self.discount))


@dataclass(frozen=True)
class FiniteMixture(_Concentrated):
    """Finite mixture with an unknown number of clusters, which has a prior.

    The number K is at least 1 and at most `n_clusters`, with probability proportional to
    ``K ** -power``. Given the number, the weights are symmetric Dirichlet, and clusters may be
    empty.

    Parameters
    ----------
    concentration : float, "learn" or None
        Dirichlet parameter of each cluster; 1 makes all proportions equally likely, more makes
        equal ones more likely. None, like "learn", learns it from the sizes, under an exponential
        prior of mean 10.
    power : float
        Decrease of the probability of larger numbers. With 2, twice as many clusters are a quarter
        as likely; with 0 all numbers are equally likely.
    """

    power: float = 2.0

    is_open: ClassVar[bool] = False
    gamma: ClassVar[tuple[float, float]] = (1.0, 0.1)

    def __post_init__(self) -> None:
        super().__post_init__()
        value = self.power
        good = isinstance(value, Real) and not isinstance(value, bool)
        if not good or not -10.0 <= value <= 10.0:
            raise ValueError(f"power must be a number from -10 to 10, not {value!r}.")

    @property
    def learned(self) -> bool:
        """Whether the concentration is learned."""
        return self.concentration is None or super().learned

    def state(self, n_clusters: int, n_slots: int, n: float) -> partition.PartitionPrior:
        """Return the prior of one chain."""
        prior = partition.finite(n_clusters, n, self.start, float(self.power))
        return partition.padded(prior, n_slots)


PartitionSpecification = FixedWeights | Dirichlet | DirichletProcess | PitmanYor | FiniteMixture
SPECIFICATIONS: dict[str, type] = {
    cls.__name__: cls
    for cls in (FixedWeights, Dirichlet, DirichletProcess, PitmanYor, FiniteMixture)
}
# The words for them.
WORDS: dict[str, type] = {
    "finite": FiniteMixture,
    "dirichlet": Dirichlet,
    "fixed": FixedWeights,
    "dp": DirichletProcess,
    "pitman-yor": PitmanYor,
}


def check_concentration(value: Any) -> None:
    """Check that a concentration is a positive number, "learn" or None."""
    if value is None or (isinstance(value, str) and value == "learn"):
        return
    good = isinstance(value, Real) and not isinstance(value, bool)
    if not good or not LEAST <= value <= MOST:
        raise ValueError(
            f"concentration must be a number between {LEAST:g} and {MOST:g}, or 'learn', not "
            f"{shown(value)}."
        )


def specification(prior: Any, concentration: Any = None) -> PartitionSpecification:
    """Return the specification for a name or a specification, and a concentration.

    Examples
    --------
    >>> specification("dp", 2.0)
    DirichletProcess(concentration=2.0)
    """
    check_concentration(concentration)
    if isinstance(prior, str):
        if prior not in WORDS:
            listed = ", ".join(map(repr, WORDS))
            raise ValueError(
                f"prior must be one of {listed} or a prior from cavity.priors, not {prior!r}."
            )
        cls: Any = WORDS[prior]
        if cls is FixedWeights:
            if concentration is not None:
                raise ValueError("prior='fixed' has no concentration to give or to learn.")
            return cls()
        return cls(concentration=concentration)
    if type(prior) not in SPECIFICATIONS.values():
        listed = ", ".join(map(repr, WORDS))
        raise ValueError(
            f"prior must be one of {listed} or a prior from cavity.priors, not {prior!r}."
        )
    if concentration is not None:
        raise ValueError(
            f"concentration is given twice: as an argument and by prior={prior!r}. Give it in the "
            "prior alone."
        )
    return prior


def _weights(values: Any) -> tuple[float, ...] | None:
    if values is None:
        return None
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        array = np.empty((0, 0))
    if array.ndim != 1 or not array.size or not np.all((array > 0.0) & np.isfinite(array)):
        raise ValueError(f"weights must hold positive numbers, one per cluster, not {values!r}.")
    return tuple(float(v) for v in array)


def _over(weights: tuple[float, ...] | None, n_clusters: int, name: str) -> np.ndarray:
    if weights is None:
        return np.ones(n_clusters)
    if len(weights) != n_clusters:
        raise ValueError(
            f"the weights of {name} are {len(weights)}, but n_clusters={n_clusters}. Make them "
            "agree."
        )
    return np.array(weights)
