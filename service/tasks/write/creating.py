"""CREATE TABLE: new states, of new operators or of those that the savepoint has, filled by a SELECT.

    statement ─ options and columns ─▶ kind and types ─ SELECT, batch by batch ─▶ entries on disk ─▶ an edit

LIKE gives a state the types of one in another savepoint, by its serializer snapshots. `SELECT * FROM` that state `WHERE …` takes its
entries as they are, whatever they hold; the rows of any other query are encoded in these types.

Rows are encoded while they come, so memory does not grow with their number, and every value and key that is refused is found before
anything is written. A state that a statement creates is no table of the script's other statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pyarrow as pa

import readers
import writers
from catalog import CatalogError, Table
from catalog.changedtables import ChangedTable, TableChanges, writable_states_of
from catalog.statetables import StatesTable, TimersTable
from service.base.errors import InvalidQueryError, QueryError, query_error_of, translated
from service.query.sql.text import quoted
from service.tasks.write.changes import (
    TARGET,
    Changes,
    Composition,
    Effect,
    ScriptContext,
    StateTypes,
    field_warnings,
)
from service.tasks.write.copying import other_savepoint
from service.tasks.write.request import write_errors
from service.tasks.write.rows.layers import check_not_assumed, shared_group
from service.tasks.write.statements.creation import CreateTable, whole_rows
from service.tasks.write.statements.parser import Fragment

_TYPED = ("key", "namespace", "map_key", "value")
_KEY = "key"
_INDEX = "list_index"
_EXPECTED = "_expected_index"
_OF_TYPES = ("kind", "ttl", *(f"{one}_type" for one in _TYPED))
_OPTIONS = frozenset({"operator_uid", "state", "parallelism", "max_parallelism", *_OF_TYPES})


@dataclass(slots=True, kw_only=True)
class CreatedStates:
    """The states that statements create of one operator.

    Attributes:
        uid: of the operator; if the savepoint has it, its name there.
        known: the operator, if the savepoint has it.
        parallelism, max_parallelism: of it.
        keyed, elements: its new states.
    """

    uid: str
    known: readers.Operator | None
    parallelism: int
    max_parallelism: int
    keyed: list[writers.SpooledEntries] = field(default_factory=list)
    elements: list[writers.CollectedElements] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        """The names of its new states."""
        return {one.state.name for one in self.keyed} | {one.state.name for one in self.elements}

    def edits(self) -> Iterator[writers.Edit]:
        """Yield what writes them."""
        keyed, elements = tuple(self.keyed), tuple(self.elements)
        if self.known is None:
            yield writers.CreateOperator(
                uid=self.uid,
                parallelism=self.parallelism,
                max_parallelism=self.max_parallelism,
                keyed=keyed,
                elements=elements,
            )
            return
        if keyed:
            yield writers.RewriteKeyedState(operator=self.known, added=keyed)
        if elements:
            yield writers.ExtendOperatorState(operator_id=self.known.operator_id, elements=elements)


@dataclass(frozen=True, slots=True, kw_only=True)
class LikedState:
    """The state that LIKE names.

    Attributes:
        state: the state.
        table: its rows, with their places.
        parallelism, max_parallelism: of its operator.
    """

    state: readers.State
    table: ChangedTable
    parallelism: int
    max_parallelism: int

    def keeps_groups_in(self, operator: CreatedStates) -> bool:
        """Return whether its entries have their key groups in an operator, too."""
        is_same = self.max_parallelism == operator.max_parallelism
        return readers.is_keyed(self.state.kind) and is_same and shared_group(self.state) is None


class StateCreations(Changes):
    """CREATE TABLE of states.

    Attributes:
        types: of the new states.
    """

    def __init__(self, context: ScriptContext) -> None:
        super().__init__(context)
        self._operators: dict[str, CreatedStates] = {}
        self._tables: set[str] = set()
        self._warnings: list[writers.RestoreWarning] = []
        self.types: list[StateTypes] = []

    @property
    def warnings(self) -> tuple[writers.RestoreWarning, ...]:
        """What Flink may refuse in the new states."""
        return tuple(self._warnings)

    def edits(self) -> Iterator[writers.Edit]:
        return (edit for operator in self._operators.values() for edit in operator.edits())

    def table(self, name: str) -> Table | None:
        """Refuse a table that a statement creates; return None for any other.

        Raises:
            QueryError: a statement creates it.
        """
        if name in self._tables:
            raise InvalidQueryError(
                f"an earlier statement creates {name!r}: read or change its rows in a script of their own"
            )
        return None

    def verify(self, savepoint: readers.Savepoint) -> None:
        for operator in self._operators.values():
            known = operator.known
            now = (
                readers.operator_id_of(operator.uid)
                if known is None
                else self.context.operator_ids[known.operator_id]
            )
            if now is not None:
                writers.check_created(savepoint, now, operator.keyed, operator.elements)

    def close(self) -> None:
        for operator in self._operators.values():
            for one in operator.keyed:
                one.close()

    @write_errors()
    def _create(self, statement: CreateTable) -> Effect:
        options = _known(statement.options)
        uid, name = _names(statement, options)
        like = self._like(statement, options) if statement.like else None
        operator = self._operator(uid, options, like)
        if name in operator.names:
            raise InvalidQueryError(
                f"expected a new state of {uid!r}, found {name!r}, which the script creates already"
            )
        nulls: set[writers.NullField] = set()
        whole = whole_rows(statement.query, statement.like) if like is not None else None
        if like is not None and whole is not None and like.keeps_groups_in(operator):
            state = writers.state_like(like.state, name)
            added = self._carried(state, operator, like, *whole)
        else:
            types = self._types(statement)
            select = _select(statement, self._columns(statement, options, like), types)
            with _advised(statement.like), self.context.select(select) as given:
                rows = _typed(given, types)
                rows = _with_checked_indexes(rows) if _EXPECTED in rows.schema.names else rows
                state = (
                    _state(name, options, rows.schema) if like is None else _checked(like.state, name, rows)
                )
                added = self._filled(state, operator, _noting(rows, state, nulls))
        self._warnings += field_warnings(name, nulls, self.context.database.savepoint)
        self.types.append(StateTypes(table=statement.name, before=(), after=tuple(state.types.values())))
        self._operators[uid] = operator
        self._tables.add(statement.name.casefold())
        if operator.known is not None:
            self.context.created.setdefault(operator.known.operator_id, set()).add(name)
        count = f"{added} row" if added == 1 else f"{added} rows"
        types = ", ".join(f"{column} {one.type_name}" for column, one in state.types.items())
        return Effect(
            table=statement.name,
            added=added,
            key_groups=len(operator.keyed[-1].groups) if state.is_keyed else 0,
            text=f"{statement.name} is created with {count}: state {name!r} of kind {state.kind.value} ({types}) of the "
            f"{'operator' if operator.known is not None else 'new operator with uid'} {uid!r}",
        )

    def _columns(
        self, statement: CreateTable, options: Mapping[str, str], like: LikedState | None
    ) -> list[str]:
        """Return the names of a statement's columns: those of its list, or else of the query of a list state."""
        names = [column.name for column in statement.columns]
        kind = writers.kind_named(options.get("kind", "VALUE")) if like is None else like.state.kind
        if names or kind is not readers.StateKind.LIST:
            return names
        select = Composition("SELECT * FROM ").expression(statement.query, "_rows").add(" LIMIT 0")
        with self.context.select(select) as rows:
            return list(rows.schema.names)

    def _types(self, statement: CreateTable) -> pa.Schema:
        """Return the types of the columns that a statement lists."""
        types = {column.name: column.type for column in statement.columns}
        return self.context.types(types) if types else pa.schema([])

    def _like(self, statement: CreateTable, options: Mapping[str, str]) -> LikedState:
        """Return the state that LIKE names.

        Raises:
            QueryError: there is none, or options name other types.
        """
        named = next((one for one in options if one in _OF_TYPES), None)
        if named is not None:
            raise InvalidQueryError(f"LIKE says what the option {named} says: leave one of them out")
        database = other_savepoint(self.context, statement.like, "LIKE savepoint.operator__state")
        with translated(CatalogError):
            table = database.table(statement.like[-1])
        found = writable_states_of(table, TableChanges()) if isinstance(table, StatesTable) else ()
        if len(found) != 1 or isinstance(table, TimersTable):
            raise InvalidQueryError(f"LIKE {'.'.join(statement.like)}: expected the table of one state")
        check_not_assumed(table.name, found[0].state)
        state = found[0].state
        writers.check_objects([state], database.savepoint.metadata.version, self.context.version)
        recorded = next(
            one for one in database.savepoint.metadata.operators if one.operator_id == state.operator_id
        )
        return LikedState(
            state=state,
            table=found[0].table,
            parallelism=recorded.parallelism,
            max_parallelism=recorded.max_parallelism,
        )

    def _carried(
        self,
        state: writers.NewState,
        operator: CreatedStates,
        like: LikedState,
        alias: str | None,
        condition: Fragment | None,
    ) -> int:
        """Add a state with entries of another one to an operator; return the number of rows."""
        spool, now_ms = self.context.states.spool, self.context.states.now_ms
        changes, tables = writers.StateChanges(now_ms=now_ms), {TARGET: like.table}
        count = self.context.count(like.table)
        if condition is not None:
            name = quoted(alias or like.table.name)
            gone = Composition(
                f"SELECT {name}.{writers.GROUP}, {name}.{readers.ROW} FROM {TARGET} AS {name} WHERE (",
                condition,
            )
            with self.context.select(gone.add("\n) IS NOT TRUE"), tables) as places:
                removed = spool.removed(places)
            count -= removed.rows.num_rows
            changes = replace(changes, layers=(removed,) if removed.rows.num_rows else ())
        self._keep(state, operator, lambda entries: writers.carry(entries, like.state, changes))
        return count

    def _operator(
        self, uid: str, options: Mapping[str, str], like: LikedState | None = None
    ) -> CreatedStates:
        """Return the operator of a statement; a new one has the key groups of the state that LIKE names."""
        known = self._operators.get(uid) or self._of_savepoint(uid)
        defaults = known or like or self.context
        parallelism = _number(options, "parallelism") or defaults.parallelism
        most = _number(options, "max_parallelism") or defaults.max_parallelism
        if known is not None and (known.parallelism, known.max_parallelism) != (parallelism, most):
            raise InvalidQueryError(
                f"expected parallelism {known.parallelism} and max_parallelism {known.max_parallelism} in all states of "
                f"{uid!r}, found {parallelism} and {most}"
            )
        if not 1 <= parallelism <= most <= writers.MOST_KEY_GROUPS:
            raise InvalidQueryError(
                f"expected a max_parallelism of at most {writers.MOST_KEY_GROUPS}, and a parallelism of at most that, found "
                f"{most} and {parallelism}"
            )
        return known or CreatedStates(uid=uid, known=None, parallelism=parallelism, max_parallelism=most)

    def _of_savepoint(self, name: str) -> CreatedStates | None:
        """Return the operator of this name or uid; None if the savepoint has none, or none any more."""
        try:
            source_id, _ = self.context.operator(name)
        except QueryError:
            return None
        found = self.context.in_source(source_id)
        return CreatedStates(
            uid=name,
            known=found,
            parallelism=found.metadata.parallelism,
            max_parallelism=found.metadata.max_parallelism,
        )

    def _filled(
        self, state: writers.NewState, operator: CreatedStates, rows: Iterable[pa.RecordBatch]
    ) -> int:
        """Add a state with its rows to an operator; return their number."""
        if not state.is_keyed:
            elements = writers.CollectedElements(state, operator.parallelism)
            for batch in rows:
                elements.add(batch)
            operator.elements.append(elements)
            return elements.rows

        def fill(entries: writers.SpooledEntries) -> None:
            for batch in rows:
                entries.add(batch)

        return self._keep(state, operator, fill)

    def _keep(
        self, state: writers.NewState, operator: CreatedStates, fill: Callable[[writers.SpooledEntries], None]
    ) -> int:
        """Add a keyed state to an operator, with the entries that a function adds; return their number."""
        if operator.keyed and operator.keyed[0].key_block() != state.key_block():
            first = operator.keyed[0].state
            raise InvalidQueryError(
                f"expected keys of one type in all states of {operator.uid!r}, found {first.types['key'].type_name} in "
                f"{first.name!r} and {state.types['key'].type_name} in {state.name!r}"
            )
        entries = writers.SpooledEntries(state, operator.max_parallelism, self.context.folder)
        try:
            fill(entries)
            entries.check()
        except BaseException:
            entries.close()
            raise
        operator.keyed.append(entries)
        return entries.rows

    appliers: ClassVar = {CreateTable: _create}


@contextmanager
def _advised(like: tuple[str, ...]) -> Iterator[None]:
    """Tell a user of LIKE whose rows cannot be encoded which query needs no encoding."""
    try:
        yield
    except writers.WriterError as error:
        if not like:
            raise
        failure = query_error_of(error)
        name = ".".join(like)
        failure.hint = (
            f"SELECT * FROM {name} WHERE … takes its entries as they are, with the max_parallelism of {name}"
        )
        raise failure from error


def _checked(like: readers.State, name: str, rows: pa.RecordBatchReader) -> writers.NewState:
    """Return a state like another one, for rows with these columns."""
    state = writers.state_like(like, name)
    state.check_columns(rows.schema.names)
    return state


def _noting(
    rows: pa.RecordBatchReader, state: writers.NewState, nulls: set[writers.NullField]
) -> Iterator[pa.RecordBatch]:
    """Yield rows, and note which fields of POJOs that may be primitive have NULL in them."""
    types = {
        name: one for name, one in state.types.items() if name in ("value", "map_key") and _has_pojo(one)
    }
    for batch in rows:
        for name, serializer in types.items():
            column = writers.fitted(batch.column(name), serializer.arrow(), (name,))
            nulls.update(writers.null_fields(serializer, (), column))
        yield batch


def _has_pojo(serializer: readers.Serializer) -> bool:
    return isinstance(serializer, readers.PojoSerializer) or any(
        _has_pojo(child) for _, child in serializer.children
    )


def _known(options: Mapping[str, str]) -> Mapping[str, str]:
    unknown = next((name for name in options if name not in _OPTIONS), None)
    if unknown is not None:
        raise InvalidQueryError(
            f"there is no option {unknown!r}", hint=f"there are {', '.join(sorted(_OPTIONS))}"
        )
    return options


def _names(statement: CreateTable, options: Mapping[str, str]) -> tuple[str, str]:
    """Return the uid of the operator and the name of the state: those of the options, or else of the table."""
    uid, _, name = statement.name.partition("__")
    uid, name = options.get("operator_uid", uid), options.get("state", name)
    if not (uid and name):
        raise InvalidQueryError(
            f"expected a table named operator__state, or the options operator_uid and state, found {statement.name!r}"
        )
    return uid, name


def _select(statement: CreateTable, names: Sequence[str], types: pa.Schema) -> Composition:
    """Return the SELECT of the rows, and elements of lists by their indexes."""
    casts = {one.name: f"CAST({quoted(one.name)} AS {one.type})" for one in statement.columns}
    # Any value has a text, which SQL says; a CAST to another type may round or cut.
    columns = ", ".join(
        f"{casts[column.name]} AS {quoted(column.name)}" if _is_said_by_sql(one.type) else quoted(column.name)
        for column, one in zip(statement.columns, types, strict=True)
    )
    select = Composition(f"SELECT {columns or '*'} FROM ").expression(statement.query, "_rows")
    if columns:
        select.add(f"({', '.join(map(quoted, names))})")
    if not {_KEY, _INDEX}.issubset(names):
        return select
    place = ", ".join(casts.get(name, name) for name in (_KEY, "namespace") if name in names)
    number = "row_number() OVER own - 1"
    return Composition(
        f"SELECT *, CASE WHEN {_INDEX} <> {number} THEN {number} END AS {_EXPECTED} FROM (",
        *select.pieces,
        f") WINDOW own AS (PARTITION BY {place} ORDER BY {_INDEX}) ORDER BY {_INDEX}",
    )


def _is_said_by_sql(kind: pa.DataType) -> bool:
    return not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_nested(kind))


def _typed(reader: pa.RecordBatchReader, types: pa.Schema) -> pa.RecordBatchReader:
    """Return rows with columns of some types.

    Reading them raises an UnencodableValueError where a value is none of its type.
    """
    if not len(types):
        return reader
    schema = pa.schema([*types, *list(reader.schema)[len(types) :]])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = [
                writers.fitted(column, one.type, (one.name,))
                for column, one in zip(batch.columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _with_checked_indexes(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return rows without the indexes that they are expected to have where they have others.

    Reading them raises an InvalidQueryError where one has another.
    """
    names = [name for name in reader.schema.names if name != _EXPECTED]

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            wrong = batch.filter(batch.column(_EXPECTED).is_valid())
            if wrong.num_rows:
                row = wrong.slice(0, 1).to_pylist()[0]
                raise InvalidQueryError(
                    f"key {row[_KEY]}: expected the {_INDEX} {row[_EXPECTED]}, found {row[_INDEX]}",
                    hint="number the elements of each list from 0 without gaps, such as by row_number() OVER (PARTITION BY key "
                    "ORDER BY …) - 1",
                )
            yield batch.select(names)

    return pa.RecordBatchReader.from_batches(pa.schema(map(reader.schema.field, names)), batches())


def _state(name: str, options: Mapping[str, str], columns: pa.Schema) -> writers.NewState:
    """Return the state that options and columns describe."""
    types = {}
    for column in _TYPED:
        text = options.get(f"{column}_type")
        if column in columns.names:
            types[column] = _type(column, text, columns.field(column).type)
        elif text is not None:
            raise InvalidQueryError(f"the option {column}_type is set, and there is no column {column}")
    state = writers.NewState(
        name=name,
        kind=writers.kind_named(options.get("kind", "VALUE")),
        types=types,
        ttl=_flag(options, "ttl") or "ttl_timestamp" in columns.names,
    )
    state.check_columns(columns.names)
    # What cannot be registered is refused before rows are read.
    state.registered()
    return state


def _type(column: str, text: str | None, data_type: pa.DataType) -> readers.Serializer:
    if text is None:
        return writers.type_of_column(column, data_type)
    try:
        return writers.named_after(readers.type_named(text), data_type)
    except readers.UnsupportedSerializerError as error:
        raise InvalidQueryError(f"{column}_type: {error.message}") from error


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 9:
        raise InvalidQueryError(f"expected a number for {name}, found {text!r}")
    return int(text)


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise InvalidQueryError(f"expected true or false for {name}, found {options[name]!r}")
    return text == "true"
