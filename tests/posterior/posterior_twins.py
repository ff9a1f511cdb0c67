"""Slow, obvious versions of what the posterior code computes fast."""

from __future__ import annotations

import itertools

import numpy as np


def set_partitions(n: int) -> np.ndarray:
    """All partitions of n things as restricted growth strings."""
    rows = [[0]]
    for _ in range(n - 1):
        rows = [[*row, k] for row in rows for k in range(max(row) + 2)]
    return np.array(rows)


def entropy(p: np.ndarray) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def contingency(c, z) -> np.ndarray:
    c = np.unique(c, return_inverse=True)[1].reshape(-1)
    z = np.unique(z, return_inverse=True)[1].reshape(-1)
    table = np.zeros((c.max() + 1, z.max() + 1))
    for i in range(len(c)):
        table[c[i], z[i]] += 1
    return table


def vi(c, z, a: float = 1.0) -> float:
    """a H(c | z) + (2 - a) H(z | c), with c the estimate."""
    p = contingency(c, z) / len(c)
    joint, h_c, h_z = entropy(p.ravel()), entropy(p.sum(1)), entropy(p.sum(0))
    return a * (joint - h_z) + (2 - a) * (joint - h_c)


def binder(c, z, a: float = 1.0) -> float:
    """Weighted number of misjudged ordered pairs over n squared."""
    total = 0.0
    for i, j in itertools.permutations(range(len(c)), 2):
        if c[i] != c[j] and z[i] == z[j]:
            total += a
        elif c[i] == c[j] and z[i] != z[j]:
            total += 2 - a
    return total / len(c) ** 2


def omari(c, z) -> float:
    """One minus (agreement - chance) / (maximum - chance), in numbers of pairs."""
    table = contingency(c, z)

    def pairs(m):
        return float((m * (m - 1) / 2).sum())

    n_pairs = len(c) * (len(c) - 1) / 2
    both, of_c, of_z = pairs(table), pairs(table.sum(1)), pairs(table.sum(0))
    if of_c == of_z and of_c in (0.0, n_pairs):
        return 0.0
    chance = of_c * of_z / n_pairs
    return 1.0 - (both - chance) / ((of_c + of_z) / 2 - chance)


def loss(name: str, c, z, a: float = 1.0) -> float:
    if name == "omari":
        return omari(c, z)
    return {"vi": vi, "binder": binder}[name](c, z, a)


def similarity(draws: np.ndarray) -> np.ndarray:
    n = draws.shape[1]
    out = np.zeros((n, n))
    for row in draws:
        out += row[:, None] == row[None, :]
    return out / len(draws)


def random_posterior(rng: np.random.Generator, n: int, n_draws: int) -> np.ndarray:
    """Draws that scatter around one or two random partitions, from sharp to vague."""
    noise = rng.choice([0.05, 0.2, 0.5, 1.0])
    centres = rng.integers(0, rng.integers(1, n + 1), size=(rng.integers(1, 3), n))
    draws = []
    for _ in range(n_draws):
        row = centres[rng.integers(len(centres))].copy()
        change = rng.random(n) < noise
        row[change] = rng.integers(0, rng.integers(1, n + 1), change.sum())
        draws.append(row)
    return np.array(draws)


def noisy_draws(rng, n: int, n_clusters: int, n_draws: int, noise: float = 0.1) -> np.ndarray:
    truth = rng.integers(0, n_clusters, n)
    return np.array(
        [
            np.where(rng.random(n) < noise, rng.integers(0, n_clusters, n), truth)
            for _ in range(n_draws)
        ]
    )
