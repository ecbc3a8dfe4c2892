"""The states of a database that have keys: where a key is looked up, and what it is as a value of the tables there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from catalog.database import Database
from catalog.keys.parsing import Key, parse_key
from catalog.savepointtables import TIMERS_NAME
from catalog.statetables import StatesTable, timer_service_of
from catalog.table import Table
from readers import ReaderError, State, conform

_KEY = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedState:
    """A state with rows for each key.

    Attributes:
        table: a table with the state's rows, which has a column `key`.
        key_type: of the state's own keys; the table of several states may show them as text.
        operator_id, operator: the id of its operator, and the name of the operator's table.
        state, kind: as shown.
        value: the column with the value.
        facts: columns that have these values in the rows of the state, and in no others.
        is_unquoted: True if the keys are texts that never begin with a quotation mark.
        json_columns: text columns of the table in which the state's values, which are no texts, stand as JSON text.
    """

    table: Table
    key_type: pa.DataType
    operator_id: str
    operator: str
    state: str
    kind: str
    value: str = "value"
    facts: Mapping[str, str] = field(default_factory=dict)
    is_unquoted: bool = False
    json_columns: frozenset[str] = frozenset()

    @property
    def column_type(self) -> pa.DataType:
        """The type of the keys in the table."""
        return self.table.schema.field(_KEY).type

    def parse(self, text: str) -> Key:
        """Return the key that a text stands for.

        Raises:
            NotAKeyError: the state has no such keys.
        """
        return parse_key(text, self.key_type, is_unquoted=self.is_unquoted)

    def in_column(self, key: Key) -> pa.Array:
        """Return a key as the table shows it."""
        # A column of several types of keys is text: texts are as they are, other keys are JSON text.
        if pa.types.is_string(self.column_type) and not pa.types.is_string(self.key_type):
            return pa.array([key.json])
        return conform(key.array, self.column_type)


def keyed_states(database: Database) -> Iterator[KeyedState]:
    """Yield the keyed states of a database, its timers last.

    Raises:
        ReaderError: `_metadata` or the headers of an operator cannot be read.
    """
    for operator_id, table in database.state_tables():
        state = table.states[0].state
        if _KEY in table.schema.names:
            yield KeyedState(
                table=table,
                key_type=table.schema.field(_KEY).type,
                operator_id=operator_id,
                operator=database.operator_names[operator_id],
                state=state.name,
                kind=state.kind.value,
                is_unquoted=_KEY in table.unquoted,
            )
    timers = database.table(TIMERS_NAME)
    if isinstance(timers, StatesTable):
        for known in timers.states:
            if _KEY in known.state.schema.names:
                yield _timers(database, timers, known.state)


def unread_operators(database: Database) -> Iterator[tuple[str, ReaderError]]:
    """Yield the operators of which no keyed state is known, because their files cannot be opened, each with a reason.

    Raises:
        ReaderError: `_metadata` cannot be read.
    """
    for operator in database.savepoint.operators:
        errors = [handle.error for handle in operator.unread if handle.key_groups is not None]
        if errors and not any(_KEY in state.schema.names for state in operator.states):
            yield database.operator_names[operator.operator_id], errors[0]


def _timers(database: Database, table: StatesTable, state: State) -> KeyedState:
    domain, service = timer_service_of(state.name)
    return KeyedState(
        table=table,
        key_type=state.schema.field(_KEY).type,
        operator_id=state.operator_id,
        operator=database.operator_names[state.operator_id],
        state=service,
        kind=f"{domain} TIMER",
        value="timestamp",
        facts={"operator_id": state.operator_id, "timer_service": service, "time_domain": domain},
        is_unquoted=_KEY in state.unquoted,
        json_columns=frozenset(
            column.name
            for column in state.schema
            if pa.types.is_string(table.schema.field(column.name).type)
            and not pa.types.is_string(column.type)
        ),
    )
