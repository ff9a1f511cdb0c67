"""Names that others chose do not steer a terminal or a spreadsheet."""

import pytest

from cavity.io.words import listed, printable, quoted, spreadsheet_safe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Ünï 数", "plain Ünï 数"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\0b\rc\nd", "a\\x00b\\rc\\nd"),
        ("\x9b2J", "\\x9b2J"),
        ("abc\u202egpj", "abc\\u202egpj"),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_printable(text, shown):
    assert printable(text) == shown
    printable(text).encode("utf-8")


def test_what_may_stay_stays():
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"


@pytest.mark.parametrize(
    "text", ["=1+2", "+cmd|x", "-shop", "@SUM(A1)", "\t=1", "\r=1", "-", "--1"]
)
def test_formulas_are_neutralised(text):
    assert spreadsheet_safe(text) == f"'{text}"


@pytest.mark.parametrize("text", ["shop", "-7", "+7.5", "-1e-3", "-3,5", "", "a=b", "'=x"])
def test_other_text_is_left_alone(text):
    assert spreadsheet_safe(text) == text


def test_lists_and_cells_are_cut():
    assert listed("abcdefgh", 3) == "'a', 'b', 'c' and 5 more"
    assert len(quoted("x" * 1000)) == 42
