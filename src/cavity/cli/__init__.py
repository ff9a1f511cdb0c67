"""The ``cavity`` command. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cavity.cli.errors import report_errors


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code.

    Codes: 0 done; 2 the request cannot be met, with one sentence on standard error saying why;
    130 stopped by Ctrl-C.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the command's name; the process's own by default.
    """
    from cavity.cli.app import run

    arguments = list(sys.argv[1:] if arguments is None else arguments)
    with report_errors(traceback="--traceback" in arguments):
        sys.exit(run(arguments or ["--help"]))


__all__ = ["main"]
