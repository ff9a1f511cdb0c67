"""Which columns matter: 45 columns of which 6 carry the groups, and what indicators cost.

    python benchmarks/columns.py                # all of it
    python benchmarks/columns.py --only case    # of case, categories, speed

*Case*: 300 rows of four normal groups that differ in the means of six columns of 45, drawn with a
standard deviation of 1.3 or 1.8. Adjusted Rand index of k-means given the six columns and the
number of groups, of k-means on all columns, of diagonal Gaussian mixtures of at most ten clusters
without and with indicators, and how many of the six and of the others have a probability above one
half: by indicators, and by marginal odds after the fit without them. *Categories*: 400 rows of
three groups that differ in six columns of thirty, of three categories each; a fit to the six alone,
and fits to all columns without and with indicators. *Speed*: time of a sweep with
indicators over one without, and with a fifth of the cells missing over complete rows.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from cavity import GaussianMixture, StudentTMixture, TableMixture

SEEDS = tuple(range(100, 108))
N, D, CARRIERS, GROUPS, LIMIT = 300, 45, 6, 4, 10


def table(seed, spread):
    """Rows, groups and the columns that carry them."""
    rng = np.random.default_rng(seed)
    z = rng.integers(GROUPS, size=N)
    X = rng.standard_normal((N, D))
    carriers = np.sort(rng.choice(D, CARRIERS, replace=False))
    X[:, carriers] += spread * rng.standard_normal((GROUPS, CARRIERS))[z]
    return X, z, carriers


def k_means(X, seed):
    """Labels by k-means given the number of groups."""
    return KMeans(GROUPS, n_init=10, random_state=seed).fit_predict(X)


def case(settings):
    """Print the indices of every table and the numbers of columns named."""
    head = (
        "spread  seed  six by k-means  all by k-means  plain: ARI, columns  selected: ARI, columns"
    )
    print(head)
    for spread in (1.8, 1.3):
        rows = []
        for seed in SEEDS:
            X, z, carriers = table(seed, spread)
            row = [adjusted_rand_score(z, k_means(X[:, carriers], seed))]
            row.append(adjusted_rand_score(z, k_means(X, seed)))
            for select in (False, True):
                m = GaussianMixture(
                    LIMIT,
                    covariance_type="diag",
                    noise=False,
                    select_columns=select,
                    random_state=seed,
                    **settings,
                ).fit(X)
                found = m.column_relevance()["probability"].sort_index(
                    key=lambda x: x.str[1:].astype(int)
                )
                named = np.flatnonzero(found.to_numpy() > 0.5)
                right = np.isin(named, carriers).sum()
                row += [adjusted_rand_score(z, m.labels_), right, named.size - right]
            rows.append(row)
            a, b, c, *of_plain, d, r, w = row
            print(
                f"{spread:6.1f}  {seed:4d}  {a:.3f}  {b:.3f}  {c:.3f} {of_plain[0]}+{of_plain[1]}  "
                f"{d:.3f} {r}+{w}",
                flush=True,
            )
        print(f"{spread:6.1f}  mean ", np.mean(rows, axis=0).round(3), flush=True)


def categories(settings):
    """Print indices and columns named in tables of categories."""
    print("seed  six alone  without: ARI, columns  with indicators: ARI, columns")
    rows = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        z = rng.integers(3, size=400)
        carriers = np.sort(rng.choice(30, CARRIERS, replace=False))
        shares = np.repeat(rng.dirichlet(np.full(3, 2.0), size=30)[None], 3, axis=0)
        shares[:, carriers] = rng.dirichlet(np.ones(3), size=(3, CARRIERS))
        above = rng.random((400, 30, 1)) > shares[z].cumsum(axis=2)
        X = pd.DataFrame(np.array(list("abc"))[above[:, :, :2].sum(axis=2)])
        X.columns = [f"x{j}" for j in range(30)]
        row = []
        for data, select in ((X.iloc[:, carriers], False), (X, False), (X, True)):
            m = TableMixture(8, select_columns=select, random_state=seed, **settings).fit(data)
            row.append(adjusted_rand_score(z, m.labels_))
            if data is X:
                found = m.column_relevance()["probability"]
                named = found.index[found > 0.5].str[1:].astype(int)
                right = np.isin(named, carriers).sum()
                row += [right, named.size - right]
        rows.append(row)
        six, a, *of_plain, b, right, wrong = row
        print(
            f"{seed:4d}  {six:.3f}  {a:.3f} {of_plain[0]}+{of_plain[1]}  {b:.3f} {right}+{wrong}",
            flush=True,
        )
    print("mean", np.mean(rows, axis=0).round(3))


def speed(repeats=15):
    """Print ratios of times of sweeps, of chains that take turns."""
    for kind in (GaussianMixture, StudentTMixture):
        X, _, _ = table(0, 1.8)
        gaps = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
        chains = []
        for data, select in ((X, False), (X, True), (gaps, False)):
            m = kind(LIMIT, covariance_type="diag", noise=False, select_columns=select, n_warmup=60)
            plan = m.check(data).plan
            own = np.random.default_rng(0)
            chain = plan.sampler(plan.assemble(plan.n_slots), plan.start(0, own), own)
            for _ in range(100):
                chain.sweep(own)
            chains.append((chain, own))
        spent = []
        for _ in range(repeats):
            row = []
            for chain, own in chains:
                begun = time.thread_time()
                for _ in range(10):
                    chain.sweep(own)
                row.append((time.thread_time() - begun) / 10)
            spent.append(row)
        plain, selected, missing = np.median(spent, axis=0)
        print(
            f"{kind.__name__:16s} plain {1e3 * plain:.2f} ms, indicators x {selected / plain:.2f}, "
            f"a fifth missing x {missing / plain:.2f}"
        )


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("case", "categories", "speed"))
    parser.add_argument("--draws", type=int, default=600)
    given = parser.parse_args()
    settings = {"n_chains": 2, "n_warmup": 400, "n_draws": given.draws, "progress": False}
    warnings.simplefilter("ignore")
    if given.only in (None, "speed"):
        speed()
    if given.only in (None, "case"):
        case(settings)
    if given.only in (None, "categories"):
        categories(settings)


if __name__ == "__main__":
    main()
