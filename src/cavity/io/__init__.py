"""Files and frames read into clean arrays: as they are written, or refused in a sentence."""
