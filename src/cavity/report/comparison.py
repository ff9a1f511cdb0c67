"""Page that compares fits of the same rows."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cavity.plotting import style
from cavity.plotting.comparison import comparison_height, draw_differences
from cavity.report import markup
from cavity.report.html import render, replacing_page, written_now
from cavity.report.markup import Column, Section, Table, numeric, probability
from cavity.utils.text import enumerate_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

DESK, PHONE = 7.0, 4.4
# Smaller differences are not told apart by leave-one-out densities (Sivula et al. 2020).
LEAST_DIFFERENCE = 4.0
EXPLAINED = {
    "elpd": "expected log predictive density by leave-one-out; larger is better",
    "se": "standard error of elpd",
    "difference": "difference in elpd to the best fit",
    "difference_se": "standard error of the difference",
    "stacking": "weight in the average of all fits that predicts best",
    "n_clusters": "most probable number of clusters",
    "n_lower, n_upper": "90% interval of the number of clusters",
    "ari": "adjusted Rand index of the clusters with those of the first line",
    "entropy_r2": "1 if every row has one possible cluster, 0 if all are equally probable",
    "assignment": "mean probability of the assigned cluster",
    "smallest": "share of rows in the smallest cluster",
    "bic": "Bayesian information criterion of the point estimate; smaller is better",
    "converged": "whether the chains agree",
    "seconds": "time of the longest chain",
}


def write_comparison(
    path: str | os.PathLike[str],
    table: pd.DataFrame,
    *,
    rows: str,
    fits: Mapping[str, str],
    title: str = "Model comparison",
) -> Path:
    """Write a self-contained HTML page on several fits.

    Parameters
    ----------
    path : path
    table : DataFrame
        As `cavity.compare_models` returns it.
    rows : str
        What was fitted: "90 rows".
    fits : mapping of str to str
        Each fit with its settings.
    title : str
    """
    sections = [Section("summary", "Summary", [_sentences(table)])]
    if "elpd" in table:
        pictures = [_picture(table)] if len(table) > 1 else []
        sections.append(Section("prediction", "Prediction", [*pictures, _predictions(table)]))
    sections += [
        Section("cluster-section", "Clusters", [_clusters(table)]),
        Section("fits", "Fits", [markup.Facts(fits, "Fits")]),
    ]
    target = Path(path)
    with replacing_page(target) as file:
        subtitle = f"{len(table)} fits of {rows} · {written_now()}"
        file.write(render(title, subtitle, sections))
    return target


def _sentences(table: pd.DataFrame) -> markup.Sentences:
    names = [str(name) for name in table.index]
    numbers = sorted(set(table["n_clusters"]))
    sentences = [
        f"Most probable numbers of clusters: {enumerate_words([str(k) for k in numbers])}."
        if len(numbers) > 1
        else f"All find {numbers[0]} {'cluster' if numbers[0] == 1 else 'clusters'}."
    ]
    if len(table) > 1:
        low, high = table["ari"].iloc[1:].min(), table["ari"].iloc[1:].max()
        between = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
        sentences.append(f"Adjusted Rand index with the clusters of {names[0]}: {between}.")
    if waiting := [n for n, done in zip(names, table["converged"], strict=True) if not done]:
        has = "has" if len(waiting) == 1 else "have"
        sentences.append(f"{enumerate_words(waiting)} {has} not converged and may change.")
    if "elpd" not in table:
        verdict = "Predictions are not compared: columns differ, or a fit has no leave-one-out."
        return markup.Sentences(sentences, verdict, False)
    if len(table) == 1:
        return markup.Sentences(sentences, "There is one fit.", not waiting)
    close = [
        name
        for name, gap, se in zip(
            names[1:], -table["difference"].iloc[1:], table["difference_se"].iloc[1:], strict=True
        )
        if gap < max(2.0 * se, LEAST_DIFFERENCE)
    ]
    second = table.iloc[1]
    gap = f"{_one_decimal(abs(second['difference']))} "
    gap += f"(standard error {_one_decimal(second['difference_se'])})"
    if close:
        verb = "predicts" if len(close) == 1 else "predict"
        verdict = (
            f"{names[0]} has the highest leave-one-out density, but {enumerate_words(close)} "
            f"{verb} about as well: the difference to {names[1]} is {gap}."
        )
    else:
        verdict = (
            f"{names[0]} predicts best. Its leave-one-out density is {gap} higher than that of "
            f"{names[1]}, the next."
        )
    return markup.Sentences(sentences, verdict, not waiting)


def _one_decimal(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:,.1f}".replace("-", "−")


def _column(table: pd.DataFrame, name: str, head: str, form: Any) -> Column:
    values = table[name].astype("Float64").to_numpy(float, na_value=math.nan)
    return numeric(head, values, EXPLAINED[name], form=form)


def _named(name: str, table: pd.DataFrame, columns: list[Column]) -> Table:
    fits = Column("fit", [str(fit) for fit in table.index])
    caption = " ".join(f"{c.head}: {c.explained}." for c in columns if c.explained)
    return Table(name, caption, [fits, *columns])


def _predictions(table: pd.DataFrame) -> Table:
    columns = [
        _column(table, "elpd", "elpd", _one_decimal),
        _column(table, "se", "se", _one_decimal),
        _column(table, "difference", "difference", _one_decimal),
        _column(table, "difference_se", "se of difference", _one_decimal),
        _column(table, "stacking", "stacking", "{:.2f}".format),
    ]
    return _named("predictions", table, columns)


def _clusters(table: pd.DataFrame) -> Table:
    numbers = table[["n_clusters", "n_lower", "n_upper"]].astype(int).to_numpy().tolist()
    columns = [
        Column(
            "clusters",
            [f"{k} ({low} to {high})" if low < high else f"{k}" for k, low, high in numbers],
            [k for k, _, _ in numbers],
            "most probable number, with a 90% interval",
        ),
        _column(table, "ari", "ARI", "{:.2f}".format),
        _column(table, "entropy_r2", "entropy R²", "{:.2f}".format),
        _column(table, "assignment", "assignment", probability),
        _column(table, "smallest", "smallest", "{:.1%}".format),
        _column(table, "bic", "BIC", _one_decimal),
        Column("converged", ["yes" if done else "no" for done in table["converged"]]),
        _column(table, "seconds", "seconds", _one_decimal),
    ]
    return _named("clusters", table, columns)


def _picture(table: pd.DataFrame) -> markup.Figures:
    def draw(width: float) -> Figure:
        figure = style.page_figure(width, comparison_height(table))
        draw_differences(table, figure.subplots())
        return figure

    caption = (
        "Leave-one-out log density minus that of the best fit. Thick lines: one standard error of "
        "the difference. Thin lines: two."
    )
    alt = f"Differences of {len(table)} fits to the best."
    return markup.Figures([markup.picture(draw(DESK), alt, caption, wide=True, narrow=draw(PHONE))])
