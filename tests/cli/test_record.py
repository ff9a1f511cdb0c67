"""A damaged run.json is one sentence, whatever the damage."""

import copy
import json

import numpy as np
import pytest

from cavity.cli.errors import UserError
from cavity.cli.options import Choice
from cavity.cli.record import FINISHED, RUNNING, RunFile, Source, read_record

SOURCE = Source("/data/a.csv", "sha256:0", 40, 0, "name", Choice(("height",), id_column="name"))
RUN = RunFile("student-t", FINISHED, SOURCE, {"n_clusters": 3, "random_state": 7, "df": "learn"})
OTHERS = (None, True, -1, 3, 2.5, "x", "", [], [1], ["a"], {}, {"a": 1}, "series", 10**30)


def test_there_and_back(tmp_path):
    RUN.write(tmp_path)
    assert read_record(tmp_path) == RUN
    RUN.at(RUNNING).write(tmp_path)
    assert read_record(tmp_path).status == "running"


def test_differences_are_named():
    import dataclasses

    other = dataclasses.replace(RUN, settings={**RUN.settings, "n_clusters": 4}, model="gaussian")
    assert RUN.differences(other) == ["--model", "--clusters"]
    assert RUN.differences(RUN.at(RUNNING)) == []


def places(plain, path=()):
    """All places in nested dictionaries and lists."""
    for key in plain if isinstance(plain, dict) else range(len(plain)):
        yield (*path, key)
        if isinstance(plain[key], dict | list):
            yield from places(plain[key], (*path, key))


def inner(plain, path):
    for key in path[:-1]:
        plain = plain[key]
    return plain


def check(folder, text):
    """Either a run whose fields are what they should be, or one sentence."""
    (folder / "run.json").write_bytes(text)
    try:
        found = read_record(folder)
    except UserError as error:
        sentence = str(error)
        assert sentence.endswith(".")
        assert "\n" not in sentence
        return 1
    assert isinstance(found.data.path, str)
    assert isinstance(found.data.choice.columns, tuple)
    assert all(isinstance(name, str) for name in found.data.choice.columns)
    assert found.data.rows >= 0
    assert isinstance(found.settings, dict)
    return 0


def test_every_field_lost_or_of_another_type(tmp_path):
    RUN.write(tmp_path)
    plain = json.loads((tmp_path / "run.json").read_text())
    refused = 0
    for path in places(plain):
        changed = copy.deepcopy(plain)
        del inner(changed, path)[path[-1]]
        refused += check(tmp_path, json.dumps(changed).encode())
        for other in OTHERS:
            changed = copy.deepcopy(plain)
            inner(changed, path)[path[-1]] = other
            refused += check(tmp_path, json.dumps(changed).encode())
    assert refused > 200


@pytest.mark.variants("slow", "0", "2", "3")
@pytest.mark.parametrize("seed", range(5))
def test_cut_and_scrambled_bytes(tmp_path, seed):
    RUN.write(tmp_path)
    whole = (tmp_path / "run.json").read_bytes()
    rng = np.random.default_rng(seed)
    refused = 0
    for _ in range(200):
        damaged = bytearray(whole)
        if rng.random() < 0.5:
            damaged = damaged[: rng.integers(len(whole))]
        for place in rng.integers(max(len(damaged), 1), size=rng.integers(4)):
            if place < len(damaged):
                damaged[place] = rng.integers(256)
        refused += check(tmp_path, bytes(damaged))
    assert refused > 100


@pytest.mark.parametrize("text", ["", "null", "[]", "3", "[" * 100_000, '{"format": "cavity run"}'])
def test_other_files(tmp_path, text):
    assert check(tmp_path, text.encode()) == 1


@pytest.mark.parametrize("command", ["report", "predict", "fit"])
def test_commands_say_one_sentence(cavity, tmp_path, command):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text('{"format": "cavity run", "version": 6}')
    (tmp_path / "data.csv").write_text("a\n1\n2\n3\n")
    arguments = {
        "report": ["run"],
        "predict": ["run", "data.csv"],
        "fit": ["data.csv", "--out", "run", "--clusters", 2],
    }[command]
    assert (
        "run.json is damaged or was not written by cavity" in cavity(command, *arguments).sentence
    )
