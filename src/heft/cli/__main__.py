"""`python -m heft.cli`: the command line of this interpreter."""

from .commands import main

if __name__ == "__main__":
    main()
