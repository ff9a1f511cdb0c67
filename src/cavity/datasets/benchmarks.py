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
    find_prepared,
    local_folder,
    obtain,
    read_rda,
    table_digest,
)

if TYPE_CHECKING:
    import pandas as pd

_RAW = "https://raw.githubusercontent.com"


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


_BENCHMARKS = {
    "penguins": _Benchmark(
        Prepared(
            "penguins.csv", "24000047490eae0055c5b25bd98480ceeacfede8f7c332e7352d1a39b2372900"
        ),
        (
            Source(
                "penguins_public.csv",
                f"{_RAW}/allisonhorst/palmerpenguins/8db8ef55e61d9a36b81e39833655410ace199e37/"
                "inst/extdata/penguins.csv",
                "sha256:97d467baa3522040aa892fa7f2ff57b5195be5fef3cceca3f78a6b1a6e32d7a2",
            ),
        ),
        _penguins,
        ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"],
        "species",
        "9b973928bed5f841c34335f031b721fc3ca83a6a57e9dc2e5ff9849ddba5bd4e",
    ),
    "crabs": _Benchmark(
        Prepared("crabs.csv", "aaf1ff7586779e5c3ea430826573385a22c5084f0a9251b1437f08cf5ede8427"),
        (
            Source(
                "crabs.rda",
                f"{_RAW}/cran/MASS/0208165cceaca4d7baa61711383dd9c638d49a7b/data/crabs.rda",
                "md5:cf7bcacd3cd2a6d63ccdba4611ca179d",
            ),
        ),
        _crabs,
        ["FL", "RW", "CL", "CW", "BD"],
        "group",
        "e01437e5cac53a926fb055e9a713201c8ffff60badbf9d037a173b68a00ac6f3",
    ),
    "galaxies": _Benchmark(
        Prepared(
            "galaxies.csv", "3d4ed84b10fc352565d9a568c7fdd8ae143c523725bf88b91a9621e2f385c1b8"
        ),
        (
            Source(
                "galaxies.rda",
                f"{_RAW}/cran/MASS/0208165cceaca4d7baa61711383dd9c638d49a7b/data/galaxies.rda",
                "md5:c90524f4a456af22aa886d6c15cf137b",
            ),
        ),
        _galaxies,
        ["velocity_km_s"],
        None,
        "db83ee8c13cb40e031cc99ee933e2fd8f6182f27fc663eeb33e1d89b0e83540a",
    ),
    "banknote": _Benchmark(
        Prepared(
            "banknote.csv", "2be7a21a189aa886acf9aa598efe9fe61291466c780a92b20c562a3b72b97e45"
        ),
        (
            Source(
                "banknote.txt",
                f"{_RAW}/cran/mclust/69a978d8748ca8695a0af51758ef28c2d48d54ab/data/banknote.txt",
                "md5:0e22afc0696bed7e8f7878b3c3974174",
            ),
        ),
        _banknote,
        None,
        "Status",
        "22001884213aad1349ae216dc347da0b4ae44d608e81c61fe884bbb6a1727c1d",
    ),
    "wine27": _Benchmark(
        Prepared("wine27.csv", "af0ec85c83c39e1f16a3a99b7e756e905eafaf798230b078f56e53db3124fb19"),
        (
            Source(
                "wine.rda",
                f"{_RAW}/cran/pgmm/0b924642af2ae2dd601f8fc02f452d60292538e7/data/wine.rda",
                "md5:21074c88ab5683683ecc690c0dd5dde4",
            ),
        ),
        _wine27,
        None,
        "Type",
        "5f114cf7f437609100bc2e80f2161c3ee6f9a3b1e7e87a192ff5008b6de81876",
    ),
    "italy_power_demand": _Benchmark(
        Prepared(
            "italy_power_demand.npz",
            "a8486c2e4f4f509a83d03e89183d228a36632a095777057dd624cd65079855f7",
        ),
        tuple(
            Source(
                f"ItalyPowerDemand_{part}.ts",
                f"{_RAW}/aeon-toolkit/aeon/v1.6.0/aeon/datasets/data/ItalyPowerDemand/"
                f"ItalyPowerDemand_{part}.ts",
                f"sha256:{sha256}",
            )
            for part, sha256 in {
                "TRAIN": "341269cb7e6cef96846b30e774580beec79addb93848ba360145219115a74b7c",
                "TEST": "26122451f87dd0387ef90b18bc8a86c041371b8a1c068004922b939971247144",
            }.items()
        ),
        _italy_power_demand,
        None,
        "group",
        "b9f51e348228de6f04c2821fe0043accb79a25629e92c417e9640c02a2011896",
    ),
    "trace": _Benchmark(
        Prepared("trace.npz", "c4649163d9a9f510959d839c5062db9316be3d821115be8fd62943d55a72471b"),
        (
            Source(
                "Trace.npz",
                f"{_RAW}/tslearn-team/tslearn/e22e722ae9ad5c082220baff5a7533e15e17f84b/"
                "tslearn/.cached_datasets/Trace.npz",
                "sha256:0de0b7fa727cfabaf8481552db2b95fcccd12e54b67058aea79ff05b483cf807",
            ),
        ),
        _trace,
        None,
        "group",
        "bddd3c32e40ff2b0fbd1c1faa49b8480acbc2a4c1589ca72d053241dcb664d90",
    ),
}

BENCHMARKS = tuple(_BENCHMARKS)
"""Names that `fetch_benchmark` knows."""


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
        None for galaxies, whose groups nobody knows.
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
