"""The site: structure of scripts, measured values on pages, links."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from benchmarks import page as benchmarks_page

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "examples").glob("*/*.py"))
GALLERY = [path for path in SCRIPTS if path.parent.name == "gallery"]


def load_build():
    spec = importlib.util.spec_from_file_location("site_build", ROOT / "docs" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_a_page_with_a_title_and_names_that_exist(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    title, line = ast.get_docstring(tree, clean=True).splitlines()[:2]
    assert title
    assert set(line) == {"="}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("cavity"):
            module = importlib.import_module(node.module)
            assert all(hasattr(module, alias.name) for alias in node.names)


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_a_gallery_page_has_question_answer_and_the_usual_tool(path):
    text = path.read_text(encoding="utf-8")
    assert "**Question.**" in text
    assert "**Answer.**" in text
    assert re.search(r"\*\*(The usual tool|What would have gone wrong)\.\*\*", text)


def test_the_gallery_has_a_dozen_scripts():
    assert len(GALLERY) >= 12


def test_values_on_pages_match_the_table():
    table = benchmarks_page.read_table()
    pages = benchmarks_page.pages_with_figures()
    assert ROOT / "README.md" in pages
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert benchmarks_page.fill(text, table) == text, f"{path}: python -m benchmarks --write"
        # At the start of a line a comment would be a paragraph of its own.
        assert not re.search(r"^<!-- measured", text, re.M), path
    written = benchmarks_page.PAGE.read_text(encoding="utf-8")
    assert benchmarks_page.page_of(table) == written


def test_a_stale_or_unknown_value_is_detected():
    """Negative control."""
    table = pd.DataFrame(
        [["speed", "small", "cavity", "sweep", "1.5", "ms"]], columns=benchmarks_page.COLUMNS
    )
    text = "It takes <!-- measured: speed/small/cavity/sweep -->2.0 ms<!-- end -->."
    assert "-->1.5 ms<!--" in benchmarks_page.fill(text, table)
    with pytest.raises(KeyError, match="names 0 figures"):
        benchmarks_page.fill(text.replace("small", "large"), table)


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">x</a><a href="https://example.org/none">x</a><img src="no.png">'
        '<a href="b.html#there">x</a><a href="#top">x</a>'
    )
    (tmp_path / "b.html").write_text('<p id="here"><a href="a.html">x</a><a href="c.html">x</a>')
    assert load_build().broken_links(tmp_path) == [
        "a.html: no.png",
        "a.html: b.html#there",
        "b.html: c.html",
    ]


@pytest.mark.site
@pytest.mark.timeout(3600)
def test_the_site_builds_without_a_warning():
    run = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "build.py")], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "no broken links" in run.stdout
