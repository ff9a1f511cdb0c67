"""Options are generated from the estimators' docstrings, which list every parameter."""

import subprocess
import sys
from inspect import signature

import pytest

import cavity
from cavity.cli.errors import UserError
from cavity.cli.options import (
    ESTIMATORS,
    _documented,
    in_options,
    option,
    options_of,
    parameters,
)


@pytest.mark.parametrize("model", ESTIMATORS)
def test_options_are_the_parameters(model):
    """A parameter that the docstring forgets would be no option."""
    taken = set(signature(getattr(cavity, ESTIMATORS[model])).parameters)
    assert {name for name, _, _ in _documented(ESTIMATORS[model])} == taken
    assert {p.name for p in parameters().values() if model in p.models} <= taken


def test_values_are_read_by_type():
    known = parameters()
    assert known["n_clusters"].value("3") == 3
    assert known["df"].value("4") == 4.0
    assert known["df"].value("learn") == "learn"
    assert known["df"].value("inf") == "inf"  # the estimator refuses it
    assert known["prior"].value("dp") == "dp"
    assert {"corrected", "blocked", "parallel"} <= set(known["collapse"].words)
    with pytest.raises(UserError, match=r"^--clusters must be a number, not 'many'."):
        known["n_clusters"].value("many")


def test_models_have_their_options():
    assert "--season" in options_of("series")
    assert "--season" not in options_of("auto")
    assert {"--df", "--types", "--columns"} <= options_of("auto")
    assert not {"checkpoint", "options", "n_jobs"} & set(parameters())


def test_messages_name_options():
    assert [option(name) for name in ("n_draws", "max_seconds", "random_state")] == [
        "--draws", "--max-seconds", "--seed",
    ]  # fmt: skip
    assert (
        in_options("Use prior='dp' or lower n_clusters.") == "Use --prior dp or lower --clusters."
    )


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom cavity.cli import main\n"
        "try:\n main(['fit', '--help'])\nexcept SystemExit:\n pass\n"
        "print([m for m in ('numpy', 'pandas', 'sklearn', 'numba', 'pyarrow') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
    for group in ("Reading the table:", "Model:", "Series:", "Sampling:", "Priors:"):
        assert group in ran.stdout
    assert "--clusters, --n-clusters" in ran.stdout
