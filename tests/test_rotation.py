"""Rotations say the same in every form, and the same as pinocchio's."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from heft.information.rotation import (
    angular_velocity,
    continuous_quaternions,
    matrix_of_axis_angle,
    matrix_of_quaternion,
    matrix_of_rotation_vector,
    matrix_of_rpy,
    quaternion_of_matrix,
    rotation_vector_between,
    rotation_vector_of_matrix,
    rpy_of_matrix,
    skew,
)

EPS = float(np.finfo(float).eps)


def test_skew_is_the_cross_product() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 5, 4, 3))
    found = np.einsum("...ij,...j->...i", skew(a), b)
    np.testing.assert_allclose(found, np.cross(a, b), rtol=0, atol=16 * EPS * np.abs(a).max() ** 2)
    np.testing.assert_array_equal(skew(a)[2, 3], skew(a[2, 3]))


@pytest.mark.parametrize("pitch", [0.3, np.pi / 2, -np.pi / 2, np.pi / 2 - 1e-9, 2.0])
def test_angles_of_a_rotation_make_the_same_rotation(pitch: float) -> None:
    """At a right angle of pitch, too, where roll and yaw are one."""
    for roll, yaw in np.random.default_rng(9).uniform(-3.0, 3.0, (20, 2)):
        rotation = matrix_of_rpy(roll, pitch, yaw)
        again = matrix_of_rpy(*rpy_of_matrix(rotation))
        assert np.allclose(again, rotation, rtol=0.0, atol=1e-15 * 8)


def test_quaternions_are_the_rotations_of_pinocchio() -> None:
    rng = np.random.default_rng(1)
    for quaternion in rng.normal(size=(10, 4)):
        unit = quaternion / np.linalg.norm(quaternion)
        wanted = pin.Quaternion(*unit).matrix()
        found = matrix_of_quaternion(quaternion[None])[0]
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_turning_is_the_rate_of_the_rotation() -> None:
    rng = np.random.default_rng(2)
    quaternion, rate = rng.normal(size=(2, 20, 4))
    step = 1e-6
    R, ahead, back = (matrix_of_quaternion(quaternion + s * rate) for s in (0.0, step, -step))
    skews = np.swapaxes(R, 1, 2) @ (ahead - back) / (2.0 * step)
    wanted = np.stack([skews[:, 2, 1], skews[:, 0, 2], skews[:, 1, 0]], 1)
    np.testing.assert_allclose(angular_velocity(quaternion, rate), wanted, atol=1e-6)


def test_signs_of_quaternions_never_jump() -> None:
    t = np.linspace(0.0, 12.0, 500)
    smooth = np.stack([np.cos(t / 2), np.sin(t / 2), 0.1 * t, 0.2 * np.ones_like(t)], 1)
    signs = np.random.default_rng(3).choice([-1.0, 1.0], len(t))
    found = continuous_quaternions(smooth * signs[:, None])
    np.testing.assert_allclose(found, smooth * signs[0], atol=0)
    behind = continuous_quaternions(smooth[9:] * signs[9:, None], smooth[8])
    np.testing.assert_array_equal(behind, smooth[9:])


@pytest.mark.parametrize("seed", range(20))
def test_a_quaternion_is_pinocchios(seed: int) -> None:
    angles = np.random.default_rng(seed).uniform(-np.pi, np.pi, 3)
    rotation = matrix_of_rpy(*angles)
    w, x, y, z = quaternion_of_matrix(rotation)
    assert w >= 0.0
    np.testing.assert_allclose(pin.Quaternion(w, x, y, z).toRotationMatrix(), rotation, atol=1e-12)


def test_half_a_turn_has_a_quaternion() -> None:
    np.testing.assert_allclose(
        np.abs(quaternion_of_matrix(np.diag([-1.0, -1.0, 1.0]))), [0, 0, 0, 1]
    )


@pytest.mark.parametrize("quaternion", np.eye(4))
def test_right_angles_are_exact(quaternion: np.ndarray) -> None:
    found = matrix_of_quaternion(quaternion)
    half_turn = np.diag(2.0 * quaternion[1:] - 1.0)
    np.testing.assert_array_equal(found, np.eye(3) if quaternion[0] else half_turn)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 0.4, np.pi / 2, 3.0])
def test_an_axis_and_its_angle_are_a_rotation_vector(angle: float) -> None:
    rng = np.random.default_rng(4)
    for axis in rng.normal(size=(5, 3)):
        axis = axis / np.linalg.norm(axis)
        found = matrix_of_axis_angle(axis, np.array([angle, -angle]))
        np.testing.assert_allclose(found[0], pin.exp3(angle * axis), atol=16 * EPS)
        np.testing.assert_allclose(found[1], found[0].T, atol=16 * EPS)
        np.testing.assert_allclose(matrix_of_rotation_vector(angle * axis), found[0], atol=16 * EPS)
        np.testing.assert_allclose(rotation_vector_of_matrix(found[0]), angle * axis, atol=64 * EPS)


def test_a_direction_is_turned_into_another() -> None:
    for one, other in np.random.default_rng(5).normal(size=(10, 2, 3)):
        turned = matrix_of_rotation_vector(rotation_vector_between(one, other)) @ one
        expected = other / np.linalg.norm(other) * np.linalg.norm(one)
        np.testing.assert_allclose(turned, expected, atol=64 * EPS)
    np.testing.assert_array_equal(rotation_vector_between(one, one), np.zeros(3))
