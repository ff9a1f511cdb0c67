"""Keys under which a saved run stores data about its rows."""

# Digest of the data.
DATA = "data"
# Weights of the rows, where these have some.
WEIGHTS = "sample_weight"
# Known labels: the slot of each row, and what slots stand for.
KNOWN, KNOWN_NAMES = "known", "known_names"
# Of a fit over shards: which rows are followed, and their values.
FOLLOWED, VALUES = "followed_rows", "followed_values"
