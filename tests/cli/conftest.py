import json

import pytest
from cli_runs import QUICK, Ran, make_table, start


@pytest.fixture
def cavity(capsys, monkeypatch, tmp_path, without_pictures):
    """Run the command in this process, in a folder of its own, with pictures that are dots.

    Runs in processes of their own draw their pictures, such as that of `finished`.
    """
    import warnings

    from cavity.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cavity.cli.folder.save_picture", lambda path, axes: path.touch())
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ran(left.value.code, out, err)

    return run


@pytest.fixture
def without_page(monkeypatch):
    """Runs whose page is empty, for tests of everything else in the folder."""
    monkeypatch.setattr(
        "cavity.report.html.write_report", lambda path, *given, **options: path.touch()
    )


@pytest.fixture
def table(tmp_path):
    """A table of two clear clusters with a column of names."""
    frame = make_table()
    frame.to_csv(tmp_path / "data.csv", index=False)
    return frame


@pytest.fixture(scope="session")
def finished(made_once):
    """A finished run, not to be changed: its folder and what it printed."""

    def make(folder):
        make_table().to_csv(folder / "data.csv", index=False)
        command = ["fit", "data.csv", "--id-column", "name", "--clusters", 3, "--out", "run"]
        process = start(*command, *QUICK, cwd=folder)
        printed = process.communicate(timeout=500)
        assert process.returncode == 0, printed[1]
        (folder / "printed.json").write_text(json.dumps(printed), encoding="utf-8")

    folder = made_once("finished-run", make)
    return folder, *json.loads((folder / "printed.json").read_text(encoding="utf-8"))
