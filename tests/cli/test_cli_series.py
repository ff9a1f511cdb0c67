"""Series on the command line: their options, and wide tables."""

import json

import numpy as np
import pandas as pd
import pytest
from cli_runs import QUICK

import cavity as library
from cavity.cli.options import Choice
from cavity.cli.selection import read_table, select_wide

pytestmark = pytest.mark.usefixtures("without_page")
FIT = ["fit", "wide.csv", "--model", "series", "--clusters", "2", *QUICK]
N, T = 6, 30


@pytest.fixture
def wide(tmp_path):
    """Monthly readings of six shops, names that a reader could take for numbers, some gaps."""
    rng = np.random.default_rng(0)
    paths = np.cumsum(rng.standard_normal((2, T)), axis=1)
    values = paths[np.arange(N) % 2] + 0.1 * rng.standard_normal((N, T))
    values += 2.0 * np.cos(2 * np.pi * np.arange(T) / 12)
    values[rng.random((N, T)) < 0.1] = np.nan
    months = pd.period_range("2020-01", periods=T, freq="M").astype(str)
    index = pd.Index([f"{7 * i:03d}" for i in range(N, 0, -1)], name="shop")
    table = pd.DataFrame(values.round(3), index=index, columns=months)
    table.to_csv(tmp_path / "wide.csv")
    return table


def settings(folder):
    return json.loads((folder / "run.json").read_text())["settings"]


@pytest.mark.parametrize(
    ("noise", "common"),
    [
        pytest.param("learn", False, id="clusters alone"),
        # Kernels of its own: half a minute of compiling.
        pytest.param("gaussian", True, id="common factor", marks=pytest.mark.slow),
    ],
)
def test_options_reach_the_model_and_the_record(cavity, wide, tmp_path, noise, common):
    rows = wide.stack().rename("sales").rename_axis(index=["shop", "month"]).reset_index()
    rows.to_csv(tmp_path / "long.csv", index=False)
    long = ["fit", "long.csv", "--model", "series", "--clusters", "2", *QUICK]
    long += ["--series", "shop", "--time", "month", "--value", "sales", "--df", noise]
    long += ["--common-factor" if common else "--no-common-factor"]
    long += ["--season", "12", "--scales", "all", "--forecast", "5"]
    ran = cavity(*long)
    assert ran.code == 0, ran.err
    assert ("As requested, a movement that all series share was removed" in ran.out) == common
    folder = tmp_path / "cavity-run"
    asked = {"common_factor": common, "season": 12, "df": noise, "scales": "all", "forecast": 5}
    assert asked.items() <= settings(folder).items()
    fit = library.load(folder / "posterior.nc")
    held = None if noise == "gaussian" else noise
    assert (fit.common_factor, fit.season, fit.df, fit.scales) == (common, 12, held, "all")
    # Observations have the season and noise, trends have neither.
    ahead = pd.read_csv(folder / "forecast.csv", dtype={"shop": str})
    assert len(ahead) == N * 5
    assert (ahead["upper"] - ahead["lower"] > ahead["trend_upper"] - ahead["trend_lower"]).all()
    found = fit.forecast(5).mean.loc["007"].to_numpy()
    np.testing.assert_allclose(ahead.loc[ahead["shop"] == "007", "mean"], found, rtol=1e-4)
    assert pd.read_csv(folder / "seasons.csv").shape == (N * 12, 5)
    assert ("common" in pd.read_csv(folder / "parameters.csv").columns) == common
    factors = pd.read_csv(folder / "factors.csv", dtype=str)
    assert (factors["cluster"].iloc[-1] == "common") == common
    # A run that is not finished goes on with the same options, and with no others.
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "status": "drawn"}))
    assert "--season" in cavity(*long, "--season", "6").sentence
    assert cavity("fit", "--resume").code == 0
    assert settings(folder)["season"] == 12


def test_a_wide_table(cavity, wide, tmp_path):
    ran = cavity(*FIT, "--no-common-factor")
    assert ran.code == 0, ran.err
    assert "Column 'shop' is taken as the names of the series." in ran.err
    n_values = int(wide.notna().to_numpy().sum())
    assert f"{N} series, {n_values} observations, of wide.csv" in ran.out
    folder = tmp_path / "cavity-run"
    labels = pd.read_csv(folder / "labels.csv", dtype={"shop": str})
    assert labels["shop"].tolist() == wide.index.tolist()
    trends = pd.read_csv(folder / "trends.csv", dtype={"shop": str})
    assert trends["time"].iloc[0] == "2020-01"
    assert len(pd.read_csv(folder / "forecast.csv")) == N * 12
    assert cavity("report", "cavity-run").code == 0
    # It predicts cells of wide tables and of long ones alike; an empty cell is one to come.
    new = wide.iloc[[1, 0], [3]].assign(**{"2022-08": np.nan})
    new.iloc[:, 0] = 1e4, 0.0
    new.to_csv(tmp_path / "new.csv")
    assert cavity("predict", "cavity-run", "new.csv", "--out", "placed.csv").code == 0
    placed = pd.read_csv(tmp_path / "placed.csv", dtype={"shop": str})
    assert placed["shop"].tolist() == np.repeat(new.index, 2).tolist()
    assert placed["time"].tolist() == ["2020-04", "2022-08"] * 2
    assert placed["tail_probability"].idxmin() == 0
    assert placed["tail_probability"].isna().tolist() == [False, True] * 2
    placed[["shop", "time"]].to_csv(tmp_path / "new.csv", index=False)
    assert cavity("predict", "cavity-run", "new.csv", "--out", "again.csv").code == 0
    again = pd.read_csv(tmp_path / "again.csv", dtype={"shop": str})
    pd.testing.assert_frame_equal(again, placed[again.columns])
    # Series that are all new are put into the clusters; some new ones among others are refused.
    wide.rename(index=lambda name: f"9{name}").iloc[:3].to_csv(tmp_path / "new.csv")
    ran = cavity("predict", "cavity-run", "new.csv", "--out", "clusters.csv")
    assert ran.out == "Wrote the clusters of 3 series to clusters.csv.\n"
    found = pd.read_csv(tmp_path / "clusters.csv", dtype={"shop": str})
    assert sorted(found["shop"]) == ["9028", "9035", "9042"]
    assert found["probability"].between(0.0, 1.0).all()
    new.rename(index={"042": "900"}).to_csv(tmp_path / "new.csv")
    assert "'900' was not in the data" in cavity("predict", "cavity-run", "new.csv").sentence


@pytest.mark.variants("slow", "wide")
@pytest.mark.parametrize("form", ["wide", "long"])
def test_logarithms_of_series(cavity, wide, tmp_path, form):
    def told(*options):
        return cavity(*FIT[:1], f"{form}.csv", *FIT[2:], *more, *options)

    amounts = np.exp(wide / wide.stack().std())
    more = ("--no-common-factor", "--warmup", "2", "--draws", "4", "--chains", "1")
    name = "value"
    if form == "long":
        more = (*more, "--series", "shop", "--time", "time", "--value", "value")
        long = amounts.rename_axis(columns="time").stack().rename("value").reset_index()
        long.to_csv(tmp_path / "long.csv", index=False)
    else:
        amounts.to_csv(tmp_path / "wide.csv")
    assert told("--log", name).code == 0
    trends = pd.read_csv(tmp_path / "cavity-run" / "trends.csv")
    assert trends["mean"].abs().max() < 5.0 < amounts.max(axis=None)
    assert "--log" in told("--log", "price", "--out", "other").sentence
    (wide - wide.max(axis=None)).to_csv(tmp_path / "wide.csv")
    if form == "wide":
        assert "has no logarithm" in told("--log", name, "--out", "other").sentence


def test_what_is_no_wide_table(cavity, wide, tmp_path):
    def said(table, *options, **how):
        table.to_csv(tmp_path / "wide.csv", **how)
        return cavity(*FIT, *options).sentence

    more = wide.assign(town="x", area=1.0)
    assert "'shop', 'town', 'area' beside them; say which column" in said(more)
    sentence = said(more, "--series", "shop")
    assert sentence.endswith("leave such columns out with --exclude town,area.")
    assert "has the name '042' of an earlier row" in said(wide.rename(index={"035": "042"}))
    assert "column 'shop' of wide.csv is missing" in said(wide.rename(index={"035": ""}))
    assert "--covariates are columns of a long table" in said(wide, "--covariates", "area")
    assert "--model series needs --series, --time and --value" in said(wide.add_prefix("m"))
    assert "--value is missing" in said(wide, "--series", "shop", "--time", "2020-01")
    days = [f"{day:02d}/01/2020" for day in range(1, T + 1)]
    both = wide.set_axis(days, axis=1).iloc[:, :10]
    assert "which may be day or month first" in said(both)
    years = wide.set_axis([f"y{1990 + t}" for t in range(T)], axis=1)
    words = ["--date-format", "y%Y", "--season", "20"]
    assert "--season 20 needs two seasons of data" in said(years, *words)


@pytest.mark.parametrize("named", [True, False])
def test_names_where_the_header_has_none(wide, tmp_path, capsys, named):
    """The first column without a name has those of the series; else they are counted from one."""
    path = tmp_path / "wide.csv"
    wide.set_axis(range(1990, 1990 + T), axis=1).to_csv(path, index=named, index_label="")
    found = select_wide(read_table(path, Choice()), Choice())
    assert found.id_name == "series"
    assert found.table.index.tolist() == (wide.index.tolist() if named else list("123456"))
    assert found.table.columns.tolist() == list(range(1990, 1990 + T))
    np.testing.assert_array_equal(found.table.to_numpy(), wide.to_numpy())
    assert ("first column is taken as the names" in capsys.readouterr().err) == named


@pytest.mark.parametrize("option", ["--season", "--scales", "--forecast", "--common-factor"])
def test_options_of_series_alone(cavity, wide, option):
    given = [option] if option == "--common-factor" else [option, "3"]
    sentence = cavity("fit", "wide.csv", *given).sentence
    assert sentence == (f"{option} goes with --model series only; leave it out or change --model.")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--df", "learn-each"], "--df must be"),
        (["--df", "inf"], "--df must be"),
        (["--scales", "loud"], "--scales must be"),
        (["--season", "1"], "--season must be"),
    ],
)
def test_settings_that_are_refused(cavity, wide, given, sentence):
    assert sentence in cavity(*FIT, *given).sentence
