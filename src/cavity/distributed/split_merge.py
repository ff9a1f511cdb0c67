"""Splits and merges of clusters, proposed from a pilot sample and accepted over all rows.

The labels are summed out: a proposal replaces two slots' weights and locations (a cluster and an
empty slot by two clusters, or the reverse), and is accepted by the mixture's density of all rows,
which a pass computes while it draws the labels that go with the proposal. Before a pass is spent,
the pilot sample must accept the proposal, and the pass then corrects for it (delayed acceptance,
Christen and Fox 2005). This is exact, whatever the pilot sample is.

Where the number of clusters has a prior of its own, a split takes a slot that has no cluster and
no weight, and a merge leaves one (a reversible jump). Clusters without rows are too rare there, one
in n to the power of the concentration, for splits to wait for one.

There are two kinds, each its own reverse. ``"launched"``: EM over the pilot sample, from two rows
at random, locates two clusters (the sub-clusters of Chang and Fisher 2013). ``"twins"``: two
clusters that together have the moments of one, for a cluster that is there twice; the merged one is
located by these moments or by the pilot sample. Proposals of locations are mixtures over several
widths, so one of them fits a wide or a narrow density.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cavity.distributed.clusters import Conjugate, Location, moments
from cavity.distributed.mixture_weights import ABSENT, empty_shape, is_counted, log_weight_density
from cavity.distributed.pilot import PilotSample, log_sum
from cavity.distributed.proposals import EMSplit, MergeProposal, MomentSplit, log_beta

# The pilot sample counts as this share of all rows in deciding whether a pass is worth it.
TRUST = 0.25
# Of twins they only count with what is beyond so many standard errors.
CHANCE = 2.0
KINDS = ("launched", "twins")
TRIES, ACCEPTED, PASSES = 0, 1, 2
# What is tried together: twins seldom cost a pass.
ROUND = ("launched", "twins", "twins", "twins")


class Mixture(NamedTuple):
    """Weights and locations of all slots."""

    weight: np.ndarray  # (K,)
    locations: list[Location]
    alpha: np.ndarray  # (K,)


class Proposal(NamedTuple):
    """A mixture that is worth a pass."""

    mixture: Mixture
    pilot_gain: float  # what the pilot sample's densities counted for


class SplitMerge:
    """Proposes splits and merges.

    Parameters
    ----------
    pilot : PilotSample
    n_rows : int
        Rows of all the data.
    """

    def __init__(self, pilot: PilotSample, n_rows: int) -> None:
        self.pilot = pilot
        self.n_rows = n_rows
        self.shape = pilot.shape
        least = 10.0 * (self.shape.n_columns + 2)
        steps = max(1, 1 + int(math.log(max(n_rows / least, 1.0), 8.0)))
        self.widths = 8.0 ** -np.arange(steps)
        # Tries, those accepted, and passes over all rows, of each kind.
        self.counts = {kind: np.zeros(3, dtype=np.int64) for kind in KINDS}

    def propose(
        self, now: Mixture, table: np.ndarray, prior: Any, natural: np.ndarray, kind: str,
        rng: np.random.Generator,
    ) -> Proposal | None:  # fmt: skip
        """A split or merge that the pilot sample accepts, or None.

        Parameters
        ----------
        now : Mixture
        table : array of shape (K, n)
            Log densities of the pilot sample under it (`PilotSample.table`).
        prior : NamedTuple
            Partition prior.
        natural : array
            Natural parameters of the locations' prior.
        kind : {"launched", "twins"}
        rng : numpy.random.Generator
        """
        if len(now.weight) < 2:
            return None
        splits = bool(rng.random() < 0.5)
        self.counts[kind][TRIES] += 1
        step = self._split if splits else self._merge
        found = step(now, table, prior, Conjugate(natural, self.shape), natural, kind, rng)
        if found is None:
            return None
        then, changed, slots, log_ratio = found
        pilot_gain = self._pilot_gain(log_sum(changed) - log_sum(table), kind)
        log_ratio += log_weight_density(prior, then.weight, slots)
        log_ratio -= log_weight_density(prior, now.weight, slots)
        # A NaN is no number that this is below.
        if not math.log1p(-rng.random()) < pilot_gain + log_ratio:
            return None
        return Proposal(then, pilot_gain)

    def _pilot_gain(self, gain: np.ndarray, kind: str) -> float:
        """Weight of the pilot sample's gains in log density; antisymmetric in the gains.

        Two clusters in the place of one fit all rows but a few nats better or worse. In the pilot
        sample the difference has a standard error of about one, which is multiplied by the rows
        that each of its own stands for and would drown it.
        """
        found = float(gain.sum())
        if self.pilot.worth == 1.0:
            return found
        if kind == "twins":
            error = float(gain.std()) * math.sqrt(gain.size)
            found = math.copysign(max(abs(found) - CHANCE * error, 0.0), found)
        return TRUST * self.pilot.worth * found

    # ------------------------------------------------------------------ which slots

    def _odds(self, weight: np.ndarray) -> np.ndarray:
        """Of the slot that a cluster is split in, or merged into."""
        odds = np.where(weight > ABSENT, weight + 1.0 / (self.n_rows + weight.size), 0.0)
        return odds / odds.sum()

    def _empty_odds(self, weight: np.ndarray, a: int, prior: Any) -> np.ndarray | None:
        """Of the slot that the other half goes to: those without rows, nearly always.

        Without weight, where the number of clusters has a prior; None if there is no such slot.
        """
        if is_counted(prior):
            odds = np.where(weight > ABSENT, 0.0, prior.weights)
        else:
            odds = np.where(weight > ABSENT, 1.0 / (1.0 + np.square(self.n_rows * weight)), 0.0)
            odds[a] = 0.0
        total = odds.sum()
        return odds / total if total > 0.0 else None

    def _near_odds(self, now: Mixture, a: int) -> np.ndarray:
        """Of the cluster that is merged into another: the nearer, the more."""
        mean = np.array([location.mean for location in now.locations])
        own = now.locations[a]
        away = (mean - own.mean) @ own.whiten.T
        distance = np.einsum("ij,ij->i", away, away)
        if self.shape.n_columns > self.shape.d:
            # Twice the divergence is to shares and rates what that is to means.
            distance += 2.0 * np.array([_divergence(own, other) for other in now.locations])
        near = 1.0 / np.square(1.0 + distance / self.shape.n_columns)
        alive = self.n_rows * now.weight
        odds = near * (alive + 0.01) / (1.0 + alive) + 1e-12
        odds = np.where(now.weight > ABSENT, odds, 0.0)
        odds[a] = 0.0
        return odds / odds.sum()

    # ------------------------------------------------------------------ the two directions

    def _split(
        self, now: Mixture, table: np.ndarray, prior: Any, before: Conjugate, natural: np.ndarray,
        kind: str, rng: np.random.Generator,
    ) -> _Found | None:  # fmt: skip
        weight = now.weight
        a = int(rng.choice(weight.size, p=self._odds(weight)))
        empty = self._empty_odds(weight, a, prior)
        if empty is None:
            return None
        e = int(rng.choice(weight.size, p=empty))
        split = self._split_proposal(now, table, natural, a, e, kind, rng)
        drawn = None if split is None else split.draw(rng)
        if split is None or drawn is None:
            return None
        first, second, share = drawn
        log_forward = split.log_density(first, second, (share, 1.0 - share))
        log_forward += math.log(self._odds(weight)[a] * empty[e])
        then = _with(now, a, e, (first, second), (share, 1.0 - share))
        changed = self._changed(table, then, a, e)
        merge = self._merge_proposal(then, changed, natural, a, e, kind)
        if merge is None:
            return None
        log_back = merge.log_density(now.locations[a])
        log_back += self._log_empty(now, prior, a, e)
        log_back += math.log(self._odds(then.weight)[a] * self._near_odds(then, a)[e])
        # The prior's density of the slot that was empty is in the target and in the proposal.
        log_ratio = log_back - log_forward - before.log_density(now.locations[a])
        log_ratio += before.log_density(first) + before.log_density(second)
        return then, changed, np.array([a, e]), log_ratio

    def _merge(
        self, now: Mixture, table: np.ndarray, prior: Any, before: Conjugate, natural: np.ndarray,
        kind: str, rng: np.random.Generator,
    ) -> _Found | None:  # fmt: skip
        weight = now.weight
        if np.count_nonzero(weight > ABSENT) < 2:
            return None
        a = int(rng.choice(weight.size, p=self._odds(weight)))
        e = int(rng.choice(weight.size, p=self._near_odds(now, a)))
        merge = self._merge_proposal(now, table, natural, a, e, kind)
        if merge is None:
            return None
        place = merge.draw(rng)
        log_forward = merge.log_density(place)
        log_forward += math.log(self._odds(weight)[a] * self._near_odds(now, a)[e])
        total = weight[a] + weight[e]
        rest = 0.0
        if not is_counted(prior):
            rest = float(rng.beta(empty_shape(prior), 1.0 + self.n_rows * total))
            rest = min(max(rest, 1e-290), 1.0 - 1e-12)
        then = _with(now, a, e, (place, before.draw(rng)), (1.0 - rest, rest))
        log_forward += self._log_empty(then, prior, a, e)
        changed = self._changed(table, then, a, e)
        split = self._split_proposal(then, changed, natural, a, e, kind, rng)
        if split is None:
            return None
        own = now.locations[a], now.locations[e]
        log_back = split.log_density(*own, (weight[a] / total, weight[e] / total))
        empty = self._empty_odds(then.weight, a, prior)
        assert empty is not None
        log_back += math.log(self._odds(then.weight)[a] * empty[e])
        log_ratio = log_back - log_forward + before.log_density(place)
        log_ratio -= before.log_density(own[0]) + before.log_density(own[1])
        return then, changed, np.array([a, e]), log_ratio

    def _log_empty(self, mixture: Mixture, prior: Any, a: int, e: int) -> float:
        """Log density of an empty slot's share of the pair.

        One without weight has none; two weights in place of one have a volume of their sum.
        """
        total = mixture.weight[a] + mixture.weight[e]
        if is_counted(prior):
            return math.log(total)
        shares = mixture.weight[e] / total, mixture.weight[a] / total
        return log_beta(shares, empty_shape(prior), 1.0 + self.n_rows * total)

    def _changed(self, table: np.ndarray, then: Mixture, a: int, e: int) -> np.ndarray:
        out = table.copy()
        for k in (a, e):
            density = self.pilot.log_density(then.locations[k], float(then.alpha[k]))
            out[k] = math.log(then.weight[k]) + density
        return out

    # ------------------------------------------------------------------ proposals of locations

    def _merge_proposal(
        self, apart: Mixture, table: np.ndarray, natural: np.ndarray, a: int, e: int, kind: str
    ) -> MergeProposal | None:
        """Where one cluster in place of two may lie."""
        share = np.exp(table[[a, e]] - log_sum(table)).sum(axis=0)
        fitted = self.pilot.one(share, float(apart.alpha[a]), natural)
        if fitted is None:
            return None
        found = [width * fitted for width in self.widths]
        parts = [Conjugate(natural, self.shape, statistics) for statistics in found]
        own = []
        if kind == "twins":
            both = [moments(apart.locations[k], self.n_rows * apart.weight[k]) for k in (a, e)]
            own = [Conjugate(natural, self.shape, both[0] + both[1])]
        return MergeProposal(parts, *own) if all(part.proper for part in parts + own) else None

    def _split_proposal(
        self, whole: Mixture, table: np.ndarray, natural: np.ndarray, a: int, e: int, kind: str,
        rng: np.random.Generator,
    ) -> EMSplit | MomentSplit | None:  # fmt: skip
        """Where two clusters in place of one may lie, given that one."""
        place = whole.locations[a]
        if kind == "twins":
            n = self.n_rows * (whole.weight[a] + whole.weight[e])
            return MomentSplit(natural, moments(place, n), n, self.widths, self.shape)
        share = np.exp(table[a] - log_sum(table))
        total = share.sum()
        if not total > 0.0:
            return None
        seeds = rng.choice(share.size, size=2, p=share / total)
        alphas = float(whole.alpha[a]), float(whole.alpha[e])
        fitted = self.pilot.two(share, alphas, (int(seeds[0]), int(seeds[1])), place, natural)
        if fitted is None:
            return None
        parts = [
            (
                *(Conjugate(natural, self.shape, width * half) for half in fitted),
                *(1.0 + width * half[1] for half in fitted),
            )
            for width in self.widths
        ]
        proper = all(first.proper and second.proper for first, second, _, _ in parts)
        return EMSplit(parts) if proper else None


_Found = tuple[Mixture, np.ndarray, np.ndarray, float]


def _divergence(own: Location, other: Location) -> float:
    """Of shares and rates of counts, in nats."""
    share, rate = np.exp(own.log_share), np.exp(own.log_rate)
    value = share @ (own.log_share - other.log_share)
    value += rate @ (own.log_rate - other.log_rate) - (rate - np.exp(other.log_rate)).sum()
    return float(max(value, 0.0))


def _with(
    now: Mixture,
    a: int,
    e: int,
    places: tuple[Location, Location],
    shares: tuple[float, float],
) -> Mixture:
    """The mixture with two slots' weights and locations replaced."""
    weight, locations = now.weight.copy(), list(now.locations)
    total = weight[a] + weight[e]
    for k, share in zip((a, e), shares, strict=True):
        weight[k] = max(share * total, 1e-300) if share > 0.0 else ABSENT
    locations[a], locations[e] = places
    return Mixture(weight, locations, now.alpha)
