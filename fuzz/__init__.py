"""Fuzzing of all that reads files: see `README.md` beside this file."""
