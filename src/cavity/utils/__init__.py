"""Helpers that know nothing of statistics: files, progress, warnings, text."""
