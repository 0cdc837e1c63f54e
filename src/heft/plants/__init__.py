"""What makes rows of signals: a robot, a body held at a wrench sensor; and the problem."""

from .rows import Believed, Residuals, Rows, Samples
from .robot import both_sides, random_drive_state, random_states
from .robot import rows_of, standard_rows, structural_base
from .problem import Problem
from .payload_on_robot import GUESS, NAME, carrying, currents, last_frame, load_columns, with_load
from .held_body import CHANNEL_UNITS, CHANNELS, GAP_STEPS, Held, Unknowns, at_first
from .held_body import noise_covariance, sides, whitened
from .wrench_sensor import Point, linearised
