"""Identification of a free-flying body that grasped something unknown."""

from .flight_log import FlightLog
from .path import FirstPath, FlightSystem
from .cycles import Cycles, IdentifyFromCycles
from .energy_balance import EnergyBalance, EnergyBalanceEstimate
from .load import BodyEstimate, body_estimate, load_estimate
from .identify import FreeFlyerResult, IdentifyFreeFlyer, true_bound
from .online import FollowedFlight, FollowFreeFlyer, WellEnough
