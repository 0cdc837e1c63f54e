"""What a user gave is opened once, hashed as it was opened, and refused if it changed since."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from heft.applications import demo
from heft.applications.doctor.doctor import diagnose_files
from heft.applications.inputs import Inputs
from heft.errors import InvalidRecording
from heft.files.opened import OpenedFile, file_hash


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in ("arm.urdf", "run1.parquet", "run2.parquet"):
        shutil.copy(demo.FOLDER / name, tmp_path)
    (tmp_path / "arm.toml").write_text("[joint.elbow]\narmature = false\n")
    return tmp_path


def opened(files: Path) -> Inputs:
    inputs = Inputs.open(files / "arm.urdf", files / "arm.toml", None)
    return inputs.with_logs(fit=[files / "run1.parquet", files / "run2.parquet"])


def test_entries_are_of_the_roles_asked_for_in_their_order(files: Path) -> None:
    inputs = opened(files)
    entries = inputs.described("fit", "columns", "options", "model")
    names = ("run1.parquet", "run2.parquet", "arm.toml", "arm.urdf")
    assert [e["path"] for e in entries] == [str(files / n) for n in names]
    assert [e["role"] for e in entries] == ["fit", "fit", "options", "model"]
    hashes = [hashlib.sha256((files / n).read_bytes()).hexdigest() for n in names]
    assert [e["sha256"] for e in entries] == hashes
    assert inputs.robot is not None and not inputs.robot.options.of("elbow").armature
    inputs.refuse_changed()


@pytest.mark.parametrize("name", ["arm.urdf", "arm.toml", "run2.parquet"])
def test_a_file_that_changed_since_is_refused(name: str, files: Path) -> None:
    inputs = opened(files)
    with (files / name).open("ab") as file:
        file.write(b"\n")
    for ask in (inputs.refuse_changed, lambda: inputs.described("model", "options", "fit")):
        with pytest.raises(InvalidRecording, match="changed while it was read") as caught:
            ask()
        assert caught.value.argument == str(files / name)


def test_a_digest_is_of_what_was_opened_though_the_file_is_edited_after(files: Path) -> None:
    inputs = opened(files)
    before = inputs.described("options")
    (files / "arm.toml").write_text("")
    assert inputs.described("options") == before
    (after,) = opened(files).described("options")
    assert after["sha256"] == hashlib.sha256(b"").hexdigest() != before[0]["sha256"]


def test_a_file_inside_a_folder_that_changed_is_seen(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1")
    folder = OpenedFile.at(tmp_path)
    assert folder.sha256 == file_hash(tmp_path)
    status = tmp_path.stat()
    (tmp_path / "one").write_bytes(b"22")
    os.utime(tmp_path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(InvalidRecording, match="changed while it was read"):
        folder.refuse_changed()


def test_a_diagnosis_of_a_log_that_is_still_written_is_refused(files: Path) -> None:
    def touch(_: str) -> None:
        os.utime(files / "run1.parquet", ns=(1, 1))

    with pytest.raises(InvalidRecording, match="changed while it was read"):
        diagnose_files([files / "run1.parquet"], progress=touch)
    assert diagnose_files([files / "run1.parquet"]).logs
