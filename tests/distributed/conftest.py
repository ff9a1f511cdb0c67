"""A cluster of two processes, started where a file's tests first ask for one."""

import pytest


@pytest.fixture(scope="module")
def cluster():
    import dask

    import distributed
    from cavity.cli.models import KEPT_WORKERS

    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        dask.config.set(KEPT_WORKERS),
        distributed.LocalCluster(n_workers=2, **options) as local,
    ):
        yield local


@pytest.fixture(scope="module")
def connected(cluster):
    import distributed

    with distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def client(connected):
    """With both workers there: the test before may have killed some."""
    connected.wait_for_workers(2, timeout=120)
    return connected
