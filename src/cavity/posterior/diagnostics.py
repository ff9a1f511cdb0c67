"""Whether the draws can be trusted: label-free diagnostics and a verdict in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cavity.posterior.checks import RHAT_MAX, Checks, ess_needed, measure, problems_of
from cavity.posterior.modes import Mode
from cavity.posterior.moves import is_of_moves, moves_table
from cavity.posterior.notes import at_the_limit, column_advice, event_notes, run_notes
from cavity.posterior.provisional import provisional_words
from cavity.posterior.quantities import label_free

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior.posterior import Posterior


@dataclass(frozen=True)
class Diagnostics:
    """What was checked and what came out.

    Attributes
    ----------
    converged : bool
        True only if every check that decides passed; a run that cannot be checked (one chain, a
        handful of draws) is not called converged.
    problems : tuple of str
        What failed.
    advice : str
        The one thing to do about it.
    meanwhile : str
        What may be reported until that is done.
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
    modes : tuple of Mode
        Which chains sit together, and how much each mode weighs where that is known.
    events : DataFrame
        Counters of the sampler per chain, but for those of the moves.
    moves : DataFrame
        Tries, acceptances and share of the time of each kind of move; see
        `cavity.posterior.moves.moves_table`.
    """

    converged: bool
    problems: tuple[str, ...]
    advice: str
    meanwhile: str
    notes: tuple[str, ...]
    table: pd.DataFrame
    pairs: pd.DataFrame
    disagreement: np.ndarray
    disagreement_within: float
    modes: tuple[Mode, ...]
    events: pd.DataFrame
    moves: pd.DataFrame

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict, sentence by sentence."""
        if self.converged:
            first = "Converged: the chains agree and there are enough effective draws."
        else:
            first = "Not shown to have converged."
        told = tuple(text for text in (self.advice, self.meanwhile) if text)
        return (first, *self.problems, *told, *self.notes)

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

    checks = measure(
        list(p.labels),
        label_free(p),
        n_pairs=n_pairs,
        n_rows=n_rows,
        random_state=random_state,
        max_clusters=p.record.max_clusters,
    )
    problems = problems_of(checks, noun=p.noun, rhat_max=rhat_max, ess_min=ess_min)
    if p.n_chains == 1:
        problems.append("There is one chain, so agreement between chains cannot be checked.")
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
        advice=_advice(p, checks, ess_min) + column_advice(p) if problems else "",
        meanwhile=_meanwhile(p, checks) if problems else "",
        notes=tuple(run_notes(p) + event_notes(p)),
        table=checks.table,
        pairs=checks.pairs,
        disagreement=checks.between,
        disagreement_within=float(checks.within.max()),
        modes=checks.modes,
        events=events,
        moves=moves_table(p),
    )


def _advice(p: Posterior, checks: Checks, ess_min: float | None) -> str:
    """The one thing to do about problems."""
    if checks.broken:
        return "Check the data for values far out of scale, and fit again."
    asked = p.n_chains + len(p.record.set_aside)
    if p.n_chains == 1 and asked > 1:
        return f"Fit again with more chains: n_chains={2 * asked}."
    if p.n_chains == 1:
        return "Run four chains."
    apart = len(checks.modes) > 1 and all(map(checks.at_rest, range(p.n_chains)))
    cut_short = p.record.stopped in ("max_seconds", "interrupted")
    if checks.n_draws >= 4 and apart and not cut_short:
        return (
            f"More sweeps will not mend it: fit again with n_chains={2 * asked} to see which modes "
            "other starts end in, or with another n_clusters."
        )
    needed = ess_needed(checks.n_chains) if ess_min is None else ess_min
    share = checks.effective[1] / needed
    factor = min(max(1.0 / share if share > 0 else 10.0, 2.0), 10.0)
    stopped = p.record.stopped
    if stopped == "max_sweeps":
        longer = f"et it go on: max_sweeps={_round(factor * p.record.n_sweeps)} may do."
        most, full = at_the_limit(p)
        if not full:
            return f"L{longer}"
        return (
            f"Unless you know the number of clusters, first allow more, n_clusters={2 * most}: "
            f"the limit may be what keeps chains apart. Else l{longer}"
        )
    if stopped == "max_seconds":
        return "Give it more time: raise max_seconds, or leave it out."
    if stopped == "interrupted":
        return "Let the run go on to its end."
    if p.record.model:
        return (
            "Let the run find its own length, n_draws='auto', or ask for about "
            f"n_draws={_round(factor * p.n_draws)}."
        )
    return f"Draw longer, about {_round(factor * p.n_draws):,} per chain."


def _meanwhile(p: Posterior, checks: Checks) -> str:
    """What may be reported before the problems are cured, where chains can be compared at all."""
    if checks.broken or p.n_chains == 1 or checks.n_draws < 4:
        return ""
    return provisional_words(p)


def _round(number: float) -> int:
    """Upwards to two digits."""
    step = 10 ** max(len(str(int(number))) - 2, 0)
    return math.ceil(number / step) * step
