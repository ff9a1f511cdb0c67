"""Ways of dealing with cluster parameters: naive, conjugate, EP, exact for series."""

# The default of the verb `pick`, which the collapses call, is registered where it is written.
import cavity.likelihoods.selection  # noqa: F401
