"""heft: what a robot weighs, how much friction it has, and how sure that is, from its logs.

>>> import heft
>>> heft.check("run1.csv", "arm.urdf")  # is the log any good?
>>> result = heft.identify("arm.urdf", ["run1.csv"], validate="run2.csv")
>>> print(result.summary())
>>> result.links["forearm"].mass, result.links["forearm"].mass_std  # [kg]
>>> result.joints["elbow"].coulomb  # [N·m]
>>> result.predict("run2.csv").torque  # shape (N, joints) [N·m]
>>> result.save("identified")  # heft.load("identified") reads it again
>>> heft.payload(result, "loaded.csv").mass  # what the robot carries [kg]

A result also has params, bse, cov(), conf_int(), to_frame(), plot(), report("report.html") and
to_urdf("new.urdf"). Models and logs are files, or what Robot.from_file and Recording.open return;
logs are also tables (pandas, Polars, Arrow) or dictionaries of columns. The names that most
programs need, each loaded when it is first used and told by help(heft.identify): see dir(heft).
"""

from .loading import lazy, refuse_shadows

refuse_shadows()

from typing import TYPE_CHECKING  # noqa: E402 - of Python's own library, by now

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .applications.doctor import check
    from .applications.identification import Identification, Identified, Result, load
    from .applications.identification import compare, identify, write
    from .applications.payload import Weigh, WeighCarried
    from .applications.payload import carried as payload
    from .applications.predict import predict_files
    from .errors import HeftError
    from .estimators import Estimate, LeastSquares, PhysicallyConsistent
    from .fit import PlantIdentification, Settings, identify_plant
    from .information import Information, Labels, Parameters
    from .models import Coupling, JointOptions, Options, RegressorColumn, Robot
    from .plants import FreeBody, Problem, RobotPlant
    from .recordings import ColumnMap, Recording
    from .signals import Smoothing, Weak
else:
    __getattr__, __dir__, _ = lazy(__name__, __file__)  # of `__all__`, help() would print all
