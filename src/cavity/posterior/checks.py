"""What decides whether chains agree: measured, then judged in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cavity.posterior.effective import ess, rhat
from cavity.posterior.modes import Mode, chain_disagreement, find_modes
from cavity.posterior.quantities import LOG_MARGINAL
from cavity.utils.text import enumerate_words, plural

if TYPE_CHECKING:
    import pandas as pd

RHAT_MAX = 1.01
PAIR_RHAT_MAX = 1.05
# Effective draws: in all, and for each chain if there are many.
ESS_MIN, ESS_PER_CHAIN = 400, 100
# R-hat of a chain's own halves beyond which it has not come to rest.
OWN_RHAT_MAX = 1.1
PAIRS = "pairs together (worst)"


def ess_needed(n_chains: int) -> int:
    """Effective draws that are enough, over all chains."""
    return max(ESS_MIN, ESS_PER_CHAIN * n_chains)


def choose_pairs(labels: Sequence[np.ndarray], n_pairs: int, random_state: int = 0) -> np.ndarray:
    """A fixed random set of distinct pairs, (pair, 2), given each chain's labels.

    Half are drawn uniformly; half are an observation and a mate from its cluster in a random draw,
    since with many clusters a uniform pair is almost never together and tells nothing.
    """
    chains, (draws, n) = len(labels), labels[0].shape
    if n < 2:
        return np.empty((0, 2), np.int64)
    rng = np.random.default_rng(random_state)
    found: set[tuple[int, int]] = set()
    wanted = min(n_pairs, n * (n - 1) // 2)
    for attempt in range(20 * n_pairs):
        if len(found) == wanted:
            break
        i = int(rng.integers(n))
        row = labels[int(rng.integers(chains))][int(rng.integers(draws))]
        mates = np.flatnonzero(row == row[i]) if attempt % 2 else np.arange(n)
        j = int(mates[rng.integers(len(mates))])
        if i != j:
            found.add((min(i, j), max(i, j)))
    return np.array(sorted(found), np.int64).reshape(-1, 2)


@dataclass(frozen=True)
class Checks:
    """Everything that is measured of some chains before it is judged.

    Attributes
    ----------
    labels : sequence of arrays of int, shape (draw, n)
        One per chain.
    quantities : mapping of str to array, shape (chain, draw)
        Those that relabelling cannot change.
    broken : mapping of str to int
        Of those that are not finite everywhere, in how many draws.
    table, pairs : DataFrame
        Of `Diagnostics`.
    between, within : arrays
        How far chains lie apart, and each chain's halves.
    modes : tuple of Mode
    """

    labels: Sequence[np.ndarray]
    quantities: Mapping[str, np.ndarray]
    broken: Mapping[str, int]
    table: pd.DataFrame
    pairs: pd.DataFrame
    between: np.ndarray
    within: np.ndarray
    modes: tuple[Mode, ...]

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return len(self.labels)

    @property
    def n_draws(self) -> int:
        """Draws of each chain."""
        return len(self.labels[0])

    @property
    def effective(self) -> tuple[str, float]:
        """The quantity with the fewest effective draws, and their number."""
        fewest = self.table.drop(PAIRS, errors="ignore")[["ess_bulk", "ess_tail"]].min(axis=1)
        fewest = fewest[fewest.notna()]
        return ("", math.nan) if fewest.empty else (str(fewest.idxmin()), float(fewest.min()))

    def at_rest(self, chain: int) -> bool:
        """Whether a chain's halves tell the same: it may be stuck, but it does not drift."""
        own = [rhat(values[chain : chain + 1]) for values in self.quantities.values()]
        return bool(np.nanmax([1.0, *map(float, own)]) <= OWN_RHAT_MAX)


def measure(
    labels: Sequence[np.ndarray],
    quantities: Mapping[str, np.ndarray],
    *,
    n_pairs: int = 100,
    n_rows: int = 200,
    random_state: int = 0,
    marginal: str = LOG_MARGINAL,
    max_clusters: int | None = None,
) -> Checks:
    """Measure what decides whether chains agree.

    Parameters
    ----------
    labels : sequence of arrays of int, shape (draw, n)
        One per chain.
    quantities : mapping of str to array, shape (chain, draw)
        What relabelling cannot change, the log joint density as ``"log joint"``.
    n_pairs, n_rows, random_state : int
        Of the fixed random sets of pairs and rows.
    marginal : str
        Which of the quantities is the log joint density without cluster parameters, if any.
    max_clusters : int, optional
        Names that clusters may have.
    """
    import pandas as pd

    finite = {name: np.asarray(v, float) for name, v in quantities.items()}
    broken = {
        name: int((~np.isfinite(v)).sum()) for name, v in finite.items() if not np.isfinite(v).all()
    }
    finite = {name: v for name, v in finite.items() if name not in broken}
    table = _table(finite)
    chosen = choose_pairs(labels, n_pairs, random_state)
    together = np.empty((len(labels), len(labels[0]), len(chosen)))
    for c, draws in enumerate(labels):
        together[c] = draws[:, chosen[:, 0]] == draws[:, chosen[:, 1]]
    pairs = pd.DataFrame(
        {
            "first": chosen[:, 0],
            "second": chosen[:, 1],
            "probability": together.mean(axis=(0, 1)),
            "rhat": rhat(together),
            "ess_bulk": ess(together),
        }
    )
    if len(pairs):
        table.loc[PAIRS] = {
            "mean": pairs["probability"].mean(),
            "sd": pairs["probability"].std(ddof=0),
            "rhat": pairs["rhat"].max(),
            "ess_bulk": pairs["ess_bulk"].min(),
            "ess_tail": pairs["ess_bulk"].min(),
        }
    between, within = chain_disagreement(labels, n_rows, random_state)
    modes = find_modes(
        labels, between, within, finite.get("log joint"), finite.get(marginal), max_clusters
    )
    return Checks(labels, finite, broken, table, pairs, between, within, modes)


def _table(quantities: Mapping[str, np.ndarray]) -> pd.DataFrame:
    import pandas as pd

    columns = ["mean", "sd", "rhat", "ess_bulk", "ess_tail"]
    if not quantities:
        return pd.DataFrame(columns=columns, dtype=float).rename_axis("quantity")
    # Reduced by the largest before anything is squared, and without digits that are rounding.
    values = np.stack(list(quantities.values()), axis=2)
    size = np.abs(values).max(axis=(0, 1))
    size[size == 0] = 1.0
    values = np.round(values / size, 12)
    found = [values.mean(axis=(0, 1)) * size, values.std(axis=(0, 1)) * size, rhat(values)]
    found += [ess(values), ess(values, "tail")]
    index = pd.Index(list(quantities), name="quantity")
    return pd.DataFrame(dict(zip(columns, found, strict=True)), index=index)


def problems_of(
    checks: Checks, *, noun: str = "row", rhat_max: float = RHAT_MAX, ess_min: float | None = None
) -> list[str]:
    """What keeps the chains from being called converged, one sentence each; empty if nothing."""
    problems = [
        f"The {name} is not finite in {number} draw(s): the sampler broke down there; do not use "
        "this run."
        for name, number in checks.broken.items()
    ]
    if checks.n_draws < 4:
        few = f"{checks.n_draws} draw(s) per chain are too few to judge anything."
        return [*problems, few]
    problems += _apart(checks)
    problems += _differing(checks, rhat_max)
    needed = ess_needed(checks.n_chains) if ess_min is None else ess_min
    name, fewest = checks.effective
    if fewest < needed:
        problems.append(
            f"Only {fewest:.0f} effective draws of the {_spoken(name)} are there, {needed:.0f} "
            "are needed."
        )
    bad = checks.pairs["rhat"] > PAIR_RHAT_MAX
    # One pair in twenty may exceed the bound by chance alone.
    if len(bad) and bad.mean() > 0.05:
        problems.append(
            f"{bad.sum()} of {len(bad)} checked pairs of {plural(noun)} are together in some "
            "chains much more often than in others."
        )
    return problems


def _differing(checks: Checks, rhat_max: float) -> list[str]:
    """What differs between the chains by more than chance, the worst first, in a sentence or two.

    The table of the diagnostics has every number.
    """
    found = checks.table["rhat"].drop(PAIRS, errors="ignore")
    above = found[found > rhat_max].sort_values(ascending=False, kind="stable")
    stuck = [_spoken(name) for name in above.index[np.isinf(above)]]
    sentences = []
    if stuck:
        verb = "never moves" if len(stuck) == 1 else "never move"
        sentences.append(
            f"The {enumerate_words(stuck)} {verb} within a chain but differ"
            f"{'s' if len(stuck) == 1 else ''} between chains."
        )
    moving = above[np.isfinite(above)]
    if not len(moving):
        return sentences
    of, what = ("halves of the chain", "its") if checks.n_chains == 1 else ("chains", "their")
    worst = f"the {_spoken(moving.index[0])} (R-hat of {what} draws {moving.iloc[0]:.3f}, should "
    worst += f"be below {rhat_max})"
    rest = [_spoken(name) for name in moving.index[1:]]
    others = f", and also in the {enumerate_words(rest)}" if rest else ""
    sentences.append(f"The {of} differ by more than chance in {worst}{others}.")
    return sentences


def _spoken(name: object) -> str:
    """A quantity's name as a sentence has it."""
    return str(name).replace("_", " ")


def _apart(checks: Checks) -> list[str]:
    """Chains that hold different clusterings, and whether these are modes or merely unfinished."""
    if len(checks.modes) == 1:
        return []
    if not all(map(checks.at_rest, range(checks.n_chains))):
        worst = float(checks.between.max())
        within = float(checks.within.max())
        return [
            f"The chains are still on their way and hold different clusterings: their similarity "
            f"matrices differ by {worst:.2f} of 1, halves of one chain by {within:.2f}."
        ]
    parts = []
    for mode in checks.modes:
        text = f"{'chain' if len(mode.chains) == 1 else 'chains'} "
        text += enumerate_words([str(c) for c in mode.chains])
        known = [f"mean log joint {mode.log_joint:.1f}"] if np.isfinite(mode.log_joint) else []
        if mode.below > 0:
            known.append(
                f"mass about {mode.below:.0f} nats lower, give or take {mode.allowance:.0f}"
            )
        parts.append(text + (f" ({', '.join(known)})" if known else ""))
    return [
        f"The chains sit in {len(parts)} modes and none moves between them: "
        f"{'; '.join(parts)}. How probable each mode is this run does not tell, and what is said "
        "of clusters and rows counts every chain alike."
    ]
