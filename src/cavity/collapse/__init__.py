"""Collapses, which integrate cluster parameters out: naive, conjugate, EP."""

# The default of the verb `pick`, which the collapses call, is registered where it is written.
import cavity.likelihoods.selection  # noqa: F401
