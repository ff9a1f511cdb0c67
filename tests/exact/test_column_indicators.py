"""Indicators of columns: labels and indicators are visited as often as enumeration says.

The chi-square tests are at level 1e-4 each, with fixed seeds, as in `test_enumeration`.
"""

from __future__ import annotations

import enumeration
import numpy as np
import pytest
import selection_cases as cases
import small
import structured
from joint import seen
from scipy import stats

from cavity.likelihoods.column_selection import ColumnSelection

LEVEL = 1e-4
N_SWEEPS = 8000


def compared(name, exact, df=None, gaps=False, moves=False, n_sweeps=N_SWEEPS):
    rng = np.random.default_rng(11)
    made = cases.problem(name, df, gaps)
    sampler = cases.chain(made, rng, moves)
    visited = cases.visits(sampler, made, exact, n_sweeps, rng)
    result = enumeration.compare(exact, visited)
    print(f"{name} df={df} gaps={gaps} moves={moves}: {result}")
    assert result.n_cells > 10
    return result.p_value


@pytest.mark.variants(
    "exact", "diag-False-*", "diag-True-False", "categorical-*", "poisson-*", "table-*"
)
@pytest.mark.parametrize(
    ("name", "gaps", "moves"),
    [
        ("diag", True, True),
        ("diag", True, False),
        ("diag", False, True),
        ("diag", False, False),
        ("table", True, True),
        ("table", True, False),
        ("categorical", True, True),
        ("categorical", True, False),
        ("poisson", True, True),
        ("poisson", True, False),
    ],
)
def test_frequencies_of_labels_and_indicators(name, gaps, moves):
    p_value = compared(name, cases.exact(name, gaps), gaps=gaps, moves=moves)
    assert p_value > LEVEL


@pytest.mark.exact
@pytest.mark.parametrize("moves", [False, True])
def test_student_t_rows(moves):
    """Scales of rows belong to all columns, those that clusters share as well."""
    exact = cases.exact_student_t(small.DF)
    assert compared("diag", exact, small.DF, moves=moves) > LEVEL


def ignores_the_prior(right, update, chain, rng):
    """Odds without those of the share of columns that matter."""
    update.share[:] = 0.5
    right(update, seen(chain), rng)


def sums_of_other_slots(right, update, chain, rng):
    """Odds by the sums of slots whose members have other labels."""
    wrong = chain.family._replace(natural=chain.family.natural[::-1].copy())
    right(update, seen(chain, family=wrong), rng)


@pytest.mark.variants("exact", "ignores*")
@pytest.mark.parametrize("spoil", [sums_of_other_slots, ignores_the_prior])
def test_wrong_odds_are_found_out(monkeypatch, spoil):
    """Negative control."""
    right = ColumnSelection.draw
    monkeypatch.setattr(
        ColumnSelection,
        "draw",
        lambda update, chain, rng: spoil(right, update, chain, rng),
    )
    assert compared("diag", cases.exact("diag"), n_sweeps=4000) < 1e-8


def test_log_joint_and_log_marginal_against_scipy():
    """Parameters of a shared column count once, and are integrated out of the marginal."""
    rng = np.random.default_rng(3)
    made = cases.problem("diag")
    sampler = cases.chain(made, rng)
    (update,) = (u for u in sampler.updates if isinstance(u, ColumnSelection))
    (tables,) = cases.column_marginals("diag")
    prior, y, seen_active = made.prior, made.y, set()
    for _ in range(20):
        sampler.sweep(rng)
        z, p, active = sampler.z, sampler.parameters, sampler.family.active
        common = enumeration.log_restaurant(z, 1.0)
        common += np.log(np.where(active, update.share[0], 1.0 - update.share[0])).sum()
        joint = marginal = common
        for j in range(structured.D):
            psi = (prior.nu - 2.0) * prior.scale[j]
            for k in np.unique(z) if active[j] else [z[0]]:
                mean, variance = p.mean[j, k], p.variance[j, k]
                joint += stats.invgamma.logpdf(variance, 0.5 * prior.nu, scale=0.5 * psi)
                spread = np.sqrt(variance / prior.kappa)
                joint += stats.norm.logpdf(mean, prior.mean[j], spread)
            joint += stats.norm.logpdf(y[:, j], p.mean[j, z], np.sqrt(p.variance[j, z])).sum()
            masks = cases.masks_of(z) if active[j] else [(1 << cases.N) - 1]
            marginal += sum(tables[j][mask] for mask in masks)
        assert sampler.log_joint() == pytest.approx(joint, rel=1e-9)
        assert sampler.log_marginal() == pytest.approx(marginal, rel=1e-9)
        seen_active.add(tuple(active))
    assert len(seen_active) > 2
