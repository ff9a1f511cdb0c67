"""Whether chains agree: label-free quantities, R-hat, effective draws, modes, and when to stop.

Two chains are in one mode if their similarity matrices differ hardly more than the halves of one
chain do. Chains that never leave their mode carry no information about its probability: as many
end there as started near. The log joint density does, since

    log mass of a mode = mean over the mode of the log joint density + entropy within the mode.

With cluster parameters integrated out (`log_marginal`), only the labels have an entropy to speak
of. It lies between zero and the sum of the rows' own entropies, which is exact if rows are in doubt
independently of each other. A mode is negligible if even the upper bound of its mass is far below
the lower bound of another's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.mcmc.draws import stack_parameter
from cavity.mcmc.schedule import Assessment, StoppingRule
from cavity.posterior.draws import evenly, size_summaries, subset_of_observations
from cavity.posterior.effective import LEAST_DRAWS, ess, rhat
from cavity.posterior.record import NOISE_WEIGHT
from cavity.posterior.relabel import relabel
from cavity.posterior.similarity import similarity
from cavity.utils.text import count, enumerate_words, plural

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior.posterior import Posterior

# The log joint density with cluster parameters integrated out, among the recorded parameters.
LOG_MARGINAL = "log_marginal"


def label_free(posterior: Posterior) -> dict[str, np.ndarray]:
    """Quantities that relabelling cannot change, by name, each of shape (chain, draw).

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> list(label_free(Posterior.from_labels([[0, 0, 1]])))
    ['number of clusters', 'largest cluster', 'entropy of sizes']
    """
    sizes = (posterior.n_proper, posterior.largest_cluster, posterior.size_entropy)
    # What becomes every observation's own in the data's units is followed in those of the model.
    drawn = scalars(posterior.drawn, posterior.cluster_parameters)
    return named(posterior.log_joint, sizes) | drawn | scalar_parameters(posterior)


def named(
    log_joint: np.ndarray | None, sizes: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> dict[str, np.ndarray]:
    """The log joint density and what follows from the sizes of clusters, by their names."""
    found = {} if log_joint is None else {"log joint": log_joint}
    return found | dict(
        zip(("number of clusters", "largest cluster", "entropy of sizes"), sizes, strict=True)
    )


def scalar_parameters(posterior: Posterior) -> dict[str, np.ndarray]:
    """Parameters that are one number in each draw, also those that all clusters share."""
    return scalars(posterior.parameters, posterior.cluster_parameters)


def scalars(
    parameters: Mapping[str, np.ndarray], cluster_parameters: Iterable[str]
) -> dict[str, np.ndarray]:
    """Parameters, of those of shape (chain, draw, ...), that are one number in each draw."""
    found: dict[str, np.ndarray] = {}
    with_clusters = frozenset(cluster_parameters)
    for name, values in parameters.items():
        if name not in with_clusters:
            if values.ndim == 2:
                found[name] = values
        elif values.ndim == 3 and (shared := _shared(values)) is not None:
            found[name] = shared
    return found


def _shared(values: np.ndarray) -> np.ndarray | None:
    """What the clusters of each draw have in common, (chain, draw); None if they differ.

    Examples
    --------
    >>> _shared(np.array([[[4.0, 4.0, np.nan], [np.nan, 5.0, 5.0]]])).tolist()
    [[4.0, 5.0]]
    >>> _shared(np.array([[[4.0, 3.0]]])) is None
    True
    """
    there = np.isfinite(values)
    number = there.sum(axis=2)
    # Where no draw has two clusters, nothing tells what is shared from what is not.
    if number.min() < 1 or number.max() < 2:
        return None
    low = np.where(there, values, np.inf).min(axis=2)
    high = np.where(there, values, -np.inf).max(axis=2)
    return low if np.array_equal(low, high) else None


# Similarity matrices closer than this are the same for all purposes.
DISAGREEMENT_MAX = 0.1
# Nats that the bounds of two masses must be apart for one to be negligible: odds of 1 in 150.
NEGLIGIBLE = 5.0
# Nats for each cluster that one mode has more: the bounds leave out the entropies of what is
# learned of the prior and, under Student-t, of the scales.
PER_CLUSTER = 5.0
# Fewer draws per chain do not show where it sits.
MODE_DRAWS = 50
_COMPARED_DRAWS = 500
_MATCHED_DRAWS = 200


@dataclass(frozen=True)
class MassBounds:
    """Bounds of the log mass of a mode.

    Attributes
    ----------
    low, high : float
        Without and with the sum of the rows' entropies.
    error : float
        Standard error of the mean log joint density.
    n_clusters : float
        Mean number of clusters.
    """

    low: float
    high: float
    error: float
    n_clusters: float

    @property
    def middle(self) -> float:
        """Halfway between the bounds."""
        return 0.5 * (self.low + self.high)

    def below(self, best: MassBounds) -> tuple[float, float]:
        """Nats that the mass lies below another's, at the least and at the most.

        Examples
        --------
        >>> MassBounds(-60.0, -50.0, 0.0, 3.0).below(MassBounds(0.0, 8.0, 0.0, 3.0))
        (50.0, 68.0)
        """
        slack = 3.0 * math.hypot(self.error, best.error)
        slack += PER_CLUSTER * abs(self.n_clusters - best.n_clusters)
        return best.low - self.high - slack, best.high - self.low + slack


@dataclass(frozen=True)
class Mode:
    """Chains that sit together.

    Attributes
    ----------
    chains : tuple of int
    log_joint : float
        Mean of their log joint density.
    below : (float, float)
        Nats that the mode's mass lies below the best mode's, at the least and at the most; zeros
        for the best, NaN if it is not known.
    """

    chains: tuple[int, ...]
    log_joint: float = math.nan
    below: tuple[float, float] = (math.nan, math.nan)

    @property
    def negligible(self) -> bool:
        """Return True if even its upper bound leaves the mode a negligible mass."""
        return self.below[0] > NEGLIGIBLE


def similarity_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Summed absolute difference over summed similarity of distinct observations, in [0, 1]."""
    total = first.sum(dtype=float) + second.sum(dtype=float) - 2 * len(first)
    if total <= 1e-9:
        return 0.0
    return float(np.abs(first.astype(float) - second).sum() / total)


def chain_disagreement(
    labels: Sequence[np.ndarray], n_rows: int = 200, random_state: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Distances of the chains' similarity matrices, and of each chain's two halves.

    Parameters
    ----------
    labels : sequence of arrays of int, shape (draw, n)
        One per chain.
    n_rows : int
        With more observations a fixed random subset of so many is compared.
    random_state : int
        Of the subset.

    Returns
    -------
    between : array, shape (chain, chain)
    within : array, shape (chain,)
    """
    rows = subset_of_observations(labels[0].shape[1], n_rows, random_state)
    whole, within = [], np.zeros(len(labels))
    for c, draws in enumerate(labels):
        half = len(draws) // 2
        halves = [
            similarity(evenly(part, _COMPARED_DRAWS)[:, rows])
            for part in (draws[:half], draws[half:])
            if len(part)
        ]
        whole.append(np.mean(halves, axis=0))
        if len(halves) == 2:
            within[c] = similarity_distance(*halves)
    between = np.zeros((len(labels), len(labels)))
    for i in range(len(labels)):
        for j in range(i):
            between[i, j] = between[j, i] = similarity_distance(whole[i], whole[j])
    return between, within


def groups(between: np.ndarray, within: np.ndarray) -> list[tuple[int, ...]]:
    """Chains that sit together, directly or by way of others, the largest group first.

    A chain whose halves differ as much as it differs from another has been, or may yet come, where
    that one is: the two are not told apart.

    Examples
    --------
    >>> groups(np.array([[0, 0.02, 0.6], [0.02, 0, 0.6], [0.6, 0.6, 0]]), np.full(3, 0.05))
    [(0, 1), (2,)]
    """
    from scipy.sparse.csgraph import connected_components

    own = np.maximum.outer(within, within)
    linked = between <= np.maximum(DISAGREEMENT_MAX, 1.5 * own)
    n_groups, group = connected_components(linked, directed=False)
    found = [tuple(np.flatnonzero(group == g).tolist()) for g in range(n_groups)]
    return sorted(found, key=lambda chains: (-len(chains), chains))


def label_entropy(draws: np.ndarray, reference: np.ndarray) -> float:
    """Entropy of the labels, rows taken as independent (nats), of draws matched to a reference.

    Examples
    --------
    >>> round(label_entropy(np.array([[0, 0, 1], [1, 1, 1]]), np.array([0, 0, 1])), 3)
    0.693
    """
    matched = relabel(evenly(draws, _MATCHED_DRAWS), np.unique(reference, return_inverse=True)[1])
    share = matched.probabilities
    share = np.column_stack([share, 1.0 - share.sum(axis=1)])
    return float(-np.sum(share * np.log(np.maximum(share, 1e-300))))


def mass_bounds(
    draws: np.ndarray, mode: np.ndarray, log_marginal: np.ndarray, max_clusters: int | None
) -> MassBounds:
    """Bounds of the log mass of the place that draws are from.

    Parameters
    ----------
    draws : array of int, shape (draw, n)
    mode : array of int, shape (n,)
        The labels among them of highest density.
    log_marginal : array, shape (chain, draw)
        Log joint densities there, with cluster parameters integrated out.
    max_clusters : int or None
        Names that clusters may have, where the prior is over labels: a partition is there once for
        every way of naming its clusters.
    """
    number = np.array([len(np.unique(row)) for row in evenly(draws, _MATCHED_DRAWS)])
    low = float(log_marginal.mean())
    if max_clusters is not None:
        low += float(np.mean([_log_names(max_clusters, int(k)) for k in number]))
    error = log_marginal.std() / math.sqrt(max(float(ess(log_marginal, "mean")), 1.0))
    high = low + label_entropy(draws, mode)
    return MassBounds(low, high, float(error), float(number.mean()))


def find_modes(
    labels: Sequence[np.ndarray],
    between: np.ndarray,
    within: np.ndarray,
    log_joint: np.ndarray | None,
    log_marginal: np.ndarray | None,
    max_clusters: int | None,
) -> tuple[Mode, ...]:
    """Modes that the chains sit in, the most probable first where that is known.

    Parameters
    ----------
    labels : sequence of arrays of int, shape (draw, n)
        One per chain.
    between, within : arrays
        Of `chain_disagreement`.
    log_joint : array, shape (chain, draw), or None
    log_marginal : array, shape (chain, draw), or None
        Log joint density with cluster parameters integrated out.
    max_clusters : int or None
        Names that clusters may have, where the prior is over labels: a partition is there once for
        every way of naming its clusters.
    """
    found = groups(between, within)
    means = np.full(len(labels), np.nan) if log_joint is None else log_joint.mean(axis=1)
    known = log_marginal is not None and np.isfinite(log_marginal).all()
    if len(found) == 1 or not known or len(labels[0]) < MODE_DRAWS:
        return tuple(Mode(chains, float(means[list(chains)].mean())) for chains in found)
    assert log_marginal is not None
    bounds = []
    for chains in found:
        values = log_marginal[list(chains)]
        draws = np.concatenate([evenly(labels[c], _MATCHED_DRAWS) for c in chains])
        best = max(chains, key=lambda c: float(log_marginal[c].max()))
        mode = labels[best][int(log_marginal[best].argmax())]
        bounds.append(mass_bounds(draws, mode, values, max_clusters))
    top = max(bounds, key=lambda one: one.low)
    modes = []
    for chains, one in zip(found, bounds, strict=True):
        below = (0.0, 0.0) if one is top else one.below(top)
        modes.append(Mode(chains, float(means[list(chains)].mean()), below))
    return tuple(sorted(modes, key=lambda mode: sum(mode.below)))


def _log_names(n_names: int, n_clusters: int) -> float:
    """Logarithm of the ways to give so many clusters different names."""
    n_clusters = min(n_clusters, n_names)
    return math.lgamma(n_names + 1.0) - math.lgamma(n_names - n_clusters + 1.0)


@dataclass(frozen=True)
class Precision:
    """Limits that draws must keep to be called converged.

    Attributes
    ----------
    name : {"draft", "report"}
    error : float
        Approximate standard error of a probability.
    rhat_max, pair_rhat_max : float
        R-hat allowed of quantities, and of pairs of observations being together.
    ess_min, ess_per_chain : int
        Effective draws needed: in all, and for each chain if there are many.
    """

    name: str
    error: float
    rhat_max: float
    pair_rhat_max: float
    ess_min: int
    ess_per_chain: int

    def ess_needed(self, n_chains: int) -> int:
        """Effective draws that are enough, over all chains."""
        return max(self.ess_min, self.ess_per_chain * n_chains)


DRAFT = Precision("draft", 0.05, 1.05, 1.1, 100, 25)
REPORT = Precision("report", 0.025, 1.01, 1.05, 400, 100)
PRECISIONS = {precision.name: precision for precision in (DRAFT, REPORT)}
# Effective draws, over those needed, after which no chain is expected to find another mode.
PATIENCE = 2.0
# R-hat of a chain's own halves beyond which it has not come to rest.
OWN_RHAT_MAX = 1.1
PAIRS = "pairs together (worst)"


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


def problems_of(checks: Checks, *, noun: str = "row", precision: Precision = REPORT) -> list[str]:
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
    problems += _differing(checks, precision.rhat_max)
    needed = precision.ess_needed(checks.n_chains)
    name, fewest = checks.effective
    if fewest < needed:
        problems.append(
            f"The {_spoken(name)} has only {count(round(fewest), 'effective draw')}; {needed} are "
            "needed."
        )
    bad = checks.pairs["rhat"] > precision.pair_rhat_max
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
    sentences.append(f"The {of} differ by more than chance would explain in {worst}{others}.")
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
            f"The chains have not settled: their similarity matrices differ by {worst:.2f} (on a "
            f"scale from 0 to 1), two halves of one chain by {within:.2f}."
        ]
    parts = []
    for mode in checks.modes:
        text = f"{'chain' if len(mode.chains) == 1 else 'chains'} "
        text += enumerate_words([str(c) for c in mode.chains])
        known = [f"mean log joint {mode.log_joint:.1f}"] if np.isfinite(mode.log_joint) else []
        least, most = mode.below
        if most > 0:
            known.append(f"log mass lower by {least:.0f} to {most:.0f}")
        parts.append(text + (f" ({', '.join(known)})" if known else ""))
    return [
        f"The chains sit in {len(parts)} modes and none moves between them: "
        f"{'; '.join(parts)}. This run cannot estimate the relative probability of the modes; all "
        "results weight its chains equally."
    ]


# What each chain has drawn, by name.
Chains = Sequence[Mapping[str, np.ndarray]]


def stopping_rule(
    max_clusters: int | None,
    log_joint_is_marginal: bool,
    precision: Precision = REPORT,
    unvisited: Callable[[Sequence[np.ndarray]], Collection[Any]] = lambda chains: (),
) -> StoppingRule:
    """What looks at the draws of an automatic run.

    The run may end once the diagnostics would call it converged. Chains in modes of negligible
    mass are set aside first, and waited for only as long as they are still moving.

    It is stuck, and ends unconverged, where only modes keep it from that: the chains of each mode
    would be called converged by themselves, or all would but for a mode that none visits, with
    `PATIENCE` times the draws needed.

    Parameters
    ----------
    max_clusters : int or None
        Names that clusters may have, where the prior is over labels.
    log_joint_is_marginal : bool
        Whether the log joint density itself has no cluster parameters in it.
    precision : Precision
        Limits to keep.
    unvisited : callable
        Given the label draws of each chain, returns modes that none has come to: with any, the run
        is not settled.
    """
    marginal = "log joint" if log_joint_is_marginal else LOG_MARGINAL

    def check(chains: Chains, cluster_parameters: Collection[str]) -> Checks:
        return measure(
            [chain["labels"] for chain in chains],
            _quantities(chains, cluster_parameters),
            marginal=marginal,
            max_clusters=max_clusters,
        )

    def judge(chains: Chains, cluster_parameters: Collection[str]) -> Assessment:
        if len(chains[0]["labels"]) < LEAST_DRAWS:
            return Assessment(False, 1.0)  # nothing can be told, nor how much is missing
        checks = check(chains, cluster_parameters)
        aside = _set_aside(checks)
        waiting = not all(checks.at_rest(chain) for chain in aside)
        kept = [chain for c, chain in enumerate(chains) if c not in aside]
        if aside:
            checks = check(kept, cluster_parameters)
        # One chain is judged by its halves, as well as that goes; the last of several is not.
        alone = bool(aside) and checks.n_chains == 1
        share = checks.effective[1] / precision.ess_needed(checks.n_chains)
        blind = unvisited(checks.labels)
        settled, draft = (
            not (waiting or alone or blind or problems_of(checks, precision=wanted))
            for wanted in (precision, DRAFT)
        )
        stuck = False
        if len(checks.modes) > 1 and not waiting:
            stuck = not any(
                problems_of(
                    check([kept[c] for c in mode.chains], cluster_parameters), precision=precision
                )
                for mode in checks.modes
            )
        elif blind and not (waiting or alone):
            stuck = share >= PATIENCE and not problems_of(checks, precision=precision)
        return Assessment(settled, share, aside, draft, stuck)

    return judge


def _quantities(chains: Chains, with_clusters: Collection[str]) -> dict[str, np.ndarray]:
    """Label-free quantities by name, as those of a posterior."""
    sizes = [size_summaries(chain["labels"]) for chain in chains]
    n_clusters, largest, entropy = (np.stack(part) for part in zip(*sizes, strict=True))
    if f"parameters/{NOISE_WEIGHT}" in chains[0]:  # noise is no cluster
        n_clusters -= np.stack([(chain["labels"] == 0).any(axis=1) for chain in chains])
    small = {}
    for key in chains[0]:
        kind, _, name = key.partition("/")
        has_clusters = name in with_clusters
        if kind == "parameters" and chains[0][key].ndim == 1 + has_clusters:
            small[name] = stack_parameter([chain[key] for chain in chains], has_clusters)
    log_joint = np.stack([chain["log_joint"] for chain in chains])
    return named(log_joint, (n_clusters, largest, entropy)) | scalars(small, with_clusters)


def _set_aside(checks: Checks) -> dict[int, dict[str, Any]]:
    """Chains in modes of negligible mass, and what the record says of each."""
    return {
        chain: {
            "below": mode.below[0],
            "n_clusters": int(np.median(checks.quantities["number of clusters"][chain])),
        }
        for mode in checks.modes
        if mode.negligible
        for chain in mode.chains
    }
