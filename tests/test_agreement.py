"""Laws of agreement: means over networks, and windows that reach everybody whatever is lost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from heft.applications.cooperation import Replica
from heft.applications.cooperation.replication import MOST_WINDOWS
from heft.errors import InvalidSetting
from heft.information import Graph, Spectrum, chebyshev
from heft.information.consensus import step
from tests.network import NetworkFaults, SimulatedNetwork

GRAPHS = {
    "ring": Graph.ring(30),
    "grid": Graph.grid(5, 6),
    "expander": Graph.regular(60, 6, 1),
}
every_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)


def disagreement(held: np.ndarray, mean: np.ndarray) -> float:
    return float(np.linalg.norm(held - mean))


@every_graph
def test_rounds_keep_the_mean_and_accelerated_ones_reach_it_sooner(graph: Graph) -> None:
    held = np.random.default_rng(0).normal(size=(graph.count, 3))
    mean, spectrum, rounds = held.mean(axis=0), Spectrum.of(graph), 25
    plain = held
    for _ in range(rounds):
        plain = np.array(
            [
                step(plain[i], [plain[j] for j in others], spectrum.gain)
                for i, others in enumerate(graph.neighbours)
            ]
        )
    fast = chebyshev(held, graph, rounds, spectrum)
    assert np.abs(plain.mean(axis=0) - mean).max() < 1e-12
    assert np.abs(fast.mean(axis=0) - mean).max() < 1e-12
    assert disagreement(fast, mean) < 0.5 * disagreement(plain, mean)
    # Chebyshev's bound: 2 r^k of what it was, r = (1 − √(1 − ρ²)) / ρ.
    r = (1.0 - np.sqrt(1.0 - spectrum.rate**2)) / spectrum.rate
    assert disagreement(fast, mean) <= 2.0 * r**rounds * disagreement(held, mean)


def test_random_graphs_are_connected_and_regular() -> None:
    graph = Graph.regular(200, 6, 3)
    assert {len(k) for k in graph.neighbours} == {6}
    assert graph == Graph.regular(200, 6, 3)
    with pytest.raises(InvalidSetting, match="pairs"):
        Graph.regular(10, 3)


def replicas(count: int) -> tuple[list[Replica], Callable[[int], None]]:
    rng = np.random.default_rng(2)
    nodes = [Replica(k) for k in range(count)]

    def each(now: int) -> None:
        for node in nodes:
            if now < 40 and node.own not in node.ended:
                node.add(rng.normal(size=24))

    return nodes, each


@pytest.mark.parametrize("seed", range(3))
def test_what_was_measured_reaches_everybody_to_the_bit(seed: int) -> None:
    nodes, each = replicas(6)
    faults = NetworkFaults(lost=0.3, doubled=0.2, latest=4)
    SimulatedNetwork(Graph.ring(6).neighbours, faults, seed).run(nodes, 90, each)
    origins = tuple(range(6))
    rows = [np.array([[n.windows[o][k] for k in range(40)] for o in origins]) for n in nodes]
    assert all(node.complete(6) == 40 for node in nodes)
    assert all(np.array_equal(rows[0], other) for other in rows[1:])


def test_what_was_told_before_a_death_stays() -> None:
    nodes, each = replicas(5)

    def until(now: int) -> None:
        if now == 20:
            nodes[2].let_go()
        each(now)

    network = SimulatedNetwork(Graph.ring(5).neighbours, NetworkFaults(lost=0.3), 4)
    network.run(nodes, 120, until, {2: 40})
    for node in (nodes[k] for k in (0, 1, 3, 4)):
        assert node.count(2) == 20 and node.ended == {2: 20}
        assert node.holding(19) == (0, 1, 2, 3, 4) and node.holding(20) == (0, 1, 3, 4)
        assert node.complete(5) == 40
    with pytest.raises(InvalidSetting, match="let go"):
        nodes[2].add(np.zeros(24))


def test_a_message_twice_is_a_message_once_and_none_is_large() -> None:
    one, other = Replica(0), Replica(1)
    for k in range(1000):
        one.add(np.full(24, float(k)))
    message = one.message(1)
    assert len(message.windows) == MOST_WINDOWS and message.size < 64 * 1024
    for _ in range(2):
        other.receive(0, message)
    assert other.count(0) == MOST_WINDOWS
    one.receive(1, other.message(0))
    assert one.message(1).windows[0][1] == MOST_WINDOWS
