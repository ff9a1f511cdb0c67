"""Mixtures of kept draws, packed for predictions: one entry per cluster of each draw."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity.conjugate.niw import unpack
from cavity.likelihoods.gaussian import log_norms

MAX_DRAWS = 200
# A new cluster's rows have at most MOST_SCALES scales, SCALE_STEP apart in logarithms if that many
# are enough.
MOST_SCALES, SCALE_STEP = 64, 0.3


class MixtureDraws(NamedTuple):
    """Mixtures of some kept draws, the clusters of each draw one after another.

    The last entries of a draw stand for its empty clusters, if it has some: the density of a row
    in a new cluster is a mixture of t distributions.
    """

    start: np.ndarray  # (draw + 1,), where each draw's entries begin
    log_weight: np.ndarray  # (entry,)
    target: np.ndarray  # (entry,), the estimate's cluster it is matched to; -1 for none
    slot: np.ndarray  # (entry,), its label in the draw; -1 for an empty cluster
    mean: np.ndarray  # (entry, d)
    whiten: np.ndarray  # (entry, d, d), lower triangular
    log_norm: np.ndarray  # (entry,)
    alpha: np.ndarray  # (entry,), half the degrees of freedom; infinite for a Gaussian
    share: np.ndarray  # (entry, P), probabilities of the categories
    levels: np.ndarray  # (columns + 1,), where each column's categories begin
    rate: np.ndarray  # (entry, counts), mean of each count
    size: np.ndarray  # (entry, counts), dispersion; infinite for Poisson counts

    @property
    def draw(self) -> np.ndarray:
        """The draw of every entry."""
        return np.repeat(np.arange(self.start.size - 1), np.diff(self.start))


class Rows(NamedTuple):
    """Rows in the model's units."""

    continuous: np.ndarray  # (n, d), NaN where missing
    codes: np.ndarray  # (n, columns), -1 where missing
    counts: np.ndarray  # (n, counts), NaN where missing
    errors: np.ndarray | None = None  # (n, d), standard errors of measurements
    low: np.ndarray | None = None  # (n, d), ends of the intervals of ordinal cells
    high: np.ndarray | None = None  # (n, d)

    def take(self, rows: np.ndarray | slice) -> Rows:
        """Return some of the rows."""
        own: Any = (None if part is None else part[rows] for part in self)
        return Rows(*own)

    @property
    def uncertain(self) -> np.ndarray:
        """Which continuous cells have errors, (n, d)."""
        if self.errors is None:
            return np.zeros(self.continuous.shape, dtype=bool)
        return (self.errors > 0.0) & ~np.isnan(self.continuous)

    @property
    def bounded(self) -> np.ndarray:
        """Which continuous cells are known up to an interval, (n, d); their value is NaN."""
        if self.low is None or self.high is None:
            return np.zeros(self.continuous.shape, dtype=bool)
        return np.isfinite(self.low) | np.isfinite(self.high)

    @property
    def latent(self) -> np.ndarray:
        """Which rows have cells with errors or intervals, (n,)."""
        return (self.uncertain | self.bounded).any(axis=1)


class FreshClusters(NamedTuple):
    """New clusters, one for each draw, with parameters integrated out or drawn.

    Given its scale u a row of one is t (normal, for an infinite alpha) around the centre, with
    scale matrix ``scale`` times 1/u + 1/kappa.
    """

    centre: np.ndarray  # (draw, d)
    kappa: np.ndarray  # (draw,)
    scale: np.ndarray  # (draw, d, d)
    alpha: np.ndarray  # (draw,), half the degrees of freedom


def fresh_niw(prior: np.ndarray, d: int) -> FreshClusters:
    """Those of normal inverse Wishart priors, (draw, P): t with nu - d + 1 degrees of freedom."""
    parts = [unpack(row, d) for row in prior]
    spare = np.array([nu for _, _, nu, _ in parts]) - d + 1.0
    return FreshClusters(
        np.array([mean for mean, *_ in parts]),
        np.array([kappa for _, kappa, *_ in parts]),
        np.array([psi for *_, psi in parts]) / spare[:, None, None],
        0.5 * spare,
    )


def spread_draws(n_total: int, n_kept: int = MAX_DRAWS) -> np.ndarray:
    """Indices of at most `n_kept` draws, evenly spread."""
    if n_total <= n_kept:
        return np.arange(n_total)
    return np.linspace(0, n_total - 1, n_kept).round().astype(int)


def cholesky(covariance: np.ndarray) -> np.ndarray:
    """Cholesky factors of many matrices, with a floor under the eigenvalues where one needs it.

    A covariance that was drawn is positive definite; one whose axes differ by more than the
    digits of a number may not look so.
    """
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        floor = 1e-14 * np.maximum(values[..., -1:], np.finfo(float).tiny)
        values = np.maximum(values, floor)
        mended = np.einsum("...ij,...j,...kj->...ik", vectors, values, vectors)
        jitter = 1e-13 * values[..., -1][..., None, None] * np.eye(covariance.shape[-1])
        return np.linalg.cholesky(0.5 * (mended + np.swapaxes(mended, -1, -2)) + jitter)


def continuous_entries(
    weight: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
    df: np.ndarray | None,
    targets: np.ndarray,
    fresh: FreshClusters,
    new_df: np.ndarray | None,
    noise: np.ndarray | float = 0.0,
) -> MixtureDraws:
    """Pack the occupied clusters of each draw, and entries for its empty ones.

    Parameters
    ----------
    weight, mean, covariance, df : arrays, shape (draw, slot, ...)
        Parameters of the draws; NaN where a slot is empty.
    targets : array of int, shape (draw, slot)
        The estimate's cluster that each slot is matched to; -1 for none.
    fresh : FreshClusters
        A new cluster's distribution in each draw.
    new_df : array, shape (draw,), or None
        Degrees of freedom of a new cluster.
    noise : array, shape (draw,), or 0
        Weight of rows outside every cluster.

    Returns
    -------
    MixtureDraws
        Without categories and counts.
    """
    d = mean.shape[2]
    use = np.isfinite(weight) & (weight > 0.0)
    root = cholesky(covariance[use])
    draw, slot = np.nonzero(use)
    clusters = _Clusters(
        draw,
        slot,
        weight[use],
        mean[use],
        np.linalg.solve(root, np.broadcast_to(np.eye(d), root.shape)),
        np.full(len(root), np.inf) if df is None else 0.5 * df[use],
        targets[use],
    )
    empty = 1.0 - noise - np.where(use, weight, 0.0).sum(axis=1)
    parts = [clusters]
    for s in np.flatnonzero(empty > 1e-12).tolist():
        alpha = np.inf if new_df is None else 0.5 * float(new_df[s])
        parts.append(_new_cluster(s, float(empty[s]), fresh, alpha))
    packed = _Clusters(*(np.concatenate(field) for field in zip(*parts, strict=True)))
    order = np.argsort(packed.draw, kind="stable")
    packed = _Clusters(*(np.ascontiguousarray(field[order]) for field in packed))
    log_norm = np.log(np.diagonal(packed.whiten, axis1=1, axis2=2)).sum(axis=1)
    log_norm += log_norms(packed.alpha, d)
    n = packed.alpha.size
    return MixtureDraws(
        np.searchsorted(packed.draw, np.arange(len(weight) + 1)),
        np.log(packed.weight),
        packed.target.astype(np.int64),
        packed.slot.astype(np.int64),
        packed.mean,
        packed.whiten,
        log_norm,
        packed.alpha,
        np.empty((n, 0)),
        np.zeros(1, dtype=np.int64),
        np.empty((n, 0)),
        np.empty((n, 0)),
    )


class _Clusters(NamedTuple):
    """Clusters one after another, each with the draw that it belongs to."""

    draw: np.ndarray
    slot: np.ndarray
    weight: np.ndarray
    mean: np.ndarray
    whiten: np.ndarray
    alpha: np.ndarray
    target: np.ndarray


def _new_cluster(s: int, share: float, fresh: FreshClusters, alpha: float) -> _Clusters:
    """Return the entries for the empty clusters of draw s."""
    d = fresh.centre.shape[1]
    whiten = np.linalg.solve(cholesky(fresh.scale[s]), np.eye(d))
    weight, spread = _spreads(alpha, float(fresh.kappa[s]))
    n = len(weight)
    return _Clusters(
        np.full(n, s),
        np.full(n, -1),
        share * weight,
        np.tile(fresh.centre[s], (n, 1)),
        whiten / np.sqrt(spread)[:, None, None],
        np.full(n, fresh.alpha[s]),
        np.full(n, -1),
    )


def _spreads(alpha: float, kappa: float) -> tuple[np.ndarray, np.ndarray]:
    """Distribution of 1/u + 1/kappa for u ~ Gamma(alpha, alpha), on few points.

    By the trapezoid rule in log u; points whose logarithms lie close together become one.

    Examples
    --------
    >>> _spreads(np.inf, 0.25)
    (array([1.]), array([5.]))
    """
    if not np.isfinite(alpha):
        return np.ones(1), np.array([1.0 + 1.0 / kappa])
    from scipy.special import gammaincinv

    low, high = np.maximum(gammaincinv(alpha, [1e-7, 1.0 - 1e-7]) / alpha, 1e-250)
    log_u = np.linspace(np.log(low), np.log(high), 1000)
    mass = np.exp(alpha * (log_u - np.exp(log_u) + 1.0))
    log_spread = np.logaddexp(-log_u, -np.log(kappa))
    width = max(SCALE_STEP, 1.001 * float(np.ptp(log_spread)) / MOST_SCALES)
    point = np.floor((log_spread - log_spread.min()) / width).astype(int)
    weight = np.bincount(point, mass)
    mean = np.bincount(point, mass * log_spread)
    kept = weight > 0.0
    return weight[kept] / weight.sum(), np.exp(mean[kept] / weight[kept])


def replicate(
    draws: MixtureDraws, s: int, n: int, rng: np.random.Generator
) -> tuple[Rows, np.ndarray]:
    """Draw n new rows from the mixture of draw s, and the estimate's clusters they are from."""
    entries = np.arange(draws.start[s], draws.start[s + 1])
    weight = np.exp(draws.log_weight[entries])
    k = rng.choice(entries, size=n, p=weight / weight.sum())
    noise = rng.standard_normal((n, draws.mean.shape[1]))
    scale = _gammas(draws.alpha[k], rng)
    root = np.linalg.inv(draws.whiten[entries])[k - entries[0]]
    continuous = draws.mean[k] + np.einsum("nij,nj->ni", root, noise) / np.sqrt(scale)[:, None]
    counts = draw_counts(draws.rate[k], draws.size[k], rng)
    codes = np.empty((n, draws.levels.size - 1), dtype=np.int64)
    for c, (first, last) in enumerate(zip(draws.levels[:-1], draws.levels[1:], strict=True)):
        sums = np.cumsum(draws.share[k, first:last], axis=1)
        codes[:, c] = (rng.random(n)[:, None] * sums[:, -1:] > sums).sum(axis=1)
    return Rows(continuous, codes, counts), draws.target[k]


def _gammas(shape: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw from Gamma(shape, shape): one where the shape is infinite."""
    out = np.ones(shape.shape)
    finite = np.isfinite(shape)
    # A gamma of tiny shape can round to zero, and no row lies at infinity.
    out[finite] = np.maximum(rng.gamma(shape[finite]) / shape[finite], 1e-200)
    return out


def draw_counts(rate: np.ndarray, size: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw counts of some mean: negative binomial, Poisson where the size is infinite."""
    if not rate.size:
        return rate.astype(float)
    return rng.poisson(np.minimum(rate * _gammas(size, rng), 1e15)).astype(float)
