"""Picture of predictive densities of several fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.plotting import style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def comparison_height(table: pd.DataFrame) -> float:
    """Return the height of the picture in inches."""
    return 0.8 + 0.34 * len(table)


def draw_differences(table: pd.DataFrame, ax: Any = None) -> Axes:
    """Draw the difference of each fit to the best, with one and two standard errors.

    Parameters
    ----------
    table : DataFrame
        As `cavity.compare_models` returns it.
    ax : matplotlib axes, optional
    """
    ax = style.one_axes(ax, 5.4, comparison_height(table))
    mean, se = (table[name].to_numpy(float) for name in ("difference", "difference_se"))
    places = np.arange(len(table))
    ax.axvline(0.0, color=style.MUTED, linewidth=0.8, zorder=0)
    for width, times in ((1.0, 2.0), (2.6, 1.0)):
        ends = mean - times * se, mean + times * se
        ax.hlines(places, *ends, color=style.BLUE, linewidth=width)
    ax.plot(mean, places, "o", color=style.BLUE, markersize=5)
    ax.set_yticks(places)
    ax.set_yticklabels([style.literal(style.shorten(name)) for name in table.index])
    ax.set_ylim(len(table) - 0.4, -0.6)
    ax.set_xlabel("difference in leave-one-out log density to the best")
    style.dress(ax)
    ax.tick_params(left=False)
    return ax
