"""Ways of dealing with cluster parameters: naive, conjugate (collapsed, blocked), EP."""
