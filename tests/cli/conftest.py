from pathlib import Path

import pytest
from cli_runs import QUICK, Ran, make_table, start


@pytest.fixture
def cavity(capsys, monkeypatch, tmp_path):
    """Run the command in this process, in a folder of its own."""
    import warnings

    from cavity.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ran(left.value.code, out, err)

    return run


@pytest.fixture
def table(tmp_path):
    """A table of two clear clusters with a column of names."""
    frame = make_table()
    frame.to_csv(tmp_path / "data.csv", index=False)
    return frame


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A finished run, not to be changed."""
    folder = tmp_path_factory.mktemp("finished")
    make_table().to_csv(folder / "data.csv", index=False)
    process = start(
        "fit",
        "data.csv",
        "--id-column",
        "name",
        "--clusters",
        3,
        "--out",
        "run",
        *QUICK,
        cwd=folder,
    )
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    return Path(folder), out, err
