"""The paper's experiments as a command."""

from __future__ import annotations

from pathlib import Path

from cavity.cli.errors import UserError
from cavity.cli.summary import wrap


def reproduce(
    name: str | None,
    out: Path | None,
    *,
    quick: bool,
    trials: int | None,
    jobs: int,
    data: Path | None,
    quiet: bool,
) -> int:
    """Run one experiment and print its verdicts; without a name, list them all."""
    from cavity.experiments import EXPERIMENTS, get_experiment
    from cavity.experiments import reproduce as run

    if name is None:
        print("Experiments of the paper:\n")
        width = max(map(len, EXPERIMENTS))
        for known in EXPERIMENTS:
            experiment = get_experiment(known)
            print(wrap(f"{known:{width}}  {experiment.title}", " " * (width + 4), "  "))
        print("\nRun one with: cavity reproduce NAME   (--quick for a small run in seconds)")
        return 0
    if name not in EXPERIMENTS:
        raise UserError(f"There is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}.")
    target = Path("reproduction") / name if out is None else out
    outcome = run(
        name,
        target,
        trials=trials,
        quick=quick,
        jobs=jobs,
        data_home=data,
        progress=not quiet,
    )
    if not quiet:
        for verdict in outcome.verdicts:
            word = "holds" if verdict.holds else "DOES NOT HOLD"
            print(wrap(f"{word}: {verdict.claim} ({verdict.measured})", "  ", ""))
        if quick:
            print("\nThis was a quick run: it shows that everything works, not what is true.")
        print(f"\nReport, tables and figures: {target / 'report.md'}")
    return 0
