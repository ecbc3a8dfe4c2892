"""A key as people write it → the condition and the statements of SQL that find it in a state."""

from __future__ import annotations

from catalog import Database, KeyedState
from service.query.sql.text import condition_of, quoted, text_constant


def condition_of_key(state: KeyedState, text: str) -> str:
    """Return the condition that is true for the rows of a key in the table of a state.

    Raises:
        NotAKeyError: the state has no such keys.
    """
    return " AND ".join([condition_of("key", state.in_column(state.parse(text))), *_facts(state)])


def rows_of_key(database: Database, state: KeyedState, text: str) -> str:
    """Return the statement of the rows of a key.

    Raises:
        NotAKeyError: the state has no such keys.
    """
    return f"SELECT * FROM {_source(database, state)} WHERE {condition_of_key(state, text)}"


def any_key(database: Database, state: KeyedState) -> str:
    """Return the statement of one key that a state has."""
    facts = " AND ".join([*_facts(state), "key IS NOT NULL"])
    return f"SELECT key FROM {_source(database, state)} WHERE {facts} LIMIT 1"


def _source(database: Database, state: KeyedState) -> str:
    return f"{quoted(database.name)}.{quoted(state.table.name)}"


def _facts(state: KeyedState) -> list[str]:
    return [f"{name} = {text_constant(value)}" for name, value in state.facts.items()]
