"""Changes of rows: UPDATE, DELETE, INSERT and MERGE of states, timers, and the views of SQL operators.

Each statement is one SELECT or more over `_target`, the table with the places of its rows. What a SELECT finds is a layer of the
changes of a state (`StateChanges`), which later statements see and the writer writes.

    UPDATE t SET value = e FROM f WHERE c    SELECT t._group, t._row, (e) AS "0" FROM _target AS t, f WHERE (c)

A changed key, namespace or map key makes another entry: the row is removed and added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from catalog import CatalogError, NoSuchColumnError, Table
from catalog.changedtables import STATE, ChangedTable, WritableState, state_key, writable_states_of
from catalog.savepointtables import SOURCE_OFFSETS_NAME
from catalog.statetables import OperatorTable, StatesTable, StateTable, TimersTable
from catalog.views import WideTable
from readers import ROW, Savepoint, State, is_keyed, operator_id_of
from service.base.errors import InvalidQueryError, query_error_of, translated
from service.query.encode import counted
from service.query.sql.text import quoted
from service.tasks.write.changes import (
    SOURCE,
    TARGET,
    Changes,
    Composition,
    Effect,
    add_conditions,
    alias_of,
    place_columns,
    select_all,
    select_places,
)
from service.tasks.write.rows import layers
from service.tasks.write.rows.found import Found, identities, with_new_identities
from service.tasks.write.rows.merging import MergeChoices
from service.tasks.write.statements.script import (
    Action,
    Assignment,
    Conflict,
    Delete,
    Insert,
    Merge,
    MergeClause,
    RowStatement,
    Update,
)
from writers import (
    GROUP,
    AddedRows,
    Edit,
    RemovedRows,
    RewriteKeyedState,
    RewriteOperatorState,
    UpdatedRows,
    WriterError,
)

_UID = "operator_uid"
_SEPARATOR = "__"


class RowChanges(Changes):
    """UPDATE, DELETE, INSERT and MERGE of the tables of states."""

    def edits(self) -> Iterator[Edit]:
        changes = self.context.states.table_changes.changes
        for operator in self.context.database.savepoint.operators:
            if self.context.operator_ids.get(operator.operator_id) is None:
                continue
            own = {number: one for (owner, number), one in changes.items() if owner == operator.operator_id}
            states = [(operator.states[number], one) for number, one in own.items()]
            keyed = {state.parts[0].name: one for state, one in states if is_keyed(state.kind)}
            if keyed:
                yield RewriteKeyedState(operator=operator, changes=keyed)
            others = {state.name: one for state, one in states if not is_keyed(state.kind)}
            if others:
                yield RewriteOperatorState(operator=operator, changes=others)

    def table(self, name: str) -> Table | None:
        changes = self.context.states.table_changes
        dropped = {source_id for source_id, now in self.context.operator_ids.items() if now is None}
        if not (changes.changes or changes.emptied or dropped):
            return None
        try:
            found = self.context.database.table(name)
        except CatalogError:
            # The resolver finds it missing, too, and says where.
            return None
        if not isinstance(found, StatesTable | WideTable):
            return None
        gone = {state_key(known) for known in found.states if known.state.operator_id in dropped}
        if gone and len(gone) == len(found.states):
            raise InvalidQueryError(f"an earlier statement dropped {name!r}")
        changes = changes.without(gone)
        if not changes.touches(found):
            return None
        if isinstance(found, WideTable):
            raise InvalidQueryError(
                f"an earlier statement changed rows that {found.name!r} shows side by side",
                hint="read the tables of its states",
            )
        return ChangedTable(found, changes)

    def verify(self, savepoint: Savepoint) -> None:
        layers.verify_states(self.context, savepoint)

    @property
    def differ(self) -> bool:
        """Whether a row is another one than in the source; reads the key groups that have changed rows twice."""
        return layers.rows_differ(self.context)

    # ---- statements ----

    def _update(self, statement: Update) -> Effect:
        states = self._states(statement)
        paths = [self._paths(writable, statement.assignments) for writable in states]
        compared = identities(paths[0]) if paths else []
        select = _from(statement, select_places(statement, statement.assignments, compared))
        with self._found(states, select) as readers:
            found = [
                with_new_identities(self.context, writable, self._updated(writable, reader, own))
                for writable, reader, own in zip(states, readers, paths, strict=True)
            ]
        return self._effect(statement, found)

    def _delete(self, statement: Delete) -> Effect:
        states = self._states(statement)
        # A row that several rows of USING match goes once.
        select = Composition("SELECT DISTINCT " if statement.source is not None else "SELECT ")
        select.add(place_columns(statement))
        with self._found(states, _from(statement, select)) as readers:
            found = [
                Found(writable, [self._removed(reader)])
                for writable, reader in zip(states, readers, strict=True)
            ]
        return self._effect(statement, found)

    def _insert(self, statement: Insert) -> Effect:
        table = self._table(statement.name)
        if isinstance(table, TimersTable):
            return self._insert_timers(statement, table)
        writable = self._only_state(statement)
        if statement.conflict is not None:
            return self._effect(statement, [self._upserted(statement, statement.conflict, writable)])
        with self.context.select(select_all(statement.query)) as reader:
            names = self._inserted(writable, statement, reader.schema.names)
            layer = self._added(writable, names, reader, 0)
        return self._effect(statement, [Found(writable, [layer])])

    def _insert_timers(self, statement: Insert, table: TimersTable) -> Effect:
        """Add rows to the timers of several states: each says whose it is."""
        if statement.conflict is not None and statement.conflict.assignments:
            raise InvalidQueryError("a timer has no values to update: use ON CONFLICT DO NOTHING")
        with self.context.select(select_all(statement.query)) as reader:
            names = layers.timer_columns(statement, reader.schema.names, table)
            source = self.context.states.stored(reader, names)
        found, uids = [], self._uids(source, names)
        for writable in self._states(statement):
            select = layers.rows_of_state(writable, table, names, SOURCE, uids)
            with self.context.select(select, {SOURCE: source}) as reader:
                own = [name for name in reader.schema.names if name in layers.insertable(writable.state)]
                rows = layers.converted(reader, writable, table)
                if statement.conflict is None:
                    one = Found(writable, [self._added(writable, own, rows, 0)])
                else:
                    one = self._missing_timers(writable, self.context.states.stored(rows, own), own)
            if one.count(AddedRows) or one.kept:
                found.append(one)
        wanted = source.plan().to_arrow().num_rows
        placed = sum(one.count(AddedRows) + one.kept for one in found)
        if placed != wanted:
            left = counted(wanted - placed, "row")
            raise InvalidQueryError(
                f"{left} {'matches' if wanted - placed == 1 else 'match'} no operator's timer service",
                hint="set operator_id or operator_uid, timer_service and time_domain to those of timers in the savepoint",
            )
        return self._effect(statement, found)

    def _missing_timers(self, writable: WritableState, source: Table, names: Sequence[str]) -> Found:
        """Return the rows of a table that are no timers of a state yet; a timer that is there stays as it is."""
        columns = ", ".join(f"excluded.{quoted(name)}" for name in names)
        same = " AND ".join(
            f"t.{quoted(name)} IS NOT DISTINCT FROM excluded.{quoted(name)}" for name in names
        )
        missing = Composition(
            f"SELECT {columns} FROM {SOURCE} AS excluded WHERE NOT EXISTS (SELECT 1 FROM {TARGET} AS t WHERE {same})"
        )
        with self.context.select(missing, {TARGET: writable.rows, SOURCE: source}) as reader:
            layer = self._added(writable, names, reader, 0)
        return Found(writable, [layer], kept=source.plan().to_arrow().num_rows - layer.rows.num_rows)

    def _uids(self, source: Table, names: Sequence[str]) -> list[str]:
        """Return the operator uids of new timers."""
        if _UID not in names:
            return []
        select = Composition(f"SELECT DISTINCT {_UID} FROM {SOURCE} WHERE {_UID} IS NOT NULL")
        return [str(uid) for uid in self.context.read(select, {SOURCE: source}).column(0).to_pylist()]

    def _upserted(self, statement: Insert, conflict: Conflict, writable: WritableState) -> Found:
        """Return what `INSERT … ON CONFLICT` changes; its query runs once."""
        with self.context.select(select_all(statement.query)) as reader:
            names = self._inserted(writable, statement, reader.schema.names)
            source = self.context.states.stored(reader, names)
        identity = self._conflict_columns(writable, conflict, names)
        alias, tables = alias_of(statement), {SOURCE: source}
        same = " AND ".join(
            f"{alias}.{quoted(name)} IS NOT DISTINCT FROM excluded.{quoted(name)}" for name in identity
        )
        found = Found(writable)
        if conflict.assignments:
            paths = self._paths(writable, conflict.assignments)
            select = select_places(statement, conflict.assignments, identities(paths))
            select.add(f" FROM {TARGET} AS ", alias, f", {SOURCE} AS excluded")
            add_conditions(select, [same, conflict.condition])
            with self._found([writable], select, tables) as [reader]:
                found = with_new_identities(self.context, writable, self._updated(writable, reader, paths))
        columns = ", ".join(f"excluded.{quoted(name)}" for name in names)
        missing = Composition(
            f"SELECT {columns} FROM {SOURCE} AS excluded WHERE NOT EXISTS "
            f"(SELECT 1 FROM {TARGET} AS {alias} WHERE {same})"
        )
        with self.context.select(missing, {TARGET: writable.table, **tables}) as reader:
            layer = self._added(writable, names, reader, found.count(AddedRows))
        found.layers.append(layer)
        found.kept = source.scan().to_arrow().num_rows
        return found

    def _merge(self, statement: Merge) -> Effect:
        writable = self._only_state(statement)
        choices = MergeChoices(self.context, statement, writable.table)
        found = Found(writable)
        for number, clause in enumerate(statement.clauses):
            if clause.action is Action.INSERT:
                with self.context.select(choices.added(number), choices.tables) as reader:
                    names = self._inserted(writable, clause, reader.schema.names)
                    layer = self._added(writable, names, reader, found.count(AddedRows))
                found.layers.append(layer)
            elif clause.action is Action.NOTHING:
                found.kept += choices.count(number)
            else:
                paths = self._paths(writable, clause.assignments)
                select = choices.changed(number, identities(paths))
                with self._found([writable], select, choices.tables) as [reader]:
                    if clause.action is Action.DELETE:
                        found.layers.append(self._removed(reader))
                    else:
                        changed = self._updated(writable, reader, paths)
                        moved = with_new_identities(self.context, writable, changed, found.count(AddedRows))
                        found.layers += moved.layers
                        found.same += moved.same
        return self._effect(statement, [found])

    # ---- tables and columns ----

    def _states(self, statement: RowStatement) -> tuple[WritableState, ...]:
        """Return the states of a statement's table.

        Raises:
            QueryError: there is no such table, or it cannot be changed.
        """
        table = self.changeable(statement.name)
        states = writable_states_of(table, self.context.states.table_changes)
        if not states and table.states:
            own = self._state_tables(table)
            raise InvalidQueryError(
                f"{table.name} shows the elements of lists and cannot be changed",
                hint=f"change the lists in {', '.join(own)}",
            )
        left = tuple(one for one in states if self.context.operator_ids.get(one.key[0]) is not None)
        if states and not left:
            raise InvalidQueryError(f"an earlier statement dropped {statement.name!r}")
        for writable in left:
            if writable.key in self.context.states.emptied and not is_keyed(writable.state.kind):
                raise InvalidQueryError(
                    f"an earlier statement emptied {statement.name!r}",
                    hint="remove its rows by a DELETE instead",
                )
            shared = layers.shared_group(writable.state)
            if shared is not None:
                raise InvalidQueryError(
                    f"expected rows of {table.name} in one place each, found {writable.table.group_column} {shared} in two "
                    "state files: it cannot be changed"
                )
            layers.check_not_assumed(table.name, writable.state)
            for error in writable.state.unread:
                raise InvalidQueryError(
                    f"{table.name} cannot be changed because it cannot be read: {error.error.told}"
                )
        return left

    def changeable(self, name: str) -> StatesTable:
        """Return a table as it is in the savepoint, by its name now.

        Raises:
            QueryError: there is no such table, or statements for rows cannot change it.
        """
        table = self._table(name)
        if isinstance(table, WideTable):
            names = ", ".join(f"{table.operator}{_SEPARATOR}{known.state.name}" for known in table.states[:5])
            raise InvalidQueryError(
                f"{table.name} shows the states of an operator side by side and cannot be changed",
                hint=f"change the table of one state: {names}",
            )
        if table.name == SOURCE_OFFSETS_NAME:
            raise InvalidQueryError(
                f"{table.name} can be changed by UPDATE and rewind_kafka only",
                hint=f"UPDATE {table.name} SET starting_offset = … WHERE …",
            )
        if not isinstance(table, StatesTable):
            raise InvalidQueryError(
                f"{table.name} lists facts about the savepoint and cannot be changed",
                hint="change the tables of the states that they are about",
            )
        if isinstance(table, OperatorTable):
            names = ", ".join(self._state_tables(table)[:5])
            raise InvalidQueryError(
                f"{table.name} shows all states of an operator and cannot be changed",
                hint=f"change the table of one state: {names}",
            )
        return table

    def _table(self, name: str) -> Table:
        """Return a table as it is in the savepoint.

        Raises:
            QueryError: there is none of this name, or an earlier statement took it away.
        """
        known = self.context.changed_table(name.casefold())
        if known is not None:
            return self._of_state(known.origin if isinstance(known, ChangedTable) else known)
        try:
            return self._of_state(self.context.database.table(name))
        except CatalogError as error:
            prefix, separator, rest = name.partition(_SEPARATOR)
            for source_id, now in self.context.operator_ids.items():
                if now == operator_id_of(prefix) and now != source_id:
                    own = self.context.database.operator_names[source_id]
                    return self._of_state(self.context.database.table(f"{own}{separator}{rest}"))
            raise query_error_of(error) from error

    def _of_state(self, table: Table) -> Table:
        """Return the table of the state where an operator has only one, or else the table itself."""
        if not isinstance(table, OperatorTable) or len(table.states) != 1:
            return table
        [name] = self._state_tables(table)
        return self._table(name)

    def _state_tables(self, table: StatesTable) -> list[str]:
        wanted = {state_key(known) for known in table.states}
        tables = self.context.database.state_tables()
        return [one.name for _, one in tables if state_key(one.states[0]) in wanted]

    def _only_state(self, statement: RowStatement) -> WritableState:
        """Return the state that rows are added to.

        Raises:
            QueryError: rows of this table do not say which state they are of, or not all of it.
        """
        states = self._states(statement)
        table = self._table(statement.name)
        if not isinstance(table, StateTable) or len(states) != 1:
            own = self._state_tables(table) if isinstance(table, StatesTable) else []
            raise InvalidQueryError(
                f"rows cannot be added to {table.name}, only to tables of one state",
                hint=f"add them to {', '.join(own)}" if own else None,
            )
        return states[0]

    def _paths(self, writable: WritableState, assignments: Sequence[Assignment]) -> list[tuple[str, ...]]:
        return [self._path(writable, one) for one in assignments]

    def _path(self, writable: WritableState, assignment: Assignment) -> tuple[str, ...]:
        """Return the path in the state of what is set.

        Raises:
            QueryError: there is no such column or field, or it cannot be set.
        """
        state, names = writable.state, writable.table.schema.names
        first, *fields = assignment.path
        column = layers.folded(first, names)
        if column is None:
            error = NoSuchColumnError(
                first,
                [name for name in names if name not in (STATE, GROUP, ROW)],
                writable.table.name,
            )
            raise query_error_of(error) from error
        if column not in writable.paths:
            raise InvalidQueryError(
                f"{column} of {writable.table.name} cannot be set",
                hint=f"columns that can be set: {', '.join(writable.paths)}",
            )
        path = list(writable.paths[column])
        kind = layers.type_of(state.schema, path)
        for part in fields:
            known = [one.name for one in kind] if pa.types.is_struct(kind) else []
            name = layers.folded(part, known)
            if name is None:
                raise InvalidQueryError(
                    f"{'.'.join(path)} of {writable.table.name} has no field {part!r}",
                    hint=f"it has {', '.join(known)}" if known else f"its type is {kind}",
                )
            path.append(name)
            kind = kind.field(name).type
        _check_decoded(state, path[0], writable.table.name)
        return tuple(path)

    def _inserted(
        self, writable: WritableState, statement: Insert | MergeClause, found: Sequence[str]
    ) -> list[str]:
        """Return which columns of the state the columns of a query are.

        Raises:
            QueryError: there are too many or too few of them, or there is no such column.
        """
        state = writable.state
        _check_decoded(state, "value", writable.table.name)
        _check_decoded(state, "key", writable.table.name)
        known = layers.insertable(state)
        needed = [name for name in known if name not in layers.OPTIONAL]
        given = list(statement.columns)
        if isinstance(statement, Insert) and statement.is_by_name:
            given = list(found)
        elif not given:
            given = needed if len(found) == len(needed) else known
            self._check_order(writable, statement, given, found)
        names = [layers.folded(name, known) or name for name in given]
        unknown = [name for name in names if name not in known]
        missing = [name for name in needed if name not in names]
        if unknown or missing or len(set(names)) != len(names):
            wrong = (
                f"found {', '.join(names)}" if statement.columns or unknown else f"found {len(found)} columns"
            )
            raise InvalidQueryError(
                f"expected values for the columns {', '.join(needed)} of {writable.table.name}, {wrong}",
                hint=f"columns that a row may have: {', '.join(known)}",
            )
        if len(names) != len(found):
            raise InvalidQueryError(
                f"expected {len(names)} values in a row, found {len(found)}",
                hint=f"name the columns: SELECT {', '.join(names)} FROM …",
            )
        return names

    def _check_order(
        self,
        writable: WritableState,
        statement: Insert | MergeClause,
        names: Sequence[str],
        found: Sequence[str],
    ) -> None:
        """Refuse values without a list of columns where they would have another order than in `SELECT *`.

        Raises:
            QueryError: the table shows `value` before `map_key`; one of them would get the values of the other.
        """
        shown = [name for name in writable.state.schema.names if name in names]
        if shown == list(names) or len(found) != len(names):
            return
        listed = ", ".join(names)
        by_name = ", or INSERT … BY NAME SELECT …" if isinstance(statement, Insert) else ""
        raise InvalidQueryError(
            f"expected a list of columns for the values of {writable.table.name}, which has a map_key and a value",
            hint=f"write INSERT … ({listed}) …{by_name}; SELECT * shows them as {', '.join(shown)}",
        )

    def _conflict_columns(
        self, writable: WritableState, conflict: Conflict, names: Sequence[str]
    ) -> list[str]:
        """Return the columns that tell a row from others.

        Raises:
            QueryError: rows may be alike, or the statement names other columns.
        """
        known = layers.insertable(writable.state)
        identity = [name for name in known if name in layers.IDENTITY]
        if "list_index" in known or not identity:
            raise InvalidQueryError(f"ON CONFLICT needs a key: rows of {writable.table.name} may be alike")
        named = [layers.folded(name, known) or name for name in conflict.columns]
        if named and set(named) != set(identity):
            raise InvalidQueryError(
                f"expected ON CONFLICT ({', '.join(identity)}), found ({', '.join(named)})"
            )
        return identity

    # ---- layers ----

    @contextmanager
    def _found(
        self, states: Sequence[WritableState], select: Composition, tables: Mapping[str, Table] | None = None
    ) -> Iterator[list[pa.RecordBatchReader]]:
        """Run a SELECT of places and values once, over all states of a table; yield what it finds in each of them."""
        if not states:
            yield []
            return
        known = {TARGET: states[0].table, **(tables or {})}
        with translated(WriterError), self.context.select(select, known) as reader:
            if len(states) == 1:
                yield [reader]
                return
            rows = self.context.states.stored(reader, reader.schema.names).scan().to_arrow()
            yield [_rows_of_state(rows, one.number) for one in states]

    def _updated(
        self, writable: WritableState, reader: pa.RecordBatchReader, paths: Sequence[tuple[str, ...]]
    ) -> UpdatedRows:
        schema = writable.state.schema
        columns = [(path, layers.type_of(schema, path)) for path in paths]
        found = layers.fitted_values(
            reader, columns, lambda group, row: writable.rows_at(group, pa.array([row])), identities(paths)
        )
        return self.context.states.spool.updated(found, paths)

    def _removed(self, reader: pa.RecordBatchReader) -> RemovedRows:
        places = (batch.select([GROUP, ROW]) for batch in reader)
        schema = pa.schema([reader.schema.field(GROUP), reader.schema.field(ROW)])
        return self.context.states.spool.removed(pa.RecordBatchReader.from_batches(schema, places))

    def _added(
        self, writable: WritableState, names: Sequence[str], reader: pa.RecordBatchReader, before: int
    ) -> AddedRows:
        """Return the rows of a reader as added rows; `before` of them this statement has added already."""
        first = self.context.states.of(writable.key).next_added + before
        with translated(WriterError):
            layer = self.context.states.spool.added(layers.placed_rows(reader, writable.state, names, first))
        if "list_index" in names:
            layers.check_indexes(self.context, writable, layer)
        return layer

    def _effect(self, statement: RowStatement, found: Iterable[Found]) -> Effect:
        """Add what a statement has found to the changes, and return what it did.

        Raises:
            NothingChangesError: it has found nothing, and the client has not allowed that.
        """
        found = list(found)
        changed, added, removed = (
            map(sum, zip(*(one.rows for one in found), strict=True)) if found else (0, 0, 0)
        )
        rows = changed + added + removed + sum(one.kept for one in found)
        tables = {TARGET: found[0].writable.table} if found else {}
        layers.check_found(self.context, statement, rows, TARGET, tables)
        groups: set[tuple[str, int]] = set()
        samples = []
        for one in found:
            own = {int(group) for layer in one.layers for group in layer.groups}
            groups |= {(one.writable.key[0], group) for group in own}
            samples += layers.samples_of(one.writable, one.layers, self.context.states.now_ms)
        for one in found:
            self.context.states.add(one.writable.key, *one.layers)
        return Effect(
            table=statement.name,
            changed=changed,
            added=added,
            removed=removed,
            key_groups=len(groups),
            samples=tuple(samples[: layers.MOST_SAMPLES]),
            text=_counted(statement.name, changed, added, removed),
        )

    appliers: ClassVar = {Update: _update, Delete: _delete, Insert: _insert, Merge: _merge}


def _from(statement: Update | Delete, select: Composition) -> Composition:
    """Return a SELECT of the rows that an UPDATE or a DELETE is about."""
    select.add(f" FROM {TARGET} AS ", alias_of(statement))
    if statement.source is not None:
        select.add(", ", statement.source)
    add_conditions(select, [statement.condition])
    return select


def _rows_of_state(rows: pa.Table, number: int) -> pa.RecordBatchReader:
    batches = (batch.filter(pc.equal(batch.column(STATE), number)) for batch in rows.to_batches())
    return pa.RecordBatchReader.from_batches(rows.schema, batches)


def _check_decoded(state: State, column: str, table: str) -> None:
    """Refuse new values of a column whose type is not known.

    Raises:
        InvalidQueryError: it is shown as bytes.
    """
    if state.entry is not None and column in state.schema.names and state.entry.is_raw(column):
        raise InvalidQueryError(
            f"{column} of {table} is shown as bytes, for its type is not known: it cannot be written",
            hint=state.note or None,
        )


def _counted(table: str, changed: int, added: int, removed: int) -> str:
    found = [
        f"{number} {'row' if number == 1 else 'rows'} of {table} {one if number == 1 else several}"
        for number, one, several in (
            (changed, "changes", "change"),
            (added, "is added", "are added"),
            (removed, "is removed", "are removed"),
        )
        if number
    ]
    return ", ".join(found) or f"0 rows of {table} change"
