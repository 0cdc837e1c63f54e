"""What is wrong with a log."""

from . import doctor
from .settings import DoctorSettings
from .doctor import diagnose, diagnose_files
