"""Runs of the toy sampler in processes of their own, to be killed."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
from toy import RandomWalk, run_chains, run_until

from cavity.mcmc.draws import ChainRun


class Slow(RandomWalk):
    """Long enough to be killed in the middle."""

    def sweep(self, rng):
        time.sleep(0.002)
        super().sweep(rng)


def run(checkpoint, *, n_chains=3, n_jobs=2, **changes) -> ChainRun:
    settings = {"n_warmup": 40, "n_draws": 150, "thin": 2, "random_state": 11, "keep_warmup": True}
    return run_chains(
        lambda chain, rng: Slow(300, rng, growth=0.1),
        n_chains=n_chains,
        n_jobs=n_jobs,
        progress=False,
        checkpoint=checkpoint,
        fingerprint={"model": "walk"},
        **{**settings, **changes},
    )


def arrays(chain_run: ChainRun) -> dict[str, np.ndarray]:
    out = {"labels": chain_run.labels, "log_joint": chain_run.log_joint}
    out |= {f"parameter {name}": value for name, value in chain_run.parameters.items()}
    out |= {f"event {name}": value for name, value in chain_run.events.items()}
    if chain_run.labels_warmup is not None:
        out["labels_warmup"] = chain_run.labels_warmup
    for i, parts in enumerate(chain_run.summaries):
        for j, part in enumerate(parts):
            out |= {f"summary {i} {j} {name}": value for name, value in part.items()}
    for i, sampler in enumerate(chain_run.samplers):
        out |= {f"state {i} {name}": value for name, value in sampler.state().items()}
    return out


def plain(checkpoint):
    return arrays(run(checkpoint))


def dies_in_a_system_call(checkpoint):
    """Dies in three lives: before its third flush, before a third renaming, after one."""
    moments = checkpoint.with_suffix(".moments")
    done = int(moments.read_text()) if moments.exists() else 0
    if done < 3 and checkpoint.name.startswith("killed"):
        moments.write_text(str(done + 1))
        when = ("fsync", "replace", "after replace")[done]
        calls = {"n": 0}
        name = when.removeprefix("after ")
        original = getattr(os, name)

        def deadly(*args, **kwargs):
            calls["n"] += 1
            if calls["n"] >= 3 and not when.startswith("after"):
                os.kill(os.getpid(), signal.SIGKILL)
            result = original(*args, **kwargs)
            if calls["n"] >= 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(os, name, deadly)
    return arrays(run(checkpoint, n_draws=500))


def automatic(checkpoint):
    """A run that finds its own length, and thins on the way."""
    from cavity.mcmc import schedule as length
    from cavity.mcmc.schedule import Assessment

    length.MOST_DRAWS = 90

    def judge(chains, cluster_parameters):
        return Assessment(int(chains[0]["sweeps"][-1]) > 400, 0.5)

    chain_run = run_until(
        judge,
        lambda chain, rng: Slow(300, rng, growth=0.1),
        n_chains=3,
        n_jobs=2,
        random_state=11,
        keep_warmup=True,
        progress=False,
        checkpoint=checkpoint,
        fingerprint={"model": "walk"},
    )
    return arrays(chain_run)
