"""What a cluster is, over many rows: one at a time, in NumPy, for proposals and for orders.

A cluster has a block of measurements (mean and covariance), shares of every category, and rates of
counts, any of which may be absent. Given the members each part is conjugate: normal inverse
Wishart, Dirichlet, gamma, with natural parameters one after the other.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, multigammaln

from cavity.collapse.problems import Path, part_at, paths_of
from cavity.conjugate.dirichlet import dirichlets, shares
from cavity.conjugate.gamma import gammas, rates
from cavity.conjugate.niw import (
    gaussian_parameters,
    normal_inverse_wishart,
    pack,
    unpack,
)
from cavity.conjugate.product import ProductParameters, product_family
from cavity.distributed.mixture_weights import log_gammas
from cavity.priors.cluster import NIWPrior

BLOCK, SHARES, RATES = "block", "shares", "rates"


class Shape(NamedTuple):
    """Columns of the rows: measurements, then codes of categories, then counts.

    ``start`` says where each categorical column's categories begin among all of them.
    """

    d: int
    start: tuple[int, ...] = (0,)
    n_counts: int = 0

    @property
    def n_codes(self) -> int:
        """Categorical columns."""
        return len(self.start) - 1

    @property
    def n_shares(self) -> int:
        """Categories of all columns."""
        return self.start[-1]

    @property
    def n_columns(self) -> int:
        """All columns."""
        return self.d + self.n_codes + self.n_counts

    @property
    def block_width(self) -> int:
        """Sums over rows that begin a row of statistics: scales, rows, and the block's moments."""
        return 2 + self.d + self.d * (self.d + 1) // 2

    @property
    def width(self) -> int:
        """Numbers in a row of statistics."""
        return self.block_width + self.n_shares + 2 * self.n_counts

    @property
    def lead(self) -> int:
        """Sums that are no statistics of any part: scales and rows, where nothing is measured."""
        return 0 if self.d else 2

    def split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Measurements, codes and counts of rows that have all columns side by side."""
        codes, counts = self.d, self.d + self.n_codes
        return rows[:, :codes], rows[:, codes:counts].astype(np.int64), rows[:, counts:]


class Location(NamedTuple):
    """A cluster's parameters: Sigma^-1 = B'B, B lower triangular; logs of shares and rates."""

    mean: np.ndarray
    whiten: np.ndarray
    half_log_det: float  # of Sigma
    log_share: np.ndarray = np.zeros(0)
    log_rate: np.ndarray = np.zeros(0)

    @property
    def covariance(self) -> np.ndarray:
        """Sigma."""
        root = np.linalg.inv(self.whiten)
        return root @ root.T


def moments(location: Location, n: float) -> np.ndarray:
    """The statistics that n rows with exactly these parameters would have."""
    counts = np.column_stack([n * np.exp(location.log_rate), np.full(location.log_rate.size, n)])
    block = np.full(2, n)
    if location.mean.size:
        block = pack(location.mean, n, n, n * location.covariance)
    return np.concatenate([block, n * np.exp(location.log_share), counts.ravel()])


class NIW:
    """One normal inverse Wishart distribution, from its natural parameters.

    ``proper`` says whether they are those of one.
    """

    def __init__(self, natural: np.ndarray, d: int) -> None:
        self.d = d
        self.proper = False
        if not (natural[0] > 0.0 and natural[1] > d - 1.0 and np.isfinite(natural).all()):
            return
        self.mean, self.kappa, self.nu, self.psi = unpack(natural, d)
        try:
            root = np.linalg.cholesky(self.psi)
        except np.linalg.LinAlgError:
            return
        self.proper = True
        self._whiten = np.linalg.inv(root)
        self._half_log_det = float(np.log(np.diag(root)).sum())

    def draw(self, rng: np.random.Generator) -> Location:
        """A mean and covariance."""
        d = self.d
        factor = np.tril(rng.standard_normal((d, d)), -1)
        shapes = 0.5 * (self.nu - np.arange(d - 1, -1, -1))
        factor[np.diag_indices(d)] = np.sqrt(2.0 * rng.standard_gamma(shapes))
        whiten = np.tril(factor @ self._whiten)
        noise = rng.standard_normal(d) / math.sqrt(self.kappa)
        mean = self.mean + np.linalg.solve(whiten, noise)
        return Location(mean, whiten, -float(np.log(np.diag(whiten)).sum()))

    def log_density(self, location: Location) -> float:
        """Of a mean and covariance."""
        d, nu = self.d, self.nu
        away = location.whiten @ (location.mean - self.mean)
        value = 0.5 * d * math.log(self.kappa / (2.0 * math.pi)) - location.half_log_det
        value -= 0.5 * self.kappa * float(away @ away)
        value += nu * self._half_log_det - 0.5 * nu * d * math.log(2.0) - multigammaln(0.5 * nu, d)
        value -= (nu + d + 1.0) * location.half_log_det
        spread = location.whiten @ self.psi
        return float(value - 0.5 * np.sum(spread * location.whiten))

    @property
    def typical(self) -> Location:
        """A location in its middle."""
        size = math.sqrt(self.nu)
        log_det = self._half_log_det - self.d * math.log(size)
        return Location(self.mean, size * self._whiten, log_det)


class Conjugate:
    """The distribution of one cluster's parameters: prior and statistics of members.

    ``proper`` says whether it is one.

    Parameters
    ----------
    prior : array
        Natural parameters.
    shape : Shape
    statistics : array of shape (shape.width,), optional
    """

    def __init__(self, prior: np.ndarray, shape: Shape, statistics: np.ndarray | None = None):
        natural = prior if statistics is None else prior + statistics[shape.lead :]
        self.shape = shape
        width = shape.block_width if shape.d else 0
        self._block = NIW(natural[:width], shape.d) if shape.d else None
        self._concentration = natural[width : width + shape.n_shares]
        gamma = natural[width + shape.n_shares :]
        self._a, self._b = gamma[0::2], gamma[1::2]
        rest = natural[width:]
        self.proper = bool(np.all(rest > 0.0) and np.isfinite(rest).all())
        self.proper = self.proper and (self._block is None or self._block.proper)
        self._sizes = np.diff(shape.start)

    def _by_column(self, values: np.ndarray) -> np.ndarray:
        """Sums over each categorical column's categories, for every category."""
        return np.repeat(np.add.reduceat(values, self.shape.start[:-1]), self._sizes)

    def draw(self, rng: np.random.Generator) -> Location:
        """Parameters of a cluster."""
        block = _NOTHING if self._block is None else self._block.draw(rng)
        log_share = np.zeros(0)
        if self._concentration.size:
            log_share = log_gammas(self._concentration, rng)
            top = np.repeat(np.maximum.reduceat(log_share, self.shape.start[:-1]), self._sizes)
            log_share = log_share - top
            log_share -= np.log(self._by_column(np.exp(log_share)))
        log_rate = log_gammas(self._a, rng) - np.log(self._b) if self._a.size else np.zeros(0)
        return block._replace(log_share=log_share, log_rate=log_rate)

    def log_density(self, location: Location) -> float:
        """Of a cluster's parameters."""
        value = 0.0 if self._block is None else self._block.log_density(location)
        a = self._concentration
        if a.size:
            totals = np.add.reduceat(a, self.shape.start[:-1])
            value += float(gammaln(totals).sum() - gammaln(a).sum())
            value += float((a - 1.0) @ location.log_share)
        if self._a.size:
            value += float((self._a * np.log(self._b) - gammaln(self._a)).sum())
            value += float((self._a - 1.0) @ location.log_rate)
            value -= float(self._b @ np.exp(location.log_rate))
        return value

    @property
    def typical(self) -> Location:
        """Parameters in its middle."""
        block = _NOTHING if self._block is None else self._block.typical
        a = self._concentration
        log_share = np.log(a / self._by_column(a)) if a.size else np.zeros(0)
        return block._replace(log_share=log_share, log_rate=np.log(self._a / self._b))


_NOTHING = Location(np.zeros(0), np.zeros((0, 0)), 0.0)


class ComponentPriors(NamedTuple):
    """The prior of a cluster's parameters, part by part; None for a part that rows have not."""

    niw: NIWPrior | None = None
    concentration: np.ndarray | None = None  # of every category
    start: tuple[int, ...] = (0,)
    gamma: tuple[np.ndarray, np.ndarray] | None = None  # shapes and rates, of every count

    @property
    def shape(self) -> Shape:
        """Columns of the rows."""
        d = 0 if self.niw is None else len(self.niw.mean)
        return Shape(d, self.start, 0 if self.gamma is None else len(self.gamma[0]))

    @property
    def paths(self) -> dict[str, Path]:
        """Where each part is in the family and the parameters."""
        there = [
            name
            for name, part in (
                (BLOCK, self.niw),
                (SHARES, self.concentration),
                (RATES, self.gamma),
            )
            if part is not None
        ]
        return dict(zip(there, paths_of(len(there)), strict=True))

    def columns(self, part: str) -> slice:
        """Where the statistics of a part are."""
        shape = self.shape
        first = shape.block_width
        if part == BLOCK:
            return slice(0, first)
        middle = first + shape.n_shares
        return slice(first, middle) if part == SHARES else slice(middle, shape.width)

    def families(self, n_slots: int) -> tuple[Any, Any]:
        """Family and parameters with so many slots, all at the prior."""
        made: list[tuple[Any, Any]] = []
        if self.niw is not None:
            d = len(self.niw.mean)
            made.append(
                (normal_inverse_wishart(*self.niw, n_slots), gaussian_parameters(d, n_slots))
            )
        if self.concentration is not None:
            family = dirichlets(self.concentration, np.array(self.start), n_slots)
            made.append((family, shares(self.start[-1], n_slots)))
        if self.gamma is not None:
            made.append((gammas(*self.gamma, n_slots), rates(len(self.gamma[0]), n_slots)))
        families, parameters = zip(*made, strict=True)
        return (
            reduce(lambda rest, first: product_family(first, rest), reversed(families)),
            reduce(lambda rest, first: ProductParameters(first, rest), reversed(parameters)),
        )

    def locations(self, parameters: Any, n_slots: int) -> list[Location]:
        """Parameters of every slot, one by one."""
        paths = self.paths
        block = part_at(parameters, paths[BLOCK]) if BLOCK in paths else None
        log_share = part_at(parameters, paths[SHARES]).log_share if SHARES in paths else None
        log_rate = part_at(parameters, paths[RATES]).log_rate if RATES in paths else None
        out = []
        for k in range(n_slots):
            own = _NOTHING
            if block is not None:
                own = Location(
                    block.mean[:, k].copy(),
                    block.whiten[:, :, k].copy(),
                    float(block.half_log_det[k]),
                )
            if log_share is not None:
                own = own._replace(log_share=log_share[:, k].copy())
            if log_rate is not None:
                own = own._replace(log_rate=log_rate[:, k].copy())
            out.append(own)
        return out

    def set_locations(self, parameters: Any, locations: list[Location]) -> None:
        """The reverse, in place."""
        paths = self.paths
        for k, location in enumerate(locations):
            if BLOCK in paths:
                block = part_at(parameters, paths[BLOCK])
                block.mean[:, k] = location.mean
                block.whiten[:, :, k] = location.whiten
                block.half_log_det[k] = location.half_log_det
            if SHARES in paths:
                own = part_at(parameters, paths[SHARES])
                own.log_share[:, k] = location.log_share
                own.share[:, k] = np.maximum(np.exp(location.log_share), 1e-300)
            if RATES in paths:
                own = part_at(parameters, paths[RATES])
                own.log_rate[:, k] = location.log_rate
                own.rate[:, k] = np.exp(location.log_rate)
