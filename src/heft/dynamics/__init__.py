"""Equations of motion of a tree of bodies: kernels, drives, frames."""

from . import drive_columns, kernels, kinematics, presliding
from .tree import BASE_CHANNELS, FREE, PRISMATIC, REVOLUTE, Link, Tree
from .drives import FRICTION, LINEAR_SCALE, Drive, Term, by_kind
from .drive_columns import Course, effort, steady
from .kinematics import body_poses
