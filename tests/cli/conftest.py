from pathlib import Path

import pytest
from cli_runs import QUICK, Ran, make_table, start

# One white dot, for pages whose pictures nobody looks at.
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg=="


@pytest.fixture
def cavity(capsys, monkeypatch, tmp_path):
    """Run the command in this process, in a folder of its own, with pages that draw nothing.

    Pictures of a page take most of a short run. They have tests of their own, in `tests/report`,
    and are drawn by every run in a process of its own, such as those of `finished` and the demos.
    """
    import warnings

    from cavity.cli import main
    from cavity.report import markup

    monkeypatch.chdir(tmp_path)
    dot = markup.Image(f"data:image/png;base64,{DOT}", 1, 1)
    monkeypatch.setattr(markup, "_png", lambda figure: dot)
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
