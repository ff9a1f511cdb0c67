"""Small classic data sets with known groups, for comparisons."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cavity.datasets._files import (
    Prepared,
    Source,
    files_of,
    find_prepared,
    local_folder,
    obtain,
    read_rda,
    registry,
    table_digest,
)

if TYPE_CHECKING:
    import pandas as pd


class _Benchmark(NamedTuple):
    prepared: Prepared
    sources: tuple[Source, ...]
    build: Callable[[list[Path]], pd.DataFrame]  # from the public sources
    features: list[str] | None  # None: every column but the group's
    group: str | None
    digest: str


def _penguins(paths: list[Path]) -> pd.DataFrame:
    import pandas as pd

    return pd.read_csv(paths[0])


def _crabs(paths: list[Path]) -> pd.DataFrame:
    table = read_rda(paths[0])["crabs"]
    return table.assign(group=table["sp"].astype(str) + table["sex"].astype(str))


def _galaxies(paths: list[Path]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({"velocity_km_s": np.asarray(read_rda(paths[0])["galaxies"], dtype=float)})


def _banknote(paths: list[Path]) -> pd.DataFrame:
    import pandas as pd

    return pd.read_csv(paths[0], sep=r"\s+")


def _wine27(paths: list[Path]) -> pd.DataFrame:
    return read_rda(paths[0])["wine"]


def _italy_power_demand(paths: list[Path]) -> pd.DataFrame:
    rows = []
    for path in paths:
        lines = path.read_text().splitlines()
        for line in lines[lines.index("@data") + 1 :]:
            values, label = line.split(":")
            rows.append([*map(float, values.split(",")), int(label)])
    return _series_table(np.array(rows)[:, :-1], np.array(rows)[:, -1])


def _trace(paths: list[Path]) -> pd.DataFrame:
    with np.load(paths[0], allow_pickle=False) as file:
        values = np.concatenate([file["X_train"], file["X_test"]])[..., 0]
        labels = np.concatenate([file["y_train"], file["y_test"]])
    return _series_table(values, labels)


def _series_table(values: np.ndarray, labels: np.ndarray) -> pd.DataFrame:
    import pandas as pd

    names = [f"t{t}" for t in range(values.shape[1])]
    table = pd.DataFrame(values.astype(np.float32), columns=names)
    return table.assign(group=labels.astype(int))


# How each is built from its public sources.
_BUILDERS = {
    "penguins": _penguins,
    "crabs": _crabs,
    "galaxies": _galaxies,
    "banknote": _banknote,
    "wine27": _wine27,
    "italy_power_demand": _italy_power_demand,
    "trace": _trace,
}


def _benchmark(name: str) -> _Benchmark:
    known = {key: registry()[name][key] for key in ("features", "group", "digest")}
    return _Benchmark(*files_of(name), build=_BUILDERS[name], **known)


_BENCHMARKS = {name: _benchmark(name) for name in _BUILDERS}

BENCHMARKS = tuple(_BENCHMARKS)
"""Names of the data sets of `fetch_benchmark`."""


def fetch_benchmark(
    name: str, data_home: str | os.PathLike | None = None
) -> tuple[pd.DataFrame, np.ndarray | None]:
    """Return a small classic data set: its measurements and its known groups.

    ================== ========== ====== ==================================================
    name               rows       groups what
    ================== ========== ====== ==================================================
    penguins           342 x 4    3      Palmer penguins, by species
    crabs              200 x 5    4      Leptograpsus crabs, by species and sex
    galaxies           82 x 1     --     velocities, the classic unknown number of clusters
    banknote           200 x 6    2      Swiss notes, genuine and counterfeit
    wine27             178 x 27   3      wines, by cultivar
    italy_power_demand 1096 x 24  2      daily curves, by half of the year
    trace              200 x 275  4      simulated instrument failures
    ================== ========== ====== ==================================================

    Parameters
    ----------
    name : str
        One of the names above.
    data_home : path, optional
        Folder with the file, for use without internet; also the variable ``CAVITY_DATA``.

    Returns
    -------
    X : DataFrame
    labels : ndarray of str, or None
        None for galaxies, whose groups are unknown.
    """
    if name not in _BENCHMARKS:
        raise ValueError(f"Unknown data set {name!r}; known are {', '.join(BENCHMARKS)}.")
    benchmark = _BENCHMARKS[name]
    folder = local_folder(data_home)
    path = find_prepared(folder, benchmark.prepared)
    if path is not None:
        table = _read_prepared(path)
    else:
        paths = [obtain(source, folder, benchmark.prepared) for source in benchmark.sources]
        table = benchmark.build(paths)
    X, labels = _split(table, benchmark)
    checked = X if labels is None else X.assign(labels=labels)
    if table_digest(checked) != benchmark.digest:
        raise ValueError(f"The values of {name} are not those expected: the source has changed.")
    return X, labels


def _read_prepared(path: Path) -> pd.DataFrame:
    import pandas as pd

    if path.suffix == ".csv":
        return pd.read_csv(path)
    with np.load(path, allow_pickle=False) as file:
        return _series_table(file["X"], file["y"])


def _split(table: pd.DataFrame, benchmark: _Benchmark) -> tuple[pd.DataFrame, np.ndarray | None]:
    features = benchmark.features or [c for c in table.columns if c != benchmark.group]
    table = table.dropna(subset=features).reset_index(drop=True)
    labels = None if benchmark.group is None else table[benchmark.group].astype(str).to_numpy()
    return table[features].astype(float), labels
