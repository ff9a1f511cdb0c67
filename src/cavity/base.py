"""The base of all estimators: settings of run and prior, the estimate, files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from cavity.collapse.registry import assemble, collapses_of
from cavity.estimators.fitting import Plan, RunSettings
from cavity.estimators.noise import known_partition, with_noise_last
from cavity.estimators.validation import (
    check_choice,
    check_count,
    check_flag,
    check_labels,
    check_number,
)
from cavity.mcmc.checkpoint import KeptChains
from cavity.mcmc.runner import check_seed, count_jobs
from cavity.mcmc.schedule import AUTO, never_stop
from cavity.posterior.convergence import PRECISIONS
from cavity.posterior.estimate import Partition
from cavity.posterior.losses import DEFAULT, as_loss
from cavity.posterior.posterior import Posterior
from cavity.posterior.record import BEST_DRAW, CONVERGED, ESTIMATE, Described
from cavity.priors.specifications import PartitionSpecification, specification
from cavity.utils.notices import ClusterLimitWarning, NotConvergedWarning

if TYPE_CHECKING:
    from cavity.posterior.diagnostics import Diagnostics

EP_OPTIONS = {
    # Nodes of the quadrature rules grow as the fraction falls.
    "fraction": (1e-2, 1.0),
    "damping": (1e-3, 1.0),
    "pass_every": (0, 10**9),
    "refresh_every": (1, 10**9),
}


@dataclass(repr=False, eq=False)
class Estimator(BaseEstimator):
    """Base of the estimators: settings, the point estimate, diagnostics and files.

    A dataclass: its fields, and those that a subclass adds, are the constructor's parameters.
    """

    n_clusters: int = 10
    _: KW_ONLY
    collapse: str = ""
    prior: Any = "finite"
    concentration: float | str | None = None
    n_chains: int = 4
    n_warmup: int = 200
    n_draws: int | str = AUTO
    thin: int = 1
    max_sweeps: int = 20_000
    max_seconds: float | None = None
    precision: str = "report"
    init: Any = "random"
    n_jobs: int | None = None
    random_state: Any = None
    progress: bool | None = None
    checkpoint: Any = None
    warm_start: bool = False
    options: Any = None
    loss: Any = DEFAULT

    _model: ClassVar[str]  # its name in the registry of collapses
    _starts: ClassVar[tuple[str, ...]]
    # Keys of `options` with their defaults, and those of collapses whose values are words.
    _defaults: ClassVar[dict[str, Any]] = {"moves": True, "keep_warmup": False}
    _words: ClassVar[dict[str, tuple[str, ...]]] = {}

    @property
    def _units(self) -> Any:
        """The units of the draws."""
        return self.posterior_.units

    # ------------------------------------------------------------------ settings

    def _collapses(self) -> tuple[str, ...]:
        """Names of the samplers there are."""
        return collapses_of(self._model)

    def _specification(self) -> PartitionSpecification:
        return specification(self.prior, self.concentration)

    def _check_settings(self) -> None:
        check_count("n_clusters", self.n_clusters, 1)
        check_count("n_chains", self.n_chains, 1)
        check_count("n_warmup", self.n_warmup, 0)
        if self.progress is not None:
            check_flag("progress", self.progress)
        if isinstance(self.n_draws, str):
            check_choice("n_draws", self.n_draws, (AUTO,))
        else:
            check_count("n_draws", self.n_draws, 1)
        check_count("thin", self.thin, 1)
        check_count("max_sweeps", self.max_sweeps, 1)
        if self.max_seconds is not None:
            check_number("max_seconds", self.max_seconds, 0.0)
        check_choice("precision", self.precision, tuple(PRECISIONS))
        if not isinstance(self.warm_start, bool | np.bool_):
            raise ValueError(f"warm_start must be True or False, not {self.warm_start!r}.")
        if self.warm_start and hasattr(self, "posterior_") and not hasattr(self, "_chains"):
            warnings.warn(
                "The previous fit did not keep its chains, so this fit starts over. Set "
                "warm_start=True before the first fit.",
                UserWarning,
                stacklevel=4,
            )
        check_choice("collapse", self.collapse, self._collapses())
        self._collapse_options()
        self._run_settings().length(never_stop, 0)
        prior = self._specification()
        prior.state(self.n_clusters, self.n_clusters, 1)
        if isinstance(self.init, str):
            check_choice("init", self.init, self._starts)
        count_jobs(self.n_jobs, self.n_chains)
        check_seed(self.random_state)
        as_loss(self.loss)

    def _start_of_rows(self, n: int) -> tuple[Any, int]:
        """Where chains over n rows start, and how many clusters it names; too few are refused."""
        prior = self._specification()
        if n < 2:
            raise ValueError(
                f"X has n_samples={n}: clustering needs at least 2 rows. Give more data."
            )
        if n < self.n_clusters and not prior.is_open:
            raise ValueError(
                f"X has n_samples={n} rows, fewer than n_clusters={self.n_clusters}. Lower "
                "n_clusters, or use prior='dp'."
            )
        start: Any = self.init
        if not isinstance(self.init, str):
            start = check_labels(self.init, n, self.n_clusters, prior.is_open)
        n_start = min(self.n_clusters, n) if isinstance(self.init, str) else int(start.max()) + 1
        return start, n_start

    def _option(self, name: str) -> Any:
        """Value of an option of every collapse."""
        return (self.options or {}).get(name, self._defaults[name])

    def _collapse_options(self, collapse: str | None = None) -> dict[str, Any]:
        """Options of the collapse. All are checked; those of other collapses are refused."""
        collapse = self.collapse if collapse is None else collapse
        given = {} if self.options is None else self.options
        if not hasattr(given, "items"):
            raise ValueError(f"options must be a dictionary of options by name, not {given!r}.")
        numbers = EP_OPTIONS if collapse in ("ep", "auto") else {}
        out: dict[str, Any] = {}
        for name, value in given.items():
            where = f"options[{name!r}]"
            if name in self._defaults:
                check_flag(where, value)
            elif name in self._words:
                out[name] = check_choice(where, value, self._words[name])
            elif name in ("pass_every", "refresh_every") and name in numbers:
                out[name] = check_count(where, value, int(numbers[name][0]))
            elif name in numbers:
                low, high = numbers[name]
                out[name] = check_number(where, value, low, high, strict=False)
            else:
                known = ", ".join(map(repr, (*self._defaults, *self._words, *numbers)))
                raise ValueError(
                    f"{where} is not an option of collapse={collapse!r}. Use one of {known}."
                )
        return out

    def _run_settings(self) -> RunSettings:
        settings = {
            name: self._option(name) if name in self._defaults else getattr(self, name)
            for name in RunSettings.__dataclass_fields__
        }
        if self.warm_start and self.checkpoint is None:
            settings["checkpoint"] = self.__dict__.setdefault("_chains", KeptChains())
        return RunSettings(**settings)

    def _planned(
        self,
        problem: Any,
        few: Any,
        data: str,
        options: dict[str, Any],
        collapse: str | None = None,
        told: dict[str, Any] | None = None,
        **more: Any,
    ) -> Plan:
        """How chains over a problem are made; `few` is the same with few observations.

        `data` is a digest of the data, `options` are those of the collapse, which is the one that
        the user states unless another is given, `told` is what else tells data apart, and `more`
        what else a `Plan` takes.
        """
        chosen = self.collapse if collapse is None else collapse
        return Plan(
            name=type(self).__name__,
            n=problem.n,
            n_clusters=self.n_clusters,
            assemble=lambda n_slots: assemble(problem, chosen, n_slots, options),
            assemble_few=lambda n_slots: (few.n, assemble(few, chosen, n_slots, options)),
            prior=self._specification(),
            fingerprint={
                "model": type(self).__name__,
                "settings": self._settings(),
                "data": data,
                **(told or {}),
            },
            **more,
        )

    def _refuse_changed(self, settings: Mapping[str, Any]) -> None:
        """Refuse a problem that was prepared under other settings."""
        now = self.get_params(deep=False)
        if any(value is not now[name] for name, value in settings.items()):
            raise ValueError("Settings have changed since check. Call check again.")

    def _settings(self) -> dict[str, Any]:
        """The constructor's parameters but for the checkpoint, which is no part of the answer."""
        return {k: v for k, v in self.get_params(deep=False).items() if k != "checkpoint"}

    # ------------------------------------------------------------------ the answer

    def _finish(self, posterior: Posterior) -> None:
        """Keep the draws, find the estimate, say whether the chains agree."""
        from cavity.posterior.summary import limit_words

        if not self.warm_start:
            self.__dict__.pop("_chains", None)
        self.posterior_ = posterior
        try:
            partition = posterior.partition()
        except KeyboardInterrupt:
            partition = _best_draw(posterior)
            posterior.summaries[BEST_DRAW] = np.array([1])
            warnings.warn(
                "The search for the point estimate was stopped: labels_ is the draw of highest "
                "log joint density. All draws are kept: posterior_.partition() searches again.",
                UserWarning,
                stacklevel=3,
            )
        partition = with_noise_last(posterior, partition)
        posterior.summaries[ESTIMATE] = partition.labels.astype(np.int64)
        self._settle(partition)
        posterior.summaries.update(self._overlaps())
        found = self.diagnostics()
        posterior.summaries[CONVERGED] = np.array([int(found.converged)])
        # The words about the limit search for groups, which a stopped search must not start.
        stopped = BEST_DRAW in posterior.summaries
        if not stopped and (limit := limit_words(posterior.view(partition))):
            where = " See group_labels_ and posterior_.groups()." if "groups" in limit else ""
            warnings.warn(
                f"{limit}{where} Filter cavity.ClusterLimitWarning to silence this.",
                ClusterLimitWarning,
                stacklevel=3,
            )
        if found.problems and not found.limited:
            limited = posterior.record.stopped == "max_sweeps" and not (
                self.checkpoint or self.warm_start
            )
            anew = (
                " Without warm_start=True or checkpoint= the next fit starts over."
                if limited
                else ""
            )
            warnings.warn(
                f"{found.sentences[0]} {found.problems[0]} {found.advice}{anew} "
                "Filter cavity.NotConvergedWarning to silence this.",
                NotConvergedWarning,
                stacklevel=3,
            )

    def _overlaps(self) -> dict[str, np.ndarray]:
        """Return what groups are made of: overlaps of the clusters, where they are defined."""
        return {}

    def _settle(self, partition: Partition) -> None:
        """Set what follows from the posterior and its point estimate."""
        self.partition_ = partition
        self.labels_ = partition.labels.astype(np.int64)
        self.n_clusters_ = int(partition.n_clusters)

    def diagnostics(self) -> Diagnostics:
        """Whether the chains agree: R-hat, effective draws and a verdict in words; print it."""
        check_is_fitted(self, "posterior_")
        found = self.posterior_.diagnostics()
        self.converged_ = bool(found.converged)
        return found

    # ------------------------------------------------------------------ files

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fitted estimator to one NetCDF file; `load` gives it back.

        The file holds numbers and text, no pickle, and other tools can read it.
        """
        check_is_fitted(self, "posterior_")
        return self.posterior_.save(Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the fitted estimator that `save` (or a run of the command line) wrote."""
        return cls._from_posterior(Posterior.load(Path(path)), str(path))

    @classmethod
    def _from_posterior(cls, posterior: Posterior, source: str) -> Self:
        record = posterior.record
        if record.model != cls.__name__:
            raise ValueError(
                f"{source} holds a fit of {record.model or 'an unknown model'}, not of "
                f"{cls.__name__}."
            )
        estimator = cls()
        known = estimator.get_params(deep=False)
        estimator.set_params(
            **{
                name: value
                for name, value in record.settings.items()
                if name in known and not isinstance(value, Described)
            }
        )
        estimator.posterior_ = posterior
        estimator._restore(posterior)
        labels = posterior.summaries.get(ESTIMATE)
        if labels is None:
            partition = with_noise_last(posterior, posterior.partition())
            posterior.summaries[ESTIMATE] = partition.labels.astype(np.int64)
        else:
            partition = known_partition(posterior, labels)
        estimator._settle(partition)
        if CONVERGED in posterior.summaries:
            estimator.converged_ = bool(posterior.summaries[CONVERGED][0])
        else:
            estimator.diagnostics()
        return estimator

    def _restore(self, posterior: Posterior) -> None:
        """Set what a fit would have set from the data."""


def _best_draw(posterior: Posterior) -> Partition:
    draws = posterior.flat_labels
    best = 0 if posterior.log_joint is None else int(np.argmax(posterior.log_joint))
    labels = np.unique(draws[best], return_inverse=True)[1].reshape(-1)
    return known_partition(posterior, labels)


def load(path: str | os.PathLike[str]) -> Estimator:
    """Return the fitted estimator of a file, whichever it was.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np
    >>> from cavity import GaussianMixture
    >>> X = np.random.default_rng(0).standard_normal((20, 1))
    >>> m = GaussianMixture(1, n_chains=2, n_warmup=5, n_draws=20, random_state=0).fit(X)
    >>> path = m.save(pathlib.Path(tempfile.mkdtemp()) / "run.nc")
    >>> load(path)
    GaussianMixture(n_chains=2, n_clusters=1, n_draws=20, n_warmup=5, random_state=0)
    """
    import cavity

    posterior = Posterior.load(Path(path))
    name = posterior.record.model
    estimator = getattr(cavity, name, None) if name in cavity.__all__ else None
    if not (isinstance(estimator, type) and issubclass(estimator, Estimator)):
        raise ValueError(
            f"{path} holds draws of {name or 'an unknown model'}, which no estimator of cavity "
            "answers for; read it with cavity.Posterior.load."
        )
    return estimator._from_posterior(posterior, str(path))
