"""From a model's units to those of the data: draws are kept as drawn, and converted when shown.

A model sees standardised values, whose squares neither overflow nor vanish and which single
precision holds well. Everything that computes from draws reads them in these units.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class ColumnUnits:
    """A table's: the model sees (x - centre) / scale, column by column."""

    centre: np.ndarray
    scale: np.ndarray

    def standardise(self, X: np.ndarray) -> np.ndarray:
        """Rows as the model sees them."""
        return np.ascontiguousarray((X - self.centre) / self.scale)

    @property
    def log_volume(self) -> float:
        """What the log density of a whole row loses on the way to the data's units."""
        return float(np.log(self.scale).sum())

    def log_volumes(self, X: np.ndarray) -> np.ndarray:
        """What each row's log density loses on the way from the model's units to the data's.

        It is that of the values that are there.
        """
        return np.where(np.isnan(X), 0.0, np.log(self.scale)).sum(axis=1)

    def convert(self, name: str, values: np.ndarray) -> np.ndarray:
        """Draws of a parameter in the data's units."""
        if name == "mean":
            return values * self.scale + self.centre
        if name in ("variance", "uniqueness"):
            return values * self.scale * self.scale
        if name == "loading":
            return values * self.scale[:, None]
        if name in ("covariance", "shared_covariance"):
            with np.errstate(over="ignore", under="ignore"):
                return values * self.scale * self.scale[:, None]
        return values


@dataclass(frozen=True)
class SeriesUnits:
    """Those of series: the model sees (y - centre) / scale, and covariates likewise.

    Scales are each series' own, or all the same; ``log_volume`` is what a log density loses per
    observation, on average.
    """

    centre: float
    scale: np.ndarray
    covariate_centre: np.ndarray
    covariate_scale: np.ndarray
    intercept: bool
    log_volume: float

    def convert(self, name: str, values: np.ndarray) -> np.ndarray:
        """Draws of a parameter in the data's units; one that all share becomes each series' own."""
        if name in ("loading", "common", "state_last"):
            return values.astype(float) * self.scale
        if name in ("loading_mean", "loading_sd", "common_mean", "common_sd"):
            return values[..., None].astype(float) * self.scale
        if name == "var_y":
            return values.astype(float) * self.scale * self.scale
        if name in ("var_x", "var_x0"):
            return values[..., None].astype(float) * self.scale * self.scale
        if name == "trend":
            return values.astype(float) * self.scale[:, None] + self.centre
        if name == "beta":
            return self.coefficients(values)
        return values

    def coefficients(self, beta: np.ndarray) -> np.ndarray:
        """Coefficients (..., p) in the data's units, the intercept first."""
        out = np.array(beta, dtype=float)
        first = int(self.intercept)
        out[..., first:] *= self.scale[:, None] / self.covariate_scale
        if self.intercept:
            out[..., 0] = self.centre + self.scale * out[..., 0]
            out[..., 0] -= out[..., 1:] @ self.covariate_centre
        return out


Units = ColumnUnits | SeriesUnits
_CLASSES: dict[str, Any] = {"columns": ColumnUnits, "series": SeriesUnits}


def to_arrays(units: Units) -> tuple[str, dict[str, np.ndarray]]:
    """Kind and arrays of some units, for a file."""
    kind = next(name for name, cls in _CLASSES.items() if type(units) is cls)
    return kind, {name: np.asarray(value) for name, value in vars(units).items()}


def from_arrays(kind: str, arrays: Mapping[str, np.ndarray]) -> Units:
    """Units from what `to_arrays` gave."""
    if kind not in _CLASSES:
        raise ValueError(f"units of an unknown kind, {kind!r}")
    return _CLASSES[kind](
        **{k: np.array(v, float) if np.ndim(v) else np.asarray(v).item() for k, v in arrays.items()}
    )


class Converted(Mapping[str, np.ndarray]):
    """Parameters by name in the data's units, each converted when first asked for."""

    def __init__(self, drawn: Mapping[str, np.ndarray], units: Units | None) -> None:
        self._drawn = drawn
        self._units = units
        self._done: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if self._units is None:
            return self._drawn[name]
        if name not in self._done:
            converted = self._units.convert(name, self._drawn[name])
            if converted is self._drawn[name]:
                return converted
            self._done[name] = converted
        return self._done[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._drawn)

    def __len__(self) -> int:
        return len(self._drawn)

    def __repr__(self) -> str:
        return f"<parameters {', '.join(self._drawn)}>"
