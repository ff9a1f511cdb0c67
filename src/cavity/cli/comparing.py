"""The command `compare`: two runs over the same rows or series, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cavity.cli.errors import UserError, say
from cavity.cli.models import MODELS
from cavity.cli.runs import load_run
from cavity.cli.summary import format_table, found_words, name_of, plural, wrap

if TYPE_CHECKING:
    from cavity.posterior import Posterior
    from cavity.posterior.comparison import Comparison

_LISTED = 10
_ACROSS = 16


def compare(first: Path, second: Path) -> int:
    """Print how far the answers of two runs agree, and who is placed differently."""
    if first.resolve() == second.resolve():
        raise UserError(f"{first} and {second} are the same run; name two.")
    (run, one), (_, other) = load_run(first), load_run(second)
    noun = MODELS[run.model].noun
    p, q = one.posterior_, other.posterior_
    try:
        found = p.compare(q)
    except ValueError as error:
        raise UserError(f"{first} and {second} cannot be compared: {error}.") from error
    lines = [
        f"{first}: {_told(p)}",
        f"{second}: {_told(q)}",
        "",
        wrap(_agreement(found), ""),
        "",
        *_overlap(found, p, q, noun),
    ]
    moved = _moved(p, q)
    if len(moved):
        lines += ["", wrap(_who(p, moved, noun), "  ", "")]
    say("\n".join(lines))
    return 0


def _told(p: Posterior) -> str:
    verdict = "converged" if p.diagnostics().converged else "NOT shown to have converged"
    return f"{found_words(p.view())}, {verdict}"


def _agreement(found: Comparison) -> str:
    return (
        f"The two answers agree with adjusted Rand {found.ari:.2f} (1: the same, 0: no more than "
        "by chance); who is with whom, over all draws, differs by "
        f"{found.similarity_difference:.2f} of 1."
    )


def _overlap(found: Comparison, p: Posterior, q: Posterior, noun: str) -> list[str]:
    """How many each cluster of the first shares with each of the second."""
    first, second = p.view(), q.view()
    table = found.overlap
    shown = table.iloc[:, :_ACROSS]
    rest = table.iloc[:, _ACROSS:].sum(axis=1).tolist()
    head = [
        "first",
        *(second.cluster_name(k) for k in range(shown.shape[1])),
        *(["others"] if any(rest) else []),
    ]
    rows = []
    for k, (row, other) in enumerate(zip(shown.to_numpy().tolist(), rest, strict=True)):
        counts = [*row, other] if any(rest) else row
        rows.append([first.cluster_name(k), *(f"{v:,}" if v else "." for v in counts)])
    title = f"{plural(noun, 2).capitalize()} in each cluster of the first run (down) and the second"
    return [f"{title} (across):", "", *format_table([head, *rows], set(range(1, len(head))))]


def _moved(p: Posterior, q: Posterior) -> np.ndarray:
    """Positions that are placed differently, once clusters are matched one to one."""
    from cavity.posterior.relabel import relabel

    ours, theirs = p.partition().labels, q.partition().labels
    return np.flatnonzero(relabel(theirs[None], ours).labels[0] != ours)


def _who(p: Posterior, moved: np.ndarray, noun: str) -> str:
    names = [name_of(p, i) for i in moved[:_LISTED].tolist()]
    text = f"{len(moved):,} {plural(noun, len(moved))} {'is' if len(moved) == 1 else 'are'} placed "
    text += f"differently: {', '.join(names)}"
    return text + (f" and {len(moved) - _LISTED:,} more." if len(moved) > _LISTED else ".")
