"""Ideas for tables with many columns whose number of clusters is not known.

    python -m benchmarks.many_columns                     # tables that ideas may be chosen on
    python -m benchmarks.many_columns --held-out          # tables for the figures that are reported
    python -m benchmarks.many_columns --only wine --first 5 --csv fits.csv

Small departures from the assumed shape add up over columns, and a generous `n_clusters` then gives
too many clusters. `StudentTMixture(10)` is fitted to every table as it is, with priors that fall
faster with the number of clusters, with each form of the covariance, and with the likelihood of
every row raised to a power below one (a coarsened posterior: the parameters learn from fewer rows;
labels are drawn by it too, which Miller and Dunson do not do). Printed are the clusters found, the
adjusted Rand index of clusters and of groups, the leave-one-out log density, and which form of the
covariance it chooses. Fits are drafts, since it is modes that differ.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from benchmarks.convergence import REAL
from cavity import StudentTMixture
from cavity.priors import FiniteMixture

CHOSEN_ON = ("iris", "wine", "penguins", "banknote", "crabs")
HELD_OUT = ("cancer", "digits", "wine27")
N_CLUSTERS = 10
FORMS = ("full", "tied", "diag", "factor")
# Rows that a coarsened posterior counts for at most.
ALPHAS = (50.0, 200.0)

IDEAS: dict[str, dict] = {
    **{f"{form}": {"covariance_type": form} for form in FORMS},
    "diag power 4": {"covariance_type": "diag", "prior": FiniteMixture(power=4.0)},
    "power 4": {"prior": FiniteMixture(power=4.0)},
    "power 10": {"prior": FiniteMixture(power=10.0)},
    **{f"coarse {alpha:g}": {"alpha": alpha} for alpha in ALPHAS},
}


def fit(X: np.ndarray, truth: np.ndarray, seed: int, alpha: float = 0.0, **settings) -> dict:
    """One row of the table."""
    cpu = time.process_time()
    model = StudentTMixture(
        N_CLUSTERS, random_state=seed, precision="draft", max_seconds=120, progress=False,
        **settings,
    )  # fmt: skip
    if alpha:
        # Weights are relative; as they are they raise the likelihood to a power.
        power = np.full(len(X), alpha / (alpha + len(X)))
        with mock.patch("cavity.mixture.check_weights", return_value=power):
            model.fit(X, sample_weight=power)
    else:
        model.fit(X)
    return {
        "found": model.n_clusters_,
        "groups": model.n_groups_,
        "ari": adjusted_rand_score(truth, model.labels_),
        "ari of groups": adjusted_rand_score(truth, model.group_labels_),
        "loo": np.nan if alpha else model.loo().elpd_loo,
        "converged": model.converged_,
        "processor": time.process_time() - cpu,
    }


def main() -> None:
    """Fit every table with every idea."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--held-out", action="store_true", help="tables nothing was chosen on")
    parser.add_argument("--only", nargs="*", default=[], help="tables")
    parser.add_argument("--ideas", nargs="*", default=list(IDEAS), choices=IDEAS)
    parser.add_argument("--first", type=int, default=0, help="seed of the fits")
    parser.add_argument("--csv", type=Path, help="every fit, for a closer look")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    heads = ("table", "idea", "found", "groups", "ARI", "groups", "loo", "cpu s")
    print("{:10s}{:12s}{:>6s}{:>8s}{:>7s}{:>8s}{:>10s}{:>7s}".format(*heads))
    for name in options.only or (HELD_OUT if options.held_out else CHOSEN_ON):
        X, labels = REAL[name]()
        truth = np.unique(labels, return_inverse=True)[1]
        own = []
        for idea in options.ideas:
            row = {"table": name, "idea": idea}
            row |= fit(np.asarray(X, float), truth, options.first, **IDEAS[idea])
            own.append(row)
            print(
                f"{name:10s}{idea:12s}{row['found']:6d}{row['groups']:8d}{row['ari']:7.3f}"
                f"{row['ari of groups']:8.3f}{row['loo']:10.1f}{row['processor']:7.1f}"
                f"  {'' if row['converged'] else 'not converged'}",
                flush=True,
            )
        forms = [row for row in own if row["idea"] in FORMS]
        if forms:
            best = max(forms, key=lambda row: row["loo"])
            print(f"{name:10s}leave-one-out chooses {best['idea']}: ARI {best['ari']:.3f}")
        rows += own
        if options.csv:
            pd.DataFrame(rows).to_csv(options.csv, index=False)


if __name__ == "__main__":
    main()
