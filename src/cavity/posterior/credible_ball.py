"""Credible balls of partitions (Wade & Ghahramani 2018).

The ball of level p around an estimate is the set of partitions within the smallest distance that
has posterior probability p or more. Its edge is told by the draws in it: the *horizontal* bound are
those furthest from the estimate; the *upper vertical* bound, of those with fewest clusters, the
furthest; the *lower vertical* bound, of those with most clusters, the furthest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity.posterior._draws import as_labels, iter_canonical
from cavity.posterior.losses import as_loss, losses_to_rows


@dataclass(frozen=True)
class CredibleBall:
    """A credible ball and its bounds.

    Attributes
    ----------
    level : float
        Probability asked for.
    coverage : float
        Share of draws in the ball, at least `level`.
    radius : float
        Distance from the estimate to the edge.
    metric : str
        ``"vi"`` (nats) or ``"binder"``.
    horizontal, upper_vertical, lower_vertical : arrays of int, shape (m, n)
        The distinct partitions that attain each bound, mostly one.
    """

    level: float
    coverage: float
    radius: float
    metric: str
    horizontal: np.ndarray
    upper_vertical: np.ndarray
    lower_vertical: np.ndarray

    def __repr__(self) -> str:
        def _clusters(rows: np.ndarray) -> str:
            counts = sorted({int(row.max()) + 1 for row in rows})
            return " or ".join(map(str, counts))

        return (
            f"<CredibleBall: {self.level:.0%} within {self.radius:.4g} ({self.metric}); clusters: "
            f"horizontal {_clusters(self.horizontal)}, "
            f"upper {_clusters(self.upper_vertical)}, lower {_clusters(self.lower_vertical)}>"
        )


def credible_ball(
    labels: Any, draws: Any, level: float = 0.95, *, metric: str = "vi"
) -> CredibleBall:
    """Credible ball around a partition.

    Parameters
    ----------
    labels : array of int, shape (n,)
        Centre.
    draws : array of int, shape (draw, n)
    level : float
    metric : {"vi", "binder"}

    Examples
    --------
    >>> ball = credible_ball([0, 0, 1], [[0, 0, 1], [0, 0, 1], [0, 1, 2]], 0.6)
    >>> ball.radius, ball.coverage == 2 / 3
    (0.0, True)
    """
    if not 0 < level <= 1:
        raise ValueError(f"level must lie in (0, 1]; got {level}")
    if metric not in ("vi", "binder"):
        raise ValueError(f"metric must be 'vi' or 'binder'; got {metric!r}")
    loss = as_loss(metric)
    flat = as_labels(draws, ndim=(2,), what="draws")
    centre = as_labels(labels, ndim=(1,)).astype(np.int64)
    centre = np.unique(centre, return_inverse=True)[1].reshape(-1)
    distance = np.empty(len(flat))
    n_clusters = np.empty(len(flat), np.int64)
    for start, rows, n_rows in iter_canonical(flat):
        distance[start : start + len(rows)] = losses_to_rows(centre, rows, n_rows, loss)
        n_clusters[start : start + len(rows)] = n_rows
    # Equal distances reached through different sums may differ in the last digits.
    distance = np.round(distance, 12)
    order = np.sort(distance)
    radius = float(order[int(np.ceil(level * len(order) - 1e-9)) - 1])
    inside = distance <= radius

    def _furthest(chosen: np.ndarray) -> np.ndarray:
        at = np.flatnonzero(chosen)
        at = at[distance[at] == distance[at].max()]
        # One at a time: many draws may tie, few of them are distinct.
        kept: dict[bytes, np.ndarray] = {}
        for d in at:
            for _, rows, _ in iter_canonical(flat[d : d + 1]):
                kept.setdefault(rows[0].tobytes(), rows[0].astype(np.int64))
        return np.stack(list(kept.values()))

    return CredibleBall(
        level=float(level),
        coverage=float(inside.mean()),
        radius=radius,
        metric=metric,
        horizontal=_furthest(inside),
        upper_vertical=_furthest(inside & (n_clusters == n_clusters[inside].min())),
        lower_vertical=_furthest(inside & (n_clusters == n_clusters[inside].max())),
    )
