"""What is refused, and in which words: one sentence, exit code 2, before any sampling."""

import errno
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from cli_runs import QUICK

import cavity as package


@pytest.fixture(autouse=True)
def no_sampling(monkeypatch, request):
    """A refusal must come before a chain is started."""

    def refuse(*arguments, **options):
        raise AssertionError("sampling began")

    monkeypatch.setattr("cavity.estimators.fitting.run_chains", refuse)


def write(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "bad.csv is empty: it has neither a header nor rows."),
        ("a,b\n", "bad.csv has a header but no rows, so there is nothing to read."),
        ("a,b\n1,2\n", "There is one row only; clustering needs at least two."),
        (
            "shop,a,b\nx,1,2\ny,2,1\n",
            "Column 'shop' of bad.csv holds text, not numbers (row 1 is 'x'); leave it out with "
            "--exclude shop, or name the rows by it with --id-column shop.",
        ),
        (
            "a,b\n1,2\n3,none\n4,5\n5,6\n",
            "Row 2, column 'b' of bad.csv is 'none', not a number; correct it (empty is missing), "
            "or leave the column out with --exclude b.",
        ),
        (
            "shop,town,a\nx,u,2\ny,v,1\n",
            "2 columns of bad.csv are not of numbers: 'shop', 'town'; leave them out with "
            "--exclude 'shop,town', or name the rows by one of them with --id-column.",
        ),
        (
            'a,b\n1,"3,14"\n2,"2,5"\n',
            "Row 1, column 'b' of bad.csv is '3,14', not a number as it stands; if ',' is the "
            "decimal mark, add --decimal ','.",
        ),
        (
            "a,b,a\n1,2,3\n",
            "bad.csv has 2 columns named 'a' (columns 1 and 3); rename one, or leave them out with "
            "--exclude a.",
        ),
        (
            "a,b\n1,\n3,\n4,\n5,\n",
            "Column 'b' has no value in any row. Leave it out.",
        ),
        (
            "a,b\n1,2\n3,inf\n4,5\n",
            "Row 2, column 'b' of bad.csv is infinite; replace such values first.",
        ),
        (
            "a,b\n1,2\n3,1\n4,5\n",
            "There are 3 rows, fewer than --clusters 4; lower --clusters, or use --prior dp.",
        ),
        (
            "a;b\n1;2\n3;4\n",
            "bad.csv seems to separate its columns by ';'; add --separator ';'.",
        ),
        (
            "a,b\n1,2e306\n2,1e306\n3,3e306\n4,4e306\n",
            "Column 'b' reaches 4e+306, whose square is beyond floating point. Divide it by a "
            "power of ten first.",
        ),
    ],
)
def test_tables_that_are_refused(cavity, tmp_path, text, sentence):
    write(tmp_path / "bad.csv", text)
    ran = cavity("fit", "bad.csv", "--model", "student-t", "--clusters", 4, *QUICK)
    assert ran.sentence == sentence
    assert not (tmp_path / "cavity-run").exists()


def test_lines_of_unequal_length(cavity, tmp_path):
    write(tmp_path / "bad.csv", "a,b\n1,2\n1,2,3,4\n")
    assert cavity("fit", "bad.csv", *QUICK).sentence == (
        "Row 2 of bad.csv has 4 fields, but the header has 2; correct the row; text that contains "
        "the separator must be in quotation marks."
    )


def test_bytes_that_are_no_text(cavity, tmp_path):
    (tmp_path / "bad.csv").write_bytes(b"a,b\n1,2\n\xe9,2\n")
    assert "Line 3 of bad.csv is not text in UTF-8" in cavity("fit", "bad.csv", *QUICK).sentence
    (tmp_path / "bad.parquet").write_bytes(b"not parquet at all")
    assert "cannot be read as Parquet" in cavity("fit", "bad.parquet", *QUICK).sentence


def test_missing_file(cavity):
    sentence = cavity("fit", "none.csv", *QUICK).sentence
    assert sentence == "There is no file none.csv; check the name and the folder."


def test_a_folder_for_data(cavity, tmp_path):
    refused = cavity("fit", tmp_path, *QUICK).sentence
    assert refused == f"The folder {tmp_path} holds no Parquet files (*.parquet)."


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--columns", "height,age"], "data.csv has no column 'age'; it has 'name', 'height',"),
        (["--id-column", "nick"], "data.csv has no column 'nick'"),
        (["--columns", "name", "--id-column", "name"], "cannot be both the id column and one"),
        (["--df", "some"], "--df must be"),
        (["--df", "-2"], "--df must be a number at least 0.05 and at most 1e+06, not -2.0."),
        (["--concentration", "x"], "--concentration must be"),
        (
            ["--concentration", "-1"],
            "--concentration must be a number between 1e-100 and 1e+100, or 'learn', not -1.0.",
        ),
        (["--model", "cubist"], "'cubist' is not one of 'auto', 'student-t', 'gaussian', 'table'"),
        (
            ["--loss", "rand"],
            "--loss must be one of 'vi', 'binder', 'omari', or a Loss; got 'rand'",
        ),
        (
            ["--prior", "flat"],
            "--prior must be",
        ),
        (
            ["--collapse", "guess"],
            "--collapse must be one of 'collapsed', 'ep', 'blocked', 'naive'",
        ),
        (["--init", "best"], "--init must be one of"),
        (["--chains", "0"], "--chains must be an integer of at least 1, not 0."),
        (["--seed", "-1"], "--seed must not be negative, not -1."),
        (["--jobs", "0"], "--jobs must not be 0"),
        (["--decimal", "ab"], "--decimal must be one mark"),
        (["--decimal", ",", "--thousands", ","], "--decimal and --thousands cannot both be ','."),
        (["--encoding", "klingon"], "--encoding klingon is not an encoding"),
        (["--exclude", "age"], "data.csv has no column 'age'"),
        (["--exclude", "name,height,weight"], "--exclude leaves no column of data.csv"),
        (["--draws", "many"], "--draws must be"),
        (["--draws", "0"], "--draws must be an integer of at least 1, not 0."),
        (["--max-seconds", "0"], "--max-seconds must be a number greater than 0, not 0.0."),
        (
            ["--draws", "auto", "--warmup", "200", "--max-sweeps", "150"],
            "--max-sweeps 150 leaves no sweep for a draw after --warmup 200 with --thin 1",
        ),
        (["--clusters", "0"], "--clusters must be an integer of at least 1, not 0."),
        (
            ["--model", "gaussian", "--df", "4"],
            "--df goes with --model student-t or table or series only",
        ),
        (["--series", "name"], "--series goes with --model series only"),
        (["--model", "series"], "--model series needs --series, --time and --value"),
        (["--separator", "ab"], "--separator must be one character or the word tab, not 'ab'."),
        (["--colour", "red"], "No such option"),
        (["--resume"], "cavity-run holds no run to resume; leave --resume out to begin one."),
        (["--resume", "--overwrite"], "--resume goes on with a run and --overwrite replaces it"),
    ],
)
def test_options_that_are_refused(cavity, table, tmp_path, options, sentence):
    given = [*QUICK, *options]
    if "series" not in options:
        given += ["--id-column", "name"] if "--id-column" not in options else []
    if "--clusters" not in options:
        given += ["--clusters", 2]
    assert sentence in cavity("fit", "data.csv", *given).sentence
    assert list(tmp_path.iterdir()) == [tmp_path / "data.csv"]


def test_output_that_cannot_be_written_is_known_at_once(cavity, table, tmp_path):
    write(tmp_path / "file", "")
    command = ["fit", "data.csv", "--id-column", "name", "--clusters", 2, *QUICK]
    assert cavity(*command, "--out", "file").sentence == "file is a file; give a folder for --out."
    sentence = cavity(*command, "--out", "file/run").sentence
    assert sentence.startswith("Cannot write to the folder file/run (")
    assert sentence.endswith("); give another --out.")


def test_read_only_output(cavity, table, tmp_path, monkeypatch):
    """As root every folder can be written to, so the refusal of the system is played."""
    from pathlib import Path

    def refuse(self, data):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    sentence = cavity("fit", "data.csv", "--id-column", "name", "--clusters", 2, *QUICK).sentence
    assert sentence == (
        "Cannot write to the folder cavity-run (Permission denied); give another --out."
    )


def test_a_full_disk_is_named_with_what_to_do(cavity, table, monkeypatch):
    def full_disk(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    sentence = cavity("fit", "data.csv", "--clusters", 2, "--out", "full", *QUICK).sentence
    assert sentence.endswith(
        "run.json: No space left on device. Make room there and repeat the command."
    )


def test_a_run_is_not_overwritten(cavity, table, finished, tmp_path):
    shutil.copytree(finished[0] / "run", tmp_path / "run")
    before = (tmp_path / "run" / "labels.csv").read_bytes()
    command = ["fit", "data.csv", "--id-column", "name", "--clusters", 2, "--out", "run", *QUICK]
    assert cavity(*command).sentence == (
        "run already holds a finished run; give another --out, or add --overwrite to replace it."
    )
    assert "holds a run of your own" in cavity("demo", "--out", "run").sentence
    assert (tmp_path / "run" / "labels.csv").read_bytes() == before


@pytest.mark.parametrize("command", [["report"], ["predict"]])
def test_folders_that_are_no_runs(cavity, table, tmp_path, command):
    rest = ["data.csv"] if command == ["predict"] else []
    assert "There is no folder none; give one" in cavity(*command, "none", *rest).sentence
    assert "is a file; give the folder" in cavity(*command, "data.csv", *rest).sentence
    (tmp_path / "empty").mkdir()
    assert "it has no run.json" in cavity(*command, "empty", *rest).sentence
    write(tmp_path / "empty" / "run.json", "{")
    assert "damaged or was not written by cavity" in cavity(*command, "empty", *rest).sentence
    write(tmp_path / "empty" / "run.json", json.dumps({"format": "cavity run", "version": 99}))
    assert "a newer version of cavity; update" in cavity(*command, "empty", *rest).sentence
    write(tmp_path / "empty" / "run.json", json.dumps({"format": "cavity run", "version": 1}))
    assert "an older version of cavity; run" in cavity(*command, "empty", *rest).sentence


def test_a_damaged_posterior(cavity, finished, tmp_path, table):
    shutil.copytree(finished[0] / "run", tmp_path / "run")
    path = tmp_path / "run" / "posterior.nc"
    path.write_bytes(path.read_bytes()[:-2000])
    assert "is damaged" in cavity("report", "run").sentence
    path.unlink()
    assert cavity("predict", "run", "data.csv").sentence == (
        "run/posterior.nc is gone; run the fit again."
    )


def test_wrong_columns_at_predict(cavity, finished, tmp_path):
    shutil.copytree(finished[0] / "run", tmp_path / "run")
    pd.DataFrame({"height": [1.0], "age": [3]}).to_csv(tmp_path / "new.csv", index=False)
    assert cavity("predict", "run", "new.csv").sentence == (
        "new.csv lacks the column 'weight' that run was fitted to; it has 'height', 'age'."
    )
    pd.DataFrame({"height": [1.0, 2], "weight": ["x", "y"]}).to_csv(
        tmp_path / "new.csv", index=False
    )
    assert "Column 'weight' of new.csv holds text" in cavity("predict", "run", "new.csv").sentence
    pd.DataFrame({"height": [1.0, 2], "weight": [np.inf, 2]}).to_csv(
        tmp_path / "new.csv", index=False
    )
    assert (
        "Row 1, column 'weight' of new.csv is infinite"
        in cavity("predict", "run", "new.csv").sentence
    )
    pd.DataFrame({"height": [1.0, 2], "weight": [1, 2]}).to_csv(tmp_path / "new.csv", index=False)
    assert (
        "is a folder; give a file" in cavity("predict", "run", "new.csv", "--out", "run").sentence
    )
    assert (
        "does not exist; make it"
        in cavity("predict", "run", "new.csv", "--out", "no/where.csv").sentence
    )


def test_unknown_commands(cavity):
    assert cavity("xyz").sentence == "No such command 'xyz'. See 'cavity --help'."
    assert "Missing argument 'DATA'" in cavity("fit").sentence


# ------------------------------------------------------------------ help


@pytest.mark.parametrize("command", ["fit", "demo", "report", "predict"])
def test_every_command_explains_itself(cavity, command):
    ran = cavity(command, "--help")
    assert ran.code == 0
    assert ran.out.startswith(f"Usage: cavity {command}")
    assert len(ran.out.splitlines()) > 8


def test_help_teaches(cavity):
    ran = cavity()
    assert ran.code == 0
    assert ran.out == cavity("--help").out
    for words in ("cavity demo", "cavity fit data.csv", "cavity predict", "report.html"):
        assert words in ran.out


def test_version(cavity):
    assert cavity("--version").out == f"cavity {package.__version__}\n"


def test_help_comes_within_a_second():
    took = []
    for _ in range(3):
        # Processor time, which other work on the machine hardly changes.
        start = os.times()
        subprocess.run([sys.executable, "-m", "cavity", "--help"], capture_output=True, check=True)
        end = os.times()
        took.append(end.children_user + end.children_system - sum(start[2:4]))
    assert min(took) < 1.0


def test_tracebacks_are_shown_to_those_who_ask(monkeypatch):
    from cavity.cli import main
    from cavity.io.words import ReadingError

    with pytest.raises(ReadingError, match="There is no file"):
        main(["--traceback", "fit", "none.csv"])
