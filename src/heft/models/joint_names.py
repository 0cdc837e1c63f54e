"""Joints that follow others, and joints that options name."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from heft.errors import InvalidModel, InvalidSetting, did_you_mean
from heft.files import Element

from .options import Options


def mimics(root: Element, path: str) -> dict[str, tuple[str, float, float]]:
    """Return for each mimicking joint its master, multiplier and offset, chains resolved.

    The position of a mimicking joint is multiplier · q + offset, with q its master's; fixed joints
    are left out.

    Args:
        root: Root element of a URDF that `urdf.check` has passed.

    Returns:
        By name of the joint: name of a master that mimics none, multiplier, and offset [rad or m].

    Raises:
        InvalidModel: If joints mimic one another in a circle.
    """
    direct = {}
    for joint in root.all("joint"):
        mimic = joint.find("mimic")
        if mimic is not None and joint.attributes["type"] != "fixed":
            get = mimic.attributes.get
            direct[joint.attributes["name"]] = (
                mimic.attributes["joint"],
                float(get("multiplier", "1")),
                float(get("offset", "0")),
            )
    resolved = {}
    for name in direct:
        master, multiplier, offset = direct[name]
        hops = 0
        while master in direct:
            hops += 1
            if hops > len(direct):
                raise InvalidModel(
                    "joints mimic one another in a circle", argument=f"{path}, joint '{name}'"
                )
            above, factor, shift = direct[master]
            master, multiplier, offset = above, multiplier * factor, offset + multiplier * shift
        resolved[name] = (master, multiplier, offset)
    return resolved


def refuse_astray(
    mimics: dict[str, tuple[str, float, float]], joints: tuple[str, ...], path: str
) -> None:
    """Raise `InvalidModel` if a joint mimics one that does not move.

    Args:
        mimics: As `mimics` returns them.
        joints: Names of the joints that move by themselves.
    """
    for slave, (master, *_) in mimics.items():
        if master not in joints:
            raise InvalidModel(
                "a joint mimics a joint that does not move",
                argument=f"{path}, joint '{slave}'",
                got=master,
                valid=joints,
            )


def refuse_unknown(
    options: Options,
    joints: tuple[str, ...],
    mimics: Mapping[str, tuple[str, float, float]],
    fixed: Collection[str],
) -> None:
    """Raise `InvalidSetting` if options name a joint that does not exist or that mimics another.

    That a joint is fixed may be said of one that the file has fixed already, or floating.

    Args:
        joints: Names of the joints that move by themselves.
        mimics: Those that follow others, as `mimics` returns them.
        fixed: Names of the joints that the file fixes, or that are held still.
    """
    for wanted in options.joint or {}:
        if wanted in joints or (wanted in options.still and wanted in fixed):
            continue
        cure = did_you_mean(wanted, joints)
        says = f"the robot has no joint '{wanted}'"
        if wanted in mimics:
            says = f"joint '{wanted}' mimics another, and has no options of its own"
            cure = f"speak of the joint that it follows: [joint.{mimics[wanted][0]}]"
        raise InvalidSetting(says, argument=f"[joint.{wanted}]", valid=joints, cure=cure)
