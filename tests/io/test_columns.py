"""Categories are compared as they are written."""

import numpy as np
import pandas as pd
import pytest

from cavity.io.columns import CATEGORICAL, cells_of, take_column
from cavity.io.words import ReadingError

BIG = 2**53


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        (["001", "1", "1.10", "1.1"], ("001", "1", "1.1", "1.10")),
        ([BIG, BIG + 1], (str(BIG), str(BIG + 1))),
        (pd.array([BIG, BIG + 1, None], dtype="Int64"), (str(BIG), str(BIG + 1))),
        ([10.0, 9.0, np.nan], ("9", "10")),
        (pd.Categorical([np.inf, 1.0]), ("1", "inf")),
    ],
)
def test_categories_are_as_written(values, categories):
    column = pd.Series(values)
    found = take_column(column, "code", CATEGORICAL)
    assert found.categories == categories
    codes = cells_of(column.to_frame(), [found]).codes[:, 0]
    assert len(set(codes[codes >= 0])) == len(categories)


@pytest.mark.parametrize("dtype", ["category", object])
def test_a_number_and_a_text_that_are_written_alike_are_refused(dtype):
    column = pd.Series(pd.Categorical([1, "1"])).astype(dtype)
    with pytest.raises(ReadingError, match=r"written '1'|mixes numbers and text"):
        take_column(column, "code", CATEGORICAL)


@pytest.mark.parametrize("value", [np.ones(2), [1, 2], {"a": 1}])
def test_cells_that_hold_arrays_are_placed(value):
    with pytest.raises(TypeError, match="Row 0, column 'x' holds a "):
        take_column(pd.Series([value, value]), "x")


def test_integers_beyond_floating_point_are_infinite():
    with pytest.raises(ReadingError, match="infinity: row 0, column 'x'"):
        take_column(pd.Series([10**400, 1], dtype=object), "x")
