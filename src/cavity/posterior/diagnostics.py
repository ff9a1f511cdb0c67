"""Whether the draws can be trusted: label-free diagnostics and a verdict in plain words."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cavity.posterior.convergence import (
    Checks,
    Mode,
    Precision,
    label_free,
    measure,
    problems_of,
)
from cavity.posterior.draws import evenly, subset_of_observations
from cavity.posterior.estimate import find_partition, usual_clusters
from cavity.posterior.groups import differ, group_words, groups_settled, has_groups
from cavity.posterior.record import BEST_DRAW
from cavity.priors.specifications import FixedWeights
from cavity.utils.text import count

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior.posterior import Posterior


@dataclass(frozen=True)
class Diagnostics:
    """What was checked and what came out.

    Attributes
    ----------
    precision : Precision
        Limits that the checks were compared with.
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
        `moves_table`.
    limited : bool
        Whether the chains agree but `n_clusters` decides how many clusters there are: most draws
        have as many as it allows, and the clusters overlap. Such a run is not called converged.
    groups : str
        The groups in words, where clusters overlap and the chains agree on the groups.
    """

    precision: Precision
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
    limited: bool = False
    groups: str = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict, sentence by sentence."""
        if self.converged and self.precision.name == "draft":
            first = (
                "Draft: the chains agree roughly, and standard errors of probabilities are at most "
                f"{self.precision.error}. precision='report' is more accurate."
            )
        elif self.converged:
            first = "Converged: the chains agree and there are enough effective draws."
        elif self.groups:
            first = "The groups have converged; the number of clusters is not settled."
        else:
            first = "Not shown to have converged."
        told = tuple(text for text in (self.advice, self.meanwhile) if text)
        return (first, *self.problems, *told, *self.notes)

    @property
    def verdict(self) -> str:
        """The verdict as one text, what is settled first."""
        return " ".join((self.groups, *self.sentences) if self.groups else self.sentences)

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
    n_pairs: int,
    n_rows: int,
    precision: Precision,
    random_state: int,
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
    problems = _unvisited(p)
    problems += problems_of(checks, noun=p.noun, precision=precision)
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
    advice = _advice(p, checks, precision) + column_advice(p) if problems else ""
    meanwhile = _meanwhile(p, checks) if problems else ""
    # A search that was stopped must not start again here.
    merged = has_groups(p) and BEST_DRAW not in p.summaries and differ(p.view())
    settled = merged and groups_settled(p)
    limited = False
    if merged and at_the_limit(p)[1] >= LIMITED:
        limited = not problems
        problems.append("The number of clusters is at its limit, and the clusters overlap.")
        if settled:
            advice, meanwhile = GROUP_ADVICE, ""
    elif settled and problems:
        meanwhile = GROUP_ADVICE
    return Diagnostics(
        precision=precision,
        converged=not problems,
        problems=tuple(problems),
        advice=advice,
        meanwhile=meanwhile,
        notes=tuple(run_notes(p) + event_notes(p)),
        table=checks.table,
        pairs=checks.pairs,
        disagreement=checks.between,
        disagreement_within=float(checks.within.max()),
        modes=checks.modes,
        events=events,
        moves=moves_table(p),
        limited=limited,
        groups=group_words(p.view()) if settled else "",
    )


def _unvisited(p: Posterior) -> list[str]:
    """Modes that short runs found and that no chain came to, in a sentence."""
    modes = p.record.unvisited
    if not modes:
        return []
    parts = []
    for mode in modes:
        least, most = mode["below"]
        parts.append(
            f"{count(mode['n_clusters'], 'cluster')} (found by {count(mode['runs'], 'run')}, log "
            f"mass lower by {least:.0f} to {most:.0f})"
        )
    return [
        f"Short runs before the chains found {count(len(modes), 'more mode')} that may hold as "
        f"much of the posterior, and no chain visits {'it' if len(modes) == 1 else 'them'}: "
        f"{'; '.join(parts)}."
    ]


def _advice(p: Posterior, checks: Checks, precision: Precision) -> str:
    """The one thing to do about problems."""
    if checks.broken:
        return "Check the data for values far out of scale, and fit again."
    asked = p.n_chains + len(p.record.set_aside)
    if p.n_chains == 1 and asked > 1:
        return f"Fit again with more chains: n_chains={2 * asked}."
    if p.n_chains == 1:
        return "Run four chains."
    if p.record.unvisited and len(checks.modes) == 1:
        return f"Fit again with more chains: n_chains={asked + len(p.record.unvisited)}."
    apart = len(checks.modes) > 1 and all(map(checks.at_rest, range(p.n_chains)))
    cut_short = p.record.stopped in ("max_seconds", "interrupted")
    if checks.n_draws >= 4 and apart and not cut_short:
        return (
            f"Running longer will not help: fit again with n_chains={2 * asked} to see which modes "
            "other starts end in, or with another n_clusters."
        )
    share = checks.effective[1] / precision.ess_needed(checks.n_chains)
    factor = min(max(1.0 / share if share > 0 else 10.0, 2.0), 10.0)
    stopped = p.record.stopped
    if stopped == "max_sweeps":
        longer = f"ontinue the run: max_sweeps={_round(factor * p.record.n_sweeps)} may be enough."
        most, full = at_the_limit(p)
        if not full:
            return f"C{longer}"
        return (
            f"Unless you know the number of clusters, first allow more, n_clusters={2 * most}: "
            f"the limit may be what keeps chains apart. Otherwise c{longer}"
        )
    if stopped == "max_seconds":
        return "Give it more time: raise max_seconds, or leave it out."
    if stopped == "interrupted":
        return "Continue the run to its end."
    if p.record.model:
        return (
            "Use n_draws='auto', which runs until the checks pass, or about "
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


INVALID_RATE_MAX = 1e-3
STALENESS_MAX = 0.1
# Mean total variation between EP's and exact probabilities of a label: good, and fair.
DISTANCE_GOOD, DISTANCE_FAIR = 0.02, 0.05
# Share of draws at the limit of the number of clusters from which the verdict mentions it, and from
# which the limit decides the number.
AT_THE_LIMIT, LIMITED = 0.1, 0.5
GROUP_ADVICE = "Report the groups rather than the clusters: the chains agree on them."


def run_notes(p: Posterior) -> list[str]:
    """How the run ended, where that is not as it was meant to, and what became of its chains."""
    record, notes = p.record, []
    if record.stopped == "interrupted":
        notes.append("The run was stopped early; these are the draws so far.")
    elif record.stopped == "modes":
        notes.append(
            f"The run ended after {record.n_sweeps:,} sweeps per chain, since longer ones seldom "
            "move between modes."
        )
    elif record.stopped == "max_sweeps":
        notes.append(f"The run came to its limit of {record.n_sweeps:,} sweeps per chain.")
    elif record.stopped == "max_seconds":
        notes.append(f"The run came to its limit of time after {record.n_sweeps:,} sweeps.")
    if record.set_aside:
        gaps = [float(facts["below"]) for facts in record.set_aside]
        number = len(gaps)
        notes.append(
            f"{number} of {count(p.n_chains + number, 'chain')} "
            f"{'was' if number == 1 else 'were'} set aside and "
            f"{'has' if number == 1 else 'have'} no part in any result: "
            f"{'it' if number == 1 else 'they'} ended in a clustering whose probability is lower "
            f"by at least {min(gaps):.0f} nats (a factor of e to that power)."
        )
    return notes


def at_the_limit(p: Posterior) -> tuple[int, float]:
    """The most clusters there may be, and the share of draws that have so many; 0 if few have."""
    record = p.record
    prior = record.settings.get("prior")
    if record.max_clusters is None or prior == "fixed" or isinstance(prior, FixedWeights):
        return 0, 0.0
    most = record.max_clusters - record.noise
    share = float((p.n_proper == most).mean())
    return most, share if share >= AT_THE_LIMIT and most >= 2 else 0.0


def column_advice(p: Posterior) -> str:
    """What else to do about chains that do not agree, where a table has measurements of few values.

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> column_advice(Posterior.from_labels([[0, 0, 1]]))
    ''
    """
    asked = [str(c["name"]) for c in p.record.details.get("taken_for", ()) if c.get("proposed")]
    if not asked:
        return ""
    typed = shlex.quote(",".join(f"{name}=categorical" for name in asked))
    return (
        " Measurements of few values may be what keeps the chains apart: if those of "
        f"{', '.join(map(repr, asked))} are kinds rather than amounts, take them as categories "
        f"first (--types {typed} on the command line)."
    )


def event_notes(p: Posterior) -> list[str]:
    """What the sampler counted, where that is of interest."""
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
    return notes + _distance_notes(p)


def _distance_notes(p: Posterior) -> list[str]:
    """How far EP's label draws are from exact ones, where that was measured."""
    if "ep_distance" not in p.events:
        return []
    number = np.asarray(p.events["labels_compared"], float)
    mean = float((number * np.asarray(p.events["ep_distance"], float)).sum() / number.sum())
    worst = float(np.max(p.events["ep_distance_worst"]))
    text = (
        f"EP's probabilities of the cluster of a {p.noun} are {mean:.2g} from the exact ones on "
        f"average (total variation, 0 to 1; {number.sum():.0f} compared, the worst {worst:.2g})"
    )
    if mean <= DISTANCE_GOOD:
        return [f"{text}: as good as exact."]
    if mean <= DISTANCE_FAIR:
        return [f"{text}: clusters are right, how sure they are is not quite."]
    return [
        f"{text}: too far to trust who is with whom; fit again with collapse='corrected', which is "
        "exact."
    ]


SECONDS = "move_seconds"
_PARTS = ("tries", "accepted", "evidences")


def move_kinds(p: Posterior) -> list[str]:
    """Names of the moves that the chains counted."""
    named = [name.removesuffix("_tries") for name in p.events if name.endswith("_tries")]
    return [kind for kind in named if all(f"{kind}_{part}" in p.events for part in _PARTS)]


def is_of_moves(p: Posterior, event: str) -> bool:
    """Whether a counter is one of the moves'."""
    return event == SECONDS or any(
        event == f"{kind}_{part}" for kind in move_kinds(p) for part in _PARTS
    )


def moves_table(p: Posterior) -> pd.DataFrame:
    """One row per kind of move, all chains together and warm-up included.

    Returns
    -------
    DataFrame
        ``tries`` that found a proposal, ``accepted``, ``acceptance``, and ``time_share``: the
        share of the sweeps' time, divided among the kinds by the evidences that each computed, at
        least one for each try (NaN where no time was kept). Empty where no moves were tried.

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> counted = {"swap_tries": [40], "swap_accepted": [10], "swap_evidences": [900]}
    >>> p = Posterior([[[0, 1]]], events={**counted, "move_seconds": [1.0]}, sweep_seconds=[[4.0]])
    >>> moves_table(p).loc["swap"].tolist()
    [40.0, 10.0, 0.25, 0.25]
    """
    import pandas as pd

    kinds = move_kinds(p)
    tries, accepted, work = (
        np.array([float(np.sum(p.events[f"{kind}_{part}"])) for kind in kinds]) for part in _PARTS
    )
    seconds = np.nan
    if SECONDS in p.events and p.sweep_seconds is not None and p.sweep_seconds.size:
        whole = float(np.nansum(p.sweep_seconds))
        seconds = float(np.sum(p.events[SECONDS])) / whole if whole > 0.0 else np.nan
    return pd.DataFrame(
        {
            "tries": tries,
            "accepted": accepted,
            "acceptance": accepted / np.maximum(tries, 1.0),
            "time_share": seconds * (work + tries) / max((work + tries).sum(), 1.0),
        },
        index=pd.Index([kind.replace("_", " and ") for kind in kinds], name="move"),
    )


# Adjusted Rand index between two chains' answers: the same for all purposes, or nearly.
SAME, NEARLY = 0.95, 0.8
_DRAWS = 200
_ROWS = 1_000


def answers_of_chains(p: Posterior) -> np.ndarray:
    """Adjusted Rand index between the answers that each chain alone gives, (chain, chain).

    Each answer is the partition of least expected loss over some hundred draws of the chain, of a
    thousand observations at most.
    """
    from sklearn.metrics import adjusted_rand_score

    rows = subset_of_observations(p.n_observations, _ROWS)
    answers = []
    for chain, draws in enumerate(p.labels):
        some = evenly(draws, _DRAWS)[:, rows]
        found = find_partition(
            some, p.loss, n_restarts=0, max_clusters=usual_clusters(p.n_occupied[chain])
        )
        answers.append(found.labels)
    agreement = np.ones((p.n_chains, p.n_chains))
    for i in range(p.n_chains):
        for j in range(i):
            agreement[i, j] = agreement[j, i] = adjusted_rand_score(answers[i], answers[j])
    return agreement


def provisional_words(p: Posterior) -> str:
    """What may be reported of chains that have not been shown to agree.

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> import numpy as np
    >>> two, other = [0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1]
    >>> provisional_words(Posterior(np.array([[two] * 5, [other] * 5])))
    'Until then, report none of this: two of the chains alone give different clusters \
(adjusted Rand -0.11).'
    """
    least = float(p.chain_agreement.min())
    if least >= SAME:
        return (
            "Until then, report the clusters only as provisional, without probabilities: every "
            f"chain alone gives the same clusters (adjusted Rand {_at_least(least)})."
        )
    if least >= NEARLY:
        return (
            "Until then, report the clusters at most as provisional, without probabilities: the "
            f"chains alone give nearly the same clusters (adjusted Rand {_at_least(least)})."
        )
    return (
        "Until then, report none of this: two of the chains alone give different clusters "
        f"(adjusted Rand {least:.2f})."
    )


def _at_least(index: float) -> str:
    words = f"{index:.2f}"
    return words if words == "1.00" else f"{words} or more"
