"""Safe display of untrusted names: on a terminal, in a spreadsheet, in a sentence."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterable
from typing import Any

# What a spreadsheet takes for the beginning of a formula; a tab or return before it is skipped.
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?\s*")
# Marks that turn the direction of writing can make one name look like another.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_RAW = ("Cc", "Cs", "Zl", "Zp")


class ReadingError(ValueError):
    """Error in a file or frame that the user must fix; the message says how."""


def printable(text: Any, keep: str = "") -> str:
    r"""Return text with control characters escaped.

    Parameters
    ----------
    text : object
        Object to show by its `str`.
    keep : str
        Control characters that may stay, such as a newline.

    Examples
    --------
    >>> print(printable("a\x1b[31mb"))
    a\x1b[31mb
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode()
        if c not in keep and (unicodedata.category(c) in _RAW or c in _TURNING)
        else c
        for c in text
    )


def spreadsheet_safe(text: str) -> str:
    """Return text that no spreadsheet executes: an apostrophe precedes formulas.

    Examples
    --------
    >>> spreadsheet_safe("=1+2"), spreadsheet_safe("-7.5"), spreadsheet_safe("shop")
    ("'=1+2", '-7.5', 'shop')
    """
    if _FORMULA.match(text) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def listed(names: Iterable[Any], most: int = 6) -> str:
    """Return the first few names in quotes.

    Examples
    --------
    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    names = list(names)
    text = ", ".join(repr(str(name)) for name in names[:most])
    return f"{text} and {len(names) - most} more" if len(names) > most else text


def quoted(cell: Any) -> str:
    """Return a cell in quotes, shortened if long.

    Examples
    --------
    >>> quoted("a" * 50)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'"
    """
    text = str(cell)
    return repr(text if len(text) <= 40 else text[:39] + "…")


def shell_word(name: Any) -> str:
    """Return a name as typed after an option, quoted if needed.

    Examples
    --------
    >>> shell_word("age"), shell_word("date of birth")
    ('age', "'date of birth'")
    """
    return shlex.quote(str(name))
