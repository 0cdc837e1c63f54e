"""What is wrong with a log, by the physics of the robot: the search over corrections.

Greedy: of all single corrections the one with the strongest evidence is applied and the search
goes on, up to `MOST` of them; then each is left out again, and stays only if it is needed. Where
that leads to no log that is explained, other first steps are tried. What no motion can tell (two
corrections of a symmetric arm, an offset of the last joint against the place of its load) leaves
no evidence: it is not claimed, or both are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from heft.arrays import Array
from heft.dynamics import REVOLUTE, kernels

from .evidence import LONGEST_DELAY, Correction, Evidence, Fit, Rows

MOST = 4  # corrections at a time
ODDS = 80.0  # evidence (2 ln of the odds) that a correction must have; some 200 are tried
LOOK = 30.0  # evidence at least for a step to be followed up, until all are judged together
LEADING = 5  # steps whose number is refined
BEGINNINGS = 2  # first steps that are followed up, until one leads to a log that is explained
AGAIN = 2  # times that a mended log is looked at again
SMALL_GAIN = 0.02  # logarithm of what is left over, that a step is worth at least
PLAIN = 100.0  # evidence of each of its steps, from which on it is not doubted
BELIEVABLE = 0.08  # share of the torque left over, up to which a log is explained
ALIKE = ("q sign", "tau sign", "axis", "q swap", "tau swap", "swap")
NEAR = 12.0  # evidence below which two corrections cannot be told apart
SHARE = 0.9  # of a channel's residual deviation at most left by a correction, else not worth it
HARM = 1.1  # by which no channel's residual may grow under a step of a continuous kind
HARM_SHARE = 0.1  # of the logarithm that another channel gains, which that may cost
SMALLEST_OFFSET = np.deg2rad(2.0)  # [rad]
SMALLEST_TILT = np.deg2rad(2.0)  # [rad]
SMALLEST_GAIN = np.log(1.3)  # logarithm of a wrong factor
SMALLEST_DELAY = 0.003  # [s]
DELAY_STEP = 0.004  # by which channels are asked for delays of their own [s]
DELAY_GATE = 0.85  # variance ratio, mean over channels, below which a delay is one
AGREEMENT = 5.0  # standard errors from zero that their delays must show together
LARGEST_TURN = 2.2  # turns that a joint's positions span, beyond which they are a motor's
SMALLEST_TURN = 0.05  # below which they may have been turned to radians twice
LEAST_TURN = 0.02  # that a joint of a motor moves
OFFSETS = (np.pi / 2, -np.pi / 2, np.pi, np.pi / 4, -np.pi / 4)  # where a search begins [rad]
GAINS = (1e-3, 0.01, 0.05, 0.2, 0.5, 2.0, 5.0, 20.0, 100.0)
UNLIKE = np.log(20.0)  # by how much nearer to the model file a unit must bring the torque
RATIOS = tuple(float(r) for r in np.geomspace(10.0, 250.0, 19))
UNITS = {"deg": np.pi / 180.0, "turn": 2.0 * np.pi}
DELAYS = tuple(s * d for d in (0.004, 0.008, 0.016, 0.032, 0.064, 0.128) for s in (1.0, -1.0))
UNSETTLED = 0.1  # step of an offset [rad], beyond which its search has not come to an end
DERIVATIVE_STEP = 1e-4  # [rad]


@dataclass(frozen=True)
class Move:
    """One step of a correction.

    Attributes:
        kind: `q sign`, `tau sign`, `axis`, `q swap`, `tau swap`, `swap`, `q unit`, `q scale`,
            `q offset`, `tau gain`, `tau unit`, `gravity` or `delay`.
        joints: Positions of the joints it is about; none if it is about all.
        value: Its number: factor, offset [rad], delay [s].
        gravity: For `gravity`, the vector [m/s²].
    """

    kind: str
    joints: tuple[int, ...] = ()
    value: float = 0.0
    gravity: tuple[float, float, float] | None = None

    def applied(self, to: Correction) -> Correction:
        """Return a correction followed by this step."""
        count = len(to.q_source)
        if self.kind == "gravity":
            assert self.gravity is not None
            return replace(to, gravity=self.gravity)
        if self.kind == "delay":
            return replace(to, delay=to.delay + self.value)
        if self.kind == "q offset":
            offset = [self.value if j in self.joints else 0.0 for j in range(count)]
            return to.positions(offset=offset)
        if self.kind in ("q swap", "tau swap", "swap"):
            source = list(range(count))
            for j, k in zip(self.joints, reversed(self.joints), strict=True):
                source[j] = k
            moved = to if self.kind == "tau swap" else to.positions(source)
            return moved if self.kind == "q swap" else moved.torques(source)
        every = self.joints or tuple(range(count))
        factor = -1.0 if self.kind in ("q sign", "tau sign", "axis") else self.value
        scale = [factor if j in every else 1.0 for j in range(count)]
        moved = to if self.kind.startswith("tau") else to.positions(scale=scale)
        return moved if self.kind.startswith("q") else moved.torques(scale=scale)


@dataclass(frozen=True)
class Proof:
    """A step that the torque asks for.

    Attributes:
        move: The step.
        evidence: 2 ln of the odds for it, all others given.
        before, after: Share of torque not explained without and with it, of the channel where
            that falls most.
        channel: That channel.
        others: Steps that explain the torque as well, and how much less evidence they have.
    """

    move: Move
    evidence: float
    before: float
    after: float
    channel: str
    others: tuple[tuple[Move, float], ...]


@dataclass(frozen=True)
class Explained:
    """What the search came to.

    Attributes:
        proofs: The steps, in the order in which they are to be applied.
        correction: All of them.
        unexplained: Share of each measured channel's torque that is left over, shape (channels,).
        total: The same of all together.
        rows: How many rows add something new, shape (channels,).
    """

    proofs: tuple[Proof, ...]
    correction: Correction
    unexplained: Array
    total: float
    rows: Array


class _Search:
    """One search: fits by what they share."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.memory = np.ones(len(evidence.channels))
        self._rows: dict[object, Rows] = {}
        self._energies: dict[float, Array] = {}

    def energies(self, delay: float) -> Array:
        if delay not in self._energies:
            self._energies[delay] = self.evidence.energies(delay)
        return self._energies[delay]

    def rows(self, correction: Correction) -> Rows:
        key = (correction.motion, correction.delay)
        if key not in self._rows:
            if len(self._rows) > 4:
                self._rows.clear()
            self._rows[key] = self.evidence.rows(correction)
        return self._rows[key]

    def fit(self, correction: Correction, sigma: Array | None = None) -> Fit:
        rows, energies = self.rows(correction), self.energies(correction.delay)
        return self.evidence.fit(rows, correction, self.memory, energies, sigma)

    def settle(self, correction: Correction, common: bool = True) -> Fit:
        """Return the fit with the memory of its own residual, which is kept.

        Args:
            correction: Which.
            common: Whether channels share one memory, as long as what is wrong is not known.
        """
        self.memory = np.ones(len(self.evidence.channels))
        fit = self.fit(correction)
        self.memory = self.evidence.memory(self.rows(correction), fit)
        if common:
            self.memory[:] = np.exp(np.mean(np.log(self.memory)))
        return self.fit(correction, fit.sigma)

    def moves(self, best: Fit) -> Iterator[Move]:
        """Yield the steps tried; those that share a motion come one behind another."""
        robot, measured = self.evidence.robot, self.evidence.channels
        moving = [k for k, j in enumerate(robot.joints) if robot.options.of(j).position is None]
        revolute = [k for k in moving if robot.tree.kind[_body(self.evidence, k)] == REVOLUTE]
        yield from (Move("tau sign", (j,)) for j in measured)
        yield Move("tau sign")
        yield from (Move("tau swap", (i, j)) for i in measured for j in measured if i < j)
        yield from (Move("tau gain", (j,), s) for j in measured for s in GAINS)
        size = abs(np.log(self.evidence.torque_size(best.correction)))
        for factor in (1e-3, 1e3):
            unit = Move("tau unit", (), factor)
            closer = abs(np.log(self.evidence.torque_size(unit.applied(best.correction))))
            if closer < size - UNLIKE:
                yield unit
        live = set(measured)  # torque that says nothing explains whatever it is swapped with
        for joints in (*((j,) for j in moving), ()):
            yield Move("q sign", joints)
            if live >= set(joints):
                yield Move("axis", joints)
        for pair in ((i, j) for i in moving for j in moving if i < j):
            yield Move("q swap", pair)
            if live >= set(pair):
                yield Move("swap", pair)
        yield from self._factors(best, revolute)
        weight = float(np.linalg.norm(robot.gravity))
        for vector in (*np.eye(3), *-np.eye(3), np.zeros(3)):
            x, y, z = (float(weight * c) for c in vector)
            yield Move("gravity", gravity=(x, y, z))
        for delay in DELAYS:
            if abs(best.correction.delay + delay) < LONGEST_DELAY:
                yield Move("delay", (), delay)

    def _factors(self, best: Fit, revolute: Sequence[int]) -> Iterator[Move]:
        """Yield units, gears and zeros that the positions' ranges leave room for."""
        q, _, _ = self.evidence.motion(best.correction)
        turns = np.ptp(q, axis=0) / (2.0 * np.pi)
        if sum(turns[j] > LARGEST_TURN for j in revolute) > 0.4 * len(revolute):
            yield Move("q unit", (), UNITS["deg"])
        if revolute and max(turns[j] for j in revolute) < SMALLEST_TURN:
            yield Move("q unit", (), 1.0 / UNITS["deg"])
            yield Move("q unit", (), UNITS["turn"])
        for j in revolute:
            if turns[j] > LARGEST_TURN:
                ratios = (1.0 / r for r in RATIOS if turns[j] / r > LEAST_TURN)
                for scale in (UNITS["deg"], *ratios):
                    yield Move("q scale", (j,), scale)
                    yield Move("q scale", (j,), -scale)
                continue
            if turns[j] < SMALLEST_TURN:
                yield Move("q scale", (j,), 1.0 / UNITS["deg"])
            yield Move("q scale", (j,), 0.5)
            yield Move("q scale", (j,), 2.0)
            yield from (Move("q offset", (j,), offset) for offset in OFFSETS)

    def small(self, best: Fit) -> Iterator[Move]:
        """Yield offsets and a tilt by what the residual shows of them, to first order."""
        evidence = self.evidence
        correction = best.correction
        q, v, a = evidence.motion(correction)
        tree, gravity = evidence.robot.tree, np.array(correction.gravity)
        bodies = evidence.parameters(best.values)

        def torque(shifted: Array, down: Array) -> Array:
            motion = kernels.motion_of(tree, down, shifted, v, a)
            return kernels.inverse_dynamics(tree, motion, bodies)[list(evidence.channels)]

        joints = [
            k
            for k, j in enumerate(evidence.robot.joints)
            if evidence.robot.options.of(j).position is None
            and tree.kind[_body(evidence, k)] == REVOLUTE
        ]
        effects = []
        for k in joints:
            step = DERIVATIVE_STEP * np.eye(q.shape[1])[k]
            rise = torque(q + step, gravity) - torque(q - step, gravity)
            effects.append(rise / (2.0 * DERIVATIVE_STEP))
        for k, size in zip(joints, self._sizes(best, effects), strict=True):
            yield Move("q offset", (k,), float(np.clip(size, -0.5, 0.5)))
        if not np.linalg.norm(gravity):
            return
        across = np.linalg.svd(gravity[None])[2][1:]
        level = [torque(q, gravity + DERIVATIVE_STEP * d) for d in across]
        zero = torque(q, gravity)
        tilts = [(x - zero) / DERIVATIVE_STEP for x in level]
        size = self._together(best, tilts)
        x, y, z = np.linalg.norm(gravity) * _unit(gravity + size @ across)
        yield Move("gravity", gravity=(float(x), float(y), float(z)))

    def _parts(self, best: Fit, effects: Sequence[Array]) -> tuple[Array, Array]:
        """Return normal equations of effects, what the unknowns can do taken out of them."""
        evidence, rows = self.evidence, self.rows(best.correction)
        scale = np.array([best.correction.tau_scale[c] for c in evidence.channels])
        weights = 1.0 / ((np.abs(scale) * best.sigma) ** 2 * self.memory)
        size, width = len(evidence.start), len(effects)
        ridge = evidence.tempered(rows, best.values)
        square, cross = np.diag(ridge), np.zeros((size, width))
        own, right = np.zeros((width, width)), np.zeros(width)
        left = evidence.residuals(rows, best) * scale
        for k, at in enumerate(rows.columns):
            d = np.stack([e[k] for e in effects])
            square[np.ix_(at, at)] += weights[k] * rows.squares[k]
            cross[at] += weights[k] * rows.regressors[k] @ d.T
            own += weights[k] * d @ d.T
            right += weights[k] * d @ left[:, k]
        reduced = np.linalg.solve(square, cross)
        # What is left over is orthogonal to the unknowns but for the prior's pull.
        pull = ridge * (evidence.start - best.values)
        return own - cross.T @ reduced, right + reduced.T @ pull

    def _sizes(self, best: Fit, effects: Sequence[Array]) -> Array:
        square, right = self._parts(best, effects)
        return np.asarray(right / np.maximum(np.diag(square), 1e-12))

    def _together(self, best: Fit, effects: Sequence[Array]) -> Array:
        square, right = self._parts(best, effects)
        ridge = 1e-9 * np.trace(square) * np.eye(len(right))
        return np.asarray(np.linalg.solve(square + ridge, right))

    def refined(self, move: Move, base: Correction, fit: Fit) -> tuple[Move, Fit]:
        """Return a step with its number where the torque wants it, and its fit."""
        if move.kind in ("tau gain", "q scale", "delay"):
            return self._by_parabola(move, base, fit)
        if move.kind not in ("q offset", "gravity") or move.gravity == (0.0, 0.0, 0.0):
            return move, fit
        for _ in range(5):
            for small in self.small(fit):
                if small.kind != move.kind or small.joints != move.joints:
                    continue
                if abs(small.value) > UNSETTLED and move.kind == "q offset":
                    fit = replace(fit, settled=False)
                better = replace(move, value=move.value + small.value, gravity=small.gravity)
                found = self.fit(better.applied(base), fit.sigma)
                if found.objective < fit.objective - 0.1:
                    move, fit = better, found
                    break
            else:
                break
        return move, fit

    def _by_parabola(self, move: Move, base: Correction, fit: Fit) -> tuple[Move, Fit]:
        step = 0.002 if move.kind == "delay" else 0.35 if move.kind == "tau gain" else 0.1
        for _ in range(6):
            around = []
            for side in (-step, step):
                value = (
                    move.value + side if move.kind == "delay" else move.value * float(np.exp(side))
                )
                other = replace(move, value=value)
                around.append((other, self.fit(other.applied(base), fit.sigma)))
            best = min(around, key=lambda pair: pair[1].objective)
            if best[1].objective < fit.objective:
                move, fit = best
            else:
                step *= 0.4
        return move, fit

    def worth(self, move: Move, before: Fit, after: Fit) -> bool:
        """Return whether a step matters in practice."""
        falls = after.sigma / before.sigma
        harm, gain = np.log(falls.max()), -np.log(falls.min())
        single = move.kind in ("tau gain", "q scale", "q offset", "delay")
        if single and harm > np.log(HARM) and harm > HARM_SHARE * gain:
            return False  # what is wrong in one place explains nothing worse in another
        if not self.large(move, before.correction):
            return False
        if move.kind == "delay":
            # Presliding and flexibility look like delays, though hardly.
            pooled = bool(np.mean(falls**2) < DELAY_GATE)
            return pooled and self._agreed(move, before.correction, after) > AGREEMENT
        factor = move.kind in ("tau gain", "tau unit", "q scale")
        return factor or float(falls.min()) < SHARE

    def large(self, move: Move, before: Correction) -> bool:
        """Return whether a step is larger than what good logs are off by."""
        if move.kind in ("tau gain", "tau unit", "q scale"):
            return bool(abs(np.log(abs(move.value))) > SMALLEST_GAIN or move.value < 0.0)
        if move.kind == "delay":
            return abs(move.value) >= SMALLEST_DELAY
        if move.kind == "q offset":
            return bool(abs(np.angle(np.exp(1j * move.value))) >= SMALLEST_OFFSET)
        if move.kind == "gravity":
            return bool(self._tilt(move, before) >= SMALLEST_TILT)
        return True

    def _agreed(self, move: Move, base: Correction, fit: Fit) -> float:
        """Return how many standard errors the channels' own delays are together from zero."""
        around = []
        for side in (-DELAY_STEP, DELAY_STEP):
            other = replace(move, value=move.value + side)
            around.append(self.fit(other.applied(base), fit.sigma).sigma ** 2)
        low, middle, high = around[0], fit.sigma**2, around[1]
        bend = (low + high - 2.0 * middle) / middle
        sharp = np.maximum(bend, 0.0)
        own = move.value + 0.5 * DELAY_STEP * (low - high) / middle / np.where(
            bend > 0, bend, np.inf
        )
        if not sharp.any():
            return 0.0
        mean = float(np.average(own, weights=sharp))
        variance = np.sum(sharp**2 * (own - mean) ** 2) / np.sum(sharp) ** 2
        return abs(mean) / max(float(np.sqrt(variance)), 1e-4)

    def _tilt(self, move: Move, before: Correction) -> float:
        assert move.gravity is not None
        a, b = np.array(move.gravity), np.array(before.gravity)
        if not a.any() or not b.any():
            return float(np.pi)
        cosine = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
        return float(np.arccos(np.clip(cosine, -1.0, 1.0)))

    def next(self, best: Fit) -> list[tuple[Move, Fit]]:
        """Return the steps with the strongest evidence, refined, by falling evidence."""
        base = best.correction
        tried: list[tuple[Move, Fit]] = []
        for move in (*self.moves(best), *self.small(best)):
            tried.append((move, self.fit(move.applied(base), best.sigma)))
        common = best.objective - LOOK

        def order(tried: tuple[Move, Fit]) -> tuple[bool, float]:
            """One unit for all is likelier than many joints of which each is off."""
            move, fit = tried
            return not (move.kind.endswith("unit") and fit.objective < common), fit.objective

        leading: dict[tuple[str, tuple[int, ...]], tuple[Move, Fit]] = {}
        for move, fit in sorted(tried, key=order):
            key = (move.kind, move.joints)
            if len(leading) < LEADING and key not in leading:
                leading[key] = self.refined(move, base, fit)
        found = [(m, f) for m, f in leading.values() if f.settled and self.large(m, base)]
        return sorted(found, key=order)

    def descend(self, best: Fit, first: list[tuple[Move, Fit]]) -> Correction:
        """Return where the steps of strongest evidence lead, from a choice of first ones."""
        candidates = first
        for _ in range(MOST):
            if not candidates or candidates[0][1].objective > best.objective - LOOK:
                break
            best = self.settle(candidates[0][1].correction)
            candidates = self.next(best)
        return best.correction

    def followed(self, start: Correction, best: Fit, first: list[tuple[Move, Fit]]) -> Explained:
        """Return what is needed of the steps that first ones lead to."""
        reached = self.descend(best, first)
        return self.concluded(start, self.polished(start, steps(reached, start)))

    def polished(self, start: Correction, moves: tuple[Move, ...]) -> tuple[Move, ...]:
        """Return steps with each number where the torque wants it, all the others given."""
        kept = list(moves)
        best = self.settle(_whole(start, kept))
        for k, move in enumerate(moves if len(moves) > 1 else ()):
            base = _whole(start, [m for j, m in enumerate(kept) if j != k])
            fit = self.fit(move.applied(base), best.sigma)
            better, found = self.refined(move, base, fit)
            if found.settled:
                kept[k] = better
        return tuple(kept)

    def concluded(self, start: Correction, moves: tuple[Move, ...]) -> Explained:
        """Return the steps that are needed, each proved with all the others given."""
        evidence = self.evidence

        kept = list(moves)
        while True:
            best = self.settle(_whole(start, kept), common=False)
            without = [self.fit(_whole(start, [m for m in kept if m is not move])) for move in kept]
            gains = [fit.objective - best.objective for fit in without]
            weak = [
                k
                for k, move in enumerate(kept)
                if gains[k] < ODDS or not self.worth(move, without[k], best)
            ]
            if not weak:
                break
            kept.pop(min(weak, key=lambda k: gains[k]))
        size = np.maximum(evidence.effort_size, 1e-12)
        sources = [best.correction.tau_source[c] for c in evidence.channels]
        proofs = []
        for move, gain, fit in zip(kept, gains, without, strict=True):
            k = int(np.argmin(best.sigma / fit.sigma))
            proofs.append(
                Proof(
                    move,
                    float(gain),
                    float(fit.sigma[k] / size[sources[k]]),
                    float(best.sigma[k] / size[sources[k]]),
                    evidence.robot.joints[evidence.channels[k]],
                    tuple(self._rivals(move, fit, best)),
                )
            )
        total = float(np.sqrt(np.sum(best.sigma**2) / np.sum(size[sources] ** 2)))
        return Explained(
            tuple(proofs),
            best.correction,
            np.asarray(best.sigma / size[sources]),
            total,
            evidence.count / self.memory,
        )

    def _rivals(self, move: Move, without: Fit, best: Fit) -> Iterator[tuple[Move, float]]:
        """Yield steps of the same kind of place that explain the torque as well as one found."""
        if move.kind not in ALIKE:
            return
        for kind in ALIKE:
            joints = [move.joints]
            if kind in ("q sign", "tau sign", "axis") and len(move.joints) == 2:
                joints = [(move.joints[0],), (move.joints[1],)]
            elif kind.endswith("swap") and len(move.joints) < 2:
                continue
            for chosen in joints:
                other = Move(kind, chosen)
                dead = kind != "q sign" and not set(self.evidence.channels) >= set(chosen)
                if other == move or dead:
                    continue
                apart = self.fit(other.applied(without.correction), best.sigma).objective
                if apart - best.objective < NEAR:
                    yield other, float(apart - best.objective)


def _whole(start: Correction, moves: Sequence[Move]) -> Correction:
    found = start
    for move in moves:
        found = move.applied(found)
    return found


def _unit(vector: Array) -> Array:
    return np.asarray(vector / np.linalg.norm(vector))


def _body(evidence: Evidence, channel: int) -> int:
    return int(np.flatnonzero(evidence.robot.tree.channel == channel)[0])


def steps(correction: Correction, start: Correction) -> tuple[Move, ...]:
    """Return single steps that make up a correction of columns that are right in `start`.

    Swaps come first, then units, signs, factors and offsets, then gravity and delay.
    """
    found: list[Move] = []
    q, tau = list(correction.q_source), list(correction.tau_source)
    if q == tau:
        found += [Move("swap", pair) for pair in _swaps(q)]
    else:
        found += [Move("q swap", pair) for pair in _swaps(q)]
        found += [Move("tau swap", pair) for pair in _swaps(tau)]
    scale = np.array(correction.q_scale)
    known = (*UNITS.values(), 1.0 / UNITS["deg"])
    unit = next((u for u in known if np.sum(np.abs(scale) == u) > len(scale) / 2), None)
    if unit is not None:
        found.append(Move("q unit", (), unit))
        scale = scale / unit
    gain = np.array(correction.tau_scale)
    common = float(np.exp(np.median(np.log(np.abs(gain)))))
    if len(gain) > 1 and np.all(np.abs(np.log(np.abs(gain))) > UNLIKE):
        unit = next((u for u in (1e-3, 1e3) if abs(np.log(common / u)) < np.log(3.0)), common)
        found.append(Move("tau unit", (), unit))
        gain = gain / unit
    for j in range(len(scale)):
        flipped = scale[j] < 0.0, gain[j] < 0.0
        if any(flipped):
            kind = "axis" if all(flipped) else "q sign" if flipped[0] else "tau sign"
            found.append(Move(kind, (j,)))
        if not np.isclose(abs(scale[j]), 1.0):
            found.append(Move("q scale", (j,), float(abs(scale[j]))))
        if not np.isclose(abs(gain[j]), 1.0):
            found.append(Move("tau gain", (j,), float(abs(gain[j]))))
        if correction.q_offset[j] != 0.0:
            found.append(Move("q offset", (j,), correction.q_offset[j]))
    if correction.gravity != start.gravity:
        found.append(Move("gravity", gravity=correction.gravity))
    if correction.delay:
        found.append(Move("delay", (), correction.delay))
    return tuple(found)


def _swaps(source: list[int]) -> Iterator[tuple[int, int]]:
    """Yield pairs whose swaps, one after another, lead to an order."""
    order = list(range(len(source)))
    for j, wanted in enumerate(source):
        k = order.index(wanted)
        if k != j:
            yield (j, k)
            order[j], order[k] = order[k], order[j]


def explain(evidence: Evidence) -> Explained:
    """Return which corrections of the logs the torque asks for.

    Args:
        evidence: The part of the logs that is looked at.
    """
    search = _Search(evidence)
    start = Correction.none(evidence.robot)
    still = search.settle(start)
    first = search.next(still)
    if not first or first[0][1].objective > still.objective - LOOK:
        return search.concluded(start, ())
    found: list[Explained] = []
    for k in range(min(BEGINNINGS, len(first))):
        found.append(search.followed(start, search.settle(start), first[k : k + 1]))
        proved = [p.evidence for p in found[-1].proofs]
        if found[-1].total < BELIEVABLE and min(proved, default=0.0) > PLAIN:
            break
    best = min(found, key=_left)
    for _ in range(AGAIN if best.proofs else 0):  # what was hidden behind what is mended now
        mended = search.settle(best.correction)
        further = search.followed(start, mended, search.next(mended))
        if _left(further) >= _left(best) - SMALL_GAIN:
            break
        best = further
    return best


def _left(found: Explained) -> float:
    """Return the mean logarithm of what is left over, dearer with each step."""
    return float(np.mean(np.log(found.unexplained))) + SMALL_GAIN * len(found.proofs)
