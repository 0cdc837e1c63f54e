"""Identification of a free-flying body that grasped something unknown."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .flights import DesignedFlight, TrackedFlight, commanded_flight, design_files, open_flyer
    from .flights import track_files
    from .results import IdentifiedFlyer, identify_files
    from .study import Study, StudySettings, study_files
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
