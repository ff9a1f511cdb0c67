"""One look for all figures: a colour, a line and a marker per sampler; Okabe and Ito's palette."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

PALETTE = {
    "green": "#009E73",
    "vermilion": "#D55E00",
    "blue": "#0072B2",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "yellow": "#F0E442",
    "black": "#000000",
}

# The colours of the paper's own figures, in a palette that colour-blind readers can tell apart.
SAMPLERS = {
    "ep": {"color": PALETTE["green"], "linestyle": "-", "marker": "o"},
    "collapsed": {"color": PALETTE["vermilion"], "linestyle": "--", "marker": "s"},
    "corrected": {"color": PALETTE["purple"], "linestyle": ":", "marker": "D"},
    "blocked": {"color": PALETTE["vermilion"], "linestyle": "--", "marker": "s"},
    "naive": {"color": PALETTE["blue"], "linestyle": "-.", "marker": "^"},
    "gaussian": {"color": PALETTE["purple"], "linestyle": ":", "marker": "D"},
    "sampled": {"color": PALETTE["orange"], "linestyle": "-", "marker": "v"},
    "sampled+moves": {"color": PALETTE["black"], "linestyle": "--", "marker": "x"},
}


@contextmanager
def figure(
    rows: int, columns: int, *, width: float = 4.2, height: float = 3.2, **subplots: Any
) -> Iterator[tuple[Any, np.ndarray]]:
    """Give a figure with a grid of axes in the house style, and close it afterwards."""
    import matplotlib as mpl

    mpl.use("Agg", force=False)
    import matplotlib.pyplot as plt

    style: Any = {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.alpha": 0.3,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "svg.hashsalt": "cavity",
        "svg.fonttype": "path",
    }
    with plt.rc_context(style):
        fig, axes = plt.subplots(
            rows,
            columns,
            figsize=(width * columns, height * rows),
            layout="constrained",
            squeeze=False,
            **subplots,
        )
        try:
            yield fig, axes
        finally:
            plt.close(fig)


def save(fig: Any, out: Path, stem: str) -> list[Path]:
    """Save a figure as PNG and SVG; the same figure gives the same bytes."""
    paths = [out / f"{stem}.png", out / f"{stem}.svg"]
    fig.savefig(paths[0], dpi=150)
    fig.savefig(paths[1], metadata={"Date": None})
    return paths


def draw_band(
    ax: Any, x: np.ndarray, values: np.ndarray, sampler: str, label: str | None = None
) -> None:
    """Draw the mean over trials (rows of `values`) with a band of one standard error."""
    with np.errstate(invalid="ignore"):
        n = np.maximum((~np.isnan(values)).sum(axis=0), 1)
        mean = np.nansum(values, axis=0) / n
        error = np.sqrt(np.nansum((values - mean) ** 2, axis=0) / np.maximum(n - 1, 1) / n)
    look = {k: v for k, v in SAMPLERS[sampler].items() if k != "marker"}
    ax.plot(x, mean, label=label or sampler, linewidth=1.8, **look)
    ax.fill_between(x, mean - error, mean + error, color=look["color"], alpha=0.2, linewidth=0)


def on_time_grid(
    trace: pd.DataFrame, value: str, grid: np.ndarray, *, by: Sequence[str] = ("trial",)
) -> np.ndarray:
    """Return `value` of each trial at the times of the grid: that of the last finished sweep.

    NaN before the first sweep ends and after the last one.
    """
    rows = []
    for _, one in trace.groupby(list(by), sort=True):
        one = one.sort_values("sweep")
        seconds, values = one["seconds"].to_numpy(), one[value].to_numpy()
        position = np.searchsorted(seconds, grid, side="right") - 1
        inside = (position >= 0) & (grid <= seconds[-1])
        rows.append(np.where(inside, values[np.maximum(position, 0)], np.nan))
    return np.array(rows)


def by_sweep(
    trace: pd.DataFrame, value: str, *, by: Sequence[str] = ("trial",)
) -> tuple[np.ndarray, np.ndarray]:
    """Return the recorded sweeps and `value` as an array (trial, sweep)."""
    wide = trace.pivot_table(index=list(by), columns="sweep", values=value, sort=True)
    return wide.columns.to_numpy(), wide.to_numpy()


def markdown_table(table: pd.DataFrame) -> str:
    """Return a table as Markdown.

    Examples
    --------
    >>> import pandas as pd
    >>> print(markdown_table(pd.DataFrame({"a": [1], "b": ["x"]})))
    | a | b |
    | --- | --- |
    | 1 | x |
    """
    head = "| " + " | ".join(map(str, table.columns)) + " |"
    rule = "| " + " | ".join("---" for _ in table.columns) + " |"
    rows = ["| " + " | ".join(map(str, row)) + " |" for row in table.itertuples(index=False)]
    return "\n".join([head, rule, *rows])
