"""What is worth knowing of a run besides whether its chains agree, in sentences."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import numpy as np

from cavity.utils.text import count

if TYPE_CHECKING:
    from cavity.posterior.posterior import Posterior

INVALID_RATE_MAX = 1e-3
STALENESS_MAX = 0.1
# Mean total variation between EP's and exact probabilities of a label: good, and fair.
DISTANCE_GOOD, DISTANCE_FAIR = 0.02, 0.05
# The limit of the number of clusters is told of if so many draws have come to it.
AT_THE_LIMIT = 0.1


def run_notes(p: Posterior) -> list[str]:
    """How the run ended, where that is not as it was meant to, and what became of its chains."""
    record, notes = p.record, []
    if record.stopped == "interrupted":
        notes.append("The run was stopped early; these are the draws so far.")
    elif record.stopped == "max_sweeps":
        notes.append(f"The run came to its limit of {record.n_sweeps:,} sweeps per chain.")
    elif record.stopped == "max_seconds":
        notes.append(f"The run came to its limit of time after {record.n_sweeps:,} sweeps.")
    if record.set_aside:
        gaps = [float(facts["below"]) for facts in record.set_aside]
        number = len(gaps)
        least = f"{min(gaps):.0f}" if number == 1 else f"{min(gaps):.0f} or more"
        notes.append(
            f"{number} of {count(p.n_chains + number, 'chain')} "
            f"{'was' if number == 1 else 'were'} set aside and "
            f"{'has' if number == 1 else 'have'} no part in any answer: "
            f"{'it' if number == 1 else 'they'} ended in a clustering whose estimated probability "
            f"is lower by {least} nats (a factor of e to that power)."
        )
    return notes


def at_the_limit(p: Posterior) -> tuple[int, float]:
    """The most clusters there may be, and the share of draws that have so many; 0 if few have."""
    record = p.record
    if record.max_clusters is None:
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
