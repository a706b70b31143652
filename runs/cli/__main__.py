"""`python -m runs.cli` is `outlive`."""

from runs.cli import main

if __name__ == "__main__":
    main()
