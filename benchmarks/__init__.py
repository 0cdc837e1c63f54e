"""Figures, measured: `python -m benchmarks.core` and `python -m benchmarks.real_data`."""
