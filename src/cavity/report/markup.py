"""Parts of the page as plain data; the templates turn them into HTML and escape all text."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from cavity.plotting import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

DPI = 150


class Swatch(NamedTuple):
    """Marker of a cluster in its color, as in the pictures."""

    color: str
    polygons: list[str]


class Cell(NamedTuple):
    """One cell of a table: its text and what it is sorted by."""

    text: str
    number: str | None
    swatch: Swatch | None
    tag: bool


@dataclass(frozen=True)
class Column:
    """A column of a table: its head and cells, and the numbers that it is sorted by."""

    head: str
    cells: Sequence[str]
    numbers: Sequence[float] | None = None
    explained: str = ""
    swatches: Sequence[Swatch] | None = None
    tags: bool = False

    def cell(self, row: int) -> Cell:
        """Return the cell of a row."""
        number = None
        if self.numbers is not None:
            value = float(self.numbers[row])
            number = "" if math.isnan(value) else repr(value).replace("inf", "Infinity")
        swatch = None if self.swatches is None else self.swatches[row]
        return Cell(self.cells[row], number, swatch, self.tags)


@dataclass(frozen=True)
class Table:
    """A table whose columns sort at a click; its first column names the rows."""

    macro: ClassVar[str] = "table"
    name: str
    caption: str
    columns: Sequence[Column]

    @property
    def rows(self) -> Iterator[list[Cell]]:
        """Cells row by row."""
        for row in range(len(self.columns[0].cells)):
            yield [column.cell(row) for column in self.columns]


@dataclass(frozen=True)
class Facts:
    """A plain table of names and values."""

    macro: ClassVar[str] = "facts"
    rows: Mapping[str, Any]
    label: str
    title: str = ""


@dataclass(frozen=True)
class Sentences:
    """Sentences as a list, with a verdict."""

    sentences: Sequence[str]
    verdict: str
    good: bool
    macro: str = "sentences"


@dataclass(frozen=True)
class Text:
    """A heading or a paragraph."""

    text: str
    macro: str = "paragraph"


class Image(NamedTuple):
    """A PNG as a data address, with its size on the page."""

    source: str
    width: int
    height: int


@dataclass(frozen=True)
class Figure:
    """A picture, for a phone another one, or content of a caller's own, with a caption.

    `hover` is what the script shows under the pointer, as JSON. Neighbors in a grid whose `tab`
    is not empty take one place and are chosen by it; without a script they follow each other.
    """

    caption: str
    alt: str = ""
    wide: bool = False
    image: Image | None = None
    narrow: Image | None = None
    content: Any = None
    hover: str = ""
    tab: str = ""


@dataclass(frozen=True)
class Figures:
    """Pictures in a grid."""

    macro: ClassVar[str] = "figures"
    figures: Sequence[Figure]

    @property
    def places(self) -> list[list[Figure]]:
        """Pictures by their place in the grid: several where there are tabs."""
        out: list[list[Figure]] = []
        for one in self.figures:
            if one.tab and out and out[-1][0].tab:
                out[-1].append(one)
            else:
                out.append([one])
        return out


class Section(NamedTuple):
    """A section of the page."""

    name: str
    title: str
    parts: Sequence[Any]


def short(value: float, digits: int = 3) -> str:
    """Format a number; a dash if it is missing.

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
    """Format a probability with two digits, never rounded to 0 or 1.

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
    """Format a count in full, and any other number as `short` does.

    Examples
    --------
    >>> whole(4e6), whole(0.5)
    ('4,000,000', '0.5')
    """
    return f"{value:,.0f}" if math.isfinite(value) and value == round(value) else short(value)


def picture(
    figure: MatplotlibFigure,
    alt: str,
    caption: str,
    *,
    wide: bool = False,
    narrow: MatplotlibFigure | None = None,
    hover: Callable[[], str] = str,
    tab: str = "",
) -> Figure:
    """Embed a figure as PNG; on a phone `narrow`, whose letters are larger there, instead.

    `hover` is called once the figure is drawn, when everything has its place.
    """
    image = _png(figure)
    small = None if narrow is None else _png(narrow)
    return Figure(caption, alt, wide, image, small, hover=hover(), tab=tab)


def _png(figure: MatplotlibFigure) -> Image:
    store = io.BytesIO()
    figure.savefig(store, format="png", dpi=DPI, metadata={"Software": None})
    data = store.getvalue()
    # Width and height are bytes 16 to 24 of every PNG; the page shows 96 pixels to the inch.
    width, height = np.frombuffer(data[16:24], dtype=">u4") * 96 // DPI
    coded = base64.b64encode(data).decode("ascii")
    return Image(f"data:image/png;base64,{coded}", int(width), int(height))


def given(title: str, content: Any, caption: str) -> Figure:
    """Embed what a caller passed: HTML, a table, a figure, or axes of one."""
    if isinstance(content, str | Table):
        return Figure(caption, wide=True, content=content)
    if not hasattr(content, "savefig"):
        flat = style.as_axes(content)
        content = flat[0].get_figure(root=True) if flat else None
    if content is None:
        raise TypeError(f"extra section {title!r} holds no figure")
    alt = f"{title}: {caption}" if caption else title
    return picture(content, alt=alt, caption=caption, wide=True)


def swatch(k: int) -> Swatch:
    """Return the marker of cluster `k` in its color."""
    from matplotlib.markers import MarkerStyle

    mark = MarkerStyle(style.cluster_marker(k))
    outline = mark.get_path().transformed(mark.get_transform())
    polygons = [
        " ".join(f"{x:.2f},{-y:.2f}" for x, y in np.asarray(polygon))
        for polygon in outline.to_polygons()
    ]
    return Swatch(style.cluster_colour(k), polygons)
