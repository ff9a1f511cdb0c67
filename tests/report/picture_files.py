"""What a picture on disk shows: its size in pixels and the colours in it."""

from __future__ import annotations

import matplotlib.image
import numpy as np
from matplotlib.colors import rgb_to_hsv, to_rgb


def pixels(path):
    """The picture as bytes, (height, width, 3); fails on what is no PNG."""
    return np.round(255 * matplotlib.image.imread(path)[:, :, :3]).astype(np.uint8)


def shape_of(path):
    """Height and width in pixels."""
    return pixels(path).shape[:2]


def colours_in(path, at_least=20):
    """Colours that cover so many pixels or more: lines and areas, not the edges of letters."""
    found, counts = np.unique(pixels(path).reshape(-1, 3), axis=0, return_counts=True)
    return {tuple(map(int, colour)) for colour in found[counts >= at_least]}


def rgb(colour):
    """Three bytes of a colour's name or code."""
    return tuple(round(255 * part) for part in to_rgb(colour))


def share_of_hue(path, colour):
    """The share of pixels of a colour's hue, however transparently it was laid on white."""
    hue, saturation, _ = np.moveaxis(rgb_to_hsv(pixels(path) / 255), -1, 0)
    wanted = rgb_to_hsv(to_rgb(colour))[0]
    return float(((np.abs(hue - wanted) < 0.02) & (saturation > 0.2)).mean())
