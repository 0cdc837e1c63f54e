"""Work of a fleet's processes that some logs are deadly to; they import no more than they need."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from heft.applications.fleet import reading
from heft.applications.fleet.objects import Place


def _die_of(paths: Sequence[Place]) -> None:
    if any("deadly" in path.name for path in paths):
        os.kill(os.getpid(), signal.SIGKILL)


def chosen_or_dead(task: reading._Sample) -> object:
    """Do a worker's work, and die of logs that are called deadly."""
    _die_of([path for pair in task[1] for path in pair])
    return reading._chosen(task)


def folded_or_dead(task: reading.Task) -> reading._Read:
    """Do a worker's work, and die of logs that are called deadly."""
    _die_of([task.log.path])
    return reading.folded(task)
