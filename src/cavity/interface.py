"""Functions that likelihoods, families and collapses implement for kernels.

A *family* holds one approximating (or exact) distribution of cluster parameters per slot, as a
NamedTuple of arrays. A *model* is the data and one likelihood, a NamedTuple as well. A *collapse*
combines the two. Each verb below is resolved at compile time by the class of its first argument.

To add a likelihood that runs under expectation propagation, write a NamedTuple and register
``evidence`` and ``project`` for it; everything else has a default.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cavity._numba.jit import verb

# --------------------------------------------------------------------------- families


@verb
def load(q, k):
    """Recompute slot k's working parameters from its natural ones; False if they are improper."""


@verb
def hold(q, k, room):
    """Copy slot k to `room`, two rows as long as its natural parameters."""


@verb
def put_back(q, k, room):
    """Restore slot k from the copy of ``hold``; by default, load the copied natural parameters."""


@verb
def log_partition(q, k):
    """Log normalizing constant of slot k as a function of its natural parameters."""


@verb
def log_mass(q, k):
    """Log evidence of slot k's members, up to ``shift_own`` and what is the same in every slot.

    By default the log normalizer. It is needed of families of an exact collapse that has moves.
    """


@verb
def divergence(q, k, r, j):
    """Kullback-Leibler divergence from slot j of r to slot k of q: KL(q_k, r_j)."""


@verb
def draw(q, k, parameters, rng):
    """Draw cluster parameters from slot k into slot k of `parameters`."""


@verb
def prior_density(q, parameters, k):
    """Log prior density of slot k's parameters, up to the prior's log normalizer."""


@verb
def common_density(q):
    """Log density of parameters that all slots share: in the prior, and given all members."""


@verb
def is_scored(q, c):
    """Return True if the distribution of column c differs between slots, False if it is shared."""


# --------------------------------------------------------------------------- models


@verb
def evidence(model, q, k, i):
    """Log of the integral of observation i's likelihood against slot k of q."""


@verb
def integrated_evidence(model, q, k, i):
    """Return ``evidence`` with observation i's own variables integrated out; usually the same."""


@verb
def evidences(model, q, i, out):
    """Write ``evidence`` for every slot into `out`."""


@verb
def bounds(model, q, i, most, least):
    """Write bounds of ``evidence`` for every slot: upper ones into `most`, lower into `least`.

    On entry `most` has the slots' weights: one of weight zero needs no bound. Where no lower bound
    is cheap, use minus infinity. Only for models whose ``pick`` is
    `cavity.likelihoods.selection.draw_by_bounds`.
    """


@verb
def evidence_after(model, q, k, i):
    """Return ``evidence`` right after ``bounds`` of the same observation, which may reuse work."""


@verb
def pick(model, q, i, weights, scores, mass, visited, rng):
    """Draw a slot for observation i with probability proportional to weight times evidence.

    The default evaluates every slot. A model with cheap bounds evaluates as few as decide.
    """


@verb
def project(model, q, k, i, fraction):
    """Replace slot k by the family member nearest to slot k times likelihood i to the `fraction`.

    Nearest in the inclusive divergence: expected sufficient statistics are matched.
    """


@verb
def observe(model, q, k, i, sign):
    """Add (sign = 1) or remove (sign = -1) observation i's exact sufficient statistics."""


@verb
def accumulate(model, q, k, i):
    """Add observation i's exact sufficient statistics to slot k's natural parameters only.

    The working parameters are left for a later ``load``.
    """


@verb
def log_density(model, parameters, k, i):
    """Log likelihood of observation i given the parameters of cluster k."""


@verb
def log_densities(model, parameters, i, out):
    """Write ``log_density`` for every slot into `out`."""


@verb
def pick_given(model, parameters, i, weights, scores, mass, rng):
    """Draw a slot for observation i with probability proportional to weight times density.

    The default evaluates ``log_densities``. A model may draw what belongs to the label with it.
    """


@verb
def log_likelihood(model, parameters, z):
    """Log density of all observations given their clusters' parameters.

    Auxiliary variables are integrated out, so it is the same for every collapse. By default
    the sum of ``log_density``.
    """


@verb
def complete(model, q, k, i, rng):
    """Draw the variables of observation i that ``evidence`` integrated out, given slot k.

    Slot k holds the other members, and the last that it scored is observation i. By default there
    is nothing to draw.
    """


@verb
def weigh(model, q, k, i):
    """Log weight of slot k for observation i where a move divides a cluster.

    Any number will do that depends on the other members and on the observation. By default
    ``evidence``; best is the evidence given what ``complete`` has drawn, which moves hold.
    """


@verb
def shift_own(model, q, i, old, new):
    """Log of what slot `new` gives observation i over slot `old`, of all that no slot's sums have.

    Densities of what ``complete`` has drawn, for instance. Zero by default.
    """


@verb
def auxiliary(model, i, out):
    """Copy the variables of observation i that ``complete`` draws into `out`."""


@verb
def set_auxiliary(model, i, values):
    """Restore the variables that ``auxiliary`` copied."""


@verb
def visit(model, i, k, rng):
    """Prepare auxiliary variables of observation i, now in cluster k, before it is scored."""


@verb
def settle(model, i, k):
    """Keep the auxiliary variables of observation i that belong to its new cluster k."""


# --------------------------------------------------------------------------- collapses


@verb
def remove(state, z, counts, i, k):
    """Remove observation i from cluster k (its count is already reduced)."""


@verb
def choose(state, i, weights, rng):
    """Draw a cluster for observation i with probability prior weight times score."""


@verb
def insert(state, i, k):
    """Put observation i into cluster k."""


@verb
def note(state, i, out):
    """Copy the variables of observation i that ``insert`` uses or changes to `out`."""


@verb
def recall(state, i, values):
    """Restore the values that ``note`` copied."""


@verb
def confirm(state, room, slots, labels, stop, rng):
    """Accept or reject a move of many labels again, after its slots' evidence accepted it.

    For a collapse whose slots hold an approximation and whose target is exact: a second stage of
    acceptance, by the ratio of exact to approximate evidence. By default there is none.

    Parameters
    ----------
    room : cavity.moves.allocation.Room
        Members, what was their own before, and the slots' natural parameters before.
    slots : (int, int, int)
        Those touched; -1 is none.
    labels : array
        Slots of the members after the move, of which there are `stop`.
    """


# --------------------------------------------------------------------------- defaults


@hold.register(None)
def _(q, k, room):
    for p in range(room.shape[1]):
        room[0, p] = q.natural[k, p]


@put_back.register(None)
def _(q, k, room):
    for p in range(room.shape[1]):
        q.natural[k, p] = room[0, p]
    load(q, k)


@log_mass.register(None)
def _(q, k):
    return log_partition(q, k)


@common_density.register(None)
def _(q):
    return 0.0, 0.0


@is_scored.register(None)
def _(q, c):
    return True


@weigh.register(None)
def _(model, q, k, i):
    return evidence(model, q, k, i)


@shift_own.register(None)
def _(model, q, i, old, new):
    return 0.0


@integrated_evidence.register(None)
def _(model, q, k, i):
    return evidence(model, q, k, i)


@evidence_after.register(None)
def _(model, q, k, i):
    return evidence(model, q, k, i)


@evidences.register(None)
def _(model, q, i, out):
    for k in range(out.shape[0]):
        out[k] = evidence(model, q, k, i)


@log_densities.register(None)
def _(model, parameters, i, out):
    for k in range(out.shape[0]):
        out[k] = log_density(model, parameters, k, i)


@log_likelihood.register(None)
def _(model, parameters, z):
    total = 0.0
    for i in range(z.shape[0]):
        total += log_density(model, parameters, int(z[i]), i)
    return total


@confirm.register(None)
def _(state, room, slots, labels, stop, rng):
    return True


@complete.register(None)
def _(model, q, k, i, rng):
    return None


@auxiliary.register(None)
def _(model, i, out):
    return None


@set_auxiliary.register(None)
def _(model, i, values):
    return None


@visit.register(None)
def _(model, i, k, rng):
    return None


@settle.register(None)
def _(model, i, k):
    return None


# --------------------------------------------------------------------------- blocks of sweeps


@verb
def follow_df(model):
    """Update values that depend on the degrees of freedom; usually nothing."""


@follow_df.register(None)
def _(model):
    return None


@verb
def step(update, model, family, parameters, prior, z, counts, rng):
    """Draw the variables of an update in place; return zero, or a code for the failure."""


@verb
def log_weight(update, model, family, parameters, prior, counts):
    """Log prior density of an update's variables."""


@verb
def show(update, model, family, parameters, prior, counts, out):
    """Write the recorded values of an update to the start of `out`; return their number."""


# A state holds the family or the parameters, whichever its scan reads. The other is `beside` it.


@verb
def family_of(state, beside):
    """Return the distribution of every slot's parameters; by default the state has it."""


@verb
def parameters_of(state, beside):
    """Return the parameters of every slot; by default they are beside the state."""


@verb
def tidy(state, z, counts):
    """Recompute sums after a scan and its moves; by default there is nothing to do."""


@verb
def draw_parameters(state, beside, z, rng):
    """Draw the parameters of every slot given its members; by default from the family."""


@verb
def refresh(state, beside, z, counts, new_prior, rng):
    """Update the state after all draws, `new_prior` if these change the prior of clusters."""


@family_of.register(None)
def _(state, beside):
    return state.family


@parameters_of.register(None)
def _(state, beside):
    return beside


@tidy.register(None)
def _(state, z, counts):
    return None


@draw_parameters.register(None)
def _(state, beside, z, rng):
    for k in range(state.family.natural.shape[0]):
        draw(state.family, k, beside, rng)


@verb
def attempt(move, state, prior, z, counts, rng):
    """Try a move the scheduled number of times."""


class Also(NamedTuple):
    """A list, for kernels: one entry, and the others."""

    first: Any
    rest: Any


class End(NamedTuple):
    """The end of a list."""

    nothing: int = 0


def listed(items: Any) -> Any:
    """Return a sequence as a list for kernels.

    Examples
    --------
    >>> listed([3, 4])
    Also(first=3, rest=Also(first=4, rest=End(nothing=0)))
    """
    out: Any = End()
    for item in reversed(tuple(items)):
        out = Also(item, out)
    return out


# Failures of a list: those of entry j are 256 j more than its own.
PLACES = 256


@step.register(Also)
def _(entries, model, family, parameters, prior, z, counts, rng):
    failed = step(entries.first, model, family, parameters, prior, z, counts, rng)
    if failed != 0:
        return failed
    failed = step(entries.rest, model, family, parameters, prior, z, counts, rng)
    return failed + PLACES if failed != 0 else 0


@log_weight.register(Also)
def _(entries, model, family, parameters, prior, counts):
    value = log_weight(entries.first, model, family, parameters, prior, counts)
    return value + log_weight(entries.rest, model, family, parameters, prior, counts)


@show.register(Also)
def _(entries, model, family, parameters, prior, counts, out):
    n = show(entries.first, model, family, parameters, prior, counts, out)
    return n + show(entries.rest, model, family, parameters, prior, counts, out[n:])


@attempt.register(Also)
def _(entries, state, prior, z, counts, rng):
    attempt(entries.first, state, prior, z, counts, rng)
    attempt(entries.rest, state, prior, z, counts, rng)


@step.register(End)
@step.register(None)
def _(update, model, family, parameters, prior, z, counts, rng):
    return 0


@log_weight.register(End)
@log_weight.register(None)
def _(update, model, family, parameters, prior, counts):
    return 0.0


@show.register(End)
@show.register(None)
def _(update, model, family, parameters, prior, counts, out):
    return 0


@attempt.register(End)
def _(move, state, prior, z, counts, rng):
    return None
