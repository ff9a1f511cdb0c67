"""The command as a process, and a table for it."""

import subprocess
import sys

import numpy as np
import pandas as pd

QUICK = ["--chains", "2", "--warmup", "10", "--draws", "20", "--seed", "0"]


class Ran:
    """What a command left: its exit code and what it printed."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def sentence(self):
        """The one line on standard error of a command that was refused."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert "Traceback" not in self.err
        lines = [line for line in self.err.splitlines() if not line.startswith("Note: ")]
        assert len(lines) == 1, self.err
        assert lines[0].startswith("cavity: ")
        return lines[0].removeprefix("cavity: ")


def start(*arguments, **options):
    """Start the command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "cavity", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def make_table():
    rng = np.random.default_rng(3)
    values = np.vstack([rng.standard_normal((20, 2)), rng.standard_normal((20, 2)) + 12.0])
    table = pd.DataFrame(values.round(4), columns=["height", "weight"])
    table.insert(0, "name", [f"item {i}" for i in range(40)])
    return table
