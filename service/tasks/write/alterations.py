"""Operators that go or get another uid; states that go, become empty, get another name, or other types of their values."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

import readers
import writers
from catalog import CatalogError, Table
from catalog.changedtables import ChangedTable, state_key
from catalog.statetables import StateTable
from service.base.errors import InvalidQueryError, QueryError
from service.tasks.write.changes import (
    Changes,
    Effect,
    ScriptContext,
    StateTypes,
    check_shared_classes,
)
from service.tasks.write.request import write_errors
from service.tasks.write.rows.layers import check_found, check_not_assumed
from service.tasks.write.statements import script
from service.tasks.write.statements.parser import Fragment, Statement

_SHAPE = ("max_parallelism", "parallelism")


class OperatorChanges(Changes):
    """DROP TABLE and ALTER TABLE of operators."""

    def __init__(self, context: ScriptContext) -> None:
        super().__init__(context)
        self._edits: list[writers.Edit] = []
        self._uids: dict[str, str] = {}
        self._shapes: dict[str, writers.RewriteKeyedState] = {}

    def edits(self) -> Iterator[writers.Edit]:
        # State is found by the ids of operators in the source, so it comes first.
        for source_id, edit in self._shapes.items():
            if self.context.operator_ids[source_id] is not None:
                yield edit
        yield from self._edits

    @property
    def differ(self) -> bool:
        ids, stores_uids = self.context.operator_ids, self.context.database.savepoint.metadata.version >= 5
        return any(
            ids[one.operator_id] != one.operator_id
            or (stores_uids and self._uids.get(one.operator_id, one.metadata.uid) != one.metadata.uid)
            or (one.operator_id in self._shapes and self._shape(one) != _shape_of(one))
            for one in self.context.database.savepoint.operators
        )

    def _shape(self, operator: readers.Operator) -> tuple[int, int]:
        """Return the numbers of key groups and subtasks of an operator now."""
        edit, (groups, subtasks) = self._shapes[operator.operator_id], _shape_of(operator)
        return edit.max_parallelism or groups, edit.parallelism or subtasks

    def _drop(self, statement: script.DropTable) -> Effect:
        name = statement.name
        source_id, operator_id = self.context.operator(name)
        self._edits.append(writers.DropOperator(operator_id))
        self.context.operator_ids[source_id] = None
        text = f"{name} is dropped: a job that has this operator starts it without state"
        if any(map(writers.is_of_sink, self.context.in_source(source_id).states)):
            text += "; what it has written and not committed is never committed"
        return Effect(table=name, text=text)

    def _rename(self, statement: script.RenameTable) -> Effect:
        name = statement.name
        source_id, operator_id = self.context.operator(name)
        self._edits.append(writers.RenameOperator(operator_id, statement.new_name))
        self._uids[source_id] = statement.new_name
        self.context.operator_ids[source_id] = readers.operator_id_of(statement.new_name)
        text = (
            f"{name} has the uid {statement.new_name!r}: a job without such an operator restores only with "
            "allowNonRestoredState, and leaves this state out"
        )
        return Effect(table=name, text=text)

    def _set(self, statement: script.SetOptions) -> Effect:
        name = statement.name
        source_id, _ = self.context.operator(name)
        values = {option: self._number(option, value) for option, value in statement.options}
        operator = self.context.in_source(source_id)
        edit = writers.RewriteKeyedState(
            operator=operator,
            max_parallelism=values.get("max_parallelism"),
            parallelism=values.get("parallelism"),
        )
        known = self._shapes.get(source_id)
        self._shapes[source_id] = edit if known is None else known.merged(edit)
        groups, subtasks = self._shape(operator)
        text = (
            f"{name} has {groups} key groups in {subtasks} subtasks: every entry goes to the group of its key. Flink restores it in "
            f"a job whose max parallelism is {groups} or not set; that of all operators of a chain must be the same"
        )
        return Effect(table=name, text=text)

    def _number(self, option: str, expression: Fragment) -> int:
        if option not in _SHAPE:
            raise InvalidQueryError(
                f"expected one of {', '.join(_SHAPE)} as the option of an operator, found {option}"
            )
        constant = self.context.constant(expression)
        value = constant.as_py() if pa.types.is_integer(constant.type) else None
        if value is None or value < 1:
            raise InvalidQueryError(
                f"expected a number above 0 for {option}, found {writers.shown(constant)}"
            )
        return int(value)

    appliers: ClassVar = {script.DropTable: _drop, script.RenameTable: _rename, script.SetOptions: _set}


def _shape_of(operator: readers.Operator) -> tuple[int, int]:
    return operator.metadata.max_parallelism, operator.metadata.parallelism


_SEPARATOR = "__"
_VALUE = "value"
_WINDOWS = {
    "window-contents": "fire over windows without contents",
    "window-aggs": "send the aggregates of no rows when they fire",
}
"""States with the contents of windows: what timers do without them."""
_JOB = "the job must declare it so"


@dataclass(frozen=True, slots=True)
class AlteredState:
    """A state as the statements so far have left it.

    Attributes:
        source_id: the id of its operator in the source.
        state: as it is in the source.
        alteration: what happens to it.
        values: the serializer of its values now.
    """

    source_id: str
    state: readers.State
    alteration: writers.StateAlteration
    values: readers.Serializer | None

    @property
    def name(self) -> str:
        """Its name now."""
        return self.alteration.name or self.state.name

    @property
    def differs(self) -> bool:
        """Whether it is another one than in the source."""
        entry, altered = self.state.entry, self.alteration
        is_retyped = bool(altered.types) and (
            entry is None or self.values != entry.value or writers.replaces_values(altered.types)
        )
        return altered.dropped or altered.truncated or is_retyped or self.name != self.state.name


class StateAlterations(Changes):
    """DROP TABLE, TRUNCATE and ALTER TABLE of states."""

    def __init__(self, context: ScriptContext) -> None:
        super().__init__(context)
        self._altered: dict[tuple[str, readers.StateKind, str], AlteredState] = {}

    def owns(self, table: str) -> bool:
        return self._found(table) is not None

    def edits(self) -> Iterator[writers.Edit]:
        altered = list(self._altered.values())
        if any(one.alteration.types for one in altered):
            check_shared_classes(self.types())
        for source_id in dict.fromkeys(one.source_id for one in altered):
            if self.context.operator_ids[source_id] is None:
                continue
            own = [one for one in altered if one.source_id == source_id]
            keyed = {
                readers.StateName(name=one.state.name): one.alteration
                for one in own
                if readers.is_keyed(one.state.kind)
            }
            if keyed:
                yield writers.RewriteKeyedState(operator=self.context.in_source(source_id), alterations=keyed)
            others = [one for one in own if not readers.is_keyed(one.state.kind)]
            if others:
                yield writers.AlterOperatorStates(
                    operator_id=source_id,
                    dropped=frozenset(one.state.name for one in others if one.alteration.dropped),
                    truncated=frozenset(one.state.name for one in others if one.alteration.truncated),
                    renamed={
                        one.state.name: one.alteration.name
                        for one in others
                        if one.alteration.name is not None
                    },
                )

    @property
    def differ(self) -> bool:
        return any(one.differs for one in self._altered.values())

    def types(self) -> Iterator[StateTypes]:
        """Yield the types of all states that the new savepoint has of the source."""
        for source_id, table in self.context.database.state_tables():
            for known in table.states:
                entry = known.state.entry
                altered = self._altered.get((source_id, known.state.kind, known.state.name))
                is_dropped = altered is not None and altered.alteration.dropped
                if entry is None or is_dropped or self.context.operator_ids[source_id] is None:
                    continue
                before = tuple(entry.serializers())
                values = None if altered is None else altered.values
                yield StateTypes(
                    table=table.name,
                    before=before,
                    after=before
                    if values is None
                    else tuple(values if one is entry.value else one for one in before),
                    changes=() if altered is None else altered.alteration.types,
                )

    def table(self, name: str) -> Table | None:
        found = self._found(name) if any(True for _ in self._altered) else None
        if found is None or self._key(found) not in self._altered:
            return None
        if found.alteration.dropped or found.alteration.types:
            raise InvalidQueryError(
                f"an earlier statement altered {name!r}: read or change its rows in a script of their own"
            )
        return self._changed(found)

    def verify(self, savepoint: readers.Savepoint) -> None:
        """Check that the new savepoint has the states that stay, by their new names, and no others.

        Raises:
            UnwritableError: it has others.
        """
        for source_id in {one.source_id for one in self._altered.values()}:
            now = self.context.operator_ids[source_id]
            operator = next((one for one in savepoint.operators if one.operator_id == now), None)
            if operator is None:
                continue
            expected = sorted([*self._names(source_id), *self.context.created.get(source_id, ())])
            found = sorted(state.name for state in operator.states)
            if found != expected:
                raise writers.UnwritableError(
                    f"expected the states {', '.join(expected)}, read back {', '.join(found)}"
                )

    # ---- statements ----

    def _drop(self, statement: script.DropTable) -> Effect:
        found = self._state(statement)
        self._keep(replace(found, alteration=replace(found.alteration, dropped=True)))
        text = f"{statement.name} is dropped: a job that declares this state starts it empty"
        return Effect(table=statement.name, text=text + self._timers_left(found))

    def _truncate(self, statement: script.Truncate) -> Effect:
        found = self._state(statement)
        rows = self._rows(statement.name)
        check_found(self.context, statement, rows, statement.name)
        self._keep(replace(found, alteration=replace(found.alteration, truncated=True)))
        self.context.states.empty(state_key(self._table_of(found).states[0]))
        text = f"{statement.name} is empty: {rows} {'row is' if rows == 1 else 'rows are'} removed"
        return Effect(table=statement.name, removed=rows, text=text + self._timers_left(found))

    def _rename(self, statement: script.RenameTable) -> Effect:
        found, new = self._state(statement), statement.new_name
        _, separator, rest = new.partition(_SEPARATOR)
        if separator and new.startswith(statement.name.removesuffix(found.name)):
            new = rest
        if not new:
            raise InvalidQueryError("expected the name of a state, found an empty text")
        if any(new == name for name in self._names(found.source_id)):
            raise InvalidQueryError(f"the operator has a state {new!r} already")
        self._keep(replace(found, alteration=replace(found.alteration, name=new)))
        text = f"{statement.name} is called {new!r}: a job that declares a state of this name finds it"
        return Effect(table=statement.name, text=text)

    def _rename_column(self, statement: script.RenameColumn) -> Effect:
        change = writers.RenamedField(self._path(statement), statement.new_name)
        return self._change(
            statement, change, f"the field {_shown(statement)} is called {statement.new_name}"
        )

    def _add_column(self, statement: script.AddColumn) -> Effect:
        path = self._path(statement)
        default = self.context.constant(statement.default) if statement.default is not None else None
        change = writers.AddedField(path, self._serializer(statement.type), default)
        text = "NULL" if default is None or not default.is_valid else writers.shown(default)
        return self._change(
            statement, change, f"the field {_shown(statement)} is added, {text} in every value"
        )

    def _drop_column(self, statement: script.DropColumn) -> Effect:
        change = writers.DroppedField(self._path(statement))
        return self._change(statement, change, f"the field {_shown(statement)} goes with its values")

    def _alter_column(self, statement: script.AlterColumn) -> Effect:
        serializer = self._serializer(statement.type)
        change = writers.RetypedField(self._path(statement, is_whole_allowed=True), serializer)
        return self._change(statement, change, f"{_shown(statement)} has the type {serializer.type_name}")

    def _set(self, statement: script.SetOptions) -> Effect:
        for option, _ in statement.options:
            if option != "ttl":
                raise InvalidQueryError(f"expected the option ttl of a state, found {option}")
        constant = self.context.constant(statement.options[-1][1])
        value = constant.as_py() if pa.types.is_boolean(constant.type) else None
        if value is None:
            raise InvalidQueryError(
                f"expected ttl = true or ttl = false, found {writers.shown(constant)}: how long values live is not in a savepoint, the job "
                "says it"
            )
        if not value:
            return self._change(statement, writers.ExpiringValue(None), "values have no TTL")
        now = writers.ExpiringValue(time.time_ns() // 1_000_000)
        return self._change(statement, now, "values have TTL, and were accessed now")

    def _change(self, statement: Statement, change: writers.TypeChange, text: str) -> Effect:
        found = self._state(statement)
        if not readers.is_keyed(found.state.kind) or found.values is None:
            raise InvalidQueryError(
                f"expected keyed state, found {statement.name!r}: types of operator state cannot be changed yet"
            )
        with write_errors():
            values = change.evolved(found.values).serializer
        types = (*found.alteration.types, change)
        self._keep(replace(found, alteration=replace(found.alteration, types=types), values=values))
        return Effect(
            table=statement.name, text=f"{statement.name}: {text}; every value is written anew, {_JOB}"
        )

    # ---- states by the names of their tables ----

    def _state(self, statement: Statement) -> AlteredState:
        found = self._found(statement.name)
        assert found is not None
        if found.alteration.dropped:
            raise InvalidQueryError(f"an earlier statement dropped {statement.name!r}")
        check_not_assumed(statement.name, found.state)
        return found

    def _found(self, table: str) -> AlteredState | None:
        """Return the state of a table by its name now; None if it is the table of something else.

        Raises:
            QueryError: an earlier statement dropped it or gave it another name, or files cannot be read.
        """
        for label, name in _divisions(table):
            try:
                source_id, _ = self.context.operator(label)
            except QueryError:
                continue
            # Another state may have the name of one that was dropped.
            known = [
                one
                for one in self._altered.values()
                if one.source_id == source_id and one.name.casefold() == name.casefold()
            ]
            if known:
                return min(known, key=lambda one: one.alteration.dropped)
            found = self._in_source(f"{self.context.database.operator_names[source_id]}{_SEPARATOR}{name}")
            if found is not None:
                renamed = self._altered.get(self._key(found))
                if renamed is None:
                    return found
                raise InvalidQueryError(f"an earlier statement gave {table!r} the name {renamed.name!r}")
        return None

    def _in_source(self, table: str) -> AlteredState | None:
        try:
            found = self.context.database.table(table)
        except CatalogError:
            return None
        if not isinstance(found, StateTable) or len(found.states) != 1:
            return None
        state = found.states[0].state
        if state.kind not in _KINDS or not state.parts:
            return None
        entry = state.entry
        return AlteredState(
            state.operator_id, state, writers.StateAlteration(), entry.value if entry is not None else None
        )

    def _tables(self, source_id: str) -> Iterator[tuple[str, StateTable]]:
        return (found for found in self.context.database.state_tables() if found[0] == source_id)

    def _names(self, source_id: str) -> Iterator[str]:
        """Yield the names of the states of an operator now."""
        for state in self.context.in_source(source_id).states:
            known = self._altered.get((source_id, state.kind, state.name))
            if known is None or not known.alteration.dropped:
                yield state.name if known is None else known.name

    def _keep(self, altered: AlteredState) -> None:
        self._altered[self._key(altered)] = altered
        key = state_key(self._table_of(altered).states[0])
        if altered.alteration.name is not None:
            self.context.states.names[key] = altered.alteration.name
        if altered.alteration.types:
            self.context.states.retyped.add(key)
        if altered.alteration.dropped:
            self.context.states.drop(key)

    def _table_of(self, found: AlteredState) -> StateTable:
        """Return the table of a state, as it is in the savepoint."""
        return next(one for _, one in self._tables(found.source_id) if one.states[0].state is found.state)

    def _changed(self, found: AlteredState) -> ChangedTable:
        """Return the table of a state, with the rows that statements have changed."""
        return ChangedTable(self._table_of(found), self.context.states.table_changes)

    def _key(self, altered: AlteredState) -> tuple[str, readers.StateKind, str]:
        return altered.source_id, altered.state.kind, altered.state.name

    def _timers_left(self, found: AlteredState) -> str:
        """Return a warning that timers stay where the contents of windows go."""
        has_timers = any(
            state.kind is readers.StateKind.TIMER for state in self.context.in_source(found.source_id).states
        )
        if found.state.name not in _WINDOWS or not has_timers:
            return ""
        return f"; the timers of its windows stay, and {_WINDOWS[found.state.name]}"

    # ---- parts of statements ----

    def _path(self, statement: script.ColumnStatement, *, is_whole_allowed: bool = False) -> tuple[str, ...]:
        column, *path = statement.path
        if column.casefold() != _VALUE or not (path or is_whole_allowed):
            raise InvalidQueryError(
                f"expected a field of the column value, such as value.x, found {_shown(statement)}: keys and namespaces keep "
                "their types, which say where Flink finds them"
            )
        return tuple(path)

    def _serializer(self, type_: str) -> readers.Serializer:
        """Return the serializer of a type: one of Flink by its name, or else one of SQL.

        Raises:
            QueryError: it is neither.
        """
        try:
            return readers.type_named(type_)
        except readers.UnsupportedSerializerError as unknown:
            try:
                column = self.context.types({"value": type_}).field(0)
            except QueryError as error:
                raise InvalidQueryError(
                    f"expected a type of SQL such as BIGINT, or one of Flink such as 'Long', found {type_!r}: {unknown.message}"
                ) from error
            with write_errors():
                return writers.type_of_column("value", column.type)

    def _rows(self, table: str) -> int:
        """Return the number of rows of a state."""
        found = self._found(table)
        assert found is not None
        return self.context.count(self._changed(found))

    appliers: ClassVar = {
        script.AddColumn: _add_column,
        script.AlterColumn: _alter_column,
        script.DropColumn: _drop_column,
        script.DropTable: _drop,
        script.RenameColumn: _rename_column,
        script.RenameTable: _rename,
        script.SetOptions: _set,
        script.Truncate: _truncate,
    }


def _divisions(table: str) -> Iterator[tuple[str, str]]:
    """Yield the ways to divide the name of a table into operator and state, that of the longest operator first."""
    parts = table.split(_SEPARATOR)
    for count in range(len(parts) - 1, 0, -1):
        yield _SEPARATOR.join(parts[:count]), _SEPARATOR.join(parts[count:])


def _shown(statement: script.ColumnStatement) -> str:
    return ".".join(statement.path)


_KINDS = frozenset(
    {
        readers.StateKind.VALUE,
        readers.StateKind.LIST,
        readers.StateKind.MAP,
        readers.StateKind.REDUCING,
        readers.StateKind.AGGREGATING,
        readers.StateKind.FOLDING,
        readers.StateKind.OPERATOR_LIST,
        readers.StateKind.UNION_LIST,
        readers.StateKind.BROADCAST,
    }
)
