"""``python -m outcode`` is the command line."""

from outcode.cli import main

if __name__ == "__main__":
    main()
