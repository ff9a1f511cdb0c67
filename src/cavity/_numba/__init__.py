"""What everything stands on: compiling, vectors, numerics, arrays of state, files, progress."""
