"""Sections of the report on time series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.plotting import series as pictures
from cavity.plotting.series import plot_series
from cavity.plotting.series_picture import SeriesPicture

TYPICAL_MAX = 6
DOUBTFUL_MAX = 3


def series_sections(
    picture: SeriesPicture,
    *,
    typical: Sequence[Any] = (),
    doubtful: Sequence[Any] = (),
    preface: str = "",
) -> list[tuple[str, Any, str]]:
    """Make the additional sections of a report on series.

    Parameters
    ----------
    picture : SeriesPicture
    typical : sequence
        Names of the series most typical of each cluster; the first six are drawn.
    doubtful : sequence
        Names of the series in doubt; the first three are drawn.
    preface : str
        Notes to show before the plots.

    Returns
    -------
    list of (title, figure, caption)
        As `cavity.report.html.write_report` takes them.
    """
    sections: list[tuple[str, Any, str]] = [
        (
            "Series by cluster",
            pictures.plot_clusters(picture, page=True)[0].figure,
            (preface + " " if preface else "")
            + "Thin: the trends of a cluster's series, "
            + ("without what all series share, " if picture.apart is not None else "")
            + "each brought to mean zero and unit spread. Dark: their mean."
            + (
                " Dashed: series with a negative loading, reversed."
                if picture.signs is not None and (np.asarray(picture.signs) < 0).any()
                else ""
            ),
        ),
        (
            f"Series by cluster, as {picture.value_name} is measured",
            pictures.plot_clusters(picture, standardised=False, page=True)[0].figure,
            f"The same in the units of {picture.value_name}"
            + (", with what all series share." if picture.apart is not None else "."),
        ),
    ]
    if picture.factors is not None:
        sections.append(
            (
                "Factors",
                pictures.plot_factors(picture, page=True)[0].figure,
                f"Posterior mean and {picture.interval} of what moves all series of a cluster "
                "together.",
            )
        )
    if picture.common is not None:
        sections.append(
            (
                "Common factor",
                pictures.plot_common_factor(picture, page=True).figure,
                f"Posterior mean and {picture.interval} of what moves the series of all clusters.",
            )
        )
    for title, chosen, caption in (
        (
            "Typical series",
            list(typical)[:TYPICAL_MAX],
            "The series most often found with the rest of its cluster.",
        ),
        (
            "Doubtful series, drawn",
            list(doubtful)[:DOUBTFUL_MAX],
            "A series that the draws put into different clusters.",
        ),
    ):
        for name in chosen:
            ax = plot_series(picture, name, page=True)
            sections.append((title, ax.figure, caption))
    return sections
