"""Runs cases, one line of JSON for each: ``python tests/fuzz/fuzz_worker.py gaussian 17 18``.

A case that hangs in a kernel cannot be stopped from within its process. `fuzz_many` starts this as
a process and ends it when a line does not come.

With ``CAVITY_FUZZ_SINGLE_SWEEPS=1`` chains return to Python after every sweep, with the same
draws (tests/mcmc/test_blocks.py). Their kernels are then shared by all settings, where a block of
sweeps is compiled for each combination of what is learned.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback

from fuzz_inputs import case
from fuzz_properties import ANSWERED_WITHIN, REFUSED_WITHIN, check_case


def outcome(kind: str, seed: int) -> dict[str, object]:
    """What came of one case."""
    began = time.process_time()
    made = case(kind, seed)
    try:
        said, surprise = check_case(made), ""
    except Exception as error:
        said, surprise = f"{type(error).__name__}: {error}", traceback.format_exc(limit=-6)
    seconds = time.process_time() - began
    return {
        "kind": kind,
        "seed": seed,
        "said": said,
        "surprise": surprise,
        "case": str(made) if surprise else "",
        "seconds": seconds,
    }


def main(kind: str, seeds: list[int]) -> None:
    """Print the outcome of each case; a slow one has a second chance, with its kernels compiled."""
    if os.environ.get("CAVITY_FUZZ_SINGLE_SWEEPS") == "1":
        from cavity.mcmc.chain import PartitionSampler

        PartitionSampler._steps = lambda self: None  # type: ignore[method-assign]
    for seed in seeds:
        found = outcome(kind, seed)
        if found["seconds"] > min(REFUSED_WITHIN, ANSWERED_WITHIN) and found["surprise"]:  # type: ignore[operator]
            found = outcome(kind, seed)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], [int(v) for v in sys.argv[2:]])
