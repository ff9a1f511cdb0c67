"""Total of leave-one-out cross-validation, under the name of either version of ArviZ."""


def total_of(found):
    """Return the expected log predictive density of all rows."""
    return float(found.elpd_loo if hasattr(found, "elpd_loo") else found.elpd)
