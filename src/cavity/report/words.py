"""Summary of a posterior in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cavity.posterior.record import BEST_DRAW
from cavity.report.markup import probability
from cavity.utils.text import count, enumerate_words, plural

if TYPE_CHECKING:
    from cavity.posterior.diagnostics import Diagnostics
    from cavity.posterior.posterior import Posterior
    from cavity.posterior.view import View

_LISTED = 5
_NAMED = 3


def sizes_sentence(view: View) -> str:
    """Return the number of clusters and their sizes, in words."""
    sizes = view.proper_sizes
    if view.noise is not None:
        n_outside = int(view.sizes[view.noise])
        verb = "is" if n_outside == 1 else "are"
        noise = f" {count(n_outside, view.noun)} {verb} outside every cluster (noise)."
        inside = count(view.n - n_outside, view.noun)
        return f"The point estimate has {inside} in {_of_sizes(sizes)}.{noise}"
    if view.n == 1:
        return f"There is only one {view.noun}."
    if view.n_clusters == 1:
        return f"The point estimate has all {view.n:,} {plural(view.noun)} in one cluster."
    if view.n_clusters == view.n:
        return f"In the point estimate, each of the {view.n:,} {plural(view.noun)} is alone."
    return f"The point estimate has {count(view.n, view.noun)} in {_of_sizes(sizes)}."


def _of_sizes(sizes: np.ndarray) -> str:
    """Return a number of clusters and their sizes, in words."""
    text = count(len(sizes), "cluster")
    if len(sizes) <= _LISTED + 1:
        return text + f" of {enumerate_words([f'{s:,}' for s in sizes])}"
    largest = enumerate_words([f"{s:,}" for s in sizes[:_LISTED]])
    return text + f"; the largest have {largest}, the smallest {sizes[-1]:,}"


def features_words(posterior: Posterior) -> str:
    """Explain the distinguishing features of clusters."""
    if posterior.noun == "series":
        return (
            "when its standardized trends are highest and lowest on average, and the series most "
            "typical of it"
        )
    if columns := posterior.record.details.get("taken_for"):
        means = (
            "cluster means with their difference from the median of all rows in robust standard "
            "deviations"
        )
        if not any(column["categories"] for column in columns):
            return means
        return f"shares of categories compared with those of all rows, and {means}"
    return "cluster center minus the median of all rows, in robust standard deviations"


def number_sentence(view: View) -> str:
    """Describe the certainty of the number of clusters."""
    from cavity.posterior.summary import number_words

    best = int(view.number.index.to_numpy()[view.number.to_numpy().argmax()])
    if len(view.number) == 1:
        return f"Every draw has {count(best, 'cluster')}."
    text = f"Probability of {number_words(view)}"
    low, high = view.number_interval
    if low < high:
        text += f"; between {low} and {high} with probability 95%"
    if view.n_proper != best:
        text += f". The point estimate has {view.n_proper}"
    return text + "."


def certainty_sentence(view: View, converged: bool = True) -> str:
    """Describe the certainty of the clusters, if the chains agree."""
    mean = float(view.certainty.mean())
    if mean > 1 - 1e-9:
        return "All draws agree." if view.n > 1 else "Nothing is uncertain."
    if view.n_clusters == view.n:
        return f"On average each {view.noun} is alone with probability {probability(mean)}."
    words = "very certain" if mean >= 0.95 else "fairly certain" if mean >= 0.8 else "uncertain"
    if mean < 0.5:
        words = "very uncertain"
    text = (
        f"{'Assignments are' if converged else 'At face value, assignments are'} {words}: "
        f"on average, two members of a cluster are together in {_percent(mean)} of the draws"
    )
    weakest = view.cluster_certainty
    k = int(weakest.argmin())
    if view.n_clusters > 1 and weakest[k] < mean - 0.1:
        where = "noise" if k == view.noise else f"cluster {k}"
        text += f", least so in {where} ({_percent(float(weakest[k]))})"
    return text + "."


def _percent(share: float) -> str:
    return f"{share:.0%}" if share < 0.995 else "over 99%"


def doubt_sentence(view: View) -> str:
    """Describe the doubtful observations."""
    number = len(view.in_doubt)
    if not number:
        return (
            f"No {view.noun} is in doubt: each is in its cluster with probability "
            f"{view.threshold:g} or more."
        )
    named = []
    for i in view.in_doubt[:_NAMED].tolist():
        own = view.labels[i]
        text = f"{view.name(i)} ({'noise' if own == view.noise else f'cluster {own}'}"
        if other := view.could_be(i)[0]:
            text += f", or {other}"
        named.append(text + ")")
    share = number / view.n
    share_text = f"{share:.0%}" if share >= 0.01 else "under 1%"
    text = f"{count(number, view.noun)} ({share_text}) {'is' if number == 1 else 'are'} in doubt"
    text += f" (probability of the cluster below {view.threshold:g})"
    lead = ": " if number <= _NAMED else "; the least certain are "
    return text + lead + enumerate_words(named) + "."


def alone_sentence(view: View) -> str:
    """Describe clusters of a single observation; empty if there are none."""
    from cavity.posterior.summary import alone, alone_words

    return alone_words(view, [view.name(i) for i in alone(view)[:_LISTED].tolist()])


def unusual_sentence(view: View, tail: np.ndarray) -> str:
    """Describe observations that are far out in their cluster; the model expects about one."""
    from cavity.posterior.summary import unusual

    number, unknown = len(unusual(tail)), int(np.isnan(tail).sum())
    if number:
        verb = "is" if number == 1 else "are"
        text = (
            f"{count(number, view.noun)} {verb} far from the rest of "
            f"{'its' if number == 1 else 'their'} cluster; about one is expected by chance. "
            "Check for measurement errors."
        )
    else:
        text = f"No {view.noun} is unusually far from its cluster."
    if unknown:
        text += f" Unknown for {count(unknown, view.noun)}."
    return text


def chains_sentence(view: View, diagnostics: Diagnostics) -> str:
    """Describe whether the chains agree, and what can be reported if not."""
    from cavity.posterior.summary import firmness_words

    source = f"{count(view.posterior.n_chains, 'chain')} of {count(view.posterior.n_draws, 'draw')}"
    if diagnostics.converged:
        text = f"The chains agree ({source}), and there are enough effective draws."
        if diagnostics.precision.name == "draft":
            text = diagnostics.sentences[0]
        return " ".join(part for part in (text, firmness_words(view)) if part)
    return " ".join(
        part for part in (_not_agreeing(view, diagnostics, source), diagnostics.meanwhile) if part
    )


def _not_agreeing(view: View, diagnostics: Diagnostics, source: str) -> str:
    from cavity.posterior.convergence import PAIRS

    chains, draws = view.posterior.n_chains, view.posterior.n_draws
    if chains == 1:
        return f"There is only {source}, so agreement of chains cannot be checked."
    if draws < 4:
        return f"There are only {source}, too few to check whether the chains agree."
    settled = not (
        diagnostics.table["rhat"].drop(PAIRS, errors="ignore") > diagnostics.precision.rhat_max
    ).any()
    if settled and len(diagnostics.problems) == 1 and _too_few(diagnostics, chains):
        return f"The draws ({source}) are too few to rely on: see the diagnostics."
    return (
        f"The chains may not agree ({source}). Treat the result with care and read the diagnostics."
    )


def _too_few(diagnostics: Diagnostics, n_chains: int) -> bool:
    from cavity.posterior.convergence import PAIRS

    effective = diagnostics.table[["ess_bulk", "ess_tail"]].drop(PAIRS, errors="ignore")
    return bool(effective.to_numpy().min() < diagnostics.precision.ess_needed(n_chains))


def summary_sentences(view: View, diagnostics: Diagnostics) -> list[str]:
    """Summarize number, certainty, doubtful observations and convergence in a few sentences."""
    from cavity.posterior.groups import group_words
    from cavity.posterior.summary import limit_words

    sentences = [sizes_sentence(view)]
    if groups := group_words(view):
        sentences.insert(0, groups[0].upper() + groups[1:])
    if view.n > 1:
        certainty = certainty_sentence(view, diagnostics.converged)
        others = [str(other) for other in view.alternatives]
        sentences += [number_sentence(view), *others, certainty, doubt_sentence(view)]
        if limit := limit_words(view):
            sentences.append(limit)
    if view.posterior.record.interrupted:
        sentences.append("The run was stopped early; these are the draws made until then.")
    if BEST_DRAW in view.posterior.summaries:
        sentences.append(
            "The search for the point estimate was stopped: the clusters are those of the draw "
            "of highest log joint density."
        )
    if aside := len(view.posterior.record.set_aside):
        sentences.append(
            f"{count(aside, 'chain')} {'is' if aside == 1 else 'are'} left out, having ended in a "
            "far less probable clustering."
        )
    verdict = chains_sentence(view, diagnostics)
    # An unreliable result starts with the verdict.
    return [*sentences, verdict] if diagnostics.converged else [verdict, *sentences]
