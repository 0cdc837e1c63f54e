"""Text logs as tools write them: the header is found, and what is no number is passed over."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

from heft.applications.doctor.clock_and_signals import look
from heft.errors import InvalidRecording, InvalidSetting, MissingSignal
from heft.recordings.columns import ColumnMap
from heft.recordings.formats import read_table, text
from heft.recordings.map_draft import draft_map
from heft.recordings.recording import Recording
from heft.signals.clock import survey, windows

ROWS = 40
STEP = 0.01
TIME = STEP * np.arange(ROWS)
Q, TAU = np.round(np.sin(TIME), 4), np.round(3.0 * np.cos(TIME), 4)
NAMES = ["t", "q.elbow", "tau.elbow"]
LINES = [f"{t:.2f},{q},{tau}" for t, q, tau in zip(TIME, Q, TAU, strict=True)]
HEAD = ",".join(NAMES)
EPOCH = 1_714_560_000_123_456_789


def opened(path: Path, text: str | bytes, columns: ColumnMap | None = None) -> Recording:
    path = path / "run.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return Recording.open(path, columns)


def same(recording: Recording) -> bool:
    """Whether a log holds what all of them here do."""
    block = recording.whole(["q.elbow", "tau.elbow"])
    assert block.time - block.time[0] == approx(TIME, abs=1e-9)
    return np.array_equal(block.values, np.column_stack([Q, TAU]))


def mapped(text: str) -> ColumnMap:
    return ColumnMap.from_dict(tomllib.loads(text))


SHAPES = {
    "a mark, CRLF and a comma at each end": "\ufeff"
    + "".join(f"{k},\r\n" for k in ['"t", "q.elbow", "tau.elbow"', *LINES])
    + "\r\n",
    "a comma at the end of rows alone": "\n".join([HEAD, *(f"{k}," for k in LINES), ""]),
    "a comma at the end of the header alone": "\n".join([f"{HEAD},", *LINES, ""]),
    "spaces behind commas": "\n".join([HEAD, *LINES, ""]).replace(",", ", "),
    "old Macs' line ends": "\r".join([HEAD, *LINES, ""]),
    "comments above": "\n".join(["# by hand, on Monday", "% 3 runs", "// x", HEAD, *LINES, ""]),
    "a commented header": "\n".join(["# written by", f"# {HEAD}", *LINES, ""]),
    "a preamble of keys and values": "\n".join(
        ["Model: X-1", "Record Length,2500", "Date,2026-05-01,", "", HEAD, *LINES, ""]
    ),
    "units below": "\n".join([HEAD, "[s],[rad],[N.m]", *LINES, ""]),
    "units above": "\n".join(["s,rad,Nm", HEAD, *LINES, ""]),
    "a row of groups above": "\n".join([",arm,", HEAD, *LINES, ""]),
    "the header again": "\n".join([HEAD, *LINES[:20], HEAD, *LINES[20:], ""]),
    "the header again, with its mark": "\ufeff"
    + "\n".join([HEAD, *LINES[:20], f"\ufeff{HEAD}", *LINES[20:], ""]),
    "comments between": "\n".join([HEAD, *LINES[:20], "# paused", *LINES[20:], ""]),
}


@pytest.mark.parametrize("salvaging", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_a_header_is_found_where_it_stands(name: str, salvaging: bool, tmp_path: Path) -> None:
    recording = opened(tmp_path, SHAPES[name])
    if salvaging:
        damage: list[InvalidRecording] = []
        recording = Recording.open(tmp_path / "run.csv", damaged=damage.append)
        assert not damage
    assert same(recording)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", ["\ufeff", ""])
@pytest.mark.parametrize("name", SHAPES)
def test_utf16_is_read_as_the_same_text_in_utf8(
    name: str, mark: str, encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heft.recordings.formats.text.CHUNK_BYTES", 9)  # halves of letters
    text = SHAPES[name].removeprefix("\ufeff")
    for delimited in (text, text.replace(",", "\t")):
        plain = opened(tmp_path, delimited)
        recording = opened(tmp_path, (mark + delimited).encode(encoding))
        assert same(recording) and recording.notes == plain.notes
        damage: list[InvalidRecording] = []
        salvaged = Recording.open(tmp_path / "run.csv", damaged=damage.append)
        assert same(salvaged) and not damage


def test_utf16_that_is_cut_within_a_letter_is_damage(tmp_path: Path) -> None:
    data = "\r\n".join([HEAD, *LINES, ""]).encode("utf-16")[:-9]
    with pytest.raises(InvalidRecording, match="within a letter of UTF-16") as caught:
        opened(tmp_path, data)
    assert f"at byte {len(data) - 1}" in str(caught.value.got)
    damage: list[InvalidRecording] = []
    salvaged = Recording.open(tmp_path / "run.csv", damaged=damage.append)
    block = salvaged.whole(["q.elbow", "tau.elbow"])
    assert np.array_equal(block.values, np.column_stack([Q, TAU])[:-1])
    assert any("within a letter" in str(d.got) for d in damage)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("comments above", "names are in line 4"),
        ("a preamble of keys and values", "names are in line 5"),
        ("units below", "line 2 states the columns' units"),
        ("the header again", "1 repeated header lines"),
        ("comments between", "1 comment lines"),
    ],
)
def test_what_is_passed_over_is_said(name: str, says: str, tmp_path: Path) -> None:
    assert says in " ".join(opened(tmp_path, SHAPES[name]).remarks)


def test_a_plain_log_has_no_remarks(tmp_path: Path) -> None:
    assert opened(tmp_path, "\n".join([HEAD, *LINES, ""])).remarks == ()


def test_headers_are_passed_over_wherever_pieces_of_a_file_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heft.recordings.formats.text.CHUNK_BYTES", 7)
    assert same(opened(tmp_path, SHAPES["the header again"]))
    assert same(opened(tmp_path, SHAPES["comments between"]))


@pytest.mark.parametrize(
    "text", ["-nan(ind)", "nan(ind)", "1.#QNAN", "-1.#IND", "1.#INF", "#N/A", "-nan", "inf"]
)
@pytest.mark.parametrize("space", ["", " "])
def test_what_runtimes_print_for_no_number_loses_its_row_alone(
    text: str, space: str, tmp_path: Path
) -> None:
    lines = [HEAD, *LINES]
    lines[5] = f"0.04,{space}{text},{space}1"
    line = survey(opened(tmp_path, "\n".join([*lines, ""])), ["q.elbow", "tau.elbow"])
    assert (line.rows, line.used, line.broken) == (ROWS, ROWS - 1, 1)


def test_names_may_be_of_another_encoding(tmp_path: Path) -> None:
    text = "\n".join([HEAD + ",Größe", *(f"{k},1" for k in LINES), ""]).encode("cp1252")
    recording = opened(tmp_path, text)
    assert same(recording)
    assert "Größe" in recording.table.columns
    assert any("Windows-1252" in note for note in recording.remarks)


def test_units_that_the_file_states_hold_for_canonical_names(tmp_path: Path) -> None:
    lines = [f"{1e3 * t:.0f},{np.rad2deg(q)},{tau}" for t, q, tau in zip(TIME, Q, TAU, strict=True)]
    recording = opened(tmp_path, "\n".join([HEAD, "ms,°,N.m", *lines, ""]))
    block = recording.whole(["q.elbow", "tau.elbow"])
    assert block.time == approx(TIME)
    assert block.values == approx(np.column_stack([Q, TAU]))


def test_rows_without_names_are_refused(tmp_path: Path) -> None:
    for rows in ("\n".join(LINES), "\n".join(f"{k},elbow" for k in LINES)):
        with pytest.raises(InvalidRecording, match="numbers, not column names"):
            opened(tmp_path, rows)


def test_a_damaged_first_row_is_not_taken_for_a_preamble(tmp_path: Path) -> None:
    recording = opened(tmp_path, "\n".join([HEAD, "0.00,ERR,1", *LINES[1:], ""]))
    with pytest.raises(InvalidRecording, match="ERR"):
        recording.whole(["q.elbow"])


# --- what was read is kept


@pytest.mark.parametrize("most", [0, 700, 1 << 20])
def test_numbers_read_again_are_the_same(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heft.recordings.formats.text.SHORT", 0)
    monkeypatch.setattr("heft.recordings.formats.table.MOST_SPOOLED", most)
    path = tmp_path / "run.csv"
    path.write_text("\n".join([HEAD, *LINES, ""]))
    table = read_table(path)
    passes: list[str] = []
    strict = text._strict
    monkeypatch.setattr(text, "_strict", lambda *a: passes.append("") or strict(*a))
    whole = np.column_stack([np.round(TIME, 2), Q, TAU])
    next(table.read(["tau.elbow"]))  # not to its end
    for names in (["t", "q.elbow"], ["q.elbow"], NAMES, NAMES[::-1], ["t"]):
        block = np.concatenate(list(table.read(names)))
        assert np.array_equal(block, whole[:, [NAMES.index(n) for n in names]])
        assert block.flags.c_contiguous and block.flags.writeable
    assert len(passes) == {0: 6, 700: 5, 1 << 20: 3}[most]


def test_a_file_that_has_grown_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heft.recordings.formats.text.SHORT", 0)
    path = tmp_path / "run.csv"
    path.write_text("\n".join([HEAD, *LINES[:20], ""]))
    table = read_table(path)
    assert len(next(table.read(["t"]))) == 20
    path.write_text("\n".join([HEAD, *LINES, ""]))
    assert len(next(table.read(["q.elbow"]))) == ROWS
    list(table.read(["q.elbow"]))
    assert len(next(table.read(["t", "q.elbow"]))) == ROWS


# --- stamps


@pytest.mark.parametrize(
    ("stamp", "unit"),
    [
        (lambda k: str(EPOCH + 10_000_000 * k), "ns"),
        (lambda k: f"2026-05-01T12:59:59.{k:02d}", "s"),
        (lambda k: f"2026-05-01 12:59:59.{k:02d}+02:00", "s"),
        (lambda k: f"2026-05-01T12:59:59.{k:02d}0000Z", "s"),
    ],
)
@pytest.mark.parametrize("salvaging", [False, True])
def test_stamps_count_from_the_first_without_loss(  # type: ignore[no-untyped-def]
    stamp, unit: str, salvaging: bool, tmp_path: Path
) -> None:
    lines = [stamp(k) + line[4:] for k, line in enumerate(LINES)]
    path = tmp_path / "run.csv"
    path.write_text("\n".join(["stamp" + HEAD[1:], *lines, ""]))
    columns = mapped(
        f'[time]\ncolumn = "stamp"\nunit = "{unit}"\n[q]\ncolumns = ["q.elbow"]\n'
        'joints = ["elbow"]\n[tau]\ncolumns = ["tau.elbow"]\njoints = ["elbow"]\n'
    )
    recording = (
        Recording.open(path, columns, damaged=[].append)
        if salvaging
        else Recording.open(path, columns)
    )
    block = recording.whole(["q.elbow"])
    assert np.max(np.abs(block.time - TIME)) < 1e-12
    epoch = recording.canonical().epoch
    assert epoch is not None
    assert epoch == EPOCH if unit == "ns" else 1_777_000_000 < epoch / 1e9 < 1_778_000_000


# --- runs


def test_a_clock_that_restarts_begins_a_run(tmp_path: Path) -> None:
    """Half the rows are sorted in between by their time, and none of their motion is."""
    names = ["q.elbow", "tau.elbow"]
    long = [f"{STEP * k:.2f},{np.sin(0.03 * k):.5f},{k % 7}" for k in range(400)]
    for between in ([], [HEAD]):
        recording = opened(tmp_path, "\n".join([HEAD, *long, *between, *long, *between, *long]))
        line = survey(recording, names)
        assert (line.rows, line.used, line.segments, line.restarts) == (1200, 1200, 3, 2)
        pieces = [w.time[w.core] for w in windows(recording, names, line.step, 0.5)]
        assert [len(p) for p in pieces] == [400, 400, 400]
        findings = {f.name: f for f in look(recording)[1]}
        assert findings["clock restarts"].severity == "tells"
        assert findings["clock restarts"].evidence == {"times": 2, "runs": 3}
        assert not findings.keys() & {"clock set back", "jumps"}


def test_columns_in_another_order_behind_a_second_header_are_not_read(tmp_path: Path) -> None:
    swapped = ["t,tau.elbow,q.elbow", *LINES]
    with pytest.raises(InvalidRecording, match="cannot be read"):
        opened(tmp_path, "\n".join([HEAD, *LINES, *swapped])).whole(["q.elbow"])
    damage: list[InvalidRecording] = []
    salvaged = Recording.open(tmp_path / "run.csv", damaged=damage.append)
    assert same(salvaged) and "in another order" in str(damage[0].got)


def test_rows_out_of_order_are_no_runs(tmp_path: Path) -> None:
    order = [k ^ 16 for k in range(400)]
    lines = [f"{STEP * k:.2f},{np.sin(0.03 * k):.5f},{k % 7}" for k in order]
    findings = {f.name for f in look(opened(tmp_path, "\n".join([HEAD, *lines, ""])))[1]}
    assert "clock set back" in findings
    assert "clock restarts" not in findings


# --- names in cells


def cells(style: str, joints: list[list[str]], stem: str = "") -> str:
    """Return a log whose cells name the joints, those of row k `joints[k % len(joints)]`."""
    numbers = [style.format(k) for k in range(2)]
    header = ["%time" if stem else "Time", f"{stem}header.stamp"]
    header += [f"{stem}{w}{n}" for w in ("name", "position", "effort") for n in numbers]
    lines = [",".join(header)]
    for k in range(ROWS):
        row = joints[k % len(joints)]
        values = {"elbow": (Q[k], TAU[k]), "wrist": (1.5, 2.5)}
        stamp = EPOCH + 10_000_000 * k
        time = str(stamp + 5) if stem else f"{1000.0 + STEP * k:.2f}"
        ours = [time, str(stamp), *row, *(str(values[j][m]) for m in (0, 1) for j in row)]
        lines.append(",".join(ours))
    return "\n".join([*lines, ""])


@pytest.mark.parametrize(("style", "stem"), [("{}", "field."), ("_{}", ""), ("[{}]", "msg.")])
@pytest.mark.parametrize("joints", [["elbow", "wrist"], ["wrist", "elbow"]])
def test_joints_are_those_that_cells_name(
    style: str, stem: str, joints: list[str], tmp_path: Path
) -> None:
    recording = opened(tmp_path, cells(style, [joints], stem))
    assert set(recording.signals) == {f"{k}.{j}" for k in ("q", "tau") for j in joints}
    assert same(recording)
    drafted = mapped(draft_map(recording.table, ["wrist", "elbow"]))
    assert {s.joints for s in drafted.signals} == {("wrist", "elbow")}
    assert same(Recording.open(tmp_path / "run.csv", drafted))


def test_rows_that_name_joints_in_another_order_are_refused(tmp_path: Path) -> None:
    text = cells("{}", [["elbow", "wrist"], ["wrist", "elbow"]], "field.")
    with pytest.raises(InvalidRecording, match="another order") as caught:
        opened(tmp_path, text)
    assert caught.value.got == "row 2 of the numbers"
    damage: list[InvalidRecording] = []
    salvaged = Recording.open(tmp_path / "run.csv", damaged=damage.append)
    assert np.array_equal(salvaged.whole(["q.elbow"]).values[:, 0], Q[::2])
    assert f"{ROWS // 2} rows that name other joints" in str(damage[0])


def echoed(*lists: str, frame: str = "", joints: str = "wrist,elbow", step: int = 10**7) -> str:
    """Return rows of joint states, with the lists `q`, `v` and `tau`, or '' for one without any."""
    rows = []
    for k in range(ROWS):
        sec, nanosec = divmod(EPOCH + step * k, 10**9)
        values = {"q": f"1.5,{Q[k]}", "v": "0.5,-0.5", "tau": f"nan,{TAU[k]}", "": ""}
        rows.append(",".join([f"{sec},{nanosec},{frame},{joints}", *(values[n] for n in lists)]))
    return "\n".join([*rows, ""])


WARNING = "WARNING: topic [/joint_states] does not appear to be published yet\n"
LOST = "A message was lost!!!\n\ttotal count change:1\n\ttotal count: 1---\n"


@pytest.mark.parametrize("frame", ["", "base_link"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("lists", [("q", "v", "tau"), ("q", "", "tau")])
def test_echoed_joint_states_are_read_as_the_same_columns_with_names(
    lists: tuple[str, ...], encoding: str, frame: str, tmp_path: Path
) -> None:
    rows = echoed(*lists, frame=frame).splitlines(keepends=True)
    text = WARNING + "".join([*rows[:9], LOST, *rows[9:]]) if frame else "".join(rows)
    recording = opened(tmp_path, text.encode(encoding))
    kinds = [n for n in lists if n]
    assert set(recording.signals) == {f"{k}.{j}" for k in kinds for j in ("wrist", "elbow")}
    assert same(recording) and recording.canonical().epoch == EPOCH
    assert np.all(recording.whole(["q.wrist"]).values == 1.5)
    damage: list[InvalidRecording] = []
    assert same(Recording.open(tmp_path / "run.csv", damaged=damage.append)) and not damage
    assert any("no header" in note for note in recording.remarks)


@pytest.mark.parametrize("step", [10**5, 2 * 10**9])
def test_echoed_stamps_count_nanoseconds_whatever_their_steps(step: int, tmp_path: Path) -> None:
    block = opened(tmp_path, echoed("q", "v", "", step=step)).whole(["q.elbow"])
    assert np.max(np.abs(block.time - 1e-9 * step * np.arange(ROWS))) < 1e-12


def test_echoed_numbers_that_may_be_velocities_or_efforts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRecording, match="velocities or efforts") as caught:
        opened(tmp_path, echoed("q", "tau"))
    assert "--draft" in caught.value.cure
    path = tmp_path / "run.csv"
    drafted = mapped(draft_map(read_table(path), ["wrist", "elbow"]))
    assert drafted.time_unit == "ns"
    assert same(Recording.open(path, drafted))


def test_echoed_rows_of_other_joints_are_refused(tmp_path: Path) -> None:
    text = echoed("q", "v", "tau") + echoed("q", "v", "tau", joints="elbow,wrist")
    with pytest.raises(InvalidRecording, match="another order") as caught:
        opened(tmp_path, text).whole(["q.elbow"])
    assert caught.value.got == f"row {ROWS + 1} of the numbers"


def test_a_column_of_text_is_named_as_such(tmp_path: Path) -> None:
    text = "\n".join(["time,q,mode", *(f"{k},run" for k in ("0,1", "1,2", "2,3")), ""])
    with pytest.raises(MissingSignal, match="holds no numbers"):
        opened(tmp_path, text, mapped('[time]\ncolumn = "time"\n[q]\ncolumns = ["mode"]\n'
                                      'joints = ["elbow"]'))  # fmt: skip


# --- topics


def topics(apart: bool) -> str:
    """Return a table of a joint's topics and another one's, each with rows of its own."""
    lines = ["__time,/arm/elbow/position,/arm/elbow/effort,/imu/x"]
    for t, q, tau in zip(TIME, Q, TAU, strict=True):
        lines += [f"{t:.4f},{q},,", f"{t:.4f},,{tau},"] if apart else [f"{t:.4f},{q},{tau},"]
        lines += [f"{t + 0.003:.4f},,,9.81"]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("apart", [False, True])
def test_rows_of_other_topics_are_passed_over(apart: bool, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text(topics(apart))
    drafted = mapped(draft_map(read_table(path), ["elbow"]))
    recording = Recording.open(path, drafted)
    assert same(recording)
    line = survey(recording, ["q.elbow", "tau.elbow"])
    assert (line.rows, line.used, line.step) == (ROWS, ROWS, approx(STEP))
    assert any("another topic's" in note for note in recording.remarks)
    assert any("rows of their own" in note for note in recording.remarks) == apart


def test_rows_that_are_broken_are_no_other_topics(tmp_path: Path) -> None:
    lines = [HEAD, *LINES]
    lines[5] = lines[6] = "0.045,,"
    assert survey(opened(tmp_path, "\n".join(lines)), ["q.elbow", "tau.elbow"]).broken == 2


# --- angles


def turning(turn: float) -> tuple[np.ndarray, str]:
    path = np.linspace(0.0, 3.3, 200) * turn
    lines = [f"{STEP * k:.2f},{p % turn:.6f},{k % 7}" for k, p in enumerate(path)]
    lines[50] = f"0.50,nan,{50 % 7}"
    return path, "\n".join([HEAD, *lines, ""])


def test_an_endless_joint_goes_on_from_turn_to_turn(tmp_path: Path) -> None:
    path, text = turning(2.0 * np.pi)
    recording = opened(tmp_path, text)
    made = recording.unwrapped(["elbow"])
    known = np.arange(200) != 50
    assert made.whole(["q.elbow"]).values[known, 0] == approx(path[known], abs=2e-6)
    assert "jumps 3 times by a full turn" in made.remarks[-1]
    assert recording.unwrapped(["wrist"]) is recording
    # Degrees that are not said to be are no turns of radians.
    degrees = opened(tmp_path, turning(360.0)[1])
    assert degrees.unwrapped(["elbow"]) is degrees


@pytest.mark.parametrize("unit", ["rad", "deg", "turn"])
@pytest.mark.parametrize("which", ["true", '["elbow"]'])
def test_a_map_unwraps_angles(unit: str, which: str, tmp_path: Path) -> None:
    turn = {"rad": 2.0 * np.pi, "deg": 360.0, "turn": 1.0}[unit]
    path, text = turning(turn)
    table = f'[q]\ncolumns = ["q.elbow"]\njoints = ["elbow"]\nunit = "{unit}"\nunwrap = {which}\n'
    values = opened(tmp_path, text, mapped(table)).whole(["q.elbow"]).values[:, 0]
    known = np.arange(200) != 50
    assert values[known] == approx(2.0 * np.pi / turn * path[known], abs=1e-5)


def test_unwrap_names_joints_of_its_table() -> None:
    for table in ('[q]\ncolumns = ["a"]\njoints = ["elbow"]\nunwrap = ["wrist"]\n',
                  '[tau]\ncolumns = ["a"]\njoints = ["elbow"]\nunwrap = true\n'):  # fmt: skip
        with pytest.raises(InvalidSetting):
            mapped(table)


# --- drafts


def test_a_draft_takes_for_time_what_grows_from_row_to_row(tmp_path: Path) -> None:
    lines = [f"{10 * k},{q},{tau}" for k, (q, tau) in enumerate(zip(Q, TAU, strict=True))]
    path = tmp_path / "run.csv"
    path.write_text("\n".join(["zeit,elbow position,elbow torque", *lines, ""]))
    text = draft_map(read_table(path), ["elbow"])
    drafted = mapped(text)
    assert (drafted.time, drafted.time_unit, drafted.step) == ("zeit", "ms", None)
    assert text.count("CHECK") >= 3
    assert same(Recording.open(path, drafted))


def test_a_draft_takes_units_from_the_files_line_of_units(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    rows = [line.replace(",", ";") for line in LINES]
    path.write_text("\n".join(["time;elbow pos;elbow trq", "ms;deg;mNm", *rows, ""]))
    drafted = mapped(draft_map(read_table(path), ["elbow"]))
    assert drafted.time_unit == "ms"
    assert {s.kind: s.unit for s in drafted.signals} == {"q": "deg", "tau": "mNm"}


@pytest.mark.parametrize("effort", ["", "nan"])
def test_rows_of_a_second_publisher_without_effort_are_passed_over(
    effort: str, tmp_path: Path
) -> None:
    others = [f"{t + 0.004:.3f},0,{effort}" for t in TIME]
    lines = [line for pair in zip(LINES, others, strict=True) for line in pair]
    recording = opened(tmp_path, "\n".join([HEAD, *lines, ""]))
    assert same(recording)
    assert any("second publisher" in note for note in recording.remarks)


def test_efforts_that_end_early_are_no_second_publisher(tmp_path: Path) -> None:
    lines = [*LINES[:20], *(f"{k.rpartition(',')[0]}," for k in LINES[20:])]
    recording = opened(tmp_path, "\n".join([HEAD, *lines, ""]))
    assert not any("second publisher" in note for note in recording.remarks)
    assert len(recording.whole(["q.elbow"]).time) == ROWS


def test_a_draft_knows_the_names_of_simulators(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("\n".join(["t,a/qpos[0],a/qvel[0],a/effort[0]", "0,1,2,3", "1,2,3,5", ""]))
    columns = {s.kind: s.columns for s in mapped(draft_map(read_table(path), ["elbow"])).signals}
    assert columns == {"q": ("a/qpos[0]",), "v": ("a/qvel[0]",), "tau": ("a/effort[0]",)}
