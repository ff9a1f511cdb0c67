"""Pictures of the housing experiment: indices of tracts, the map of clusters, NMI traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reproduction.student_t import draw_traces
from reproduction.style import PALETTE, figure, save

CERTAIN = 0.8
COLOURS = [
    *(PALETTE[c] for c in ("blue", "orange", "green", "vermilion", "purple", "sky", "yellow")),
    *("#8c6d31", "#999999", "#332288", "#882255", "#117733"),
]
HATCHES = ("", "..", "xx")


def draw_index(index: pd.DataFrame, medians: pd.DataFrame, out: Path) -> None:
    """Draw the index of each tract with its interval over the raw monthly medians.

    Parameters
    ----------
    index : DataFrame
        region, month (``YYYY-MM``), price, lower, upper.
    medians : DataFrame
        region, month, median, n_sales.
    """
    regions = list(index["region"].unique())
    columns = min(2, len(regions))
    rows = -(-len(regions) // columns)
    with figure(rows, columns, width=5.0, height=2.8, sharex=True) as (fig, axes):
        for ax in axes.ravel()[len(regions) :]:
            ax.set_visible(False)
        for ax, region in zip(axes.ravel(), regions, strict=False):
            one = index[index["region"] == region]
            months = _dates(one["month"])
            colour = PALETTE["green"]
            ax.plot(months, one["price"] / 1000, color=colour, label="index, typical house")
            ax.fill_between(
                months, one["lower"] / 1000, one["upper"] / 1000, color=colour, alpha=0.25, lw=0,
                label="90 % interval",
            )  # fmt: skip
            raw = medians[medians["region"] == region]
            ax.scatter(
                _dates(raw["month"]), raw["median"] / 1000, s=4 + 4 * raw["n_sales"],
                color=PALETTE["black"], alpha=0.4, linewidths=0, label="median sale (size: sales)",
            )  # fmt: skip
            total = int(raw["n_sales"].sum())
            ax.set(title=f"tract {region} ({total} sales)", ylabel="thousand dollars")
        axes[0, 0].legend(fontsize=7)
        save(fig, out, "housing-index")


def _dates(months: pd.Series) -> np.ndarray:
    return pd.to_datetime(months.astype(str) + "-01").to_numpy()


def draw_map(tracts: dict[str, Any], clusters: pd.DataFrame, out: Path) -> None:
    """Draw the tracts coloured by cluster; uncertain ones are hatched and outlined.

    Parameters
    ----------
    tracts : dict
        GeoJSON with the property ``region``.
    clusters : DataFrame
        region, cluster, certainty.
    """
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Patch, PathPatch
    from matplotlib.path import Path as Outline

    regions = clusters["region"].astype(str)
    cluster_of = dict(zip(regions, clusters["cluster"], strict=True))
    certainty_of = dict(zip(regions, clusters["certainty"], strict=True))
    sizes = clusters["cluster"].value_counts()
    rank = {cluster: i for i, cluster in enumerate(sizes.index)}
    with figure(1, 1, width=6.4, height=7.6) as (fig, axes):
        ax = axes[0, 0]
        for feature in tracts["features"]:
            region = str(feature["properties"]["region"])
            if region not in cluster_of:
                continue
            doubtful = certainty_of[region] < CERTAIN
            place = rank[cluster_of[region]]
            patches = []
            polygons = feature["geometry"]["coordinates"]
            if feature["geometry"]["type"] == "Polygon":
                polygons = [polygons]
            for polygon in polygons:
                rings = [Outline(np.asarray(ring)[:, :2], closed=True) for ring in polygon]
                patches.append(PathPatch(Outline.make_compound_path(*rings)))
            ax.add_collection(
                PatchCollection(
                    patches,
                    facecolor=COLOURS[place % len(COLOURS)],
                    edgecolor="black" if doubtful else "white",
                    linewidth=0.8 if doubtful else 0.4,
                    hatch="////" if doubtful else HATCHES[min(place // len(COLOURS), 2)],
                    alpha=0.8,
                )
            )
        ax.autoscale_view()
        # Degrees of longitude are shorter than those of latitude by the cosine of the latitude.
        ax.set_aspect(1 / np.cos(np.radians(47.6)))
        ax.set(xlabel="longitude", ylabel="latitude")
        ax.grid(False)
        handles: list[Any] = [
            Patch(
                facecolor=COLOURS[rank[c] % len(COLOURS)],
                alpha=0.8,
                label=f"{n} tract{'s' if n > 1 else ''}",
            )
            for c, n in sizes.items()
        ]
        handles.append(
            Patch(facecolor="white", edgecolor="black", hatch="////",
                  label=f"certainty below {100 * CERTAIN:.0f} %")
        )  # fmt: skip
        ax.legend(handles=handles, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        ax.set_title("Tracts by cluster of their price trends")
        save(fig, out, "housing-map")


def draw_nmi(trace: pd.DataFrame, samplers: tuple[str, ...], out: Path) -> None:
    """Draw the agreement with the reference partition against sweep and seconds."""
    with figure(1, 2, sharey=True) as (fig, axes):
        draw_traces(axes[0], trace, "nmi", "NMI to the exact sampler's MAP", samplers)
        axes[0, 0].legend()
        save(fig, out, "housing-nmi")
