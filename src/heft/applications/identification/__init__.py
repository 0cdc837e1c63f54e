"""Identification of inertial and friction parameters from logs of motion and torque."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import any_plant, compare_report, contract, report, results
    from .identification import Identification
    from .answers import BODY, Answers, Body, Joint
    from .inputs import Result, identify
    from .results import refuse_foreign, schema, write
    from .identified import Identified, Prediction, identified_model, load
    from .report import next_motion
    from .comparison import compare
    from .difference import Difference
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
