"""What is installed: the package alone, and only with releases of others that are safe."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_wheel_holds_the_package_alone():
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["src/cavity"]}
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(import|from) reproduction\b", text, re.M), path


def test_unsafe_releases_of_pyarrow_are_excluded():
    (pyarrow,) = (
        r for r in map(Requirement, PROJECT["project"]["dependencies"]) if r.name == "pyarrow"
    )
    assert not pyarrow.specifier.contains("14.0.0")
    assert pyarrow.specifier.contains("14.0.1")


def test_extras_that_messages_and_pages_name_exist():
    extras = set(PROJECT["project"]["optional-dependencies"])
    texts = [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "reproduction").glob("*"),
        *(ROOT / "docs").glob("*.md"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
    ]
    named = {}
    for path in texts:
        if path.is_file():
            for group in re.findall(r"(?:cavity|-e '?\.)\[([a-z,]+)\]", path.read_text("utf-8")):
                named.update(dict.fromkeys(group.split(","), path.name))
    assert named
    assert not {name: where for name, where in named.items() if name not in extras}
