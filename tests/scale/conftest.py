"""A cluster of two processes, started where a file's tests first ask for one."""

import pytest


@pytest.fixture(scope="module")
def cluster():
    import distributed

    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(n_workers=2, **options) as local:
        yield local


@pytest.fixture(scope="module")
def client(cluster):
    import distributed

    with distributed.Client(cluster) as client:
        yield client
