"""The tracking's problem, solved to the end by IPOPT: what one iteration is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from heft.flight import Plan, PredictiveTracking


@dataclass(frozen=True, eq=False)
class IpoptTracking:
    """The same cost, model and limits in CasADi, written out of the equations anew.

    Attributes:
        tracking: Whose problem.
    """

    tracking: PredictiveTracking

    @cached_property
    def _step(self) -> Any:
        import casadi as ca

        flyer = self.tracking.flyer
        m, h = float(flyer.nominal[0]), ca.DM(flyer.nominal[1:4])
        xx, xy, yy, xz, yz, zz = flyer.nominal[4:]
        spin_inertia = ca.DM([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        x, u = ca.SX.sym("x", 13), ca.SX.sym("u", flyer.mixing.shape[1])
        q, v, w = x[3:7], x[7:10], x[10:13]
        wrench = ca.DM(flyer.mixing) @ u
        S = ca.skew(h)
        M = ca.vertcat(ca.horzcat(m * ca.DM.eye(3), -S), ca.horzcat(S, spin_inertia))
        bias = ca.vertcat(ca.cross(w, ca.cross(w, h)), ca.cross(w, spin_inertia @ w))
        pushed = ca.inv(M) @ (wrench - bias)
        turned = self._rotated(q, pushed[:3]) + ca.DM(np.array(flyer.gravity))
        dq = 0.5 * ca.vertcat(-ca.dot(q[1:], w), q[0] * w + ca.cross(q[1:], w))
        f = ca.Function("f", [x, u], [ca.vertcat(v, dq, turned, pushed[3:])])
        d = self.tracking.settings.step
        k1 = f(x, u)
        k2 = f(x + d / 2 * k1, u)
        k3 = f(x + d / 2 * k2, u)
        k4 = f(x + d * k3, u)
        return ca.Function("step", [x, u], [x + d / 6 * (k1 + 2 * k2 + 2 * k3 + k4)])

    @staticmethod
    def _rotated(q: Any, a: Any) -> Any:
        import casadi as ca

        w, v = q[0], q[1:]
        return (w**2 - ca.dot(v, v)) * a + 2 * v * ca.dot(v, a) + 2 * w * ca.cross(v, a)

    @cached_property
    def _problem(self) -> tuple[Any, ...]:
        import casadi as ca

        s, n = self.tracking.settings, self.tracking.flyer.mixing.shape[1]
        X, U = ca.SX.sym("X", 13, s.horizon + 1), ca.SX.sym("U", n, s.horizon)
        now, wanted, spin = (
            ca.SX.sym("now", 13),
            ca.SX.sym("wanted", 13, s.horizon + 1),
            ca.SX.sym("spin", 3, s.horizon + 1),
        )
        held = ca.SX.sym("held", n, s.horizon)
        cost, gaps = 0, [X[:, 0] - now]
        for k in range(s.horizon + 1):
            q, qd = X[3:7, k], wanted[3:7, k]
            e = qd[0] * q[1:] - q[0] * qd[1:] - ca.cross(qd[1:], q[1:])
            e = ca.if_else(ca.dot(q, qd) < 0, -e, e)
            back = ca.vertcat(q[0], -q[1:])
            rate = X[10:13, k] - self._rotated(back, spin[:, k])
            all_ = ca.vertcat(X[:3, k] - wanted[:3, k], e, X[7:10, k] - wanted[7:10, k], rate)
            factor = s.last if k == s.horizon else 1.0
            cost += factor * ca.sumsqr(ca.DM(self.tracking.weights) * all_)
            if k < s.horizon:
                pushed = ca.DM(self.tracking.effort_weights) * (U[:, k] - held[:, k])
                cost += ca.sumsqr(pushed)
                gaps.append(X[:, k + 1] - self._step(X[:, k], U[:, k]))
        variables = ca.vertcat(ca.vec(X), ca.vec(U))
        given = ca.vertcat(now, ca.vec(wanted), ca.vec(spin), ca.vec(held))
        nlp = {"x": variables, "f": cost, "g": ca.vertcat(*gaps), "p": given}
        quiet = {"ipopt": {"print_level": 0, "tol": 1e-9}, "print_time": False, "expand": True}
        return ca.nlpsol("tracking", "ipopt", nlp, quiet), X.shape, U.shape

    def commands(self, plan: Plan, state: np.ndarray) -> np.ndarray:
        """Return the commands of the converged problem, begun at a plan, shape (horizon, n)."""
        solver, shape, _ = self._problem
        t, s = self.tracking, self.tracking.settings
        wanted, spin = t.wanted(plan.time, s.horizon + 1)
        now = state.copy()
        if now[3:7] @ plan.states[0, 3:7] < 0.0:
            now[3:7] *= -1.0
        held = t.trim(wanted[:-1, 3:7])
        a, free = t.flyer.actuators, np.full(shape[0] * shape[1], np.inf)
        found = solver(
            x0=np.concatenate((plan.states.ravel(), plan.commands.ravel())),
            p=np.concatenate((now, wanted.ravel(), spin.ravel(), held.ravel())),
            lbx=np.concatenate((-free, np.tile(a.lower, s.horizon))),
            ubx=np.concatenate((free, np.tile(a.upper, s.horizon))),
            lbg=0.0,
            ubg=0.0,
        )
        if not solver.stats()["success"]:
            raise RuntimeError(solver.stats()["return_status"])
        return np.asarray(found["x"]).ravel()[free.size :].reshape(s.horizon, -1)
