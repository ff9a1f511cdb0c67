"""Legends of plots with clusters as colors and markers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cavity.plotting import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

LEGEND_MAX = 24


def entry(label: str, **look: Any) -> Line2D:
    """Make an entry of a legend: a marker and its meaning."""
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="none", markersize=5.5, label=label, **look)


def cluster_entries(view: Any) -> list[Any]:
    """Make an entry for each of the largest clusters, with its size; the rest share one."""
    listed = min(view.n_clusters, LEGEND_MAX)
    handles = [
        entry(
            f"{view.cluster_name(k)}  ({view.sizes[k]:,})",
            marker=style.cluster_marker(view.look(k)),
            color=style.cluster_colour(view.look(k)),
            markeredgewidth=0,
        )
        for k in range(listed)
    ]
    if listed < view.n_clusters:
        rest = int(view.sizes[listed:].sum())
        handles.append(entry(f"{view.n_clusters - listed:,} more ({rest:,})", marker="None"))
    return handles


def add_legend(ax: Axes, handles: list[Any], where: str, level: str = "cluster") -> None:
    """Put a legend to the right of the axes, below them, or in their upper right corner."""
    places: dict[str, dict[str, Any]] = {
        "right": {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)},
        "below": {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16)},
        "corner": {"loc": "upper right"},
    }
    columns = 3 if where == "below" else 2 if len(handles) > 16 else 1
    style.legend(
        ax, handles=handles, title=f"{level} (size)", title_fontsize=style.SMALL, ncols=columns,
        borderaxespad=0.0, handletextpad=0.3, columnspacing=1.0, labelspacing=0.35,
        **places[where],
    )  # fmt: skip
