"""Checks for sharded data and Dask clients, without importing Dask."""

from __future__ import annotations

import os
from typing import Any

NEEDS = (
    "A fit on a Dask cluster needs Dask: pip install 'cavity[dask]', or leave client out to use "
    "the threads of this machine."
)


def is_dask_frame(X: Any) -> bool:
    """Return whether X is a Dask DataFrame."""
    return type(X).__module__.startswith(("dask.dataframe", "dask_expr"))


def is_in_shards(X: Any) -> bool:
    """Return whether X is a path or a Dask DataFrame rather than a table in memory."""
    return isinstance(X, str | os.PathLike) or is_dask_frame(X)


def check_client(client: Any) -> None:
    """Refuse a client that is not Dask's."""
    if client is None:
        return
    try:
        import distributed
    except ImportError:
        raise ImportError(NEEDS) from None
    if not isinstance(client, distributed.Client):
        raise ValueError(
            f"client must be a distributed.Client, not {type(client).__name__}: "
            "from distributed import Client; client = Client(n_workers=4, threads_per_worker=1)."
        )
