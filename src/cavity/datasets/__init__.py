"""Data sets: generators from the package's own models, and fetchers of public data."""

from cavity.datasets.contamination import add_outliers, load_wine_with_bad_rows
from cavity.datasets.generators import (
    SEPARATIONS,
    make_scale_mixture,
    make_series,
    make_student_t,
)

__all__ = [
    "SEPARATIONS",
    "add_outliers",
    "load_wine_with_bad_rows",
    "make_scale_mixture",
    "make_series",
    "make_student_t",
]
