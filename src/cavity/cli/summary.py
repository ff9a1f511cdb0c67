"""Summary that `cavity fit` prints: clusters, doubtful and unusual rows, convergence."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.cli.options import in_options
from cavity.io.words import printable
from cavity.report.words import features_words
from cavity.utils.text import plural

if TYPE_CHECKING:
    from cavity.posterior import Posterior
    from cavity.posterior.comparison import Comparison
    from cavity.posterior.diagnostics import Diagnostics
    from cavity.posterior.view import View

MAX_CLUSTERS = 30
MAX_ACROSS = 16
MAX_ROWS = 10
# The members of clusters of at most this many series are listed.
MAX_NAMED = 5
THRESHOLD = 0.8
CERTAINTY = (
    "certainty: average probability that a {noun} shares its cluster with the cluster's other "
    "members"
)


def wrap(text: str, indent: str = "  ", first: str | None = None) -> str:
    """Wrap a sentence to the terminal, at most 100 columns wide."""
    width = min(100, shutil.get_terminal_size((100, 24)).columns)
    return textwrap.fill(
        text,
        width=max(width, 40),
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def format_table(rows: list[list[str]], right: set[int], indent: str = "  ") -> list[str]:
    """Return lines with aligned columns; those in `right` are right-aligned.

    Examples
    --------
    >>> format_table([["row", "p"], ["a", "0.5"]], {1})
    ['  row    p', '  a    0.5']
    """
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(w) if j in right else cell.ljust(w)
            for j, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def summarise(
    posterior: Posterior,
    labels: Any,
    *,
    noun: str = "row",
    features: list[str] | None = None,
    tail: Any = None,
    furthest: Sequence[str] | None = None,
    number_known: bool = False,
) -> str:
    """Summarize the draws in sentences and small tables.

    Parameters
    ----------
    posterior : Posterior
    labels : array of int, shape (n,)
        The point estimate.
    noun : str
        Unit that is clustered: "row" or "series".
    features : list of str, optional
        Distinguishing features of each cluster.
    tail : array, shape (n,), optional
        Tail probability of each observation; see ``tail_probabilities`` of the mixtures.
    furthest : sequence of str, optional
        Column in which it is most extreme; see ``furthest_columns`` of the mixtures.
    number_known : bool
        Whether the number of clusters is known, so that draws at its limit are not mentioned.
    """
    found = posterior.diagnostics()
    parts = [
        _clusters(posterior, labels, noun, features, number_known),
        _doubtful(posterior, labels, noun, found.converged),
        _outside(posterior, labels, noun, furthest),
        _alone(posterior, labels, furthest),
        _unusual(posterior, labels, noun, tail, furthest),
        _trust(posterior, labels, found),
    ]
    return "\n\n".join(part for part in parts if part)


def _clusters(
    p: Posterior, labels: Any, noun: str, features: list[str] | None, number_known: bool
) -> str:
    from cavity.posterior.groups import differ, group_of_clusters, group_words
    from cavity.posterior.summary import limit_words

    view = p.view(labels)
    group = group_of_clusters(view) if differ(view) else None
    size, certain = view.sizes, view.cluster_certainty
    presence = (view.relabelling.slots >= 0).mean(axis=0)
    shaky = bool((presence[:MAX_CLUSTERS] < THRESHOLD).any())
    head = ["cluster", plural(noun, 2), "share", "certainty", *(["presence"] if shaky else [])]
    head += [] if group is None else ["group"]
    rows = [head + (["distinguishing features"] if features else [])]
    texts = [printable(text) for text in view.with_noise(features)] if features else []
    for k in range(min(len(size), MAX_CLUSTERS)):
        row = [
            view.cluster_name(k),
            f"{size[k]:,}",
            f"{size[k] / len(labels):.0%}",
            f"{certain[k]:.2f}",
            *([f"{presence[k]:.0%}"] if shaky else []),
            *([] if group is None else ["" if k == view.noise else str(group[k])]),
        ]
        rows.append(row + texts[k : k + 1])
    lines = [found_words(view), ""]
    if group is not None:
        lines = [wrap(group_words(view), "  ", ""), "", *lines]
    lines += format_table(rows, set(range(len(head))))
    if len(size) > MAX_CLUSTERS:
        lines.append(f"  ... and {len(size) - MAX_CLUSTERS} smaller clusters")
    if others := view.alternatives:
        lines += ["", *(wrap(str(other), "    ", "  ") for other in others)]
    if not number_known and (limit := limit_words(view)):
        lines += ["", wrap(in_options(limit))]
    lines += _who(view, p, noun)
    lines += ["", wrap(CERTAINTY.format(noun=noun))]
    if shaky:
        lines.append(
            wrap(
                "presence: share of draws with a matching cluster. A cluster that is in few draws "
                "may be part of another; use fewer --clusters to merge such clusters."
            )
        )
    if group is not None:
        lines.append(wrap("group: clusters that overlap are one group; a gap separates groups"))
    if features:
        lines.append(wrap(f"distinguishing features: {features_words(p)}"))
    return "\n".join(lines)


def _who(view: View, p: Posterior, noun: str) -> list[str]:
    """Return lines that list the members of small clusters of series."""
    if noun != "series":
        return []
    few = [k for k in range(view.n_clusters) if view.sizes[k] <= MAX_NAMED][:MAX_CLUSTERS]
    lines = []
    for k in few:
        named = ", ".join(name_of(p, int(i)) for i in np.flatnonzero(view.labels == k))
        lines.append(wrap(f"cluster {view.cluster_name(k)}: {named}", "    ", "  "))
    return ["", *lines] if lines else []


def found_words(view: View) -> str:
    """Return the number of clusters and its posterior probability, in words."""
    from cavity.posterior.summary import number_words

    n = view.n_proper
    sure = f"probability of {number_words(view)}"
    if len(view.number) == 1:
        sure = f"every draw has {view.number.index[0]}"
    return f"{n} {plural('cluster', n)} ({sure})"


def name_of(p: Posterior, position: int) -> str:
    """Return the printable name of an observation, or its number if it has no name."""
    name = str(position + 1 if p.names is None else p.names[position])
    name = printable(name)
    return name if len(name) <= 32 else name[:31] + "…"


def _doubtful(p: Posterior, labels: Any, noun: str, converged: bool) -> str:
    view = p.view(labels, THRESHOLD)
    n = len(view.in_doubt)
    if not n:
        sure = f"each is in its cluster with probability {THRESHOLD} or more"
        if converged:
            return f"No {noun} is in doubt: {sure}."
        return wrap(f"In these draws, {sure}. The chains have not converged; see below.", "", "")
    rows = [[noun, "cluster", "probability", "alternative", "probability"]]
    for i in view.in_doubt[:MAX_ROWS].tolist():
        other, chance = view.could_be(i)
        rows.append(
            [
                name_of(p, i),
                view.cluster_name(view.labels[i]),
                f"{view.probability[i]:.2f}",
                other or "-",
                f"{chance:.2f}" if other else "-",
            ]
        )
    head = f"{n:,} of {view.n:,} {plural(noun, view.n)} {'is' if n == 1 else 'are'} in doubt"
    lines = [f"{head}, least certain first:", ""]
    lines += format_table(rows, {1, 2, 3, 4})
    if n > MAX_ROWS:
        lines.append(f"  ... and {n - MAX_ROWS:,} more, marked in labels.csv")
    return "\n".join(lines)


def _suspect(p: Posterior, position: int, *details: str, furthest: Sequence[str] | None) -> str:
    """Return the name of an observation with details and the column in which it is extreme."""
    if furthest is not None:
        details = (*details, printable(furthest[position]))
    return name_of(p, position) + (f" ({', '.join(details)})" if details else "")


def _outside(p: Posterior, labels: Any, noun: str, furthest: Sequence[str] | None) -> str:
    """Return a sentence that lists the noise observations in the order of the data."""
    outside = np.flatnonzero(p.view(labels).looks < 0)
    if not len(outside):
        return ""
    verb = "is" if len(outside) == 1 else "are"
    text = (
        f"{len(outside):,} {plural(noun, len(outside))} {verb} outside every cluster. Check for "
        "measurement errors: "
    )
    named = ", ".join(_suspect(p, int(i), furthest=furthest) for i in outside[:MAX_ROWS])
    more = f" and {len(outside) - MAX_ROWS:,} more, by noise_probability in labels.csv"
    return wrap(text + named + (more if len(outside) > MAX_ROWS else "") + ".", "  ", "")


def _alone(p: Posterior, labels: Any, furthest: Sequence[str] | None) -> str:
    from cavity.posterior.summary import alone, alone_words

    view = p.view(labels)
    named = [_suspect(p, int(i), furthest=furthest) for i in alone(view)[:MAX_ROWS]]
    return wrap(alone_words(view, named), "  ", "")


def _unusual(
    p: Posterior, labels: Any, noun: str, tail: Any, furthest: Sequence[str] | None
) -> str:
    if tail is None:
        return ""
    # About one row per data set is this extreme under the model. Noise has its own sentence.
    view = p.view(labels)
    chosen = np.flatnonzero((tail < 1.0 / len(tail)) & (view.looks >= 0))
    if not len(chosen):
        return f"No {noun} is unusually far from its cluster."
    order = chosen[np.argsort(tail[chosen], kind="stable")]
    verb = "is" if len(chosen) == 1 else "are"
    text = (
        f"{len(chosen):,} {plural(noun, len(chosen))} {verb} far from the rest of "
        f"{'its' if len(chosen) == 1 else 'their'} cluster; about one is expected by chance. "
        "Check for measurement errors: "
    )
    named = ", ".join(
        _suspect(p, int(i), f"cluster {labels[i]}", furthest=furthest) for i in order[:MAX_ROWS]
    )
    more = f" and {len(order) - MAX_ROWS:,} more, by tail_probability in labels.csv"
    return wrap(text + named + (more if len(order) > MAX_ROWS else "") + ".", "  ", "")


def _trust(p: Posterior, labels: Any, found: Diagnostics) -> str:
    from cavity.posterior.summary import firmness_words

    sentences = [in_options(sentence) for sentence in found.sentences]
    if found.converged and (weak := firmness_words(p.view(labels, THRESHOLD))):
        sentences.insert(1, weak)
    lines = ["Convergence", "", wrap(sentences[0])]
    lines += [wrap(sentence, "    ", "  - ") for sentence in sentences[1:]]
    return "\n".join(lines)


# ---------------------------------------------------------------- two runs


def comparison_text(runs: dict[str, Posterior], noun: str) -> str:
    """Describe how far two posteriors agree, and which observations differ.

    Parameters
    ----------
    runs : dict of str to Posterior
        Two, by name.
    noun : str
        Unit that is clustered: "row" or "series".
    """
    p, q = runs.values()
    found = p.compare(q)
    lines = [f"{name}: {_verdict(posterior)}" for name, posterior in runs.items()]
    lines += ["", wrap(_agreement(found), ""), "", *_overlap(found, p, q, noun)]
    moved = _moved(p, q)
    if len(moved):
        lines += ["", wrap(_moved_text(p, moved, noun), "  ", "")]
    return "\n".join(lines)


def _verdict(p: Posterior) -> str:
    verdict = "converged" if p.diagnostics().converged else "NOT shown to have converged"
    return f"{found_words(p.view())}, {verdict}"


def _agreement(found: Comparison) -> str:
    return (
        f"The adjusted Rand index of the two clusterings is {found.ari:.2f} (1: identical, 0: "
        f"chance). Their similarity matrices differ by {found.similarity_difference:.2f} on a "
        "scale from 0 to 1."
    )


def _overlap(found: Comparison, p: Posterior, q: Posterior, noun: str) -> list[str]:
    """Return a table of shared members of the clusters of both runs."""
    first, second = p.view(), q.view()
    table = found.overlap
    shown = table.iloc[:, :MAX_ACROSS]
    rest = table.iloc[:, MAX_ACROSS:].sum(axis=1).tolist()
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
    """Return the positions that differ after clusters are matched one to one."""
    from cavity.posterior.relabel import relabel

    ours, theirs = p.partition().labels, q.partition().labels
    return np.flatnonzero(relabel(theirs[None], ours).labels[0] != ours)


def _moved_text(p: Posterior, moved: np.ndarray, noun: str) -> str:
    names = [name_of(p, i) for i in moved[:MAX_ROWS].tolist()]
    text = f"{len(moved):,} {plural(noun, len(moved))} {'is' if len(moved) == 1 else 'are'} "
    text += f"assigned differently: {', '.join(names)}"
    return text + (f" and {len(moved) - MAX_ROWS:,} more." if len(moved) > MAX_ROWS else ".")
