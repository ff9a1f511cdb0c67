"""Proposal distributions of splits (two clusters in place of one) and merges (the reverse)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cavity.distributed.clusters import Conjugate, Location, Shape, moments


class MergeProposal(NamedTuple):
    """Location of one cluster in place of two, from the pilot sample or the two clusters' moments.

    The moments are known from all rows; an estimate from the pilot sample is off by about as many
    nats as there are rows for each of its own.
    """

    parts: list[Conjugate]
    own: Conjugate | None = None

    def draw(self, rng: np.random.Generator) -> Location:
        """A location."""
        if self.own is not None and rng.random() < 0.5:
            return self.own.draw(rng)
        return self.parts[int(rng.integers(len(self.parts)))].draw(rng)

    def log_density(self, place: Location) -> float:
        """Of a location."""
        around = log_mean([part.log_density(place) for part in self.parts])
        return around if self.own is None else log_mean([around, self.own.log_density(place)])


class EMSplit(NamedTuple):
    """Two locations and the first one's share, around what EM has found, at several widths."""

    parts: list[tuple[Any, ...]]

    def draw(self, rng: np.random.Generator) -> tuple[Location, Location, float]:
        """Two locations and the first one's share."""
        first, second, x, y = self.parts[int(rng.integers(len(self.parts)))]
        share = min(max(float(rng.beta(x, y)), 1e-12), 1.0 - 1e-12)
        return first.draw(rng), second.draw(rng), share

    def log_density(self, one: Location, other: Location, shares: tuple[float, float]) -> float:
        """Of two locations, and both shares."""
        return log_mean(
            [
                first.log_density(one) + second.log_density(other)
                + log_beta(shares, x, y)
                for first, second, x, y in self.parts
            ]
        )  # fmt: skip


class MomentSplit(NamedTuple):
    """Two locations that together have the moments of one; the share of the first is uniform."""

    natural: np.ndarray
    whole: np.ndarray
    n: float
    widths: np.ndarray
    shape: Shape

    def _firsts(self, share: float) -> list[Conjugate]:
        return [
            Conjugate(self.natural, self.shape, width * share * self.whole) for width in self.widths
        ]

    def _seconds(self, first: Location, share: float) -> list[Conjugate] | None:
        rest = self.whole - moments(first, share * self.n)
        found = [Conjugate(self.natural, self.shape, width * rest) for width in self.widths]
        return found if all(second.proper for second in found) else None

    def draw(self, rng: np.random.Generator) -> tuple[Location, Location, float] | None:
        """Two locations and the first one's share; None if the first leaves too little."""
        share = min(max(float(rng.random()), 1e-12), 1.0 - 1e-12)
        first = self._firsts(share)[int(rng.integers(len(self.widths)))].draw(rng)
        seconds = self._seconds(first, share)
        if seconds is None:
            return None
        return first, seconds[int(rng.integers(len(seconds)))].draw(rng), share

    def log_density(self, one: Location, other: Location, shares: tuple[float, float]) -> float:
        """Of two locations, and both shares."""
        seconds = self._seconds(one, shares[0])
        if seconds is None:
            return -math.inf
        firsts = [first.log_density(one) for first in self._firsts(shares[0])]
        return log_mean(firsts) + log_mean([second.log_density(other) for second in seconds])


def log_mean(values: list[float]) -> float:
    """Log of the mean of exponentials."""
    top = max(values)
    if not math.isfinite(top):
        return top
    return top + math.log(sum(math.exp(value - top) for value in values) / len(values))


def log_beta(shares: tuple[float, float], x: float, y: float) -> float:
    """Log density of a beta variate, given with what it leaves of one: either may be tiny."""
    value = math.lgamma(x + y) - math.lgamma(x) - math.lgamma(y)
    return value + (x - 1.0) * math.log(shares[0]) + (y - 1.0) * math.log(shares[1])
