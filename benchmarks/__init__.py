"""Figures, measured: `python -m benchmarks.core`, say; what is stored: `python -m benchmarks`."""
