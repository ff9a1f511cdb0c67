"""Progress of long work: a bar on a terminal, plain lines elsewhere.

Everything goes to standard error, which keeps standard output for results. `progress=None`
shows a bar on a terminal or in a notebook and nothing elsewhere; True shows plain lines where
there is no terminal; False is silent.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

_logger = logging.getLogger("cavity")
_PLAIN_SECONDS = 10.0
_PLAIN_FRACTION = 0.1
_PLAIN_PAUSE = 1.0
# An estimate of the time left is printed again if it changed by this factor, or after a minute.
_CHANGE, _SAME_SECONDS = 1.5, 60.0


class Silent:
    """Shows nothing."""

    def update(self, done: float, note: str = "") -> None:
        """Set how much is done."""

    def expect(self, total: float) -> None:
        """Set the probable total; the time left is then an estimate."""

    def finish(self) -> None:
        """End work whose amount was estimated."""

    def say(self, message: str) -> None:
        """Show one line."""
        _logger.info(message)

    def close(self) -> None:
        """Leave the last state on the screen."""


class Plain(Silent):
    """Prints a line every 10 s or every tenth of the work, whichever is sooner."""

    def __init__(self, label: str, total: float, unit: str, done: float) -> None:
        self._label, self._unit, self._total = label, unit, total
        self._about, self._said = False, 0.0
        # Work of an earlier run, and time before this one starts, do not count for its speed.
        self._done = self._first = self._last_done = done
        self._start = self._moving = self._last_time = time.monotonic()

    def expect(self, total: float) -> None:
        """Set the probable total."""
        self._total, self._about = total, True

    def finish(self) -> None:
        """Print the last line."""
        if self._about:
            self._total = self._done
            self.say(self._line())

    def update(self, done: float, note: str = "") -> None:
        """Set how much is done, and print a line if it is time for one."""
        self._advance(done)
        now = time.monotonic()
        step = done - self._last_done
        finished = done >= self._total and step > 0 and not self._about
        due = step >= _PLAIN_FRACTION * self._total and now - self._last_time >= _PLAIN_PAUSE
        left, passed = self._seconds_left(now), now - self._last_time
        same = self._about and self._said / _CHANGE < left < self._said * _CHANGE
        waiting = same and passed < _SAME_SECONDS
        if finished or ((due or passed >= _PLAIN_SECONDS) and not waiting):
            self._last_time, self._last_done, self._said = now, done, left
            self.say(f"{self._line()} {note}" if note and done == self._first else self._line())

    def _seconds_left(self, now: float) -> float:
        """Return the estimated time left; 0 if unknown."""
        new = self._done - self._first
        return (now - self._moving) * (self._total - self._done) / new if new > 0 else 0.0

    def _advance(self, done: float) -> None:
        self._done = done
        if done <= self._first:
            self._moving = time.monotonic()

    def _line(self) -> str:
        now, left, new = time.monotonic(), self._total - self._done, self._done - self._first
        if self._about:
            line = f"{self._done:,.0f} {self._unit}"
        else:
            share = self._done / self._total if self._total else 1.0
            line = f"{self._done:,.0f} of {self._total:,.0f} {self._unit} ({share:.0%})"
        if left <= 0:
            return f"{line}, {_duration(now - self._start)}"
        if new <= 0:
            return line
        seconds = self._seconds_left(now)
        return (
            f"{line}, about {roughly(seconds)} left"
            if self._about
            else (f"{line}, {_duration(seconds)} left")
        )

    def say(self, message: str) -> None:
        """Print one line."""
        print(f"{self._label}: {message}" if self._label else message, file=sys.stderr, flush=True)


class Bar(Plain):
    """A bar with the same line after it, drawn by rich."""

    def __init__(
        self, label: str, total: float, unit: str, done: float, inside: Bar | None
    ) -> None:
        super().__init__(label, total, unit, done)
        # A terminal has one live region: work inside work adds its bar to the one that is there.
        self._inside = inside
        self._rich: Any = inside._rich if inside is not None else _rich_progress()
        self._task = self._rich.add_task(label, total=total, completed=done, line=self._line())
        if inside is None:
            self._rich.start()

    def update(self, done: float, note: str = "") -> None:
        """Set how much is done."""
        self._advance(done)
        name = f"{self._label} {note}" if note else self._label
        self._rich.update(
            self._task, completed=done, total=self._total, description=name, line=self._line()
        )

    def finish(self) -> None:
        """Leave a full bar."""
        self._total = self._done
        self.update(self._done)

    def say(self, message: str) -> None:
        """Show one line above the bars."""
        self._rich.console.print(message, highlight=False, markup=False)

    def close(self) -> None:
        """Stop drawing."""
        if self._inside is None:
            self._rich.stop()
        else:
            self._rich.remove_task(self._task)


def _rich_progress() -> Any:
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[line]}"),
        console=Console(stderr=True),
    )


def roughly(seconds: float) -> str:
    """Return a time in words, rounded as an estimate should be.

    Examples
    --------
    >>> [roughly(seconds) for seconds in (3, 42, 85, 200, 4000, 9000)]
    ['5 s', '40 s', '1 min', '3 min', '1 h', '3 h']
    """
    if seconds < 10:
        return "5 s"
    if seconds < 55:
        return f"{round(seconds / 10) * 10} s"
    if seconds < 55 * 60:
        return f"{max(round(seconds / 60), 1)} min"
    return f"{max(int(seconds / 3600 + 0.5), 1)} h"


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
    progress: bool | None, label: str, total: float, unit: str = "sweeps", done: float = 0.0
) -> Iterator[Silent]:
    """Report on work while the block runs.

    Parameters
    ----------
    progress : bool or None
        As described in the module's head.
    label : str
        Name of the work.
    total : float
        Amount of work.
    unit : str
        Unit of the amount.
    done : float
        Work that an earlier run did; it does not count as speed.
    """
    reporter: Silent
    with _open_lock:
        inside = next((r for r in reversed(_open) if isinstance(r, Bar)), None)
        if progress is False:
            reporter = Silent()
        # While bars are drawn, standard error is rich's, which before 15 said it was no terminal.
        elif inside is not None or _draws_bars():
            reporter = Bar(label, total, unit, done, inside)
        elif progress:
            reporter = Plain(label, total, unit, done)
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
    """Show one line in addition to any progress; callable from any thread.

    If progress is silent, the line goes to the logger ``cavity`` at level INFO. With no
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
    """Iterate over `items` and show progress.

    Parameters
    ----------
    items : iterable
        Items to iterate over.
    label : str
        Name of the work.
    total : int, optional
        Number of items, where `items` has no length.
    progress : bool or None
        As described in the module's head.
    unit : str
        Name of an item.

    Examples
    --------
    >>> from cavity.utils.progress import track
    >>> [i for i in track(range(3), "counting", progress=False)]
    [0, 1, 2]
    """
    if total is None:
        total = len(items) if isinstance(items, Sized) else 0
    with reporting(progress, label, total, unit) as reporter:
        reporter.update(0)
        for done, item in enumerate(items, start=1):
            yield item
            reporter.update(done)
