"""``python -m benchmarks``: measure, and write the page."""

from benchmarks.page import main

if __name__ == "__main__":
    main()
