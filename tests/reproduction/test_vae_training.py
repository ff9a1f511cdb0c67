"""Training needs PyTorch: conftest leaves this file out where that is not installed."""

import numpy as np
from reproduction.vae import embed
from test_vae import SMALL, blobs


def test_training_separates_and_repeats(tmp_path):
    images, kind, is_test = blobs()
    first = embed(images, is_test, SMALL, folder=tmp_path / "a", progress=False)
    again = embed(images, is_test, SMALL, folder=tmp_path / "b", progress=False)
    assert np.array_equal(first.points, again.points)
    assert first.bound[-1] > first.bound[0] + 1
    centres = np.stack([first.points[kind == k].mean(axis=0) for k in (0, 1)])
    nearest = np.linalg.norm(first.points[:, None] - centres, axis=2).argmin(axis=1)
    # Test pictures too, which the training never saw.
    assert (nearest[is_test] == kind[is_test]).mean() > 0.95


def test_bound_is_that_of_a_slow_twin():
    import torch

    from reproduction import vae

    generator = torch.Generator().manual_seed(0)
    settings = SMALL._replace(hidden=4)
    weights = vae._initial_weights(16, settings, generator)
    y = torch.rand((3, 16), generator=generator)
    noise = torch.randn((3, 2), generator=generator)
    got = float(vae._negative_bound(y, noise, weights).detach())

    w = {k: v.detach().numpy().astype(float) for k, v in weights.items()}
    total = 0.0
    for row, eps in zip(y.numpy(), noise.numpy(), strict=True):
        h = np.tanh(row @ w["hidden"] + w["hidden_bias"])
        mean, log_var = h @ w["mean"] + w["mean_bias"], h @ w["log_var"] + w["log_var_bias"]
        z = mean + np.exp(0.5 * log_var) * eps
        p = 1 / (
            1 + np.exp(-(np.tanh(z @ w["back"] + w["back_bias"]) @ w["pixels"] + w["pixels_bias"]))
        )
        total -= np.sum(row * np.log(p) + (1 - row) * np.log(1 - p))
        total += 0.5 * np.sum(np.exp(log_var) + mean**2 - 1 - log_var)
    assert abs(got - total) < 1e-3 * abs(total)
