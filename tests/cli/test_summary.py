"""What a run prints of its clusters."""

import numpy as np

from cavity.cli.summary import summarise
from cavity.posterior import Posterior


def test_clusters_that_few_draws_have_are_told():
    two, three = [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 2]
    sure = Posterior.from_labels([three] * 20)
    assert "there in" not in summarise(sure, sure.partition().labels)
    shaky = Posterior.from_labels([three] * 12 + [two] * 8)
    lines = summarise(shaky, np.array(three)).splitlines()
    head = next(line for line in lines if "there in" in line)
    assert head.split() == ["cluster", "rows", "share", "certainty", "there", "in"]
    shown = [line.split()[-1] for line in lines[lines.index(head) + 1 :][:3]]
    assert shown == ["100%", "100%", "60%"]
    assert any("share of draws that have such a cluster" in line for line in lines)
