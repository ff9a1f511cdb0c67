"""The README and the pages are accurate: output, links, paths and options."""

import importlib.util
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def load_images():
    spec = importlib.util.spec_from_file_location("make_images", ROOT / "docs" / "make_images.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# How far each kind of number may be from what is written: rounding differs between processors and
# leads a chain elsewhere. A row in doubt may change its cluster (most of the 24 outliers are sure
# of their place); shares and certainties are means over hundreds of rows and 1,200 draws.
TOLERANCE = {"size": 3, "share": 0.05, "certainty": 0.05}


def read_tables(text):
    """The two tables of the example and the sentence below them."""
    lines = text.splitlines()
    clusters = pd.read_csv(io.StringIO("\n".join([f"cluster {lines[0]}", *lines[2:7]])), sep=r"\s+")
    doubtful = pd.read_csv(io.StringIO("\n".join([f"row {lines[7]}", *lines[9:12]])), sep=r"\s+")
    return clusters.set_index("cluster"), doubtful.set_index("row"), lines[12:]


def disagreements(printed, written):
    """What of the example's output is not what is written."""
    (mine, doubtful, verdict), (theirs, their_doubtful, their_verdict) = map(
        read_tables, (printed, written)
    )
    found = []
    if verdict != their_verdict:
        found.append("verdict")
    if mine.index.tolist() != theirs.index.tolist():
        found.append("clusters")
    found += [
        column
        for column, most in TOLERANCE.items()
        if not (np.abs(mine[column].to_numpy() - theirs[column].to_numpy()) <= most + 1e-9).all()
    ]
    if doubtful.columns.tolist() != their_doubtful.columns.tolist():
        return [*found, "columns"]
    # Which row is the most doubtful may change; how doubtful the first ones are may not.
    gap = doubtful["probability"].to_numpy() - their_doubtful["probability"].to_numpy()
    if not (np.abs(gap) <= 0.1).all():
        found.append("doubtful")
    # Rows that both list are in the same two clusters, which may change places.
    both = doubtful.index.intersection(their_doubtful.index)
    names = ["cluster", "alternative"]
    mine, theirs = (np.sort(table.loc[both, names]) for table in (doubtful, their_doubtful))
    return found if len(both) and (mine == theirs).all() else [*found, *names]


def written_output():
    found = re.search(r"<!-- example: output -->\n```text\n(.*?)```", README, re.DOTALL)
    return found.group(1)


@pytest.mark.slow
def test_the_example_prints_what_is_written():
    (printed,) = load_images().example_output(README)
    assert disagreements(printed, written_output()) == []


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("23   0.07       0.88", "23   0.17       0.88", ["share"]),
        ("23   0.07       0.88", "23   0.07       0.78", ["certainty"]),
        ("23   0.07", "18   0.07", ["size"]),
        ("Converged:", "Not converged:", ["verdict"]),
        ("0.50            0", "0.70            0", ["doubtful"]),
        ("-1         0.50", " 4         0.50", ["cluster", "alternative"]),
        ("0.61           -1", "0.61            4", ["cluster", "alternative"]),
        ("probability  alternative", "probability  other", ["columns"]),
    ],
)
def test_an_example_that_is_out_of_date_is_noticed(old, new, what):
    """Negative control."""
    text = written_output()
    assert old in text
    assert disagreements(text.replace(old, new), text) == what


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))])
def test_links_lead_somewhere(page):
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            # Pages of the site that a build makes out of scripts.
            made = re.fullmatch(r"(learn|gallery)/(\w+)\.rst", target)
            place = path.parent / target
            if made:
                folder, name = made.groups()
                name = "README.rst" if name == "index" else f"{name}.py"
                place = ROOT / "examples" / folder / name
            assert place.exists(), target


def test_places_named_on_the_pages_exist():
    package = ROOT / "src" / "cavity"
    named = set()
    for page in ("maths", "architecture"):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        named |= set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|/))`", text))
    assert len(named) > 15
    for name in named:
        places = [package, ROOT / "tests", ROOT, package / "series", package / "posterior"]
        assert any((place / name).exists() for place in places), name


def test_the_command_in_the_readme_has_its_options():
    import typer

    from cavity.cli.app import app

    commands = typer.main.get_command(app).commands
    lines = re.findall(r"^cavity (\w+) (.*)$", README, re.MULTILINE)
    assert len(lines) >= 2
    for command, rest in lines:
        known = {option for p in commands[command].params for option in p.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= known
