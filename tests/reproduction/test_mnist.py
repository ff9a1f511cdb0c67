"""A quick run of the digits experiment on scikit-learn's own small digits."""

import numpy as np
import pytest
from picture_files import colours_in, rgb, shape_of
from reproduction.mnist import load_embedding, stratified
from reproduction.style import PALETTE, SAMPLERS

from reproduction import reproduce

CLAIMS = [
    *(
        f"{sampler} {words}"
        for value in ("NMI", "adjusted Rand")
        for sampler in ("ep", "blocked")
        for words in (
            f"rises above gaussian sooner per sweep in {value}",
            f"above gaussian per sweep in {value}, in the last quarter",
        )
    ),
    "ep much faster than blocked per sweep (at least twice)",
    "ep above blocked per second in NMI",
    "ep much faster than naive per sweep (at least twice)",
    "ep above naive per second in NMI",
    *(f"sampled above {slower} per second in NMI" for slower in ("ep", "blocked", "naive")),
]
COMPARED = ("naive", "blocked", "ep", "gaussian", "sampled")


@pytest.mark.slow
def test_quick_run(tmp_path):
    outcome = reproduce("mnist", tmp_path, quick=True, progress=False)
    assert set(outcome.tables["trace"]["sampler"]) == set(COMPARED)
    lines = {rgb(SAMPLERS[s]["color"]) for s in COMPARED}
    for name in ("mnist-nmi", "mnist-ari"):
        assert shape_of(tmp_path / f"{name}.png") == (480, 1260)
        assert lines <= colours_in(tmp_path / f"{name}.png")
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
    # Digits 0 to 7 have the palette's colours, in the rings around their numerals at the least.
    assert shape_of(tmp_path / "mnist-embedding.png") == (750, 1680)
    digits = {rgb(colour) for colour in PALETTE.values()}
    assert digits <= colours_in(tmp_path / "mnist-embedding.png")
    assert [v.claim for v in outcome.verdicts] == CLAIMS


def test_subsets_keep_the_shares():
    _, digits = load_embedding("small digits")
    chosen = stratified(digits, 500, np.random.default_rng(0))
    assert len(np.unique(chosen)) == 500
    shares = np.bincount(digits[chosen]) / 500 - np.bincount(digits) / len(digits)
    assert np.abs(shares).max() < 1.5 / 500
    assert not np.array_equal(chosen, stratified(digits, 500, np.random.default_rng(1)))
