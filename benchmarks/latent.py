"""Measurement errors and ordinal columns: what knowing of them is worth, and what it costs.

    python benchmarks/latent.py                     # all of it
    python benchmarks/latent.py --only ordinal      # of errors, ordinal, unordered, speed

*Errors*: 400 rows of three correlated normal clusters in two columns, with standard errors of .2,
.6 or 1.5 times a cluster's spread of about .55. Compared are a fit that knows them, extreme
deconvolution (maximum likelihood by EM, best of ten starts, given the true number of clusters), and
a fit that takes the values as exact. Adjusted Rand index, number of clusters, mean absolute error
of the clusters' variances relative to the true ones, and root mean squared error of the true
values. *Ordinal*: 300 rows of three clusters in six correlated items of five grades and one
measurement; the items taken as ordinal, as numbers and as unordered categories. Adjusted Rand
index, number of clusters, log score and share of correctly filled grades that were taken out.
*Unordered*: the same, but each item's shares in each cluster are drawn at random, without order.
*Speed*: time of a sweep with errors in a fifth of the cells over one with these cells missing.
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
from cavity.datasets import make_student_t

SEEDS = (0, 1, 2, 3)
LIMIT = 8


def deconvolve(X, errors, n_clusters, seed, n_steps=200):
    """Extreme deconvolution: weights, means, covariances, labels and means of the true values."""
    rng = np.random.default_rng(seed)
    n, d = X.shape
    noise = np.square(errors)[:, :, None] * np.eye(d)
    best = None
    for _start in range(10):
        z = KMeans(n_clusters, n_init=1, random_state=rng.integers(2**31)).fit_predict(X)
        weight = np.bincount(z, minlength=n_clusters) / n
        mean = np.array([X[z == k].mean(axis=0) for k in range(n_clusters)])
        covariance = np.array([np.cov(X[z == k].T) + 0.1 * np.eye(d) for k in range(n_clusters)])
        for _ in range(n_steps):
            log_p, guess, spread = [], [], []
            for k in range(n_clusters):
                whole = covariance[k] + noise
                gain = covariance[k] @ np.linalg.inv(whole)
                away = X - mean[k]
                solved = np.linalg.solve(whole, away[..., None])[..., 0]
                value = np.linalg.slogdet(2.0 * np.pi * whole)[1] + (away * solved).sum(axis=1)
                log_p.append(np.log(weight[k]) - 0.5 * value)
                guess.append(mean[k] + (gain @ away[..., None])[..., 0])
                spread.append(covariance[k] - gain @ covariance[k])
            log_p = np.array(log_p)
            total = np.logaddexp.reduce(log_p, axis=0)
            share = np.exp(log_p - total)
            weight = share.mean(axis=1)
            for k in range(n_clusters):
                mean[k] = share[k] @ guess[k] / share[k].sum()
                away = guess[k] - mean[k]
                second = spread[k] + away[:, :, None] * away[:, None, :]
                covariance[k] = np.einsum("n,nij->ij", share[k], second) / share[k].sum()
                covariance[k] += 1e-6 * np.eye(d)
        if best is None or total.sum() > best[0]:
            value = np.einsum("kn,knd->nd", share, np.array(guess))
            best = total.sum(), mean.copy(), covariance.copy(), share.argmax(axis=0), value
    return best[1:]


def errors(settings):
    """Print how well clusters and true values are found."""
    centers = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    covariance = np.array([[0.3, 0.2], [0.2, 0.3]])
    found = {"with errors": [], "deconvolution": [], "as exact": []}
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        z = rng.integers(3, size=400)
        true = centers[z] + rng.standard_normal((400, 2)) @ np.linalg.cholesky(covariance).T
        given = rng.choice([0.2, 0.6, 1.5], size=true.shape)
        X = true + given * rng.standard_normal(true.shape)

        def record(name, n_clusters, labels, covariances, values, z=z, true=true):
            off = np.abs(np.diagonal(covariances, axis1=1, axis2=2) / 0.3 - 1.0).mean()
            rmse = np.sqrt(((values - true) ** 2).mean())
            found[name].append([adjusted_rand_score(z, labels), n_clusters, off, rmse])

        m = GaussianMixture(LIMIT, random_state=seed, **settings).fit(X, errors=given)
        record("with errors", m.n_clusters_, m.labels_, m.covariances_, m.impute(X).mean)
        _, covariances, labels, values = deconvolve(X, given, 3, seed)
        record("deconvolution", 3, labels, covariances, values)
        m = GaussianMixture(LIMIT, random_state=seed, **settings).fit(X)
        record("as exact", m.n_clusters_, m.labels_, m.covariances_, X)
    print(f"{'errors':16s} {'ARI':>6s} {'K':>6s} {'var':>6s} {'rmse':>6s}")
    for name, rows in found.items():
        print(f"{name:16s} " + " ".join(f"{v:6.3f}" for v in np.mean(rows, axis=0)), flush=True)


def ordinal(settings, ordered=True):
    """Print how well clusters and missing grades are found."""
    names = [f"item {j}" for j in range(6)]
    centers = np.array([[0, 0, 0, 0, 0, 0, 0], [1.2, 1.2, 1.2, 0, 0, -1.0, 1.0],
                        [-1.0, 0.8, 0.0, 1.2, 1.0, 0.0, -1.0]])  # fmt: skip
    root = np.linalg.cholesky(0.5 * np.eye(7) + 0.3)
    found = {"ordinal": [], "continuous": [], "categorical": []}
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        z = rng.integers(3, size=300)
        latent = centers[z] + rng.standard_normal((300, 7)) @ root.T
        grades = 1.0 + np.array(
            [np.searchsorted(np.sort(rng.uniform(-1.5, 1.8, 4)), column) for column in latent.T[:6]]
        )
        if not ordered:
            shares = rng.dirichlet(np.full(5, 0.7), (3, 6))
            place = rng.random((6, 300))
            sums = np.cumsum(shares[z], axis=2).transpose(1, 0, 2)
            grades = 1.0 + (place[:, :, None] > sums).sum(axis=2).clip(max=4)
        whole = pd.DataFrame(grades.T, columns=names)
        gaps = rng.random(whole.shape) < 0.1
        table = whole.mask(gaps).assign(size=latent[:, 6])
        for kind, rows in found.items():
            types = dict.fromkeys(names, kind)
            m = TableMixture(LIMIT, feature_types=types, random_state=seed, **settings).fit(table)
            filled = m.impute(table).mean[names].astype(float).round().to_numpy()
            right = (filled == whole.to_numpy())[gaps].mean()
            rows.append([adjusted_rand_score(z, m.labels_), m.n_clusters_, right])
    print(f"{'items as':16s} {'ARI':>6s} {'K':>6s} {'filled':>6s}")
    for name, rows in found.items():
        print(f"{name:16s} " + " ".join(f"{v:6.3f}" for v in np.mean(rows, axis=0)), flush=True)


def speed(repeats=5):
    """Print the time of a sweep with errors over that of one with missing values."""
    for n, d in ((1000, 2), (1000, 10)):
        X, _ = make_student_t(n, 5, d, df=5.0, separation=8, random_state=1)
        rng = np.random.default_rng(0)
        chosen = rng.random(X.shape) < 0.2
        chosen[chosen.all(axis=1), 0] = False
        for kind in (StudentTMixture, GaussianMixture):
            chains = []
            for data, given in (
                (np.where(chosen, np.nan, X), None),
                (X, np.where(chosen, 0.3, 0.0)),
            ):
                m = kind(8, random_state=0, n_warmup=100)
                plan = m.check(data, errors=given).plan
                own = np.random.default_rng(0)
                chain = plan.sampler(plan.assemble(plan.n_slots), plan.start(0, own), own)
                for _ in range(60):
                    chain.sweep(own)
                chains.append((chain, own))
            ratios = []
            for _ in range(repeats):
                spent = []
                for chain, own in chains:
                    begun = time.thread_time()
                    for _ in range(10):
                        chain.sweep(own)
                    spent.append((time.thread_time() - begun) / 10)
                ratios.append(spent[1] / spent[0])
            ratio = float(np.median(ratios))
            print(
                f"{kind.__name__:16s} n={n} d={d}: {1e3 * spent[0]:.2f} ms missing, x {ratio:.2f}"
            )


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("errors", "ordinal", "unordered", "speed"))
    parser.add_argument("--draws", type=int, default=400)
    given = parser.parse_args()
    settings = {"n_chains": 2, "n_warmup": 400, "n_draws": given.draws, "progress": False}
    warnings.simplefilter("ignore")
    if given.only in (None, "errors"):
        errors(settings)
    if given.only in (None, "ordinal"):
        ordinal(settings)
    if given.only in (None, "unordered"):
        ordinal(settings, ordered=False)
    if given.only in (None, "speed"):
        speed()


if __name__ == "__main__":
    main()
