"""Counts and lists in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def plural(noun: str, number: int = 2) -> str:
    """Return the noun for a number; "series" is its own plural.

    Examples
    --------
    >>> plural("row"), plural("row", 1), plural("series")
    ('rows', 'row', 'series')
    """
    return noun if number == 1 or noun.endswith("series") else f"{noun}s"


def count(number: int, noun: str) -> str:
    """Write a number with its noun.

    Examples
    --------
    >>> count(1, "cluster"), count(2100, "cluster"), count(2, "series")
    ('1 cluster', '2,100 clusters', '2 series')
    """
    return f"{number:,} {plural(noun, number)}"


def enumerate_words(items: Sequence[str]) -> str:
    """Join words as a sentence does.

    Examples
    --------
    >>> enumerate_words(["a"]), enumerate_words(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    if len(items) < 2:
        return "".join(items)
    return ", ".join(items[:-1]) + " and " + items[-1]


def readable_bytes(n_bytes: int) -> str:
    """Write a number of bytes with its unit.

    Examples
    --------
    >>> readable_bytes(1_600_000_000)
    '1.6 GB'
    """
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min(max(len(str(n_bytes)) - 1, 0) // 3, len(units) - 1)
    value = n_bytes / 1000**power
    return f"{value:.3g} {units[power]}" if value < 1000 else f"{value:,.0f} {units[power]}"


def shown(value: Any) -> str:
    """Write a value in a message, cut where it is long.

    Examples
    --------
    >>> shown("a"), len(shown(10**400)), shown(10**5000)
    ("'a'", 60, 'a number of thousands of digits')
    """
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."
