"""Agreement over a network: what neighbours hold, each in own coordinates, becomes a mean.

Robot i holds x_i; a linear map A_ij takes coordinates of robot j to those of i: A_ij = A_ik A_kj.
Each round every robot moves towards what its neighbours hold, in its own coordinates,

    x_i ← x_i + ε Σ_j (A_ij x_j − x_i),        j a neighbour of i   [Fan2017, (34)]

which tends to the mean of all A_ij x_j. The sum is n times that: the number n of robots that hold
something has to be known, which the paper does not say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from heft.arrays import Array
from heft.errors import InvalidSetting

from .rotation import skew

Edge = tuple[int, int]


@dataclass(frozen=True)
class Graph:
    """Undirected communication graph of a team of robots.

    Raises:
        InvalidSetting: If an edge is between other robots, or not all robots are connected.
    """

    count: int  # number of robots n
    edges: tuple[Edge, ...]  # pairs of robots, each once, the smaller number first

    def __post_init__(self) -> None:
        odd = [e for e in self.edges if not 0 <= e[0] < e[1] < self.count]
        if odd:
            raise InvalidSetting(
                "an edge is between two robots, the smaller number first",
                argument="edges",
                got=odd[0],
            )
        _, part = connected_components(csr_array(self.laplacian))
        reached = int(np.sum(part == part[0]))
        if reached < self.count:
            raise InvalidSetting(
                "not all robots are connected",
                argument="edges",
                got=f"from robot 0 only {reached} of {self.count} are reached",
            )

    @staticmethod
    def ring(count: int) -> Graph:
        """Return a ring of robots."""
        pairs = {tuple(sorted((k, (k + 1) % count))) for k in range(count) if count > 1}
        return Graph(count, tuple(sorted((a, b) for a, b in pairs)))

    @staticmethod
    def grid(rows: int, columns: int) -> Graph:
        """Return a grid of robots, row by row."""
        across = [
            (r * columns + c, r * columns + c + 1) for r in range(rows) for c in range(columns - 1)
        ]
        down = [(k, k + columns) for k in range((rows - 1) * columns)]
        return Graph(rows * columns, tuple(sorted([*across, *down])))

    @staticmethod
    def regular(count: int, degree: int, seed: int = 0) -> Graph:
        """Return a random regular graph, in which all robots have equally many neighbours.

        Args:
            degree: Number of neighbours, even, below the number of robots.
            seed: Seed of the random rings whose union the graph is.

        Raises:
            InvalidSetting: If the degree is odd, or not below n.
        """
        if degree % 2 or not 0 < degree < count:
            raise InvalidSetting(
                "neighbours are counted in pairs, fewer than robots",
                argument="degree",
                got=f"{degree} of {count} robots",
            )
        rng = np.random.default_rng(seed)
        edges: set[Edge] = set()
        for ring in range(degree // 2):
            for _ in range(1000):
                order = rng.permutation(count)
                new = {
                    (int(min(a, b)), int(max(a, b)))
                    for a, b in zip(order, np.roll(order, 1), strict=True)
                }
                # Almost regular where rings share an edge, which a few tries avoid in large graphs.
                if not new & edges or count < 4 * (ring + 1) * degree:
                    break
            edges |= new
        return Graph(count, tuple(sorted(edges)))

    def among(self, robots: Sequence[int]) -> Graph:
        """Return the subgraph of some robots, or their complete graph if that is not connected.

        Args:
            robots: Numbers of the robots; they are renumbered in this order.
        """
        place = {robot: k for k, robot in enumerate(robots)}
        edges = tuple((place[a], place[b]) for a, b in self.edges if a in place and b in place)
        try:
            return Graph(len(robots), edges)
        except InvalidSetting:
            count = len(robots)
            return Graph(count, tuple((a, b) for a in range(count) for b in range(a + 1, count)))

    @property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of each robot's neighbours, ascending."""
        lists: list[list[int]] = [[] for _ in range(self.count)]
        for a, b in self.edges:
            lists[a].append(b)
            lists[b].append(a)
        return tuple(tuple(sorted(k)) for k in lists)

    @property
    def laplacian(self) -> Array:
        """L, shape (n, n): degrees on the diagonal, −1 where two are neighbours."""
        matrix = np.zeros((self.count, self.count))
        for a, b in self.edges:
            matrix[[a, b], [b, a]] = -1.0
        return np.asarray(np.diag(-matrix.sum(axis=1)) + matrix)


@dataclass(frozen=True)
class Spectrum:
    """Bounds of the Laplacian's nonzero eigenvalues, which set the rate of consensus."""

    least: float  # second least eigenvalue, of the slowest mode
    most: float  # largest eigenvalue

    @staticmethod
    def of(graph: Graph) -> Spectrum:
        """Return the spectrum of a graph; a robot needs all neighbourhoods to compute it."""
        values = np.linalg.eigvalsh(graph.laplacian)
        return Spectrum(float(values[1]), float(values[-1]))

    @property
    def gain(self) -> float:
        """Best gain ε of `step`."""
        return 2.0 / (self.least + self.most)

    @property
    def rate(self) -> float:
        """Factor ρ on the disagreement in each round of `step` with that gain."""
        return (self.most - self.least) / (self.most + self.least)


def chebyshev(values: Array, graph: Graph, rounds: int, spectrum: Spectrum | None = None) -> Array:
    """Return each robot's value after accelerated rounds, all in common coordinates.

    Chebyshev's recursion [Golub1961] of `step`: x ← ω (step(x) − x₋) + x₋.

    Args:
        values: Value of each robot, shape (n, k).
        spectrum: Spectrum of the graph; computed if None.
    """
    bounds = Spectrum.of(graph) if spectrum is None else spectrum
    laplacian = csr_array(graph.laplacian)
    now, before, factor = np.array(values, dtype=float), np.array(values, dtype=float), 1.0
    for _ in range(rounds):
        moved = now - bounds.gain * (laplacian @ now)
        now, before = factor * (moved - before) + before, now
        half = 0.5 if factor == 1.0 else 0.25
        factor = 1.0 / (1.0 - half * bounds.rate**2 * factor)
    return now


def step(value: Array, others: Sequence[Array], gain: float) -> Array:
    """Return a robot's value after one round, in its own coordinates; [Fan2017, (34)].

    Args:
        value: Its value before, of any shape.
        others: Values of its neighbours, mapped to its coordinates.
        gain: ε, below one over the largest number of neighbours.
    """
    return np.asarray(value + gain * sum((x - value for x in others), np.zeros_like(value)))


def averaged(
    values: Array, maps: dict[Edge, Array], graph: Graph, rounds: int, gain: float = 0.4
) -> Array:
    """Return each robot's value after some rounds in which no message is lost.

    Args:
        values: Values of each robot, shape (n, N, k): N vectors at once.
        maps: A_ij by (i, j), both directions of each edge, shape (k, k).
        gain: ε of `step`.
    """
    neighbours = graph.neighbours
    now = np.array(values, dtype=float)
    for _ in range(rounds):
        now = np.array(
            [
                step(now[i], [now[j] @ maps[i, j].T for j in neighbours[i]], gain)
                for i in range(graph.count)
            ]
        )
    return now


def consensus_maps(poses: Mapping[Edge, tuple[Array, Array]]) -> dict[Edge, Array]:
    """Return the maps of wrenches by (i, j): transposed adjoints of the poses [Fan2017, (22)].

    Args:
        poses: R and t that take coordinates of i to those of j, by (j, i).

    Returns:
        Shape (6, 6), of moment, then force.
    """
    maps = {}
    for (j, i), (R, t) in poses.items():
        adjoint = np.zeros((6, 6))
        adjoint[:3, :3] = adjoint[3:, 3:] = R
        adjoint[3:, :3] = skew(t) @ R
        maps[i, j] = adjoint.T
    return maps
