"""Whether the draws can be trusted: label-free diagnostics and a verdict in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cavity.core.words import plural
from cavity.posterior.arviz import ess, rhat
from cavity.posterior.moves import is_of_moves, moves_table
from cavity.posterior.quantities import label_free
from cavity.posterior.similarity import similarity

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior.posterior import Posterior

RHAT_MAX = 1.01
PAIR_RHAT_MAX = 1.05
ESS_PER_CHAIN = 100
DISAGREEMENT_MAX = 0.1
INVALID_RATE_MAX = 1e-3
STALENESS_MAX = 0.1


@dataclass(frozen=True)
class Diagnostics:
    """What was checked and what came out.

    Attributes
    ----------
    converged : bool
        True only if every check that decides passed; a run that cannot be checked (one chain, a
        handful of draws) is not called converged.
    problems : tuple of str
        What failed, and what to do about it.
    notes : tuple of str
        What is worth knowing but decides nothing.
    table : DataFrame
        Mean, sd, R-hat, bulk and tail ESS of each label-free quantity.
    pairs : DataFrame
        Co-clustering of the fixed random set of pairs.
    disagreement : array, shape (chain, chain)
        Distance of the chains' similarity matrices: summed absolute difference over summed
        similarity, 0 (same) to 1 (nothing in common).
    disagreement_within : float
        The same between the two halves of a chain, the largest: what chance alone gives.
    events : DataFrame
        Counters of the sampler per chain, but for those of the moves.
    moves : DataFrame
        Tries, acceptances and share of the time of each kind of move; see
        `cavity.posterior.moves.moves_table`.
    """

    converged: bool
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    table: pd.DataFrame
    pairs: pd.DataFrame
    disagreement: np.ndarray
    disagreement_within: float
    events: pd.DataFrame
    moves: pd.DataFrame

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict, sentence by sentence."""
        if self.converged:
            first = "Converged: the chains agree and there are enough effective draws."
        else:
            first = "Not shown to have converged."
        return (first, *self.problems, *self.notes)

    @property
    def verdict(self) -> str:
        """The verdict as one text."""
        return " ".join(self.sentences)

    @property
    def max_disagreement(self) -> float:
        """Largest disagreement of two chains."""
        return float(self.disagreement.max())

    def _repr_html_(self) -> str:
        from cavity.posterior.notebook import diagnostics_html

        return diagnostics_html(self)

    def __str__(self) -> str:
        parts = [self.verdict, self.table.to_string(float_format=lambda v: f"{v:.4g}")]
        if len(self.events):
            parts.append(self.events.to_string(float_format=lambda v: f"{v:.4g}"))
        if len(self.moves):
            parts.append(self.moves.to_string(float_format=lambda v: f"{v:.3g}"))
        return "\n\n".join(parts)


def choose_pairs(labels: np.ndarray, n_pairs: int, random_state: int = 0) -> np.ndarray:
    """A fixed random set of distinct pairs, (pair, 2).

    Half are drawn uniformly; half are an observation and a mate from its cluster in a random draw,
    since with many clusters a uniform pair is almost never together and tells nothing.
    """
    chains, draws, n = labels.shape
    if n < 2:
        return np.empty((0, 2), np.int64)
    rng = np.random.default_rng(random_state)
    found: set[tuple[int, int]] = set()
    wanted = min(n_pairs, n * (n - 1) // 2)
    for attempt in range(20 * n_pairs):
        if len(found) == wanted:
            break
        i = int(rng.integers(n))
        row = labels[rng.integers(chains), rng.integers(draws)]
        mates = np.flatnonzero(row == row[i]) if attempt % 2 else np.arange(n)
        j = int(mates[rng.integers(len(mates))])
        if i != j:
            found.add((min(i, j), max(i, j)))
    return np.array(sorted(found), np.int64).reshape(-1, 2)


def _measure(values: np.ndarray) -> dict[str, float]:
    # Reduced by the largest before anything is squared, and without digits that are rounding.
    size = float(np.abs(values).max()) or 1.0
    values = np.round(values / size, 12)
    return {
        "mean": float(values.mean()) * size,
        "sd": float(values.std()) * size,
        "rhat": rhat(values),
        "ess_bulk": ess(values),
        "ess_tail": ess(values, "tail"),
    }


def subset_of_observations(n: int, n_rows: int, random_state: int = 0) -> np.ndarray:
    """All observations, or a fixed random subset of `n_rows` of them, in order."""
    if n <= n_rows:
        return np.arange(n)
    return np.sort(np.random.default_rng(random_state).choice(n, n_rows, replace=False))


def similarity_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Summed absolute difference over summed similarity of distinct observations, in [0, 1]."""
    total = first.sum(dtype=float) + second.sum(dtype=float) - 2 * len(first)
    if total <= 1e-9:
        return 0.0
    return float(np.abs(first.astype(float) - second).sum() / total)


def chain_disagreement(
    labels: np.ndarray, n_rows: int = 200, random_state: int = 0
) -> tuple[np.ndarray, float]:
    """Distance of the chains' similarity matrices, and the largest of a chain's two halves.

    With more than `n_rows` observations a fixed random subset of them is compared.
    """
    chains, draws, n = labels.shape
    labels = labels[:, :, subset_of_observations(n, n_rows, random_state)]
    whole = [similarity(labels[c]) for c in range(chains)]
    between = np.zeros((chains, chains))
    for i in range(chains):
        for j in range(i):
            between[i, j] = between[j, i] = similarity_distance(whole[i], whole[j])
    within = 0.0
    if draws >= 2:
        half = draws // 2
        for c in range(chains):
            first, second = similarity(labels[c, :half]), similarity(labels[c, half:])
            within = max(within, similarity_distance(first, second))
    return between, within


def _rhat_problem(name: str, value: float, p: Posterior) -> str:
    if np.isinf(value):
        return (
            f"The {name} never moves within a chain but differs between chains: each chain is "
            "stuck in a place of its own. Start from better labels or change the sampler before "
            "drawing more."
        )
    if p.n_chains == 1:
        return (
            f"The {name} drifts along the chain (R-hat of its halves {value:.3f}, should be below "
            f"{RHAT_MAX}): lengthen the warm-up."
        )
    return (
        f"R-hat of the {name} is {value:.3f} and should be below {RHAT_MAX}: the chains have not "
        "settled on the same values. Lengthen the warm-up and the run."
    )


def _judge_table(p: Posterior, table: pd.DataFrame, ess_min: float, rhat_max: float) -> list[str]:
    problems = []
    for name, row in table.iterrows():
        if row["rhat"] > rhat_max:
            problems.append(_rhat_problem(str(name), row["rhat"], p))
    finite = table[["ess_bulk", "ess_tail"]].min(axis=1)
    short = finite[finite < ess_min]
    if len(short):
        name, worst = short.idxmin(), float(short.min())
        wanted = int(np.ceil(p.n_draws * ess_min / max(worst, 1.0) / 100) * 100)
        problems.append(
            f"Only {worst:.0f} effective draws of the {name}, {ess_min:.0f} are needed: about "
            f"n_draws={wanted} per chain would do (thinning keeps the files small)."
        )
    return problems


def _judge_pairs(pairs: pd.DataFrame, noun: str) -> list[str]:
    bad = pairs["rhat"] > PAIR_RHAT_MAX
    # One pair in twenty may exceed the bound by chance alone.
    if len(pairs) and bad.mean() > 0.05:
        return [
            f"{bad.sum()} of {len(pairs)} checked pairs of {plural(noun)} are together in some "
            "chains much more often than in others: the chains hold different clusterings."
        ]
    return []


def _judge_chains(p: Posterior, between: np.ndarray, within: float) -> list[str]:
    worst = float(between.max())
    if worst <= DISAGREEMENT_MAX or worst <= 1.5 * within:
        return []
    odd = int(between.sum(axis=1).argmax())
    sentence = (
        f"The chains' similarity matrices disagree ({worst:.2f} of 1; halves of one chain "
        f"{within:.2f}); chain {odd} is furthest from the others"
    )
    if p.log_joint is not None and np.isfinite(p.log_joint).all():
        means = p.log_joint.mean(axis=1)
        gap = means.max() - means[odd]
        if gap > 0:
            sentence += f", with a mean log joint {gap:.1f} below the best chain's"
    return [sentence + ". Lengthen the warm-up, or start from better labels."]


def _event_notes(p: Posterior, interrupted: bool) -> list[str]:
    notes = []
    totals = {name: float(np.sum(value)) for name, value in p.events.items()}
    updates = totals.get("updates", 0.0)
    if "invalid_cavities" in totals and updates > 0:
        rate = totals["invalid_cavities"] / updates
        notes.append(
            f"{totals['invalid_cavities']:.0f} of {updates:.0f} EP updates met an invalid cavity"
            + (
                f" ({rate:.1e}, more than {INVALID_RATE_MAX:g}): treat the fit with care; fewer "
                "clusters or a stronger prior help."
                if rate > INVALID_RATE_MAX
                else "; all were recovered."
                if rate > 0
                else "."
            )
        )
    stale = max((float(np.max(v)) for n, v in p.events.items() if "staleness" in n), default=0.0)
    if stale > STALENESS_MAX:
        notes.append(
            f"EP approximations were up to {stale:.2g} nats stale when refreshed: refresh more "
            "often."
        )
    if interrupted:
        notes.append("The run was stopped early; these are the draws so far.")
    return notes


def diagnose(
    p: Posterior,
    *,
    n_pairs: int = 100,
    n_rows: int = 200,
    rhat_max: float = RHAT_MAX,
    ess_min: float | None = None,
    random_state: int = 0,
) -> Diagnostics:
    """Check the draws; see `Posterior.diagnostics`."""
    import pandas as pd

    ess_min = float(ESS_PER_CHAIN * p.n_chains if ess_min is None else ess_min)
    problems: list[str] = []
    quantities = {name: np.asarray(v, float) for name, v in label_free(p).items()}
    for name in [name for name, v in quantities.items() if not np.isfinite(v).all()]:
        count = int((~np.isfinite(quantities.pop(name))).sum())
        problems.append(
            f"The {name} is not finite in {count} draw(s): the sampler broke down there; do not "
            "use this run."
        )
    table = pd.DataFrame({name: _measure(v) for name, v in quantities.items()}).T
    table.index.name = "quantity"
    chosen = choose_pairs(p.labels, n_pairs, random_state)
    together = [(p.labels[:, :, i] == p.labels[:, :, j]).astype(float) for i, j in chosen]
    columns = ["first", "second", "probability", "rhat", "ess_bulk"]
    pairs = pd.DataFrame(
        [
            (i, j, t.mean(), rhat(t), ess(t))
            for (i, j), t in zip(chosen.tolist(), together, strict=True)
        ],
        columns=columns,
    )
    if len(pairs):
        table.loc["pairs together (worst)"] = {
            "mean": pairs["probability"].mean(),
            "sd": pairs["probability"].std(ddof=0),
            "rhat": pairs["rhat"].max(),
            "ess_bulk": pairs["ess_bulk"].min(),
            "ess_tail": pairs["ess_bulk"].min(),
        }
    between, within = chain_disagreement(p.labels, n_rows, random_state)
    if p.n_draws < 4:
        problems.append(
            f"{p.n_draws} draw(s) per chain are too few to judge anything: draw some hundreds."
        )
    else:
        problems += _judge_table(
            p, table.drop("pairs together (worst)", errors="ignore"), ess_min, rhat_max
        )
        problems += _judge_pairs(pairs, p.noun)
    if p.n_chains == 1:
        problems.append(
            "There is one chain, so agreement between chains cannot be checked: run four."
        )
    problems += _judge_chains(p, between, within)
    events = pd.DataFrame(
        {
            name: np.asarray(v, float).reshape(p.n_chains, -1)[:, 0]
            for name, v in p.events.items()
            if not is_of_moves(p, name)
        },
        index=pd.RangeIndex(p.n_chains, name="chain"),
    ).T
    events.index.name = "event"
    return Diagnostics(
        converged=not problems,
        problems=tuple(problems),
        notes=tuple(_event_notes(p, p.record.interrupted)),
        table=table,
        pairs=pairs,
        disagreement=between,
        disagreement_within=within,
        events=events,
        moves=moves_table(p),
    )
