"""``python -m outcode`` is the command line."""

from outcode.app.cli import main

if __name__ == "__main__":
    main()
