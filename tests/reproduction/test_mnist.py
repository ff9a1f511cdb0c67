"""A quick run of the digits experiment on scikit-learn's own small digits."""

import numpy as np
from reproduction.mnist import load_embedding, stratified

from reproduction import reproduce


def test_quick_run(tmp_path):
    outcome = reproduce("mnist", tmp_path, quick=True, progress=False)
    assert set(outcome.tables["trace"]["sampler"]) == {"naive", "blocked", "ep", "gaussian"}
    for name in ("mnist-embedding", "mnist-nmi", "mnist-ari"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
        assert (tmp_path / f"{name}.svg").exists()
    assert len(outcome.verdicts) == 12


def test_subsets_keep_the_shares():
    _, digits = load_embedding("small digits")
    chosen = stratified(digits, 500, np.random.default_rng(0))
    assert len(np.unique(chosen)) == 500
    shares = np.bincount(digits[chosen]) / 500 - np.bincount(digits) / len(digits)
    assert np.abs(shares).max() < 1.5 / 500
    assert not np.array_equal(chosen, stratified(digits, 500, np.random.default_rng(1)))
