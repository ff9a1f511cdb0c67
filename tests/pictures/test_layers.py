"""Pictures know no posterior, the posterior no report, the report no estimator."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import cavity

ABOVE = {
    "pictures": ("posterior", "report", "estimators", "hedonic", "cli"),
    "posterior": ("report", "estimators", "hedonic", "cli"),
    "report": ("estimators", "hedonic", "cli"),
}
ROOT = Path(cavity.__file__).parent


def imported(path):
    """Modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("package", ABOVE)
def test_nothing_is_imported_from_above(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    found = [
        (path.name, module)
        for path in files
        for module in imported(path)
        if module.startswith(tuple(f"cavity.{name}" for name in ABOVE[package]))
    ]
    assert found == []
