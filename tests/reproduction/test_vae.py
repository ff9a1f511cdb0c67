"""The autoencoder: deterministic, improving, cached; and clear about what is missing."""

import sys

import numpy as np
import pytest
from reproduction.vae import VaeSettings, embed, stamp

from reproduction import vae


def blobs(n=300, seed=0):
    """Two kinds of tiny pictures: lit in the left half, or in the right."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n)
    images = rng.integers(0, 40, (n, 16))
    images[kind == 0, :8] += 200
    images[kind == 1, 8:] += 200
    return images.astype(np.uint8), kind, np.arange(n) >= 250


SMALL = VaeSettings(latent=2, hidden=16, epochs=30, batch=25, learning_rate=1e-2)


def test_cached_embedding_needs_no_training(tmp_path, monkeypatch):
    images, _, is_test = blobs()
    points = np.random.default_rng(1).normal(size=(300, 2)).astype(np.float32)
    name = stamp(images, is_test, SMALL)
    np.savez(
        tmp_path / f"digits-{name}.npz", points=points, bound=np.zeros(30), stamp=np.array(name)
    )
    monkeypatch.setitem(sys.modules, "torch", None)
    assert np.array_equal(embed(images, is_test, SMALL, folder=tmp_path).points, points)
    # Other data or settings are another embedding, and that needs training.
    with pytest.raises(ImportError, match=r"pip install -r reproduction/requirements.txt"):
        embed(images, is_test, SMALL._replace(seed=1), folder=tmp_path)
    with pytest.raises(ImportError, match="PyTorch"):
        embed(images[::-1], is_test, SMALL, folder=tmp_path)


def test_cache_folder_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("CAVITY_CACHE_DIR", str(tmp_path))
    assert vae.embedding_folder() == tmp_path / "embeddings"


def test_bad_input():
    images, _, is_test = blobs()
    with pytest.raises(ValueError, match="table of bytes; got float64"):
        embed(images.astype(float), is_test)
    with pytest.raises(ValueError, match="one value per image"):
        embed(images, is_test[:-1])
    with pytest.raises(ValueError, match="leave some for training"):
        embed(images, np.ones(300, dtype=bool))
