"""The tables of a savepoint that are exported, and what of its states no table shows as values.

Without names these are all tables that do not repeat others: `StateMeta`, `operators`, `files`, `source_offsets`, `timers`, and the table
of each state. An operator's table has the rows of its states once more, views have their columns, `xray` and `restore_check` follow
from the states: they are exported by name.

The names of tables → names of folders, which are the names of tables in Iceberg and Delta, too.

ASCII letters, digits, `_` and `-` stay; each byte (of UTF-8) of any other character is `~` and two hexadecimal digits, also a `_` at
the beginning: many readers pass over folders that begin with it. So two tables have two names, and a name is one step of a path on
every file system. A name of more than 150 characters is cut, and ends with `~~` and a hash of the whole.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from catalog import Database, NoSuchTableError, Table
from catalog.references import unique_names
from catalog.savepointtables import (
    FILES_NAME,
    OPERATORS_NAME,
    SOURCE_OFFSETS_NAME,
    STATE_META_NAME,
    TIMERS_NAME,
)
from catalog.statetables import StateTable
from readers import ReaderError
from service.base.errors import InvalidRequestError

_ESCAPED = re.compile(r"[^A-Za-z0-9_-]|^_")
_LONGEST = 150
_HASH_DIGITS = 32
# Windows keeps these for devices, in any case.
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
)


def folder_name(table: str) -> str:
    """Return the name of the folder of a table."""
    spelled = _ESCAPED.sub(_escaped, table) or "~"
    if spelled.casefold() in _DEVICES:
        spelled += "~"
    if len(spelled) <= _LONGEST:
        return spelled
    digest = hashlib.sha256(spelled.encode()).hexdigest()[:_HASH_DIGITS]
    return f"{spelled[: _LONGEST - _HASH_DIGITS - 2]}~~{digest}"


def folder_names(tables: Iterable[tuple[str, str]]) -> list[str]:
    """Return a name for each (table, id of its operator): with the id where two tables have one name, in any case."""
    return unique_names((folder_name(table), operator_id) for table, operator_id in tables)


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"~{byte:02x}" for byte in match[0].encode(errors="surrogatepass"))


_FACTS = (STATE_META_NAME, OPERATORS_NAME, FILES_NAME, SOURCE_OFFSETS_NAME, TIMERS_NAME)
_DECODED = "decoded"
_PATTERN = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenTable:
    """A table that is exported.

    Attributes:
        table: the table.
        folder: the name of its folder.
        status: `decode_status` of its state; None where it is of no single state.
        note: `decode_note` of its state; None where there is none.
    """

    table: Table
    folder: str
    status: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UndecodedState:
    """A state that is exported as bytes, in part or as a whole, or not at all.

    Attributes:
        operator: its uid, name or id.
        state: its name.
        status: `decode_status`.
        note: `decode_note`.
        table: that shows it; None if none does.
    """

    operator: str | None
    state: str
    status: str
    note: str | None
    table: str | None

    def text(self) -> str:
        """Return it as a line for people."""
        what = "no table shows it" if self.table is None else f"{self.table} is exported as it is"
        return f"{self.operator or 'the job manager'}: state {self.state!r} is {self.status}, {what}: {self.note or 'no note'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is exported of a savepoint.

    Attributes:
        tables: in order.
        undecoded: states that are not wholly decoded, among those of the tables; with all tables, of the savepoint.
        unread: errors of files that may name more states; only with `allow_partial`.
    """

    tables: tuple[ChosenTable, ...]
    undecoded: tuple[UndecodedState, ...]
    unread: tuple[ReaderError, ...]


def selection_of(
    database: Database, names: Sequence[str], *, allow_partial: bool, may_lack: bool = False
) -> Selection:
    """Return what is exported of a savepoint; reads the headers of all state files.

    Args:
        database: the savepoint.
        names: of tables, or patterns; empty for all that do not repeat others.
        allow_partial: whether files that may name more states may be unreadable.
        may_lack: whether it need not have tables of all names.

    Raises:
        NoSuchTableError: near names in the error.
        InvalidRequestError: no table has such a name.
        ReaderError: a file cannot be read.
    """
    unread = tuple(_unread(database))
    if unread and not names and not allow_partial:
        raise unread[0]
    tables = list(_named(database, names, may_lack=may_lack) if names else _all(database))
    folders = folder_names((table.name, operator_id) for table, operator_id in tables)
    chosen = (_chosen(table, folder) for (table, _), folder in zip(tables, folders, strict=True))
    shown = {table.name for table, _ in tables} if names else None
    undecoded = (state for state in _undecoded(database) if shown is None or state.table in shown)
    return Selection(tables=tuple(chosen), undecoded=tuple(undecoded), unread=unread)


def matching(database: Database, pattern: str) -> list[str]:
    """Return the names of the tables that a pattern matches, in any case."""
    folded = pattern.casefold()
    return [name for name in database.tables if fnmatchcase(name.casefold(), folded)]


def _all(database: Database) -> Iterator[tuple[Table, str]]:
    for name in _FACTS:
        yield database.table(name), ""
    for operator_id, table in database.state_tables():
        yield table, operator_id


def _named(database: Database, names: Sequence[str], *, may_lack: bool) -> Iterator[tuple[Table, str]]:
    known: dict[str, Table] = {}
    for name in names:
        found = matching(database, name) if not _PATTERN.isdisjoint(name) else [name]
        if not found and not may_lack:
            raise InvalidRequestError(
                f"expected tables that match {name!r:.100}, found none in database {database.name!r}"
            )
        for one in found:
            try:
                table = database.table(one)
            except NoSuchTableError:
                if not may_lack:
                    raise
            else:
                known.setdefault(table.name.casefold(), table)
    return ((table, "") for table in known.values())


def _chosen(table: Table, folder: str) -> ChosenTable:
    if not isinstance(table, StateTable):
        return ChosenTable(table=table, folder=folder)
    state = table.states[0].state
    return ChosenTable(table=table, folder=folder, status=state.status, note=state.note or None)


def _unread(database: Database) -> Iterator[ReaderError]:
    for operator in database.savepoint.operators:
        for handle in operator.unread:
            yield handle.error


def _undecoded(database: Database) -> Iterator[UndecodedState]:
    for row in database.table(STATE_META_NAME).scan().to_arrow().to_pylist():
        if row["decode_status"] != _DECODED or row["table_name"] is None:
            yield UndecodedState(
                operator=row["operator_uid"] or row["operator_name"] or row["operator_id"],
                state=row["state_name"],
                status=row["decode_status"],
                note=row["decode_note"],
                table=row["table_name"],
            )
