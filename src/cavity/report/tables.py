"""Tables of the report: clusters, doubtful observations, diagnostics, settings."""

from __future__ import annotations

import math
import platform
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.plotting.style import shorten
from cavity.posterior import summary
from cavity.posterior.view import outside_probability
from cavity.report.markup import Column, Table, numeric, probability, short, swatch, whole
from cavity.report.words import features_words
from cavity.utils.text import plural

if TYPE_CHECKING:
    from cavity.plotting.frame import Table as Data
    from cavity.posterior.diagnostics import Diagnostics
    from cavity.posterior.view import View

ROWS_MAX = 300
COMPONENTS_MAX = 40
_OTHERS_MIN = 0.01
_OTHERS_LISTED = 4
_STOPPED = {
    "n_draws": "it had the requested number of draws",
    "converged": "the chains agreed",
    "modes": "the chains do not move between modes",
    "max_sweeps": "it reached max_sweeps",
    "max_seconds": "it reached max_seconds",
    "interrupted": "it was stopped early",
}
_SHOWN_ELSEWHERE = ("taken_for",)
_TITLES = {"n_columns": "number of columns", "n_warmup": "warm-up sweeps", "thin": "thinning"}


def _shown(view: View) -> int:
    return min(view.n_clusters, ROWS_MAX)


def _cut(shown: int, total: int, what: str) -> str:
    return "" if shown == total else f" The first {shown:,} of {total:,} {what} are shown."


def _cluster_names(view: View, shown: int) -> Column:
    every = list(range(shown))
    swatches = [swatch(view.look(k)) for k in every]
    return Column("cluster", [view.cluster_name(k) for k in every], every, swatches=swatches)


def _observations(view: View, positions: np.ndarray) -> list[Column]:
    """Name and cluster of each observation."""
    numbers = positions.tolist() if view.posterior.names is None else None
    own = view.labels[positions].tolist()
    return [
        Column(view.noun, [view.name(int(i)) for i in positions], numbers),
        Column("cluster", [view.cluster_name(k) for k in own], own),
    ]


def cluster_table(view: View, features: Sequence[str] | None = None) -> Table:
    """One row per cluster; `features` describes what distinguishes each."""
    frame = summary.cluster_table(view)
    shown = _shown(view)
    frame = frame.head(shown)
    doubtful = np.bincount(view.labels[view.in_doubt], minlength=view.n_clusters)[:shown]
    interval = [
        (f"{low:,.0f} to {high:,.0f}" if math.isfinite(low) else "–") + ("" if inside else " *")
        for low, high, inside in zip(
            frame["size_lower"], frame["size_upper"], frame["size_in_interval"], strict=True
        )
    ]
    columns = [
        _cluster_names(view, shown),
        numeric("size", frame["size"], f"{plural(view.noun)} in the point estimate"),
        numeric("share", frame["share"], form=lambda v: f"{v:.1%}"),
        Column(
            "size, 95% interval",
            interval,
            frame["size_mean"].tolist(),
            "over the draws with a matching cluster; sorts by the posterior mean",
        ),
        numeric(
            "certainty",
            frame["certainty"],
            "mean probability that a member shares its cluster with another",
            form=probability,
        ),
        numeric(
            "presence", frame["presence"], "share of draws with such a cluster", form=probability
        ),
        numeric("in doubt", doubtful, f"doubtful {plural(view.noun)}"),
    ]
    if features is not None:
        columns.append(Column("distinguishing features", [str(text) for text in features[:shown]]))
    caption = (
        "Clusters of the point estimate, the largest first. Certainty: mean probability that a "
        "member shares its cluster with another member. Presence: share of draws that have a "
        "matching cluster; the interval of the size is over these draws."
    )
    if features is not None:
        caption += f" Distinguishing features: {features_words(view.posterior)}."
    if not frame["size_in_interval"].all():
        caption += (
            " * The size of the estimate is outside the interval: in most draws, this cluster is "
            "larger, smaller or missing."
        )
    return Table("clusters", caption + _cut(shown, view.n_clusters, "clusters"), columns)


def _component_names(shape: tuple[int, ...], features: Sequence[str] | None) -> list[str] | None:
    """Heads for the components of a parameter; None if it is too large for a table."""
    if not shape:
        return [""]
    if len(shape) > 2 or shape[0] > COMPONENTS_MAX:
        return None
    if len(shape) == 2 and shape[0] != shape[1]:
        return None
    if features is not None and len(features) == shape[0]:
        return list(features)
    return [str(j) for j in range(shape[0])]


def parameter_tables(view: View, features: Sequence[str] | None) -> list[Table]:
    """Posterior means and intervals of each cluster parameter, clusters as rows."""
    shown = _shown(view)
    scalars: list[Column] = []
    tables: list[Table] = []
    for name in view.posterior.tabled_parameters:
        shape = view.posterior.parameters[name].shape[3:]
        heads = _component_names(shape, view.posterior.record.components.get(name, features))
        if heads is None:
            continue
        found = view.posterior.parameter_summary(name, view.labels)
        if len(shape) == 2:
            found = {key: np.diagonal(v, axis1=1, axis2=2) for key, v in found.items()}
        parts = {key: np.asarray(v)[:shown].reshape(shown, -1) for key, v in found.items()}
        columns = [
            _interval_column(heads[j] or name, {key: v[:, j] for key, v in parts.items()})
            for j in range(len(heads))
        ]
        if not shape:
            scalars += columns
            continue
        which = f"{name}, its diagonal" if len(shape) == 2 else name
        caption = f"Parameter “{which}”: posterior mean and 95% interval in each cluster."
        tables.append(
            Table(f"parameter-{len(tables)}", caption, [_cluster_names(view, shown), *columns])
        )
    if scalars:
        caption = "Posterior mean and 95% interval in each cluster."
        tables.insert(0, Table("parameters", caption, [_cluster_names(view, shown), *scalars]))
    return tables


def _interval_column(head: str, found: Mapping[str, np.ndarray]) -> Column:
    cells = [
        _with_interval(m, low, high) if math.isfinite(m) else "–"
        for m, low, high in zip(found["mean"], found["lower"], found["upper"], strict=True)
    ]
    return Column(shorten(head, 40), cells, found["mean"].tolist(), head)


def _with_interval(mean: float, low: float, high: float) -> str:
    """Format a mean and its interval, with enough digits to distinguish the ends."""
    size = max(abs(low), abs(mean), abs(high))
    # Ends that are negligible compared with the interval are zero.
    low, high = (0.0 if abs(end) < 1e-6 * size else end for end in (low, high))
    told = [short(value) for value in (mean, low, high)]
    if low < high and told[1] == told[2] and size < 1e9:
        decimals = max(1 - math.floor(math.log10(high - low)), 0)
        if decimals <= 8:  # beyond that there is more to read than to learn
            told = [f"{value:,.{decimals}f}".replace("-", "−") for value in (mean, low, high)]
    return f"{told[0]} ({told[1]} to {told[2]})"


def _medians(values: np.ndarray) -> np.ndarray:
    """Median of each column over the cells that are there; NaN where none is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmedian(values, axis=0))


def typical_table(view: View, data: Data) -> Table:
    """Median of each column of the data in each cluster."""
    shown = _shown(view)
    chosen = min(len(data.names), COMPONENTS_MAX)
    order = np.argsort(view.labels, kind="stable")
    ends = np.cumsum(view.sizes)[:shown]
    members = np.split(order[: ends[-1]], ends[:-1])
    medians = np.array([_medians(data.values[rows, :chosen]) for rows in members])
    columns = [
        numeric(shorten(name, 40), medians[:, j], name)
        for j, name in enumerate(data.names[:chosen])
    ]
    caption = "Typical values: the median of each column among a cluster's members." + _cut(
        chosen, len(data.names), "columns"
    )
    return Table("typical", caption, [_cluster_names(view, shown), *columns])


def _alternatives(view: View, positions: np.ndarray) -> list[str]:
    """Other clusters of each observation, with the share of draws that put it there."""
    relabelled = view.relabelling.labels[:, positions]
    texts = []
    for position, column in zip(positions, relabelled.T, strict=True):
        values, counts = np.unique(column, return_counts=True)
        shares = counts / len(column)
        found = [
            ("unmatched" if k < 0 else view.cluster_name(k), share)
            for k, share in sorted(zip(values, shares, strict=True), key=lambda pair: -pair[1])
            if k != view.labels[position] and share >= _OTHERS_MIN
        ]
        text = ", ".join(f"{k} ({probability(share)})" for k, share in found[:_OTHERS_LISTED])
        texts.append(text + (", …" if len(found) > _OTHERS_LISTED else "") or "–")
    return texts


def doubtful_table(view: View) -> Table:
    """Table of doubtful observations, least certain first."""
    chosen = view.in_doubt[:ROWS_MAX]
    columns = [
        *_observations(view, chosen),
        numeric(
            "probability",
            view.probability[chosen],
            "share of draws in which it is in this cluster",
            form=probability,
        ),
        numeric(
            "certainty",
            view.certainty[chosen],
            "probability that it shares its cluster with another member",
            form=probability,
        ),
        Column(
            "alternatives (probability)",
            _alternatives(view, chosen),
            explained="other clusters, and the share of draws in which it is there",
        ),
    ]
    caption = (
        f"{plural(view.noun).capitalize()} whose cluster has a probability below "
        f"{view.threshold:g}, least certain first. Alternatives are its clusters in other draws; "
        "“unmatched” is a cluster that the point estimate does not have."
        + _cut(len(chosen), len(view.in_doubt), plural(view.noun))
    )
    return Table("doubtful", caption, columns)


def _furthest(
    furthest: Sequence[str] | None, positions: np.ndarray, explained: str
) -> list[Column]:
    """Column in which each observation is most extreme, where it is known."""
    if furthest is None:
        return []
    return [Column("most extreme in", [furthest[i] for i in positions], explained=explained)]


def noise_table(view: View, furthest: Sequence[str] | None = None) -> Table:
    """Table of observations outside every cluster, in the order of the data."""
    every = np.flatnonzero(view.looks < 0)
    chosen = every[:ROWS_MAX]
    chance = outside_probability(view.posterior)[chosen]
    columns = [
        *_observations(view, chosen)[:1],
        numeric("probability", chance, "of lying outside every cluster", form=probability),
    ]
    columns += _furthest(furthest, chosen, "in robust standard deviations from the median of all")
    caption = (
        f"{plural(view.noun).capitalize()} outside every cluster. Check them for measurement "
        "errors." + _cut(len(chosen), len(every), plural(view.noun))
    )
    return Table("outside", caption, columns)


def unusual_table(view: View, tail: np.ndarray, furthest: Sequence[str] | None = None) -> Table:
    """Table of observations that are extreme in their cluster, most extreme first."""
    every = summary.unusual(tail)
    chosen = every[:ROWS_MAX]
    columns = [
        *_observations(view, chosen),
        numeric(
            "tail probability",
            tail[chosen],
            "probability that a member of the cluster is at least as extreme",
        ),
        numeric("probability", view.probability[chosen], "of its cluster", form=probability),
    ]
    columns += _furthest(
        furthest, chosen, "in standard deviations of its cluster, or the value itself"
    )
    caption = (
        "Most extreme first. Tail probability: probability that a member of the cluster is at "
        f"least as extreme. Values below 1 in {view.n:,} are listed."
        + _cut(len(chosen), len(every), plural(view.noun))
    )
    return Table("unusual", caption, columns)


def diagnostics_table(diagnostics: Diagnostics, n_chains: int) -> Table:
    """R-hat and effective draws of each label-free quantity, each with its own verdict."""
    frame, precision = diagnostics.table, diagnostics.precision
    needed = precision.ess_needed(n_chains)
    tags = []
    for name, row in frame.iterrows():
        pairs = str(name).startswith("pairs")
        high = row["rhat"] > (precision.pair_rhat_max if pairs else precision.rhat_max)
        few = not pairs and min(row["ess_bulk"], row["ess_tail"]) < needed
        unknown = math.isnan(row["rhat"])
        tags.append("not known" if unknown else "look" if high or few else "good")
    columns = [
        Column("quantity", [str(name) for name in frame.index]),
        numeric("mean", frame["mean"]),
        # A constant's sd is rounding error, not a number to read.
        numeric("sd", frame["sd"].where(frame["sd"] > 1e-12 * frame["mean"].abs(), 0.0)),
        numeric("R-hat", frame["rhat"], form=lambda v: short(v, 4)),
        numeric("ESS, bulk", frame["ess_bulk"], form=_whole),
        numeric("ESS, tail", frame["ess_tail"], form=_whole),
        Column("verdict", tags, tags=True),
    ]
    caption = (
        f"Quantities that do not depend on labels. R-hat should be below {precision.rhat_max}; "
        f"{needed:,} effective draws (ESS) are needed. Pairs: the worst of a fixed random set, "
        f"whose R-hat should be below {precision.pair_rhat_max} (a few may exceed it by chance); "
        "no minimum applies to a single pair."
    )
    return Table("diagnostics-table", caption, columns)


def _whole(value: float) -> str:
    return short(round(value)) if math.isfinite(value) else short(value)


def chains_table(diagnostics: Diagnostics) -> Table:
    """Distances between the chains' similarity matrices."""
    between = diagnostics.disagreement
    columns = [
        Column("chain", [str(c) for c in range(len(between))], list(range(len(between)))),
        *(
            numeric(f"chain {c}", between[:, c], form=lambda v: f"{v:.3f}")
            for c in range(len(between))
        ),
    ]
    caption = (
        "Distance of the chains' similarity matrices, 0 (the same) to 1 (nothing in common). The "
        f"two halves of one chain differ by up to {diagnostics.disagreement_within:.3f}."
    )
    return Table("chains", caption, columns)


def events_table(diagnostics: Diagnostics) -> Table:
    """Counters of the sampler per chain."""
    frame = diagnostics.events
    columns = [
        Column("event", [str(name).replace("_", " ") for name in frame.index]),
        *(numeric(f"chain {c}", frame[c], form=whole) for c in frame.columns),
    ]
    return Table("events", "Numerical events counted during sampling, per chain.", columns)


def moves_table(diagnostics: Diagnostics) -> Table:
    """Tries and acceptances of moves of whole clusters."""
    frame = diagnostics.moves
    columns = [
        Column("move", [str(name) for name in frame.index]),
        numeric("tries", frame["tries"], "with a proposal", form=whole),
        numeric("accepted", frame["accepted"], form=whole),
        numeric("acceptance", frame["acceptance"], form=_share),
        numeric("share of time", frame["time_share"], "of all sweeps", form=_share),
    ]
    caption = (
        "Proposals for whole clusters at once, tried after each sweep; all chains together, "
        "warm-up included. Few are accepted, but those few let chains change modes. A pinch is a "
        "split or merge of neighbors only."
    )
    return Table("moves", caption, columns)


def _share(value: float) -> str:
    return f"{100 * value:.2g}%" if math.isfinite(value) else "–"


def _flatten(values: Mapping[str, Any], lead: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in values.items():
        name = lead + (_TITLES.get(key) or str(key).replace("_", " "))
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{name}: "))
        elif isinstance(value, list | tuple):
            rest = f", … ({len(value)} in all)" if len(value) > 12 else ""
            flat[name] = ", ".join(_plain(v) for v in value[:12]) + rest
        else:
            flat[name] = _plain(value)
    return flat


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return short(value) if isinstance(value, float) else str(value)


def run_facts(view: View) -> dict[str, str]:
    """Model, data and time of the run."""
    p = view.posterior
    rows = {
        plural(view.noun): f"{p.n_observations:,}",
        "chains": f"{p.n_chains}",
        "kept draws per chain": f"{p.n_draws:,}",
    }
    if p.sweep_seconds is not None and p.sweep_seconds.size:
        seconds = np.asarray(p.sweep_seconds, float)
        total = np.nansum(seconds, axis=1)
        rows["sweeps per chain, warm-up included"] = f"{seconds.shape[1]:,}"
        rows["median time of a sweep"] = duration(float(np.nanmedian(seconds)))
        rows["sampling time per chain"] = (
            duration(float(total[0]))
            if len(total) == 1
            else f"{duration(float(total.min()))} to {duration(float(total.max()))}"
        )
    if p.record.set_aside:
        rows["chains set aside"] = f"{len(p.record.set_aside)}"
    if p.record.stopped:
        rows["reason for stopping"] = _STOPPED.get(p.record.stopped, p.record.stopped)
    # Results of the run, in addition to the settings.
    most = p.record.max_clusters
    told = {
        "model": p.record.model,
        "columns": p.record.columns,
        "largest number of clusters": most if most is None else most - bool(p.record.noise),
        "warm-up sweeps (not kept)": p.record.n_warmup,
        "sweeps per kept draw": p.record.thin,
        "seed": p.record.seed,
    }
    known = {name: value for name, value in told.items() if value not in (None, (), "")}
    details = {k: v for k, v in p.record.details.items() if k not in _SHOWN_ELSEWHERE}
    return {**rows, **_flatten({**known, **details})}


def settings_facts(view: View, settings: Mapping[str, Any] | None) -> dict[str, str]:
    """Settings of the fit, those given last."""
    record = view.posterior.record
    both = {**record.settings, **(settings or {})}
    return {key: str(value) for key, value in both.items()}


def version_facts(view: View) -> dict[str, str]:
    """Versions of the run, where they were kept, and of this page."""
    from cavity import __version__

    record = view.posterior.record
    rows = {str(k): str(v) for k, v in record.versions.items()}
    rows["this page"] = f"cavity {__version__}, Python {platform.python_version()}"
    return rows


def duration(seconds: float) -> str:
    """Write a time for reading.

    Examples
    --------
    >>> duration(0.00153), duration(12.3), duration(4000)
    ('1.53 ms', '12.3 s', '1 h 7 min')
    """
    if not math.isfinite(seconds):
        return "–"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
