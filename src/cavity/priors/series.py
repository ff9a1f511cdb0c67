"""Priors of the parameters of the series model."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

_MEANING = {
    "a": "mean and standard deviation, or a standard deviation, shape and scale",
    "loading": "mean and standard deviation, or a standard deviation, shape and scale",
    "common": "mean and standard deviation, or a standard deviation, shape and scale",
    "var_x": "shape and scale, both positive",
    "var_y": "shape and scale, both positive",
    "var_x0": "shape and scale, both positive",
    "intercept": "standard deviation, shape and scale, all positive",
    "beta": "standard deviation, shape and scale, all positive",
}
_LOCATED = ("a", "loading", "common")  # a known mean and standard deviation, or learned ones
# What the numbers may be; beyond, sums of squares lose their digits or overflow.
_LEAST, _MOST = 1e-12, 1e12


@dataclass(frozen=True)
class SeriesPrior:
    """Priors of a `SeriesMixture`, in units of the data's standard deviation or variance.

    Parameters
    ----------
    a, loading, common : (float, float, float) or (float, float)
        Three numbers: mean and variance of the series' values, a_i ~ N(m, v) truncated to (-1, 1),
        loading_i ~ N(m, v) and common_i ~ N(m, v), are learned: standard deviation of m's normal
        prior around zero (truncated likewise), then shape and scale of v's inverse gamma prior.
        Two numbers: mean and standard deviation are known; for a, a standard deviation of infinity
        makes it uniform. Loadings in units of the data's standard deviation.
    var_x, var_y, var_x0 : (float, float)
        Shape and scale of inverse gamma distributions, in units of the data's variance. var_x0 is
        that of the states before the first time.
    intercept, beta : (float, float, float)
        For the coefficients beta_ij ~ N(m_j, v_j): standard deviation of m_j's normal prior around
        zero, then shape and scale of v_j's inverse gamma prior, in standardized units.

    Examples
    --------
    >>> SeriesPrior(a=(0.0, 0.5)).loading
    (1.0, 2.0, 0.25)
    """

    a: tuple[float, ...] = (1.0, 1.0, 0.0001)
    loading: tuple[float, ...] = (1.0, 2.0, 0.25)
    var_x: tuple[float, float] = (1.0, 0.01)
    var_y: tuple[float, float] = (1.0, 0.1)
    intercept: tuple[float, float, float] = (1.0, 1.0, 0.05)
    beta: tuple[float, float, float] = (1.0, 2.0, 0.1)
    var_x0: tuple[float, float] = (2.0, 1.0)
    common: tuple[float, ...] = (1.0, 2.0, 0.05)

    def __post_init__(self) -> None:
        for field in fields(self):
            numbers = _numbers(field.name, getattr(self, field.name), len(field.default))  # type: ignore[arg-type]
            object.__setattr__(self, field.name, numbers)


def _numbers(name: str, value: Any, size: int) -> tuple[float, ...]:
    try:
        numbers = tuple(float(v) for v in value)
    except (TypeError, ValueError):
        numbers = ()
    # The first of two numbers is a mean, of any sign.
    located = name in _LOCATED and len(numbers) == 2
    good = len(numbers) == size or located
    for at, number in enumerate(numbers if good else ()):
        if located and at == 0:
            good = good and abs(number) <= (10.0 if name == "a" else 1e6)
        else:
            uniform = located and name == "a" and number == np.inf
            good = good and (uniform or _LEAST <= number <= _MOST)
    if not good:
        count = "two or three" if name in _LOCATED else str(size)
        raise ValueError(
            f"the prior of {name} must hold {count} numbers ({_MEANING[name]}) "
            f"of reasonable size, not {value!r}."
        )
    return numbers
