"""Pieces of HTML: tables that sort, pictures embedded in the page. All text is escaped here."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.plotting import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 150


@dataclass(frozen=True)
class Column:
    """A column of a table: its head and cells, and what the numbers are sorted by."""

    head: str
    cells: Sequence[str]
    numbers: Sequence[float] | None = None
    explained: str = ""
    markup: bool = False  # the cells are HTML already


def short(value: float, digits: int = 3) -> str:
    """Write a number for reading; a dash where there is none.

    Examples
    --------
    >>> short(0.12345), short(1234567.0), short(12.0), short(float("nan"))
    ('0.123', '1.23e+06', '12', '–')
    """
    value = float(value)
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}".replace("-", "−")
    if 100 <= abs(value) < 1e5:
        return f"{value:,.1f}".replace("-", "−")
    text = f"{value:.{digits}g}"
    return "−" + text[1:] if text.startswith("-") else text


def numeric(
    head: str, values: Iterable[float], explained: str = "", *, form: Any = short
) -> Column:
    """Make a column of numbers."""
    numbers = [float(v) for v in values]
    return Column(head, [form(v) for v in numbers], numbers, explained)


def probability(value: float) -> str:
    """Write a probability with two digits, and never round a doubt away.

    Examples
    --------
    >>> probability(0.998), probability(1.0), probability(0.001), probability(0.5)
    ('>0.99', '1.00', '<0.01', '0.50')
    """
    if math.isnan(value):
        return "–"
    if 0.995 <= value < 1 - 1e-9:
        return ">0.99"
    if 1e-9 < value < 0.005:
        return "<0.01"
    return f"{value:.2f}"


def whole(value: float) -> str:
    """Write a count in full; what is not a whole number as `short` does.

    Examples
    --------
    >>> whole(4e6), whole(0.5)
    ('4,000,000', '0.5')
    """
    return f"{value:,.0f}" if math.isfinite(value) and value == round(value) else short(value)


def _head(column: Column, *, names_rows: bool) -> str:
    kind = ' class="number"' if column.numbers is not None and not names_rows else ""
    tip = f' title="{escape(column.explained)}"' if column.explained else ""
    return (
        f'<th scope="col" aria-sort="none"{kind}>'
        f'<button type="button"{tip}>{escape(column.head)}</button></th>'
    )


def _cell(column: Column, r: int, *, head: bool) -> str:
    text = column.cells[r] if column.markup else escape(column.cells[r])
    extra = ""
    if column.numbers is not None:
        number = float(column.numbers[r])
        shown = "" if math.isnan(number) else repr(number).replace("inf", "Infinity")
        # Names of rows stand to the left, also where they are numbers.
        extra = f' data-number="{shown}"' if head else f' class="number" data-number="{shown}"'
    return f'<th scope="row"{extra}>{text}</th>' if head else f"<td{extra}>{text}</td>"


def table(name: str, caption: str, columns: Sequence[Column]) -> str:
    """Make a table whose columns sort at a click; its first column names the rows."""
    body = []
    for r in range(len(columns[0].cells)):
        cells = "".join(_cell(column, r, head=c == 0) for c, column in enumerate(columns))
        body.append(f"<tr>{cells}</tr>")
    head = "".join(_head(column, names_rows=c == 0) for c, column in enumerate(columns))
    # A caption that scrolls with the columns is lost on a phone, so the region has its own name.
    return (
        f'<p class="note" id="{name}-caption">{escape(caption)}</p>\n'
        f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}-caption">\n'
        f'<table class="sortable" id="{name}" aria-describedby="{name}-caption">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n"
        + "\n".join(body)
        + "\n</tbody></table></div>\n"
        + f'<button type="button" class="save" data-table="{name}">'
        + "Save this table as CSV</button>\n"
    )


def facts(rows: Mapping[str, Any], label: str) -> str:
    """Make a plain table of names and values."""
    body = "\n".join(
        f'<tr><th scope="row">{escape(str(key))}</th><td>{escape(str(value))}</td></tr>'
        for key, value in rows.items()
    )
    return f'<table class="plain" aria-label="{escape(label)}"><tbody>\n{body}\n</tbody></table>\n'


def picture(
    figure: Figure, alt: str, caption: str, *, wide: bool = False, narrow: Figure | None = None
) -> str:
    """Embed a figure as PNG; on a phone `narrow`, whose letters are larger there, instead."""
    source, size = _png(figure)
    image = f'<img src="{source}" alt="{escape(alt)}" {size}>'
    if narrow is not None:
        source, size = _png(narrow)
        image = (
            f'<picture><source media="(max-width: 760px)" srcset="{source}" {size}>'
            f"{image}</picture>"
        )
    return _figure(image, caption, wide=wide)


def _png(figure: Figure) -> tuple[str, str]:
    """A figure as a data address, with its size in the page."""
    store = io.BytesIO()
    figure.savefig(store, format="png", dpi=DPI, metadata={"Software": None})
    data = store.getvalue()
    # Width and height stand at bytes 16 to 24 of every PNG; the page shows 96 pixels to the inch.
    width, height = np.frombuffer(data[16:24], dtype=">u4") * 96 // DPI
    coded = base64.b64encode(data).decode("ascii")
    return f"data:image/png;base64,{coded}", f'width="{width}" height="{height}"'


def _figure(content: str, caption: str, *, wide: bool) -> str:
    kind = ' class="wide"' if wide else ""
    words = f"\n<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure{kind}>{content}{words}</figure>\n"


def given(title: str, content: Any, caption: str) -> str:
    """Embed what a caller brought: markup of its own, a figure, or axes of one."""
    if isinstance(content, str):
        return _figure(content, caption, wide=True)
    if not hasattr(content, "savefig"):
        flat = style.as_axes(content)
        content = flat[0].get_figure(root=True) if flat else None
    if content is None:
        raise TypeError(f"extra section {title!r} holds no figure")
    alt = f"{title}: {caption}" if caption else title
    return picture(content, alt=alt, caption=caption, wide=True)


def swatch(k: int) -> str:
    """Draw the marker of cluster `k` in its colour, as in the pictures."""
    from matplotlib.markers import MarkerStyle

    mark = MarkerStyle(style.cluster_marker(k))
    outline = mark.get_path().transformed(mark.get_transform())
    parts = []
    for polygon in outline.to_polygons():
        points = " ".join(f"{x:.2f},{-y:.2f}" for x, y in np.asarray(polygon))
        parts.append(f'<polygon points="{points}"/>')
    return (
        f'<svg class="swatch" viewBox="-.75 -.75 1.5 1.5" aria-hidden="true" '
        f'fill="{style.cluster_colour(k)}">{"".join(parts)}</svg>'
    )
