"""Forest plot of coefficients or means by cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.plotting import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_forest(regression: Any, ax: Any = None) -> Axes:
    """Draw the mean and interval of each term, one line per cluster.

    Parameters
    ----------
    regression : cavity.posterior.regression.Regression
    ax : matplotlib axes, optional
    """
    tail = 0.5 * (1.0 - regression.level)
    low, high = np.quantile(regression.draws, [tail, 1.0 - tail], axis=0)
    mean = regression.draws.mean(axis=0)
    shown = [t for t, term in enumerate(regression.terms) if term != "intercept"]
    n_clusters = len(regression.names)
    ax = style.one_axes(ax, 5.4, 0.8 + 0.24 * len(shown) * n_clusters)
    for k, name in enumerate(regression.names):
        color = style.cluster_colour(int(name))
        places = np.arange(len(shown)) * (n_clusters + 1.0) + k
        ax.hlines(places, low[k, shown], high[k, shown], color=color, linewidth=1.6)
        ax.plot(
            mean[k, shown], places, style.cluster_marker(int(name)), color=color, markersize=5,
            label=f"cluster {name}",
        )  # fmt: skip
    ax.set_yticks(np.arange(len(shown)) * (n_clusters + 1.0) + 0.5 * (n_clusters - 1))
    ax.set_yticklabels([regression.terms[t] for t in shown])
    ax.set_ylim(len(shown) * (n_clusters + 1.0) - 1.2, -0.8)
    style.dress(ax)
    ax.tick_params(left=False)
    if regression.reference is None:
        ax.set_xlabel(f"mean and {regression.level:.0%} interval")
    else:
        ax.axvline(0.0, color=style.MUTED, linewidth=0.8, zorder=0)
        against = f"log odds against cluster {regression.reference}"
        ax.set_xlabel(f"{against}, {regression.level:.0%} interval")
    ax.legend(fontsize=style.SMALL, frameon=False, loc="best")
    return ax
