"""What is installed: the package alone, and only with releases of others that are safe."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

import cavity

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_wheel_holds_the_package_alone():
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    # The hook adds kernels to a release's wheels, and nothing where none were made.
    assert wheel == {"packages": ["src/cavity"], "hooks": {"custom": {}}}
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(import|from) reproduction\b", text, re.M), path


def test_unsafe_releases_of_pyarrow_are_excluded():
    (pyarrow,) = (
        r for r in map(Requirement, PROJECT["project"]["dependencies"]) if r.name == "pyarrow"
    )
    assert not pyarrow.specifier.contains("14.0.0")
    assert pyarrow.specifier.contains("16.0.0")


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


def oldest_list() -> dict[str, str]:
    lines = (ROOT / ".ci" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def lower_bounds() -> dict[str, str]:
    found = {}
    for requirement in map(Requirement, PROJECT["project"]["dependencies"]):
        (lower,) = (s.version for s in requirement.specifier if s.operator == ">=")
        found[requirement.name] = lower
    return found


def same_release(tested: str, bound: str) -> bool:
    """Whether a release is one of the bound's own, such as 1.26.4 of 1.26."""
    return Version(tested).release[: len(Version(bound).release)] == Version(bound).release


def test_the_oldest_releases_that_are_allowed_are_those_that_are_tested():
    tested, bounds = oldest_list(), lower_bounds()
    assert set(tested) == set(bounds)
    assert [n for n, bound in bounds.items() if not same_release(tested[n], bound)] == []


def test_a_bound_below_what_is_tested_is_noticed():
    """Negative control."""
    assert same_release("14.0.1", "14.0.1")
    assert not same_release("1.26.0", "1.25")
    assert not same_release("14.0.2", "14.0.1")


def test_the_citation_is_of_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", text, re.M).group(1) == cavity.__version__


def test_hooks_and_workflows_check_what_ci_does():
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    for command in re.findall(r"^\.venv/bin/(.*)$", ci, re.M):
        assert f"entry: .venv/bin/{command}\n" in hooks
    suite = re.search(r"^python3 -m venv .*(\.venv/bin/python -m pytest.*)$", README, re.M).group(1)
    assert f"entry: {suite}\n" in hooks
    for name in ("tests", "docs", "release"):
        text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8")
        for script in re.findall(r"run: (?:bash|python) ([\w./]+(?:\.py|run))", text):
            assert (ROOT / script).exists(), script


def test_pythons_of_classifiers_are_tested():
    named = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    assert named
    assert all(f'"{version}"' in text for version in named)
