"""Fetchers: local folder or network, always verified, with errors that say what to do.

No test reaches the network: downloads are replaced, and the files are made here.
"""

import gzip
import hashlib
import json
import re

import numpy as np
import pandas as pd
import pooch
import pytest

from cavity.datasets import (
    BENCHMARKS,
    fetch_benchmark,
    fetch_mnist,
    fetch_seattle_sales,
    fetch_seattle_tracts,
    fetchers,
)
from cavity.datasets import benchmarks as benchmarks_module
from cavity.datasets._files import Prepared, Source, obtain, table_digest, verify


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    monkeypatch.delenv("CAVITY_DATA", raising=False)


@pytest.fixture
def offline(monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("network is unreachable")

    monkeypatch.setattr(pooch, "retrieve", refuse)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def square(geoid, x):
    ring = [[x, 0.0], [x + 1, 0.0], [x + 1, 1.0], [x, 1.0], [x, 0.0]]
    hole = [[x + 0.4, 0.4], [x + 0.6, 0.4], [x + 0.6, 0.6], [x + 0.4, 0.6], [x + 0.4, 0.4]]
    return {
        "type": "Feature",
        "properties": {"geoid": f"14000US{geoid}"},
        "geometry": {"type": "MultiPolygon", "coordinates": [[ring, hole]]},
    }


TRACTS = {
    "type": "FeatureCollection",
    "features": [
        square("53033000100", 0.0),
        square("53033000200", 1.0),
        square("53033000300", 2.0),
    ],
}


def raw_sales(counts=(60, 55, 10), seed=0):
    rng = np.random.default_rng(seed)
    x = np.repeat(np.arange(3.0), counts) + rng.uniform(0.01, 0.39, sum(counts))
    n = len(x)
    return pd.DataFrame(
        {
            "pinx": [f"..{i:010d}" for i in range(n)],
            "sale_id": [f"s{i}" for i in range(n)],
            "sale_price": rng.integers(200_000, 900_000, n),
            "sale_date": pd.Timestamp("2010-01-01")
            + pd.to_timedelta(rng.integers(0, 2000, n), "D"),
            "use_type": "sfr",
            "area": 14,
            "lot_sf": rng.integers(1000, 9000, n),
            "wfnt": 0,
            "bldg_grade": 7,
            "tot_sf": rng.integers(600, 4000, n),
            "beds": 3,
            "baths": 1.75,
            "age": 50,
            "eff_age": 40,
            "longitude": x,
            "latitude": rng.uniform(0.01, 0.39, n),
        }
    )


def test_points_are_located_with_holes_and_outside():
    region = fetchers.locate_points([0.1, 0.5, 1.5, 2.9, 9.0], [0.1, 0.5, 0.2, 0.9, 0.1], TRACTS)
    assert region.tolist() == ["53033000100", "", "53033000200", "53033000300", ""]


def test_sales_are_built_from_the_raw_table():
    raw = raw_sales()
    outside = raw.iloc[[0]].assign(longitude=50.0, sale_id="far")
    repeat = raw.iloc[[1]].assign(sale_id="again")
    sales = fetchers.build_seattle_sales(pd.concat([raw, outside, repeat]), TRACTS)
    assert len(sales) == 115  # the tract with 10 sales, the repeat and the far sale are gone
    assert set(sales["region"]) == {"53033000100", "53033000200"}
    assert sales["sale_date"].is_monotonic_increasing
    assert list(sales.columns)[:6] == [
        "sale_date",
        "price",
        "region",
        "bathrooms",
        "sqft",
        "lot_sqft",
    ]
    # R stores a date as days since 1970.
    days = raw.assign(sale_date=(raw["sale_date"] - pd.Timestamp(0)).dt.days.astype(float))
    assert fetchers.build_seattle_sales(days, TRACTS).equals(
        fetchers.build_seattle_sales(raw, TRACTS)
    )
    seconds = days.assign(sale_date=days["sale_date"] * 86400)
    assert table_digest(fetchers.build_seattle_sales(seconds, TRACTS)) == table_digest(
        fetchers.build_seattle_sales(raw, TRACTS)
    )
    with pytest.raises(ValueError, match=r"lacks the column\(s\) baths, tot_sf"):
        fetchers.build_seattle_sales(raw.drop(columns=["baths", "tot_sf"]), TRACTS)


def place_sources(folder, monkeypatch):
    raw = raw_sales()
    tracts = folder / "census-tracts.geojson"
    tracts.write_text(json.dumps(TRACTS))
    rda = folder / "seattle_sales.rda"
    rda.write_bytes(b"stands for an R file")
    monkeypatch.setattr(fetchers, "read_rda", lambda path: {"seattle_sales": raw})
    monkeypatch.setattr(
        fetchers,
        "TRACTS_SOURCE",
        fetchers.TRACTS_SOURCE._replace(checksum=f"sha256:{sha256(tracts)}"),
    )
    return fetchers.build_seattle_sales(raw, TRACTS)


def test_sales_and_tracts_from_public_sources_in_a_folder(tmp_path, monkeypatch):
    expected = place_sources(tmp_path, monkeypatch)
    with pytest.warns(UserWarning, match="115 sales in 2 tracts.*differs"):
        assert fetch_seattle_sales(tmp_path).equals(expected)
    monkeypatch.setattr(fetchers, "SALES_DIGEST", table_digest(expected))
    assert fetch_seattle_sales(tmp_path).equals(expected)  # no warning: warnings are errors here
    tracts = fetch_seattle_tracts(tmp_path)
    assert [f["properties"]["region"] for f in tracts["features"]] == ["53033000100", "53033000200"]


def test_prepared_sales_come_first_and_are_verified(tmp_path, monkeypatch):
    table = fetchers.build_seattle_sales(raw_sales(), TRACTS)
    path = tmp_path / fetchers.SALES_FILE.name
    table.to_parquet(path)
    with pytest.raises(ValueError, match=r"is not the file it should be.*expected d87f0244"):
        fetch_seattle_sales(tmp_path)
    monkeypatch.setattr(fetchers, "SALES_FILE", Prepared(path.name, sha256(path)))
    assert len(fetch_seattle_sales(tmp_path)) == len(table)
    monkeypatch.setenv("CAVITY_DATA", str(tmp_path))
    assert len(fetch_seattle_sales()) == len(table)


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    return gzip.compress(header + array.astype(np.uint8).tobytes())


def test_mnist_from_idx_files_and_from_npz(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    parts = {
        "train-images-idx3-ubyte.gz": rng.integers(0, 256, (6, 28, 28)),
        "train-labels-idx1-ubyte.gz": rng.integers(0, 10, 6),
        "t10k-images-idx3-ubyte.gz": rng.integers(0, 256, (2, 28, 28)),
        "t10k-labels-idx1-ubyte.gz": rng.integers(0, 10, 2),
    }
    sources = []
    for source in fetchers.MNIST_SOURCES:
        (tmp_path / source.name).write_bytes(idx(parts[source.name]))
        sources.append(source._replace(checksum=f"sha256:{sha256(tmp_path / source.name)}"))
    monkeypatch.setattr(fetchers, "MNIST_SOURCES", tuple(sources))
    mnist = fetch_mnist(tmp_path)
    assert mnist.images.shape == (8, 784)
    assert mnist.is_test.tolist() == [False] * 6 + [True] * 2
    assert np.array_equal(mnist.images[7].reshape(28, 28), parts["t10k-images-idx3-ubyte.gz"][1])

    path = tmp_path / "mnist.npz"
    np.savez(path, X=mnist.images, y=mnist.labels, split=mnist.is_test.astype(np.uint8))
    monkeypatch.setattr(fetchers, "MNIST_FILE", Prepared(path.name, sha256(path)))
    again = fetch_mnist(tmp_path)
    assert all(np.array_equal(a, b) for a, b in zip(mnist, again, strict=True))


def test_damaged_idx_is_refused(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"\x00\x00\x08\x01\x00\x00\x00\x05ab"))
    with pytest.raises(ValueError, match="cut short"):
        fetchers.read_idx(path)
    path.write_bytes(gzip.compress(b"not an idx file"))
    with pytest.raises(ValueError, match="not an IDX file"):
        fetchers.read_idx(path)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("fetch", [fetch_seattle_sales, fetch_seattle_tracts, fetch_mnist])
def test_offline_says_where_to_place_the_file(fetch):
    with pytest.raises(ConnectionError, match=r"Without internet, place .* pass data_home=FOLDER"):
        fetch()


def test_missing_folder_and_missing_file(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"data_home names .*not a folder"):
        fetch_mnist(tmp_path / "nowhere")
    with pytest.raises(
        FileNotFoundError, match=r"holds no mnist\.npz or train-images.*download it"
    ):
        fetch_mnist(tmp_path)
    monkeypatch.setenv("CAVITY_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="the variable CAVITY_DATA names"):
        fetch_mnist()


def test_downloaded_sales_are_used_only_if_they_become_the_known_table(tmp_path, monkeypatch):
    expected = place_sources(tmp_path, monkeypatch)
    monkeypatch.setattr(pooch, "retrieve", lambda *a, fname, **k: str(tmp_path / fname))
    with pytest.raises(ValueError, match=r"differs.*download is not trusted.*data_home=FOLDER"):
        fetch_seattle_sales()
    monkeypatch.setattr(fetchers, "SALES_DIGEST", table_digest(expected))
    assert fetch_seattle_sales().equals(expected)


def test_every_checksum_is_whole():
    prepared = [fetchers.SALES_FILE, fetchers.TRACTS_FILE, fetchers.MNIST_FILE]
    sources = [fetchers.TRACTS_SOURCE, *fetchers.MNIST_SOURCES]
    for benchmark in benchmarks_module._BENCHMARKS.values():
        prepared.append(benchmark.prepared)
        sources.extend(benchmark.sources)
        assert re.fullmatch("[0-9a-f]{64}", benchmark.digest)
    assert re.fullmatch("[0-9a-f]{64}", fetchers.SALES_DIGEST)
    for file in prepared:
        assert re.fullmatch("[0-9a-f]{64}", file.sha256), file.name
    for source in sources:
        assert re.fullmatch("sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", source.checksum), source.name


def test_downloads_are_verified(tmp_path, monkeypatch):
    file = tmp_path / "got"
    file.write_bytes(b"something else")
    monkeypatch.setattr(pooch, "retrieve", lambda *a, **k: str(file))
    digest = sha256(file)
    source = Source("got", "https://example.org/got", f"sha256:{digest}")
    assert obtain(source, None) == file
    other = source._replace(checksum=f"sha256:{digest[:-1]}{(int(digest[-1], 16) + 1) % 16:x}")
    with pytest.raises(ValueError, match="is not the file it should be"):
        obtain(other, None)
    assert verify(file, f"md5:{hashlib.md5(file.read_bytes()).hexdigest()}") == file


def test_benchmark_from_a_folder(tmp_path, monkeypatch):
    (tmp_path / "bench").mkdir()
    path = tmp_path / "bench" / "crabs.csv"
    table = pd.DataFrame(
        {"group": ["BM", "OF"], "FL": [1, 2], "RW": 3.0, "CL": 4.0, "CW": 5.0, "BD": 6.0}
    )
    table.to_csv(path, index=False)
    changed = benchmarks_module._BENCHMARKS["crabs"]._replace(
        prepared=Prepared("crabs.csv", sha256(path))
    )
    monkeypatch.setitem(benchmarks_module._BENCHMARKS, "crabs", changed)
    with pytest.raises(ValueError, match="values of crabs are not those expected"):
        fetch_benchmark("crabs", tmp_path)
    digest = table_digest(
        table[["FL", "RW", "CL", "CW", "BD"]].assign(labels=table["group"]).astype({"FL": float})
    )
    monkeypatch.setitem(benchmarks_module._BENCHMARKS, "crabs", changed._replace(digest=digest))
    X, labels = fetch_benchmark("crabs", tmp_path)
    assert X.shape == (2, 5)
    assert labels.tolist() == ["BM", "OF"]


def test_benchmark_builders_read_the_public_formats(tmp_path, monkeypatch):
    builders = {name: benchmarks_module._BENCHMARKS[name].build for name in BENCHMARKS}
    text = tmp_path / "note.txt"
    text.write_text('"Status" "Length" "Left"\ngenuine 214.8 131\ncounterfeit 214.4 130.1\n')
    assert builders["banknote"]([text])["Left"].tolist() == [131, 130.1]

    penguins = tmp_path / "penguins.csv"
    penguins.write_text(
        "species,island,bill_length_mm,bill_depth_mm,flipper_length_mm,body_mass_g,sex\n"
        "Adelie,Dream,39.1,18.7,181,3750,male\nAdelie,Dream,NA,NA,NA,NA,NA\n"
    )
    X, labels = benchmarks_module._split(
        builders["penguins"]([penguins]), benchmarks_module._BENCHMARKS["penguins"]
    )
    assert X.shape == (1, 4)
    assert labels.tolist() == ["Adelie"]

    ts = tmp_path / "demand.ts"
    ts.write_text("# about\n@data\n1.5,2.5:1\n3.5,4.5:2\n")
    table = builders["italy_power_demand"]([ts, ts])
    assert table["t1"].tolist() == [2.5, 4.5, 2.5, 4.5]
    assert table["group"].tolist() == [1, 2, 1, 2]

    trace = tmp_path / "trace.npz"
    values = np.arange(12.0).reshape(2, 6, 1)
    np.savez(trace, X_train=values, X_test=values, y_train=[1, 2], y_test=[3, 4])
    assert builders["trace"]([trace])["group"].tolist() == [1, 2, 3, 4]

    objects = {
        "crabs": pd.DataFrame({"sp": ["B"], "sex": ["F"], "FL": [1.0]}),
        "galaxies": np.array([9172.0, 9350.0]),
        "wine": pd.DataFrame({"Type": [1], "Alcohol": [14.2]}),
    }
    monkeypatch.setattr(benchmarks_module, "read_rda", lambda path: objects)
    assert builders["crabs"]([text])["group"].tolist() == ["BF"]
    assert builders["galaxies"]([text])["velocity_km_s"].tolist() == [9172, 9350]
    assert builders["wine27"]([text])["Alcohol"].tolist() == [14.2]


def test_unknown_benchmark_names_the_known_ones():
    with pytest.raises(ValueError, match="Unknown data set 'iris'; known are penguins, crabs"):
        fetch_benchmark("iris")


def test_digest_sees_values_not_order_or_dtype():
    table = pd.DataFrame({"x": [1.0, 2.0], "d": pd.to_datetime(["2010-01-01", "2010-01-02"])})
    assert table_digest(table) == table_digest(table.iloc[::-1])
    assert table_digest(table) == table_digest(table.astype({"x": "int16"}))
    assert table_digest(table) != table_digest(table.assign(x=[1.0, 2.001]))
    assert table_digest(table) != table_digest(table.rename(columns={"x": "z"}))
