"""Reading of files and frames into arrays: exactly as written, or refused with an error."""
