"""What mclust and PyMC make of the data of the lesson that compares methods.

    python benchmarks/elsewhere.py mclust     # needs R with mclust
    python benchmarks/elsewhere.py pymc       # needs PyMC, in an environment with cavity

Writes ``examples/learn/elsewhere.json``, which the lesson draws: neither tool is needed to build
the site. The data are taken from the lesson itself. mclust chooses the number of groups (at most
eight, as cavity is told) and the shape of their covariances by BIC. PyMC is told the true number: a
mixture of Gaussian clusters with labels summed out, full covariances (LKJ), four chains by nutpie.
Labels are then drawn for every draw; `cavity.Posterior.from_labels` has estimate and verdict.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.preprocessing import StandardScaler

LESSON = Path(__file__).parent.parent / "examples" / "learn" / "08_comparing.py"
KEPT = LESSON.with_name("elsewhere.json")
N_TUNE, N_DRAWS, N_CHAINS = 400, 300, 4

MCLUST = """
suppressMessages(library(mclust))
given <- commandArgs(trailingOnly = TRUE)
X <- as.matrix(read.csv(given[1], header = FALSE))
set.seed(0)
spent <- system.time(found <- Mclust(X, G = 1:8, verbose = FALSE))
cat(as.character(packageVersion("mclust")), found$modelName, sum(spent[c(1, 2)]), "\\n")
cat(found$classification - 1, "\\n")
"""


def lesson_data() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The lesson's data sets and groups, by its own code."""
    text = LESSON.read_text(encoding="utf-8")
    space: dict = {}
    exec(compile(text[: text.index("# The methods")], str(LESSON), "exec"), space)
    return space["data"]


def by_mclust(X: np.ndarray, n_groups: int) -> dict:
    """Labels by EM and BIC, of scaled columns."""
    with tempfile.TemporaryDirectory() as name:
        table, script = Path(name) / "x.csv", Path(name) / "run.R"
        np.savetxt(table, X, delimiter=",")
        script.write_text(MCLUST)
        run = subprocess.run(
            ["Rscript", str(script), str(table)], capture_output=True, text=True, check=True
        )
    head, labels = run.stdout.strip().splitlines()
    version, shape, seconds = head.split()
    note = f"shape {shape}"
    return _kept(version, [int(k) for k in labels.split()], float(seconds), note)


def by_pymc(X: np.ndarray, n_groups: int) -> dict:
    """Labels of a mixture sampled by NUTS, of scaled columns."""
    import pymc as pm
    import pytensor.tensor as pt
    from scipy.special import logsumexp
    from scipy.stats import multivariate_normal

    from cavity import Posterior

    n, d = X.shape
    begun = time.process_time()
    with pm.Model():
        weight = pm.Dirichlet("weight", np.ones(n_groups))
        mean = pm.Normal("mean", 0.0, 2.0, shape=(n_groups, d))
        scores = []
        for k in range(n_groups):
            factor, _, _ = pm.LKJCholeskyCov(
                f"factor{k}", n=d, eta=1.0, sd_dist=pm.HalfNormal.dist(1.0), compute_corr=True
            )
            pm.Deterministic(f"chol{k}", factor)
            density = pm.logp(pm.MvNormal.dist(mean[k], chol=factor), X)
            scores.append(pt.log(weight[k]) + density)
        pm.Potential("rows", pm.math.logsumexp(pt.stack(scores), axis=0).sum())
        drawn = pm.sample(
            N_DRAWS, tune=N_TUNE, chains=N_CHAINS, cores=1, random_seed=0, progressbar=False,
            nuts_sampler="nutpie",
        )  # fmt: skip
    seconds = time.process_time() - begun
    draws = drawn.posterior
    rng = np.random.default_rng(0)
    labels = np.empty((N_CHAINS, N_DRAWS, n), dtype=int)
    for c in range(N_CHAINS):
        for t in range(N_DRAWS):
            score = np.stack(
                [
                    np.log(float(draws["weight"][c, t, k]))
                    + multivariate_normal(
                        draws["mean"].values[c, t, k],
                        _square(draws[f"chol{k}"].values[c, t]),
                        allow_singular=True,
                    ).logpdf(X)
                    for k in range(n_groups)
                ],
                axis=1,
            )
            chances = np.exp(score - logsumexp(score, axis=1, keepdims=True))
            labels[c, t] = (chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    posterior = Posterior.from_labels(np.minimum(labels, n_groups - 1))
    found = posterior.partition().labels
    return _kept(pm.__version__, found, seconds, posterior.diagnostics().sentences[0])


def _square(factor: np.ndarray) -> np.ndarray:
    return factor @ factor.T


def _kept(version: str, labels, seconds: float, note: str) -> dict:
    text = "".join(str(int(k)) for k in labels)
    return {"version": version, "labels": text, "seconds": round(seconds, 2), "note": note}


METHODS = {"mclust": by_mclust, "pymc": by_pymc}


def main(name: str) -> None:
    """Run one tool on every data set and write what it found beside what is there."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for what, (X, y) in lesson_data().items():
        scaled = StandardScaler().fit_transform(X)
        found = METHODS[name](scaled, len(set(y[y >= 0])))
        kept.setdefault(name, {})[what] = found
        print(what, found["note"], found["seconds"], flush=True)
        KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
