"""Text files: CSV with commas, semicolons or tabs, and columns separated by single spaces.

Where the columns' names and the numbers stand is found by the shape of the first lines.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording, spelt

from . import table
from .table import (
    EITHER,
    LONGEST_LINE,
    NAMED,
    UNGUARDED,
    Damaged,
    Say,
    Table,
    Write,
    damaged_file,
    kept,
    refuse,
    refuse_many,
    refuse_twice,
    written_by,
)

damage = partial(damaged_file, "CSV file")

# What stands for no number: empty cells, and what compilers' runtimes and spreadsheets print.
MISSING = ("", "nan", "NaN", "NAN", "null", "None", "NA", "N/A", "#N/A", "-nan", "-nan(ind)",
           "nan(ind)", "1.#QNAN", "-1.#QNAN", "1.#IND", "-1.#IND", "1.#INF", "-1.#INF")  # fmt: skip
CUT = "the last line does not end: its last number may be cut off"
ENDS = ("\n", "\r")
# What is left out of a damaged file.
MISSHAPEN = "lines with another number of columns"
UNREAD = "with something else than numbers"
OTHERS = "rows that name other joints, or in another order"
CHUNK_BYTES = 1 << 20
SHORT = 8 << 20  # bytes of a file that is as quickly read again
HEAD_LINES = 300  # by which the layout of a file is known
COMMENTS = ("#", "//", "% ")  # begin lines without numbers; `%time` is a name
# What `ros2 topic echo` prints where it lost a message.
LOST = rb"A message was lost!!!|total count(?: change)?: ?\d+(?:---)?"
UNIT = re.compile(
    r"[\[(]?(|-|[1sgVWK%]|[mun]s|µs|sec|rpm|turn|Hz|°C|m?A|[mk]?N|[mk]?N[·*. ]?m"
    r"|(rad|deg|°|mm?)(/s(\^2|²)?)?)[\])]?"
)
MOMENT = "header.stamp"  # the column that is made of the first two
DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?(?P<zone>Z|[+-]\d\d:?\d\d)?")


@dataclass(frozen=True)
class _Layout:
    names: tuple[str, ...] = ()  # of its columns; some may have none
    delimiter: str = ","  # what parts them
    above: int = 1  # how many lines stand above the numbers
    decimal: str = "."  # the decimal point, or a comma
    spaced: bool = False  # whether spaces stand behind delimiters
    # first cells of columns of stamps, which are whole numbers or of ISO 8601, and of texts
    stamps: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)  # of columns, where a line states them
    repeating: tuple[str, ...] = ()  # lines above the numbers, which may come again among them
    encoding: str = "utf-8"
    sparse: bool = False  # whether rows leave cells empty
    echoed: bool = False  # whether its time is in seconds and nanoseconds, beside one another
    notes: tuple[str, ...] = ()  # what was seen, in sentences

    @cached_property
    def origin(self) -> int:
        """The first stamp, from which all of them count [ns]."""
        return _nanoseconds(next(iter(self.stamps.values()), "0"))

    @cached_property
    def guards(self) -> Mapping[str, str]:
        """The first row's names of joints, which all rows must have."""
        return {n: text for n, text in self.texts.items() if NAMED.fullmatch(n)}

    @cached_property
    def between(self) -> re.Pattern[bytes]:
        """What stands among the numbers and is none: lines from above, which repeat, comments."""
        again = b"|".join(
            re.escape(line.encode(self.encoding, "replace")) for line in self.repeating
        )
        kinds = rb"(?P<again>" + (again or b"(?!)") + rb")|(?:#|//|% )[^\r\n]*|" + LOST
        # A file put behind another one brings its byte order mark.
        return re.compile(rb"(?m)^(?:\xef\xbb\xbf)?[ \t]*(?:" + kinds + rb")[ \t]*(?:\r?\n|\r|\Z)")


def _utf16(path: Path) -> str:
    """Return the encoding of a file of UTF-16, as spreadsheets and PowerShell write; else ''."""
    with path.open("rb") as file:
        head = file.read(4096)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16-le" if head.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    # Without the mark: digits and delimiters have a zero for their other half.
    first, second = (4 * head[k::2].count(0) > len(head) for k in (0, 1))
    return "" if first == second else "utf-16-le" if second else "utf-16-be"


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a text file; one of UTF-16 is read as UTF-8."""
    encoding = _utf16(path)
    with path.open("rb") as file:  # its name may be no text
        if not encoding:
            yield file
            return
        chunks = codecs.iterdecode(iter(partial(file.read, CHUNK_BYTES), b""), encoding, "replace")
        yield io.BufferedReader(_Pieces(chunk.encode() for chunk in chunks), CHUNK_BYTES)


def _layout(path: Path) -> _Layout:
    """Return where a file has its columns' names and its numbers.

    Numbers are in lines of the usual number of cells; their names are the line above that has as
    many texts. What else stands above is a preamble, comments or units.
    """
    data = b""
    with _opened(path) as file:
        for _ in range(HEAD_LINES):
            line = file.readline(LONGEST_LINE)
            if data and len(data) + len(line) > LONGEST_LINE:
                break
            data += line
    notes, encoding = [], "utf-8"
    try:
        head = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        encoding = "cp1252"
        head = data.decode(encoding, errors="replace")
        notes.append("the text is not UTF-8: letters are read as those of Windows-1252")
    lines = list(io.StringIO(head, newline=""))[:HEAD_LINES]
    first = next((k for k in lines if k.strip()), "")
    if not first:
        raise InvalidRecording("the log is empty", argument=str(path))
    refuse_many(1 + max(map(first.count, ",;\t")), path)
    if "\0" in first:
        raise InvalidRecording(
            "the CSV file is not UTF-8 text",
            argument=str(path),
            got="a NUL in the first line",
            cure="save it as UTF-8",
        )
    layouts = [_parted(lines, delimiter) for delimiter in ",;\t"]
    if max(len(k.names) for k in layouts) < 2:
        layouts.append(_parted(lines, " "))  # as the recorder of Universal Robots writes it
    layout = max(layouts, key=lambda k: len(k.names))
    if not layout.names:
        layout = _echoed(lines) or _of_first_line(path, first)
    refuse_twice([c for c in layout.names if c], path)
    return replace(layout, encoding=encoding, notes=(*notes, *layout.notes))


def _echoed(lines: Sequence[str]) -> _Layout | None:
    """Return the layout of joint states as `ros2 topic echo --csv` prints them; None if it is none.

    A row is seconds, nanoseconds, frame, then a cell for each name, position, velocity and effort;
    where one of these lists is empty, a cell without a text.
    """
    head = re.compile(r"\d{1,10},\d{1,9},[^,]*,")  # seconds, nanoseconds, frame
    above = next((k for k, line in enumerate(lines) if head.match(line)), None)
    if above is None:
        return None
    row = _cells(lines[above], ",")
    ends = (k for k, c in enumerate(row[3:]) if c in MISSING or _is_number(c))
    count = next(ends, 0)
    joints, rest = row[3 : 3 + count], row[3 + count :]
    lists: list[int] = []
    while count and rest and (not rest[0] or len(rest) >= count):
        lists.append(count if rest[0] else 0)
        rest = rest[lists[-1] or 1 :]
    if rest or not 0 < len(lists) < 4:
        return None
    # Rows that other tools wrote lack the cells of what is empty.
    words = ("position", "velocity", "effort") if len(lists) == 3 else ("position", EITHER)
    names = ["sec", "nanosec", "frame_id", *(f"name{k}" for k in range(count))]
    for word, size in zip(words, lists, strict=False):
        names += [f"{word}{k}" for k in range(size)] or [""]
    texts = {f"name{k}": joint for k, joint in enumerate(joints)} | {"frame_id": row[2]}
    stamp = str(10**9 * int(row[0]) + int(row[1]))
    return _Layout(
        tuple(names),
        above=above,
        stamps={MOMENT: stamp},
        texts=texts,
        units={MOMENT: "ns"},
        echoed=True,
        notes=("there is no header: rows are those of joint states by 'ros2 topic echo --csv'",),
    )


def _with_moment(table: Table, origin: int) -> Table:
    """Return a table with the column of its seconds and nanoseconds since the first [ns]."""

    def read(names: Sequence[str]) -> Iterator[Array]:
        own = list(dict.fromkeys([*(n for n in names if n != MOMENT), "sec", "nanosec"]))
        for block in table.read(own):
            at = dict(zip(own, block.T, strict=True))
            # Whole numbers that a double holds, unlike their sum since 1970.
            since = 1e9 * (at["sec"] - origin // 10**9) + (at["nanosec"] - origin % 10**9)
            yield np.stack([since if n == MOMENT else at[n] for n in names], 1)

    return replace(table, columns=(MOMENT, *table.columns), read=read)


def _of_first_line(path: Path, line: str) -> _Layout:
    line = _uncommented(line)
    delimiter = max(",;\t", key=line.count)
    if delimiter not in line and " " in line.strip():
        delimiter = " "
    try:
        header = [c.strip() for c in next(csv.reader([line], delimiter=delimiter))]
    except csv.Error as problem:
        raise InvalidRecording(
            "the first line cannot be read", argument=str(path), got=str(problem)
        ) from problem
    if 2 * sum(map(_is_number, header)) > len(header):
        raise InvalidRecording(
            "the first line holds numbers, not column names",
            argument=str(path),
            got=line.strip()[:80],
            cure="put a line with the columns' names on top",
        )
    if not any(header):
        raise InvalidRecording(
            "the first line names no columns", argument=str(path), got=line.strip()[:80]
        )
    return _Layout(tuple(header), delimiter)


def _uncommented(line: str) -> str:
    """Return a line without the mark of a comment, behind which NumPy writes the names."""
    mark = next((m for m in COMMENTS if line.startswith(m)), "")
    return line.lstrip(mark).lstrip(" ") if mark else line


def _cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line, none where it is blank or cannot be read."""
    try:
        row = next(csv.reader([_uncommented(line)], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return []
    return [c.strip() for c in row] if any(map(str.strip, row)) else []


def _parted(lines: Sequence[str], delimiter: str) -> _Layout:
    """Return the layout of lines parted by a delimiter; without names if they are no table."""
    lines = ["" if re.fullmatch(r"sep=.\s*", k) else k for k in lines]  # as spreadsheets write it
    rows = [_cells(line, delimiter) for line in lines]
    weights: Counter[int] = Counter()
    for row in rows:
        weights[len(row)] += len(row)
    width = max(weights, key=lambda n: weights[n])
    points = delimiter == "," or any(re.search(r"\d\.\d", k) for k in lines)
    decimal = "." if points else ","

    def is_value(cell: str) -> bool:
        return _is_number(cell.replace(decimal, ".")) or DATE.fullmatch(cell) is not None

    columns = list(zip(*(row for row in rows if len(row) == width), strict=True))
    values = [sum(map(is_value, c)) for c in columns]
    numeric = [j for j, c in enumerate(columns) if 2 * values[j] >= sum(map(bool, c)) > 0]
    first = next(
        (
            k
            for k, row in enumerate(rows)
            if len(row) == width
            and any(is_value(row[j]) for j in numeric)
            and all(is_value(row[j]) or row[j] in MISSING for j in numeric)
        ),
        0,
    )
    least = width - (first > 0 and not rows[first][-1])  # lines may end with a delimiter
    texts = [[c for c in row if c and not is_value(c)] for row in rows[:first]]
    fitting = [
        k
        for k, row in enumerate(rows[:first])
        if texts[k] and len(row) >= least and not any(row[width:])
    ]
    units = [k for k in fitting if all(map(UNIT.fullmatch, rows[k]))]
    units = units if len(units) < len(fitting) else []
    at = max(
        (k for k in fitting if k not in units),
        key=lambda k: (
            not lines[k].startswith(COMMENTS),
            len(set(texts[k])) == len(texts[k]),
            len(texts[k]),
            k,
        ),
        default=None,
    )
    if at is None:
        return _Layout((), delimiter)
    names = tuple([*rows[at], ""][:width])
    # A line that holds a number, among lines without, is a row that is damaged.
    above = next(
        (
            k
            for k in range(at + 1, first)
            if any(map(is_value, rows[k])) and not lines[k].startswith(COMMENTS)
        ),
        first,
    )
    cells = {
        n: next((r[j] for r in rows[first:] if len(r) == width and r[j] not in MISSING), "")
        for j, n in enumerate(names)
        if n
    }
    of_numbers = {names[j] for j in numeric}
    notes = []
    if any(rows[:at]):
        notes.append(f"the columns' names are in line {at + 1}: what stands above is passed over")
    notes += [f"line {k + 1} states the columns' units" for k in units]
    if decimal == "," and any(re.search(r"\d,\d", k) for k in lines[first:]):
        notes.append("decimal commas are read for points")
    # Whole numbers that a double does not hold: nanoseconds since 1970.
    stamp = re.compile(r"\d{17,18}|[1-8]\d{18}")
    return _Layout(
        names,
        delimiter,
        above,
        decimal,
        any(delimiter + " " in line for line in lines[first:]),
        {
            n: c
            for n, c in cells.items()
            if n in of_numbers and (stamp.fullmatch(c) or DATE.fullmatch(c))
        },
        {n: c for n, c in cells.items() if n not in of_numbers and c and not is_value(c)},
        {n: _unit(u) for k in units for n, u in zip(names, rows[k], strict=False) if n and u},
        repeating=tuple({k.strip() for k, t in zip(lines[:above], texts, strict=False) if t}),
        sparse=any(row[j] in MISSING for row in rows[first:] if len(row) == width for j in numeric),
        notes=tuple(notes),
    )


def _unit(text: str) -> str:
    """Return a unit in the spelling of column maps."""
    plain = text.strip("[]()").replace("°", "deg").replace("²", "^2").replace("sec", "s")
    return re.sub("N[. ]m", "Nm", plain)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python takes 1_000 for a number, nobody else does


def _last_line(path: Path) -> bytes:
    """Return what follows the last line end: nothing in a file that was closed properly."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 1_000_000, 0) // 2 * 2)
        end = file.read()
    if encoding := _utf16(path):
        end = end.decode(encoding, "replace").encode()
    return end.replace(b"\r", b"\n").rpartition(b"\n")[2]


def _nanoseconds(stamp: str) -> int:
    """Return a stamp as a whole number, one of ISO 8601 in nanoseconds."""
    import pyarrow

    date = DATE.fullmatch(stamp)
    if date is None:
        return int(stamp)
    kind = pyarrow.timestamp("ns", "UTC" if date["zone"] else None)
    return int(pyarrow.scalar(stamp).cast(kind).value)


def text_table(path: Path, damaged: Damaged) -> Table:
    """Return the columns of a text file; all but those of texts are assumed numeric until read.

    Raises:
        InvalidRecording: If the file is empty or its header cannot be used; while reading, if a
            line cannot be read.
    """
    layout = _layout(path)
    size = path.stat().st_size
    if size % 2 and _utf16(path):
        damaged(damage(path, f"it ends within a letter of UTF-16, at byte {size - 1}"))
    last = _last_line(path)
    # Of the right shape it is read like any other, though its last number may lack digits.
    cut = last.count(layout.delimiter.encode()) == len(layout.names) - 1 and bool(last)
    again, marked = _again(path, layout)

    def read(names: Sequence[str]) -> Iterator[Array]:
        if damaged is refuse:
            return _strict(path, layout, names, bool(again), marked)
        return _salvaged(path, layout, names, cut, damaged)

    notes = [f"text carries {UNGUARDED}: a changed digit cannot be seen", *layout.notes]
    notes += [CUT] if cut else []
    notes += [f"{n} {what} among the numbers are passed over" for what, n in again.items()]
    made = Table(
        str(path),
        tuple(n for n in layout.names if n and n not in layout.texts),
        None,
        read,
        tuple(layout.texts),
        layout.origin if 10**18 < layout.origin < 2 * 10**18 else None,
        tuple(notes),
        tuple(layout.stamps) or ("t",),
        layout.texts,
        layout.units,
        layout.sparse,
    )
    made = kept(made) if size > SHORT and damaged is refuse else made
    return _with_moment(made, layout.origin) if layout.echoed else made


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yield what is left of a file in chunks of whole lines."""
    while chunk := file.read(CHUNK_BYTES):
        yield chunk + file.readline(LONGEST_LINE)


def _again(path: Path, layout: _Layout) -> tuple[Counter[str], bool]:
    """Count what stands among the numbers and is none, and whether there is a `#`."""
    # One of which is in each; single letters are seen at once.
    marks = [k.encode(layout.encoding, "replace") for k in layout.repeating]
    marks += [b"#", b"/", b"%", b"lost"]
    counts: Counter[str] = Counter()
    marked = False
    with _opened(path) as file:
        for _ in range(layout.above):
            file.readline(LONGEST_LINE)
        for chunk in _chunks(file):
            marked |= b"#" in chunk
            if any(mark in chunk for mark in marks):
                for line in layout.between.finditer(chunk):
                    counts["repeated header lines" if line["again"] else "comment lines"] += 1
    return counts, marked


def _rows(file: BinaryIO, layout: _Layout) -> Iterator[bytes]:
    """Yield a file's bytes without what stands among its numbers and is none."""
    yield b"".join(file.readline(LONGEST_LINE) for _ in range(layout.above))
    for chunk in _chunks(file):
        yield layout.between.sub(b"", chunk)


class _Pieces(io.RawIOBase):
    """A file whose bytes come in pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.rest, self.pieces = b"", pieces

    def readable(self) -> bool:
        return True

    def readinto(self, out: Any) -> int:
        """Fill a buffer; return how many bytes there were, 0 at the end."""
        while not self.rest and (piece := next(self.pieces, None)) is not None:
            self.rest = piece
        part, self.rest = self.rest[: len(out)], self.rest[len(out) :]
        out[: len(part)] = part
        return len(part)


def _strict(
    path: Path, layout: _Layout, names: Sequence[str], filtered: bool, marked: bool
) -> Iterator[Array]:
    """Yield blocks of rows.

    Args:
        filtered: Whether something else stands among them.
        marked: Whether there is a `#` in the file.
    """
    import pyarrow
    import pyarrow.compute
    import pyarrow.csv

    # Each costs memory in each column, and no space is taken off them.
    missing = [text for text in MISSING if "#" not in text or marked]
    kinds = dict.fromkeys(names, pyarrow.float64()) | dict.fromkeys(layout.guards, pyarrow.string())
    for name in layout.stamps.keys() & kinds.keys():
        date = DATE.fullmatch(layout.stamps[name])
        zone = "UTC" if date and date["zone"] else None
        kinds[name] = pyarrow.timestamp("ns", zone) if date else pyarrow.int64()
    convert = pyarrow.csv.ConvertOptions(
        column_types=kinds,
        include_columns=list(kinds),
        null_values=[*missing, *(" " + text for text in missing)] if layout.spaced else missing,
        decimal_point=layout.decimal,
    )
    options = pyarrow.csv.ReadOptions(
        block_size=8 << 20, column_names=layout.names, skip_rows=layout.above, use_threads=False
    )
    parse = pyarrow.csv.ParseOptions(delimiter=layout.delimiter)
    rows = 0
    try:
        with _opened(path) as file:
            source = _Pieces(_rows(file, layout)) if filtered else file
            for batch in pyarrow.csv.open_csv(source, options, parse, convert):
                for name, text in layout.guards.items():
                    same = pyarrow.compute.equal(batch.column(name), text).to_numpy(False)
                    if not same.all():
                        raise _other_joints(path, layout, rows + int(np.argmin(same)))
                rows += batch.num_rows
                yield np.stack([_numbers(batch.column(n), n, layout) for n in names], 1)
    except (OSError, pyarrow.ArrowException) as problem:
        raise InvalidRecording(
            "the CSV file holds a line that cannot be read",
            argument=str(path),
            got=str(problem)[:200],
            cure="look at that line; a log cut off in mid-line loses that line with "
            f"heft convert {spelt(path)} --recover --out salvaged.csv",
        ) from problem


def _numbers(column: Any, name: str, layout: _Layout) -> Array:
    """Return a column's numbers; stamps count from the first one, dates in seconds."""
    import pyarrow

    if name not in layout.stamps:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    # Whole numbers are subtracted as such: a double of 1e18 ns is off by up to 128 ns.
    stamps = column.cast(pyarrow.int64()).fill_null(layout.origin).to_numpy()
    since = np.where(column.is_null().to_numpy(False), np.nan, stamps - layout.origin)
    return 1e-9 * since if DATE.fullmatch(layout.stamps[name]) else since


def _other_joints(path: Path, layout: _Layout, row: int) -> InvalidRecording:
    return InvalidRecording(
        "the log's rows name other joints, or in another order",
        argument=str(path),
        got=f"row {row + 1} of the numbers",
        expected=", ".join(layout.guards.values()),
        cure="give the bag that it was written from, whose messages are told apart by their "
        f"names; or leave such rows out: heft convert {spelt(path)} --recover --out rows.csv",
    )


def _salvaged(
    path: Path, layout: _Layout, names: Sequence[str], cut: bool, damaged: Damaged
) -> Iterator[Array]:
    """Yield rows in blocks, the last one only when it is known not to be cut off."""
    at = {n: layout.names.index(n) for n in names}
    guards = {layout.names.index(n): text for n, text in layout.guards.items()}
    omitted: Counter[str] = Counter()
    rows: list[list[float]] = []
    kept = False  # whether the line before was
    for cells in _lines(path, layout, omitted):
        kept = False
        if len(cells) != len(layout.names):
            omitted[MISSHAPEN] += bool(cells)
            continue
        if sorted(map(str.strip, cells)) == sorted(layout.names):
            why = "behind a second header the columns stand in another order; the rest is left out"
            damaged(damage(path, why))
            break
        if any(cells[k].strip() != text for k, text in guards.items()):
            omitted[OTHERS] += 1
            continue
        try:
            rows.append([_number(cells[k].strip(), n, layout) for n, k in at.items()])
        except ValueError:
            omitted[UNREAD] += 1
            continue
        kept = True
        if len(rows) > table.BLOCK_ROWS:
            yield np.array(rows[:-1])
            rows = rows[-1:]
    if cut and kept:
        damaged(damage(path, f"{CUT}; the line is left out"))
        rows = rows[:-1]
    if rows:
        yield np.array(rows)
    if omitted.total():
        counts = f"{omitted[MISSHAPEN]} {MISSHAPEN} and {omitted[UNREAD]} {UNREAD}"
        counts += f" and {omitted[OTHERS]} {OTHERS}" if guards else ""
        damaged(damage(path, f"{counts} are left out"))


def _lines(path: Path, layout: _Layout, omitted: Counter[str]) -> Iterator[list[str]]:
    """Yield the cells of each line; what is none is counted in `omitted`."""
    encoding = layout.encoding
    with (
        _opened(path) as raw,
        io.TextIOWrapper(raw, encoding.replace("8", "8-sig"), "replace", newline="") as file,
    ):
        for _ in range(layout.above):
            file.readline(LONGEST_LINE)
        numbers = (
            line
            for line in _short(file, omitted)
            if not layout.between.match(line.encode(encoding, "replace"))
        )
        lines = csv.reader(numbers, delimiter=layout.delimiter, skipinitialspace=True)
        while True:
            try:
                yield next(lines)
            except csv.Error:  # a field without end
                omitted[MISSHAPEN] += 1
            except StopIteration:
                return


def _short(file: TextIO, omitted: Counter[str]) -> Iterator[str]:
    """Yield lines; one without end, such as a disk's zeros, is left out piece by piece."""
    while line := file.readline(LONGEST_LINE):
        if len(line) < LONGEST_LINE or line.endswith(ENDS):
            yield line
            continue
        omitted[MISSHAPEN] += 1
        while line and not line.endswith(ENDS):
            line = file.readline(LONGEST_LINE)


def write_csv(path: Path, table: Table, say: Say) -> AbstractContextManager[Write]:
    """Open a CSV file with commas for writing."""
    import pyarrow.csv

    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    return written_by(
        lambda p, s: pyarrow.csv.CSVWriter(p, s, write_options=options), path, table, say
    )


def _number(text: str, name: str, layout: _Layout) -> float:
    """Return a cell as a number, NaN where it is empty; raise ValueError where it is none."""
    if text in MISSING:
        return np.nan
    if name in layout.stamps:
        since = _nanoseconds(text) - layout.origin
        return 1e-9 * since if DATE.fullmatch(layout.stamps[name]) else since
    text = text.replace(layout.decimal, ".")
    if not _is_number(text) or not np.isfinite(float(text)):
        raise ValueError(text)
    return float(text)
