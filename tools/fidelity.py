"""Reads whole folders of savepoints and reports which states decode: `python -m tools.fidelity DIR …`.

It scans every table of every savepoint to its last row, and prints a line for each state:

| word | the state |
|---|---|
| decoded | all of it is shown as columns |
| partial | a part of a value is shown as bytes; the note says which and why |
| raw | key or value are shown as bytes; the note names the class |
| failed | a scan ended in an error, a file is missing, or it is raw without a reason |

Savepoints that cannot be opened and other tables that fail have lines of their own. The exit code is 1 if anything failed, 2
if there was nothing to read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.database import Database
from catalog.savepointtables import STATE_META_NAME, TIMERS_NAME
from readers.errors import ReaderError
from readers.states import DECODED, PARTIAL, RAW
from tools.folders import folder_parser, found_savepoints

FAILED = "failed"
_WORDS = (DECODED, PARTIAL, RAW, FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result for one state, table or savepoint.

    Attributes:
        database: the savepoint.
        table: empty for the whole savepoint.
        word: `decoded`, `partial`, `raw` or `failed`.
        rows: None if they could not be counted, or have no table.
        note: what is not decoded and why, or the error.
    """

    database: str
    table: str
    word: str
    rows: int | None = None
    note: str = ""

    def __str__(self) -> str:
        rows = "" if self.rows is None else str(self.rows)
        note = f"  {self.note}" if self.note else ""
        return f"{self.word:<7}  {rows:>9}  {self.database}  {self.table}{note}".rstrip()


def findings(database: Database) -> Iterator[Finding]:
    """Scan all tables of a savepoint; yield a finding for each state, and for all else that fails."""
    try:
        names = database.tables
        states = database.table(STATE_META_NAME).scan().to_arrow().to_pylist()
    except Exception as error:  # a crash of any kind is what this looks for
        yield _failed(database, "", error)
        return
    scanned = {name: _rows(database, name) for name in names}
    reported: set[str] = set()
    for state in states:
        finding = _finding(database, state, scanned)
        reported |= {finding.note} if finding.word == FAILED else set()
        yield finding
    claimed = {state["table_name"] for state in states}
    for table, rows in scanned.items():
        if isinstance(rows, Exception) and table not in claimed:
            finding = _failed(database, table, rows)
            if finding.note not in reported:  # the table of an operator fails as that of its state does
                yield finding


def _finding(database: Database, state: dict[str, Any], scanned: dict[str, int | Exception]) -> Finding:
    table = state["table_name"] or f"({state['state_name']})"
    word, note, rows = state["decode_status"], state["decode_note"] or "", scanned.get(table)
    if isinstance(rows, Exception):
        return _failed(database, table, rows)
    if word == RAW and not note:
        return Finding(database=database.name, table=table, word=FAILED, note="raw without a reason")
    shown = f"{table} ({state['state_name']})" if table == TIMERS_NAME else table
    counted = None if table == TIMERS_NAME else rows
    return Finding(database=database.name, table=shown, word=word, rows=counted, note=note)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the findings of folders and their totals; return the exit code."""
    parser = folder_parser("fidelity", __doc__)
    parser.add_argument("--state-info", metavar="FILE", help="use this stateInfo for all of them")
    parser.add_argument(
        "--jar",
        dest="jars",
        metavar="FILE",
        action="append",
        default=[],
        help="a jar of the jobs; may be repeated",
    )
    parser.add_argument("--brief", action="store_true", help="without the states that are decoded")
    options = parser.parse_args(arguments)
    catalog = found_savepoints("fidelity", options.directories, options.state_info, options.jars)
    if catalog is None:
        return 2
    totals: Counter[str] = Counter()
    for name in catalog.databases:
        database = catalog.database(name)
        for finding in findings(database):
            totals[finding.word] += 1
            if finding.word != DECODED or not options.brief:
                print(finding, flush=True)
    count = len(catalog.databases)
    print(f"{count} savepoint{'' if count == 1 else 's'}: " + ", ".join(f"{totals[w]} {w}" for w in _WORDS))
    return 2 if not count else 1 if totals[FAILED] else 0


def _rows(database: Database, table: str) -> int | Exception:
    """Return the number of rows, with all columns read; or the error."""
    try:
        scan = database.table(table).scan()
        return sum(int(batch.num_rows) for split in scan.splits for batch in scan.read(split))
    except Exception as error:  # as above
        return error


def _failed(database: Database, table: str, error: Exception) -> Finding:
    text = str(error) if isinstance(error, ReaderError) else f"{type(error).__name__}: {error}"
    return Finding(database=database.name, table=table, word=FAILED, note=" ".join(text.split()))


if __name__ == "__main__":
    sys.exit(main())
