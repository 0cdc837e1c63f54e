"""`python -m heft`: the command line of this interpreter."""

from heft.cli.commands import main

if __name__ == "__main__":
    main()
