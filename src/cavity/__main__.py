"""``python -m cavity``: the command line."""

from cavity.cli import main

if __name__ == "__main__":
    main()
