"""The report: one HTML file that explains a posterior, with nothing to load from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from cavity.posterior.groups import differ
from cavity.posterior.regression import Regression
from cavity.posterior.summary import unusual
from cavity.posterior.view import THRESHOLD, View
from cavity.report import figures, markup, tables, words
from cavity.report.markup import Section
from cavity.report.regression import regression_section
from cavity.utils.files import replacing
from cavity.utils.text import count, plural

if TYPE_CHECKING:
    from cavity.plotting.frame import Table
    from cavity.posterior import Posterior
    from cavity.posterior.diagnostics import Diagnostics

CHAINS_MAX = 12


def write_report(
    path: str | os.PathLike[str],
    posterior: Posterior,
    X: Any = None,
    *,
    feature_names: Sequence[Any] | None = None,
    title: str = "Clustering report",
    extra_sections: Iterable[Any] = (),
    settings: Mapping[str, Any] | None = None,
    partition: Any = None,
    threshold: float = THRESHOLD,
    features: Sequence[str] | None = None,
    tail: Any = None,
    furthest: Sequence[str] | None = None,
    count_from: int = 0,
) -> Path:
    """Write a self-contained HTML page on a posterior.

    Parameters
    ----------
    path : path
        File to write; one that is there is replaced, all or nothing.
    posterior : Posterior
    X : array or DataFrame, optional
        The data that was clustered: drawn, and its typical values listed.
    feature_names : sequence, optional
        Names of the columns; those of a DataFrame, or those kept with the run, by default.
    title : str
    extra_sections : iterable of (title, content, caption), or of Regression
        Pictures of a model's own, after the common ones: content is a matplotlib figure, axes of
        one, or HTML. What `Posterior.regress` and `Posterior.outcome` return is shown after the
        clusters. Titles and captions are escaped; HTML is taken as it is, so it must come from
        code and not from data. Scripts in it do not run.
    settings : mapping, optional
        Settings of the fit beyond those kept in ``posterior.record``.
    partition : Partition or labels, optional
        The partition reported on; the point estimate by default.
    threshold : float
        Threshold for doubtful observations: see `Posterior.doubtful`.
    features : sequence of str, optional
        Distinguishing features of each cluster, in words.
    tail : array, shape (n,), optional
        Tail probability of each observation in its own cluster, NaN where it is not known: those
        that lie unusually far out are listed.
    furthest : sequence of str, optional
        Column in which each observation lies furthest out, in words; shown for those listed.
    count_from : int
        Number of the first observation, where observations have no names.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    OSError
        If the file cannot be written; that is found out before the work begins.

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> p = Posterior.from_labels([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1]])
    >>> write_report("report.html", p, title="Five things").name
    'report.html'
    """
    from cavity.plotting.frame import as_table

    target = Path(path)
    with replacing_page(target) as file, warnings.catch_warnings():
        # Letters of a name that the font of pictures lacks.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        data = None
        if feature_names is None and not hasattr(X, "columns"):
            feature_names = _kept_names(posterior, X)
        if X is not None:
            data = as_table(X, posterior.n_observations, feature_names)
        view = replace(posterior.view(partition, threshold), count_from=count_from)
        given = list(extra_sections)
        own = _Own(
            [section for section in given if not isinstance(section, Regression)],
            [section for section in given if isinstance(section, Regression)],
            settings, *_check_own(view, features, tail), furthest,
        )  # fmt: skip
        page = _page(view, data, feature_names, title, own)
        file.write(page)
    return target


class _Own(NamedTuple):
    """Content that the caller adds to the posterior."""

    sections: list[tuple[str, Any, str]]
    regressions: list[Regression]
    settings: Mapping[str, Any] | None
    features: Sequence[str] | None
    tail: np.ndarray | None
    furthest: Sequence[str] | None


def _check_own(
    view: View, features: Sequence[str] | None, tail: Any
) -> tuple[Sequence[str] | None, np.ndarray | None]:
    if features is not None:
        if len(features) != view.n_proper:
            raise ValueError(f"features has {len(features)} texts for {view.n_proper} clusters")
        features = view.with_noise(features)
    if tail is None:
        return features, None
    values = np.asarray(tail, float)
    if values.shape != (view.n,):
        raise ValueError(f"tail has shape {values.shape} for {count(view.n, view.noun)}")
    # Of those outside every cluster the page tells apart.
    return features, np.where(view.looks < 0, 1.0, values)


def _kept_names(posterior: Posterior, X: Any) -> list[str] | None:
    """Column names kept with the run, if they are those of `X`."""
    names = posterior.record.columns
    if not names:
        return None
    shape = np.shape(X)
    if X is not None and (len(shape) != 2 or shape[1] != len(names)):
        return None
    return [str(name) for name in names]


@contextmanager
def replacing_page(target: Path) -> Iterator[TextIO]:
    """Write to a temporary file, and replace the target on success."""
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; name a file for the report")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; make it first")
    with replacing(target) as part:
        try:
            file = part.open("w", encoding="utf-8", newline="\n")
        except OSError as error:
            raise type(error)(
                f"cannot write a report to {target}: {error.strerror or error}"
            ) from error
        with file:
            yield file


def _page(
    view: View,
    data: Table | None,
    features: Sequence[Any] | None,
    title: str,
    own: _Own,
) -> str:
    diagnostics = view.posterior.diagnostics()
    names = data.names if data is not None else _texts(features)
    sections = [
        Section("summary", "Summary", [_summary(view, diagnostics, own.tail)]),
        Section("pictures", "Plots", [_pictures(view, data)]),
        Section("cluster-section", "Clusters", _clusters(view, data, names, own.features)),
        *_extra(own.sections),
        *(regression_section(found, at) for at, found in enumerate(own.regressions)),
        Section("doubt-section", f"Doubtful {plural(view.noun)}", [_doubtful(view)]),
    ]
    if own.tail is not None:
        parts = _unusual(view, own.tail, own.furthest)
        sections.append(Section("unusual-section", f"Unusual {plural(view.noun)}", parts))
    sections += [
        Section("diagnostics", "Diagnostics", _diagnostics(view, diagnostics)),
        Section("run", "Settings", _run(view, own.settings)),
    ]
    return render(title, _subtitle(view), sections)


def render(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """Return a page as HTML that loads nothing."""
    script = _asset("report.js")
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            subtitle=subtitle,
            sections=sections,
            style=_asset("report.css"),
            script=script,
            script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("cavity.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )


def _texts(names: Sequence[Any] | None) -> list[str] | None:
    return None if names is None else [str(name) for name in names]


def _asset(name: str) -> str:
    return (resources.files("cavity.report") / "templates" / name).read_text(encoding="utf-8")


def _subtitle(view: View) -> str:
    p = view.posterior
    parts = [p.record.model, count(p.n_observations, view.noun)]
    parts.append(f"{count(p.n_chains, 'chain')} of {count(p.n_draws, 'draw')}")
    parts.append(written_now())
    return " · ".join(part for part in parts if part)


def written_now() -> str:
    """Return the date and time for a page's subtitle."""
    return datetime.now().astimezone().strftime("written %d %B %Y, %H:%M")


def _summary(view: View, diagnostics: Diagnostics, tail: np.ndarray | None) -> markup.Sentences:
    *answers, trust = words.summary_sentences(view, diagnostics)
    answers += filter(None, [words.alone_sentence(view)])
    if tail is not None:
        answers.append(words.unusual_sentence(view, tail))
    return markup.Sentences(answers, trust, diagnostics.converged)


def _pictures(view: View, data: Table | None) -> markup.Figures:
    merged = differ(view)
    drawn: list[markup.Figure] = []
    if merged and data is not None:
        grouped = view.posterior.groups().view()
        drawn += [figures.data(grouped, data, "Groups"), figures.data(view, data, "Clusters")]
    elif data is not None:
        drawn.append(figures.data(view, data))
    if merged:
        drawn.append(figures.groups(view))
    drawn += [
        figures.certainty(view),
        figures.dendrogram(view),
        figures.similarity(view),
        figures.number(view),
        figures.trace(view),
    ]
    return markup.Figures(drawn)


def _extra(extra: list[tuple[str, Any, str]]) -> Iterator[Section]:
    """Sections of the caller; neighbors of the same title share a heading."""
    for number, (title, group) in enumerate(groupby(extra, key=lambda section: section[0])):
        parts = [markup.given(*section) for section in group]
        yield Section(f"extra-{number}", str(title), [markup.Figures(parts)])


def _clusters(
    view: View,
    data: Table | None,
    names: Sequence[str] | None,
    features: Sequence[str] | None,
) -> list[Any]:
    parts: list[Any] = [tables.cluster_table(view, features)]
    if data is not None:
        parts += [_heading("Typical values"), tables.typical_table(view, data)]
    if parameters := tables.parameter_tables(view, names):
        parts += [_heading("Parameters"), *parameters]
    return parts


def _heading(text: str) -> markup.Text:
    return markup.Text(text, "heading")


def _doubtful(view: View) -> Any:
    if not len(view.in_doubt):
        return markup.Text(words.doubt_sentence(view))
    return tables.doubtful_table(view)


def _unusual(view: View, tail: np.ndarray, furthest: Sequence[str] | None) -> list[Any]:
    parts: list[Any] = [markup.Text(words.unusual_sentence(view, tail))]
    if len(unusual(tail)):
        parts.append(tables.unusual_table(view, tail, furthest))
    if view.noise is not None:
        parts.append(tables.noise_table(view, furthest))
    return parts


def _diagnostics(view: View, diagnostics: Diagnostics) -> list[Any]:
    first, *others = diagnostics.sentences
    parts: list[Any] = [
        markup.Sentences(others, first, diagnostics.converged, "verdict"),
        tables.diagnostics_table(diagnostics, view.posterior.n_chains),
    ]
    if 1 < view.posterior.n_chains <= CHAINS_MAX:
        parts += [_heading("Agreement of the chains"), tables.chains_table(diagnostics)]
    if len(diagnostics.events):
        parts += [_heading("Numerical events"), tables.events_table(diagnostics)]
    if len(diagnostics.moves):
        parts += [_heading("Moves of whole clusters"), tables.moves_table(diagnostics)]
    return parts


def _run(view: View, settings: Mapping[str, Any] | None) -> list[markup.Facts]:
    parts = [markup.Facts(tables.run_facts(view), "The run")]
    if chosen := tables.settings_facts(view, settings):
        parts.append(markup.Facts(chosen, "Settings", "Settings"))
    return [*parts, markup.Facts(tables.version_facts(view), "Versions", "Versions")]
