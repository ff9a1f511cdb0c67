"""Fits in forked children, the default of multiprocessing on Linux before Python 3.14."""

import multiprocessing
import os
import subprocess
import sys

import pytest

CODE = """
import multiprocessing
import numpy as np
from cavity.estimators.model import number_of_factors
from cavity.estimators.start import neighbour_distances
from cavity.moves.anchors import nearest_anchors
from sklearn.neighbors import NearestNeighbors

X = np.random.default_rng(0).standard_normal((600, 30))
NearestNeighbors().fit(X).kneighbors(X)

def work():
    nearest_anchors(X), nearest_anchors(X, mirrored=True)
    neighbour_distances(X), number_of_factors(X, 3)

work()
child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join(30)
print("hangs" if child.is_alive() else child.exitcode)
child.kill()
"""


@pytest.mark.slow
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_forked_child_does_not_hang():
    """The parent has used OpenMP threads, whose pool a forked child inherits without them."""
    ran = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "OMP_NUM_THREADS": "4"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.stdout.split() == ["0"], ran.stderr
