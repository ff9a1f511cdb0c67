"""The summary of a report agrees with the posterior."""

from __future__ import annotations

import numpy as np
import pytest
from report_cases import posterior

from cavity.posterior import Posterior
from cavity.posterior.record import RunRecord
from cavity.report import words


def said(p):
    return " ".join(words.summary_sentences(p.view(), p.diagnostics()))


@pytest.mark.parametrize(
    ("draws", "parts"),
    [
        (np.zeros((2, 10, 1), int), ["There is only one observation."]),
        (np.zeros((2, 10, 8), int), ["has all 8 observations in one cluster", "All draws agree"]),
        (np.tile(np.arange(8), (2, 10, 1)), ["each of the 8 observations is alone"]),
        (np.tile(np.arange(40) % 8, (2, 10, 1)), ["8 clusters; the largest have 5, 5"]),
    ],
)
def test_sizes(draws, parts):
    text = said(Posterior.from_labels(draws))
    for part in parts:
        assert part in text


def test_number_of_clusters_with_its_interval():
    draws = np.array([[0, 0, 0, 1, 1, 1]] * 7 + [[0, 0, 0, 1, 1, 2]] * 3)
    text = said(Posterior.from_labels(draws))
    assert "Probability of 2 clusters: 70%, 3: 30%" in text
    assert "between 2 and 3 with probability 95%" in text


def test_dissimilar_draws_are_called_uncertain():
    draws = np.random.default_rng(0).integers(5, size=(2, 50, 40))
    p = Posterior.from_labels(draws)
    assert "uncertain:" in said(p)
    sure = Posterior.from_labels(np.tile(np.arange(40) % 4, (2, 50, 1)))
    assert "uncertain" not in said(sure)


def test_a_draft_is_called_a_draft():
    p = posterior(np.arange(40) % 2, n_chains=4, n_draws=300, doubtful=(1, 2, 3))
    text = " ".join(words.summary_sentences(p.view(), p.diagnostics(precision="draft")))
    assert "Draft: the chains agree roughly" in text
    assert "enough effective draws" not in text


def test_disagreeing_chains_are_reported_first():
    apart = np.stack([np.tile(np.arange(40) % 2, (60, 1)), np.tile(np.arange(40) // 20, (60, 1))])
    p = Posterior.from_labels(apart)
    first = words.summary_sentences(p.view(), p.diagnostics())[0]
    assert "The chains may not agree" in first
    assert "Assignments are" not in said(p)
    together = posterior(np.arange(40) % 2, n_chains=4, n_draws=300, doubtful=(1, 2, 3))
    assert together.diagnostics().converged
    assert "The chains agree (4 chains of 300 draws)" in said(together)
    one = posterior(np.arange(40) % 2, n_chains=1, n_draws=60, doubtful=(1, 2, 3))
    few = Posterior.from_labels(np.repeat(one.labels, 4, axis=0))
    assert "The draws (4 chains of 60 draws) are too few to rely on" in said(few)
    assert few.diagnostics().meanwhile in said(few)


def test_one_chain_few_draws_and_a_stop_are_reported():
    z = np.arange(12) % 3
    assert "agreement of chains cannot be checked" in said(Posterior.from_labels([z] * 20))
    assert "too few to check" in said(Posterior.from_labels(np.tile(z, (2, 2, 1))))
    stopped = Posterior.from_labels([z] * 20, record=RunRecord("", stopped="interrupted"))
    assert "The run was stopped early" in said(stopped)


def test_a_row_in_none_of_the_clusters_is_reported():
    draws = np.tile(np.arange(12) % 2, (1, 100, 1))
    draws[:, :55, 5] = 2  # alone, more often than not
    view = Posterior.from_labels(draws).view(np.arange(12) % 2)
    assert view.could_be(5) == ("unmatched", pytest.approx(0.55))
    assert "(cluster 1, or unmatched)" in words.doubt_sentence(view)
    assert view.could_be(0) == ("", 0.0)


def test_names_of_the_doubtful():
    p = posterior(np.arange(12) % 2, doubtful=(5,), names=[f"site {i}" for i in range(12)])
    text = said(p)
    assert "1 row (8%) is in doubt (probability of the cluster below 0.8): site 5 (cluster" in text


def test_clusters_of_one_row_are_reported():
    labels = [0] * 6 + [1, 2, 3, 4, 5, 6]
    p = Posterior.from_labels([labels] * 10)
    text = words.alone_sentence(p.view())
    assert text.startswith("6, 7, 8, 9, 10 and 1 more are clusters of their own")
    assert words.alone_sentence(Posterior.from_labels([[0, 0, 1, 1]] * 10).view()) == ""


@pytest.mark.parametrize(
    ("mean", "low", "high", "told"),
    [
        (0.5, 0.3, 0.7, "0.5 (0.3 to 0.7)"),
        (1.0303, 1.0299, 1.0307, "1.03030 (1.02990 to 1.03070)"),
        (-102.33, -102.35, -102.31, "−102.330 (−102.350 to −102.310)"),
        (1e7, 1e7 - 1e3, 1e7 + 1e3, "10,000,000 (9,999,000 to 10,001,000)"),
        (3.0, 3.0, 3.0, "3 (3 to 3)"),
        (1e100, 0.99999e100, 1.00001e100, "1e+100 (1e+100 to 1e+100)"),
        (1e-20, 0.99999e-20, 1.00001e-20, "1e-20 (1e-20 to 1e-20)"),
        (1e-3, 1e-30, 2e-3, "0.001 (0 to 0.002)"),
    ],
)
def test_the_ends_of_an_interval_can_be_told_apart(mean, low, high, told):
    from cavity.report.tables import _with_interval

    assert _with_interval(mean, low, high) == told
