"""Ways of dealing with cluster parameters: naive, conjugate (collapsed, blocked), EP."""

from cavity.collapse import selection

__all__ = ["selection"]
