"""What is wrong with a log."""

from . import doctor
from .doctor import diagnose, diagnose_files
