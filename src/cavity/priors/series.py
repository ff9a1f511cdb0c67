"""Priors of the series model's parameters, as a user states them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

import numpy as np

_MEANING = {
    "a": "mean and standard deviation",
    "loading": "mean and standard deviation",
    "var_x": "shape and scale, both positive",
    "var_y": "shape and scale, both positive",
    "intercept": "standard deviation, shape and scale, all positive",
    "beta": "standard deviation, shape and scale, all positive",
}
# What the numbers may be; beyond, sums of squares lose their digits or overflow.
_LEAST, _MOST = 1e-12, 1e12


@dataclass(frozen=True)
class SeriesPrior:
    """Priors of a `SeriesMixture`, in units of the data's standard deviation or variance.

    Parameters
    ----------
    a : (float, float)
        Mean and standard deviation of a normal, truncated to (-1, 1); a standard deviation of
        infinity makes it uniform.
    loading : (float, float)
        Mean and standard deviation of a normal, in units of the data's standard deviation.
    var_x, var_y : (float, float)
        Shape and scale of inverse gamma distributions, in units of the data's variance.
    intercept, beta : (float, float, float)
        For the coefficients beta_ij ~ N(m_j, v_j): standard deviation of m_j's normal prior around
        zero, then shape and scale of v_j's inverse gamma prior, in standardised units.
    var_x0 : float, optional
        Variance of the state before the first time, in the data's units; by default the variance
        of the data.

    Examples
    --------
    >>> SeriesPrior(a=(0.0, 0.5)).loading
    (0.0, 0.5)
    """

    a: tuple[float, float] = (0.9, 0.1)
    loading: tuple[float, float] = (0.0, 0.5)
    var_x: tuple[float, float] = (1.0, 0.01)
    var_y: tuple[float, float] = (1.0, 0.1)
    intercept: tuple[float, float, float] = (1.0, 2.0, 0.5)
    beta: tuple[float, float, float] = (1.0, 2.0, 0.1)
    var_x0: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name in _MEANING:
                numbers = _numbers(field.name, getattr(self, field.name), len(field.default))  # type: ignore[arg-type]
                object.__setattr__(self, field.name, numbers)
        value = self.var_x0
        if value is not None and not (isinstance(value, Real) and 0.0 < float(value) < np.inf):
            raise ValueError(f"var_x0 must be a positive number or None, not {value!r}.")


def _numbers(name: str, value: Any, size: int) -> tuple[float, ...]:
    try:
        numbers = tuple(float(v) for v in value)
    except (TypeError, ValueError):
        numbers = ()
    located = name in ("a", "loading")  # the first number is a mean, of any sign
    good = len(numbers) == size
    for at, number in enumerate(numbers if good else ()):
        if located and at == 0:
            good = good and abs(number) <= (10.0 if name == "a" else 1e6)
        else:
            uniform = name == "a" and number == np.inf
            good = good and (uniform or _LEAST <= number <= _MOST)
    if not good:
        raise ValueError(
            f"the prior of {name} must hold {size} numbers ({_MEANING[name]}) of reasonable size, "
            f"not {value!r}."
        )
    return numbers
