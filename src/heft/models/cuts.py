"""Where wrench sensors cut a robot: fixed joints whose two sides become bodies of their own.

A sensor sits at the joint by which a link hangs on the one before it. Where that joint moves, it
is where two bodies meet anyhow. Where it is fixed, what is before and what is beyond would be one
body, of which joints' torques see the sum alone, and the sensor the part beyond it.
"""

from __future__ import annotations

from heft.errors import InvalidSetting, did_you_mean
from heft.files import Element

from .options import Options
from .urdf import ends


def cut_joints(root: Element, options: Options) -> frozenset[str]:
    """Return the names of the fixed joints at which wrench sensors sit.

    Args:
        root: Root element of a URDF that `urdf.check` has passed.

    Raises:
        InvalidSetting: If a sensor's link is none of the robot's, or nothing is before it.
    """
    above = {ends(j)[1]: j for j in root.all("joint")}
    links = [k.attributes["name"] for k in root.all("link")]
    found = set()
    for name, sensor in (options.sensor or {}).items():
        if sensor.link not in links:
            raise InvalidSetting(
                f"a wrench sensor sits before '{sensor.link}', which is no link of the robot",
                argument=f"[sensor.{name}], link",
                valid=links,
                cure=did_you_mean(sensor.link, links),
            )
        if sensor.link not in above:
            raise InvalidSetting(
                f"nothing is before '{sensor.link}' that a sensor could hold it by",
                argument=f"[sensor.{name}], link",
                valid=list(above),
                cure="name the first link beyond the sensor; of a sensor below the base, give the "
                "model file a link before it and a joint of type fixed between the two",
            )
        joint = above[sensor.link]
        if joint.attributes["type"] == "fixed":
            found.add(joint.attributes["name"])
    return frozenset(found)
