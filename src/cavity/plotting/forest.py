"""Forest plot of coefficients or means by cluster."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.plotting import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LEGEND_COLUMNS = 4
WRAP = 24


def _wrapped(term: str) -> str:
    """Wrap a long name: covariates often differ at their ends."""
    return style.literal(textwrap.fill(style.shorten(term, 3 * WRAP), WRAP))


def forest_height(regression: Any) -> float:
    """Return the height in inches at which lines do not touch."""
    n_clusters = len(regression.names)
    n_terms = sum(term != "intercept" for term in regression.terms)
    n_legend = -(-n_clusters // LEGEND_COLUMNS) if n_terms > 1 else 0
    return 0.9 + 0.24 * n_terms * (n_clusters + 0.5) + 0.2 * n_legend


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
    texts = [_wrapped(regression.terms[t]) for t in shown]
    n_clusters = len(regression.names)
    ax = style.one_axes(ax, 5.4, forest_height(regression))
    for k, name in enumerate(regression.names):
        color = style.cluster_colour(int(name))
        places = np.arange(len(shown)) * (n_clusters + 1.0) + k
        ax.hlines(places, low[k, shown], high[k, shown], color=color, linewidth=1.6)
        ax.plot(
            mean[k, shown], places, style.cluster_marker(int(name)), color=color, markersize=5,
            label=f"cluster {name}",
        )  # fmt: skip
    ax.set_ylim(len(shown) * (n_clusters + 1.0) - 1.2, -0.8)
    style.dress(ax)
    ax.tick_params(left=False)
    ax.locator_params(axis="x", nbins=6)
    if len(shown) == 1:
        ax.set_yticks(np.arange(n_clusters))
        ax.set_yticklabels([f"cluster {name}" for name in regression.names])
        what = f" of {style.literal(style.shorten(regression.terms[shown[0]]))}"
    else:
        ax.set_yticks(np.arange(len(shown)) * (n_clusters + 1.0) + 0.5 * (n_clusters - 1))
        ax.set_yticklabels(texts)
        columns = min(n_clusters, LEGEND_COLUMNS)
        style.legend(
            ax, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns, borderaxespad=0.2
        )
        what = ""
    interval = f"{regression.level:.0%} interval"
    if regression.reference is None:
        ax.set_xlabel(f"{'share' if what == '' else f'mean{what}'}, {interval}")
    else:
        ax.axvline(0.0, color=style.MUTED, linewidth=0.8, zorder=0)
        ax.set_xlabel(f"log odds{what} against cluster {regression.reference}, {interval}")
    return ax
