"""Diagnosis of logs before identification: errors of clock, signals, units, signs and columns."""

from . import doctor
from .settings import DoctorSettings
from .doctor import diagnose, diagnose_files
