"""A new state: its kind and its types, the registration that Flink finds, and the columns of its rows.

A type that is not named is that of the column:

| column | type |
|---|---|
| BOOLEAN TINYINT SMALLINT INTEGER BIGINT | Boolean Byte Short Integer Long |
| REAL DOUBLE | Float Double |
| DECIMAL, HUGEINT | BigDecimal, BigInteger |
| VARCHAR BLOB | String byte[] |
| DATE TIME TIMESTAMP | LocalDate LocalTime LocalDateTime |
| TIMESTAMP WITH TIME ZONE | Instant |
| T[] | List<T> |
| MAP(K, V) | Map<K, V> |
| STRUCT(a A, b B) | Row(a A, b B) |

| kind | columns |
|---|---|
| VALUE REDUCING AGGREGATING | key, [namespace], value, [ttl_timestamp] |
| LIST | key, [namespace], value, [list_index], [ttl_timestamp]: a row is an element, in the order of the rows |
| MAP | key, [namespace], map_key, value, [ttl_timestamp] |
| TIMER | key, [namespace], timestamp |
| OPERATOR_LIST UNION_LIST | value, [_subtask] |
| BROADCAST | map_key, value |
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from readers import (
    SUBTASK,
    UNDECODED,
    Entry,
    ListSerializer,
    MapSerializer,
    RowSerializer,
    Serializer,
    StateKind,
    TtlSerializer,
    TupleSerializer,
    UnsupportedSerializerError,
    VoidNamespaceSerializer,
    is_keyed,
    sql_type,
    state_meta_info,
    type_named,
)
from writers.encode.fitting import fitted
from writers.errors import RefusedEditError, UnencodableTypeError, UnencodableValueError
from writers.headers import RegisteredState, snapshot_block, write_snapshot

_PLAIN: dict[pa.DataType, str] = {
    pa.bool_(): "Boolean",
    pa.int8(): "Byte",
    pa.int16(): "Short",
    pa.int32(): "Integer",
    pa.int64(): "Long",
    pa.float32(): "Float",
    pa.float64(): "Double",
    pa.date32(): "LocalDate",
}


def type_of_column(name: str, data_type: pa.DataType) -> Serializer:
    """Return the serializer of a column of this type.

    Raises:
        UnencodableTypeError: there is no such type of Flink; its name must be given.
    """
    text = _name(data_type)
    if text is None:
        raise UnencodableTypeError(
            f"expected a column whose type Flink has, or the name of a type, found {sql_type(data_type)}",
            breadcrumbs=(name,),
        )
    try:
        return type_named(text)
    except UnsupportedSerializerError as error:
        raise UnencodableTypeError(error.message, breadcrumbs=(name,)) from error


def _name(data_type: pa.DataType) -> str | None:
    """Return the name of the type; None if there is none."""
    if data_type in _PLAIN:
        return _PLAIN[data_type]
    if types.is_string(data_type) or types.is_large_string(data_type) or types.is_dictionary(data_type):
        return "String"
    if types.is_binary(data_type) or types.is_large_binary(data_type):
        return "byte[]"
    if types.is_decimal(data_type):
        # A HUGEINT is a decimal without a fraction, and so is a DECIMAL(38, 0).
        return "BigInteger" if (data_type.precision, data_type.scale) == (38, 0) else "BigDecimal"
    if types.is_time(data_type):
        return "LocalTime"
    if types.is_timestamp(data_type):
        return "Instant" if data_type.tz else "LocalDateTime"
    return _composed(data_type)


def _composed(data_type: pa.DataType) -> str | None:
    """Return the name of a list, map or struct."""
    if types.is_map(data_type):
        key, item = _name(data_type.key_type), _name(data_type.item_type)
        return None if key is None or item is None else f"Map<{key}, {item}>"
    if types.is_struct(data_type):
        fields = [(field.name, _name(field.type)) for field in data_type]
        if any(text is None for _, text in fields) or not fields:
            return None
        return f"Row({', '.join(f'{name} {text}' for name, text in fields)})"
    if types.is_nested(data_type) and data_type.num_fields == 1:
        element = _name(data_type.value_type)
        return None if element is None else f"List<{element}>"
    return None


def named_after(serializer: Serializer, data_type: pa.DataType) -> Serializer:
    """Return the type with the fields of its rows and tuples named as those of the column, if they have no names of their own."""
    if isinstance(serializer, RowSerializer | TupleSerializer):
        if not (types.is_struct(data_type) and data_type.num_fields == serializer.width):
            return serializer
        fields = tuple(
            named_after(child, data_type.field(number).type)
            for number, (_, child) in enumerate(serializer.children)
        )
        named = (
            serializer if serializer.names else serializer.with_names(tuple(one.name for one in data_type))
        )
        return replace(named, fields=fields)
    if isinstance(serializer, ListSerializer) and types.is_nested(data_type) and data_type.num_fields == 1:
        return replace(serializer, element=named_after(serializer.element, data_type.value_type))
    if isinstance(serializer, MapSerializer) and types.is_map(data_type):
        return replace(
            serializer,
            key=named_after(serializer.key, data_type.key_type),
            value=named_after(serializer.value, data_type.item_type),
        )
    return serializer


_TIMER_PREFIX = "_timer_state/"
_TTL = "ttl_timestamp"
_INDEX = "list_index"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewState:
    """A state to create.

    Attributes:
        name: the name of its descriptor; of timers, that of their service: `_timer_state/event_user-timers`.
        kind: one of `_TYPES`.
        types: the serializers of its columns, by name: `key`, `namespace`, `map_key`, `value`.
        ttl: whether values carry the time of their last access.
        now_ms: the time of the last access of rows that have none.
        registration: of a state like it, whose snapshots it has; None to make them of its types.
        keys: the snapshot of the keys of that state.

    Raises:
        RefusedEditError: the kind has no such column, or needs another one.
        UnencodableTypeError: the snapshot of a type cannot be written.
    """

    name: str
    kind: StateKind
    types: Mapping[str, Serializer]
    ttl: bool = False
    now_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    registration: RegisteredState | None = None
    keys: bytes = b""

    def __post_init__(self) -> None:
        wanted = _TYPES[self.kind]
        missing = [name for name in wanted if name not in self.types]
        unknown = [name for name in self.types if name not in wanted and not self._may_have(name)]
        if missing or unknown:
            found = f"no {missing[0]}" if missing else f"a {unknown[0]}"
            raise RefusedEditError(
                f"expected the columns {', '.join(wanted)} in a state of kind {self.kind.value}, found {found}"
            )
        if self.ttl and not (self.is_keyed and "value" in wanted):
            raise RefusedEditError(f"expected no TTL in a state of kind {self.kind.value}, found one")
        if (self.kind is StateKind.TIMER) != self.name.startswith(_TIMER_PREFIX):
            raise RefusedEditError(
                f"expected timers, and nothing else, in states that begin with {_TIMER_PREFIX}, such as "
                f"{_TIMER_PREFIX}event_user-timers, found {self.name!r} of kind {self.kind.value}"
            )

    def _may_have(self, name: str) -> bool:
        return name == "namespace" and self.is_keyed

    @property
    def is_keyed(self) -> bool:
        """True if its entries have a key."""
        return is_keyed(self.kind)

    @property
    def entry(self) -> Entry:
        """The serializers of its entries."""
        value = self.types.get("value")
        return Entry(
            kind=self.kind,
            key=self.types.get("key"),
            namespace=self.types.get("namespace", VoidNamespaceSerializer()) if self.is_keyed else None,
            map_key=self.types.get("map_key"),
            value=TtlSerializer(value) if self.ttl and value is not None else value,
        )

    def registered(self) -> RegisteredState:
        """Return its registration in the header of a state file.

        Raises:
            UnencodableTypeError: the snapshot of a type cannot be written.
        """
        if self.registration is not None:
            return replace(self.registration, name=self.name)
        info = state_meta_info(self.name, self.entry)
        blocks = {name: snapshot_block(write_snapshot(one)) for name, one in info.serializers.items()}
        return RegisteredState(name=info.name, kind=info.kind, options=info.options, blocks=blocks)

    def key_block(self) -> bytes:
        """Return the snapshot of its keys, as the header of a keyed state file has it."""
        return self.keys or snapshot_block(write_snapshot(self.types["key"]))

    def columns(self) -> Iterator[str]:
        """Yield the names of the columns that rows may have; `ROW_ORDER` says which of them rows need."""
        yield from (name for name in ("key", "namespace", "map_key") if name in self.types)
        yield "timestamp" if self.kind is StateKind.TIMER else "value"
        if self.kind is StateKind.LIST:
            yield _INDEX
        if self.ttl:
            yield _TTL
        if self.kind in (StateKind.OPERATOR_LIST, StateKind.UNION_LIST):
            yield SUBTASK

    def check_columns(self, names: list[str]) -> None:
        """Check the columns of rows.

        Raises:
            RefusedEditError: one is missing, unknown, or comes twice.
        """
        known = list(self.columns())
        optional = {_INDEX, _TTL, SUBTASK}
        needed = [name for name in known if name not in optional]
        if len(set(names)) < len(names) or set(names) - set(known) or set(needed) - set(names):
            raise RefusedEditError(
                f"expected the columns {', '.join(known)} in a state of kind {self.kind.value}, found {', '.join(names)}"
            )

    def entry_columns(self, rows: pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
        """Return the columns of entries, of which each row makes one; a list's entry has one element.

        Args:
            rows: with columns that `check_columns` accepts.
            schema: of the entries.

        Raises:
            UnencodableValueError: a value does not fit its type, or is NULL where Flink has none.
        """
        return [self._entry_column(rows, one) for one in schema]

    def _entry_column(self, rows: pa.RecordBatch, column: pa.Field) -> pa.Array:
        name, length = column.name, rows.num_rows
        if name == UNDECODED or (name == "namespace" and name not in self.types):
            return pa.nulls(length, column.type)
        if self.kind is StateKind.TIMER and name == "value":
            return _without_nulls(fitted(rows.column("timestamp"), column.type, ("timestamp",)), "timestamp")
        given = rows.column(name)
        if name != "value":
            return _without_nulls(fitted(given, column.type, (name,)), name)
        if self.kind is not StateKind.MAP:
            _without_nulls(given, name)
        elif given.null_count and not self.types["value"].is_nullable:
            # Flink's heap backend cannot write such a state again.
            _without_nulls(given, name)
        if not self.ttl:
            return fitted(given, column.type, (name,))
        value_type, access_type = column.type.field(0).type, column.type.field(1).type
        values = fitted(given, value_type, (name,))
        return pa.StructArray.from_arrays(
            [values, self._accesses(rows, access_type)], fields=list(column.type)
        )

    def _accesses(self, rows: pa.RecordBatch, data_type: pa.DataType) -> pa.Array:
        """Return the times of last access."""
        now = pa.scalar(self.now_ms, pa.int64()).cast(pa.timestamp("ms")).cast(data_type)
        if _TTL not in rows.schema.names:
            return pa.repeat(now, rows.num_rows)
        return pc.fill_null(fitted(rows.column(_TTL), data_type, (_TTL,)), now)


def _without_nulls(array: pa.Array, name: str) -> pa.Array:
    if array.null_count:
        row = pc.index(array.is_null(), True).as_py()
        raise UnencodableValueError(
            "expected a value, found NULL: leave the row out by a WHERE, or give it a value",
            breadcrumbs=(name,),
            row=row,
        )
    return array


def kind_named(text: str) -> StateKind:
    """Return the kind of this name.

    Raises:
        UnencodableTypeError: it is none that can be created.
    """
    for kind in _TYPES:
        if kind.value == text.upper():
            return kind
    raise UnencodableTypeError(
        f"expected one of the kinds {', '.join(kind.value for kind in _TYPES)}, found {text!r}"
    )


_KEYED_TYPES = ("key", "value")
_TYPES: dict[StateKind, tuple[str, ...]] = {
    StateKind.VALUE: _KEYED_TYPES,
    StateKind.LIST: _KEYED_TYPES,
    StateKind.MAP: ("key", "map_key", "value"),
    StateKind.REDUCING: _KEYED_TYPES,
    StateKind.AGGREGATING: _KEYED_TYPES,
    StateKind.TIMER: ("key",),
    StateKind.OPERATOR_LIST: ("value",),
    StateKind.UNION_LIST: ("value",),
    StateKind.BROADCAST: ("map_key", "value"),
}
"""The kinds that can be created → the columns whose types must be known."""
