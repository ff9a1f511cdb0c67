"""Imports go downwards only: the order is the one that docs/architecture.md states."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "cavity"


def stated_order() -> list[str]:
    """The rooms of the house, lowest first, from the page that describes it."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    line = re.search(r"^    (utils <[^\n]*(?:\n    [^\n]*)*)", text, re.MULTILINE)
    assert line, "docs/architecture.md states no order"
    return [room.strip() for room in line.group(1).replace("\n", " ").split("<")]


def room_of(module: str) -> str | None:
    """The package or module directly below cavity; None for cavity itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


@functools.cache
def import_statements(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """Every import statement of a file, wherever in it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(path: Path) -> list[tuple[int, str]]:
    """Every module of cavity that a file imports, with the line."""
    found = []
    for node in import_statements(path):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module == "cavity":
                found += [(node.lineno, f"cavity.{alias.name}") for alias in node.names]
            elif node.module.startswith("cavity."):
                found.append((node.lineno, node.module))
        if isinstance(node, ast.Import):
            found += [(node.lineno, a.name) for a in node.names if a.name.startswith("cavity.")]
    return found


def public_homes() -> dict[str, str]:
    """Rooms of the names that cavity itself offers."""
    import cavity

    return {name: home.split(".")[1] for name, home in cavity._HOME.items()}


def faults(sources: dict[str, list[tuple[int, str]]], order: list[str]) -> list[str]:
    """Imports that go upwards, as ``file:line: room imports room``."""
    height = {room: level for level, room in enumerate(order)}
    homes = public_homes()
    out = []
    for name, found in sources.items():
        own = name.split("/")[0].removesuffix(".py")
        if own in ("__init__", "__main__"):
            continue
        for line, module in found:
            room = room_of(module)
            room = homes.get(room or "", room)
            if room is None or room.startswith("__") or room == own:
                continue
            if height[room] >= height[own]:
                out.append(f"{name}:{line}: {own} imports {room}")
    return out


def all_sources() -> dict[str, list[tuple[int, str]]]:
    return {p.relative_to(PACKAGE).as_posix(): imports(p) for p in sorted(PACKAGE.rglob("*.py"))}


def test_every_room_has_its_place():
    rooms = {name.split("/")[0].removesuffix(".py") for name in all_sources()}
    assert sorted(rooms - {"__init__", "__main__"}) == sorted(stated_order())


def test_imports_go_downwards():
    assert faults(all_sources(), stated_order()) == []


@pytest.mark.parametrize(
    ("place", "module"),
    [
        ("priors/partition.py", "cavity.mcmc.sweep"),
        ("_numba/simd.py", "cavity.interface"),
        ("posterior/posterior.py", "cavity.report.html"),
        ("likelihoods/student_t.py", "cavity.collapse.ep"),
        ("report/html.py", "cavity.StudentTMixture"),
    ],
)
def test_an_import_against_the_order_is_found(place, module):
    """Negative control."""
    assert faults({place: [(1, module)]}, stated_order()) != []


def test_only_one_module_imports_the_compiler():
    """Numba through _numba alone."""
    users = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in import_statements(path):
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                names = [alias.name for alias in node.names]
            if any(n == "numba" or n.startswith(("numba.", "llvmlite")) for n in names):
                users.append(path.relative_to(PACKAGE).as_posix())
    assert {u.split("/")[0] for u in users} <= {"_numba"}, users


def test_no_room_reaches_into_private_parts_of_another():
    """``report`` and ``cli`` read what estimators offer, not what they hide."""
    pattern = re.compile(r"\b(?:estimator|mixture|model|m|s)\._(?!_)\w+")
    for room in ("report", "cli", "plotting", "hedonic"):
        for path in sorted((PACKAGE / room).rglob("*.py")):
            found = pattern.findall(path.read_text(encoding="utf-8"))
            assert not found, f"{path.name}: {found}"
