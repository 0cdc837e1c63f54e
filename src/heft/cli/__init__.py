"""The command line: typed functions as commands, and what it writes."""

from .options import EstimationOptions, Logs, Map, Names, SmoothingOptions, With
from .terminal import message, progress, progress_unless
from .commands import app, identify, main
