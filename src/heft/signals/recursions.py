"""Compiled walks along samples: recursive filters, interpolation, weights of windows."""

from __future__ import annotations

import numpy as np

from heft.arrays import Array
from heft.compiled import Kernels, exact


@exact(allocates=True)
def _pass(sections: Array, settled: Array, rows: Array, backwards: bool) -> None:
    """Filter rows, (n, columns), in place by the sections that `filters.butterworth` returns.

    The filter has settled to the row that it meets first, the last one `backwards`.
    """
    count, columns = rows.shape
    state = np.empty((len(sections), 2, columns))
    first = count - 1 if backwards else 0
    for s in range(len(sections)):
        for c in range(columns):
            state[s, 0, c] = settled[s, 0] * rows[first, c]
            state[s, 1, c] = settled[s, 1] * rows[first, c]
    for n in range(count):
        k = count - 1 - n if backwards else n
        for s in range(len(sections)):
            b0, b1, b2 = sections[s, 0], sections[s, 1], sections[s, 2]
            a1, a2 = sections[s, 4], sections[s, 5]
            for c in range(columns):
                x = rows[k, c]
                y = b0 * x + state[s, 0, c]
                state[s, 0, c] = b1 * x - a1 * y + state[s, 1, c]
                state[s, 1, c] = b2 * x - a2 * y
                rows[k, c] = y


@exact
def to_and_fro(sections: Array, settled: Array, rows: Array) -> None:
    """Filter rows in place forwards and then backwards; see `_pass`."""
    _pass(sections, settled, rows, False)
    _pass(sections, settled, rows, True)


@exact
def recur(coefficients: Array, rows: Array) -> None:
    """Filter rows x, shape (n, columns), in place by `y_k = x_k + Σ_i a_i y_{k+i}`."""
    count, columns = rows.shape
    for n in range(1, count):
        k = count - 1 - n
        for i in range(min(n, len(coefficients))):
            for c in range(columns):
                rows[k, c] += coefficients[i] * rows[k + 1 + i, c]


@exact
def weigh(
    time: Array, starts: Array, harmonics: Array, length: float, phi: Array, rate: Array
) -> None:
    """Write the weights of samples, (windows, n) each, into `phi` and `rate`: `Windows.weights`."""
    n = len(time)
    for w in range(len(starts)):
        last, last_mean, low = 0.0, 0.0, (time[0] - starts[w]) / length - 0.5
        for j in range(n - 1):
            high = (time[j + 1] - starts[w]) / length - 0.5
            mean, behind = 0.0, (max(high, 0.5) - max(low, 0.5)) / (high - low)
            begin, end = min(max(low, -0.5), 0.5), min(max(high, -0.5), 0.5)
            if end > begin:
                # Means of φ·length and its integral: differences of antiderivatives would cancel.
                within, middle = end - begin, 0.5 * (begin + end)
                height, integral = 1.0, middle + 0.5
                for h in range(len(harmonics)):
                    half = np.pi * (h + 1)
                    damped = harmonics[h] * np.sin(half * within) / (half * within)
                    height += damped * np.cos(2.0 * half * middle)
                    integral += damped * np.sin(2.0 * half * middle) / (2.0 * half)
                share = within / (high - low)  # less than 1 where a window begins or ends inside
                mean = height * (share / length)
                behind += integral * share
            # A sample's hat function rises over the interval before and falls over the one behind.
            phi[w, j], rate[w, j] = behind - last, mean - last_mean
            last, last_mean, low = behind, mean, high
        phi[w, n - 1], rate[w, n - 1] = 1.0 - last, -last_mean


@exact
def chords(time: Array, values: Array, at: Array, out: Array) -> None:
    """Evaluate straight lines, constant before and behind, in place of the spline of `cubic`."""
    n, columns = values.shape
    k = 0
    for i in range(len(at)):
        while k < n - 1 and at[i] >= time[k + 1]:
            k += 1
        behind, step = max(at[i] - time[k], 0.0), time[min(k + 1, n - 1)] - time[k]
        for c in range(columns):
            out[i, c] = values[k, c]
        for c in range(columns if step > 0.0 else 0):
            out[i, c] += (values[k + 1, c] - values[k, c]) / step * behind


@exact(allocates=True)
def cubic(time: Array, values: Array, at: Array, out: Array) -> None:
    """Evaluate the not-a-knot cubic spline through values, into `out`; see `interpolated`."""
    n, columns = values.shape
    step = np.diff(time)
    rise = np.empty((n - 1, columns))
    for k in range(n - 1):
        for c in range(columns):
            rise[k, c] = (values[k + 1, c] - values[k, c]) / step[k]
    # Slopes at the knots: a tridiagonal system, solved without exchanges [deBoor1978, chapter IV].
    above = np.empty(n)
    slope = np.empty((n, columns))
    first, last = step[0] + step[1], step[n - 3] + step[n - 2]
    above[0] = first / step[1]
    for c in range(columns):
        start = (step[0] + 2.0 * first) * step[1] * rise[0, c] + step[0] ** 2 * rise[1, c]
        slope[0, c] = start / first / step[1]
    for k in range(1, n - 1):
        pivot = 2.0 * (step[k - 1] + step[k]) - step[k] * above[k - 1]
        above[k] = step[k - 1] / pivot
        for c in range(columns):
            right = 3.0 * (step[k] * rise[k - 1, c] + step[k - 1] * rise[k, c])
            slope[k, c] = (right - step[k] * slope[k - 1, c]) / pivot
    pivot = step[n - 3] - last * above[n - 2]
    for c in range(columns):
        right = step[n - 2] ** 2 * rise[n - 3, c]
        right += (2.0 * last + step[n - 2]) * step[n - 3] * rise[n - 2, c]
        slope[n - 1, c] = (right / last - last * slope[n - 2, c]) / pivot
    for k in range(n - 2, -1, -1):
        for c in range(columns):
            slope[k, c] -= above[k] * slope[k + 1, c]
    k = 0
    for i in range(len(at)):
        while k < n - 2 and at[i] >= time[k + 1]:
            k += 1
        s = at[i] - time[k]
        for c in range(columns):
            bend = (slope[k, c] + slope[k + 1, c] - 2.0 * rise[k, c]) / step[k]
            half = (rise[k, c] - slope[k, c]) / step[k] - bend
            out[i, c] = values[k, c] + s * (slope[k, c] + s * (half + s * (bend / step[k])))


def warm_up() -> None:
    """Call each compiled entry point once, so that it is compiled and cached."""
    rows = np.zeros((2, 1))
    to_and_fro(np.zeros((1, 6)), np.zeros((1, 2)), rows)
    recur(np.zeros(1), rows)
    cubic(np.arange(4.0), np.zeros((4, 1)), np.zeros(2), rows)
    chords(np.arange(4.0), np.zeros((4, 1)), np.zeros(2), rows)
    weigh(np.arange(2.0), np.zeros(1), np.zeros(1), 1.0, np.zeros((1, 2)), np.zeros((1, 2)))


KERNELS = Kernels((to_and_fro, recur, cubic, chords, weigh), warm_up)
