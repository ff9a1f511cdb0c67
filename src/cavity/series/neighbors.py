"""Which series look alike, from the data alone: smoothed paths in units of their own."""

from __future__ import annotations

import numpy as np

# Standard deviation of the kernel, in times, and the weight of a series' mean against one value.
WIDTH, SHRINKAGE = 1.5, 0.2


def smoothed_paths(y: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Each series smoothed over time, less its mean and divided by its length as a vector.

    Cells without observations take their value from those around them, or the series' mean.

    Examples
    --------
    >>> paths = smoothed_paths(np.array([[1.0, np.nan, 3.0]]), np.array([[1, 0, 1]]))
    >>> paths.round(2).tolist()
    [[-0.71, 0.0, 0.71]]
    """
    seen = count > 0
    # Reduced by the largest before anything is squared, and wild values held in.
    values = np.where(seen, y, np.nan)
    with np.errstate(all="ignore"):
        filled = np.where(seen, values, 0.0)
        size = np.maximum(np.abs(filled).max(axis=1, keepdims=True), np.finfo(float).tiny)
        filled = filled / size
        total = np.maximum(seen.sum(axis=1, keepdims=True), 1)
        centred = np.where(seen, filled - filled.sum(axis=1, keepdims=True) / total, 0.0)
        spread = np.sqrt((centred**2).sum(axis=1, keepdims=True) / total)
        centred = np.clip(centred, -3.0 * spread, 3.0 * spread)
    above, below = np.zeros(y.shape), np.full(y.shape, SHRINKAGE)
    n_times = y.shape[1]
    reach = min(int(np.ceil(3.0 * WIDTH)), n_times - 1)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / WIDTH) ** 2)
    for step, weight in zip(range(-reach, reach + 1), kernel, strict=True):
        to = slice(max(step, 0), n_times + min(step, 0))
        of = slice(max(-step, 0), n_times + min(-step, 0))
        above[:, to] += weight * centred[:, of]
        below[:, to] += weight * seen[:, of]
    paths = above / below
    length = np.sqrt((paths**2).sum(axis=1, keepdims=True))
    return paths / np.maximum(length, np.finfo(float).tiny)
