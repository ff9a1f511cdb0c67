"""Random data and settings, the odd and the extreme among them, from a seed.

A case is made from its kind and seed alone, so that a failure can be run again by its number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from cavity import priors

KINDS = ("student-t", "gaussian", "series", "table")
COLLAPSES = {
    "student-t": ("ep", "blocked", "naive"),
    "gaussian": ("collapsed", "naive"),
    "series": ("ep", "corrected", "collapsed", "naive"),
    "table": ("auto", "auto", "naive", "ep"),
}


@dataclass
class Case:
    """What one fit is given, and what is asked of it afterwards."""

    kind: str
    seed: int
    data: Any
    settings: dict[str, Any]
    names: dict[str, Any]  # columns of a long frame
    new: Any  # rows or series that the fit has not seen

    def __str__(self) -> str:
        shape = getattr(self.data, "shape", None)
        return f"{self.kind} {self.seed}: {type(self.data).__name__}{shape} {self.settings}"


class Dice:
    """A generator with the few throws that cases are made of."""

    def __init__(self, *seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def often(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def one(self, *values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def power(self, low: float, high: float) -> float:
        """Ten to a uniform power."""
        return float(10.0 ** self.rng.uniform(low, high))

    def sign(self) -> float:
        return self.one(-1.0, 1.0)


def case(kind: str, seed: int) -> Case:
    """The case of this number."""
    dice = Dice(KINDS.index(kind), seed)
    if kind == "series":
        return _series_case(kind, seed, dice)
    if kind == "table":
        return _table_case(kind, seed, dice)
    return _mixture_case(kind, seed, dice)


# ---------------------------------------------------------------------- data


def _numbers(dice: Dice, n: int, d: int) -> np.ndarray:
    rng = dice.rng
    shape = dice.one("normal", "clusters", "heavy", "integers", "same", "collinear", "repeated")
    X = rng.standard_normal((n, d))
    if shape == "clusters":
        X += 10.0 * rng.integers(3, size=(n, 1))
    elif shape == "heavy":
        X = rng.standard_t(0.5, size=(n, d))
    elif shape == "integers":
        X = rng.integers(-3, 4, size=(n, d)).astype(float)
    elif shape == "same":
        X[:] = dice.one(0.0, 1.0, dice.power(-140, 140))
    elif shape == "collinear":
        X = X[:, :1] * rng.standard_normal(d) + dice.one(0.0, 1e-9) * X
    elif shape == "repeated":
        X = X[rng.integers(max(1, n // 3), size=n)]
    if dice.often(0.25):
        X[:, int(rng.integers(d))] = dice.one(0.0, 7.0, dice.power(-140, 140))
    if dice.often(0.3):
        X *= dice.power(-141, 139)
    if dice.often(0.15):
        with np.errstate(over="ignore"):
            X *= 10.0 ** rng.uniform(-20, 20, size=d)
    if dice.often(0.15):
        X += dice.sign() * dice.power(0, 16) * np.abs(X).max()
    return X


def _spoil(dice: Dice, X: np.ndarray) -> np.ndarray:
    """A wild value, or one that is none, here and there."""

    def anywhere() -> tuple[int, ...]:
        return tuple(int(dice.rng.integers(s)) for s in X.shape)

    if X.size and dice.often(0.35):
        for _ in range(dice.one(1, 1, 2)):
            X[anywhere()] = dice.sign() * dice.power(5, 30)
    if X.size and dice.often(0.05):
        X[anywhere()] = dice.sign() * dice.power(100, 308)
    if X.size and dice.often(0.03):
        X[anywhere()] = dice.one(np.nan, np.inf, -np.inf)
    return X


_ODD_NAMES = ("", " ", "naïve", "a" * 300, "<b>", "'", "\n", "1", "None")


def _frame(dice: Dice, X: np.ndarray) -> Any:
    """The array itself, or a table in some dress."""
    dress = dice.one("array", "array", "frame", "names", "integers", "list", "float32", "arrow")
    if dress == "frame":
        return pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    if dress == "names":
        odd = (*_ODD_NAMES, "x\x00y") if dice.often(0.1) else _ODD_NAMES
        columns = [f"{dice.one(*odd)}{j}" for j in range(X.shape[1])]
        index = [f"{dice.one(*odd)}{i}" for i in range(len(X))]
        return pd.DataFrame(X, columns=columns, index=index)
    if dress == "integers" and np.isfinite(X).all() and np.abs(X).max(initial=0) < 1e15:
        return np.rint(X).astype(np.int64)
    if dress == "list":
        return X.tolist()
    if dress == "float32":
        with np.errstate(over="ignore", under="ignore"):
            return X.astype(np.float32)
    if dress == "arrow":
        import pyarrow as pa

        return pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])})
    return X


# ---------------------------------------------------------------------- settings


def _prior(dice: Dice, n_clusters: int) -> dict[str, Any]:
    """The prior over partitions: words, specifications, concentrations of every size."""
    concentration = dice.one(None, "learn", dice.power(-3, 3), dice.power(-101, 101))
    if dice.often(0.6):
        word = dice.one("dirichlet", "fixed", "dp", "pitman-yor", "finite")
        if word == "fixed" and dice.often(0.9):
            return {"prior": word}
        return {"prior": word, "concentration": concentration}
    if concentration is not None and not isinstance(concentration, str):
        concentration = min(max(concentration, 1e-100), 1e100)
    weights = [dice.power(-2, 2) for _ in range(n_clusters)]
    if dice.often(0.2):
        weights[0] = dice.power(-200, 200)
    discount = dice.one(0.0, 0.25, 0.5, 0.99, 1.0 - 1e-12, 1e-12)
    specification = dice.one(
        priors.FixedWeights(),
        priors.FixedWeights(weights),
        priors.Dirichlet(concentration),
        priors.Dirichlet(concentration, weights),
        priors.DirichletProcess(concentration),
        priors.PitmanYor(concentration, discount),
    )
    return {"prior": specification}


def _run(dice: Dice, kind: str, n: int) -> dict[str, Any]:
    n_clusters = n + 1 if dice.often(0.05) else dice.one(1, 2, min(3, n), min(10, n), n)
    out = {
        "n_clusters": n_clusters,
        "collapse": dice.one(*COLLAPSES[kind]),
        "n_chains": dice.one(1, 2, 3),
        "n_warmup": dice.one(0, 1, 5, 20),
        "n_draws": dice.one(1, 2, 3, 8, 30),
        "thin": dice.one(1, 1, 2),
        "n_jobs": 1,
        "random_state": int(dice.rng.integers(2**31)),
        "progress": False,
        **_prior(dice, n_clusters),
    }
    if dice.often(0.2):
        out["init"] = dice.rng.integers(dice.one(1, 2, n_clusters), size=max(n, 1))
    elif dice.often(0.4):
        out["init"] = dice.one("random", "k-means++") if kind != "series" else "random"
    if dice.often(0.2):
        options: dict[str, Any] = {"keep_warmup": dice.often(0.5), "moves": dice.often(0.5)}
        if out["collapse"] == "ep":
            options["fraction"] = dice.one(1.0, 0.5, 1e-2, dice.power(-2.2, 0))
            options["damping"] = dice.one(1.0, 0.1, 1e-3, dice.power(-3, 0))
            options["pass_every"] = dice.one(0, 1, 3, 10**12)
        if kind == "series":
            options["draw"] = dice.one("auto", "joint", "alternate")
        out["options"] = options
    return out


def _mixture_case(kind: str, seed: int, dice: Dice) -> Case:
    n = 1 if dice.often(0.02) else dice.one(2, 3, 4, 6, 12, 30, 60)
    d = dice.one(1, 1, 2, 3, 6)
    X = _spoil(dice, _numbers(dice, n, d))
    settings = _run(dice, kind, n)
    if kind == "student-t":
        settings["df"] = dice.one("learn", "learn-each", 5.0, 1.0, dice.power(-1.4, 6.1))
    prior: dict[str, Any] = {}
    if dice.often(0.4):
        prior["mean_strength"] = dice.one(dice.power(-4, 2), dice.power(-12, 12))
    if dice.often(0.4):
        above = dice.one(dice.power(-2, 2), dice.power(-12, 8.9))
        prior["covariance_df"] = min(d + 1.0 + above, 1e9)
    if dice.often(0.4):
        prior["covariance_scale"] = dice.one(
            "full", "diagonal", dice.power(-3, 1), dice.power(-12, 12)
        )
    if prior:
        settings["cluster_prior"] = priors.ClusterPrior(**prior)
    new = np.where(dice.rng.random((5, d)) < 0.5, X[dice.rng.integers(n, size=5)], 0.0)
    new = np.clip(np.nan_to_num(new), -1e200, 1e200) * dice.one(1.0, 1.0, dice.power(-300, 100))
    if dice.often(0.3):
        new[0, 0] = dice.sign() * dice.power(5, 308)
    return Case(kind, seed, _frame(dice, X), settings, {}, new)


def _table_case(kind: str, seed: int, dice: Dice) -> Case:
    rng = dice.rng
    n = dice.one(2, 3, 6, 20, 60)
    columns: dict[str, Any] = {}
    types: dict[str, str] = {}
    # Few sets of parts, since each is compiled anew.
    parts = dice.one("sizes", "towns", "sizes towns", "sizes towns visits", "sizes towns visits")
    if "sizes" in parts:
        X = _spoil(dice, _numbers(dice, n, dice.one(1, 2, 3)))
        columns |= {f"{dice.one(*_ODD_NAMES)}size{j}": X[:, j] for j in range(X.shape[1])}
    if "towns" in parts:
        names = np.array(["a", "b", "naïve", "", " ", "<b>", "1"], dtype=object)
        for j in range(dice.one(1, 2)):
            columns[f"town{j}"] = names[rng.integers(dice.one(1, 2, len(names)), size=n)]
        if dice.often(0.3):
            columns["lucky"] = rng.random(n) < 0.3
        if dice.often(0.2):
            columns["level"] = rng.integers(2, size=n)
    if "visits" in parts:
        columns["visits"] = rng.poisson(dice.one(0.0, 0.1, 5.0, 1e4), size=n).astype(float)
        types["visits"] = dice.one("count", "count", "overdispersed")
        if dice.often(0.05):
            columns["visits"][0] = dice.one(-1.0, 0.5, 1e12, np.inf)
    gap = np.zeros((n, len(columns)), dtype=bool)
    if dice.often(0.6):
        gap = rng.random(gap.shape) < dice.one(0.05, 0.3, 0.9)
    if dice.often(0.05):
        gap[:, 0] = True
    if dice.often(0.1):
        gap[0] = True
    whole = pd.DataFrame(columns).astype(object)
    table = whole.mask(gap, None).infer_objects()
    settings = _run(dice, kind, n)
    settings |= {"feature_types": types, "continuous": dice.one("student-t", "gaussian")}
    settings["noise"] = dice.often(0.2)
    if dice.often(0.2):
        settings["covariance_type"] = dice.one("diag", "tied", "factor")
    told: dict[str, Any] = {}
    if dice.often(0.2):
        told["sample_weight"] = np.where(
            table.isna().any(axis=1), 1.0, dice.one(1.0, 2.0, 0.5, 0.0, np.nan) + np.zeros(n)
        )
    if dice.often(0.2):
        told["known_labels"] = np.where(
            rng.random(n) < 0.7, -1, rng.integers(dice.one(1, 2, 5), size=n)
        )
    # What the fit's gaps have hidden may be infinite.
    new = whole.iloc[rng.integers(n, size=3)].reset_index(drop=True)
    new = new.replace([np.inf, -np.inf], np.nan)
    if "visits" in new:
        new["visits"] = 3.0
    if "town0" in new:
        new.loc[0, "town0"] = "never seen"
    if dice.often(0.5):
        new.loc[1] = [None] * new.shape[1]
    new = new.infer_objects()
    return Case(kind, seed, table, settings, told, new)


def _series_case(kind: str, seed: int, dice: Dice) -> Case:
    rng = dice.rng
    n, n_times = dice.one(1, 2, 3, 5, 8, 16), dice.one(1, 1, 2, 3, 8, 20, 40)
    Y = _numbers(dice, n, n_times)
    if dice.often(0.3):
        Y = Y.cumsum(axis=1)
    Y = _spoil(dice, Y)
    if dice.often(0.5):
        Y[rng.random(Y.shape) < dice.one(0.1, 0.5, 0.9)] = np.nan
    if dice.often(0.1):
        Y[int(rng.integers(n))] = np.nan
    settings = _run(dice, kind, n)
    settings["intercept"] = dice.often(0.7)
    settings["options"] = {**settings.get("options", {}), "keep_trends": dice.often(0.3)}
    scale = float(np.abs(Y[np.isfinite(Y)]).max(initial=0.0)) or 1.0
    scale = scale if 1e-100 < scale < 1e100 else 1.0
    hold: dict[str, Any] = {}
    if dice.often(0.2):
        hold["a"] = dice.one(0.0, 0.5, -0.9, 1.0 - dice.power(-16.5, -1))
    if dice.often(0.2):
        hold["loading"] = dice.sign() * scale * dice.one(1.0, dice.power(-12, 3), 0.0)
    for name in ("var_y", "var_x"):
        if dice.often(0.2):
            hold[name] = scale * scale * dice.one(0.1, 1.0, dice.power(-13, 6))
    if dice.often(0.1):
        hold["beta"] = dice.one(0.0, scale, dice.power(-300, 300))
    if hold:
        settings["hold"] = hold
    if dice.often(0.3):
        settings["priors"] = _series_prior(dice)
    data: Any = Y
    names: dict[str, Any] = {}
    if dice.often(0.3):
        data, names = _long(dice, Y)
    elif dice.often(0.3):
        data = pd.DataFrame(Y, index=[f"{dice.one(*_ODD_NAMES)}{i}" for i in range(n)])
    new = Y[rng.integers(n, size=2)] * dice.one(1.0, 1.0, dice.power(-20, 20))
    if dice.often(0.3):
        new[0, 0] = dice.sign() * dice.power(5, 300)
    return Case(kind, seed, data, settings, names, new)


def _series_prior(dice: Dice) -> priors.SeriesPrior:
    def positive() -> float:
        return dice.one(dice.power(-2, 2), dice.power(-12, 12))

    try:
        return priors.SeriesPrior(
            a=(dice.one(0.9, 0.0, dice.rng.uniform(-10, 10)), dice.one(0.1, math.inf, positive())),
            loading=(dice.one(0.0, dice.sign() * dice.power(-3, 4.2)), min(positive(), 1e5)),
            var_x=(positive(), positive()),
            var_y=(positive(), positive()),
            intercept=(positive(), positive(), positive()),
            beta=(positive(), positive(), positive()),
            var_x0=(positive(), positive()),
        )
    except ValueError:
        return priors.SeriesPrior()


def _long(dice: Dice, Y: np.ndarray) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The same values as rows, some of them twice, with covariates."""
    n, n_times = Y.shape
    i, t = np.divmod(np.arange(n * n_times), n_times)
    frame = pd.DataFrame({"who": [f"s{v}" for v in i], "when": t, "what": Y.ravel()})
    names: dict[str, Any] = {"series": "who", "time": "when", "value": "what"}
    if dice.often(0.5):
        c = dice.one(1, 2)
        U = _numbers(dice, len(frame), c)
        for j in range(c):
            frame[f"u{j}"] = U[:, j]
        names["covariates"] = [f"u{j}" for j in range(c)]
    if dice.often(0.4):
        rows = np.append(np.arange(len(frame)), dice.rng.integers(len(frame), size=5))
        frame = frame.iloc[rows].reset_index(drop=True)
    return frame, names
