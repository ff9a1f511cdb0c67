"""The page about house prices runs from top to bottom and shows what it says."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

PAGE = Path(__file__).parents[2] / "docs" / "house-prices.md"


@pytest.mark.slow
def test_the_page_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 4
    names = {}
    exec(compile("\n".join(blocks), str(PAGE), "exec"), names)
    out = capsys.readouterr().out
    error, error_flat = map(float, out.splitlines()[0].split())
    assert error < 0.16 < 0.18 < error_flat
    model = names["model"]
    assert adjusted_rand_score(names["truth"].labels, model.labels_) == 1.0
    width = np.log(names["ahead"]["upper"] / names["ahead"]["lower"]).to_numpy()
    assert (np.diff(width[-6:]) > 0).all()
    assert "Converged: the chains agree" in out
    plt.close("all")
