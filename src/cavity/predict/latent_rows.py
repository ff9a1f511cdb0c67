"""Rows whose values have errors or are known up to an interval: densities and draws.

Given its scale u a row of an entry is normal with covariance S / u. Recorded values add the squares
of their errors to the diagonal. The scale is integrated out by the trapezoid rule in log u, with
relative errors of about 1e-5. The probability of several intervals, given the values and the scale,
is a mean over points of sequential probabilities (Geweke, Hajivassiliou and Keane), each point with
a scale from its distribution given the values.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cavity._numba.jit import jit
from cavity._numba.linalg import cholesky_in_place
from cavity.predict.draws import MixtureDraws, Rows, cholesky

MISSING, VALUE, INTERVAL = range(3)
# Nodes of the integral over a scale, at the most; their distance in standard deviations of log u;
# minus the log density where it ends; and points of the integral over intervals.
MOST_NODES = 160
NODE_STEP = 1.2
REACH = 12.0
N_POINTS = 24
_ROOT_HALF = math.sqrt(0.5)
_LOG_2PI = math.log(2.0 * math.pi)


class LatentRows(NamedTuple):
    """Rows in the model's units."""

    kind: np.ndarray  # (n, d), MISSING, VALUE or INTERVAL
    value: np.ndarray  # (n, d), zero where there is none
    variance: np.ndarray  # (n, d), squared errors
    low: np.ndarray  # (n, d)
    high: np.ndarray  # (n, d)


class Entries(NamedTuple):
    """Clusters of draws."""

    mean: np.ndarray  # (entry, d)
    covariance: np.ndarray  # (entry, d, d)
    root: np.ndarray  # (entry, d, d), its Cholesky factor
    alpha: np.ndarray  # (entry,)


class Room(NamedTuple):
    """Room for one row under one entry."""

    order: np.ndarray  # (d,), columns with values, then those with intervals
    square: np.ndarray  # (d, d)
    white: np.ndarray  # (d,)
    latent: np.ndarray  # (d,)
    log_u: np.ndarray  # (nodes,)
    mass: np.ndarray  # (nodes,)
    chance: np.ndarray  # (points,)
    node: np.ndarray  # (points,)
    points: np.ndarray  # (points, d), in the unit cube
    shift: np.ndarray  # (d,), added to the points, modulo one


def latent_rows(rows: Rows) -> LatentRows:
    """Prepare rows."""
    X = rows.continuous
    shape = X.shape
    error = np.zeros(shape) if rows.errors is None else rows.errors
    there = ~np.isnan(X)
    bounded = rows.bounded
    kind = np.where(there, VALUE, np.where(bounded, INTERVAL, MISSING))
    low, high = np.full(shape, -np.inf), np.full(shape, np.inf)
    if rows.low is not None and rows.high is not None:
        low[bounded], high[bounded] = rows.low[bounded], rows.high[bounded]
    return LatentRows(
        kind.astype(np.int64),
        np.where(there, X, 0.0),
        np.where(there, np.square(error), 0.0),
        low,
        high,
    )


def entries_of(draws: MixtureDraws) -> Entries:
    """Prepare the clusters of draws."""
    root = np.linalg.inv(draws.whiten)
    covariance = root @ np.swapaxes(root, 1, 2)
    return Entries(draws.mean, covariance, cholesky(covariance), draws.alpha)


def room_for(d: int) -> Room:
    """Return room for rows of d columns."""
    # A Kronecker sequence: powers of the inverse of the root of x^(d + 1) = x + 1.
    x = 2.0
    for _ in range(40):
        x = (1.0 + x) ** (1.0 / (d + 1.0))
    steps = x ** -np.arange(1.0, d + 1.0)
    points = np.mod(0.5 + np.outer(np.arange(1, N_POINTS + 1), steps), 1.0)
    return Room(
        np.zeros(d, dtype=np.int64),
        np.zeros((d, d)),
        np.zeros(d),
        np.zeros(d),
        np.zeros(MOST_NODES),
        np.zeros(MOST_NODES),
        np.zeros(N_POINTS),
        np.zeros(N_POINTS, dtype=np.int64),
        np.ascontiguousarray(points),
        np.zeros(d),
    )


@jit
def normal_quantile(p):
    """Return the quantile of the standard normal distribution (Acklam, and one step of Halley)."""
    if not 0.0 < p < 1.0:
        return -math.inf if p <= 0.0 else math.inf
    q = min(p, 1.0 - p)
    if q < 0.02425:
        t = math.sqrt(-2.0 * math.log(q))
        x = -7.784894002430293e-03 * t - 3.223964580411365e-01
        x = ((x * t - 2.400758277161838) * t - 2.549732539343734) * t + 4.374664141464968
        x = x * t + 2.938163982698783
        y = ((7.784695709041462e-03 * t + 3.224671290700398e-01) * t + 2.445134137142996) * t
        x /= (y + 3.754408661907416) * t + 1.0
    else:
        s = q - 0.5
        r = s * s
        x = ((-39.69683028665376 * r + 220.9460984245205) * r - 275.9285104469687) * r
        x = ((x + 138.3577518672690) * r - 30.66479806614716) * r + 2.506628277459239
        y = ((-54.47609879822406 * r + 161.5858368580409) * r - 155.6989798598866) * r
        x = x * s / (((y + 66.80131188771972) * r - 13.28068155288572) * r + 1.0)
    e = 0.5 * math.erfc(-x * _ROOT_HALF) - q
    v = e * math.sqrt(2.0 * math.pi) * math.exp(0.5 * x * x)
    x -= v / (1.0 + 0.5 * x * v)
    return x if p < 0.5 else -x


@jit(internal=True)
def _put_in_order(rows, i, room):
    """Order the columns of row i; return how many have values, and how many intervals."""
    n_values = 0
    for c in range(rows.kind.shape[1]):
        if rows.kind[i, c] == VALUE:
            room.order[n_values] = c
            n_values += 1
    last = n_values
    for c in range(rows.kind.shape[1]):
        if rows.kind[i, c] == INTERVAL:
            room.order[last] = c
            last += 1
    return n_values, last - n_values


@jit(internal=True)
def _factorize(entries, k, rows, i, u, t, m, room):
    """Factorize the covariance of the first m columns in order; return the log density of t values.

    Whitened values are left in `white`.
    """
    for a in range(m):
        r = room.order[a]
        for b in range(a + 1):
            room.square[a, b] = entries.covariance[k, r, room.order[b]] / u
        if a < t:
            room.square[a, a] += rows.variance[i, r]
    if m > 0 and not cholesky_in_place(room.square[:m]):
        return -math.inf
    value = -0.5 * t * _LOG_2PI
    for a in range(t):
        r = room.order[a]
        s = rows.value[i, r] - entries.mean[k, r]
        for b in range(a):
            s -= room.square[a, b] * room.white[b]
        room.white[a] = s / room.square[a, a]
        value -= 0.5 * room.white[a] * room.white[a] + math.log(room.square[a, a])
    return value


@jit(internal=True)
def _set_nodes(entries, k, rows, i, t, room):
    """Set the nodes of the integral over the scale; return how many, and their distance."""
    alpha = entries.alpha[k]
    if alpha == math.inf:
        room.log_u[0] = 0.0
        return 1, 1.0
    # Errors make a row's distance smaller, and its scale larger.
    distance = 0.0
    for a in range(t):
        r = room.order[a]
        for b in range(a + 1):
            room.square[a, b] = entries.covariance[k, r, room.order[b]]
    if t > 0 and cholesky_in_place(room.square[:t]):
        for a in range(t):
            s = rows.value[i, room.order[a]] - entries.mean[k, room.order[a]]
            for b in range(a):
                s -= room.square[a, b] * room.white[b]
            room.white[a] = s / room.square[a, a]
            distance += room.white[a] * room.white[a]
    shape = alpha + 0.5 * t
    x = REACH / alpha
    high = math.log(shape / alpha) + math.log1p(x + math.sqrt(2.0 * x))
    low = -math.log1p(0.5 * distance / alpha) - x - math.sqrt(2.0 * x)
    width = NODE_STEP / math.sqrt(shape)
    n = min(2 + np.int64((high - low) / width), room.log_u.shape[0])
    width = (high - low) / (n - 1)
    for j in range(n):
        room.log_u[j] = low + j * width
    return n, width


@jit(internal=True)
def _interval(mean, sd, low, high, point):
    """Return the probability of an interval, and the value at `point` of it, in units of sd."""
    a, b = (low - mean) / sd, (high - mean) / sd
    if a > 0.0:
        below, above = math.erfc(b * _ROOT_HALF), math.erfc(a * _ROOT_HALF)
        chance = 0.5 * (above - below)
        at = -normal_quantile(0.5 * (above + point * (below - above)))
    else:
        below, above = math.erfc(-a * _ROOT_HALF), math.erfc(-b * _ROOT_HALF)
        chance = 0.5 * (above - below)
        at = normal_quantile(0.5 * (below + point * (above - below)))
    return chance, min(max(at, a), b)


@jit(internal=True)
def _rectangle(entries, k, rows, i, t, m, point, room):
    """Return the probability of the intervals by one point; whitened values go to `white`."""
    chance = 1.0
    for a in range(t, m):
        r = room.order[a]
        mean = entries.mean[k, r]
        for b in range(a):
            mean += room.square[a, b] * room.white[b]
        q = room.points[point, a - t] + room.shift[a - t]
        q = min(max(q - math.floor(q), 1e-6), 1.0 - 1e-6)
        own, at = _interval(mean, room.square[a, a], rows.low[i, r], rows.high[i, r], q)
        chance *= own
        if own <= 0.0:
            return 0.0
        room.white[a] = at
    return chance


@jit(internal=True)
def _row_density(entries, k, rows, i, t, m, room):
    """Return the log density of row i; leaves the masses of its nodes and points."""
    n, width = _set_nodes(entries, k, rows, i, t, room)
    alpha = entries.alpha[k]
    top = -math.inf
    for j in range(n):
        log_u = room.log_u[j]
        value = _factorize(entries, k, rows, i, math.exp(log_u), t, t, room)
        if alpha < math.inf:
            value += alpha * (math.log(alpha) + log_u - math.exp(log_u)) - math.lgamma(alpha)
            value += math.log(width)
        room.mass[j] = value
        top = max(top, value)
    if top == -math.inf:
        return top
    total = 0.0
    for j in range(n):
        room.mass[j] = math.exp(room.mass[j] - top)
        total += room.mass[j]
    value = top + math.log(total)
    if m == t:
        for j in range(n):
            room.mass[j] /= total
        return value
    n_points = room.chance.shape[0]
    whole = 0.0
    node = np.int64(0)
    below = room.mass[0]
    last = np.int64(-1)
    for p in range(n_points):
        while node < n - 1 and below < total * (p + 0.5) / n_points:
            node += 1
            below += room.mass[node]
        if node != last:
            if _factorize(entries, k, rows, i, math.exp(room.log_u[node]), t, m, room) == -math.inf:
                room.chance[p] = 0.0
                continue
            last = node
        room.node[p] = node
        room.chance[p] = _rectangle(entries, k, rows, i, t, m, p, room)
        whole += room.chance[p]
    if whole <= 0.0:
        return -math.inf
    return value + math.log(whole / n_points)


@jit
def add_latent_rows(entries, rows, at, out, room):
    """Add the log densities of rows, at `at` of `out` (entry, n)."""
    for i in range(rows.kind.shape[0]):
        t, b = _put_in_order(rows, i, room)
        for k in range(entries.alpha.shape[0]):
            out[k, at[i]] += _row_density(entries, k, rows, i, t, t + b, room)


@jit(internal=True)
def _one_of(mass, n, rng):
    total = 0.0
    for j in range(n):
        total += mass[j]
    target = rng.random() * total
    chosen = 0
    for j in range(n):
        if mass[j] > 0.0:
            chosen = j
            target -= mass[j]
            if target < 0.0:
                break
    return chosen


@jit(internal=True)
def _draw_row(entries, k, rows, i, t, m, out, room, rng):
    """Draw all true values of row i in entry k, whose density was computed last."""
    d = rows.kind.shape[1]
    if m == t:
        n = 1
        if entries.alpha[k] < math.inf:
            n = room.log_u.shape[0]
        node = _one_of(room.mass, n, rng)
        u = math.exp(room.log_u[node])
        _factorize(entries, k, rows, i, u, t, t, room)
    else:
        point = _one_of(room.chance, room.chance.shape[0], rng)
        u = math.exp(room.log_u[room.node[point]])
        _factorize(entries, k, rows, i, u, t, m, room)
        _rectangle(entries, k, rows, i, t, m, point, room)
    # A draw of the row and its records, moved to the records that there are.
    for c in range(d):
        room.latent[c] = rng.standard_normal()
    for r in range(d - 1, -1, -1):
        s = 0.0
        for c in range(r + 1):
            s += entries.root[k, r, c] * room.latent[c]
        room.latent[r] = s / math.sqrt(u)
    for a in range(m):
        r = room.order[a]
        s = room.latent[r]
        if a < t and rows.variance[i, r] > 0.0:
            s += math.sqrt(rows.variance[i, r]) * rng.standard_normal()
        out[a] = s
    for a in range(m):
        s = out[a]
        for b in range(a):
            s -= room.square[a, b] * out[b]
        out[a] = s / room.square[a, a]
    for a in range(m):
        room.white[a] -= out[a]
    for a in range(m - 1, -1, -1):
        s = room.white[a]
        for b in range(a + 1, m):
            s -= room.square[b, a] * room.white[b]
        room.white[a] = s / room.square[a, a]
    for r in range(d):
        s = room.latent[r]
        for a in range(m):
            s += entries.covariance[k, r, room.order[a]] / u * room.white[a]
        out[r] = entries.mean[k, r] + s


@jit
def draw_latent_rows(
    entries, start, rows, cells, own, n_each, values, probability, entry, scores, room, rng
):
    """Draw the true values of rows.

    Parameters
    ----------
    entries : Entries
    start : array of int, shape (draw + 1,)
        Where each draw's entries begin.
    rows : LatentRows
    cells : array, shape (entry, n)
        Log weight plus log density of categories and counts.
    own : array of int, shape (n, draw)
        The entry that each row belongs to in each draw; -1 for a row that may belong to any.
    n_each : int
        Values drawn from each draw.
    values : array, shape (n, draw * n_each, d)
    probability : array, shape (n, entry)
        Probability of every entry, over all draws.
    entry : array of int, shape (n, draw * n_each)
        The entry that each value is drawn from.
    scores : array, shape (entry,)
        Scratch.
    room : Room
    """
    n_draws = start.shape[0] - 1
    for i in range(rows.kind.shape[0]):
        t, b = _put_in_order(rows, i, room)
        for s in range(n_draws):
            for c in range(b):
                room.shift[c] = rng.random()
            first, last = start[s], start[s + 1]
            if own[i, s] >= 0:
                first, last = own[i, s], own[i, s] + 1
            top = -math.inf
            for k in range(first, last):
                scores[k] = cells[k, i]
                if last > first + 1:
                    scores[k] += _row_density(entries, k, rows, i, t, t + b, room)
                top = max(top, scores[k])
            total = 0.0
            for k in range(first, last):
                scores[k] = math.exp(scores[k] - top) if top > -math.inf else 1.0
                total += scores[k]
            for k in range(first, last):
                probability[i, k] = scores[k] / (total * n_draws)
            ready = np.int64(-1)
            for j in range(n_each):
                k = first + _one_of(scores[first:last], last - first, rng)
                if k != ready:
                    for node in range(room.mass.shape[0]):
                        room.mass[node] = 0.0
                    if _row_density(entries, k, rows, i, t, t + b, room) == -math.inf:
                        room.mass[0] = 1.0
                        room.chance[0] = 1.0
                    ready = k
                at = s * n_each + j
                entry[i, at] = k
                _draw_row(entries, k, rows, i, t, t + b, values[i, at], room, rng)
