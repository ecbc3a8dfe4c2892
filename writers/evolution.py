"""Schema evolution that keeps the values: the type of a state's values changes, and every value with it.

A change is a function of two things: the serializer tree of a value, and a column of such values. So the new snapshot and
the new values always agree. A path names fields below the value; the wrappers of TTL and of nulls have no name in it.

| change | POJO | Row, Tuple | any |
|---|---|---|---|
| `RenamedField` | ✓ | – (no names in a savepoint) | |
| `AddedField` | ✓ | at the end | |
| `DroppedField` | ✓ | the fields behind it move up | |
| `RetypedField` | ✓ | ✓ | ✓ |
| `ExpiringValue` (TTL on, off) | | | the whole value |

Flink itself has no widening of numbers, loses the values of a renamed field, and takes TTL on and off since 2.0 only.

Columns of one type become columns of another, where both are types of a state's values. Numbers, texts and records
must fit: see `encode.fitting`. Objects of Kryo 2.24 are bytes in the columns, see `StatePart.entries`; they become

| new type | values |
|---|---|
| the same class of Kryo 5 | written anew, as Flink 2.x would write them |
| lists, sets and maps, as Flink 2.x has for fields that are a List, Set or Map | the elements, each of the class that its type expects |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from readers import (
    KRYO_2_24,
    ROW_KIND,
    BackendStateType,
    KryoSerializer,
    ListSerializer,
    MapSerializer,
    NullableSerializer,
    PojoField,
    PojoSerializer,
    RowSerializer,
    Serializer,
    TtlSerializer,
    TupleSerializer,
)
from writers.encode.fitting import fitted, value_program
from writers.errors import RefusedEditError, UnencodableValueError
from writers.headers import (
    RegisteredState,
    snapshot_block,
    snapshot_of,
    with_ttl,
    without_ttl,
    write_snapshot,
)
from writers.kryo.upgrade import KryoValues, typed_reader

Conversion = Callable[[pa.Array], pa.Array]
"""Old values → new values, as many."""

_INSERT = "+I"


def kept_type(serializer: Serializer) -> pa.DataType:
    """Return the type of a column whose objects are bytes, as `StatePart.entries` yields it."""
    tree, code = value_program(serializer)
    return tree.with_bytes(code.objects).root.field("value").type


def holds_objects(serializer: Serializer) -> bool:
    """Return whether values are, or may hold, objects of Kryo."""
    return isinstance(serializer, KryoSerializer) or any(
        holds_objects(child) for _, child in serializer.children
    )


def conversion(old: Serializer, new: Serializer, path: tuple[str, ...]) -> Conversion:
    """Return what makes new values of old ones.

    Args:
        old, new: their serializers.
        path: where they are, for errors.

    Raises:
        RefusedEditError: no value of the one is a value of the other.
    """
    if not holds_objects(old):
        target = kept_type(new)
        return lambda values: _with_row_kinds(fitted(_without_row_kinds(old, new, values), target, path), new)
    if isinstance(old, KryoSerializer):
        return _of_objects(old, new)
    if isinstance(old, NullableSerializer):
        inner = new.inner if isinstance(new, NullableSerializer) else new
        return conversion(old.inner, inner, path)
    if isinstance(old, PojoSerializer | RowSerializer | TupleSerializer):
        return _of_records(old, new, path)
    if isinstance(old, ListSerializer) and type(new) is type(old):
        return _of_lists(conversion(old.element, new.element, (*path, "[]")), kept_type(new))
    if isinstance(old, MapSerializer) and isinstance(new, MapSerializer):
        keys = conversion(old.key, new.key, (*path, "key"))
        return _of_maps(keys, conversion(old.value, new.value, (*path, "value")), kept_type(new))
    raise RefusedEditError(
        f"expected {old.type_name} to keep its type, found {new.type_name}: it holds objects of Kryo, which are changed in "
        "fields, lists and maps only"
    )


def _of_objects(old: KryoSerializer, new: Serializer) -> Conversion:
    if isinstance(new, KryoSerializer):
        if new.type_class != old.type_class:
            raise RefusedEditError(
                f"expected objects of {old.type_class}, found {new.type_class}: objects keep their classes"
            )
        if new.settings.version == old.settings.version:
            return lambda values: values
    if old.settings.version != KRYO_2_24:
        raise RefusedEditError(
            f"expected objects of Kryo 2, of Flink 1.x, to be written in another type, found {old.type_name} of another Kryo"
        )
    objects = KryoValues(old.settings)
    target = kept_type(new)
    if isinstance(new, KryoSerializer):
        return lambda values: _each(values, objects.upgraded, target)
    read = typed_reader(new)
    return lambda values: _each(values, lambda data: read(*objects.read(data)), target)


def _each(values: pa.Array, convert: Callable[[bytes], Any], target: pa.DataType) -> pa.Array:
    """Convert each distinct value once."""
    coded = values.dictionary_encode()
    converted = []
    for number, data in enumerate(coded.dictionary.to_pylist()):
        try:
            converted.append(convert(data))
        except UnencodableValueError as error:
            error.row = int(np.flatnonzero(coded.indices.to_numpy(zero_copy_only=False) == number)[0])
            raise
    return pa.array(converted, target).take(coded.indices)


def _of_records(old: Serializer, new: Serializer, path: tuple[str, ...]) -> Conversion:
    if not isinstance(new, PojoSerializer | RowSerializer | TupleSerializer):
        raise RefusedEditError(f"expected a record to make of {old.type_name}, found {new.type_name}")
    places = {name: index for index, (name, _) in enumerate(old.children)}
    serializers = dict(old.children)
    parts = [
        (places[name], conversion(serializers[name], serializer, (*path, name)))
        for name, serializer in new.children
    ]
    has_kinds = isinstance(new, RowSerializer) and new.has_row_kind
    target = kept_type(new)

    def convert(values: pa.Array) -> pa.Array:
        # What stands under a null record is no value.
        fields = values.flatten()
        children = [change(fields[place]) for place, change in parts]
        if has_kinds:
            children.append(
                fields[-1]
                if isinstance(old, RowSerializer) and old.has_row_kind
                else pa.repeat(_INSERT, len(values))
            )
        return pa.StructArray.from_arrays(children, fields=list(target), mask=values.is_null())

    return convert


def _of_lists(change: Conversion, target: pa.DataType) -> Conversion:
    def convert(values: pa.Array) -> pa.Array:
        return pa.ListArray.from_arrays(
            _offsets(values), change(values.flatten()), type=target, mask=values.is_null()
        )

    return convert


def _of_maps(keys: Conversion, items: Conversion, target: pa.DataType) -> Conversion:
    def convert(values: pa.Array) -> pa.Array:
        offsets = np.asarray(values.offsets)
        start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
        return pa.MapArray.from_arrays(
            _offsets(values),
            keys(values.keys.slice(start, length)),
            items(values.items.slice(start, length)),
            type=target,
            mask=values.is_null(),
        )

    return convert


def _offsets(values: pa.Array) -> pa.Array:
    """Return the offsets of lists, counted from the first element of these; null ones must be empty."""
    offsets = np.asarray(values.offsets)
    return pa.array(offsets - offsets[0], pa.int32())


def _without_row_kinds(old: Serializer, new: Serializer, values: pa.Array) -> pa.Array:
    """Return rows without their kinds where the new type has none."""
    if isinstance(old, RowSerializer) and old.has_row_kind and not isinstance(new, RowSerializer):
        children = [values.field(index) for index in range(old.width)]
        fields = list(values.type)[: old.width]
        return pa.StructArray.from_arrays(children, fields=fields, mask=values.is_null())
    return values


def _with_row_kinds(values: pa.Array, new: Serializer) -> pa.Array:
    """Return new rows with the kind of an insertion where they had none."""
    if not (isinstance(new, RowSerializer) and new.has_row_kind):
        return values
    kinds = values.field(new.width).fill_null(_INSERT)
    children: list[Any] = [*(values.field(index) for index in range(new.width)), kinds]
    assert values.type.field(new.width).name == ROW_KIND
    return pa.StructArray.from_arrays(children, fields=list(values.type), mask=values.is_null())


_KEYED_STATE_TYPE, _VALUE_SERIALIZER = "KEYED_STATE_TYPE", "VALUE_SERIALIZER"
_TUPLE_CLASS = "org.apache.flink.api.java.tuple.Tuple"
_MOST_TUPLE_FIELDS = 25


@dataclass(frozen=True, slots=True)
class Evolved:
    """A type after a change.

    Attributes:
        serializer: of the new values.
        convert: makes them of the old ones.
    """

    serializer: Serializer
    convert: Conversion


def retyped(state: RegisteredState, registered: Serializer, value: Serializer) -> RegisteredState:
    """Return a state with another type of its values.

    Args:
        state: as its header has it.
        registered: the serializer that it is registered with: of a whole list or map.
        value: the new serializer of one value, element or map value.

    Raises:
        UnencodableTypeError: no snapshot of the new serializer can be written.
        RefusedEditError: the state is registered in a way that real Flink has not tried.
    """
    if state.kind is not BackendStateType.KEY_VALUE:
        raise RefusedEditError(
            f"expected keyed state of Flink's first version to change its type, found {state.name} of kind {state.kind.name}"
        )
    whole = value
    if state.options.get(_KEYED_STATE_TYPE) == "LIST" and isinstance(registered, ListSerializer):
        whole = replace(registered, element=value)
    elif isinstance(registered, MapSerializer) and state.options.get(_KEYED_STATE_TYPE) == "MAP":
        whole = replace(registered, value=value)
    blocks = {
        **state.blocks,
        _VALUE_SERIALIZER: snapshot_block(_expiring(state, registered, whole) or write_snapshot(whole)),
    }
    return replace(state, blocks=blocks)


def _expiring(state: RegisteredState, old: Serializer, new: Serializer) -> bytes | None:
    """Return the snapshot of values that only get, or lose, TTL; it holds that of the values. None for other changes."""
    snapshot = snapshot_of(state.blocks[_VALUE_SERIALIZER])
    if isinstance(new, TtlSerializer) and new.value == old:
        return with_ttl(snapshot)
    if isinstance(old, TtlSerializer) and old.value == new:
        return without_ttl(snapshot)
    return None


class TypeChange(ABC):
    """One change of the type of a state's values."""

    __slots__ = ()

    @abstractmethod
    def evolved(self, serializer: Serializer) -> Evolved:
        """Return the type after the change.

        Args:
            serializer: of one value, element or map value, with the wrapper of its TTL.

        Raises:
            RefusedEditError: the type has no such field, or Flink would not read the result.
        """


@dataclass(frozen=True, slots=True)
class RenamedField(TypeChange):
    """A field of a POJO gets another name."""

    path: tuple[str, ...]
    name: str

    def evolved(self, serializer: Serializer) -> Evolved:
        return _at(serializer, self.path[:-1], self._in_record)

    def _in_record(self, record: Serializer) -> Evolved:
        index = _index(record, self.path[-1])
        if not isinstance(record, PojoSerializer):
            raise RefusedEditError(
                f"expected a field of a POJO, found one of {record.type_name}: a savepoint has no names of such fields, "
                "`stateInfo` gives them"
            )
        _check_new(record, self.name)
        fields = list(record.fields)
        fields[index] = replace(fields[index], name=self.name)
        return _with_fields(record, fields, list(range(len(fields))))


@dataclass(frozen=True, slots=True)
class AddedField(TypeChange):
    """A record gets a field, which has one value everywhere.

    Attributes:
        default: that value; None if the statement names none.
    """

    path: tuple[str, ...]
    serializer: Serializer
    default: pa.Scalar | None = None

    def evolved(self, serializer: Serializer) -> Evolved:
        return _at(serializer, self.path[:-1], self._in_record)

    def _in_record(self, record: Serializer) -> Evolved:
        name = self.path[-1]
        if not isinstance(record, PojoSerializer | RowSerializer | TupleSerializer):
            raise _no_record(record)
        if self.default is None and not self.serializer.is_nullable:
            raise RefusedEditError(
                f"the field {name} of type {self.serializer.type_name} needs a DEFAULT: a primitive field of Java holds no "
                "NULL. If the field is an object in Java, say DEFAULT NULL"
            )
        value = self.default if self.default is not None else pa.scalar(None)
        filled = fitted(pa.repeat(value, 1), self.serializer.arrow(), (name,))
        if isinstance(record, PojoSerializer):
            return self._in_pojo(record, filled)
        expected = f"f{record.width}" if not record.names else None
        if expected is not None and name != expected:
            raise RefusedEditError(
                f"expected the field {expected}, behind the others of {record.type_name}, found {name}"
            )
        names = (*record.names, name) if record.names else ()
        old = list(range(record.width))
        return _with_positions(record, (*record.fields, self.serializer), names, [*old, None], filled)

    def _in_pojo(self, record: PojoSerializer, filled: pa.Array) -> Evolved:
        _check_described(record)
        _check_new(record, self.path[-1])
        last = len(record.fields)
        fields = [*record.fields, PojoField(self.path[-1], self.serializer)]
        return _with_fields(record, fields, [*range(last), None], filled)


@dataclass(frozen=True, slots=True)
class DroppedField(TypeChange):
    """A record loses a field, with its values."""

    path: tuple[str, ...]

    def evolved(self, serializer: Serializer) -> Evolved:
        return _at(serializer, self.path[:-1], self._in_record)

    def _in_record(self, record: Serializer) -> Evolved:
        dropped = _index(record, self.path[-1])
        width = len(record.fields)  # type: ignore[attr-defined]  # `_index` takes records only
        kept = [index for index in range(width) if index != dropped]
        if not kept:
            raise RefusedEditError(
                f"expected a field that {record.type_name} keeps, found that {self.path[-1]} is its only one"
            )
        if isinstance(record, PojoSerializer):
            return _with_fields(record, [record.fields[index] for index in kept], list(kept))
        assert isinstance(record, RowSerializer | TupleSerializer)
        names = tuple(record.names[index] for index in kept) if record.names else ()
        return _with_positions(record, tuple(record.fields[index] for index in kept), names, list(kept), None)


@dataclass(frozen=True, slots=True)
class RetypedField(TypeChange):
    """A value, or a field of it, gets another type; every value must fit it."""

    path: tuple[str, ...]
    serializer: Serializer

    def evolved(self, serializer: Serializer) -> Evolved:
        return _at(serializer, self.path, self._of_value)

    def _of_value(self, old: Serializer) -> Evolved:
        new = self.serializer
        _check_covered(old, new)
        return Evolved(new, conversion(old, new, self.path or ("value",)))


@dataclass(frozen=True, slots=True)
class ExpiringValue(TypeChange):
    """Values get, or lose, the time of their last access: TTL is switched on or off.

    Attributes:
        accessed_ms: the time that every value gets; None to switch TTL off.
    """

    accessed_ms: int | None

    def evolved(self, serializer: Serializer) -> Evolved:
        if self.accessed_ms is None:
            if not isinstance(serializer, TtlSerializer):
                raise RefusedEditError("expected a state with TTL, found one without")
            return Evolved(serializer.value, lambda values: values.flatten()[0])
        if isinstance(serializer, TtlSerializer):
            raise RefusedEditError("expected a state without TTL, found one that has it")
        expiring = TtlSerializer(serializer)
        fields = list(kept_type(expiring))
        accessed = pa.scalar(self.accessed_ms, fields[1].type)

        def convert(values: pa.Array) -> pa.Array:
            return pa.StructArray.from_arrays([values, pa.repeat(accessed, len(values))], fields=fields)

        return Evolved(expiring, convert)


_FieldNames = dict[str, "tuple[str, _FieldNames]"]
"""Fields by their names now: the name before, and the fields below."""


def replaces_values(changes: Sequence[TypeChange]) -> bool:
    """Return whether fields have other values after changes that lead back to the type before.

    A field that went and came again has the default, values that got TTL were accessed now, and fields may have exchanged
    their names.
    """
    fields: _FieldNames = {}
    for change in changes:
        if isinstance(change, AddedField | DroppedField | ExpiringValue):
            return True
        if isinstance(change, RenamedField):
            record = fields
            for name in change.path[:-1]:
                record = record.setdefault(name, (name, {}))[1]
            old = change.path[-1]
            record[change.name] = record.pop(old, (old, {}))
    return _are_renamed(fields)


def _are_renamed(fields: _FieldNames) -> bool:
    return any(name != before or _are_renamed(below) for name, (before, below) in fields.items())


def _at(serializer: Serializer, path: Sequence[str], change: Callable[[Serializer], Evolved]) -> Evolved:
    """Change the serializer that a path leads to."""
    if isinstance(serializer, TtlSerializer):
        inner = _at(serializer.value, path, change)
        return _wrapped(TtlSerializer(inner.serializer), inner.convert)
    if isinstance(serializer, NullableSerializer) and path:
        # A padded null is as long as a value.
        if serializer.padding:
            raise RefusedEditError(
                f"expected a type whose nulls have no padding, found {serializer.type_name}"
            )
        inner = _at(serializer.inner, path, change)
        return Evolved(replace(serializer, inner=inner.serializer), inner.convert)
    if not path:
        return change(serializer)
    index = _index(serializer, path[0])
    if isinstance(serializer, PojoSerializer):
        inner = _at(serializer.fields[index].serializer, path[1:], change)
        pojo_fields = list(serializer.fields)
        pojo_fields[index] = replace(pojo_fields[index], serializer=inner.serializer)
        new: Serializer = replace(serializer, fields=tuple(pojo_fields))
    else:
        assert isinstance(serializer, RowSerializer | TupleSerializer)
        inner = _at(serializer.fields[index], path[1:], change)
        fields = list(serializer.fields)
        fields[index] = inner.serializer
        new = replace(serializer, fields=tuple(fields))
    return _wrapped(new, inner.convert, index)


def _wrapped(new: Serializer, convert: Conversion, changed: int = 0) -> Evolved:
    """Return a record of which one field is converted."""
    target = kept_type(new)

    def convert_record(values: pa.Array) -> pa.Array:
        children = [values.field(index) for index in range(values.type.num_fields)]
        children[changed] = convert(children[changed])
        return pa.StructArray.from_arrays(children, fields=list(target), mask=values.is_null())

    return Evolved(new, convert_record)


def _with_fields(
    record: PojoSerializer,
    fields: Sequence[PojoField],
    sources: Sequence[int | None],
    filled: pa.Array | None = None,
) -> Evolved:
    """Return a POJO with other fields.

    Args:
        record: the POJO before.
        fields: its fields after, in any order.
        sources: for each of them the number of the old field; None for a new one.
        filled: the value of a new field, an array of one.
    """
    _check_described(record)
    # Flink's PojoTypeInfo sorts the fields. It compares them by name, but RocksDB then reads the bytes in the order of the class.
    order = sorted(range(len(fields)), key=lambda index: fields[index].name)
    new = replace(record, fields=tuple(fields[index] for index in order))
    sorted_sources = [sources[index] for index in order]
    return _selected(new, sorted_sources, {} if filled is None else {sorted_sources.index(None): filled})


def _with_positions(
    record: RowSerializer | TupleSerializer,
    fields: tuple[Serializer, ...],
    names: tuple[str, ...],
    sources: list[int | None],
    filled: pa.Array | None,
) -> Evolved:
    """Return a Row or Tuple with other fields; see `_with_fields`."""
    if isinstance(record, TupleSerializer):
        if record.tuple_class != f"{_TUPLE_CLASS}{record.width}":
            raise RefusedEditError(
                f"expected a Tuple of Flink, found its subclass {record.tuple_class}: its class has so many fields"
            )
        if len(fields) > _MOST_TUPLE_FIELDS:
            raise RefusedEditError(
                f"expected a Tuple of at most {_MOST_TUPLE_FIELDS} fields, found {len(fields)}"
            )
        new: Serializer = replace(
            record, tuple_class=f"{_TUPLE_CLASS}{len(fields)}", fields=fields, names=names
        )
    else:
        new = replace(record, fields=fields, names=names)
        if record.has_row_kind:
            sources = [*sources, record.width]
    return _selected(new, sources, {} if filled is None else {sources.index(None): filled})


def _selected(new: Serializer, sources: Sequence[int | None], filled: dict[int, pa.Array]) -> Evolved:
    """Return a record whose fields are some of the old ones, and new ones with one value everywhere."""
    target = kept_type(new)

    def convert(values: pa.Array) -> pa.Array:
        children = [
            values.field(source) if source is not None else _repeated(filled[number], len(values))
            for number, source in enumerate(sources)
        ]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=values.is_null())

    return Evolved(new, convert)


def _repeated(value: pa.Array, length: int) -> pa.Array:
    """Return an array of one value, `length` times."""
    return value.take(pa.repeat(pa.scalar(0, pa.int64()), length))


def _index(record: Serializer, name: str) -> int:
    """Return the number of a field.

    Raises:
        RefusedEditError: it is no record, or has no such field, or its fields are not all in the columns.
    """
    if isinstance(record, PojoSerializer):
        _check_described(record)
        names = [field.name for field in record.fields]
    elif isinstance(record, RowSerializer | TupleSerializer):
        names = [name for name, _ in record.children]
    else:
        raise _no_record(record)
    if name in names:
        return names.index(name)
    folded = [known.casefold() for known in names]
    if folded.count(name.casefold()) == 1:
        return folded.index(name.casefold())
    raise RefusedEditError(f"expected a field of {record.type_name} ({', '.join(names)}), found {name}")


def _no_record(serializer: Serializer) -> RefusedEditError:
    return RefusedEditError(f"expected a POJO, Row or Tuple, found {serializer.type_name}")


def _check_described(record: PojoSerializer) -> None:
    """Refuse a POJO whose values may be of other classes, or have a field that its class lost."""
    if record.registered or record.non_registered:
        raise RefusedEditError(
            f"expected a class without subclasses in the savepoint, found {record.pojo_class}: their values have fields of "
            "their own"
        )
    hidden = [field.name for field in record.fields if field.hidden]
    if hidden:
        raise RefusedEditError(
            f"expected fields that {record.pojo_class} has, found {', '.join(hidden)}: the class lost them already"
        )


def _check_new(record: PojoSerializer, name: str) -> None:
    if any(field.name == name for field in record.fields):
        raise RefusedEditError(f"expected a new name, found a field {name} in {record.pojo_class}")


def _check_covered(old: Serializer, new: Serializer) -> None:
    """Refuse a record that has fields which the old one has no values for."""
    old_names = {name for name, _ in old.children}
    if isinstance(new, PojoSerializer | RowSerializer | TupleSerializer):
        if not isinstance(old, PojoSerializer | RowSerializer | TupleSerializer):
            raise RefusedEditError(
                f"expected a record to make {new.type_name} of, found {old.type_name}: its fields have no values"
            )
        if isinstance(old, PojoSerializer):
            _check_described(old)
        missing = [name for name, _ in new.children if name not in old_names]
        if missing:
            raise RefusedEditError(
                f"expected fields of {old.type_name} ({', '.join(sorted(old_names))}), found {', '.join(missing)}: "
                "ADD COLUMN gives a field a value"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAlteration:
    """What happens to one state.

    Attributes:
        dropped: whether it goes.
        truncated: whether it loses all entries of the source, before rows of it change.
        name: its new name; None if it keeps the one that it has.
        types: changes of the type of its values, in order, after rows of it changed.
    """

    dropped: bool = False
    truncated: bool = False
    name: str | None = None
    types: tuple[TypeChange, ...] = ()

    @property
    def is_of_entries(self) -> bool:
        """True if entries change, and not only the name."""
        return self.dropped or self.truncated or bool(self.types)
