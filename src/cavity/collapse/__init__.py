"""Ways of dealing with cluster parameters: naive, conjugate, EP, exact for series."""
