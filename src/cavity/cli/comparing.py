"""The command `compare`: two runs over the same rows or series, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.cli.errors import UserError, say
from cavity.cli.models import MODELS
from cavity.cli.runs import load_run
from cavity.cli.summary import format_table, plural, wrap

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
        *_overlap(found, noun),
    ]
    moved = _moved(p, q)
    if len(moved):
        lines += ["", wrap(_who(p, moved, noun), "  ", "")]
    say("\n".join(lines))
    return 0


def _told(p: Posterior) -> str:
    from cavity.posterior.summary import number_words

    view = p.view()
    verdict = "converged" if p.diagnostics().converged else "NOT shown to have converged"
    n = view.n_proper
    return f"{n} {plural('cluster', n)} (how many? {number_words(view)}), {verdict}"


def _agreement(found: Comparison) -> str:
    return (
        f"The two answers agree with adjusted Rand {found.ari:.2f} (1: the same, 0: no more than "
        "by chance); who is with whom, over all draws, differs by "
        f"{found.similarity_difference:.2f} of 1."
    )


def _overlap(found: Comparison, noun: str) -> list[str]:
    """How many each cluster of the first shares with each of the second."""
    table = found.overlap
    shown = table.iloc[:, :_ACROSS]
    rest = table.iloc[:, _ACROSS:].sum(axis=1).tolist()
    head = ["first", *(str(k) for k in shown.columns), *(["others"] if any(rest) else [])]
    rows = []
    for k, row, other in zip(table.index, shown.to_numpy().tolist(), rest, strict=True):
        counts = [*row, other] if any(rest) else row
        rows.append([str(k), *(f"{v:,}" if v else "." for v in counts)])
    title = f"{plural(noun, 2).capitalize()} in each cluster of the first run (down) and the second"
    return [f"{title} (across):", "", *format_table([head, *rows], set(range(1, len(head))))]


def _moved(p: Posterior, q: Posterior) -> np.ndarray:
    """Positions that are placed differently, once clusters are matched one to one."""
    from scipy.optimize import linear_sum_assignment

    a, b = p.partition().labels, q.partition().labels
    shared = np.zeros((a.max() + 1, b.max() + 1), np.int64)
    np.add.at(shared, (a, b), 1)
    matched = np.full(len(shared), -1)
    rows, columns = linear_sum_assignment(-shared)
    matched[rows] = columns
    return np.flatnonzero(matched[a] != b)


def _who(p: Any, moved: np.ndarray, noun: str) -> str:
    names = [str(i + 1 if p.names is None else p.names[i]) for i in moved[:_LISTED].tolist()]
    text = f"{len(moved):,} {plural(noun, len(moved))} {'is' if len(moved) == 1 else 'are'} placed "
    text += f"differently: {', '.join(names)}"
    return text + (f" and {len(moved) - _LISTED:,} more." if len(moved) > _LISTED else ".")
