"""General helpers: files, progress, warnings, text."""
