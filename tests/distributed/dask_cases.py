"""Data in Parquet files, fits of it, and a kill in another process."""

from __future__ import annotations

import os
import signal
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import stats

from cavity import StudentTMixture
from cavity.datasets import make_student_t

SETTINGS = {"n_clusters": 4, "n_chains": 1, "n_warmup": 6, "n_draws": 8, "random_state": 0}


def rows_and_truth(n=30_000, separation=8):
    """Three clusters of equal size, two of which overlap: by half, if the separation is 8."""
    return make_student_t(n, 3, 2, df=4, separation=separation, random_state=3)


def rows(n=30_000):
    return rows_and_truth(n)[0]


def true_densities(X, truth):
    """Log weight and density of every row in every cluster, (n, K), as it was generated."""
    return np.column_stack(
        [
            stats.multivariate_t.logpdf(X, mean, scale, truth.df) - np.log(len(truth.means))
            for mean, scale in zip(truth.means, truth.scales, strict=True)
        ]
    )


def write_rows(folder, X, n_files=3):
    for at, part in enumerate(np.array_split(X, n_files)):
        columns = {name: part[:, j] for j, name in enumerate(("a", "b"))}
        pq.write_table(pa.table(columns), folder / f"part-{at}.parquet", row_group_size=3000)
    return folder


def fit(where, client=None, **settings):
    return StudentTMixture(**{**SETTINGS, **settings}).fit(where, client=client)


def same_draws(one, other):
    """Whether two fits have the same draws, bit for bit."""
    a, b = one.posterior_, other.posterior_
    return np.array_equal(a.labels, b.labels) and np.array_equal(a.log_joint, b.log_joint)


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def killed_later(pid, seconds):
    timer = threading.Timer(seconds, kill, [pid])
    timer.start()
    return timer


if __name__ == "__main__":  # a client that is killed: folder, checkpoint
    os.environ["CAVITY_CHECKPOINT_EVERY"] = "0"
    fit(sys.argv[1], checkpoint=sys.argv[2], n_draws=int(sys.argv[3]))
