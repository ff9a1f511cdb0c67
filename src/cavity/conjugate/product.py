"""The product of two families: a cluster's parameters in parts that are independent in each slot.

Natural parameters are those of the first part and then those of the rest, in one row; the parts'
own arrays are views of these columns, so whatever works on a family works on a product, and
each part as if it were alone. A rest that is a product again makes three parts, and so on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity.interface import (
    common_density,
    divergence,
    draw,
    hold,
    load,
    log_mass,
    log_partition,
    prior_density,
    put_back,
)


class ProductFamily(NamedTuple):
    """Product of two families."""

    prior: np.ndarray  # (P,)
    natural: np.ndarray  # (slots, P)
    first: Any
    rest: Any


class ProductParameters(NamedTuple):
    """One draw of the parameters of every slot, part by part."""

    first: Any
    rest: Any


def tied(q: ProductFamily) -> ProductFamily:
    """The product with its parts' natural parameters as columns."""
    width = q.first.natural.shape[1]
    parts: dict[str, Any] = {}
    for name, columns in (("first", slice(None, width)), ("rest", slice(width, None))):
        part = getattr(q, name)._replace(natural=q.natural[:, columns], prior=q.prior[columns])
        parts[name] = tied(part) if isinstance(part, ProductFamily) else part
    return q._replace(**parts)


declare(ProductFamily, slots={"natural": 0}, tie=tied)
declare(ProductParameters, slots={})


def product_family(first: Any, rest: Any) -> ProductFamily:
    """Return the product of two families with equally many slots.

    Examples
    --------
    >>> from cavity.conjugate.gamma import gammas
    >>> q = product_family(gammas([1.0], [2.0], 8), gammas([3.0], [4.0], 8))
    >>> q.prior.tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    prior = np.concatenate([first.prior, rest.prior])
    natural = np.hstack([first.natural, rest.natural])
    return tied(ProductFamily(prior, natural, first, rest))


@load.register(ProductFamily)
def _(q, k):
    return load(q.first, k) and load(q.rest, k)


@hold.register(ProductFamily)
def _(q, k, room):
    width = q.first.natural.shape[1]
    hold(q.first, k, room[:, :width])
    hold(q.rest, k, room[:, width:])


@put_back.register(ProductFamily)
def _(q, k, room):
    width = q.first.natural.shape[1]
    put_back(q.first, k, room[:, :width])
    put_back(q.rest, k, room[:, width:])


@log_partition.register(ProductFamily)
def _(q, k):
    return log_partition(q.first, k) + log_partition(q.rest, k)


@log_mass.register(ProductFamily)
def _(q, k):
    return log_mass(q.first, k) + log_mass(q.rest, k)


@divergence.register(ProductFamily)
def _(q, k, r, j):
    return divergence(q.first, k, r.first, j) + divergence(q.rest, k, r.rest, j)


@draw.register(ProductFamily)
def _(q, k, parameters, rng):
    draw(q.first, k, parameters.first, rng)
    draw(q.rest, k, parameters.rest, rng)


@prior_density.register(ProductFamily)
def _(q, parameters, k):
    first = prior_density(q.first, parameters.first, k)
    return first + prior_density(q.rest, parameters.rest, k)


@common_density.register(ProductFamily)
def _(q):
    first_before, first_after = common_density(q.first)
    rest_before, rest_after = common_density(q.rest)
    return first_before + rest_before, first_after + rest_after
