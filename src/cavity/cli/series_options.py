"""Options of ``cavity fit`` that are for series alone."""

from __future__ import annotations

from typing import Annotated

import typer

Text = str | None

SeriesColumn = Annotated[
    Text, typer.Option(help="series: column that names the series.", metavar="NAME")
]
TimeColumn = Annotated[
    Text,
    typer.Option(
        help="series: column of times; a table that has none has a column for each time.",
        metavar="NAME",
    ),
]
ValueColumn = Annotated[Text, typer.Option(help="series: column of values.", metavar="NAME")]
Covariates = Annotated[Text, typer.Option(help="series: columns to regress on.", metavar="NAMES")]
DateFormat = Annotated[
    Text,
    typer.Option(help="series: how dates are written, such as %d/%m/%Y.", metavar="FORMAT"),
]
Frequency = Annotated[
    Text,
    typer.Option(help="series: put dates into periods: D, W, M, Q or Y.", metavar="PERIOD"),
]
CommonFactor = Annotated[
    bool | None,
    typer.Option(
        "--common-factor/--no-common-factor",
        help="series: whether all share a movement, such as a market, that clusters are without "
        "[default: if one stands out]",
    ),
]
Season = Annotated[
    int | None,
    typer.Option(
        min=2,
        help="series: times in a season, such as 12 for months; each series has its own pattern.",
    ),
]
Scales = Annotated[
    Text,
    typer.Option(
        help="series: each (series are alike in spread) or all (louder ones count more) [default: "
        "each, or all with --covariates]",
    ),
]
Forecast = Annotated[
    int | None,
    typer.Option(min=1, help="series: how many times forecast.csv reaches ahead [default: 12]"),
]
