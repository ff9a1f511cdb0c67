"""Options of the command line, generated from the estimators' documented parameters.

Parameters are read from the source of the estimators, without importing them: help stays fast.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

import cavity
from cavity.cli.errors import UserError

ESTIMATORS = {
    "student-t": "StudentTMixture",
    "gaussian": "GaussianMixture",
    "table": "TableMixture",
    "series": "SeriesMixture",
}
AUTO = "auto"
# Set by other options, or of no use outside Python.
_NOT_OPTIONS = ("n_jobs", "progress", "checkpoint", "warm_start", "feature_types")
# Settings of a run that the tables written need, and not the estimator.
TABLE_SETTINGS = ("freq", "forecast")
_RENAMED = {"random_state": "seed", "feature_types": "types", "covariance_type": "covariance"}
# Words that the command line has instead of None.
_NONE_WORDS = {"df": "For series also gaussian."}
# Groups of `cavity fit --help`; parameters that are not listed here are about the model.
_GROUPS = {
    "Sampling": (
        "n_chains", "n_warmup", "n_draws", "thin", "max_sweeps", "max_seconds", "precision",
        "random_state",        "init", "collapse",
    ),
    "Priors": ("prior", "concentration"),
}  # fmt: skip


def option(parameter: str) -> str:
    """Return the option for a parameter of the estimators.

    Examples
    --------
    >>> option("n_clusters"), option("random_state"), option("max_sweeps")
    ('--clusters', '--seed', '--max-sweeps')
    """
    name = _RENAMED.get(parameter, parameter.removeprefix("n_"))
    return f"--{name.replace('_', '-')}"


# ---------------------------------------------------------------- the estimators' parameters


@dataclass(frozen=True)
class Parameter:
    """A parameter of one or more estimators.

    Attributes
    ----------
    name : str
    kind : str
        Its type, as the docstrings of the estimators state it.
    help : str
        First sentence of its description.
    models : tuple of str
        Models, as ``--model`` names them, that have it.
    """

    name: str
    kind: str
    help: str
    models: tuple[str, ...]

    @property
    def is_flag(self) -> bool:
        """Whether it is given as ``--name`` or ``--no-name``."""
        return self.kind.startswith("bool")

    @property
    def words(self) -> list[str]:
        """Values that are words."""
        return list(dict.fromkeys(re.findall(r'"([\w+-]+)"', self.kind)))

    @property
    def is_option(self) -> bool:
        """Whether its values can be written on a command line."""
        written = self.words or re.match(r"(int|float|bool)\b", self.kind)
        return bool(written) and self.name not in _NOT_OPTIONS

    def value(self, text: str) -> Any:
        """Return the value of a text; the estimator checks it."""
        for number in (int, float):
            if re.search(rf"\b{number.__name__}\b", self.kind):
                with suppress(ValueError):
                    if math.isfinite(value := number(text)):
                        return value
        if self.words or not re.search(r"\b(int|float)\b", self.kind):
            return text
        raise UserError(f"{option(self.name)} must be a number, not {text!r}.")


@cache
def parameters() -> dict[str, Parameter]:
    """Return the parameters of all estimators that are options, in the order of their docstrings.

    Examples
    --------
    >>> parameters()["season"].models
    ('series',)
    """
    found: dict[str, Parameter] = {}
    models: dict[str, list[str]] = {}
    for model, estimator in ESTIMATORS.items():
        for name, kind, text in _documented(estimator):
            models.setdefault(name, []).append(model)
            if kind:
                first = found.get(name, Parameter(name, "", text, ()))
                found[name] = Parameter(name, f"{first.kind} {kind}".strip(), first.help, ())
    return {
        name: Parameter(name, known.kind, known.help, tuple(models[name]))
        for name, known in found.items()
        if known.is_option
    }


def _documented(estimator: str) -> Iterator[tuple[str, str, str]]:
    """Name, type and first sentence of each parameter in the docstring of an estimator."""
    module = cavity._HOME[estimator].removeprefix("cavity.").replace(".", "/")
    source = Path(cavity.__file__).parent / f"{module}.py"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    node = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == estimator)
    section = (ast.get_docstring(node) or "").partition("Parameters\n----------\n")[2]
    section = section.partition("\n\n")[0]
    for head, body in re.findall(r"^(\w.*)\n((?:[ ]+.*(?:\n|$))+)", section, re.MULTILINE):
        names, _, kind = head.partition(" : ")
        text = re.sub(r"[`\"]", "", " ".join(body.split()))
        sentence = re.split(r"(?<=[^.]{3})[.;] ", text)[0].rstrip(".")
        for name in names.split(", "):
            yield name.strip(), kind.strip(), sentence


def options_of(model: str) -> set[str]:
    """Return the options that a model has and others may not have; "auto" has those of two."""
    names = ("student-t", "table") if model == AUTO else (model,)
    return {name for name, models in _owners().items() if set(models) & set(names)}


@cache
def _owners() -> dict[str, tuple[str, ...]]:
    """Models of every option that does not go with all of them."""
    owners = {option(p.name): p.models for p in parameters().values()}
    owners |= {_written(part.name): part.metadata["models"] for part in fields(Choice)}
    owners |= dict.fromkeys(("--covariates", "--freq", "--forecast"), ("series",))
    return {name: models for name, models in owners.items() if len(models) < len(ESTIMATORS)}


def refuse_others(given: Iterable[str], model: str) -> None:
    """Refuse options that do not go with the model."""
    for name in sorted(given):
        if name in _owners() and name not in options_of(model):
            raise UserError(
                f"{name} goes with --model {' or '.join(_owners()[name])} only; leave it out or "
                "change --model."
            )


@cache
def _spoken() -> dict[str, str]:
    """Options that replace names of parameters in messages."""
    extra = ("n_jobs", "feature_types", "freq")
    return {name: option(name) for name in (*parameters(), *extra)}


def in_options(text: str) -> str:
    """Rewrite a message about parameters of the estimators in terms of options.

    Examples
    --------
    >>> in_options("n_draws must be an integer of at least 1, not 0. Use prior='dp'.")
    '--draws must be an integer of at least 1, not 0. Use --prior dp.'
    """
    named = _spoken()
    every = "|".join(sorted(named, key=len, reverse=True))
    text = re.sub(rf"\b({every})=('?)([\w.-]*\w)\2", lambda m: f"{named[m[1]]} {m[3]}", text)
    text = re.sub(rf"^({every})(?= )", lambda m: named[m[1]], text)
    # Names that are no English words.
    coded = "|".join(name for name in named if "_" in name)
    return re.sub(rf"\b({coded})\b", lambda m: named[m[1]], text)


@contextmanager
def speaking_of_options() -> Iterator[None]:
    """Raise errors of the estimators as `UserError`, in terms of options."""
    try:
        yield
    except ValueError as error:
        raise UserError(in_options(str(error))) from error


# ---------------------------------------------------------------- what to read of a file

ROWS = ("student-t", "gaussian", "table")
EVERY = tuple(ESTIMATORS)


def _reads(help: str, models: tuple[str, ...] = EVERY, metavar: str = "TEXT", default: Any = None):
    return field(default=default, metadata={"help": help, "models": models, "metavar": metavar})


@dataclass(frozen=True)
class Choice:
    """Which part of a file to read, and how it is written.

    Attributes
    ----------
    columns : tuple of str
        Columns to cluster by, or covariates of series; by default all columns that are not named
        otherwise (no covariates, for series).
    exclude : tuple of str
        Columns to leave out.
    id_column : str or None
        Column that names the rows.
    drop_missing : bool
        Leave out rows with missing values.
    types : tuple of str
        Kinds of columns, as ``name=kind``.
    log : tuple of str
        Columns to take the logarithm of.
    errors : str or None
        File with standard deviations of measurement errors, with columns named as in the table.
    errors_pattern : str or None
        Name of a column's errors in the table itself, with {} in place of the column's name.
    series, time, value : str or None
        Columns of a long table of series. A wide one, with a column per time, has `series` only.
    date_format, separator, encoding, decimal, thousands : str or None
        How the file is written.
    """

    columns: tuple[str, ...] = _reads(
        "Columns to cluster by, as a,b,c [default: all]", ROWS, "NAMES", ()
    )
    exclude: tuple[str, ...] = _reads("Columns to leave out, as a,b,c", EVERY, "NAMES", ())
    id_column: str | None = _reads("Column that names the rows.", ROWS, "NAME")
    drop_missing: bool = _reads(
        "Leave out rows with missing values instead of clustering them by the others.",
        ROWS,
        default=False,
    )
    types: tuple[str, ...] = _reads(
        "table: kinds of columns, as visits=count,grade=ordinal; continuous, ordinal, categorical, "
        "count or overdispersed.",
        ("table",),
        "NAME=KIND,...",
        (),
    )
    log: tuple[str, ...] = _reads(
        "Columns to take the logarithm of, as a,b,c: amounts with a long tail. For a wide table of "
        "series: value.",
        EVERY,
        "NAMES",
        (),
    )
    errors: str | None = _reads(
        "File with standard deviations of measurement errors: columns named as in the table, rows "
        "in the same order.",
        ROWS,
        "FILE",
    )
    errors_pattern: str | None = _reads(
        "Names of columns with measurement errors in the table itself, such as {}_err.",
        ROWS,
        "PATTERN",
    )
    series: str | None = _reads("series: column that names the series.", ("series",), "NAME")
    time: str | None = _reads(
        "series: column of times; a table without one has a column per time.", ("series",), "NAME"
    )
    value: str | None = _reads("series: column of values.", ("series",), "NAME")
    date_format: str | None = _reads(
        "series: how dates are written, such as %d/%m/%Y.", ("series",), "FORMAT"
    )
    separator: str | None = _reads("Field separator of a CSV: one character, or tab.")
    encoding: str | None = _reads("Encoding of a CSV, such as latin-1 [default: utf-8]")
    decimal: str | None = _reads("Decimal mark of a CSV, such as ',' [default: .]")
    thousands: str | None = _reads("Mark between groups of three digits, such as '.'")


def split_names(text: str | None) -> tuple[str, ...]:
    """Split names at commas.

    Examples
    --------
    >>> split_names("height, weight")
    ('height', 'weight')
    """
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def choice_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `Choice` among the options given, lists of names split."""
    known = {part.name: part.default for part in fields(Choice) if part.name in given}
    return {
        name: split_names(given[name]) if isinstance(default, tuple) else given[name]
        for name, default in known.items()
    }


def settings_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run among the options given; None where one was left out."""
    out: dict[str, Any] = {name: given[name] for name in TABLE_SETTINGS}
    for name, parameter in parameters().items():
        text = given[name]
        out[name] = parameter.value(text) if isinstance(text, str) else text
    return out


# ---------------------------------------------------------------- typer


def _written(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _choice_option(name: str) -> inspect.Parameter:
    part = next(part for part in fields(Choice) if part.name == name)
    about = part.metadata
    group = "Series" if about["models"] == ("series",) else "Reading the table"
    if isinstance(part.default, bool):
        made = typer.Option(_written(name), help=about["help"], rich_help_panel=group)
        return _keyword(name, Annotated[bool, made], False)
    made = typer.Option(
        _written(name), help=about["help"], metavar=about["metavar"], rich_help_panel=group
    )
    return _keyword(name, Annotated[str | None, made])


def _parameter_option(parameter: Parameter) -> inspect.Parameter:
    name, only = parameter.name, parameter.models
    group = next((group for group, names in _GROUPS.items() if name in names), "Model")
    group = "Series" if only == ("series",) else group
    text = in_options(f"{parameter.help}. {_NONE_WORDS.get(name, '')}".strip())
    if len(only) < 3:
        text = f"{', '.join(only)}: {text[0].lower()}{text[1:]}"
    declared = dict.fromkeys((option(name), _written(name)))
    if parameter.is_flag:
        pair = f"{option(name)}/--no-{name.replace('_', '-')}"
        made = typer.Option(pair, help=text, rich_help_panel=group)
        return _keyword(name, Annotated[bool | None, made])
    number = re.search(r"\b(int|float)\b", parameter.kind)
    shown = "|".join([*(["NUMBER"] if number else []), *parameter.words])
    made = typer.Option(*declared, help=text, metavar=shown, rich_help_panel=group)
    return _keyword(name, Annotated[str | None, made])


def _keyword(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def with_options(
    choice: Iterable[str] = (), estimators: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace ``**options`` of a command by options of `Choice` and of the estimators.

    Parameters
    ----------
    choice : iterable of str
        Names of fields of `Choice`.
    estimators : bool
        Whether to add the parameters of the estimators.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        made = [_choice_option(name) for name in choice]
        if estimators:
            made += [_parameter_option(p) for p in parameters().values()]
        own = [p.replace(kind=p.KEYWORD_ONLY) for p in own]
        command.__signature__ = signature.replace(parameters=[*own, *made])  # type: ignore[attr-defined]
        return command

    return decorate


class GroupedCommand(typer.core.TyperCommand):
    """A command whose help lists options in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then each group of options."""
        order = ("Arguments", "Options", "Reading the table", "Model", "Series", *_GROUPS)
        groups: dict[str, list[tuple[str, str]]] = {group: [] for group in order}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is None:
                continue
            default = "Arguments" if parameter.param_type_name == "argument" else "Options"
            group = getattr(parameter, "rich_help_panel", None) or default
            groups.setdefault(group, []).append(record)
        for group, records in groups.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)
