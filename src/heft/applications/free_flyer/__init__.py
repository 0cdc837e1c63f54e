"""Identification of a free-flying body that grasped something unknown."""

from .flight import Flight
from .path import FirstPath, FlightSystem
