"""How a column of a wide table comes from the rows of a state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from catalog.references import unique_names
from readers import KEY_GROUP, OUT_OF_RANGE, UNDECODED, State, StateKind

KEY, NAMESPACE = "key", "namespace"
VALUE, MAP_KEY, LIST_INDEX = "value", "map_key", "list_index"
_RESERVED = frozenset({KEY, NAMESPACE, UNDECODED, OUT_OF_RANGE, KEY_GROUP})


class Shape(Enum):
    """What the rows of a state that have one key are together."""

    VALUE = "one value"
    LIST = "the elements of a list"
    MAP = "the entries of a map"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateColumn:
    """A column of a wide table.

    Attributes:
        name: in the wide table.
        type: of the column.
        shape: of the state.
        contents: the columns of the state that it is made from.
        outliers: the columns of the state, if it has them, that say more of its keys.
    """

    name: str
    type: pa.DataType
    shape: Shape
    contents: tuple[str, ...]
    outliers: tuple[str, ...]


def state_columns(states: Sequence[State]) -> tuple[StateColumn, ...]:
    """Return the columns of some states, in their order.

    Args:
        states: keyed, each with a part that can be opened.
    """
    tails = [(state.name, state.kind.value.lower()) for state in states]
    # A state that is called like a column of every wide table has the tail also if it is alone.
    free = [(f"{name}_{tail}" if name.casefold() in _RESERVED else name, tail) for name, tail in tails]
    return tuple(map(_column, unique_names(free), states))


def _column(name: str, state: State) -> StateColumn:
    schema, entry = state.schema, state.entry
    value = schema.field(VALUE).type
    shape, kind = Shape.VALUE, value
    # What is shown as bytes is one value, also of a list.
    if state.kind is StateKind.LIST and not (entry is not None and entry.is_raw(VALUE)):
        shape, kind = Shape.LIST, pa.list_(value)
    elif state.kind is StateKind.MAP:
        shape, kind = Shape.MAP, pa.map_(schema.field(MAP_KEY).type, value)
    own = {Shape.LIST: (LIST_INDEX,), Shape.MAP: (MAP_KEY,), Shape.VALUE: ()}[shape]
    contents = (VALUE, *own, UNDECODED, OUT_OF_RANGE)
    trees = () if entry is None else (entry.key, entry.namespace)
    has_outliers = any(tree is not None and tree.has_outliers for tree in trees)
    return StateColumn(
        name=name,
        type=kind,
        shape=shape,
        contents=tuple(column for column in contents if column in schema.names),
        outliers=(OUT_OF_RANGE,) if has_outliers and OUT_OF_RANGE in schema.names else (),
    )
