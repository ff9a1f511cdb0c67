"""Errors are one sentence on standard error, without a traceback."""

from __future__ import annotations

import errno
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cavity.io.words import printable
from cavity.utils.notices import ClusterLimitWarning, NotConvergedWarning

PACKAGE = str(Path(__file__).resolve().parents[1])


class UserError(Exception):
    """Something only the user can put right; the message says what and how."""


class Interrupted(Exception):
    """Ctrl-C, with a message that says what is safe; the argument parser would swallow its own."""


def note(message: str) -> None:
    """Print a note to standard error, unless the command is quiet."""
    logging.getLogger("cavity").info("Note: %s", printable(message))


def say(message: str = "") -> None:
    """Print to standard output; names that others chose cannot steer the terminal."""
    print(printable(message, keep="\n"), flush=True)


@contextmanager
def report_errors(*, traceback: bool) -> Iterator[None]:
    """Turn errors that a user can act on into one sentence and an exit code.

    Parameters
    ----------
    traceback : bool
        Let every error through with its traceback, to look for a fault of the program.
    """
    _plain_warnings()
    if traceback:
        yield
        return
    try:
        yield
    except (KeyboardInterrupt, Interrupted) as error:
        _leave(str(error) or "interrupted", 130)
    except BrokenPipeError:
        # The reader of our output (head, less) has seen enough. What is left in the buffer must
        # not raise again when Python closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (UserError, ValueError, MemoryError) as error:
        _leave(_sentence(str(error)) or "not enough memory for this", 2)
    except OSError as error:
        _leave(_os_sentence(error), 2)
    except Exception as error:
        # Usage errors of the argument parser, whichever package carries it.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        command = getattr(getattr(error, "ctx", None), "command_path", "cavity")
        _leave(f"{_sentence(format_message())} See '{command} --help'.", 2)


def _leave(sentence: str, code: int) -> None:
    print(f"cavity: {printable(sentence)}", file=sys.stderr)
    sys.exit(code)


def _sentence(text: str) -> str:
    """One line that ends in a full stop."""
    line = " ".join(text.split())
    return line if not line or line.endswith((".", "!", "?")) else f"{line}."


def _os_sentence(error: OSError) -> str:
    if error.filename is None or error.strerror is None:
        return _sentence(str(error))
    full = error.errno in (errno.ENOSPC, errno.EFBIG)
    room = ". Make room there and repeat the command" if full else ""
    return _sentence(f"{error.filename}: {error.strerror}{room}")


def in_commands(text: str) -> str:
    """A warning of the estimators without what only Python can do.

    Examples
    --------
    >>> in_commands("Settle it by feature_types={'a': 'count'} (--types a=count on the command "
    ...     "line). Filter cavity.ColumnsNote to silence this.")
    'Settle it by --types a=count.'
    """
    text = re.sub(r" Filter cavity\.\w+ to silence this\.", "", text)
    return re.sub(r"feature_types(=\{.*?\})? \((--types[^)]*?) on the command line\)", r"\2", text)


def _plain_warnings() -> None:
    """Show the library's own warnings as notes, and none that other packages address to us."""

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: Any
    ) -> None:
        if issubclass(category, NotConvergedWarning | ClusterLimitWarning):
            return  # the summary says it, with what to do
        if issubclass(category, UserWarning) and str(filename).startswith(PACKAGE):
            note(_sentence(in_commands(str(message))))

    warnings.showwarning = show  # type: ignore[assignment]
    # Letters of a name that the font of pictures lacks.
    warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
