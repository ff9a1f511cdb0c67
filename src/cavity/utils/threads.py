"""Threads of libraries."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def without_openmp(function: Callable[P, T]) -> Callable[P, T]:
    """Run a function with one OpenMP thread.

    GNU's OpenMP hangs in a forked child if its parent has used more (`multiprocessing`'s default
    on Linux before Python 3.14).

    Examples
    --------
    >>> without_openmp(sum)([1, 2])
    3
    """

    @wraps(function)
    def limited(*args: P.args, **options: P.kwargs) -> T:
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1, user_api="openmp"):
            return function(*args, **options)

    return limited
