"""SQL types from the Java objects in the snapshots: `org.apache.flink.table.types.logical`.

The field `typeRoot`, an enum, names the kind of a type; further fields hold its parameters:

| root | fields |
|---|---|
| CHAR VARCHAR BINARY VARBINARY | int length |
| DECIMAL | int precision, int scale |
| TIMESTAMP_… | int precision |
| ARRAY MULTISET, MAP | elementType, keyType and valueType |
| ROW, STRUCTURED_TYPE | fields, attributes: a list of objects with name and type |
| DISTINCT_TYPE | sourceType |
| RAW | clazz |
"""

from __future__ import annotations

from collections.abc import Callable

from readers.errors import CorruptDataError, UnsupportedSerializerError
from readers.javaio import JavaEnum, JavaObject, JavaValue
from readers.serializers.table import logicaltypes
from readers.serializers.table.logicaltypes import BytesType, LogicalType, RawType, RowType

_MAX_DEPTH = 32  # of types in types: a Java object may hold itself
_MAX_LENGTH = 2**31 - 1  # VARCHAR of this length is called STRING


def logical_type_of(value: JavaValue, depth: int = 0) -> LogicalType:
    """Return the type that a Java object describes; bytes for a root that is not known.

    Raises:
        CorruptDataError: the object is no `LogicalType`.
    """
    if not isinstance(value, JavaObject):
        raise CorruptDataError(f"expected a LogicalType, found {type(value).__name__}")
    if depth > _MAX_DEPTH:
        raise CorruptDataError(f"SQL types nest deeper than {_MAX_DEPTH} levels")
    root = value.field("typeRoot")
    if not isinstance(root, JavaEnum):
        raise CorruptDataError(f"expected the root of a LogicalType, found {type(root).__name__}")
    build = _ROOTS.get(root.constant)
    return build(value, depth + 1) if build else BytesType(root.constant)


def nullability_of(value: JavaValue, depth: int = 0) -> str:
    """Return which of a type and the types in it are NOT NULL, in their order: `!` for NOT NULL, `?` for others.

    A column looks the same either way. Flink compares the types of a state with it all the same.
    """
    if not isinstance(value, JavaObject) or depth > _MAX_DEPTH:
        return ""
    found = value.fields
    own = ""
    if "typeRoot" in found:
        own = "!" if found.get("isNullable") is False else "?"
    inner = [found[name] for name in ("elementType", "keyType", "valueType", "sourceType") if name in found]
    holder = found.get("fields", found.get("attributes"))
    if isinstance(holder, JavaObject):
        members = (member for member in holder.elements() if isinstance(member, JavaObject))
        inner += [member.fields["type"] for member in members if "type" in member.fields]
    return own + "".join(nullability_of(each, depth + 1) for each in inner)


def _int_field(value: JavaObject, name: str) -> int:
    """Return an int field of a Java object.

    Raises:
        CorruptDataError: the field is missing, or no int.
    """
    number = value.field(name)
    if not isinstance(number, int):
        raise CorruptDataError(
            f"expected an int in {name} of {value.class_name}, found {type(number).__name__}"
        )
    return number


def _members(value: JavaObject, field: str, depth: int) -> RowType:
    """Return the fields of a ROW or the attributes of a structured type."""
    holder = value.field(field)
    if not isinstance(holder, JavaObject):
        raise CorruptDataError(f"expected {field} of {value.class_name}, found {type(holder).__name__}")
    fields = []
    for member in holder.elements():
        if not isinstance(member, JavaObject):
            raise CorruptDataError(f"expected a field of {value.class_name}, found {type(member).__name__}")
        fields.append((str(member.field("name")), logical_type_of(member.field("type"), depth)))
    return RowType(tuple(fields))


def _distinct(value: JavaObject, depth: int) -> LogicalType:
    return logical_type_of(value.field("sourceType"), depth)


def _raw(value: JavaObject, _depth: int) -> LogicalType:
    # `TypeInformationRawType` has another field.
    try:
        clazz = value.field("clazz")
    except CorruptDataError:
        return RawType(value.class_name)
    return RawType(getattr(clazz, "name", value.class_name))


def _multiset(value: JavaObject, depth: int) -> LogicalType:
    return logicaltypes.MultisetType(logical_type_of(value.field("elementType"), depth), logicaltypes.INT)


def _zoned(value: JavaObject, _depth: int) -> LogicalType:
    raise UnsupportedSerializerError("expected a SQL type that Flink stores, found TIMESTAMP WITH TIME ZONE")


def _sized(name: str, unlimited: str, value: JavaObject) -> str:
    length = _int_field(value, "length")
    return unlimited if length == _MAX_LENGTH else f"{name}({length})"


_ROOTS: dict[str, Callable[[JavaObject, int], LogicalType]] = {
    "CHAR": lambda value, _: logicaltypes.TextType(_sized("CHAR", "CHAR", value)),
    "VARCHAR": lambda value, _: logicaltypes.TextType(_sized("VARCHAR", "STRING", value)),
    "BOOLEAN": lambda _value, _: logicaltypes.BOOLEAN,
    "BINARY": lambda value, _: BytesType(_sized("BINARY", "BINARY", value)),
    "VARBINARY": lambda value, _: BytesType(_sized("VARBINARY", "BYTES", value)),
    "DECIMAL": lambda value, _: logicaltypes.decimal_type(
        _int_field(value, "precision"), _int_field(value, "scale")
    ),
    "TINYINT": lambda _value, _: logicaltypes.TINYINT,
    "SMALLINT": lambda _value, _: logicaltypes.SMALLINT,
    "INTEGER": lambda _value, _: logicaltypes.INT,
    "BIGINT": lambda _value, _: logicaltypes.BIGINT,
    "FLOAT": lambda _value, _: logicaltypes.FLOAT,
    "DOUBLE": lambda _value, _: logicaltypes.DOUBLE,
    "DATE": lambda _value, _: logicaltypes.DATE,
    "TIME_WITHOUT_TIME_ZONE": lambda _value, _: logicaltypes.TIME,
    "TIMESTAMP_WITHOUT_TIME_ZONE": lambda value, _: logicaltypes.timestamp_type(
        "TIMESTAMP", _int_field(value, "precision")
    ),
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": lambda value, _: logicaltypes.timestamp_type(
        "TIMESTAMP_LTZ", _int_field(value, "precision")
    ),
    "TIMESTAMP_WITH_TIME_ZONE": _zoned,
    "INTERVAL_YEAR_MONTH": lambda _value, _: logicaltypes.INTERVAL_YEAR,
    "INTERVAL_DAY_TIME": lambda _value, _: logicaltypes.INTERVAL_DAY,
    "ARRAY": lambda value, depth: logicaltypes.ArrayType(logical_type_of(value.field("elementType"), depth)),
    "MULTISET": _multiset,
    "MAP": lambda value, depth: logicaltypes.MapType(
        logical_type_of(value.field("keyType"), depth), logical_type_of(value.field("valueType"), depth)
    ),
    "ROW": lambda value, depth: _members(value, "fields", depth),
    "STRUCTURED_TYPE": lambda value, depth: _members(value, "attributes", depth),
    "DISTINCT_TYPE": _distinct,
    "RAW": _raw,
    "ANY": _raw,  # its name in 1.9
    "NULL": lambda _value, _: logicaltypes.NullType(),
}
