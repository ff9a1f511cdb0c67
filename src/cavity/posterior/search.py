"""The search for the partition of least expected loss; the kernels are in `_search`."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.posterior import _search
from cavity.posterior.draws import Draws
from cavity.posterior.losses import Loss, loss_table, losses_to_rows

MERGE_MAX = 400
COUNT_BYTES = 800_000_000
PAIR_COST = 20_000_000
_MAX_ROUNDS = 20
_MAX_SCANS = 20
_N_ZEALOUS = 10
_ACTIVE = 0.25


def cut(tree: np.ndarray, n_merges: int) -> np.ndarray:
    """Labels after the first merges of a SciPy linkage."""
    n = len(tree) + 1
    parent = np.arange(n + n_merges)
    for t in range(n_merges):
        parent[int(tree[t, 0])] = parent[int(tree[t, 1])] = n + t
    for node in range(len(parent) - 1, -1, -1):
        parent[node] = parent[parent[node]]
    return np.unique(parent[:n], return_inverse=True)[1].reshape(-1)


class Problem:
    """Draws, a loss, and one candidate partition with its counts."""

    def __init__(self, draws: Draws, loss: Loss, max_clusters: int | None = None) -> None:
        self.draws, self.loss, self.max_clusters = draws, loss, max_clusters
        self.n_draws, self.n = draws.labels.shape
        self.is_table = loss.name != "omari"
        self.value = loss_table(loss.name, self.n + 1)
        self.work = 0.0
        self.cap = 0
        self.before_merging = np.zeros(self.n, np.int64)

    def prepare(self, starts: list[np.ndarray]) -> bool:
        """Make room for the counts of candidates like `starts`; False if they do not fit."""
        draws = self.draws
        rows = int(draws.n_clusters.sum())
        most = int(draws.n_clusters.max())
        wanted = max([most + most // 4, *(int(start.max()) + 1 for start in starts)]) + 8
        self.cap = min(self.n, self.max_clusters or wanted, int(COUNT_BYTES / 12 / rows))
        if self.cap < min(most, self.max_clusters or most):
            return False
        self._row_weights = np.repeat(draws.weights, draws.n_clusters)
        shared = {
            "by_item": np.ascontiguousarray(draws.labels.T),
            "weights": draws.weights,
            "row_start": np.concatenate([[0], np.cumsum(draws.n_clusters)]),
            "labels": np.full(self.n, -1, np.int64),
            "sizes": np.zeros(self.cap, np.int64),
            "counts": np.zeros((rows, self.cap), np.int32),
            "out": np.empty(self.cap),
            "margin": np.zeros(self.n),
        }
        if self.is_table:
            self.state: Any = _search.TableSearch(
                **shared,
                value=self.value,
                gain=np.diff(self.value),
                gains=np.empty((rows, self.cap)),
                b=2.0 - self.loss.a,
            )
        else:
            self.state = _search.OmariSearch(
                **shared,
                row_size=np.zeros(rows, np.int32),
                together=np.zeros(self.n_draws),
                pairs_z=np.zeros(self.n_draws),
                totals=np.zeros(2),
            )
        return True

    def fits(self, labels: np.ndarray) -> bool:
        """Whether the moves have room for a partition of as many clusters."""
        return int(labels.max()) < self.cap

    def _scan(self, order: np.ndarray) -> int:
        used = int(np.count_nonzero(self.state.sizes)) + 1
        self.work += float(len(order)) * self.n_draws * used
        return _search.scan(self.state, order)

    def expected(self, labels: np.ndarray) -> float:
        """Expected loss over the distinct draws."""
        return float(losses_to_rows(labels, *self._rows(), self.loss) @ self.draws.weights)

    def _rows(self) -> tuple[np.ndarray, np.ndarray]:
        return self.draws.labels, self.draws.n_clusters

    def set(self, labels: np.ndarray) -> None:
        """Make `labels` the candidate (-1: free)."""
        s = self.state
        s.sizes[:] = 0
        s.counts[:] = 0
        if self.is_table:
            s.gains[:] = s.gain[0]
        else:
            for array in (s.row_size, s.together, s.pairs_z, s.totals):
                array[:] = 0
        s.labels[:] = -1
        items = np.flatnonzero(labels >= 0)
        _search.put_many(s, items, labels[items].astype(np.int64), 1)

    def _compact(self) -> None:
        """Close the gaps that emptied clusters leave, which scans would look at."""
        used = self.state.sizes > 0
        if not used[: np.count_nonzero(used)].all():
            self.set(np.unique(self.state.labels, return_inverse=True)[1].reshape(-1))

    def _candidate_loss(self) -> float:
        """Expected loss of the candidate, up to a constant that the draws determine."""
        s = self.state
        if not self.is_table:
            pairs = max(0.5 * s.totals[1] * (s.totals[1] - 1.0), 1.0)
            expected = s.totals[0] * s.pairs_z / pairs
            span = 0.5 * (s.totals[0] + s.pairs_z) - expected
            same = span <= 1e-9 * pairs
            loss = 1.0 - (s.together - expected) / np.where(same, 1.0, span)
            return float(s.weights @ np.where(same, 0.0, loss))
        top = int(np.flatnonzero(s.sizes)[-1]) + 1
        self.work += float(len(s.counts)) * top
        both = self._row_weights @ self.value[s.counts[:, :top]].sum(axis=1)
        return float(s.b * self.value[s.sizes].sum() - 2.0 * both)

    def _sweeten(self, rng: np.random.Generator) -> None:
        """Scans until none moves anything; between full ones, only of what may well move."""
        for _ in range(_MAX_SCANS):
            if self._scan(rng.permutation(self.n)) == 0:
                break
            close = self.state.margin <= np.quantile(self.state.margin, _ACTIVE, method="lower")
            for _ in range(_MAX_SCANS):
                if self._scan(rng.permutation(np.flatnonzero(close))) == 0:
                    break
        self._compact()

    def _merge(self) -> bool:
        """Merge the pair of clusters whose union helps most, again and again."""
        merged = False
        while 1 < (top := int(np.count_nonzero(self.state.sizes))) <= MERGE_MAX:
            s = self.state
            cost = np.zeros((top, top))
            _search.all_merge_costs(s, top, cost, np.zeros_like(cost), np.empty(top, np.int64))
            if self.is_table:
                size = s.sizes[:top]
                alone = self.value[size]
                union = self.value[np.minimum(size[:, None] + size, self.n)]
                cost += s.b * (union - alone[:, None] - alone)
            cost[np.triu_indices(top)] = 0.0
            k, m = divmod(int(cost.argmin()), top)
            if cost[k, m] >= -1e-11:
                break
            items = np.flatnonzero(s.labels == k)
            _search.put_many(s, items, np.full(len(items), k), -1)
            _search.put_many(s, items, np.full(len(items), m), 1)
            self._compact()
            merged = True
        return merged

    def _dissolve(self, clusters: np.ndarray, rng: np.random.Generator) -> None:
        """Free the members of some clusters and allocate them again, in random order."""
        s = self.state
        items = rng.permutation(np.flatnonzero(np.isin(s.labels, clusters)))
        _search.put_many(s, items, s.labels[items], -1)
        self._scan(items)

    def _zealous(self, rng: np.random.Generator) -> bool:
        """Zealous updates: dissolve one cluster at a time; kept only where the loss falls."""
        helped = False
        value = self._candidate_loss()
        for _ in range(_N_ZEALOUS):
            before = self.state.labels.copy()
            self._dissolve(rng.choice(np.unique(before), 1), rng)
            after = self._candidate_loss()
            if after < value - 1e-12 * (1.0 + abs(value)):
                value, helped = after, True
                self._compact()
            else:
                moved = np.flatnonzero(before != self.state.labels)
                _search.put_many(self.state, moved, self.state.labels[moved], -1)
                _search.put_many(self.state, moved, before[moved], 1)
        return helped

    def _settle(self, rng: np.random.Generator, zealous: bool) -> np.ndarray:
        for _ in range(_MAX_ROUNDS):
            self._sweeten(rng)
            before = self.state.labels.copy()
            if self._merge():
                self.before_merging = before
            elif not (zealous and self._zealous(rng)):
                break
        return self.state.labels.copy()

    def improve(self, start: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
        """Search from a partition, or (None) from sequential allocation in random order."""
        self.set(np.full(self.n, -1) if start is None else start)
        return self._settle(rng, zealous=True)

    def kick(self, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Search from a partition two of whose clusters are dissolved together."""
        self.set(labels)
        clusters = np.unique(labels)
        self._dissolve(rng.choice(clusters, min(2, len(clusters)), replace=False), rng)
        return self._settle(rng, zealous=False)

    def best_cuts(self) -> list[np.ndarray]:
        """For average and complete linkage of one minus similarity, the best of all cuts."""
        from scipy.cluster.hierarchy import linkage
        from scipy.spatial.distance import squareform

        from cavity.posterior.similarity import similarity_of_distinct

        distance = 1.0 - similarity_of_distinct(self.draws).astype(float)
        np.fill_diagonal(distance, 0.0)
        condensed = squareform(distance, checks=False)
        found = []
        for method in ("average", "complete"):
            tree = linkage(condensed, method=method)
            losses = self.cut_losses(tree)
            if self.max_clusters is not None:
                # After j merges n - j clusters are left.
                losses[: max(0, self.n - self.max_clusters)] = np.inf
            found.append(cut(tree, int(losses.argmin())))
        return found

    def cut_losses(self, tree: np.ndarray) -> np.ndarray:
        """Expected loss of every cut of a linkage: entry t is the partition after t merges."""
        n, value = self.n, self.value
        merges = np.empty((n - 1, 2), np.int64)
        own = np.full(n, n * value[1] if self.is_table else 0.0)
        slot = np.concatenate([np.arange(n), np.zeros(n - 1, int)])
        size = np.ones(n, np.int64)
        for t in range(n - 1):
            x, y = slot[int(tree[t, 0])], slot[int(tree[t, 1])]
            merges[t] = x, y
            slot[n + t] = x
            if self.is_table:
                own[t + 1] = own[t] + value[size[x] + size[y]] - value[size[x]] - value[size[y]]
            else:
                own[t + 1] = own[t] + size[x] * size[y]
            size[x] += size[y]
        labels, n_clusters = self._rows()
        counts = np.zeros((n, int(n_clusters.max())), np.int32)
        loss = np.zeros(n)
        _search.cut_losses(
            merges,
            own,
            labels,
            n_clusters,
            self.draws.weights,
            value,
            self.is_table,
            self.loss.a,
            counts,
            size,
            loss,
        )
        return loss

    def best_draw(self, bound: float) -> np.ndarray | None:
        """The best of all draws, if its expected loss is below `bound`."""
        labels, n_clusters = self._rows()
        weights = self.draws.weights
        candidates = np.arange(self.n_draws)
        if float(self.n_draws) ** 2 * self.n > PAIR_COST:
            candidates = self._screen()
        best = None
        parts = np.array_split(np.arange(self.n_draws), min(8, self.n_draws))
        for c in candidates:
            total = 0.0
            # Losses are never negative: a draw is left once a part of the sum passes the bound.
            for part in parts:
                rows = slice(part[0], part[-1] + 1)
                values = losses_to_rows(labels[c], labels[rows], n_clusters[rows], self.loss)
                total += float(values @ weights[rows])
                if total >= bound:
                    break
            else:
                bound, best = total, labels[c]
        return best

    def _screen(self) -> np.ndarray:
        """The most promising draws, judged against an even subset of the draws."""
        labels, n_clusters = self._rows()
        few = max(10, int(PAIR_COST / 2 / self.n_draws / self.n))
        versus = np.unique(np.linspace(0, self.n_draws - 1, few).astype(int))
        rows, n_rows, weights = labels[versus], n_clusters[versus], self.draws.weights[versus]
        values = [float(losses_to_rows(row, rows, n_rows, self.loss) @ weights) for row in labels]
        return np.argsort(values, kind="stable")[: max(5, few // 4)]
