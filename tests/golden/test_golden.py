"""Golden draws: the same seed gives the draws on record, after every change of structure.

Record them again, only where a change of draws is intended, with
``python tests/golden/test_golden.py``, and words in the names of those to record. Labels are
compared exactly. The log joint is compared to
1e-8, since processors round differently; ``CAVITY_GOLDEN=exact`` compares every bit.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import golden_fits
import numpy as np
import pytest

RECORD = Path(__file__).with_name("golden.json")


@pytest.mark.golden
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", golden_fits.FITS)
def test_draws_are_those_on_record(name):
    expected = json.loads(RECORD.read_text())[name]
    found = golden_fits.draws(name)
    assert found["last"] == expected["last"]
    assert found["labels"] == expected["labels"]
    tolerance = 0.0 if os.environ.get("CAVITY_GOLDEN") == "exact" else 1e-8
    np.testing.assert_allclose(found["log_joint"], expected["log_joint"], rtol=tolerance)
    answers = found.get("answers", {})
    assert answers.keys() == expected.get("answers", {}).keys()
    for key, values in answers.items():
        np.testing.assert_allclose(
            values, expected["answers"][key], rtol=max(tolerance, 1e-9), atol=1e-12, err_msg=key
        )


if __name__ == "__main__":
    import sys
    import warnings

    warnings.simplefilter("ignore")
    record = json.loads(RECORD.read_text())
    for name in golden_fits.FITS:
        if len(sys.argv) == 1 or any(word in name for word in sys.argv[1:]):
            record[name] = golden_fits.draws(name)
    RECORD.write_text(
        json.dumps(record, indent=None, separators=(",", ":")).replace('},"', '},\n"')
    )
