"""Several robots that hold one load: each learns it from its own sensors and its neighbours."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .load import LoadEstimate, TeamBelief
    from .node import CooperativeNode, NodeEvent, NodeSettings
    from .signals import ContactSignals, OriginSensors
    from .window_stream import WindowStream
    from .arm import ArmContact, ArmStream
    from .paper import PaperMethod, PaperResult
    from .method import CooperativeMethod, CooperativeResult, Known
    from .averages import AveragesMethod, AveragesResult
    from .team_file import TeamFile, TeamRobot
    from .draft import draft_team
    from .check import check_team_files
    from .results import TeamFound, identify_team_files, results_of, simulate_team_files
    from .replication import Replica, WindowMessage
    from .wire import BadMessage
    from .live import LiveNode
    from .watch import watch_team
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
