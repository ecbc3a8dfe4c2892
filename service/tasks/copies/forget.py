"""`forget`: a savepoint, and ids → a new savepoint without all that belongs to them, a report, and the proof that nothing is left.

Rows belong to ids by their keys, or by a column of a group that has an id, such as entries of maps and elements of lists. What goes
leaves no byte: operators that may have it are written anew, entry by entry, as files of RocksDB and of earlier writes have bytes that
count no more. The report has no id and no value: it may be kept for longer than the data.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from catalog import CatalogError, Database, connect
from catalog.changedtables import WritableState, state_key
from catalog.masks.columns import ColumnNames
from catalog.masks.masks import Masks
from catalog.statetables import TableState
from readers import ROW, Leftovers, Operator, Savepoint, StateKind, files_of, find_leftovers, is_keyed
from service.base import machine
from service.base.errors import (
    InvalidQueryError,
    InvalidRequestError,
    NothingChangesError,
    translated,
)
from service.query.encode import counted, printable, size_text
from service.tasks.check.running import check_lines
from service.tasks.copies.sample import keys_in
from service.tasks.task import LONGEST_PATH, Context, Task, TaskRequest, file_option, option
from service.tasks.write.changes import ALLOW_EMPTY, Effect, ScriptContext
from service.tasks.write.request import WriteRequest, check_target, target_option
from service.tasks.write.rows.keys import KeyChanges, KeySearch
from service.tasks.write.rows.layers import check_not_assumed, reader_of
from service.tasks.write.statements.parser import Statement
from service.tasks.write.writing import Writing, Written, summary_lines
from writers import GROUP, Edit, RewriteKeyedState, WriterError

_KEY = "key"
_SHARED = frozenset({StateKind.OPERATOR_LIST, StateKind.UNION_LIST, StateKind.BROADCAST})
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetIds(Statement):
    """Remove all that belongs to ids.

    Attributes:
        ids: as texts, no two alike.
        masks: has the columns of groups.
        groups: whose columns have ids; empty for the keys of all operators.
    """

    ids: tuple[str, ...]
    masks: Masks | None = None
    groups: tuple[str, ...] = ()


@dataclass(slots=True)
class _State:
    """A state, and the places of its rows that go, by the columns for which they go."""

    table: str
    what: str
    writable: WritableState
    places: dict[str, pa.Table]
    held: set[int]


class IdChanges(KeyChanges):
    """Removes what belongs to ids."""

    def __init__(self, context: ScriptContext) -> None:
        super().__init__(context)
        self._rewritten: dict[str, Operator] = {}
        self.held: set[int] = set()

    def edits(self) -> Iterator[Edit]:
        for operator in self._rewritten.values():
            yield RewriteKeyedState(operator=operator, leaves_nothing=True)

    def _forget(self, statement: ForgetIds) -> Effect:
        search = KeySearch(statement.ids, is_named=False)
        effects: list[Effect] = []
        for source_id, name in self.operators_of_all():
            operator = self.context.in_source(source_id)
            paths = self._paths(statement, operator, name)
            states: dict[tuple[str, int], _State] = {}
            if not statement.groups or (_KEY,) in {path for own in paths.values() for path in own}:
                for one in self.of_operator(source_id, name, search):
                    found = states[one.writable.key] = _State(one.table, one.what, one.writable, {}, set())
                    found.places[_KEY] = one.of(range(len(statement.ids)))
                    found.held |= set(one.places.column("number").unique().to_pylist())
            for known, what, table in self._all_states(operator, name):
                for path in paths.get(what, ()):
                    if path != (_KEY,):
                        self._by_column(known, what, table, path, search, states)
            self._note_rewritten(operator, states)
            effects += [effect for one in states.values() if (effect := self._removed(one)) is not None]
        if statement.groups and not any(True for _ in effects) and not search.fitting:
            raise InvalidQueryError(
                f"no column of the savepoint belongs to {', '.join(statement.groups)}, or no id is a value of one"
            )
        if not search.fitting:
            raise InvalidQueryError("no id is a key of any operator", hint="; ".join(search.reasons) or None)
        rows = sum(one.removed for one in effects)
        if not rows and not self.context.may_find_nothing(statement.name):
            raise NothingChangesError("no state has any of the ids", hint=ALLOW_EMPTY)
        return Effect(
            table=statement.name,
            removed=rows,
            text=f"{counted(rows, 'row')} of {counted(len(effects), 'state')} removed",
            states=tuple(effects),
        )

    def operators_of_all(self) -> Iterator[tuple[str, str]]:
        """Yield the id and the name of each operator."""
        yield from self.context.database.operator_names.items()

    def _all_states(self, operator: Operator, name: str) -> Iterator[tuple[TableState, str, str]]:
        """Yield all states of an operator that can be written, those of the operator itself last."""
        yield from self.states_of(operator, name)
        for _, table in self.context.database.state_tables():
            known = table.states[0]
            if known.state.operator_id == operator.operator_id and known.state.kind in _SHARED:
                yield known, table.name, table.name

    def _paths(self, statement: ForgetIds, operator: Operator, name: str) -> Mapping[str, tuple[Path, ...]]:
        """Return the columns of the groups, by states."""
        masks = statement.masks
        if masks is None or not statement.groups:
            return {}
        tables = tuple(
            table.name
            for owner, table in self.context.database.state_tables()
            if owner == operator.operator_id and is_keyed(table.states[0].state.kind)
        )
        found: dict[str, tuple[Path, ...]] = {}
        for known, what, table in self._all_states(operator, name):
            names = ColumnNames(table=table, operator=name, siblings=tables)
            own = [masks.group_paths(group, table, known.state.schema, names) for group in statement.groups]
            found[what] = tuple(dict.fromkeys(path for paths in own for path in paths))
        return found

    def _by_column(
        self,
        known: TableState,
        what: str,
        table: str,
        path: Path,
        search: KeySearch,
        states: dict[tuple[str, int], _State],
    ) -> None:
        """Note the rows whose column, or a field of it, has an id."""
        check_not_assumed(table, known.state)
        state = states.get(state_key(known)) or _State(
            table, what, self.writable(known, what, table), {}, set()
        )
        with translated(WriterError):
            scan = state.writable.rows.plan().narrowed([path[0], GROUP, ROW])
        kind, is_inside = _leaf_type(scan.schema.field(path[0]).type, path[1:])
        keys = search.keys_of(kind, what, is_unquoted=False)
        if not keys:
            return
        wanted, numbers = pa.concat_arrays([key.array for key in keys.values()]), list(keys)
        batches, inside = [], 0
        for batch in scan.to_reader():
            values, rows = _leaves(batch.column(path[0]), path[1:])
            found = np.asarray(pc.fill_null(pc.index_in(values, value_set=wanted), -1))
            hit = np.flatnonzero(found >= 0)
            state.held |= {numbers[one] for one in np.unique(found[hit]).tolist()}
            chosen = np.unique(rows[hit])
            inside += len(chosen) if is_inside else 0
            batches.append(batch.select([GROUP, ROW]).take(pa.array(chosen)))
        if inside:
            raise InvalidQueryError(
                f"{counted(inside, 'row')} of {what} {'has' if inside == 1 else 'have'} an id inside a list or map of "
                f"{'.'.join(path)}",
                hint="change these values by UPDATE first; only whole rows, entries of maps and elements of lists are removed",
            )
        places = pa.Table.from_batches(batches, pa.schema([scan.schema.field(GROUP), scan.schema.field(ROW)]))
        self.check_written(known, what, places.num_rows)
        state.places[".".join(path)] = places
        states[state_key(known)] = state

    def _note_rewritten(self, operator: Operator, states: Mapping[tuple[str, int], _State]) -> None:
        """Note an operator whose keyed files may have bytes of what goes, or went before."""
        is_keyed_there = any(is_keyed(one.writable.state.kind) for one in states.values())
        if is_keyed_there and any(one.stored_header() is not None for one in operator.sources):
            self._rewritten[operator.operator_id] = operator

    def _removed(self, one: _State) -> Effect | None:
        by = {column: places.num_rows for column, places in one.places.items() if places.num_rows}
        if not by:
            return None
        self.held |= one.held
        places = pa.concat_tables(one.places.values()).group_by([GROUP, ROW]).aggregate([])
        layer = self.context.states.spool.removed(reader_of(places.select([GROUP, ROW])))
        self.context.states.add(one.writable.key, layer)
        rows = places.num_rows
        return Effect(
            table=one.table,
            removed=rows,
            key_groups=len(layer.groups),
            text=f"{counted(rows, 'row')} of {one.what} removed, by {', '.join(by)}",
        )

    appliers: ClassVar = {ForgetIds: _forget}


def _leaf_type(kind: pa.DataType, path: Path) -> tuple[pa.DataType, bool]:
    """Return the type of the values at a path, and whether they are inside of a list or map."""
    is_inside = False
    for name in (*path, None):
        while pa.types.is_list(kind) or pa.types.is_large_list(kind):
            kind, is_inside = kind.value_type, True
        if name is None:
            break
        if pa.types.is_map(kind):
            kind, is_inside = (kind.key_type if name == _KEY else kind.item_type), True
        else:
            kind = kind.field(name).type
    return kind, is_inside


def _leaves(array: pa.Array, path: Path) -> tuple[pa.Array, np.ndarray]:
    """Return the values at a path, and the row of each."""
    rows = np.arange(len(array))
    for name in (*path, None):
        while pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
            rows = rows[np.asarray(pc.list_parent_indices(array))]
            array = pc.list_flatten(array)
        if name is None:
            break
        if pa.types.is_map(array.type):
            offsets = np.asarray(array.offsets)
            rows = np.repeat(rows, np.diff(offsets))
            inside = array.keys if name == _KEY else array.items
            array = inside.slice(offsets[0], offsets[-1] - offsets[0])
        else:
            array = pc.struct_field(array, name)
    return (array.dictionary_decode() if pa.types.is_dictionary(array.type) else array), rows


_MOST_IDS = 1_000_000
_NAME = "ids"  # stands for a table in the effect
_PIECE_BYTES = 1 << 20
_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest(TaskRequest):
    """A savepoint, and the ids that a new one has nothing of."""

    database: str | None = option("name or alias of the savepoint; it is only read", default=None)
    target: str | None = target_option(flag="to")
    keys: str = option("CSV file of ids, in its first column", metavar="FILE", longest=LONGEST_PATH)
    group: tuple[str, ...] = option(
        "group of columns that have ids, of the file of masks; may be repeated. Default: the keys of all operators",
        default=(),
        metavar="NAME",
    )
    masks: str | None = file_option("file with the columns of groups, such as masks.toml")
    report: str | None = file_option("file for the report, which has no id and no value; must not exist yet")
    verify: bool = option(
        "search the new savepoint for the ids, or without a target this one: its rows, and all bytes of its files",
        default=False,
    )
    dry_run: bool = option("show what would be removed, and write nothing", default=False)
    allow_empty: bool = option("write even if nothing of the ids is found", default=False)

    def __post_init__(self) -> None:
        TaskRequest.__post_init__(self)
        check_target(self.target, dry_run=self.dry_run or self.verify)
        if bool(self.group) != (self.masks is not None):
            raise InvalidRequestError("expected group and masks together, found one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedFile:
    """A file of a savepoint.

    Attributes:
        path: in its folder; of a file elsewhere, its whole path.
        size_bytes: its size.
        sha256: of its bytes, as hexadecimal digits.
    """

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What was removed, and what is left.

    Attributes:
        ids: how many there are.
        held: how many of them a state had.
        written: what was written, or would be; None if a savepoint was only searched.
        before, after: the files of the savepoint and of the new one; empty if nothing was written.
        rows_left: rows that still belong to ids, by states; None if nothing was searched.
        left: what the search of all bytes found; None if nothing was searched.
    """

    ids: int
    held: int
    written: Written | None
    before: tuple[HashedFile, ...] = ()
    after: tuple[HashedFile, ...] = ()
    rows_left: tuple[tuple[str, int], ...] | None = None
    left: Leftovers | None = None

    @property
    def is_proven(self) -> bool | None:
        """Whether a search found nothing, could read all, and searched for all ids; None if there was none."""
        if self.left is None:
            return None
        left = self.left
        return not (self.rows_left or left.found or left.unread or left.unsearched)

    @property
    def exit_code(self) -> int:
        """1 if a search found something of the ids, or could not search all."""
        return int(self.is_proven is False)

    def to_dict(self) -> dict[str, Any]:
        """Return the report; it has no id and no value.

        | member | content |
        |---|---|
        | `target`, `dry_run` | the new savepoint; null if nothing was written |
        | `ids`, `held` | how many ids there are, and how many of them a state had |
        | `removed` | of each state: `table`, `rows`, `text` |
        | `files_before`, `files_after` | of each file: `path`, `size_bytes`, `sha256` |
        | `summary`, `check` | as of a write; null if nothing was written |
        | `verified` | `proven`, `rows`, `bytes`, `unread`, `unsearched`, `files`, `searched_bytes`; null without a search |
        """
        written = self.written
        return {
            "target": None if written is None else written.target,
            "dry_run": written is not None and written.target is None,
            "ids": self.ids,
            "held": self.held,
            "removed": []
            if written is None
            else [
                {"table": one.table, "rows": one.rows, "text": one.text} for one in written.effects[0].states
            ],
            "files_before": list(map(asdict, self.before)),
            "files_after": list(map(asdict, self.after)),
            "summary": None if written is None else asdict(written.summary),
            "check": None if written is None or written.check is None else written.check.to_dict(),
            "verified": self._verified(),
        }

    def _verified(self) -> dict[str, Any] | None:
        if self.left is None or self.rows_left is None:
            return None
        return {
            "proven": self.is_proven,
            "rows": [{"table": table, "rows": rows} for table, rows in self.rows_left],
            # The line of an id in the file says which it is; its text would be a value.
            "bytes": [asdict(one) for one in self.left.found],
            "unread": list(self.left.unread),
            "unsearched": list(self.left.unsearched),
            "files": self.left.files,
            "searched_bytes": self.left.searched_bytes,
        }

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Yield what was removed, the new savepoint in numbers, and what a search found."""
        if self.written is not None:
            yield f"{counted(self.ids, 'id')}, {self.held:,} of them found: {self.written.effects[0].text}"
            yield from (f"  {printable(one.text)}" for one in self.written.effects[0].states)
            yield from map(printable, summary_lines(self.written.summary))
            yield self.written.title
            yield from map(printable, check_lines(self.written.check, self.written.target))
        if self.left is not None:
            yield from map(printable, self._left_lines(self.left))

    def _left_lines(self, left: Leftovers) -> Iterator[str]:
        for table, rows in self.rows_left or ():
            yield f"left: {counted(rows, 'row')} of {table}"
        for one in left.found[:_MOST_SHOWN]:
            times = "once" if one.count == 1 else f"{one.count:,} times"
            yield f"left: id {one.number + 1} as {one.form}, {times}, in {one.path} ({one.where}), at {one.position}"
        if len(left.found) > _MOST_SHOWN:
            yield f"  … and {len(left.found) - _MOST_SHOWN:,} more"
        yield from (f"not read: {one}" for one in left.unread)
        if left.unsearched:
            yield (
                f"not searched as bytes: {counted(len(left.unsearched), 'id')}, too short; their rows were looked for"
            )
        searched = f"{counted(left.files, 'file')}, {size_text(left.searched_bytes)}"
        yield f"{'nothing of the ids is left' if self.is_proven else 'not proven'}: {searched} searched"


def run(request: ForgetRequest, context: Context) -> Forgotten:
    """Write a savepoint without what belongs to ids, or search one for them.

    Raises:
        QueryError: nothing belongs to the ids, something may and cannot be read, or the target cannot be written.
        ReaderError: the savepoint cannot be read.
    """
    statement = _statement(request)
    if request.report is not None and os.path.lexists(request.report):
        raise InvalidRequestError(f"report: expected a file that does not exist, found {request.report}")
    database = context.only_database(request.database, "to forget from")
    if request.target is None and not request.dry_run:
        found = Forgotten(
            ids=len(statement.ids),
            held=0,
            written=None,
            rows_left=_rows_left(statement, database, context),
            left=find_leftovers(database.savepoint, statement.ids, machine.cores()),
        )
    else:
        found = _forgotten(request, statement, database, context)
    if request.report is not None:
        _write_report(request.report, found)
    return found


def _statement(request: ForgetRequest) -> ForgetIds:
    ids = tuple(dict.fromkeys(keys_in(request.keys)))
    if not 1 <= len(ids) <= _MOST_IDS:
        raise InvalidRequestError(
            f"keys: expected 1 to {_MOST_IDS:,} ids in {request.keys}, found {len(ids):,}"
        )
    masks = None
    if request.masks is not None:
        with translated(CatalogError):
            masks = Masks.load(request.masks)
        unknown = [name for name in request.group if name not in masks.group_names]
        if unknown:
            raise InvalidRequestError(
                f"group: expected one of {', '.join(masks.group_names) or 'none'}, found {unknown[0]!r}"
            )
    return ForgetIds(table=(_NAME,), ids=ids, masks=masks, groups=request.group)


def _forgotten(
    request: ForgetRequest, statement: ForgetIds, database: Database, context: Context
) -> Forgotten:
    target = None if request.dry_run else request.target
    asked = WriteRequest(
        database=database.name,
        target=target,
        sql="",
        dry_run=target is None,
        allow_empty=request.allow_empty,
    )
    with closing(Writing(asked, context, statements=(statement,), kinds=(IdChanges,))) as writing:
        held = len(writing.changes(IdChanges).held)
        if target is None:
            return Forgotten(ids=len(statement.ids), held=held, written=writing.preview)
        written = writing.write(target)
    new = connect(target)
    made = new.default
    assert made is not None
    is_searched = request.verify
    return Forgotten(
        ids=len(statement.ids),
        held=held,
        written=written,
        before=tuple(_hashed(database.savepoint)),
        after=tuple(_hashed(made.savepoint)),
        rows_left=_rows_left(statement, made, replace(context, catalog=new)) if is_searched else None,
        left=find_leftovers(made.savepoint, statement.ids, machine.cores()) if is_searched else None,
    )


def _rows_left(statement: ForgetIds, database: Database, context: Context) -> tuple[tuple[str, int], ...]:
    """Return how many rows of each state belong to the ids."""
    asked = WriteRequest(database=database.name, sql="", dry_run=True, allow_empty=True)
    with closing(Writing(asked, context, statements=(statement,), kinds=(IdChanges,))) as writing:
        return tuple((one.table, one.rows) for effect in writing.effects for one in effect.states)


def _hashed(savepoint: Savepoint) -> Iterator[HashedFile]:
    """Yield the files of a savepoint; those in object stores have no hashes here."""
    for name, path in files_of(savepoint):
        digest, size = hashlib.sha256(), 0
        with path.open("rb", buffering=0) as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
                size += len(piece)
        yield HashedFile(path=name, size_bytes=size, sha256=digest.hexdigest())


def _write_report(path: str, found: Forgotten) -> None:
    try:
        with open(path, "xb") as file:
            file.write(orjson.dumps(found.to_dict(), option=orjson.OPT_INDENT_2))
    except OSError as error:
        raise InvalidRequestError(f"report: {path} cannot be written: {error.strerror}") from error


TASK = Task(request=ForgetRequest, run=run, makes=True)
