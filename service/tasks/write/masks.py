"""The masks of a copy: a file of masks and the states of a savepoint → the edits that write masked rows."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

import writers
from catalog import Database
from catalog.errors import UnknownMaskColumnError, UnmaskableValueError
from catalog.masks.columns import ColumnNames, MaskedColumns, leaves_of
from catalog.masks.masks import Masks
from catalog.masks.rules import Keep
from catalog.savepointtables import SOURCE_OFFSETS_NAME, TIMERS_NAME
from readers import SOURCE_OFFSETS, UNDECODED, Operator, State, StateKind, StateName, is_keyed

_OPERATOR_STATES = frozenset({StateKind.OPERATOR_LIST, StateKind.UNION_LIST, StateKind.BROADCAST})
_GLOB = re.compile(r"[*?]")


@dataclass(frozen=True, slots=True)
class NamedState:
    """A state, and the names by which rules know its columns."""

    state: State
    names: ColumnNames


@dataclass(frozen=True, slots=True)
class _DecodedRows:
    """The masks of a state whose values may be of classes that the savepoint does not describe, and no rule says what to do with these.

    Attributes:
        masks: of its columns.
    """

    masks: MaskedColumns

    @property
    def masks_key(self) -> bool:
        return self.masks.masks_key

    @property
    def is_whole(self) -> bool:
        return self.masks.is_whole

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with their masks.

        Raises:
            RefusedEditError: a value is not decoded.
        """
        if batch.column(UNDECODED).null_count < batch.num_rows:
            raise writers.RefusedEditError(
                f"expected values of {self.masks.table} that can be decoded, found one of a class that the savepoint does not "
                'describe: add raw = "drop" or raw = "null" to its rule'
            )
        return self.masks.apply(batch)


def named_states(database: Database) -> dict[str, list[NamedState]]:
    """Return the states of each operator, by its id."""
    tables = {(owner, table.states[0].number): table.name for owner, table in database.state_tables()}
    found = {}
    for operator in database.savepoint.operators:
        owner = operator.operator_id
        own = [tables.get((owner, number), TIMERS_NAME) for number in range(len(operator.states))]
        siblings = tuple(dict.fromkeys(own))
        found[owner] = [
            NamedState(state, ColumnNames(name, database.operator_names[owner], siblings=siblings))
            for state, name in zip(operator.states, own, strict=True)
        ]
    return found


def check_names(masks: Masks, database: Database) -> None:
    """Refuse names without `*`, of rules and groups, that cover no column of a savepoint.

    Raises:
        UnknownMaskColumnError: there is one.
        ReaderError: the savepoint cannot be read.
    """
    known = [(ColumnNames(SOURCE_OFFSETS_NAME), SOURCE_OFFSETS)]
    known += [(one.names, one.state.schema) for states in named_states(database).values() for one in states]
    for pattern in chain(*(rule.columns for rule in masks.rules), *masks.groups.values()):
        if not _GLOB.search(pattern.text) and not any(
            names.covers(pattern, path) for names, schema in known for path, _ in leaves_of(schema)
        ):
            raise UnknownMaskColumnError(f"expected a column of a state, found none called {pattern.text}")


class CopyMasks:
    """Masks for the copy of a savepoint.

    Args:
        path: of the file.
        database: the source.

    Raises:
        MaskError: the file cannot be read, is no file of masks, or names a column that does not exist.
        ReaderError: the savepoint cannot be read.
    """

    def __init__(self, path: str, database: Database) -> None:
        self._masks = Masks.load(path)
        self._operators = named_states(database)
        check_names(self._masks, database)
        self._check_positions(database)

    def _check_positions(self, database: Database) -> None:
        """Refuse a rule for `source_offsets` that masks nothing here: a copy has the state of the sources, and not this table."""
        named = [
            pattern.text
            for rule in self._masks.rules
            for pattern in rule.columns
            if pattern.names_table(SOURCE_OFFSETS_NAME) and not isinstance(rule.rule, Keep)
        ]
        if not named:
            return
        rows = database.table(SOURCE_OFFSETS_NAME).scan(["operator_id"]).to_arrow()
        for owner in dict.fromkeys(rows["operator_id"].to_pylist()):
            if not self._masks.hides_positions((one.state, one.names) for one in self._operators[owner]):
                raise UnknownMaskColumnError(
                    f"expected a rule for the state of the source {database.operator_names[owner]}, found {named[0]}: "
                    "a copy has that state, and this table shows it"
                )

    def edits(self, operator: Operator, without: Collection[StateName]) -> Iterator[writers.Edit]:
        """Yield the edits that mask an operator.

        Args:
            operator: in the source.
            without: keyed states that go.

        Raises:
            MaskError: a rule cannot be applied, or a column has no rule and must have one.
            WriterError: a state cannot be changed.
            ReaderError: a state cannot be read.
        """
        keyed: dict[StateName, writers.RowMask] = {}
        others: dict[str, writers.RowMask] = {}
        for named in self._operators[operator.operator_id]:
            state = named.state
            name = StateName(name=state.name, timers=state.kind is StateKind.TIMER)
            if is_keyed(state.kind) and name not in without and state.parts:
                found = self._of(named, writers.row_schema(operator, name))
                if not found.is_whole:
                    keyed[name] = found
            elif state.kind in _OPERATOR_STATES and state.parts:
                found = self._of(named, state.schema)
                if not found.is_whole:
                    others[state.name] = found
            elif not is_keyed(state.kind):
                self._of(named, state.schema)
        if keyed:
            yield writers.RewriteKeyedState(operator=operator, masks=keyed)
        changes = dict(writers.masked_changes(operator, others, time.time_ns() // 1_000_000))
        if changes:
            yield writers.RewriteOperatorState(operator=operator, changes=changes)

    def _of(self, named: NamedState, schema: pa.Schema) -> MaskedColumns | _DecodedRows:
        raw = {column for part in named.state.parts for column in schema.names if part.entry.is_raw(column)}
        place = schema.get_field_index(UNDECODED)

        def masked(columns: pa.Schema) -> MaskedColumns:
            return self._masks.for_table(named.names.table, columns, named.names, raw=raw)

        try:
            found, only_decoded = masked(schema), False
        except UnmaskableValueError:
            if place < 0:
                raise
            # Whether there are such values shows only in the rows.
            found, only_decoded = masked(schema.remove(place)), True
        if found.needs_all_rows:
            raise UnmaskableValueError(
                f"expected rules that mask each value by itself, found shuffle for {named.names.table}: a copy is written page by "
                "page; pseudonym and hash mask values"
            )
        return _DecodedRows(found) if only_decoded and not found.is_whole else found


def masked_script(path: str, database: Database, edits: Sequence[writers.Edit]) -> tuple[writers.Edit, ...]:
    """Return the edits of a script, with those that mask all operators that stay.

    Masks read the entries of the source and deal them out anew. Rows, types and states of a script are encoded later, when the key groups
    of a file are put together: to mask these takes a second write, of what the first one made.

    Args:
        path: of the file of masks.
        database: the source.
        edits: of the script.

    Raises:
        MaskError, WriterError, ReaderError: see `CopyMasks.edits`; or the script changes rows or types, which would have no masks.
    """
    masks, gone = CopyMasks(path, database), set[str]()
    dropped: dict[str, set[StateName]] = {}
    for edit in edits:
        if isinstance(edit, writers.DropOperator):
            gone.add(edit.operator_id)
        elif isinstance(edit, writers.RewriteKeyedState) and not (edit.changes or edit.added):
            dropped[edit.operator.operator_id] = set(edit.alterations)
        elif not isinstance(edit, writers.RenameOperator | writers.AlterOperatorStates | writers.SetOffsets):
            raise writers.RefusedEditError(
                "expected a script that changes no rows, types or new states, as they would have no masks: mask in a write of its own"
            )
    masked = [
        edit
        for operator in database.savepoint.operators
        if operator.operator_id not in gone
        for edit in masks.edits(operator, dropped.get(operator.operator_id, ()))
    ]
    return tuple(writers.merged_edits([*masked, *edits]))
