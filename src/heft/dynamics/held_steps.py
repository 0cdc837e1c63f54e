"""Compiled steps of a tree under the held efforts of a joint controller.

The implicit midpoint rule: over a step h the acceleration a is constant, and

    M(q_m) a + bias(q_m, v_m) + friction(v_m) = τ,        q_m = q + h v/2,    v_m = v + h a/2

so that what is simulated obeys the rows of the regressor at midpoints exactly, with the effort that
is held there. It is of second order, and stable however steep friction is at standstill.

One sample after another, not blocks of them as in `walk`: Newton and Euler outwards and back for
the bias torque, composite bodies for the mass matrix [Featherstone2008, chapters 5 and 6], in
classical accelerations of the bodies' origins.
"""

from __future__ import annotations

import numpy as np

from heft.compiled import Kernels, contracted

SETTLED = 1e-13  # change of a velocity at which they end [rad/s or m/s]


@contracted
def _turned(R, x, y, z, out):  # type: ignore[no-untyped-def]
    """Write R [x y z]."""
    for i in range(3):
        out[i] = R[3 * i] * x + R[3 * i + 1] * y + R[3 * i + 2] * z


@contracted
def _turned_back(R, x, y, z, out):  # type: ignore[no-untyped-def]
    """Write Rᵀ [x y z]."""
    for i in range(3):
        out[i] = R[i] * x + R[3 + i] * y + R[6 + i] * z


@contracted
def _cross(a, b, out):  # type: ignore[no-untyped-def]
    out[0] = a[1] * b[2] - a[2] * b[1]
    out[1] = a[2] * b[0] - a[0] * b[2]
    out[2] = a[0] * b[1] - a[1] * b[0]


@contracted
def _place(tree, offset, q, R, p):  # type: ignore[no-untyped-def]
    """Write rotation and place of each body in its parent."""
    _, kind, _, channel, multiplier, constant, sine, cosine, translation, axis = tree
    for b in range(kind.shape[0]):
        x = multiplier[b] * q[channel[b]] + offset[b]
        s = np.sin(x) if kind[b] == 0 else 0.0
        c = np.cos(x) if kind[b] == 0 else 0.0
        for j in range(9):
            R[b, j] = constant[b, j] + sine[b, j] * s + cosine[b, j] * c
        for j in range(3):
            p[b, j] = translation[b, j]
            if kind[b] == 1:
                for i in range(3):
                    p[b, j] += constant[b, 3 * j + i] * axis[b, i] * x


@contracted
def _inertia_times(pi, w, out):  # type: ignore[no-untyped-def]
    """Write I w of ten parameters."""
    out[0] = pi[4] * w[0] + pi[5] * w[1] + pi[7] * w[2]
    out[1] = pi[5] * w[0] + pi[6] * w[1] + pi[8] * w[2]
    out[2] = pi[7] * w[0] + pi[8] * w[1] + pi[9] * w[2]


@contracted(allocates=True)
def _bias(model, v, R, p, room, bias):  # type: ignore[no-untyped-def]
    """Write the torque at zero acceleration: Coriolis and centrifugal terms, and gravity."""
    tree, _, parameters, _, _, gravity = model
    parent, kind, _, channel, multiplier, _, _, _, _, axis = tree
    omega, alpha, linear, force, moment = room[0], room[1], room[2], room[3], room[4]
    s, t, u = np.empty(3), np.empty(3), np.empty(3)
    count = parent.shape[0]
    bias[:] = 0.0
    for b in range(count):
        k = parent[b]
        rate = multiplier[b] * v[channel[b]]
        if k < 0:
            omega[b], alpha[b] = 0.0, 0.0
            _turned_back(R[b], -gravity[0], -gravity[1], -gravity[2], linear[b])
        else:
            _cross(omega[k], p[b], s)
            _cross(omega[k], s, t)
            _cross(alpha[k], p[b], s)
            for i in range(3):
                t[i] += s[i] + linear[k, i]
            _turned_back(R[b], t[0], t[1], t[2], linear[b])
            _turned_back(R[b], omega[k, 0], omega[k, 1], omega[k, 2], omega[b])
            _turned_back(R[b], alpha[k, 0], alpha[k, 1], alpha[k, 2], alpha[b])
        _cross(omega[b], axis[b], s)
        for i in range(3):
            if kind[b] == 0:
                alpha[b, i] += rate * s[i]
                omega[b, i] += rate * axis[b, i]
            else:
                linear[b, i] += 2.0 * rate * s[i]
        pi = parameters[10 * b : 10 * b + 10]
        h = pi[1:4]
        _cross(omega[b], h, s)
        _cross(omega[b], s, t)
        _cross(alpha[b], h, s)
        for i in range(3):
            force[b, i] = pi[0] * linear[b, i] + s[i] + t[i]
        _inertia_times(pi, omega[b], s)
        _cross(omega[b], s, t)
        _inertia_times(pi, alpha[b], s)
        _cross(h, linear[b], u)
        for i in range(3):
            moment[b, i] = s[i] + t[i] + u[i]
    for b in range(count - 1, -1, -1):
        k = parent[b]
        own = moment[b] if kind[b] == 0 else force[b]
        total = axis[b, 0] * own[0] + axis[b, 1] * own[1] + axis[b, 2] * own[2]
        bias[channel[b]] += multiplier[b] * total
        if k >= 0:
            _turned(R[b], force[b, 0], force[b, 1], force[b, 2], s)
            _turned(R[b], moment[b, 0], moment[b, 1], moment[b, 2], t)
            _cross(p[b], s, u)
            for i in range(3):
                force[k, i] += s[i]
                moment[k, i] += t[i] + u[i]


@contracted(allocates=True)
def _lumped(pi, R, p, out):  # type: ignore[no-untyped-def]
    """Add a body's ten parameters, transformed to its parent's frame, to the parent's."""
    h, half, turned = np.empty(3), np.empty(3), np.empty((3, 3))
    _turned(R, pi[1], pi[2], pi[3], h)
    for i in range(3):
        _inertia_times(pi, R[3 * i : 3 * i + 3], half)
        _turned(R, half[0], half[1], half[2], turned[i])
    # About another origin: I + (2 h·p + m p²) 1 − h pᵀ − p hᵀ − m p pᵀ.
    square = 0.0
    for i in range(3):
        square += (2.0 * h[i] + pi[0] * p[i]) * p[i]
    for i in range(3):
        for j in range(3):
            turned[i, j] -= h[i] * p[j] + p[i] * h[j] + pi[0] * p[i] * p[j]
        turned[i, i] += square
    out[0] += pi[0]
    out[1:4] += h + pi[0] * p
    out[4] += turned[0, 0]
    out[5] += turned[0, 1]
    out[6] += turned[1, 1]
    out[7] += turned[0, 2]
    out[8] += turned[1, 2]
    out[9] += turned[2, 2]


@contracted(allocates=True)
def _mass(tree, parameters, R, p, lumped, M):  # type: ignore[no-untyped-def]
    """Write the mass matrix, by the composite-rigid-body algorithm."""
    parent, kind, _, channel, multiplier, _, _, _, _, axis = tree
    f, t, s, u = np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    lumped[:] = parameters
    M[:] = 0.0
    for b in range(parent.shape[0] - 1, -1, -1):
        pi = lumped[10 * b : 10 * b + 10]
        if parent[b] >= 0:
            _lumped(pi, R[b], p[b], lumped[10 * parent[b] : 10 * parent[b] + 10])
        if kind[b] == 0:
            _cross(axis[b], pi[1:4], f)
            _inertia_times(pi, axis[b], t)
        else:
            f[:] = pi[0] * axis[b]
            _cross(pi[1:4], axis[b], t)
        f *= multiplier[b]
        t *= multiplier[b]
        k = b
        while k >= 0:
            own = t if kind[k] == 0 else f
            x = multiplier[k] * (axis[k, 0] * own[0] + axis[k, 1] * own[1] + axis[k, 2] * own[2])
            M[channel[b], channel[k]] += x
            if k != b:
                M[channel[k], channel[b]] += x
            _turned(R[k], f[0], f[1], f[2], s)
            _turned(R[k], t[0], t[1], t[2], u)
            _cross(p[k], s, t)
            t += u
            f[:] = s
            k = parent[k]


@contracted
def _rubbing(drives, v, steepest, torque, slope):  # type: ignore[no-untyped-def]
    """Write friction on the channels and its derivative by their velocity."""
    ratios, viscous, offset, amplitude, scale = drives
    torque[:] = 0.0
    slope[:] = 0.0
    n = v.shape[0]
    for d in range(ratios.shape[0]):
        w = 0.0
        for c in range(n):
            w += ratios[d, c] * v[c]
        f = viscous[d] * w + offset[d]
        fall = viscous[d]
        for s in range(amplitude.shape[1]):
            if amplitude[d, s] != 0.0:
                t = np.tanh(w / scale[d, s])
                f += amplitude[d, s] * t
                fall += amplitude[d, s] / scale[d, s] * (1.0 if steepest else 1.0 - t * t)
        for c in range(n):
            if ratios[d, c] != 0.0:
                torque[c] += ratios[d, c] * f
                for k in range(n):
                    slope[c, k] += ratios[d, c] * fall * ratios[d, k]


@contracted
def _solve(A, x):  # type: ignore[no-untyped-def]
    """Overwrite x by A⁻¹ x, and A; for so few unknowns LAPACK's call takes longer than its work."""
    n = x.shape[0]
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[pivot, k]):
                pivot = i
        x[k], x[pivot] = x[pivot], x[k]
        for j in range(k, n):
            A[k, j], A[pivot, j] = A[pivot, j], A[k, j]
        for i in range(k + 1, n):
            factor = A[i, k] / A[k, k]
            x[i] -= factor * x[k]
            for j in range(k + 1, n):
                A[i, j] -= factor * A[k, j]
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            x[k] -= A[k, j] * x[j]
        x[k] /= A[k, k]


@contracted(allocates=True)
def _step(model, h, q, v, a, tau, room):  # type: ignore[no-untyped-def]
    """Overwrite a by the acceleration of a step from q and v under a held effort.

    Returns whether it was found. `a` comes as that of the step before.
    """
    n = q.shape[0]
    tree, offset, parameters, rotors, drives, _ = model
    R, p, lumped, spatial, M, slope, bias, torque = room
    middle = q + 0.5 * h * v
    _place(tree, offset, middle, R, p)
    _mass(tree, parameters, R, p, lumped, M)
    M += rotors
    change = np.empty(n)
    for _ in range(4):  # each with Newton's steps for friction
        start = a.copy()
        _bias(model, v + 0.5 * h * a, R, p, spatial, bias)
        for k in range(30):
            # After some steps friction's steepest slope is taken for its slope.
            _rubbing(drives, v + 0.5 * h * a, k >= 10, torque, slope)
            for i in range(n):
                change[i] = tau[i] - bias[i] - torque[i]
                for j in range(n):
                    change[i] -= M[i, j] * a[j]
                    slope[i, j] = M[i, j] + 0.5 * h * slope[i, j]
            _solve(slope, change)
            a += change
            size = 0.5 * h * np.abs(change).max()
            if not np.isfinite(size):
                return False
            if size < SETTLED:
                break
        if 0.5 * h * np.abs(a - start).max() < SETTLED:
            break
    return True


@contracted(allocates=True)
def _room(tree, n):  # type: ignore[no-untyped-def]
    count = tree[0].shape[0]
    return (
        np.zeros((count, 9)),
        np.zeros((count, 3)),
        np.zeros(10 * count),
        np.zeros((5, count, 3)),
        np.zeros((n, n)),
        np.zeros((n, n)),
        np.zeros(n),
        np.zeros(n),
    )


@contracted(allocates=True)
def follow(model, controller, start, wanted, h, log):  # type: ignore[no-untyped-def]
    """Follow a reference under a PID controller of each joint; return the steps taken.

    Args:
        model: The tree as `kernels.compile_tree` returns it; offset of each body's joint position
            from its channel's, (bodies,) [rad or m]; ten inertial parameters a body, (10 bodies,);
            rotor inertia of the channels, (n, n); of drives ratios, viscous coefficients, offsets,
            amplitudes and speeds of sigmoids; gravity in the base's frame, (3,) [m/s²].
        controller: Gains, rows of position, velocity and integral, (3, n); and the share of the
            differentiated position that the filter takes, below 0 where velocity is measured.
        start: Rows q and v, where the robot begins, (2, n).
        wanted: Rows q, v and feed-forward torque, (N, 3, n).
        h: Step [s].
        log: Rows q, v, a, τ, each (N, n); q and v of the step's begin.
    """
    count, n = wanted.shape[0], wanted.shape[2]
    gains, keep = controller
    room = _room(model[0], n)
    q, v = start[0].copy(), start[1].copy()
    a, last, seen, total = np.zeros(n), q.copy(), v.copy(), np.zeros(n)
    for k in range(count):
        if keep < 0.0:
            seen[:] = v
        elif k > 0:
            seen += keep * ((q - last) / h - seen)
        last[:] = q
        error = wanted[k, 0] - q
        total += h * error
        tau = wanted[k, 2] + gains[0] * error + gains[1] * (wanted[k, 1] - seen) + gains[2] * total
        log[0, k], log[1, k], log[3, k] = q, v, tau
        if not _step(model, h, q, v, a, tau, room):
            return k
        log[2, k] = a
        q += h * v + 0.5 * h * h * a
        v += h * a
    return count


@contracted(allocates=True)
def carry(M, K, D, Y, controller, h, out):  # type: ignore[no-untyped-def]
    """Write sensitivities to parameters of the positions and efforts of `follow`, by its equations.

    Args:
        M: ∂τ/∂a at the midpoints, rotors included, (N, n, n).
        K: ∂τ/∂q there, (N, n, n).
        D: ∂τ/∂v there, friction included, (N, n, n).
        Y: ∂τ/∂parameters there, (N, n, b).
        controller: As of `follow`.
        h: Step [s].
        out: ∂q/∂parameters at the steps' begins, and ∂τ/∂parameters of what the controller holds
            over the steps, (N, n, b) each.
    """
    (gains, keep), (places, efforts) = controller, out
    count, n, b = Y.shape
    X, V, last = np.zeros((n, b)), np.zeros((n, b)), np.zeros((n, b))
    seen, total, lacking = np.zeros((n, b)), np.zeros((n, b)), np.zeros((n, b))
    for k in range(count):
        places[k] = X
        if keep < 0.0:
            seen[:] = V
        elif k > 0:
            seen += keep * ((X - last) / h - seen)
        last[:] = X
        total -= h * X
        for i in range(n):
            for j in range(b):
                tau = gains[2, i] * total[i, j] - gains[0, i] * X[i, j] - gains[1, i] * seen[i, j]
                efforts[k, i, j] = tau
                for m in range(n):
                    tau -= K[k, i, m] * (X[m, j] + 0.5 * h * V[m, j]) + D[k, i, m] * V[m, j]
                lacking[i, j] = tau - Y[k, i, j]
        rise = np.linalg.solve(M[k] + 0.5 * h * D[k], lacking)
        X += h * V + 0.5 * h * h * rise
        V += h * rise


@contracted(allocates=True)
def push(model, h, tau, states, rise):  # type: ignore[no-untyped-def]
    """Move robots of different parameters by a step under held efforts.

    Args:
        model: As of `follow`, where each robot has its own: parameters (robots, 10 bodies), rotors
            (robots, n, n), viscous coefficients and offsets (robots, drives) and amplitudes
            (robots, drives, scales); ratios (drives, n) and speeds (drives, scales) are shared.
        h: Step [s].
        tau: Held effort of each robot, (robots, n).
        states: Positions and velocities of each robot, which are moved, (robots, 2 n).
        rise: Written: ∂a/∂τ of the first robot, (n, n).

    Returns:
        Whether all steps were found.
    """
    tree, offset, parameters, rotors, drives, gravity = model
    ratios, viscous, offsets, amplitude, scale = drives
    count, n = tau.shape
    room = _room(tree, n)
    M, slope, torque = room[4], room[5], room[7]
    a, first = np.zeros(n), np.zeros(n)
    for s in range(count):
        q, v = states[s, :n].copy(), states[s, n:].copy()
        own = (ratios, viscous[s], offsets[s], amplitude[s], scale)
        a[:] = first
        robot = (tree, offset, parameters[s], rotors[s], own, gravity)
        if not _step(robot, h, q, v, a, tau[s], room):
            return False
        if s == 0:
            first[:] = a
            _rubbing(own, v + 0.5 * h * a, False, torque, slope)
            rise[:] = np.linalg.inv(M + 0.5 * h * slope)
        states[s, :n] = q + h * v + 0.5 * h * h * a
        states[s, n:] = v + h * a
    return True


def warm_up() -> None:
    """Call each compiled entry point once, so that it is compiled and cached."""
    index, unit, one = np.zeros(1, dtype=np.int64), np.eye(1), np.zeros((1, 1))
    flat, three = np.zeros((1, 9)), np.zeros((1, 3))
    tree = (index - 1, index, index, index, np.ones(1), flat, flat, flat, three, three)
    heavy, each, zero = np.ones((1, 10)), np.zeros((1, 1, 1)), np.zeros(1)
    drives = (unit, zero, zero, one, unit)
    gains, wanted, log = np.zeros((3, 1)), np.zeros((1, 3, 1)), np.zeros((4, 1, 1))
    start = np.zeros((2, 1))
    model, controller = (tree, zero, heavy[0], unit, drives, np.zeros(3)), (gains, 1.0)
    follow(model, controller, start, wanted, 1.0, log)
    carry(each + 1.0, each, each, each, controller, 1.0, (each.copy(), each.copy()))
    many = (unit, one, one, each, unit)
    models = (tree, zero, heavy, each + 1.0, many, np.zeros(3))
    push(models, 1.0, one, np.zeros((1, 2)), unit.copy())


KERNELS = Kernels((follow, carry, push), warm_up)
