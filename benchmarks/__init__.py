"""Measurements. ``python -m benchmarks`` makes the page; every other file is a study of its own."""
