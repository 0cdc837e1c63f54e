"""`python -m heft`: the command line of this interpreter."""

from heft.cli import main

if __name__ == "__main__":
    main()
