"""The command line: typed functions as commands, and what it writes."""

from .options import EstimationOptions, SmoothingOptions
from .commands import app, identify, main
from .terminal import message, progress
