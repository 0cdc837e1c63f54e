"""A simulated experiment with a six-joint arm, shipped with its truth."""

from .demo import FOLDER, run
