"""How long chains run: a given number of draws, or until they are found to agree.

All chains do the same sweeps, in stages. Between two stages they stand still at the same sweep and
may be looked at; a stage says which of the sweeps are kept. All of it follows from settings and
draws alone, never from the clock, so that a seed gives the same draws on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cavity.mcmc.memory import StoredDraws

# Why a run ended.
ASKED = "n_draws"  # it has the draws that were asked for
CONVERGED = "converged"
MODES = "modes"  # chains stay in modes, or away from one that was found
MAX_SWEEPS, MAX_SECONDS = "max_sweeps", "max_seconds"
INTERRUPTED = "interrupted"

AUTO = "auto"
LEAST_WARMUP = 20
# Draws per chain that a run with a limit of time keeps during the warm-up, should it end there.
EARLY_DRAWS = 200
# More draws than this say little more, and make everything that follows slower.
MOST_DRAWS = 2000
# Draws of all chains beyond this many bytes are thinned, but never below so many per chain.
MOST_BYTES = 10**9
LEAST_DRAWS = 250
# Stages after which runs to a draft and to a report typically end: for estimates of the time alone.
TO_A_DRAFT, TO_A_REPORT = 4, 6
# An estimate grows with the effective draws that are missing to this power, and by so much at most:
# chains that have not found each other yet have few, and many soon after.
_GROWTH, _MOST_GROWTH = 0.75, 9.0
# Of a tripling, in three steps about equal in proportion, as whole-number ratios.
_STEPS = ((1, 1), (13, 9), (25, 12))


@dataclass(frozen=True)
class Stage:
    """A stretch of sweeps that every chain does before it is looked at.

    Attributes
    ----------
    begin, end : int
        Sweeps that a chain has done before and after it.
    n_warmup : int
        Sweeps whose draws are not wanted any more.
    thin : int
        Sweeps per draw.
    origin : int
        Draws are at whole multiples of `thin` sweeps from here.
    """

    begin: int
    end: int
    n_warmup: int
    thin: int
    origin: int = 0

    def keeps(self, sweep: int | np.ndarray) -> bool | np.ndarray:
        """Whether the state after this sweep (the first is 1) is a draw."""
        return (sweep > self.n_warmup) & ((sweep - self.origin) % self.thin == 0)

    def n_draws(self, n_sweeps: int | None = None) -> int:
        """Draws after so many sweeps, at the stage's end by default."""
        last = self.end if n_sweeps is None else min(n_sweeps, self.end)
        before = (self.n_warmup - self.origin) // self.thin
        return max(0, (last - self.origin) // self.thin - before)


@dataclass(frozen=True)
class Assessment:
    """What looking at the draws has told.

    Attributes
    ----------
    settled : bool
        Whether the run may end.
    share : float
        Effective draws there are, as a share of those needed.
    aside : mapping of int to mapping
        Chains that the draws are better without, and what is to be said of each.
    draft : bool
        Whether the draws will do as a draft.
    stuck : bool
        Whether modes keep the run from settling, so that more sweeps would not help.
    """

    settled: bool
    share: float = 0.0
    aside: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    draft: bool = False
    stuck: bool = False


# Says how draws look, given what each chain has drawn (arrays by name, as `Draws.arrays` has them)
# and which of the recorded quantities have a cluster axis.
StoppingRule = Callable[[Sequence[Mapping[str, np.ndarray]], Collection[str]], Assessment]


def never_stop(chains: Any, cluster_parameters: Any) -> Assessment:
    """Stopping rule that is never satisfied: the run goes to its limit."""
    return Assessment(False)


def _early_stage(begin: int, n_warmup: int) -> Stage:
    """Stage within the warm-up whose draws are used only if the time ends before the warm-up."""
    end = min(max(2, begin + begin // 2), n_warmup)
    thin = 1
    while (found := Stage(begin, end, end // 3, thin)).n_draws() > EARLY_DRAWS:
        thin *= 2
    return found


@dataclass(frozen=True)
class FixedSchedule:
    """So many draws, in one stage.

    Attributes
    ----------
    n_warmup, n_draws, thin : int
        Sweeps before the first draw; draws per chain; sweeps per draw.
    early : bool
        Whether stages within the warm-up keep draws too, for a run with a limit of time.
    """

    n_warmup: int
    n_draws: int
    thin: int = 1
    early: bool = False
    rule: StoppingRule | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        _check(self, n_warmup=0, n_draws=1, thin=1)

    @property
    def limit(self) -> int:
        """Sweeps of one chain, warm-up included."""
        return self.n_warmup + self.n_draws * self.thin

    def first(self) -> Stage:
        """The only stage, or the first within the warm-up."""
        return _early_stage(0, self.n_warmup) if self._is_early(0) else self._whole()

    def _is_early(self, n_sweeps: int) -> bool:
        return self.early and n_sweeps < self.n_warmup

    def _whole(self) -> Stage:
        return Stage(0, self.limit, self.n_warmup, self.thin, self.n_warmup)

    def is_checked(self, stage: Stage) -> bool:
        """Nothing depends on the draws."""
        return False

    def following(self, stage: Stage, bytes_per_draw: float) -> Stage:
        """The next stage within the warm-up, or the only one after it."""
        return (
            _early_stage(stage.end, self.n_warmup) if self._is_early(stage.end) else self._whole()
        )

    def resumed(self, saved: Stage) -> Stage:
        """The only stage, which may have become longer, or one within the warm-up."""
        return saved if saved.end <= self.n_warmup else self._whole()

    def stored(self, n_warmup: int) -> StoredDraws:
        """All draws."""
        return StoredDraws(self.n_draws, n_warmup, self.limit)

    def words(self) -> str:
        """Its number of draws."""
        return f"n_draws={self.n_draws}"

    def least(self, n_sweeps: int) -> str:
        """The number of draws that so many sweeps are."""
        return f"n_draws={-(-(n_sweeps - self.n_warmup) // self.thin)}"

    def expected(self, stage: Stage, share: float) -> int:
        """Return all of them."""
        return self.limit

    def settings(self) -> dict[str, int | str]:
        """Warm-up and thinning; more draws may be asked for later."""
        return {"run length": "fixed", "n_warmup": self.n_warmup, "thin": self.thin}


@dataclass(frozen=True)
class AutomaticSchedule:
    """Until a stopping rule is satisfied, or a limit of sweeps.

    The first check comes after three times the least warm-up, and so on with three checks to every
    tripling of the sweeps. At each check the first third of all sweeps is warm-up, whatever they
    look like: draws left out because of what they show would bias the rest. Draws are thinned by
    two as often as there would be too many of them. The limit is where the chains stop if no check
    was satisfied before, be it between two checks: a run with a larger limit only goes on.

    Attributes
    ----------
    rule : callable
        Says how the draws look at a check.
    n_warmup : int
        The least warm-up; moves adapt in it.
    max_sweeps : int
        The most sweeps of one chain.
    thin : int
        Sweeps per draw at first.
    early : bool
        Whether stages within the warm-up keep draws too, for a run with a limit of time.
    typical : int
        Stage after which such a run typically ends, for estimates of the time alone.
    """

    rule: StoppingRule
    n_warmup: int = 200
    max_sweeps: int = 20_000
    thin: int = 1
    early: bool = False
    typical: int = TO_A_REPORT

    def __post_init__(self) -> None:
        _check(self, n_warmup=LEAST_WARMUP, max_sweeps=1, thin=1)
        if self.max_sweeps < self.n_warmup + self.thin:
            raise ValueError(
                f"max_sweeps={self.max_sweeps} leaves no sweep for a draw after "
                f"n_warmup={self.n_warmup} with thin={self.thin}; raise it"
            )

    @property
    def limit(self) -> int:
        """The most sweeps of one chain."""
        return self.max_sweeps

    def boundary(self, step: int) -> int:
        """Sweeps after so many stages; chains are looked at from the third on."""
        triplings, rest = divmod(step, len(_STEPS))
        over, under = _STEPS[rest]
        return self.n_warmup * 3**triplings * over // under

    def _step(self, n_sweeps: int) -> int:
        """The last boundary that so many sweeps have come to."""
        step = 0
        while self.boundary(step + 1) <= n_sweeps:
            step += 1
        return step

    def _warmup(self, step: int) -> int:
        return self.boundary(max(step - len(_STEPS), 0))

    def first(self) -> Stage:
        """The least warm-up and a little more, or the first within the warm-up."""
        if self.early:
            return _early_stage(0, self.n_warmup)
        return Stage(0, self.boundary(1), self.n_warmup, self.thin)

    def is_checked(self, stage: Stage) -> bool:
        """From three times the least warm-up on, when a third of the sweeps can be left out."""
        return stage.end >= self.boundary(len(_STEPS))

    def following(self, stage: Stage, bytes_per_draw: float) -> Stage:
        """Up to the next boundary, thinned if its draws would be too many or too large."""
        if stage.end < self.n_warmup:
            return _early_stage(stage.end, self.n_warmup)
        if stage.end == self.n_warmup:
            return Stage(stage.end, self.boundary(1), self.n_warmup, self.thin)
        # The first third of the sweeps at its end is warm-up; stopped between, a little more.
        step = self._step(stage.end)
        warmup, thin = self._warmup(step + 1), stage.thin
        found = Stage(stage.end, self.boundary(step + 1), warmup, thin)
        while found.n_draws() > MOST_DRAWS or (
            found.n_draws() * bytes_per_draw > MOST_BYTES and found.n_draws() >= 2 * LEAST_DRAWS
        ):
            thin *= 2
            found = Stage(stage.end, found.end, warmup, thin)
        return found

    def resumed(self, saved: Stage) -> Stage:
        """Where it was."""
        return saved

    def stored(self, n_warmup: int) -> StoredDraws:
        """The draws of the first check, or of the limit if that comes before."""
        end = min(self.boundary(len(_STEPS)), self.max_sweeps)
        draws = Stage(0, end, self.n_warmup, self.thin).n_draws()
        return StoredDraws(draws, n_warmup, end, automatic=True)

    def words(self) -> str:
        """Its limit."""
        return f"max_sweeps={self.max_sweeps}"

    def least(self, n_sweeps: int) -> str:
        """The limit that so many sweeps are within."""
        return f"max_sweeps={n_sweeps}"

    def expected(self, stage: Stage, share: float) -> int:
        """Return the sweeps after which the run probably ends, given a look at the draws."""
        if not self.is_checked(stage):
            return min(self.boundary(self.typical), self.max_sweeps)
        missing = min(max(1.0 / max(share, 1e-3), 1.0) ** _GROWTH, _MOST_GROWTH)
        following = self.boundary(self._step(stage.end) + 1)
        return min(max(following, int(missing * stage.end)), self.max_sweeps)

    def settings(self) -> dict[str, int | str]:
        """Warm-up and thinning; the limit may be another later."""
        return {"run length": AUTO, "n_warmup": self.n_warmup, "thin": self.thin}


Schedule = FixedSchedule | AutomaticSchedule


def _check(schedule: Any, **least: int) -> None:
    for name, low in least.items():
        value = getattr(schedule, name)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
            with_auto = " with n_draws='auto'" if low == LEAST_WARMUP else ""
            raise ValueError(
                f"{name} must be an integer of at least {low}{with_auto}, not {value!r}"
            )
