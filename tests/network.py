"""A network in virtual time: messages are lost, doubled, late and out of order, by a seed.

A run that fails is run again from its seed. Nodes are any objects that send and receive.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from heft.errors import InvalidSetting


class NetworkNode(Protocol):
    """A node that exchanges messages with its neighbours in a network."""

    def message(self, neighbour: int) -> Any:
        """Return the message to a neighbour."""

    def receive(self, neighbour: int, message: Any) -> None:
        """Take in a neighbour's message."""


@dataclass(frozen=True)
class NetworkFaults:
    """Faults of a network: messages that are lost, doubled or late."""

    lost: float = 0.0  # share that is lost
    doubled: float = 0.0  # share that comes twice
    latest: int = 0  # rounds that one is late, at most: drawn evenly, so that order changes

    def __post_init__(self) -> None:
        if not (0.0 <= self.lost < 1.0 and 0.0 <= self.doubled <= 1.0 and self.latest >= 0):
            raise InvalidSetting(
                "shares are between 0 and 1, rounds counted",
                argument="lost, doubled, latest",
                got=f"{self.lost:g}, {self.doubled:g}, {self.latest}",
            )


@dataclass(frozen=True)
class SimulatedNetwork:
    """A network in virtual time: who is whose neighbour, and faults of messages."""

    neighbours: Sequence[Sequence[int]]  # of each node
    faults: NetworkFaults = NetworkFaults()  # of messages
    seed: int = 0  # of what happens to them

    def run(
        self,
        nodes: Sequence[NetworkNode],
        rounds: int,
        each: Callable[[int], None] = lambda _: None,
        silent: Mapping[int, int] | None = None,
    ) -> int:
        """Exchange messages between nodes; return how many were sent.

        Args:
            nodes: One for each list of neighbours.
            rounds: How often every node sends a message to each neighbour.
            each: Called with each round before messages are sent: what nodes measure then.
            silent: By node, the round from which on it neither sends nor receives.
        """
        rng = np.random.default_rng(self.seed)
        gone = dict(silent or {})
        flying: list[tuple[int, int, int, int, Any]] = []
        sent = 0
        for now in range(rounds + self.faults.latest + 1):
            if now < rounds:
                each(now)
                for i, others in enumerate(self.neighbours):
                    if now >= gone.get(i, rounds):
                        continue
                    for j in others:
                        sent += 1
                        if rng.random() < self.faults.lost:
                            continue
                        message = nodes[i].message(j)
                        for _ in range(1 + (rng.random() < self.faults.doubled)):
                            due = now + int(rng.integers(0, self.faults.latest + 1))
                            heapq.heappush(flying, (due, int(rng.integers(1 << 62)), i, j, message))
            while flying and flying[0][0] <= now:
                _, _, i, j, message = heapq.heappop(flying)
                if now < gone.get(j, rounds + self.faults.latest + 1):
                    nodes[j].receive(i, message)
        return sent
