"""Categories of warnings, so that each can be silenced by itself."""

from __future__ import annotations


class NotConvergedWarning(UserWarning):
    """The chains of a fit are not shown to agree; the answer may change with more draws.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", NotConvergedWarning)
    """


class CoarseColumnsWarning(UserWarning):
    """Columns of few values, or of one value in many rows, which a density has no use for."""


class WeightsWarning(UserWarning):
    """Rows with so large a weight that a cluster may close in on one of them."""


class ColumnsNote(UserWarning):
    """Columns of a table that might be taken for something else than they were."""


class ClusterLimitWarning(UserWarning):
    """Draws have as many clusters as `n_clusters` allows, so it may decide how many there are."""
