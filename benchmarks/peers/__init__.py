"""Adapters that fit the same data with other tools, each run in a process of its own."""
