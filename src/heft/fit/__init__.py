"""One experiment: prepared, fitted, scored and judged, without files or command lines."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .settings import Limit, Limits, Progress, RowKind, Settings, silent
    from .conditions import MisfitMoments, misfit_scatter
    from .misfit import Misfit, TorqueDeviation
    from .earlier import Bodies, Earlier, columns_called, stored, stored_origin
    from .steady import STEADY, steady_evidence
    from .selection import Kept, Selection
    from .gains import gain_columns, gain_spread, of_rows, plain_problem, said_of_gains
    from .prepared import first_fit, limits_of, open_experiment, sharpened_and_delayed
    from .prepared import why_differentiated, with_told_friction
    from .experiment import ExperimentFit, fit_experiment
    from .friction_changes import friction_columns, of_friction
    from .simple_friction import SimpleFriction, rigid_torques
    from .checks import SIMPLE_FRICTION, UNIT_OF_TORQUE, in_grams, of_the_unit, torque_over_file
    from .scores import PredictedError, Score, filtered, model_effort, plant_scores
    from .alternatives import Alternative, other_estimates
    from .judged import NORMAL, Judged, Number, PlantIdentification, identify_plant
    from .judged import drive_terms, link_parameters, with_gains
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
