"""A variational autoencoder of handwritten digits, after Kingma and Welling (2014).

One hidden layer of tanh units each way, Gaussian latent, Bernoulli pixels. Needs PyTorch
(``pip install -r reproduction/requirements.txt``) unless the embedding is already in the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cavity.utils.files import replacing
from cavity.utils.progress import track


class VaeSettings(NamedTuple):
    """Everything that decides the embedding."""

    latent: int = 3
    hidden: int = 500
    epochs: int = 40
    batch: int = 200
    learning_rate: float = 1e-3
    seed: int = 0


class Embedding(NamedTuple):
    """Latent means of digits.

    Attributes
    ----------
    points : ndarray of float32, shape (n, latent)
    bound : ndarray of shape (epochs,)
        Evidence lower bound per digit, in nats, averaged over each epoch of training.
    """

    points: np.ndarray
    bound: np.ndarray


def stamp(images: np.ndarray, is_test: np.ndarray, settings: VaeSettings) -> str:
    """Return a digest of the data and settings: the name of the cached embedding."""
    digest = hashlib.sha256(json.dumps(settings._asdict(), sort_keys=True).encode())
    digest.update(np.ascontiguousarray(images).tobytes())
    digest.update(np.ascontiguousarray(is_test).tobytes())
    return digest.hexdigest()[:16]


def embedding_folder() -> Path:
    """Return the folder of cached embeddings (``CAVITY_CACHE_DIR`` overrides the user's cache)."""
    if os.environ.get("CAVITY_CACHE_DIR"):
        return Path(os.environ["CAVITY_CACHE_DIR"]) / "embeddings"
    import pooch

    return Path(pooch.os_cache("cavity")) / "embeddings"


def embed(
    images: np.ndarray,
    is_test: np.ndarray,
    settings: VaeSettings | None = None,
    *,
    folder: str | os.PathLike | None = None,
    progress: bool | None = None,
) -> Embedding:
    """Embed digits by an autoencoder trained on those that are not test digits.

    Parameters
    ----------
    images : ndarray of uint8, shape (n, pixels)
    is_test : ndarray of bool, shape (n,)
    settings : VaeSettings, optional
    folder : path, optional
        Where the embedding is kept; by default in the user's cache. A kept embedding of the same
        data and settings is returned as it is.
    progress : bool, optional

    Returns
    -------
    Embedding
    """
    settings = VaeSettings() if settings is None else settings
    images = np.asarray(images)
    if images.ndim != 2 or images.dtype != np.uint8:
        raise ValueError(f"images must be a table of bytes; got {images.dtype} {images.shape}.")
    is_test = np.asarray(is_test, dtype=bool)
    if is_test.shape != (len(images),) or is_test.all():
        raise ValueError("is_test must have one value per image and leave some for training.")
    name = stamp(images, is_test, settings)
    path = (embedding_folder() if folder is None else Path(folder)) / f"digits-{name}.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as file:
            if str(file["stamp"]) == name and len(file["points"]) == len(images):
                return Embedding(file["points"], file["bound"])
    embedding = _train(images, is_test, settings, progress)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part, open(part, "wb") as file:
        np.savez(file, points=embedding.points, bound=embedding.bound, stamp=np.array(name))
    return embedding


def _train(
    images: np.ndarray, is_test: np.ndarray, settings: VaeSettings, progress: bool | None
) -> Embedding:
    try:
        import torch
    except ImportError:
        raise ImportError(
            "Training the autoencoder needs PyTorch: pip install -r reproduction/requirements.txt."
        ) from None

    # One thread: sums in one order give one embedding, and such small matrices gain nothing.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _fit(images, is_test, settings, progress)
    finally:
        torch.set_num_threads(threads)


def _fit(
    images: np.ndarray, is_test: np.ndarray, settings: VaeSettings, progress: bool | None
) -> Embedding:
    import torch

    generator = torch.Generator().manual_seed(settings.seed)
    pixels = torch.from_numpy(images).float() / 255
    train = pixels[torch.from_numpy(~is_test)]
    weights = _initial_weights(pixels.shape[1], settings, generator)
    optimiser = torch.optim.Adam(weights.values(), lr=settings.learning_rate)
    bound = np.zeros(settings.epochs)
    for epoch in track(
        range(settings.epochs), "training the autoencoder", progress=progress, unit="epochs"
    ):
        order = torch.randperm(len(train), generator=generator)
        for rows in order.split(settings.batch):
            y = train[rows]
            noise = torch.randn((len(rows), settings.latent), generator=generator)
            loss = _negative_bound(y, noise, weights)
            optimiser.zero_grad()
            (loss / len(rows)).backward()
            optimiser.step()
            bound[epoch] -= float(loss.detach()) / len(train)
    with torch.no_grad():
        points = [_encode(part, weights)[0] for part in pixels.split(10_000)]
    return Embedding(torch.cat(points).numpy().astype(np.float32), bound)


def _initial_weights(n_pixels: int, settings: VaeSettings, generator: Any) -> dict[str, Any]:
    import torch

    def layer(n_in: int, n_out: int) -> Any:
        # Glorot's scale keeps tanh units out of saturation at the start.
        scale = (2.0 / (n_in + n_out)) ** 0.5
        return (scale * torch.randn((n_in, n_out), generator=generator)).requires_grad_()

    sizes = {
        "hidden": (n_pixels, settings.hidden),
        "mean": (settings.hidden, settings.latent),
        "log_var": (settings.hidden, settings.latent),
        "back": (settings.latent, settings.hidden),
        "pixels": (settings.hidden, n_pixels),
    }
    weights = {name: layer(*shape) for name, shape in sizes.items()}
    for name, shape in sizes.items():
        weights[f"{name}_bias"] = torch.zeros(shape[1], requires_grad=True)
    return weights


def _affine(x: Any, name: str, weights: dict[str, Any]) -> Any:
    import torch

    return torch.addmm(weights[f"{name}_bias"], x, weights[name])


def _encode(y: Any, weights: dict[str, Any]) -> tuple[Any, Any]:
    h = _affine(y, "hidden", weights).tanh()
    return _affine(h, "mean", weights), _affine(h, "log_var", weights)


def _negative_bound(y: Any, noise: Any, weights: dict[str, Any]) -> Any:
    """Negative evidence lower bound of a batch, one latent draw per digit."""
    import torch.nn.functional as F

    mean, log_var = _encode(y, weights)
    z = mean + (0.5 * log_var).exp() * noise
    logits = _affine(_affine(z, "back", weights).tanh(), "pixels", weights)
    reconstruction = F.binary_cross_entropy_with_logits(logits, y, reduction="sum")
    divergence = 0.5 * (log_var.exp() + mean**2 - 1 - log_var).sum()
    return reconstruction + divergence
