"""What the moves of whole clusters did beside the sweep, from the counters of the chains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior.posterior import Posterior

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
        share of the sweeps' time, divided among the kinds by the evidences that each computed
        (NaN where no time was kept). Empty where no moves were tried.

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
            "time_share": seconds * work / max(work.sum(), 1.0),
        },
        index=pd.Index([kind.replace("_", " and ") for kind in kinds], name="move"),
    )
