"""Tables of differences: one for every table that two databases have, or one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from catalog.database import Database
from catalog.differences.splits import (
    ComparedColumns,
    DifferenceSplit,
    JoinedRows,
    OneSideSplit,
    Role,
    compared_columns,
    has_places,
)
from catalog.errors import NoSuchTableError, NotComparableError
from catalog.scan import ANYTHING, Output, Predicate, Scan, StateSplit
from catalog.statetables import StatesTable, TableState, TimersTable, divided
from catalog.table import FactsTable, Table
from catalog.views import ViewTable, WideTable
from readers import KEY_GROUP, SUBTASK, State, StateKind

_IDENTITY = frozenset({"key", "namespace", "map_key", "list_index", "timestamp"})
# Names that no view has: a name with such a character would need quotes even there.
# Of both sides: most bytes are compared and not decoded, so that a split of this size takes as long as one of a scan.
_SPLIT_BYTES = 128 << 20
_HIDDEN = "\0"
_FACTS_IDENTITY = {
    "source_offsets": ("operator_id", "connector", "topic", "partition"),
    "operators": ("operator_uid_hash",),
    "statemeta": ("operator_id", "state_name", "state_kind"),
    "xray": ("level", "operator_id", "state_name", "state_kind", "subtask", "key_group"),
    "xray_keys": ("operator_id", "state_name", "state_kind"),
    "xray_largest": ("operator_id", "state_name", "state_kind", "key"),
    "xray_orphan_timers": ("operator_id", "time_domain", "timer_service", "key"),
}
# What people call an operator, and which of its subtasks reads a split, may be known of one savepoint only.
_NOT_COMPARED = frozenset({"operator_uid", "operator_name", "checkpoint_id", "subtask", KEY_GROUP})


class StateDifferences(Table):
    """The rows of a table of states that two databases do not share.

    Args:
        name: of the table.
        before, after: the table in either database; None where it does not have it. One of them has it.

    Attributes:
        columns: of the table of differences.
    """

    def __init__(self, name: str, before: StatesTable | None, after: StatesTable | None) -> None:
        self.name = name
        self.comment = f"rows of {name} that differ"
        self._before, self._after = before, after

    @cached_property
    def columns(self) -> ComparedColumns:
        """The columns of both sides, as they are compared."""
        tables = [table for table in (self._before, self._after) if table is not None]
        outputs = [_outputs_of(table) for table in tables]
        roles = {output.name: _role(output) for table in reversed(outputs) for output in table}
        schemas = [pa.schema([(output.name, output.type) for output in table]) for table in outputs]
        return compared_columns(schemas[0], schemas[-1], roles)

    @cached_property
    def schema(self) -> pa.Schema:
        return self.columns.schema

    @cached_property
    def size_bytes(self) -> int:
        return sum(table.size_bytes for table in (self._before, self._after) if table is not None)

    @cached_property
    def pairs(self) -> tuple[tuple[TableState | None, TableState | None], ...]:
        """The states of both sides that are compared, and those that only one side has."""
        sides = [() if table is None else table.states for table in (self._before, self._after)]
        # A table of one operator is compared whatever the ids of the operators are: somebody has named both.
        by_operator = isinstance(self._before or self._after, TimersTable)
        before, after = ({_id_of(known, by_operator=by_operator): known for known in side} for side in sides)
        return tuple((before.get(one), after.get(one)) for one in {**before, **after})

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        """Return a scan of what differs; rows of files that cannot be read are never left out: they would seem to be gone.

        Raises:
            ReaderError: a state file of either side that holds wanted rows cannot be opened.
        """
        splits = tuple(
            split for before, after in self.pairs for split in self.splits_of(before, after, predicate)
        )
        return Scan(schema=self.schema, splits=splits)

    def splits_of(
        self, before: TableState | None, after: TableState | None, predicate: Predicate = ANYTHING
    ) -> Iterator[DifferenceSplit | OneSideSplit]:
        """Yield the splits of one of `pairs`.

        Raises:
            ReaderError: a state file of either side that holds wanted rows cannot be opened.
        """
        names = tuple(self.schema.names)
        sides = [
            None if known is None or table is None else self._side(table, known, predicate)
            for table, known in ((self._before, before), (self._after, after))
        ]
        old, new = sides
        if old is not None and new is not None:
            assert before is not None
            assert after is not None
            for one, other, size_bytes in _divided_pair((before, old), (after, new)):
                yield DifferenceSplit(one, other, self.columns, names, after.state.kind, size_bytes)
            return
        for known, split, is_before in ((before, old, True), (after, new, False)):
            if known is None or split is None:
                continue
            for number, part in enumerate(known.state.parts):
                for groups, size_bytes in divided(part.source.key_group_bytes(part.name), split.key_groups):
                    rows = replace(split, part=number, key_groups=groups, size_bytes=size_bytes)
                    yield OneSideSplit(
                        origin=rows,
                        is_before=is_before,
                        columns=self.columns,
                        names=names,
                        kind=known.state.kind,
                        size_bytes=size_bytes,
                    )

    def _side(self, table: StatesTable, known: TableState, predicate: Predicate) -> StateSplit | None:
        """Return what reads a state of one side; None if it has no wanted rows."""
        own = self._own_predicate(table, predicate)
        if not table.may_have_rows(known, own):
            return None
        table.check(known, own)
        split = table.whole_split(known, own)
        outputs = (*(output for output in split.outputs if output.source != SUBTASK), *_hidden(table))
        return replace(split, outputs=outputs)

    def _own_predicate(self, table: StatesTable, predicate: Predicate) -> Predicate:
        """Return the conditions that mean the same in the table of one side."""
        same = {
            column.name
            for column in self.columns.columns
            if column.role is Role.IDENTITY
            and column.name == column.shown
            and column.name in table.schema.names
            and table.schema.field(column.name).type.equals(column.compared)
        }
        parallelisms = {known.state.max_parallelism for pair in self.pairs for known in pair if known}
        if len(parallelisms) == 1:
            same.add(KEY_GROUP)
        return Predicate({name: values for name, values in predicate.values.items() if name in same})


def _divided_pair(
    before: tuple[TableState, StateSplit], after: tuple[TableState, StateSplit]
) -> Iterator[tuple[StateSplit, StateSplit, int]]:
    """Yield the splits of either side whose rows are compared, with their bytes."""
    (old_state, old), (new_state, new) = before, after
    old_sizes, new_sizes = _sizes(old_state.state), _sizes(new_state.state)
    if (
        old_sizes is None
        or new_sizes is None
        or old_state.state.max_parallelism != new_state.state.max_parallelism
    ):
        yield old, new, old_state.state.size_bytes + new_state.state.size_bytes
        return
    if old.keys is None or new.keys is None:
        old, new = replace(old, keys=None), replace(new, keys=None)
    sizes = old_sizes + new_sizes
    wanted = _both(old.key_groups, new.key_groups)
    for groups, size_bytes in divided(sorted(sizes.items()), wanted, _SPLIT_BYTES):
        yield replace(old, key_groups=groups), replace(new, key_groups=groups), size_bytes


def _sizes(state: State) -> Counter[int] | None:
    """Return about how many bytes each key group of a state has; None where a part does not tell."""
    found: Counter[int] = Counter()
    for part in state.parts:
        sizes = part.source.key_group_bytes(part.name)
        if sizes is None:
            return None
        for group, size_bytes in sizes:
            # A key group counts, also if nothing is known of its size.
            found[group] += max(size_bytes, 1)
    return found


def _both(one: frozenset[int] | None, other: frozenset[int] | None) -> frozenset[int] | None:
    return None if one is None or other is None else one | other


def _id_of(known: TableState, *, by_operator: bool) -> tuple[str, str, StateKind]:
    return known.state.operator_id if by_operator else "", known.state.name, known.state.kind


def _outputs_of(table: StatesTable) -> tuple[Output, ...]:
    """Return the columns of a table that are compared, with where they come from in any of its states."""
    every = [output for known in table.states for output in table.outputs(known)]
    known = {output.name: output for output in reversed(every) if output.source or output.constant}
    listed = [known.get(column.name, Output(column.name, column.type)) for column in table.schema]
    shown = [output for output in listed if output.source != SUBTASK and output.name != SUBTASK]
    # Only elements of keyed lists have a place that stays.
    if table.exploded is None and not any(has_places(known.state.kind) for known in table.states):
        shown = [output for output in shown if output.source != "list_index"]
    return (*shown, *_hidden(table))


def _hidden(table: StatesTable) -> tuple[Output, ...]:
    """Return the columns of a state that say which entry a row of its view is: the view may not have all of them."""
    if not isinstance(table, ViewTable):
        return ()
    schema = table.states[0].state.schema
    names = [name for name in ("key", "namespace", "map_key") if name in schema.names]
    return tuple(Output(_HIDDEN + name, schema.field(name).type, source=name) for name in names)


def _role(output: Output) -> Role:
    if output.name.startswith(_HIDDEN):
        return Role.HIDDEN_IDENTITY
    if output.name in _NOT_COMPARED:
        return Role.FACT
    is_identity = output.source in _IDENTITY or output.constant is not None
    return Role.IDENTITY if is_identity else Role.CONTENT


def _facts_differences(name: str, before: Table | None, after: Table | None) -> FactsTable:
    """Return the rows of a table that is not of states that two databases do not share."""
    tables = [table for table in (before, after) if table is not None]
    folded = name.casefold()
    schemas = [table.schema for table in tables]
    names = {column for schema in schemas for column in schema.names}
    # Of a table of which nobody says what tells its rows apart, everything does.
    identity = _FACTS_IDENTITY.get(folded, tuple(names))
    roles = {column: Role.IDENTITY if column in identity else Role.CONTENT for column in names}
    roles |= dict.fromkeys((names & _NOT_COMPARED) - set(_FACTS_IDENTITY.get(folded, ())), Role.FACT)
    columns = compared_columns(schemas[0], schemas[-1], roles)

    def rows() -> pa.RecordBatch:
        sides = [[] if table is None else table.plan().to_arrow().to_batches() for table in (before, after)]
        joined = JoinedRows(before=lambda: iter(sides[0]), after=lambda: iter(sides[1]), columns=columns)
        found = pa.Table.from_batches(joined.batches(), schema=columns.schema).combine_chunks()
        batches = found.to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=columns.schema)

    return FactsTable(name, f"rows of {name} that differ", columns.schema, rows)


def diff_table(before: Database | None, after: Database, table: str) -> Table:
    """Return the rows of a table that differ between two databases.

    A database that has no such table counts as one in which it is empty.

    Args:
        before, after: the databases; None for one without tables.
        table: its name in one of them, in any case.

    Raises:
        NoSuchTableError: neither database has such a table.
        NotComparableError: it is the wide table of an operator.
        ReaderError: a file that may hold the state of this name cannot be read.
    """
    old, new = None if before is None else _find(before, table), _find(after, table)
    if before is not None and old is None and new is not None:
        old = _counterpart(before, after, new)
    if before is not None and new is None and old is not None:
        new = _counterpart(after, before, old)
    known = new or old
    if known is None:
        found = [one for one in (before, after) if one is not None]
        names = " and ".join(repr(one.name) for one in found)
        raise NoSuchTableError(table, {name for one in found for name in one.tables}, f"databases {names}")
    if isinstance(known, WideTable):
        own = ", ".join(f"{known.operator}__{state.state.name}" for state in known.states[:3])
        raise NotComparableError(
            f"expected the table of an operator or of a state, found {known.name}, which shows states side by side; "
            f"compare {known.operator}, or {own}"
        )
    if isinstance(known, StatesTable):
        states = [table if isinstance(table, StatesTable) else None for table in (old, new)]
        return StateDifferences(known.name, *states)
    return _facts_differences(known.name, old, new)


def _find(database: Database, name: str) -> Table | None:
    try:
        return database.table(name)
    except NoSuchTableError:
        return None


def _counterpart(database: Database, other: Database, table: Table) -> Table | None:
    """Return the table of the same operator in a database that calls the operator by another name; None if there is none."""
    if not isinstance(table, StatesTable) or isinstance(table, TimersTable) or not table.states:
        return None
    operator_id = table.states[0].state.operator_id
    own = other.operator_names[operator_id]
    if operator_id not in database.operator_names:
        return None
    return _find(database, database.operator_names[operator_id] + table.name[len(own) :])
