"""Categories of warnings, which can be silenced separately."""

from __future__ import annotations


class NotConvergedWarning(UserWarning):
    """The chains of a fit have not been shown to agree; results may change with more draws.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", NotConvergedWarning)
    """


class CoarseColumnsWarning(UserWarning):
    """Columns with few distinct values, or one dominant value, which a density cannot describe."""


class WeightsWarning(UserWarning):
    """Rows with so large a weight that a cluster may collapse onto one of them."""


class ColumnsNote(UserWarning):
    """Columns of a table that may be meant as another kind."""


class ClusterLimitWarning(UserWarning):
    """Draws have as many clusters as `n_clusters` allows, so the limit may decide their number."""
