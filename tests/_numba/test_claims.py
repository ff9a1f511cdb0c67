"""Two processes that fill one cache: each kernel is compiled by one of them."""

from __future__ import annotations

import threading
import time

import pytest

from cavity._numba import claims
from cavity._numba.claims import sharing, sharing_with_parent, turn


def test_what_nobody_shares_is_compiled_at_once(tmp_path):
    with turn("kernel"):
        pass
    assert not list(tmp_path.iterdir())


def test_the_first_to_claim_compiles_and_says_when_it_has(tmp_path):
    with sharing(tmp_path, lambda: True):
        with turn("kernel"):
            assert [path.suffix for path in tmp_path.iterdir()] == [""]
        assert sorted(path.suffix for path in tmp_path.iterdir()) == ["", ".done"]


def test_the_other_waits_until_it_is_in_the_cache(tmp_path):
    seen = []

    def other():
        with turn("kernel"):
            seen.append("taken")

    with sharing(tmp_path, lambda: True):
        thread = threading.Thread(target=other)
        with turn("kernel"):
            thread.start()
            time.sleep(0.2)
            seen.append("compiled")
        thread.join(10)
    assert seen == ["compiled", "taken"]


def test_two_kernels_do_not_wait_for_each_other(tmp_path):
    with sharing(tmp_path, lambda: True), turn("kernel of floats"), turn("kernel of integers"):
        pass


def test_a_process_that_has_ended_holds_nobody_up(tmp_path):
    with sharing(tmp_path, lambda: True), pytest.raises(KeyboardInterrupt), turn("kernel"):
        raise KeyboardInterrupt
    begun = time.monotonic()
    with sharing(tmp_path, lambda: False), turn("kernel"):
        pass
    assert time.monotonic() - begun < 5


def test_a_folder_that_is_gone_is_no_reason_to_fail(tmp_path):
    with sharing(tmp_path / "gone", lambda: True), turn("kernel"):
        pass


def test_a_second_process_is_told_of_the_folder_by_a_variable(tmp_path, monkeypatch):
    monkeypatch.setenv(claims.FOLDER, str(tmp_path))
    with sharing_with_parent(), turn("kernel"):
        pass
    assert len(list(tmp_path.iterdir())) == 2
    monkeypatch.delenv(claims.FOLDER)
    with sharing_with_parent(), turn("another"):
        pass
    assert len(list(tmp_path.iterdir())) == 2
