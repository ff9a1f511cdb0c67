"""The data of the paper's experiments: Seattle house sales with their tracts, and MNIST."""

from __future__ import annotations

import gzip
import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity.datasets._files import (
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

SALES_FILE, (SALES_SOURCE,) = files_of("seattle_sales")
TRACTS_FILE, (TRACTS_SOURCE,) = files_of("seattle_tracts")
MNIST_FILE, MNIST_SOURCES = files_of("mnist")
# The source of the sales has no checksum: the digest of the table decides.
SALES_DIGEST: str = registry()["seattle_sales"]["digest"]
MIN_SALES_PER_TRACT = 50

_SALES_COLUMNS = {
    "sale_date": "sale_date",
    "sale_price": "price",
    "region": "region",
    "baths": "bathrooms",
    "tot_sf": "sqft",
    "lot_sf": "lot_sqft",
    "latitude": "latitude",
    "longitude": "longitude",
    "beds": "bedrooms",
    "bldg_grade": "grade",
    "age": "age",
    "use_type": "use_type",
    "area": "assessor_area",
}


class Mnist(NamedTuple):
    """Handwritten digits.

    Attributes
    ----------
    images : ndarray of uint8, shape (70000, 784)
    labels : ndarray of uint8, shape (70000,)
    is_test : ndarray of bool, shape (70000,)
        False for the 60,000 training digits.
    """

    images: np.ndarray
    labels: np.ndarray
    is_test: np.ndarray


def fetch_seattle_sales(data_home: str | os.PathLike | None = None) -> pd.DataFrame:
    """Return house sales in Seattle, 2010 to 2016, each with its census tract.

    43,160 sales of single-family houses and townhouses in 115 tracts over 84 months. The public
    source is the ``seattle_sales`` table of the R package hpiR (county records), whose sales are
    placed in tracts here; reading it needs ``pip install rdata``. What is downloaded is used only
    if it becomes exactly the table of the published results; sources that you place in a folder
    may differ from it, with a warning.

    Parameters
    ----------
    data_home : path, optional
        Folder with ``seattle_sales_2010_2016_by_tract.parquet``, or with the two public sources
        ``seattle_sales.rda`` and ``census-tracts.geojson``. Also the variable ``CAVITY_DATA``.

    Returns
    -------
    sales : DataFrame
        sale_date, price, region (tract), bathrooms, sqft, lot_sqft, latitude, longitude,
        bedrooms, grade, age, use_type, assessor_area; in order of date.
    """
    import pandas as pd

    folder = local_folder(data_home)
    path = find_prepared(folder, SALES_FILE)
    if path is not None:
        return pd.read_parquet(path)
    raw = read_rda(obtain(SALES_SOURCE, folder, SALES_FILE))["seattle_sales"]
    tracts = json.loads(obtain(TRACTS_SOURCE, folder).read_text())
    sales = build_seattle_sales(raw, tracts)
    if table_digest(sales) != SALES_DIGEST:
        differs = (
            f"The table put together from the public sources ({len(sales):,} sales in "
            f"{sales['region'].nunique()} tracts) differs from the one the published results "
            "used (43,160 in 115)"
        )
        if folder is None:
            raise ValueError(
                f"{differs}, so the download is not trusted. If you trust {SALES_SOURCE.url}, "
                f"place {SALES_SOURCE.name} and {TRACTS_SOURCE.name} in a folder yourself and "
                "pass data_home=FOLDER."
            )
        warnings.warn(f"{differs}; expect small differences.", stacklevel=2)
    return sales


def fetch_seattle_tracts(data_home: str | os.PathLike | None = None) -> dict[str, Any]:
    """Return the polygons of the tracts of `fetch_seattle_sales`, as a GeoJSON dictionary.

    Each feature's property ``region`` is the tract as the sales name it.

    Parameters
    ----------
    data_home : path, optional
        Folder with ``seattle_tracts_115.geojson`` or the sources of the sales.
    """
    folder = local_folder(data_home)
    path = find_prepared(folder, TRACTS_FILE)
    if path is not None:
        return json.loads(path.read_text())
    tracts = json.loads(obtain(TRACTS_SOURCE, folder, TRACTS_FILE).read_text())
    regions = set(fetch_seattle_sales(data_home)["region"].astype(str))
    return select_tracts(tracts, regions)


def fetch_mnist(data_home: str | os.PathLike | None = None) -> Mnist:
    """Return the 70,000 handwritten digits of MNIST.

    Parameters
    ----------
    data_home : path, optional
        Folder with ``mnist.npz``, or with the four original ``*-ubyte.gz`` files. Also the
        variable ``CAVITY_DATA``.
    """
    folder = local_folder(data_home)
    path = find_prepared(folder, MNIST_FILE)
    if path is not None:
        with np.load(path, allow_pickle=False) as file:
            return Mnist(file["X"], file["y"], file["split"] == 1)
    arrays = [read_idx(obtain(source, folder, MNIST_FILE)) for source in MNIST_SOURCES]
    train, train_labels, test, test_labels = arrays
    images = np.concatenate([train, test]).reshape(len(train) + len(test), -1)
    is_test = np.arange(len(images)) >= len(train)
    return Mnist(images, np.concatenate([train_labels, test_labels]), is_test)


def read_idx(path: Path) -> np.ndarray:
    """Read a gzipped IDX file of unsigned bytes: a big-endian header, then the values."""
    content = gzip.decompress(path.read_bytes())
    n_axes = content[3]
    if content[:3] != b"\x00\x00\x08" or n_axes == 0:
        raise ValueError(f"{path} is not an IDX file of unsigned bytes.")
    header = 4 + 4 * n_axes
    shape = np.frombuffer(content[4:header], dtype=">u4").astype(int)
    if len(content) - header != int(np.prod(shape)):
        raise ValueError(f"{path} is cut short: its header promises the shape {tuple(shape)}.")
    return np.frombuffer(content[header:], dtype=np.uint8).reshape(shape)


def region_of(feature: dict[str, Any]) -> str:
    """Return the 11-digit tract of a GeoJSON feature (the end of its census identifier)."""
    return str(feature["properties"]["geoid"])[-11:]


def select_tracts(tracts: dict[str, Any], regions: set[str]) -> dict[str, Any]:
    """Keep the features of the given regions, each with the property ``region``."""
    features = [
        {**f, "properties": {**f["properties"], "region": region_of(f)}}
        for f in tracts["features"]
        if region_of(f) in regions
    ]
    return {**tracts, "features": features}


def locate_points(longitude: Any, latitude: Any, tracts: dict[str, Any]) -> np.ndarray:
    """Return the region of each point, or an empty string outside all polygons.

    Examples
    --------
    >>> ring = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]
    >>> square = {"properties": {"geoid": "14000US53033000100"},
    ...           "geometry": {"type": "Polygon", "coordinates": [ring]}}
    >>> locate_points([0.5, 2.0], [0.5, 0.5], {"features": [square]}).tolist()
    ['53033000100', '']
    """
    from matplotlib.path import Path as Outline

    points = np.column_stack([longitude, latitude]).astype(float)
    region = np.full(len(points), "", dtype="<U11")
    for feature in tracts["features"]:
        geometry = feature["geometry"]
        polygons = geometry["coordinates"]
        if geometry["type"] == "Polygon":
            polygons = [polygons]
        inside = np.zeros(len(points), dtype=bool)
        for ring in (ring for polygon in polygons for ring in polygon):
            # Even-odd rule: a point in a hole is inside two rings.
            inside ^= Outline(np.asarray(ring)[:, :2]).contains_points(points)
        region[inside & (region == "")] = region_of(feature)
    return region


def build_seattle_sales(raw: pd.DataFrame, tracts: dict[str, Any]) -> pd.DataFrame:
    """Put sales in tracts: repeats, sales outside, and tracts with few sales are dropped.

    A repeat is a sale of the same place on the same day at the same price.

    Parameters
    ----------
    raw : DataFrame
        The table ``seattle_sales`` of hpiR.
    tracts : dict
        GeoJSON of census tracts.
    """
    import pandas as pd

    missing = sorted(set(_SALES_COLUMNS) - {"region"} - set(raw.columns))
    if missing:
        raise ValueError(f"The sales table lacks the column(s) {', '.join(missing)}.")
    region = locate_points(raw["longitude"], raw["latitude"], tracts)
    sales = raw.assign(region=region)[list(_SALES_COLUMNS)].rename(columns=_SALES_COLUMNS)
    dates = sales["sale_date"]
    if pd.api.types.is_numeric_dtype(dates):
        # R counts a Date in days from 1970 and a POSIXct in seconds.
        dates = pd.to_datetime(dates, unit="D" if dates.max() < 1e6 else "s")
    # What a date counts in differs between releases of pandas, and with what it came from.
    sales["sale_date"] = pd.to_datetime(dates).dt.normalize().dt.as_unit("us")
    sales = sales[sales["region"] != ""]
    sales = sales.drop_duplicates(["sale_date", "latitude", "longitude", "price"])
    counts = sales["region"].map(sales["region"].value_counts())
    sales = sales[counts >= MIN_SALES_PER_TRACT]
    return sales.sort_values("sale_date", kind="stable").reset_index(drop=True)
