"""Several robots that hold one load: each learns it from its own sensors and its neighbours."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from .signals import ContactSignals, LoadEstimate
    from .arm import ArmContact, ArmStream
    from .paper import PaperMethod, PaperResult
    from .beliefs import TeamBelief
    from .method import CooperativeMethod, CooperativeResult, Known
    from .averages import AveragesMethod, AveragesResult
    from .team_file import TeamFile, TeamRobot
    from .results import TeamFound, identify_team_files, simulate_team_files
    from .replication import Replica, WindowMessage
    from .window_stream import OriginSensors, WindowStream
    from .node import CooperativeNode, NodeEvent, NodeSettings
    from .wire import BadMessage
    from .live import LiveNode
    from .watch import watch_team
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
