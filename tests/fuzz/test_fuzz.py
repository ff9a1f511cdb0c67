"""Whatever the data and settings: a refusal in a sentence at once, or answers that are numbers.

The default run has cases that once broke something; the slow one has hundreds of each kind.
``python tests/fuzz/fuzz_many.py KIND FIRST LAST`` runs thousands,
``python tests/fuzz/fuzz_worker.py KIND SEED`` one again.
"""

from __future__ import annotations

import fuzz_many
import numpy as np
import pandas as pd
import pytest
from fuzz_inputs import KINDS, case
from fuzz_many import run_many, words
from fuzz_properties import Surprise, check_band, check_refusal, quietly

from cavity.series.results import Band

N_SLOW = {"student-t": 200, "gaussian": 100, "series": 200, "table": 50}


def _surprises(kind, seeds):
    return [words(found) for found in run_many(kind, list(seeds)) if found["surprise"]]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_hundreds_of_cases(kind):
    found = _surprises(kind, range(100_000, 100_000 + N_SLOW[kind]))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_is_made_from_its_number(kind):
    for seed in range(5):
        one, other = case(kind, seed), case(kind, seed)
        assert str(one) == str(other)
        assert pd.DataFrame(one.new).equals(pd.DataFrame(other.new))


# ------------------------------------------------------------------ the checks can fail


def _band(mean, lower, upper):
    return Band(*(np.array([v]) for v in (mean, lower, upper)))


def test_bands_that_are_none_are_noticed():
    check_band(_band(1.0, 0.0, 2.0), "band")
    for wrong in [(np.nan, 0.0, 1.0), (0.0, -np.inf, 1.0), (2.0, 0.0, 1.0)]:
        with pytest.raises(Surprise):
            check_band(_band(*wrong), "band")


@pytest.mark.parametrize(
    "error",
    [np.linalg.LinAlgError("a b c d e f"), FloatingPointError("a b c d e"), ValueError("x")],
)
def test_errors_that_are_no_sentence_are_noticed(error):
    with pytest.raises(Surprise):
        check_refusal(error)


def test_errors_from_within_a_library_are_noticed():
    with pytest.raises(ValueError, match="zero-size array") as accident:
        np.max([])
    with pytest.raises(Surprise, match="raised in"):
        check_refusal(accident.value)


def test_warnings_of_others_are_noticed():
    def noisy():
        with quietly():
            np.float64(1.0) / np.float64(0.0)

    with pytest.raises(Surprise, match="divide by zero"):
        noisy()


@pytest.mark.slow
def test_a_case_that_hangs_is_ended_and_the_next_one_run(tmp_path, monkeypatch):
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import json, sys, time\n"
        "for seed in sys.argv[2:]:\n"
        "    time.sleep(60 if seed == '1' else 0)\n"
        "    print(json.dumps({'seed': int(seed), 'said': '', 'surprise': ''}), flush=True)\n"
    )
    monkeypatch.setattr(fuzz_many, "_WORKER", worker)
    found = list(run_many("any", [0, 1, 2], hangs_after=3.0))
    assert [f["seed"] for f in found] == [0, 1, 2]
    assert found[1]["surprise"] == "no answer within 3 seconds"
    assert not found[2]["surprise"]
