"""The convergence study: its fixed point against a slow twin, and a quick run of everything."""

import numpy as np
import pytest
from picture_files import colours_in, rgb, shape_of
from reproduction.convergence import PRIOR_VARIANCE, N, Study
from reproduction.style import PALETTE

from reproduction import reproduce


def slow_fixed_point(y, r, C, n_passes=500):
    """EP of one cluster in plain Python: moments of (1-r) N(y; phi, 1) + r N(y; phi, C) sites."""
    precision, shift = np.zeros(len(y)), np.zeros(len(y))
    for _ in range(n_passes):
        for i in range(len(y)):
            p = 1 / PRIOR_VARIANCE + precision.sum() - precision[i]
            m, v = (shift.sum() - shift[i]) / p, 1 / p
            weight, mean, var = [], [], []
            for share, s2 in ((1 - r, 1.0), (r, C)):
                total = v + s2
                weight.append(share * np.exp(-0.5 * (y[i] - m) ** 2 / total) / np.sqrt(total))
                mean.append(m + v / total * (y[i] - m))
                var.append(v * s2 / total)
            weight = np.array(weight) / sum(weight)
            new_mean = weight @ mean
            new_var = weight @ (np.array(var) + np.array(mean) ** 2) - new_mean**2
            precision[i], shift[i] = 1 / new_var - p, new_mean / new_var - m * p
    total = 1 / PRIOR_VARIANCE + precision.sum()
    return shift.sum() / total, 1 / total


@pytest.mark.slow
def test_converged_sites_are_the_fixed_point():
    study = Study(0.2, 5.0, 1.0, "converged", [3])
    moment = study.compare()
    assert moment.kl < 1e-12
    y = study.state.model.y
    for k in range(2):
        mean, var = slow_fixed_point(y[study.z == k], 0.2, 5.0, n_passes=40)
        assert moment.mean_star[k] == pytest.approx(mean, abs=1e-8)
        assert moment.var_star[k] == pytest.approx(var, rel=1e-8)


@pytest.mark.slow
def test_without_contamination_one_pass_is_exact():
    study = Study(0.0, 5.0, 0.5, "flat", [0])
    assert study.compare().kl > 0.1
    study.advance(N)
    assert study.compare().kl < 1e-12
    # With it, it is not: the study measures something.
    study = Study(0.5, 10.0, 0.5, "flat", [0])
    study.advance(N)
    assert study.compare().kl > 1e-6


@pytest.mark.slow
def test_steps_add_up_whatever_the_stops():
    a, b = (Study(0.2, 5.0, 0.5, "flat", [1]) for _ in range(2))
    for step in (7, 60, 130, 250):
        a.advance(step)
    b.advance(250)
    assert np.array_equal(a.z, b.z)
    assert np.allclose(a.state.family.natural, b.state.family.natural)


CLAIMS = [
    "the error is zero at r = 0",
    "from flat sites the error has roughly levelled off after one pass",
    "the error levels off and does not grow without bound",
    "the level is the same from flat and from converged sites",
    "a converged approximation exists to compare with",
    *(
        f"percent errors of the {moment} at Delta = 0.5 after {passes} sites are those of the "
        "paper's table (within a factor of two)"
        for moment in ("variance", "mean")
        for passes in ("one pass from flat", "two passes from flat", "one pass from converged")
    ),
]


@pytest.mark.slow
def test_quick_run(tmp_path):
    outcome = reproduce("convergence", tmp_path, quick=True, progress=False)
    assert [v.claim for v in outcome.verdicts] == CLAIMS
    assert outcome.verdicts[0].holds
    # Three shares of wide noise by two scales; a line for each of two distances.
    lines = {rgb(PALETTE["black"]), rgb(PALETTE["blue"])}
    for name in ("convergence-flat", "convergence-converged"):
        assert shape_of(tmp_path / f"{name}.png") == (3 * 360, 2 * 480)
        assert lines <= colours_in(tmp_path / f"{name}.png")
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
    assert len(outcome.sections) == 2
    errors = outcome.tables["errors"]
    assert set(errors["start"]) == {"flat", "converged"}
    assert errors["kl"].notna().all()
