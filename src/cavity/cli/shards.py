"""Tables in shards: folders and patterns of Parquet files, and clusters to spread them over."""

from __future__ import annotations

import glob
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cavity.cli.errors import UserError
from cavity.cli.model_base import speaking_of_options
from cavity.cli.models import RowsModel, TableModel
from cavity.cli.series_model import SeriesModel
from cavity.cli.tables import Choice, types_of

if TYPE_CHECKING:
    import pandas as pd

    from cavity.distributed.sources import ParquetSource

ROWS = "rows"  # folder of a run with a file of results for each file of the data
PARALLEL = "parallel"
ID = "row"


def is_in_shards(data: Path, settings: Any, client: Any) -> bool:
    """Whether a table is to be read where it is needed, file by file."""
    if data.is_dir():
        return True
    if data.is_file():
        shared = client is not None or settings.get("collapse") == PARALLEL
        return shared and data.suffix in (".parquet", ".pq")
    return bool(glob.has_magic(str(data)))


def model_of(data: Path, choice: Choice) -> str:
    """The model of files, where none is asked for: by whether they have columns of text."""
    from cavity.distributed.sources import is_of_numbers, parquet_source

    if choice.types:
        return "table"
    source = parquet_source(data, choice.columns or None, choice.exclude, of_numbers=False)
    return "student-t" if is_of_numbers(source) else "table"


# Dask gives a place up for good that has no worker some seconds after a loss, be it because the
# next one was lost as well and is just being started again.
KEPT_WORKERS = {"distributed.deploy.lost-worker-timeout": "1 day"}


@contextmanager
def cluster(workers: int | None, scheduler: str | None) -> Iterator[Any]:
    """A client of a cluster that is started here, or joined; None where neither is asked for."""
    if workers is None and scheduler is None:
        yield None
        return
    option = "--workers" if scheduler is None else "--scheduler"
    if workers is not None and scheduler is not None:
        raise UserError(
            "--workers starts a cluster here and --scheduler joins one that is there; give one."
        )
    try:
        import dask

        from distributed import Client, LocalCluster
    except ImportError:
        raise UserError(f"{option} needs Dask: pip install 'cavity[dask]'.") from None
    if scheduler is not None:
        try:
            # Not the default of all: one that never answered would stay it.
            client = Client(scheduler, timeout=10, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise UserError(
                f"No Dask scheduler answers at {scheduler} ({type(error).__name__}); check the "
                "address, such as tcp://host:8786, and that it runs."
            ) from error
        with client:
            yield client
        return
    with (
        dask.config.set(KEPT_WORKERS),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as local,
        Client(local) as client,
    ):
        yield client


@dataclass(frozen=True)
class ShardSelection:
    """What is to be clustered, without having been read."""

    source: ParquetSource
    path: Path
    table: pd.DataFrame | None = None
    id_name: str = ID
    id_column: str | None = None
    n_dropped: int = 0

    @property
    def n_rows(self) -> int:
        """Rows of all files."""
        return sum(self.source.sizes)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.source.columns

    @property
    def digest(self) -> str:
        """Of the names, sizes and times of the files."""
        text = json.dumps(self.source.digest, sort_keys=True)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def refuse_written(choice: Choice, *more: str) -> None:
    """Refuse options that are about how text is written, and more that do not go with shards."""
    for name in ("separator", "encoding", "decimal", "thousands", "drop_missing", "log", *more):
        if getattr(choice, name):
            raise UserError(
                f"--{name.replace('_', '-')} does not go with Parquet files in shards; leave it "
                "out."
            )


@dataclass(frozen=True)
class ShardModel(RowsModel):
    """Rows of numbers in many files."""

    client: Any = field(default=None, compare=False)
    of_numbers: bool = True

    def open(self, data: Path, choice: Choice) -> Any:
        """Look at the files' footers."""
        from cavity.distributed.sources import parquet_source

        refuse_written(choice, "id_column")
        source = parquet_source(data, choice.columns or None, choice.exclude, self.of_numbers)
        return ShardSelection(source, data)

    def check(self, estimator: Any, selection: Any, choice: Choice, settings: Any) -> None:
        """Refuse settings and files that the estimator would refuse."""
        self.refuse_few(selection.n_rows, settings)
        with speaking_of_options():
            estimator.check(selection.path, columns=selection.columns)

    def size(self, selection: Any) -> str:
        """How much there is to cluster, in words."""
        n, d = selection.n_rows, len(selection.columns)
        n_files = len(selection.source.paths)
        files = "1 file" if n_files == 1 else f"{n_files:,} files"
        columns = "1 column" if d == 1 else f"{d} columns"
        return f"{n:,} rows and {columns} in {files}"

    def fit(
        self, estimator: Any, selection: Any, choice: Choice, settings: Any, client: Any = None
    ) -> None:
        """Sample."""
        estimator.fit(selection.path, client=client, columns=selection.columns)

    def shown(self, selection: Any, estimator: Any) -> Any:
        """The rows that are followed."""
        return followed_table(estimator)

    def place(self, estimator: Any, selection: Any, out: Path) -> None:
        """Write where every row belongs."""
        estimator.place(selection.path, out / ROWS, client=self.client)

    def written(self) -> list[tuple[str, str]]:
        """Files of a run and what is in them."""
        followed = "the same of the rows that are followed through all draws"
        return [
            (f"{ROWS}/", "each row's cluster, probabilities and log density, file by file"),
            *((name, followed if at == 0 else words) for at, (name, words) in
              enumerate(super().written())),
        ]  # fmt: skip


@dataclass(frozen=True)
class ShardTableModel(ShardModel, TableModel):
    """Rows of measurements, categories and counts in many files."""

    of_numbers: bool = False

    def check(self, estimator: Any, selection: Any, choice: Choice, settings: Any) -> None:
        """Refuse settings and files that the estimator would refuse."""
        estimator.feature_types = types_of(choice) or None
        super().check(estimator, selection, choice, settings)

    def fit(
        self, estimator: Any, selection: Any, choice: Choice, settings: Any, client: Any = None
    ) -> None:
        """Sample."""
        estimator.feature_types = types_of(choice) or None
        super().fit(estimator, selection, choice, settings, client)


@dataclass(frozen=True)
class ShardSeriesModel(SeriesModel):
    """Time series in many files: a row per series, a column per time."""

    client: Any = field(default=None, compare=False)

    def open(self, data: Path, choice: Choice) -> Any:
        """Look at the files' footers."""
        from cavity.distributed.sources import parquet_source

        refuse_written(choice, "id_column", "time", "value", "date_format", "columns")
        named = () if choice.series is None else (choice.series,)
        source = parquet_source(data, None, (*named, *choice.exclude))
        return ShardSelection(
            source, data, id_name=choice.series or self.noun, id_column=choice.series
        )

    def check(self, estimator: Any, selection: Any, choice: Choice, settings: Any) -> None:
        """Refuse settings that the estimator would refuse."""
        self.refuse_few(selection.n_rows, settings)
        if choice.exclude or settings.get("freq"):
            what = "--exclude" if choice.exclude else "--freq"
            raise UserError(f"{what} does not go with series in shards; leave it out.")
        with speaking_of_options():
            estimator.check(selection.path)

    def size(self, selection: Any) -> str:
        """How much there is to cluster, in words."""
        n_files = len(selection.source.paths)
        files = "1 file" if n_files == 1 else f"{n_files:,} files"
        return f"{selection.n_rows:,} series of {len(selection.columns):,} times in {files}"

    def fit(
        self, estimator: Any, selection: Any, choice: Choice, settings: Any, client: Any = None
    ) -> None:
        """Sample."""
        estimator.fit(selection.path, series=choice.series, client=client)

    def place(self, estimator: Any, selection: Any, out: Path) -> None:
        """Write where every series belongs."""
        named = selection.id_column
        estimator.place(selection.path, out / ROWS, series=named, client=self.client)

    def written(self) -> list[tuple[str, str]]:
        """Files of a run and what is in them."""
        followed = "of the series that are followed through all draws"
        return [
            (f"{ROWS}/", "each series' cluster and probabilities, file by file"),
            *((name, f"{words}, {followed}") for name, words in super().written()),
        ]


def followed_table(estimator: Any) -> pd.DataFrame | None:
    """The rows that a fit over shards has followed; None of any other fit."""
    import pandas as pd

    if hasattr(type(estimator), "followed_"):
        found: pd.DataFrame | None = estimator.followed_
        return found
    posterior = estimator.posterior_
    values = posterior.summaries.get("followed_values")
    if values is None:
        return None
    return pd.DataFrame(values, index=posterior.names, columns=list(posterior.record.columns))
