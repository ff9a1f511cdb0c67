"""Section of the report on covariates or an outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.plotting import style
from cavity.plotting.forest import draw_forest, forest_height
from cavity.report import markup
from cavity.report.markup import Column, Section, Table, numeric, probability, swatch

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from cavity.posterior.regression import Regression

DESK, PHONE = 7.0, 4.4
DIFFERENCES_MAX = 300
COVARIATES = (
    "Multinomial logistic regression, per unit of the covariate, corrected for uncertain "
    "membership. P(>0): probability that a coefficient is positive."
)
OUTCOME = "Corrected for uncertain membership."


def regression_section(found: Regression, number: int) -> Section:
    """Return the forest plot and the table, and for outcomes the differences between clusters.

    Parameters
    ----------
    found : Regression
    number : int
        Which of the page's regressions it is.
    """
    name = f"regression-{number}"
    parts: list[Any] = [markup.Figures([_forest(found)]), _table(found, name)]
    if found.reference is None and len(found.differences) <= DIFFERENCES_MAX:
        parts += [
            markup.Text("Differences between clusters", "heading"),
            _differences(found, f"{name}-differences"),
        ]
    return Section(f"{name}-section", found.title, parts)


def _forest(found: Regression) -> markup.Figure:
    def draw(width: float) -> Figure:
        figure = style.page_figure(width, forest_height(found))
        draw_forest(found, figure.subplots())
        return figure

    return markup.picture(
        draw(DESK),
        f"Forest plot: {found.head}.",
        f"Mean and {found.level:.0%} interval by cluster.",
        wide=True,
        narrow=draw(PHONE),
    )


def _table(found: Regression, name: str) -> Table:
    frame = found.table.reset_index()
    columns = [_clusters("cluster", frame["cluster"])]
    if len(found.terms) > 1:
        # One term after the other, as in the picture, with the intercept last.
        first = 0 if found.reference is None else 1
        order = {term: at for at, term in enumerate(found.terms[first:] + found.terms[:first])}
        frame = frame.sort_values("term", key=lambda term: term.map(order), kind="stable")
        head = "level" if found.reference is None else "covariate"
        columns = [Column(head, frame["term"].tolist()), _clusters("cluster", frame["cluster"])]
    form = _Decimals(found, frame)
    if found.reference is None:
        head = "mean" if len(found.terms) == 1 else "share"
        columns += [form.column(name, head) for name, head in _ends("mean", head)]
        return Table(name, f"{found.head}. {OUTCOME}", columns)
    columns += [form.column(name, head) for name, head in _ends("mean", "log odds")]
    columns += [
        numeric("odds ratio", frame["odds_ratio"], "exponential of the log odds"),
        numeric("P(>0)", frame["p_positive"], form=probability),
    ]
    return Table(name, f"{found.head}. {COVARIATES}", columns)


def _differences(found: Regression, name: str) -> Table:
    frame = found.differences
    columns = [_clusters("cluster", frame["cluster"]), _clusters("minus", frame["other"])]
    if len(found.terms) > 1:
        columns.insert(0, Column("level", frame["term"].tolist()))
    form = _Decimals(found, frame)
    columns += [form.column(name, head) for name, head in _ends("difference", "difference")]
    columns.append(numeric("P(>0)", frame["p_positive"], form=probability))
    caption = (
        f"Each pair of clusters, with {found.level:.0%} intervals. P(>0): probability that the "
        "difference is positive."
    )
    return Table(name, caption, columns)


def _ends(mean: str, head: str) -> list[tuple[str, str]]:
    return [(mean, head), ("lower", "lower"), ("upper", "upper")]


def _clusters(head: str, names: pd.Series) -> Column:
    numbers = [int(name) for name in names]
    return Column(head, names.tolist(), numbers, swatches=[swatch(k) for k in numbers])


class _Decimals:
    """Columns in which the standard deviation of each term has two digits."""

    def __init__(self, found: Regression, frame: pd.DataFrame) -> None:
        least = np.maximum(found.draws.std(axis=0).min(axis=0), 1e-6)
        decimals = np.maximum(1 - np.floor(np.log10(least)), 0).astype(int).tolist()
        of_term = dict(zip(found.terms, decimals, strict=True))
        self._frame = frame
        self._decimals = (
            [of_term[term] for term in frame["term"]] if "term" in frame else decimals * len(frame)
        )

    def column(self, name: str, head: str) -> Column:
        """Return a column of numbers."""
        values = self._frame[name].tolist()
        texts = [f"{round(v, n) + 0.0:,.{n}f}" for v, n in zip(values, self._decimals, strict=True)]
        return Column(head, [text.replace("-", "−") for text in texts], values)
