"""R-hat and effective draws, rank-normalised, of many quantities at once.

Both are those of Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), with Geyer's initial
monotone sequence for the autocorrelations. ArviZ loops over
quantities: the hundred pairs of each check of an automatic run take it six times as long.
"""

from __future__ import annotations

import numpy as np

# Fewer draws than this per chain say nothing.
LEAST_DRAWS = 4
_TAIL = (0.05, 0.95)


def rhat(values: np.ndarray) -> np.ndarray:
    """Rank-normalised split R-hat of each quantity: the larger of location's and spread's.

    Parameters
    ----------
    values : array, shape (chain, draw) or (chain, draw, quantity)

    Returns
    -------
    array, one per quantity
        1 for what is the same everywhere, infinite for what never moves within a chain but differs
        between chains, NaN where there are fewer than four draws or values that are not finite. One
        chain is compared by its halves.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> bool(rhat(rng.standard_normal((4, 500))) < 1.01)
    True
    """
    x, shape = _by_quantity(values)
    out = np.full(x.shape[2], np.nan)
    known, constant, apart = _kinds(x)
    if x.shape[0] == 1 and x.shape[1] < 2 * LEAST_DRAWS:
        known[:] = False
    moving = known & ~constant & ~apart
    out[known & constant] = 1.0
    out[known & apart] = np.inf
    if moving.any():
        halves = _halves(x[:, :, moving])
        folded = np.abs(halves - np.median(halves, axis=(0, 1)))
        out[moving] = np.maximum(_ratio(_normal_scores(halves)), _ratio(_normal_scores(folded)))
    return out.reshape(shape)[()]


def ess(values: np.ndarray, kind: str = "bulk") -> np.ndarray:
    """Effective draws of each quantity, over all chains.

    Parameters
    ----------
    values : array, shape (chain, draw) or (chain, draw, quantity)
    kind : {"bulk", "tail", "mean"}
        Of normal scores; of the 5% and 95% quantiles, the smaller; or of the values themselves.

    Returns
    -------
    array, one per quantity
        All draws for what is the same everywhere, one per chain for what never moves within a
        chain, NaN where there are fewer than four draws or values that are not finite.
    """
    x, shape = _by_quantity(values)
    out = np.full(x.shape[2], np.nan)
    known, constant, apart = _kinds(x)
    moving = known & ~constant & ~apart
    out[known & constant] = x.shape[0] * x.shape[1]
    out[known & apart] = x.shape[0]
    if moving.any():
        some = x[:, :, moving]
        if kind == "tail":
            limits = np.quantile(some, _TAIL, axis=(0, 1))
            parts = [_effective(_halves((some <= limit).astype(float))) for limit in limits]
            out[moving] = np.minimum(*parts)
        else:
            halves = _halves(some)
            out[moving] = _effective(_normal_scores(halves) if kind == "bulk" else halves)
    return out.reshape(shape)[()]


def _by_quantity(values: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    x = np.asarray(values, dtype=float)
    return (x[:, :, None], ()) if x.ndim == 2 else (x, x.shape[2:])


def _kinds(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which quantities can be judged, which never change, which change between chains only."""
    known = np.isfinite(x).all(axis=(0, 1)) & (x.shape[1] >= LEAST_DRAWS)
    constant = np.ptp(x, axis=(0, 1)) == 0
    apart = ~constant & ~np.ptp(x, axis=1).any(axis=0)
    return known, constant, apart


def _halves(x: np.ndarray) -> np.ndarray:
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _normal_scores(x: np.ndarray) -> np.ndarray:
    """Each quantity's ranks over all chains, as normal quantiles."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    if ((x == 0) | (x == 1)).all():
        return x  # scores of what has two values are the same up to scale, and need no sorting
    flat = x.reshape(-1, x.shape[2])
    return ndtri((rankdata(flat, axis=0) - 0.375) / (len(flat) + 0.25)).reshape(x.shape)


def _ratio(x: np.ndarray) -> np.ndarray:
    n = x.shape[1]
    within = x.var(axis=1, ddof=1).mean(axis=0)
    between = x.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt((n - 1) / n + between / within)
    # Scores that do not move within any half are one value, or one in each.
    return np.where(within > 0, ratio, np.where(between > 0, np.inf, 1.0))


def _effective(x: np.ndarray) -> np.ndarray:
    """Draws over the integrated autocorrelation time, by Geyer's initial monotone sequence."""
    m, n, _ = x.shape
    centred = x - x.mean(axis=1, keepdims=True)
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centred, size, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum.mean(axis=0), size, axis=0)[:n] / n
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + x.mean(axis=1).var(axis=0, ddof=1)
    still = total <= 0  # the indicator of a tail that no draw is in
    rho = 1.0 - (within - covariance) / np.where(still, 1.0, total)
    rho[0] = 1.0
    pairs = rho[: n // 2 * 2].reshape(n // 2, 2, -1).sum(axis=1)
    # The last pairs are sums of a handful of products.
    negative = pairs < 0
    negative[max((n - 3) // 2, 1) :] = True
    cut = negative.argmax(axis=0)
    first = np.minimum.accumulate(pairs, axis=0)
    used = np.arange(len(pairs))[:, None] < cut
    time = -1.0 + 2.0 * np.where(used, first, 0.0).sum(axis=0)
    time += np.maximum(np.take_along_axis(rho, 2 * cut[None], axis=0)[0], 0.0)
    # Negatively correlated draws are worth more than independent ones, within reason.
    time = np.maximum(time, 1.0 / np.log10(m * n))
    return np.where(still, m * n, m * n / time)
