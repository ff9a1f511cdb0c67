"""Covariates and outcomes of uncertain classes, against three-step estimates.

    python benchmarks/covariates.py                          # 100 replications, 10 minutes
    python benchmarks/covariates.py --high 0.65 --first 200  # more overlap, other seeds

500 rows of two latent classes and eight yes/no items, answered yes with probability ``high`` in one
class and ``1 - high`` in the other. A covariate moves the log odds of the class with slope 1, and
two outcomes, one normal and one skewed, have means 10 and 12. Compared are `Posterior.regress` and
`Posterior.outcome` after a `TableMixture`, the three-step estimates of StepMix (corrections BCH and
ML, intervals from its bootstrap), and each row in its most probable class of the `TableMixture`, as
if that were known. The last line knows the true classes. All are given the number of classes.

For the slope and for the means of each outcome: bias (of the slope, and of the difference of the
two means), root mean squared error, and coverage of 90% intervals. Needs stepmix (the extra
``bench``).
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.linear_model import LogisticRegression

from cavity import TableMixture

ROWS, ITEMS, SLOPE, INTERCEPT = 500, 8, 1.0, -0.3
MEANS = np.array([10.0, 12.0])
TRUE = (np.array([SLOPE]), MEANS, MEANS)
HALF = stats.norm.ppf(0.95)


def simulate(seed, high):
    """Items, covariate, normal and skewed outcome, true classes."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(ROWS)
    z = (rng.random(ROWS) < 1.0 / (1.0 + np.exp(-INTERCEPT - SLOPE * x))).astype(int)
    chance = np.where(z == 1, high, 1.0 - high)
    items = (rng.random((ROWS, ITEMS)) < chance[:, None]).astype(int)
    normal = MEANS[z] + 1.5 * rng.standard_normal(ROWS)
    skewed = MEANS[z] + rng.exponential(1.5, ROWS) - 1.5
    return items, x, (normal, skewed), z


def by_cavity(items, x, outcomes, seed):
    """Estimates and ends of intervals, (quantity: estimate, lower, upper), and labels."""
    names = [f"item {j}" for j in range(ITEMS)]
    m = TableMixture(
        2, feature_types=dict.fromkeys(names, "categorical"), noise=False, random_state=seed,
        n_chains=2, n_warmup=200, n_draws=300, progress=False,
    ).fit(pd.DataFrame(items, columns=names))  # fmt: skip
    if m.n_clusters_ < 2:
        return None, None
    yes = [items[m.labels_ == k].mean() for k in (0, 1)]
    low, high = np.argsort(yes)
    p = m.posterior_
    columns = ["mean", "lower", "upper"]
    slope = p.regress(x, m.partition_, reference=int(low)).table.xs("covariates", level="term")
    found = [slope[columns].to_numpy().T]
    for y in outcomes:
        found.append(p.outcome(y, m.partition_).table.iloc[[low, high]][columns].to_numpy().T)
    return found, (m.labels_ == high).astype(int)


def by_stepmix(items, x, outcomes, seed, correction, n_bootstrap):
    """The same by three steps, intervals normal with the bootstrap's standard deviation."""
    from stepmix.stepmix import StepMix

    found = []
    # The variances of BCH can be negative, and its means do not depend on them.
    normal = "gaussian_unit" if correction == "BCH" else "gaussian_diag"
    for structure, values in zip(("covariate", normal, normal), (x, *outcomes), strict=True):
        # By default one Newton step, which is not enough for the slope of BCH.
        settings = {"max_iter": 100} if structure == "covariate" else {}
        m = StepMix(
            2, n_steps=3, correction=correction, measurement="binary", structural=structure,
            structural_params=settings, n_init=5, abs_tol=1e-6, random_state=seed, progress_bar=0,
        ).fit(items, values[:, None])  # fmt: skip
        low, high = np.argsort(m.get_parameters()["measurement"]["pis"].mean(axis=1))
        m.set_params(n_init=1)
        drawn, _ = m.bootstrap(
            items, values[:, None], n_repetitions=n_bootstrap, progress_bar=False
        )
        if structure == "covariate":
            beta = m.get_parameters()["structural"]["beta"][:, 1]
            estimate = np.array([beta[high] - beta[low]])
            of_term = drawn.xs("beta", level="param").xs("feature_0", level="variable")
        else:
            estimate = m.get_parameters()["structural"]["means"][[low, high], 0]
            of_term = drawn.xs("means", level="param").xs("feature_0", level="variable")
        of_class = of_term.reset_index().pivot(index="rep", columns="class_no", values="value")
        if structure == "covariate":
            sd = np.array([(of_class[high] - of_class[low]).std()])
        else:
            sd = of_class[[low, high]].std().to_numpy()
        found.append(np.array([estimate, estimate - HALF * sd, estimate + HALF * sd]))
    return found


def by_labels(x, outcomes, z):
    """The same with classes taken as known."""
    X = np.column_stack([np.ones(len(x)), x])
    fit = LogisticRegression(C=np.inf, fit_intercept=False).fit(X, z)
    share = fit.predict_proba(X)[:, 1]
    covariance = np.linalg.inv((X.T * share * (1.0 - share)) @ X)
    parts = [(fit.coef_[0, 1:], np.sqrt(covariance[[1], [1]]))]
    for y in outcomes:
        of = [y[z == k] for k in (0, 1)]
        parts.append(
            (np.array([v.mean() for v in of]), np.array([v.std() / np.sqrt(len(v)) for v in of]))
        )
    return [np.array([e, e - HALF * sd, e + HALF * sd]) for e, sd in parts]


def show(name, found):
    """Print bias, error and coverage of each quantity."""
    line = f"{name:22s}"
    for at, true in enumerate(TRUE):
        estimate, lower, upper = np.moveaxis(np.array([run[at] for run in found]), 1, 0)
        off = estimate - true
        bias = (off[:, -1] - off[:, 0] if len(true) > 1 else off[:, 0]).mean()
        error = np.sqrt((off**2).mean())
        covered = ((lower <= true) & (true <= upper)).mean()
        line += f"   {bias:6.2f} {error:5.2f} {covered:5.2f}"
    print(line, flush=True)


def main() -> None:
    """Simulate, estimate, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--high", type=float, default=0.7)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--bootstrap", type=int, default=40)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    methods = ("cavity", "StepMix BCH", "StepMix ML", "most probable class", "true classes")
    found = {name: [] for name in methods}
    wrong, failed = [], dict.fromkeys(methods[:3], 0)
    seconds = dict.fromkeys(methods[:3], 0.0)
    for seed in range(given.first, given.first + given.replications):
        items, x, outcomes, z = simulate(seed, given.high)
        begun = time.perf_counter()
        answer, labels = by_cavity(items, x, outcomes, seed)
        seconds["cavity"] += time.perf_counter() - begun
        if answer is None:
            failed["cavity"] += 1
            continue
        wrong.append((labels != z).mean())
        found["cavity"].append(answer)
        for correction in ("BCH", "ML"):
            begun = time.perf_counter()
            name = f"StepMix {correction}"
            try:
                found[name].append(
                    by_stepmix(items, x, outcomes, seed, correction, given.bootstrap)
                )
            except ValueError:  # a class collapsed in some resample
                failed[name] += 1
            seconds[name] += time.perf_counter() - begun
        found["most probable class"].append(by_labels(x, outcomes, labels))
        found["true classes"].append(by_labels(x, outcomes, z))
    print(f"{len(wrong)} replications, {np.mean(wrong):.0%} of the rows in the wrong class")
    for name, number in failed.items():
        if number:
            print(f"{name} gave no answer in {number}")
    print(" " * 22 + "".join(f"   {of:>18s}" for of in ("slope", "normal means", "skewed means")))
    print(" " * 22 + f"   {'bias':>6s} {'rmse':>5s} {'cover':>5s}" * 3)
    for name, runs in found.items():
        show(name, runs)
    spent = ", ".join(f"{name} {s / given.replications:.1f} s" for name, s in seconds.items())
    print(f"a replication takes {spent}")


if __name__ == "__main__":
    main()
