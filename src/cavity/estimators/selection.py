"""Checks of fits that learn which columns matter."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.collapse.problems import DIAGONAL
from cavity.estimators.validation import check_flag
from cavity.io.columns import OVERDISPERSED, Column
from cavity.predict.noise import asks_for_noise

_AFTER = "Without select_columns, column_relevance() computes marginal odds after the fit."


def check_selection(estimator: Any) -> None:
    """Refuse settings under which columns cannot have indicators."""
    check_flag("select_columns", estimator.select_columns)
    if not estimator.select_columns:
        return
    if estimator.collapse not in ("collapsed", "auto"):
        raise ValueError(
            f"select_columns=True needs collapse='collapsed', not {estimator.collapse!r}."
        )
    if asks_for_noise(estimator.noise):
        raise ValueError(
            "noise=True is not supported with select_columns=True. Leave noise at 'auto', which "
            "assigns every row to a cluster here."
        )
    if not estimator._mixed and estimator.covariance_type != DIAGONAL:
        raise ValueError(
            "select_columns=True needs columns that are independent within clusters: "
            f"covariance_type='diag', not {estimator.covariance_type!r}. {_AFTER}"
        )


def check_selected(
    parts: tuple[Any, ...],
    columns: list[Column],
    weight: np.ndarray | None,
    covariance_type: str,
) -> None:
    """Refuse data whose columns cannot have indicators."""
    if weight is not None:
        raise ValueError(
            "sample_weight is not supported with select_columns=True. Leave one of them out."
        )
    over = [column.name for column in columns if column.kind == OVERDISPERSED]
    if over:
        raise ValueError(
            f"Column {over[0]!r} has overdispersed counts, which select_columns=True does not "
            f"support. Use feature_types={{{over[0]!r}: 'count'}}."
        )
    if not any(getattr(part, "select", False) for part in parts):
        raise ValueError(
            "select_columns=True needs columns that are independent within clusters, and all "
            f"columns are measurements with covariance_type={covariance_type!r}. Use "
            f"covariance_type='diag'. {_AFTER}"
        )
