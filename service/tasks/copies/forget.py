"""`forget`: a savepoint, and ids → a new savepoint without all that belongs to them, a report, and the proof that nothing is left.

Rows belong to ids by their keys, or by a column of a group that has an id, such as entries of maps and elements of lists. What goes
leaves no byte: operators that may have it are written anew, entry by entry, as files of RocksDB and of earlier writes have bytes that
count no more. The report has no id and no value: it may be kept for longer than the data.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from catalog import Database, connect
from catalog.changedtables import WritableState, state_key
from catalog.masks.columns import ColumnNames
from catalog.masks.masks import Masks
from catalog.scan import Scan
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
from service.tasks.copies.columngroups import masks_with
from service.tasks.copies.pruning import Path, WantedIds, container_depth, leaf_type, pruned
from service.tasks.copies.sample import keys_in
from service.tasks.task import LONGEST_PATH, Context, Task, TaskRequest, file_option, option
from service.tasks.write.changes import ALLOW_EMPTY, Effect, ScriptContext
from service.tasks.write.request import WriteRequest, check_target, target_option
from service.tasks.write.rows.keys import KeyChanges, KeySearch
from service.tasks.write.rows.layers import IDENTITY, Layer, check_not_assumed, reader_of, type_of
from service.tasks.write.statements.parser import Statement
from service.tasks.write.writing import Writing, Written, summary_lines
from writers import FIRST_ADDED, GROUP, Edit, RewriteKeyedState, UpdatedRows, WriterError

_KEY = "key"
_SHARED = frozenset({StateKind.OPERATOR_LIST, StateKind.UNION_LIST, StateKind.BROADCAST})
_PLACES = pa.schema([(GROUP, pa.int32()), (ROW, pa.int64())])


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenRows(Effect):
    """What goes from a state.

    Attributes:
        elements: how many elements of lists and entries of maps go from inside of values that stay.
    """

    elements: int = 0


@dataclass(slots=True)
class _State:
    """A state, the places of its rows that go, and what goes inside of others, by the columns for which they go."""

    table: str
    what: str
    writable: WritableState
    places: dict[str, pa.Table] = field(default_factory=dict)
    inside: dict[str, tuple[UpdatedRows, int]] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)

    @property
    def gone(self) -> pa.Table:
        """The places of the rows that go, each once."""
        places = [_PLACES.empty_table(), *self.places.values()]
        return pa.concat_tables(places).group_by([GROUP, ROW]).aggregate([]).select([GROUP, ROW])


class IdChanges(KeyChanges):
    """Removes what belongs to ids.

    Attributes:
        held: the numbers of the ids that a state had.
        forgotten: what goes from each state.
    """

    def __init__(self, context: ScriptContext) -> None:
        super().__init__(context)
        self._rewritten: dict[str, Operator] = {}
        self.held: set[int] = set()
        self.forgotten: tuple[ForgottenRows, ...] = ()

    def edits(self) -> Iterator[Edit]:
        for operator in self._rewritten.values():
            yield RewriteKeyedState(operator=operator, leaves_nothing=True)

    def _forget(self, statement: ForgetIds) -> Effect:
        search = KeySearch(statement.ids, is_named=False, is_own_text=True)
        found: list[ForgottenRows] = []
        for source_id, name in self.context.database.operator_names.items():
            operator = self.context.in_source(source_id)
            paths = self._paths(statement, operator, name)
            states: dict[tuple[str, int], _State] = {}
            if not statement.groups or (_KEY,) in {path for own in paths.values() for path in own}:
                for one in self.of_operator(source_id, name, search):
                    state = states[one.writable.key] = _State(one.table, one.what, one.writable)
                    state.places[_KEY] = one.of(range(len(statement.ids)))
                    state.held |= set(one.places.column("number").unique().to_pylist())
            for known, what, table in self._all_states(operator, name):
                self._by_columns(known, what, table, paths.get(what, ()), search, states)
            self._note_rewritten(operator, states)
            found += [rows for one in states.values() if (rows := self._removed(one)) is not None]
        if statement.groups and not search.fitting:
            raise InvalidQueryError(
                f"no column of the savepoint belongs to {', '.join(statement.groups)}, or no id is a value of one"
            )
        if not search.fitting:
            raise InvalidQueryError("no id is a key of any operator", hint="; ".join(search.reasons) or None)
        if not found and not self.context.may_find_nothing(statement.name):
            raise NothingChangesError("no state has any of the ids", hint=ALLOW_EMPTY)
        self.forgotten = tuple(found)
        removed, elements = sum(one.removed for one in found), sum(one.elements for one in found)
        inside = f", and {counted(elements, 'element')} inside of others" if elements else ""
        return Effect(
            table=statement.name,
            changed=sum(one.changed for one in found),
            removed=removed,
            text=f"{counted(removed, 'row')} of {counted(len(found), 'state')} removed{inside}",
            states=self.forgotten,
        )

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

    def _by_columns(
        self,
        known: TableState,
        what: str,
        table: str,
        paths: Iterable[Path],
        search: KeySearch,
        states: dict[tuple[str, int], _State],
    ) -> None:
        """Note the rows whose columns, or fields of them, have an id; then the lists and maps that have one inside."""
        rows: dict[Path, dict[Path, WantedIds]] = {}
        containers: dict[Path, dict[Path, WantedIds]] = {}
        for path in paths:
            if path == (_KEY,):
                continue
            check_not_assumed(table, known.state)
            kind, inner = known.state.schema.field(path[0]).type, path[1:]
            keys = search.keys_of(leaf_type(kind, inner), what, is_unquoted=False)
            if not keys:
                continue
            ids = WantedIds(pa.concat_arrays([key.array for key in keys.values()]), np.array(list(keys)))
            depth = None if path[0] in IDENTITY else container_depth(kind, inner)
            if depth is None:
                rows[path] = {inner: ids}
            else:
                containers.setdefault(path[: depth + 1], {})[inner[depth:]] = ids
        if not rows and not containers:
            return
        state = states.setdefault(state_key(known), _State(table, what, self.writable(known, what, table)))
        for path, wanted in rows.items():
            state.places[".".join(path)] = self._rows_with(state, path[0], wanted)
        self.check_written(known, what, state.gone.num_rows)
        for path, wanted in containers.items():
            state.inside[".".join(path)] = self._values_with(state, path, wanted)

    def _rows_with(self, state: _State, column: str, wanted: Mapping[Path, WantedIds]) -> pa.Table:
        """Return the places of the rows that belong to ids by a column."""
        places = []
        for batch in self._scan(state, column).to_reader():
            found = pruned(batch.column(column), wanted, is_key=column in IDENTITY)
            state.held |= found.numbers
            places.append(batch.select([GROUP, ROW]).filter(pa.array(found.hits)))
        return pa.Table.from_batches(places, _PLACES)

    def _values_with(
        self, state: _State, path: Path, wanted: Mapping[Path, WantedIds]
    ) -> tuple[UpdatedRows, int]:
        """Return the lists or maps that have ids inside, without what belongs to these, and how much that is."""
        scan, gone, removed = self._scan(state, path[0]), _numbers(state.gone), 0
        schema = _PLACES.append(pa.field("0", type_of(scan.schema, path)))

        def left() -> Iterator[pa.RecordBatch]:
            nonlocal removed
            for batch in scan.to_reader():
                column = batch.column(path[0])
                found = pruned(pc.struct_field(column, list(path[1:])) if path[1:] else column, wanted)
                state.held |= found.numbers
                touched = np.flatnonzero((found.removed > 0) & ~np.isin(_numbers(batch), gone))
                removed += int(found.removed[touched].sum())
                arrays = [batch.column(GROUP), batch.column(ROW), found.values]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema).take(pa.array(touched))

        reader = pa.RecordBatchReader.from_batches(schema, left())
        return self.context.states.spool.updated(reader, [path], prunes=True), removed

    def _scan(self, state: _State, column: str) -> Scan:
        with translated(WriterError):
            return state.writable.rows.plan().narrowed([column, GROUP, ROW])

    def _note_rewritten(self, operator: Operator, states: Mapping[tuple[str, int], _State]) -> None:
        """Note an operator whose keyed files may have bytes of what goes, or went before."""
        is_keyed_there = any(is_keyed(one.writable.state.kind) for one in states.values())
        if is_keyed_there and any(one.stored_header() is not None for one in operator.sources):
            self._rewritten[operator.operator_id] = operator

    def _removed(self, one: _State) -> ForgottenRows | None:
        self.held |= one.held
        gone, elements = one.gone, sum(count for _, count in one.inside.values())
        layers: list[Layer] = [layer for layer, count in one.inside.values() if count]
        told = []
        if gone.num_rows:
            by = ", ".join(column for column, places in one.places.items() if places.num_rows)
            told.append(f"{counted(gone.num_rows, 'row')} of {one.what} removed, by {by}")
        changed = len(np.unique(np.concatenate([_numbers(layer.rows) for layer in layers]))) if layers else 0
        if changed:
            by = ", ".join(column for column, (_, count) in one.inside.items() if count)
            told.append(
                f"{counted(elements, 'element')} inside of {counted(changed, 'row')} of {one.what} removed, by {by}"
            )
        if not told:
            return None
        layers.append(self.context.states.spool.removed(reader_of(gone)))
        self.context.states.add(one.writable.key, *layers)
        return ForgottenRows(
            table=one.table,
            changed=changed,
            removed=gone.num_rows,
            elements=elements,
            key_groups=len({int(group) for layer in layers for group in layer.groups}),
            text="; ".join(told),
        )

    appliers: ClassVar = {ForgetIds: _forget}


def _numbers(rows: pa.Table | pa.RecordBatch) -> NDArray[np.int64]:
    """Return the places of rows as one number each."""
    groups = np.asarray(rows.column(GROUP)).astype(np.int64)
    numbers: NDArray[np.int64] = groups * FIRST_ADDED + np.asarray(rows.column(ROW))
    return numbers


_MOST_IDS = 1_000_000
_NAME = "ids"  # stands for a table in the effect
_PIECE_BYTES = 1 << 20
_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest(TaskRequest):
    """A savepoint, and the ids that a new one has nothing of."""

    database: str | None = option("name or alias of the savepoint; it is only read", default=None)
    target: str | None = target_option(flag="to")
    keys: str = option(
        "CSV file of ids, in its first column; only a first line 'key' is a header",
        metavar="FILE",
        longest=LONGEST_PATH,
    )
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
        removed: what went from each state, or would go.
        before, after: the files of the savepoint and of the new one; empty if nothing was written.
        rows_left: rows that still belong to ids, by states; None if nothing was searched.
        left: what the search of all bytes found; None if nothing was searched.
    """

    ids: int
    held: int
    written: Written | None
    removed: tuple[ForgottenRows, ...] = ()
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
        | `removed` | of each state: `table`, `rows`, `elements` (of lists and maps inside of rows that stay), `text` |
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
            "removed": [
                {"table": one.table, "rows": one.removed, "elements": one.elements, "text": one.text}
                for one in self.removed
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
            yield from (f"  {printable(one.text)}" for one in self.removed)
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
    if request.report is not None and os.path.lexists(request.report):
        raise InvalidRequestError(f"report: expected a file that does not exist, found {request.report}")
    database = context.only_database(request.database, "to forget from")
    statement = _statement(request, database)
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


def _statement(request: ForgetRequest, database: Database) -> ForgetIds:
    ids = tuple(dict.fromkeys(keys_in(request.keys)))
    if not 1 <= len(ids) <= _MOST_IDS:
        raise InvalidRequestError(
            f"keys: expected 1 to {_MOST_IDS:,} ids in {request.keys}, found {len(ids):,}"
        )
    masks = None if request.masks is None else masks_with(request.masks, request.group, database)
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
        changes = writing.changes(IdChanges)
        held, removed = len(changes.held), changes.forgotten
        if target is None:
            return Forgotten(ids=len(statement.ids), held=held, written=writing.preview, removed=removed)
        written = writing.write(target)
    new = connect(target)
    made = new.default
    assert made is not None
    is_searched = request.verify
    return Forgotten(
        ids=len(statement.ids),
        held=held,
        written=written,
        removed=removed,
        before=tuple(_hashed(database.savepoint)),
        after=tuple(_hashed(made.savepoint)),
        rows_left=_rows_left(statement, made, replace(context, catalog=new)) if is_searched else None,
        left=find_leftovers(made.savepoint, statement.ids, machine.cores()) if is_searched else None,
    )


def _rows_left(statement: ForgetIds, database: Database, context: Context) -> tuple[tuple[str, int], ...]:
    """Return how many rows of each state belong to the ids."""
    asked = WriteRequest(database=database.name, sql="", dry_run=True, allow_empty=True)
    with closing(Writing(asked, context, statements=(statement,), kinds=(IdChanges,))) as writing:
        return tuple((one.table, one.rows) for one in writing.changes(IdChanges).forgotten)


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
