"""SQLite files from outside, read within bounds (sqlite.org/security.html).

A schema is a program: a view, a generated column or a virtual table computes what is read from
it, without end if it likes. Only plain tables are read, and a file has no more steps and bytes
than its size allows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

STEPS = 20_000  # of SQLite's machine between two looks at the budget, some milliseconds
# A row takes ten bytes at least, and some twenty steps to be read, so that an honest file is read
# five times over within these.
STEPS_A_BYTE, FEWEST_STEPS = 10, 5_000_000
LARGEST_VALUE = 256 << 20  # [bytes], of one message
PLAIN = "table"  # as `PRAGMA table_list` calls what is no view, virtual or shadow table
INTERRUPTED = 9  # SQLITE_INTERRUPT


class SqliteFile:
    """A SQLite file, read only; to be closed by `contextlib.closing`.

    Args:
        path: The file. Nothing is written beside it, not even a lock.

    Raises:
        sqlite3.Error: If it is no SQLite file.
    """

    def __init__(self, path: Path) -> None:
        self._size = path.stat().st_size
        self._bytes_left = 2 * self._size + 1024
        self._steps_left = STEPS_A_BYTE * self._size + FEWEST_STEPS
        address = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        self._base = sqlite3.connect(address, uri=True, cached_statements=0)
        self._base.text_factory = lambda data: data.decode("utf-8", "replace")
        # Nothing in a file is longer than the file.
        longest = min(LARGEST_VALUE, self._size + 1024)
        self._base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)
        self._base.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        self._base.set_progress_handler(self._count, STEPS)
        try:
            for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
                self._base.execute(f"PRAGMA {pragma}")
        except BaseException:
            self._base.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def _count(self) -> bool:
        self._steps_left -= STEPS
        return self.is_spent

    @property
    def is_spent(self) -> bool:
        """Whether reading has used up the steps or bytes that the file's size allows."""
        return self._steps_left < 0 or self._bytes_left < 0

    def require_table(self, name: str, columns: Mapping[str, str]) -> None:
        """Check that a name is that of a plain table, whose columns are stored.

        Args:
            columns: Required columns, with the declared type of the one that must be the row's
                number, and an empty text for the others.

        Raises:
            sqlite3.Error: If it is missing, a view or virtual, or computes a column.
        """
        kinds = {kind for table, kind in self._objects() if table == name}
        if kinds != {PLAIN}:
            found = ", ".join(sorted(kinds)) or "missing"
            raise sqlite3.DatabaseError(f"'{name}' is no plain table: {found}")
        found_columns = {
            row[1]: (str(row[2]), row[5], row[6])
            for row in self.rows(f"PRAGMA main.table_xinfo({name})")
        }
        for column, kind in columns.items():
            if column not in found_columns or found_columns[column][2]:
                raise sqlite3.DatabaseError(f"'{name}' stores no column '{column}'")
            declared, key, _ = found_columns[column]
            if kind and (declared.upper() != kind or key != 1):
                raise sqlite3.DatabaseError(f"'{name}' is not numbered by its column '{column}'")

    def has(self, name: str) -> bool:
        """Whether there is a table, view or virtual table of this name."""
        return any(table == name for table, _ in self._objects())

    def _objects(self) -> Iterator[tuple[str, str]]:
        for row in self.rows("PRAGMA main.table_list"):
            if row[0] == "main":
                yield str(row[1]), str(row[2])

    def rows(self, query: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query.

        Args:
            values: Values of the placeholders `?` in the query.

        Raises:
            sqlite3.Error: If the file is damaged, or says more than its size allows.
            KeyboardInterrupt: At an interrupt while SQLite works, which Python drops there.
        """
        try:
            for row in self._base.execute(query, values):
                self._bytes_left -= sum(len(v) for v in row if isinstance(v, bytes | str))
                if self._bytes_left < 0:
                    raise sqlite3.DatabaseError(f"it holds more than its {self._size} bytes")
                yield row
        except sqlite3.OperationalError as problem:
            if problem.sqlite_errorcode != INTERRUPTED:
                raise
            if self._steps_left >= 0:  # it was not this budget that ended the query
                raise KeyboardInterrupt from problem
            raise sqlite3.DatabaseError("it takes more steps than its size allows") from problem
