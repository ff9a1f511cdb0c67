"""Telling a person how far long work has come: a bar on a terminal, plain lines elsewhere.

Everything goes to standard error, so that results on standard output stay clean. `progress=None`
shows a bar on a terminal or in a notebook and nothing elsewhere; True shows plain lines where
there is no terminal; False is silent.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

_logger = logging.getLogger("cavity")
_PLAIN_SECONDS = 10.0
_PLAIN_FRACTION = 0.1
_PLAIN_PAUSE = 1.0


class Silent:
    """Shows nothing."""

    def update(self, task: int, done: float, note: str = "") -> None:
        """Set how much of a task is done."""

    def expect(self, task: int, total: float) -> None:
        """Set how much a task is thought to be in all, now that more is known of it."""

    def finish(self) -> None:
        """Say that what is done is all there was, where that was not known before."""

    def say(self, message: str) -> None:
        """Show one line."""
        _logger.info(message)

    def close(self) -> None:
        """Leave the last state on the screen."""


class Plain(Silent):
    """One line now and then: every 10 s or every tenth of the work, whichever is sooner."""

    def __init__(
        self, label: str, totals: Sequence[float], unit: str, done: Sequence[float]
    ) -> None:
        self._label, self._unit = label, unit
        self._totals = list(totals)
        self._about = False
        self._done = list(done)
        self._start = self._last_time = time.monotonic()
        # Work that an earlier run did must not make this one look fast.
        self._first = self._last_done = float(sum(done))

    @property
    def _total(self) -> float:
        return float(sum(self._totals))

    def expect(self, task: int, total: float) -> None:
        """Set how much a task is thought to be; lines then say that they do not know."""
        self._totals[task] = total
        self._about = True

    def finish(self) -> None:
        """Print the last line."""
        if self._about:
            self._about = False
            self._totals = list(self._done)
            self.say(self._line(sum(self._done), time.monotonic() - self._start))

    def update(self, task: int, done: float, note: str = "") -> None:
        """Set how much of a task is done, and print a line if it is time for one."""
        self._done[task] = done
        total_done, now = sum(self._done), time.monotonic()
        step = total_done - self._last_done
        finished = total_done >= self._total and step > 0 and not self._about
        due = step >= _PLAIN_FRACTION * self._total and now - self._last_time >= _PLAIN_PAUSE
        if finished or due or now - self._last_time >= _PLAIN_SECONDS:
            self._last_time, self._last_done = now, total_done
            line = self._line(total_done, now - self._start)
            # Nothing is done yet: what is being done tells that something is.
            self.say(f"{line} {note}" if note and total_done == self._first else line)

    def _line(self, done: float, seconds: float) -> str:
        left, new = self._total - done, done - self._first
        if self._about:
            line = f"{done:,.0f} {self._unit}, about {_round(max(left, 0.0)):,} to go"
        else:
            share = done / self._total if self._total else 1.0
            line = f"{done:,.0f} of {self._total:,.0f} {self._unit} ({share:.0%})"
        if left <= 0 and not self._about:
            return f"{line}, {_duration(seconds)}"
        if new > 0 and left > 0:
            # A run that ends when its chains agree is looked at then, and may go on.
            line += f", {_duration(seconds * left / new)} "
            line += "to the next look" if self._about else "left"
        return line

    def say(self, message: str) -> None:
        """Print one line."""
        print(f"{self._label}: {message}" if self._label else message, file=sys.stderr, flush=True)


class Bar(Silent):
    """One bar per task with the time left, drawn by rich."""

    def __init__(
        self,
        names: Sequence[str],
        totals: Sequence[float],
        unit: str,
        done: Sequence[float],
        inside: Bar | None,
    ) -> None:
        # A terminal has one live region: work inside work adds its bars to the one that is there.
        self._inside = inside
        self._rich: Any = inside._rich if inside is not None else _rich_progress()
        self._names = list(names)
        self._tasks = [
            self._rich.add_task(name, total=total, completed=before, unit=unit)
            for name, total, before in zip(names, totals, done, strict=True)
        ]
        if inside is None:
            self._rich.start()

    def update(self, task: int, done: float, note: str = "") -> None:
        """Set how much of a task is done."""
        name = f"{self._names[task]} {note}" if note else self._names[task]
        self._rich.update(self._tasks[task], completed=done, description=name)

    def expect(self, task: int, total: float) -> None:
        """Set how long the bar is thought to be."""
        self._rich.update(self._tasks[task], total=total)

    def finish(self) -> None:
        """Leave full bars."""
        for task in self._tasks:
            self._rich.update(task, total=self._rich.tasks[task].completed)

    def say(self, message: str) -> None:
        """Show one line above the bars."""
        self._rich.console.print(message, highlight=False, markup=False)

    def close(self) -> None:
        """Stop drawing."""
        if self._inside is None:
            self._rich.stop()
        else:
            for task in self._tasks:
                self._rich.remove_task(task)


def _rich_progress() -> Any:
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[unit]}"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def _round(number: float) -> int:
    """To two digits, as an estimate deserves.

    Examples
    --------
    >>> _round(3127.0), _round(8.0)
    (3100, 8)
    """
    step = 10 ** max(len(str(int(number))) - 2, 0)
    return round(number / step) * step


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"


_open: list[Silent] = []
_open_lock = threading.Lock()


def _draws_bars() -> bool:
    if not (sys.stderr is not None and sys.stderr.isatty()) and "ipykernel" not in sys.modules:
        return False
    from rich.console import Console

    console = Console(stderr=True)
    return bool((console.is_terminal and not console.is_dumb_terminal) or console.is_jupyter)


@contextmanager
def reporting(
    progress: bool | None,
    label: str,
    names: Sequence[str],
    totals: Sequence[float],
    unit: str = "sweeps",
    done: Sequence[float] | None = None,
    together: str | None = None,
) -> Iterator[Silent]:
    """Report on several tasks at once while the block runs.

    Parameters
    ----------
    progress : bool or None
        As described in the module's head.
    label : str
        What the work is.
    names, totals : sequences
        One name and one amount of work per task.
    unit : str
        What the amounts count.
    done : sequence, optional
        What an earlier run did of each task; it does not count as speed. None of it by default.
    together : str, optional
        What the sum over several tasks counts, for lines that are of all of them.
    """
    done = [0.0] * len(totals) if done is None else list(done)
    reporter: Silent
    with _open_lock:
        inside = next((r for r in reversed(_open) if isinstance(r, Bar)), None)
        if progress is False:
            reporter = Silent()
        # While bars are drawn, standard error is rich's, which before 15 said it was no terminal.
        elif inside is not None or _draws_bars():
            full = [f"{label}: {name}" if label and name else label or name for name in names]
            reporter = Bar(full, totals, unit, done, inside)
        elif progress:
            of_all = together if together and len(totals) > 1 else unit
            reporter = Plain(label, totals, of_all, done)
        else:
            reporter = Silent()
        _open.append(reporter)
    try:
        yield reporter
    finally:
        with _open_lock:
            _open.remove(reporter)
        reporter.close()


def say(message: str) -> None:
    """Show one line beside whatever progress is being shown; from any thread.

    Where progress is silent the line goes to the logger ``cavity`` at level INFO. With no
    progress open it is shown on a terminal only.

    Examples
    --------
    >>> from cavity.utils.progress import say
    >>> say("compiling kernels (first run on this machine, about 10 s)")
    """
    with _open_lock:
        reporter = _open[-1] if _open else None
    if reporter is not None:
        reporter.say(message)
    elif sys.stderr is not None and sys.stderr.isatty():
        print(message, file=sys.stderr, flush=True)
    else:
        _logger.info(message)


def track(
    items: Iterable[T],
    label: str,
    *,
    total: int | None = None,
    progress: bool | None = None,
    unit: str = "steps",
) -> Iterator[T]:
    """Iterate over `items` and show how far it has come.

    Parameters
    ----------
    items : iterable
        What to go through.
    label : str
        What the work is.
    total : int, optional
        Number of items, where `items` has no length.
    progress : bool or None
        As described in the module's head.
    unit : str
        What an item is.

    Examples
    --------
    >>> from cavity.utils.progress import track
    >>> [i for i in track(range(3), "counting", progress=False)]
    [0, 1, 2]
    """
    if total is None:
        total = len(items) if isinstance(items, Sized) else 0
    with reporting(progress, label, [""], [total], unit) as reporter:
        reporter.update(0, 0)
        for done, item in enumerate(items, start=1):
            yield item
            reporter.update(0, done)
