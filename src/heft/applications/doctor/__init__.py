"""Diagnosis of logs before identification: errors of clock, signals, units, signs and columns."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import doctor
    from .settings import DoctorSettings
    from . import report
    from .doctor import diagnose, diagnose_files, diagnose_files as check, faults
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
