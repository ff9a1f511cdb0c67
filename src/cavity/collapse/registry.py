"""Registry of the collapses that each model supports.

    @supports("student-t", "ep")
    def _(problem, n_slots, options): ...

A problem is a frozen description of model, data and priors; ``assemble`` looks its class's
``model`` up here. ``options`` are those of the collapse, checked by the estimator.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from cavity.collapse.driver import AssembledModel


class Problem(Protocol):
    """A problem, as the registry uses it: the name of its model."""

    @property
    def model(self) -> str:
        """Name under which its collapses are registered."""


# Where each model's collapses are declared; the module is imported when first asked for.
HOMES = {
    "gaussian": "cavity.collapse.mixtures",
    "student-t": "cavity.collapse.mixtures",
    "scale-mixture": "cavity.collapse.contaminated",
    "structured": "cavity.collapse.structures",
    "series": "cavity.series.collapses",
    "categorical": "cavity.collapse.tables",
    "poisson": "cavity.collapse.tables",
    "negative-binomial": "cavity.collapse.tables",
    "own": "cavity.collapse.tables",
    "table": "cavity.collapse.tables",
}
Builder = Callable[[Any, int, Mapping[str, Any]], AssembledModel]
_BUILDERS: dict[tuple[str, str], Builder] = {}


def supports(model: str, collapse: str) -> Callable[[Builder], Builder]:
    """Register a function that assembles `model` under `collapse`."""

    def declare(builder: Builder) -> Builder:
        if (model, collapse) in _BUILDERS:
            raise ValueError(f"{model} already supports {collapse!r}")
        _BUILDERS[model, collapse] = builder
        return builder

    return declare


def collapses_of(model: str) -> tuple[str, ...]:
    """Names of the collapses that a model supports, in the order of their declaration.

    Examples
    --------
    >>> collapses_of("student-t")
    ('collapsed', 'ep', 'blocked', 'naive')
    """
    importlib.import_module(HOMES[model])
    return tuple(collapse for name, collapse in _BUILDERS if name == model)


def assemble(
    problem: Problem, collapse: str, n_slots: int, options: Mapping[str, Any] | None = None
) -> AssembledModel:
    """Assemble a problem under a collapse with `n_slots` slots for one chain."""
    importlib.import_module(HOMES[problem.model])
    return _BUILDERS[problem.model, collapse](problem, n_slots, options or {})
