"""Accuracy of the mixtures with default settings, beside two peers on the same data.

    python benchmarks/accuracy.py                       # every section
    python benchmarks/accuracy.py synthetic --seeds 3   # one, quicker

Sections: synthetic, outliers, df, open. Needs the extra `bench` for the peer studenttmixture.
Prints mean adjusted Rand index with its standard error over the seeds.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as ScikitGaussianMixture
from sklearn.preprocessing import StandardScaler

from cavity import StudentTMixture
from cavity.datasets import add_outliers, make_student_t

SEPARATIONS = ("hard", "medium", "easy")


def by_cavity(X, n_clusters, seed):
    return StudentTMixture(n_clusters, random_state=seed).fit(X).labels_


def by_scikit(X, n_clusters, seed):
    return ScikitGaussianMixture(n_clusters, n_init=10, random_state=seed).fit_predict(X)


def by_studenttmixture(X, n_clusters, seed):
    from studenttmixture import EMStudentMixture

    model = EMStudentMixture(n_components=n_clusters, n_init=10, fixed_df=False, random_state=seed)
    model.fit(X)
    return model.predict(X)


METHODS = {
    "cavity": by_cavity,
    "scikit-learn": by_scikit,
    "studenttmixture": by_studenttmixture,
}


def compare(name, sets, n_clusters):
    """One row: each method's mean index over the data sets, on the rows that have a label."""
    scores = {method: [] for method in METHODS}
    for seed, (X, labels) in enumerate(sets):
        for method, label in METHODS.items():
            found = label(X, n_clusters, seed)[: len(labels)]
            scores[method].append(adjusted_rand_score(labels, found))
    cells = []
    for values in scores.values():
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        cells.append(f"{np.mean(values):.3f} ({error:.3f})")
    print(f"{name:28s}" + "".join(f"{c:>18s}" for c in cells), flush=True)


def head():
    print(f"{'adjusted Rand index':28s}" + "".join(f"{m:>18s}" for m in METHODS), flush=True)


def synthetic(seeds):
    """Student-t clusters: K = 20, N = 600, df = 5, d = 2, three separations."""
    head()
    for separation in SEPARATIONS:
        sets = []
        for seed in range(seeds):
            X, truth = make_student_t(600, 20, 2, 5.0, separation, random_state=seed)
            sets.append((X, truth.labels))
        compare(separation, sets, 20)


def outliers(seeds):
    """Iris and wine, standardised, with outliers over three times the range; original rows."""
    head()
    for name, load in (("iris", load_iris), ("wine", load_wine)):
        X, labels = load(return_X_y=True)
        X = StandardScaler().fit_transform(X)
        for fraction in (0.05, 0.10):
            sets = [
                (add_outliers(X, fraction, random_state=seed)[0], labels) for seed in range(seeds)
            ]
            compare(f"{name}, {fraction:.0%} outliers", sets, 3)


def df(seeds):
    """Learned degrees of freedom: heavy-tailed and Gaussian data."""
    for true in (3.0, np.inf):
        means, covered = [], 0
        for seed in range(seeds):
            X, _ = make_student_t(600, 4, 2, true, "easy", random_state=seed)
            model = StudentTMixture(4, df="learn", random_state=seed).fit(X)
            draws = model.posterior_.parameters["df"]
            lower, upper = np.nanquantile(draws, [0.025, 0.975])
            means.append(np.nanmean(draws))
            covered += lower <= true <= upper
        print(f"df = {true}: posterior mean {np.mean(means):.2f}, from {min(means):.2f} to "
              f"{max(means):.2f} over {seeds} seeds", flush=True)  # fmt: skip
        if np.isfinite(true):
            print(f"  {covered} of {seeds} central 95% intervals hold it", flush=True)


def open_prior(seeds):
    """Number of clusters found by the Dirichlet process where there are 20."""
    for separation in SEPARATIONS:
        found = []
        for seed in range(seeds):
            X, _ = make_student_t(600, 20, 2, 5.0, separation, random_state=seed)
            found.append(StudentTMixture(20, prior="dp", random_state=seed).fit(X).n_clusters_)
        print(f"dp, {separation}: {found} clusters where there are 20", flush=True)


SECTIONS = {"synthetic": synthetic, "outliers": outliers, "df": df, "open": open_prior}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown section: {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore")
    for method in set(METHODS) - set(options.methods):
        del METHODS[method]
    for name in options.sections or SECTIONS:
        print(f"\n## {name}", flush=True)
        SECTIONS[name](options.seeds)


if __name__ == "__main__":
    main()
