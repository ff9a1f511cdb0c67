"""Local house price indices from single sales."""

from cavity.hedonic.index import HedonicIndex

__all__ = ["HedonicIndex"]
