"""Chains that mostly move, and moves with one mistake put in: for tests that must find it."""

from __future__ import annotations

import inspect
import sys

from cavity._numba.jit import jit
from cavity.interface import attempt
from cavity.moves.move import Tries


class MostlyMoves:
    """One sweep in `every`; otherwise the moves alone, and all that follows a sweep."""

    def __init__(self, sampler, every=4):
        self.sampler = sampler
        self.every = every
        self.turn = 0

    def sweep(self, rng):
        self.turn += 1
        if self.turn % self.every == 0:
            self.sampler.sweep(rng)
        else:
            self.sampler.follow_up(rng)

    def labels(self):
        return self.sampler.labels()


# What was changed in a function and in those that it calls, by the function.
_CHANGED: dict = {}


def rewritten(function, old, new, names):
    """A function compiled from its own text with one mistake put in."""
    text = inspect.getsource(function.py_func)
    text = text[text.index("def ") :]
    assert old in text
    space = dict(names)
    exec(compile(text.replace(old, new), __file__, "exec"), space)
    wrong = space[function.py_func.__name__]
    wrong.__module__ = __name__
    made = jit(internal=True)(wrong)
    inner = [_CHANGED[id(value)][1] for value in names.values() if id(value) in _CHANGED]
    # The function is kept: another one might have its id.
    _CHANGED[id(made)] = made, "\n".join([old, new, *inner])
    return made


# Functions of moves that call each other, callers last.
_PARTS = (
    "divide",
    "join_slots",
    "propose_merge",
    "propose_split",
    "divisions",
    "exchanges",
    "splits_and_merges",
    "foundings",
)


def with_mistake(module, kind, name, wrong):
    """A move of the module whose function `name` is the wrong one."""
    space = {**vars(module), name: wrong}
    for part in _PARTS:
        if part != name and hasattr(module, part):
            # Compiled again, from the same text, so that it calls the wrong one.
            space[part] = rewritten(getattr(module, part), "def ", "def ", space)
    changed = {part: space[part] for part in _PARTS if part in space}
    space = {**vars(sys.modules[kind.__module__]), **changed}
    text = inspect.getsource(attempt.verb.implementations[kind.kernel])
    head, body = text[text.index("def ") :].split("\n", 1)
    told = f"{module.__name__} {_CHANGED[id(wrong)][1]}"
    exec(compile(f"{head}\n    {told!r}\n{body}", __file__, "exec"), space)
    careless = space["_"]
    # Of no module, so that its own text, with the mistake in it, tells it from others in the cache.
    careless.__module__ = "none"
    kernel = type("CarelessTries", (Tries,), {})
    attempt.register(kernel)(careless)
    return type("Careless", (kind,), {"name": "careless", "kernel": kernel})
