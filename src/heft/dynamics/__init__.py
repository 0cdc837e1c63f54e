"""Equations of motion of a tree of rigid bodies: regressor kernels, drives, frame kinematics."""

from typing import TYPE_CHECKING

from heft.loading import lazy

if TYPE_CHECKING:
    from . import adjoint, drive_columns, drives, held_steps, kernels, kinematics, presliding
    from . import rigid_body
    from .rigid_body import PLACE, SPEED, SPIN, STATE, TURN, unit_turns
    from .tree import BASE_CHANNELS, FREE, PRISMATIC, REVOLUTE, Link, Tree
    from .drives import FRICTION, LINEAR_SCALE, TERMS, Column, Drive, DriveMotion, Drives, Term
    from .drives import Armature, Coulomb, Load, Offset, Sigmoid, Stop, Stribeck, Viscous
    from .drives import friction_terms, make_term, term_named
    from .drive_columns import DriveState, effort, steady
    from .kernels import DriveColumns
    from .kinematics import body_poses
    from .contacts import contact_map, contact_place
    from .cuts import Cut
else:
    __getattr__, __dir__, __all__ = lazy(__name__, __file__)
