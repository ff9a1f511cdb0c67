"""Tables with gaps: filling them in, what they cost the clustering, and what they cost in time.

    python benchmarks/missing.py                          # the tuning seeds
    python benchmarks/missing.py --seeds 400 401 402      # others
    python benchmarks/missing.py --only speed             # of fill, cluster, made, speed
    python benchmarks/missing.py --covariance tied        # one matrix for all clusters

Cells are taken out at random, a fifth of them. *Fill*: root mean squared error of the values filled
in, in standard deviations of their columns, and the share of them within the 90 % intervals: wine,
breast cancer and penguins, against scikit-learn's IterativeImputer, KNNImputer and column means.
*Cluster*: adjusted Rand index of wine, iris and penguins as they are, with gaps, and of the rows
that have none left, clusters of the others by prediction; all with ``prior="dirichlet"`` and
``concentration=20``, since all groups are known to be there. Beside it what k nearest neighbours
with a Gaussian mixture come to, and what the gaps have left to be found: rows as they are and with
gaps put to the groups by somebody who knows the groups of nine tenths of the rows, and these rows
without gaps, for the others. *Made*: the same for rows drawn from normal distributions with the
groups' means and covariance matrices, where the model is right. *Speed*: time of a sweep with gaps
over that of a sweep without, interleaved. The number of clusters given is the true one.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal
from sklearn import datasets
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as Peer
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from cavity import GaussianMixture, StudentTMixture
from cavity.datasets import fetch_benchmark, make_student_t

SHARE = 0.2
TUNING = (0, 1, 2)


def _penguins() -> tuple[np.ndarray, np.ndarray]:
    table, truth = fetch_benchmark("penguins")
    return np.asarray(table, dtype=float), truth


SETS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "breast cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "penguins": _penguins,
    "iris": lambda: datasets.load_iris(return_X_y=True),
}


def with_gaps(X: np.ndarray, seed: int) -> np.ndarray:
    """A fifth of the cells taken out; no row or column is emptied."""
    rng = np.random.default_rng(seed)
    out = X.copy()
    out[rng.random(X.shape) < SHARE] = np.nan
    empty = np.isnan(out).all(axis=1)
    out[empty, 0] = X[empty, 0]
    return out


def fill(names: tuple[str, ...], seeds: list[int], settings: dict[str, Any]) -> None:
    """Print errors of the values filled in."""
    heads = ("ours", "cover", "iterate", "knn", "mean")
    print(f"{'set':14s} {'seed':>4s} " + " ".join(f"{head:>7s}" for head in heads))
    for name in names:
        X, truth = SETS[name]()
        rows = []
        for seed in seeds:
            G = with_gaps(X, seed)
            gap, sd = np.isnan(G), X.std(axis=0)

            def error(filled: np.ndarray, X=X, gap=gap, sd=sd) -> float:
                return float(np.sqrt(np.mean(((filled - X) / sd)[gap] ** 2)))

            m = StudentTMixture(len(np.unique(truth)), random_state=seed, **settings).fit(G)
            ours = m.impute(G)
            cover = float(((X >= ours.lower) & (X <= ours.upper))[gap].mean())
            scaler = StandardScaler().fit(G)
            Z = scaler.transform(G)
            others = [
                error(scaler.inverse_transform(peer.fit_transform(Z)))
                for peer in (
                    IterativeImputer(max_iter=50, random_state=0),
                    KNNImputer(),
                    SimpleImputer(),
                )
            ]
            rows.append([error(ours.mean), cover, *others])
            print(f"{name:14s} {seed:4d} " + " ".join(f"{v:7.3f}" for v in rows[-1]), flush=True)
        print(f"{name:14s} mean " + " ".join(f"{v:7.3f}" for v in np.mean(rows, axis=0)))


def told(X: np.ndarray, G: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The most probable group of each row of G, groups being normal with what X says of them.

    What X says of a row's own group is without the row: with many columns a row has a hand in its
    group's covariance matrix, and would be known again by the few values that are left of it.
    What is missing is integrated out. Nobody who is not told the groups can be expected to do
    better, so that what gaps cost here is what they have taken away.
    """
    out = np.empty_like(truth)
    for learned, left in StratifiedKFold(10, shuffle=True, random_state=0).split(X, truth):
        # Of penguins two have no measurements at all.
        learned = learned[~np.isnan(X[learned]).any(axis=1)]
        groups = []
        for name in np.unique(truth):
            own = X[learned][truth[learned] == name]
            groups.append((name, np.log(len(own)), own.mean(axis=0), np.cov(own.T)))
        for i in left:
            there = ~np.isnan(G[i])
            score = [
                log_share
                + multivariate_normal.logpdf(
                    G[i, there], mean[there], covariance[np.ix_(there, there)], allow_singular=True
                )
                if there.any()
                else log_share
                for _, log_share, mean, covariance in groups
            ]
            out[i] = groups[int(np.argmax(score))][0]
    return out


def made(X: np.ndarray, truth: np.ndarray, seed: int) -> np.ndarray:
    """Rows from normal distributions with each group's mean and covariance matrix."""
    rng = np.random.default_rng(seed)
    out = np.empty_like(X)
    for name in np.unique(truth):
        own = X[truth == name]
        own = own[~np.isnan(own).any(axis=1)]
        size = int((truth == name).sum())
        out[truth == name] = rng.multivariate_normal(own.mean(axis=0), np.cov(own.T), size=size)
    return out


def cluster(
    names: tuple[str, ...], seeds: list[int], settings: dict[str, Any], normal: bool = False
) -> None:
    """Print what gaps cost the clustering, and what leaving rows out costs.

    A star marks chains that were not shown to agree. With ``normal`` rows are made anew for each
    seed.
    """
    heads = ("whole", "gaps", "dropped", "left", "knn+gmm", "t.whole", "t.gaps")
    print(f"{'set':10s} {'seed':>4s} " + " ".join(f"{head:>7s}" for head in heads))
    settings = {**settings, "prior": "dirichlet", "concentration": 20.0}
    for name in names:
        given, truth = SETS[name]()
        k = len(np.unique(truth))
        rows = []
        X = given
        for seed in seeds:
            if normal or seed == seeds[0]:
                X = made(given, truth, seed) if normal else given
                whole = StudentTMixture(k, random_state=seed, **settings).fit(X).labels_
            G = with_gaps(X, seed)
            left = ~np.isnan(G).any(axis=1)
            fitted = StudentTMixture(k, random_state=seed, **settings).fit(G)
            found = [adjusted_rand_score(truth, z) for z in (whole, fitted.labels_)]
            dropped = np.nan
            if left.sum() > k:
                m = StudentTMixture(k, random_state=seed, **settings).fit(G[left])
                dropped = adjusted_rand_score(truth, m.predict(G))
            Z = KNNImputer().fit_transform(StandardScaler().fit_transform(G))
            peer = Peer(k, n_init=10, random_state=0).fit_predict(Z)
            others = [
                adjusted_rand_score(truth, z) for z in (peer, told(X, X, truth), told(X, G, truth))
            ]
            rows.append([*found, dropped, left.mean(), *others])
            shown = " ".join(f"{v:7.3f}" for v in rows[-1])
            print(f"{name:10s} {seed:4d} {shown}{'' if fitted.converged_ else ' *'}", flush=True)
        means = np.nanmean(rows, axis=0)
        print(f"{name:10s} mean " + " ".join(f"{v:7.3f}" for v in means))
        print(
            f"{name:10s} gaps cost {means[0] - means[1]:.3f}, dropping rows "
            f"{means[0] - means[2]:.3f}; told the groups, gaps cost {means[5] - means[6]:.3f}",
            flush=True,
        )


def speed(repeats: int = 5) -> None:
    """Print the time of a sweep with gaps over one without, moves and all."""
    for n, d in ((1000, 2), (1000, 10), (500, 30)):
        X, _ = make_student_t(n, 5, d, df=5.0, separation=8, random_state=1)
        for kind in (StudentTMixture, GaussianMixture):
            chains = []
            for data in (X, with_gaps(X, 0)):
                m = kind(8, random_state=0, n_warmup=100)
                plan = m.check(data).plan
                rng = np.random.default_rng(0)
                chain = plan.sampler(plan.assemble(plan.n_slots), plan.start(0, rng), rng)
                for _ in range(60):
                    chain.sweep(rng)
                chains.append((chain, rng))
            ratios = []
            for _ in range(repeats):
                spent = []
                for chain, rng in chains:
                    begun = time.thread_time()
                    for _ in range(10):
                        chain.sweep(rng)
                    spent.append((time.thread_time() - begun) / 10)
                ratios.append(spent[1] / spent[0])
            ratio = float(np.median(ratios))
            print(f"{kind.__name__:16s} n={n} d={d}: {1e3 * spent[0]:.2f} ms whole, x {ratio:.2f}")


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(TUNING))
    parser.add_argument("--only", choices=("fill", "cluster", "made", "speed"))
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), default=list(SETS))
    parser.add_argument("--max-sweeps", type=int, default=5000)
    parser.add_argument("--covariance", choices=("full", "diag", "tied"), default="full")
    given = parser.parse_args()
    settings = {"max_sweeps": given.max_sweeps, "covariance_type": given.covariance}
    warnings.simplefilter("ignore")
    if given.only in (None, "fill"):
        fill(
            tuple(s for s in ("wine", "breast cancer", "penguins") if s in given.sets),
            given.seeds,
            settings,
        )
    grouped = tuple(s for s in ("wine", "iris", "penguins") if s in given.sets)
    for section in ("cluster", "made"):
        if given.only in (None, section):
            cluster(grouped, given.seeds, settings, normal=section == "made")
    if given.only in (None, "speed"):
        speed()


if __name__ == "__main__":
    main()
