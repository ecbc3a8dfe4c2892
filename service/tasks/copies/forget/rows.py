"""Rows that belong to ids: those of keys, and those whose column of a group has an id, such as entries of maps and elements of lists.

What goes leaves no byte: operators that may have it are written anew, entry by entry, as files of RocksDB and of earlier writes have
bytes that count no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.changedtables import WritableState, state_key
from catalog.masks.columns import ColumnNames
from catalog.masks.masks import Masks
from catalog.statetables import TableState
from readers import ROW, Operator, StateKind, is_keyed
from service.base.errors import InvalidQueryError, NothingChangesError, translated
from service.query.encode import counted
from service.tasks.write.changes import ALLOW_EMPTY, Effect, ScriptContext
from service.tasks.write.rows.keys import KeyChanges, KeySearch
from service.tasks.write.rows.layers import check_not_assumed, reader_of
from service.tasks.write.statements.parser import Statement
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
