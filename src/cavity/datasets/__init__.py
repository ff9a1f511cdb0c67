"""Data sets: generators from the package's own models, and fetchers of public data."""

from cavity.datasets.benchmarks import BENCHMARKS, fetch_benchmark
from cavity.datasets.contamination import add_outliers, load_wine_with_bad_rows
from cavity.datasets.fetchers import fetch_mnist, fetch_seattle_sales, fetch_seattle_tracts
from cavity.datasets.generators import (
    SEPARATIONS,
    make_scale_mixture,
    make_series,
    make_student_t,
)
from cavity.datasets.tables import load_iris_with_gaps, make_table

__all__ = [
    "BENCHMARKS",
    "SEPARATIONS",
    "add_outliers",
    "fetch_benchmark",
    "fetch_mnist",
    "fetch_seattle_sales",
    "fetch_seattle_tracts",
    "load_iris_with_gaps",
    "load_wine_with_bad_rows",
    "make_scale_mixture",
    "make_series",
    "make_student_t",
    "make_table",
]
