"""Reads converted states back: they have their new types, as many rows, and each value can be read.

Where objects stay objects, the values are compared, too: both versions of Kryo are shown as the same text.
"""

from __future__ import annotations

import re
from typing import Any

from readers import Savepoint, State
from service.tasks.convert.plan import ConvertedState
from writers import UnwritableError

# Kryo 5 stores no offset beside the region of a zone.
_OFFSET = re.compile(r"(?:Z|[+-]\d\d:\d\d(?::\d\d)?)(?=\[)")
_COMPARED = ("key", "namespace", "map_key", "list_index", "value")


def verify_converted(savepoint: Savepoint, converted: tuple[ConvertedState, ...]) -> None:
    """Check the states that were written anew.

    Raises:
        UnwritableError: one is not there, has another type, or other rows.
        ReaderError: a value of it cannot be read.
    """
    operators = {operator.operator_id: operator for operator in savepoint.operators}
    for one in converted:
        operator = operators[one.operator.operator_id]
        written = [
            state for state in operator.states if (state.name, state.kind) == (one.state.name, one.state.kind)
        ]
        if len(written) != 1:
            raise UnwritableError(f"expected the state {one.state.name}, read {len(written)} back")
        _compare(one.state, written[0])


def _compare(before: State, after: State) -> None:
    is_same_type = before.schema.field("value").type == after.schema.field("value").type
    columns = [
        name for name in _COMPARED if name in before.schema.names and (name != "value" or is_same_type)
    ]
    expected, found = _summary(before, columns), _summary(after, columns)
    if expected != found:
        raise UnwritableError(
            f"expected {expected[0]} rows of {before.name} with the values that they had, read {found[0]} back with others; "
            "nothing was written"
        )


def _summary(state: State, columns: list[str]) -> tuple[int, int]:
    """Return the number of rows, and the sum of the hashes of some columns; all columns are read."""
    rows = total = 0
    for batch in state.read():
        rows += batch.num_rows
        values = [batch.column(name).to_pylist() for name in columns]
        total += sum(hash(_text(row)) for row in zip(*values, strict=True))
    return rows, total


def _text(row: tuple[Any, ...]) -> str:
    return _OFFSET.sub("", repr(row))
