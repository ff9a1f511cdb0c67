"""Runs many cases in processes of their own, and ends those that hang.

    python tests/fuzz/fuzz_many.py series 0 1000

runs the seeds 0 to 999 and prints what was a surprise.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# A case may have to compile its kernels first, and a second time to show that they were it.
HANGS_AFTER = 150.0
_WORKER = Path(__file__).with_name("fuzz_worker.py")


def run_many(
    kind: str, seeds: list[int], hangs_after: float = HANGS_AFTER
) -> Iterator[dict[str, Any]]:
    """Outcomes of the cases in turn; one that hangs is ended, and the next process goes on."""
    left = list(seeds)
    while left:
        process = subprocess.Popen(
            [sys.executable, str(_WORKER), kind, *map(str, left)],
            stdout=subprocess.PIPE,
            text=True,
        )
        lines: queue.Queue[str] = queue.Queue()

        def read(stream: Any = process.stdout, into: queue.Queue[str] = lines) -> None:
            for line in stream:
                into.put(line)
            into.put("")

        threading.Thread(target=read, daemon=True).start()
        try:
            while left:
                try:
                    line, fault = lines.get(timeout=hangs_after), "the process died"
                except queue.Empty:
                    line, fault = "", f"no answer within {hangs_after:g} seconds"
                seed = left.pop(0)
                if not line:
                    yield {"kind": kind, "seed": seed, "said": fault, "surprise": fault, "case": ""}
                    break
                yield json.loads(line)
        finally:
            process.kill()
            process.wait()


def words(found: dict[str, Any]) -> str:
    """How a surprise is told, with what runs it again."""
    again = f"python tests/fuzz/fuzz_worker.py {found['kind']} {found['seed']}"
    return f"{found['said']}\n  {found['case']}\n  {found['surprise']}\n  again: {again}"


if __name__ == "__main__":
    kind, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    n_surprises = n_refused = 0
    for found in run_many(kind, list(range(first, last))):
        n_refused += found["said"].startswith("refused")
        if found["surprise"]:
            n_surprises += 1
            print(words(found), flush=True)
    print(f"{last - first} cases of {kind}: {n_refused} refused, {n_surprises} surprises")
