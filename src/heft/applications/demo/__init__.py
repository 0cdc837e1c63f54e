"""Demonstration: a simulated experiment with a six-joint arm and its true parameters."""

from .demo import FOLDER, run
