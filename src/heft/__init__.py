"""heft: what a robot weighs, how much friction it has, and how sure that is, from its logs."""

__version__ = "0.1.0"
