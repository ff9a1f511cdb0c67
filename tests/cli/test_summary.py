"""What a run prints of its clusters."""

import numpy as np

from cavity.cli.summary import summarise
from cavity.posterior import Posterior


def test_clusters_that_few_draws_have_are_told():
    two, three = [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 2]
    sure = Posterior.from_labels([three] * 20)
    assert "presence" not in summarise(sure, sure.partition().labels)
    shaky = Posterior.from_labels([three] * 12 + [two] * 8)
    lines = summarise(shaky, np.array(three)).splitlines()
    head = next(line for line in lines if "presence" in line)
    assert head.split() == ["cluster", "rows", "share", "certainty", "presence"]
    shown = [line.split()[-1] for line in lines[lines.index(head) + 1 :][:3]]
    assert shown == ["100%", "100%", "60%"]
    assert any("share of draws with a matching cluster" in line for line in lines)


def test_groups_come_first_where_clusters_overlap():
    near = np.tile([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]], (20, 1, 1))
    known = {"overlap": near, "overlap_draws": np.arange(20)}
    labels = [0, 0, 0, 0, 1, 1, 1, 2, 2]
    p = Posterior.from_labels([labels] * 20, summaries=known)
    lines = summarise(p, np.array(labels)).splitlines()
    assert lines[0].startswith("2 well-separated groups (probability 1.00); group 0 contains 2")
    head = next(line for line in lines if "certainty" in line)
    assert head.split()[-1] == "group"
    shown = [line.split()[-1] for line in lines[lines.index(head) + 1 :][:3]]
    assert shown == ["0", "0", "1"]


def test_a_row_that_is_a_cluster_of_its_own_is_pointed_out():
    """One wrong value can found a cluster; the tail probability of that is one."""
    three = [0, 0, 0, 1, 1, 1, 2]
    p = Posterior.from_labels([three] * 20, names=["a", "b", "c", "d", "e", "f", "odd \x1b one"])
    told = summarise(p, np.array(three))
    assert "odd" in told
    assert "\x1b" not in told
    lines = " ".join(told.split())
    assert "is a cluster of its own, with nothing like it: check for measurement errors" in lines
    both = [0, 0, 0, 1, 1, 2, 3]
    assert "6 and 7 are clusters of their own" in summarise(
        Posterior.from_labels([both] * 20), np.array(both)
    )
    for none in ([0, 0, 0, 1, 1, 1, 1], [0, 1, 2, 3, 4, 5, 6]):
        assert "of its own" not in summarise(Posterior.from_labels([none] * 20), np.array(none))


def test_suspects_are_told_with_the_column_to_look_at():
    labels = [0, 0, 0, 1, 1, 1, 2]
    p = Posterior.from_labels([labels] * 20)
    furthest = [f"width {i}.0" for i in range(7)]
    tail = np.array([1.0, 1, 1, 1, 1e-6, 1, 1])
    told = " ".join(summarise(p, np.array(labels), tail=tail, furthest=furthest).split())
    assert "Check for measurement errors: 5 (cluster 1, width 4.0)." in told
    assert "7 (width 6.0) is a cluster of its own" in told
