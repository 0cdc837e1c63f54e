"""A free-flying body that grasped something: its design, flight and identification."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .flight_design import FlightReference, design_flight
    from .flyer_model import FilterSettings, FlightFilter, FlyerModel
    from .predictive_tracking import Plan, PredictiveTracking, TrackingSettings
    from .free_flight import Flight, FlightFaults, FlightSettings, FlightTruth, fly
    from .flight_log import FlightLog
    from .path import FirstPath, FlightSystem
    from .cycles import Cycles, IdentifyFromCycles
    from .energy_balance import EnergyBalance, EnergyBalanceEstimate
    from .identify import BodyEstimate, FreeFlyerResult, IdentifyFreeFlyer, body_estimate
    from .identify import given, load_estimate
    from .online import FollowedFlight, FollowFreeFlyer, WellEnough
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
