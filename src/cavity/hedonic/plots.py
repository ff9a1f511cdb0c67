"""Pictures of a house price index: regions with their intervals, and clusters of regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_MOST_REGIONS = 8
_MOST_PANELS = 12


def draw_index(index: pd.DataFrame, last_month: Any, *, ax: Any = None) -> Axes:
    """Draw indices with their intervals, one color per region; forecasts are dotted.

    Parameters
    ----------
    index : DataFrame
        From `HedonicIndex.price_index`.
    last_month : Period
        The last month of the fit.
    ax : axes, optional
    """
    from cavity.plotting import style

    regions = list(dict.fromkeys(index["region"]))
    if len(regions) > _MOST_REGIONS:
        raise ValueError(
            f"{len(regions)} regions are too many for one picture. Name at most {_MOST_REGIONS}."
        )
    ax = style.one_axes(ax, 7.0, 3.4)
    for k, region in enumerate(regions):
        part = index[index["region"] == region]
        colour, x = style.cluster_colour(k), _dates(part["month"])
        seen = (part["month"] <= last_month).to_numpy()
        ax.fill_between(x, part["lower"], part["upper"], color=colour, alpha=0.2, linewidth=0)
        ax.plot(x[seen], part["price"][seen], color=colour, linewidth=1.6, label=str(region))
        if not seen.all():
            later = np.append(np.flatnonzero(seen)[-1:], np.flatnonzero(~seen))
            ax.plot(x[later], part["price"].iloc[later], color=colour, linewidth=1.6, ls=":")
    style.dress(ax, grid="y")
    ax.set_ylabel("price of one and the same house")
    style.legend(ax)
    return ax


def draw_clusters(index: pd.DataFrame, labels: np.ndarray, *, ax: Any = None) -> list[Axes]:
    """Draw the indices of the regions of each cluster, 100 in the first month, and their mean.

    Parameters
    ----------
    index : DataFrame
        From `HedonicIndex.price_index`, all regions in their order.
    labels : array of int
        The cluster of each region.
    ax : axes or list of axes, optional
        One per cluster; the largest twelve are drawn.
    """
    from cavity.plotting import style
    from cavity.plotting.series import axes_for

    wide = index.pivot(index="region", columns="month", values="price")
    change = 100 * wide.div(wide.iloc[:, 0], axis=0).to_numpy()
    sizes = np.bincount(labels)
    shown = np.sort(np.argsort(-sizes, kind="stable")[: min(_MOST_PANELS, (sizes > 0).sum())])
    axes = axes_for(ax, len(shown), page=False, height=2.4, sharey=True)
    for one, k in zip(axes, shown, strict=True):
        x, lines = _dates(wide.columns), change[labels == k]
        one.plot(x, lines.T, color=style.cluster_colour(int(k)), linewidth=0.8, alpha=0.6)
        one.plot(x, lines.mean(axis=0), color=style.INK, linewidth=1.6)
        many = "one region" if len(lines) == 1 else f"{len(lines)} regions"
        style.entitle(style.dress(one, grid="y"), f"cluster {k}: {many}")
        one.tick_params(axis="x", rotation=30)
    return axes


def _dates(months: Any) -> np.ndarray:
    import pandas as pd

    return pd.PeriodIndex(months, freq="M").to_timestamp().to_numpy()
