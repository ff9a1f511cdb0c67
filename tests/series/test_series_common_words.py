"""Whether a movement of all series was removed is described."""

import pytest

from cavity.series.common_factor import common_factor_words


@pytest.mark.parametrize(
    ("asked", "has_one", "n_times", "words"),
    [
        ("auto", True, 50, "All series share a movement."),
        (True, True, 10, "As requested, a movement that all series share was removed"),
        (
            "auto",
            False,
            20,
            "20 times are too few to detect a movement that all series share (21 are needed)",
        ),
        ("auto", False, 21, "No movement that all series share was detected"),
    ],
)
def test_what_was_taken_out_and_why(asked, has_one, n_times, words):
    assert words in common_factor_words(asked, has_one, n_times)


def test_where_it_was_not_to_be_nothing_is_said():
    assert common_factor_words(False, False, 50) == ""
