"""What every model of the command line has in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cavity.cli import folder as files
from cavity.cli.errors import UserError
from cavity.cli.record import in_options
from cavity.cli.tables import Choice, read_table

# Settings of a run that are about reading and writing, and not the estimator's.
NOT_OF_ESTIMATORS = ("freq", "forecast")


@contextmanager
def speaking_of_options() -> Iterator[None]:
    """Errors of the estimators in the words of the command line."""
    try:
        yield
    except ValueError as error:
        raise UserError(in_options(str(error))) from error


@dataclass(frozen=True)
class Model:
    """A model of the command line.

    Attributes
    ----------
    name : str
        As ``--model`` has it.
    estimator : str
        Its class in `cavity`.
    noun : {"row", "series"}
        What is clustered.
    options : tuple of str
        Options of this model that not every model has.
    """

    name: str
    estimator: str
    noun: str
    options: tuple[str, ...]

    def make(self, settings: Mapping[str, Any], **run: Any) -> Any:
        """An estimator with these settings."""
        import cavity

        given = {name: value for name, value in settings.items() if name not in NOT_OF_ESTIMATORS}
        return getattr(cavity, self.estimator)(**given, **run)

    def refuse_few(self, n: int, settings: Mapping[str, Any]) -> None:
        """Refuse more clusters than there are things to cluster."""
        n_clusters = settings.get("n_clusters", 10)
        if n < n_clusters and settings.get("prior") not in ("dp", "pitman-yor"):
            noun = self.noun if self.noun == "series" else f"{self.noun}s"
            raise UserError(
                f"There are {n} {noun}, fewer than --clusters {n_clusters}; lower --clusters, or "
                "use --prior dp."
            )

    def load(self, run: Path) -> Any:
        """The fitted estimator of a run, from its folder alone."""
        import cavity

        return getattr(cavity, self.estimator).load(run / files.POSTERIOR)

    def title(self, source: str) -> str:
        """Of the report."""
        return f"Clusters of {source}"

    def heading(self, estimator: Any) -> str:
        """What to say before the summary."""
        return ""

    def furthest(self, estimator: Any, table: Any) -> list[str] | None:
        """In which column each observation lies furthest out, where that is known."""
        return None

    def open(self, data: Path, choice: Choice) -> Any:
        """What of a file is meant."""
        return self.read(read_table(data, choice), choice)  # type: ignore[attr-defined]

    def shown(self, selection: Any, estimator: Any) -> Any:
        """The rows that pictures and tables show."""
        return selection.table

    def place(self, estimator: Any, selection: Any, out: Path) -> None:
        """Write what is known of every row, where tables in memory do not have it."""
