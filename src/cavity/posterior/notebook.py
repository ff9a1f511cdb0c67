"""What a notebook shows of a posterior and of its diagnostics: HTML, all text escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from cavity.utils.text import count

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior.diagnostics import Diagnostics
    from cavity.posterior.posterior import Posterior

# Numbers of labels up to which the chains are checked (a second at the limit), and a partition that
# nobody has asked for yet is searched for (a third of a second; it grows with the draws squared).
CHECK_CELLS = 20_000_000
SEARCH_CELLS = 10_000
ROWS_MAX = 20


def _table(frame: pd.DataFrame) -> str:
    return frame.to_html(float_format=lambda value: f"{value:.4g}", border=0)


def diagnostics_html(diagnostics: Diagnostics) -> str:
    """The verdict and the tables; see `Diagnostics`."""
    first, *others = diagnostics.sentences
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in others)
    parts = [f"<p><strong>{escape(first)}</strong></p>"]
    if items:
        parts.append(f"<ul>{items}</ul>")
    tables = (diagnostics.table, diagnostics.events, diagnostics.moves)
    parts += [_table(table) for table in tables if len(table) or table is diagnostics.table]
    return f"<div>{''.join(parts)}</div>"


def posterior_html(p: Posterior) -> str:
    """What it is, whether it can be trusted, and the clusters; nothing that takes long."""
    noun = p.noun
    source = f" of {p.record.model}" if p.record.model else ""
    parts = [
        f"<p><strong>Posterior{escape(source)}</strong>: {count(p.n_observations, noun)}, "
        f"{count(p.n_chains, 'chain')} of {count(p.n_draws, 'draw')}</p>"
    ]
    if p.labels.size <= CHECK_CELLS:
        parts.append(f"<p>{escape(p.diagnostics().sentences[0])}</p>")
    else:
        parts.append("<p>Can it be trusted? See <code>diagnostics()</code>.</p>")
    if not p.has_partition and p.labels.size > SEARCH_CELLS:
        parts.append("<p>The clusters: <code>summary()</code> searches for them.</p>")
        return f"<div>{''.join(parts)}</div>"
    from cavity.posterior.groups import group_words
    from cavity.posterior.summary import number_words

    if groups := group_words(p.view()):
        parts.append(f"<p>{escape(groups)}</p>")
    table = p.summary()
    shown = table.head(ROWS_MAX)[["size", "share", "certainty", "presence"]]
    view = p.view()
    parts.append(
        f"<p>{count(view.n_proper, 'cluster')} (how many? {escape(number_words(view))}), "
        f"{count(len(view.in_doubt), noun)} in doubt</p>{_table(shown)}"
    )
    if len(table) > ROWS_MAX:
        parts.append(f"<p>… and {count(len(table) - ROWS_MAX, 'smaller cluster')}</p>")
    return f"<div>{''.join(parts)}</div>"
