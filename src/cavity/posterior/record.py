"""How a run was made, typed: what a saved posterior tells of its estimator, and gives back."""

from __future__ import annotations

import dataclasses
import importlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cavity.priors.specifications import SPECIFICATIONS

# Classes of settings that can be written down and made again, and their modules, imported when a
# file has one.
_HOMES = {
    **dict.fromkeys(SPECIFICATIONS, "cavity.priors.specifications"),
    "ClusterPrior": "cavity.priors.cluster_prior",
    "SeriesPrior": "cavity.priors.series",
    "Loss": "cavity.posterior.losses",
}


# Among the details: the number of rows, where the kept weights are those expected given the sizes.
ROWS_BEHIND_WEIGHTS = "rows_behind_weights"
# What the labels number, where it is not clusters.
LEVEL = "level"
# Label of rows outside every cluster, in answers.
NOISE_LABEL = -1
# Among the draws: the natural parameters of the prior of cluster parameters, and the weight of rows
# outside every cluster, where noise is allowed.
CLUSTER_PRIOR, NOISE_WEIGHT = "cluster_prior", "noise_weight"
# Among the summaries, where the search for the point estimate was stopped: labels of the best draw.
BEST_DRAW = "best_draw"
# Also there: the point estimate, and whether the chains agree.
ESTIMATE, CONVERGED = "estimate", "converged"
# Of the rows: digest of the data, weights, known labels (the slot of each row, and what slots stand
# for), and in a fit over shards which rows are followed and their values.
DATA, WEIGHTS, KNOWN, KNOWN_NAMES = "data", "sample_weight", "known", "known_names"
# Standard errors of the continuous cells, the steps that values were recorded with, in the model's
# units, and the ranges of noise.
ERRORS, STEPS, NOISE_BOX = "errors", "recording_steps", "noise_box"
FOLLOWED, VALUES = "followed_rows", "followed_values"


@dataclass(frozen=True)
class RunRecord:
    """One run of an estimator.

    Attributes
    ----------
    model : str
        Name of the estimator's class.
    settings : mapping
        The constructor's parameters, as they were given.
    noun : {"row", "series"}
        What one observation is called.
    columns : tuple of str
        Names of the columns, made up where the data had none.
    columns_named : bool
        Whether the data had names.
    max_clusters : int or None
        Most clusters that the prior allows; None if it is open.
    n_sweeps, n_warmup, thin : int
        Sweeps of each chain, how many of these came before the first draw, and sweeps per draw.
    stopped : {"n_draws", "converged", "modes", "max_sweeps", "max_seconds", "interrupted", ""}
        Why it ended: the draws that were asked for are there, the chains agree, they do not move
        between modes, a limit of sweeps or of time, Ctrl-C; empty if it is not known.
    set_aside : tuple of mappings
        Chains that have no part in the draws: ``chain``, its number from 0; ``below``, by how many
        nats the mass of where it ended is lower at the least; ``n_clusters``, how many there.
    unvisited : tuple of mappings
        Modes that short runs found before the chains began and that no chain came to:
        ``n_clusters``; ``runs``, how many runs ended there; ``below``, by how many nats the mass is
        lower than the best mode's, at the least and at the most.
    seed : int or None
        Entropy that all chains were spawned from; with it a run can be repeated.
    versions : mapping of str to str
        Of cavity, NumPy and Python.
    components : mapping of str to list of str
        Names of the components of cluster parameters, where these are not the columns.
    noise : bool
        Whether label 0 of the draws is that of rows outside every cluster.
    details : mapping
        What the model wants to say of its data, such as the first and last time of series.
    """

    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    noun: str = "row"
    columns: tuple[str, ...] = ()
    columns_named: bool = False
    max_clusters: int | None = None
    n_sweeps: int = 0
    n_warmup: int = 0
    thin: int = 1
    stopped: str = ""
    set_aside: tuple[Mapping[str, Any], ...] = ()
    unvisited: tuple[Mapping[str, Any], ...] = ()
    seed: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    components: Mapping[str, list[str]] = field(default_factory=dict)
    noise: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C stopped it before its end."""
        return self.stopped == "interrupted"

    @property
    def precision(self) -> str:
        """Precision that was asked for."""
        return str(self.settings.get("precision", "report"))

    def to_json(self) -> str:
        """As text; what `from_json` takes."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        plain["settings"] = {name: encode(value) for name, value in self.settings.items()}
        plain["details"] = {name: encode(value) for name, value in self.details.items()}
        plain["seed"] = None if self.seed is None else str(self.seed)
        plain["columns"] = list(self.columns)
        plain["components"] = {name: list(parts) for name, parts in self.components.items()}
        for name in _FACTS:
            plain[name] = [dict(facts) for facts in plain[name]]
        return json.dumps(plain)

    @classmethod
    def from_json(cls, text: str) -> RunRecord:
        """The record that `to_json` wrote; ValueError if it is none."""
        try:
            plain = json.loads(text)
            known = {f.name for f in dataclasses.fields(cls)}
            if not isinstance(plain, dict) or not set(plain) <= known:
                raise ValueError("it has other fields")
            for name in ("settings", "details"):
                plain[name] = {k: decode(v) for k, v in plain[name].items()}
            plain["seed"] = None if plain["seed"] is None else int(plain["seed"])
            plain["columns"] = tuple(map(str, plain["columns"]))
            for name in _FACTS:
                plain[name] = tuple(dict(facts) for facts in plain[name])
            record = cls(**plain)
            for f, kind in _KINDS.items():
                if not isinstance(getattr(record, f), kind):
                    raise ValueError(f"its {f} is a {type(getattr(record, f)).__name__}")
            return record
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"the record of the run is damaged: {error}") from error


_FACTS = ("set_aside", "unvisited")
_KINDS: dict[str, Any] = {
    "model": str,
    "noun": str,
    "columns_named": bool,
    "max_clusters": int | None,
    "n_sweeps": int,
    "n_warmup": int,
    "thin": int,
    "stopped": str,
    "noise": bool,
    "versions": dict,
    "components": dict,
}


def versions() -> dict[str, str]:
    """Versions that a run was made with."""
    from cavity import __version__

    return {
        "cavity": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


class Described(str):
    """The text of a setting that was an object and could not be kept itself."""


def encode(value: Any) -> Any:
    """A setting as plain JSON values, such that `decode` gives it back.

    Examples
    --------
    >>> decode(encode(np.array([1.0, 2.0])))
    array([1., 2.])
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, tuple):
        return {"tuple": [encode(part) for part in value]}
    if isinstance(value, list):
        return [encode(part) for part in value]
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, Described):
        return {"text": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {"dict": {str(k): encode(v) for k, v in value.items()}}
    if _HOMES.get(type(value).__name__) == type(value).__module__:
        fields = dataclasses.fields(value)
        return {
            "specification": type(value).__name__,
            "fields": {f.name: encode(getattr(value, f.name)) for f in fields},
        }
    # A generator, a path, an object of the user's: its text says what it was.
    return {"text": str(value)}


def decode(value: Any) -> Any:
    """What `encode` was given; a text where the value itself could not be kept."""
    if isinstance(value, list):
        return [decode(part) for part in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        dtype = np.dtype(value["dtype"])
        if dtype.hasobject:
            raise ValueError("an array of objects")
        return np.array(value["array"], dtype=dtype)
    if "tuple" in value:
        return tuple(decode(part) for part in value["tuple"])
    if "float" in value:
        return float(value["float"])
    if "dict" in value:
        return {k: decode(v) for k, v in value["dict"].items()}
    if "specification" in value:
        name = value["specification"]
        cls = getattr(importlib.import_module(_HOMES[name]), name)
        return cls(**{k: decode(v) for k, v in value["fields"].items()})
    return Described(value["text"])
