"""Tell a Universal Robots arm what it holds, as heft weighs it: a node of ROS 2.

It listens to the inertias that `heft payload --live` publishes, and sets the arm's payload by the
driver's service whenever what is held has become another. The sensor's frame has to be the tool
flange's.

    source /opt/ros/jazzy/setup.bash
    python examples/universal_robots_payload.py

Needs ROS 2 with `ur_robot_driver` of 2026 or later, whose service takes the inertia.
"""

from __future__ import annotations

import math
from typing import Any

INERTIA = "/heft/payload"  # geometry_msgs/InertiaStamped
SERVICE = "/io_and_status_controller/set_payload"  # ur_msgs/srv/SetPayload
MOMENTS = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
OTHER_MASS = 0.02  # of its mass by which a load is another one
LIGHTEST = 0.05  # [kg], less is not told from nothing
SHIFTED = 0.005  # [m], of a load's centre
TRANSITION = 1  # [s] in which the arm goes over to the new payload


def known(load: Any) -> bool:
    """Return whether mass and centre of mass are known; heft sends no number where they are not."""
    return all(map(math.isfinite, (load.m, load.com.x, load.com.y, load.com.z)))


def another(load: Any, told: Any) -> bool:
    """Return whether a load differs from the one that the arm was told of, or from none."""
    if told is None:
        return True
    if abs(load.m - told.m) > max(OTHER_MASS * told.m, LIGHTEST):
        return True
    shifts = (abs(getattr(load.com, k) - getattr(told.com, k)) for k in "xyz")
    return load.m > LIGHTEST and max(shifts) > SHIFTED


def filled(request: Any, load: Any) -> Any:
    """Return the service's request with a load in it; what is not seen of the inertia is 0.

    Args:
        request: Of ur_msgs/srv/SetPayload; from Makoa on its load is a geometry_msgs/Inertia.
        load: geometry_msgs/Inertia.
    """
    for name in MOMENTS:
        if not math.isfinite(getattr(load, name)):
            setattr(load, name, 0.0)
    if hasattr(request, "payload"):
        request.payload = load
    else:
        request.mass, request.center_of_gravity = load.m, load.com
        for name in MOMENTS:
            setattr(request, name, getattr(load, name))
    request.transition_time.sec = TRANSITION
    return request


def main() -> None:
    """Run the node until Ctrl-C."""
    import rclpy
    from geometry_msgs.msg import InertiaStamped
    from ur_msgs.srv import SetPayload

    rclpy.init()
    node = rclpy.create_node("payload_of_heft")
    client = node.create_client(SetPayload, SERVICE)
    told: list[Any] = []

    def listen(message: Any) -> None:
        load = message.inertia
        if not known(load) or not another(load, told[0] if told else None):
            return
        if not client.service_is_ready():
            node.get_logger().warning(f"{SERVICE} is not there")
            return
        told[:] = [load]
        node.get_logger().info(f"{load.m:.3f} kg")
        client.call_async(filled(SetPayload.Request(), load))

    node.create_subscription(InertiaStamped, INERTIA, listen, 10)
    try:
        rclpy.spin(node)
    except KeyboardInterrupt:
        pass
    finally:
        node.destroy_node()


if __name__ == "__main__":
    main()
