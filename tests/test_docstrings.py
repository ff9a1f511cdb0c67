"""Every example in a docstring runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import cavity

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(cavity.__path__, "cavity.")
    # What needs an extra has its examples run where that is installed (tests/peers).
    if not module.name.endswith("__main__") and module.name != "cavity.sktime"
)


@pytest.mark.parametrize("name", ["cavity", *MODULES])
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    results = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert results.failed == 0
