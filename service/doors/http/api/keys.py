"""`POST /api/databases/{database}/keys`: a text that a user typed → queries that find this key in each state.

The text is read as the command line and SQL read keys (`catalog.keys`). The call reads no state: its client sends the queries, which have
the limits of all queries.
"""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from catalog import Database, KeyedState, NotAKeyError, keyed_states, unread_operators
from service.base.errors import query_error_of
from service.doors.http.api.state import Visible
from service.doors.http.errors import FAILURES
from service.query.sql.types import sql_type
from service.tasks.lookup.statements import any_key, condition_of_key, rows_of_key

router = APIRouter(prefix="/api/databases", tags=["catalog"], responses=FAILURES)

_LONGEST_KEY = 100_000


class KeyText(BaseModel):
    """A key as a user writes it."""

    model_config = ConfigDict(extra="forbid")

    key: str = Field(max_length=_LONGEST_KEY)


class KeyedStateEntry(BaseModel):
    """A state with keys, or the timers of a timer service."""

    operator_id: str
    operator: str = Field(description="name of the operator's table")
    table_name: str = Field(description="name of the table that the query reads")
    state_name: str
    state_kind: str
    key_type: str = Field(description="SQL type of its keys")
    columns: list[str] = Field(description="columns of the query")
    sql: str | None = Field(
        default=None, description="query of the key's rows; null if the text is no key of this type"
    )
    condition: str | None = Field(
        default=None, description="condition of that query, for others over the table, such as `diff`"
    )
    reason: str | None = Field(default=None, description="why the text is no key of this type")
    is_close: bool = Field(
        default=False, description="the text is a struct, as the keys are, with other fields or values"
    )
    example_sql: str = Field(description="query of one key, to see what keys look like")


class UnreadOperatorEntry(BaseModel):
    """An operator whose states are not known, because its files cannot be opened."""

    operator: str
    code: str
    message: str


class KeyAnswer(BaseModel):
    """The states of a database in which a key may be."""

    states: list[KeyedStateEntry]
    unread: list[UnreadOperatorEntry]


@router.post("/{database:path}/keys")
def read_key(database: str, body: KeyText, catalog: Visible) -> KeyAnswer:
    """Read a text as a key of each state; return the queries that find its rows."""
    found = catalog.database(database)
    states = [_entry(found, state, body.key) for state in keyed_states(found)]
    errors = [(operator, query_error_of(error)) for operator, error in unread_operators(found)]
    return KeyAnswer(
        states=states,
        unread=[
            UnreadOperatorEntry(operator=operator, code=error.code, message=error.message)
            for operator, error in errors
        ],
    )


def _entry(database: Database, state: KeyedState, text: str) -> KeyedStateEntry:
    entry = KeyedStateEntry(
        operator_id=state.operator_id,
        operator=state.operator,
        table_name=state.table.name,
        state_name=state.state,
        state_kind=state.kind,
        key_type=sql_type(state.key_type),
        columns=state.table.schema.names,
        example_sql=any_key(database, state),
    )
    try:
        entry.condition = condition_of_key(state, text)
        entry.sql = rows_of_key(database, state, text)
    except NotAKeyError as error:
        entry.reason, entry.is_close = str(error), error.is_close
    return entry
