"""What the README and the guide say is so."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def load_images():
    spec = importlib.util.spec_from_file_location("make_images", ROOT / "docs" / "make_images.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_prints_what_is_written():
    """Digits may differ between processors, whose rounding leads a chain elsewhere."""
    printed = load_images().example_output(README).splitlines()
    written = re.search(r"<!-- example: output -->\n```text\n(.*?)```", README, re.DOTALL)
    written = written.group(1).splitlines()
    assert len(printed) == len(written)
    assert printed[-1] == written[-1]
    for mine, theirs in zip(printed[2:6], written[2:6], strict=True):
        assert np.allclose(
            [float(v) for v in mine.split()], [float(v) for v in theirs.split()], atol=6, rtol=0
        )


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))])
def test_links_lead_somewhere(page):
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_places_named_on_the_pages_exist():
    package = ROOT / "src" / "cavity"
    named = set()
    for page in ("maths", "architecture"):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        named |= set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|/))`", text))
    assert len(named) > 15
    for name in named:
        places = [package, ROOT / "tests", ROOT, package / "models/series", package / "posterior"]
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
