"""The serializer of a type by its name: `Long`, `Tuple2<String, Integer>`, `Pojo(com.acme.Order: id Long, name String)`.

| name | type |
|---|---|
| `Long`, `String`, `byte[]`, … | a basic type, named as `Serializer.type_name` does; `Int` is `Integer` |
| `List<T>`, `Set<T>`, `Map<K, V>`, `Tuple2<A, B>`, `Either<A, B>`, `Nullable<T>` | of other types |
| `Row<A, B>`, `Row(id A, name B)` | a row; its names are not in the savepoint |
| `Pojo(com.acme.Order: id A, name B)` | a POJO: class, fields |
| `Enum(com.acme.Color: RED, GREEN)` | an enum: class, constants |

A savepoint does not hold the types of records in flight, nor those of the keys of a changelog without a base: `stateInfo` may
name them. The types of new states are named in SQL.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from readers.errors import UnsupportedSerializerError
from readers.serializers import operators, primitives
from readers.serializers.base import Serializer
from readers.serializers.containers import (
    EnumSerializer,
    ListSerializer,
    MapSerializer,
    NullableSerializer,
    SetSerializer,
)
from readers.serializers.pojo import PojoField, PojoSerializer
from readers.serializers.structs import EitherSerializer, RowSerializer, TupleSerializer

_TOKEN = re.compile(r"\s*(?:([\w.$\[\]]+)|([<>,():]))")
_TUPLE = re.compile(r"Tuple([1-9]|1\d|2[0-5])")
_MAX_DEPTH = 16  # the name comes from a user: a hostile one must not exhaust the stack
_SHOWN = 80


def serializer_named(text: str) -> Serializer | None:
    """Return the serializer of a type; None if it is not one of the types above."""
    try:
        return type_named(text)
    except UnsupportedSerializerError:
        return None


def type_named(text: str) -> Serializer:
    """Return the serializer of a type.

    Raises:
        UnsupportedSerializerError: it is not one of the types above.
    """
    reader = _TypeReader(text)
    serializer = reader.type(0)
    reader.expect("", "the end of the type")
    return serializer


def name_of(serializer: Serializer) -> str | None:
    """Return the name by which `type_named` returns an equal serializer; None if there is none."""
    name = _name(serializer)
    return name if serializer_named(name) == serializer else None


def _name(serializer: Serializer) -> str:
    if isinstance(serializer, PojoSerializer):
        return f"Pojo({serializer.pojo_class}: {_columns(serializer)})"
    if isinstance(serializer, EnumSerializer):
        return f"Enum({serializer.enum_class}: {', '.join(serializer.constants)})"
    if isinstance(serializer, RowSerializer) and serializer.names:
        return f"Row({_columns(serializer)})"
    parameters = ", ".join(_name(child) for _, child in serializer.children)
    if isinstance(serializer, RowSerializer | TupleSerializer):
        width = len(serializer.fields) if isinstance(serializer, TupleSerializer) else ""
        return f"{'Row' if width == '' else 'Tuple'}{width}<{parameters}>"
    composite = next((name for name, (_, kind) in _COMPOSITES.items() if kind is type(serializer)), None)
    return serializer.type_name if composite is None else f"{composite}<{parameters}>"


def _columns(record: Serializer) -> str:
    return ", ".join(f"{name} {_name(child)}" for name, child in record.children)


class _Token(NamedTuple):
    """A word or a sign of a type's name; an empty one at its end."""

    text: str
    position: int


class _TypeReader:
    """Reads the tokens of a type's name in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[_Token] = []
        position = 0
        while found := _TOKEN.match(text, position):
            self._tokens.append(_Token(found[1] or found[2], found.start(1 if found[1] else 2)))
            position = found.end()
        if text[position:].strip():
            raise self._unknown("expected a type", text[position:].strip()[0], position)
        self._tokens.append(_Token("", len(text)))
        self._next = 0

    def type(self, depth: int) -> Serializer:
        """Read a type."""
        if depth > _MAX_DEPTH:
            raise self._unknown(f"expected at most {_MAX_DEPTH} types in one another", "more", 0)
        position = self._tokens[self._next].position
        name = self._word("a type")
        if name == "Pojo":
            return self._pojo(depth)
        if name == "Enum":
            return self._enum()
        if name == "Row" and self._is("("):
            self._next += 1
            names, fields = self._fields(depth)
            return RowSerializer(fields, names=names)
        serializer = _composed(name, self._parameters(depth))
        if serializer is None:
            raise self._unknown("expected a type with its parameters", name, position)
        return serializer

    def expect(self, sign: str, what: str) -> None:
        """Read a sign."""
        token = self._tokens[self._next]
        if token.text != sign:
            raise self._unknown(f"expected {what}", token.text, token.position)
        self._next += 1

    def _parameters(self, depth: int) -> tuple[Serializer, ...]:
        """Read `<A, B>`, if it comes."""
        if not self._is("<"):
            return ()
        found = []
        while self._is("<") or self._is(","):
            self._next += 1
            found.append(self.type(depth + 1))
        self.expect(">", "> behind the parameters")
        return tuple(found)

    def _pojo(self, depth: int) -> Serializer:
        name = self._class()
        names, fields = self._fields(depth)
        # Flink: PojoTypeInfo sorts the fields.
        pairs = sorted(zip(names, fields, strict=True), key=lambda pair: pair[0])
        return PojoSerializer(name, tuple(PojoField(*pair) for pair in pairs))

    def _enum(self) -> Serializer:
        name = self._class()
        constants = [self._word("a constant")]
        while self._is(","):
            self._next += 1
            constants.append(self._word("a constant"))
        self.expect(")", ") behind the constants")
        self._check_unique(constants)
        return EnumSerializer(name, tuple(constants))

    def _class(self) -> str:
        self.expect("(", "( and a class")
        name = self._word("a class")
        self.expect(":", ": behind the class")
        return name

    def _fields(self, depth: int) -> tuple[tuple[str, ...], tuple[Serializer, ...]]:
        """Read `id Long, name String)`."""
        names, fields = [], []
        while True:
            names.append(self._word("the name of a field"))
            fields.append(self.type(depth + 1))
            if not self._is(","):
                break
            self._next += 1
        self.expect(")", ") behind the fields")
        self._check_unique(names)
        return tuple(names), tuple(fields)

    def _check_unique(self, names: list[str]) -> None:
        # Of a hostile jar's class there may be 65,535.
        if len(set(names)) < len(names):
            twice = next(name for number, name in enumerate(names) if name in names[:number])
            raise self._unknown(
                "expected each name once", f"{twice} twice", self._tokens[self._next].position
            )

    def _is(self, sign: str) -> bool:
        return self._tokens[self._next].text == sign

    def _word(self, what: str) -> str:
        token = self._tokens[self._next]
        if not token.text or token.text in "<>,():":
            raise self._unknown(f"expected {what}", token.text, token.position)
        self._next += 1
        return token.text

    def _unknown(self, expected: str, found: str, position: int) -> UnsupportedSerializerError:
        shown = repr(found[:_SHOWN]) if found else "the end"
        return UnsupportedSerializerError(
            f"{expected}, found {shown} at character {position + 1} of the type {self._text[:_SHOWN]!r}"
        )


def _composed(name: str, parameters: tuple[Serializer, ...]) -> Serializer | None:
    """Return the type of a name with parameters; None if there is none."""
    tuple_class = _TUPLE.fullmatch(name)
    if tuple_class is not None and int(tuple_class[1]) == len(parameters):
        return TupleSerializer(f"org.apache.flink.api.java.tuple.{name}", parameters)
    if name == "Row" and parameters:
        return RowSerializer(parameters)
    if name in _COMPOSITES:
        count, serializer = _COMPOSITES[name]
        return serializer(*parameters) if len(parameters) == count else None
    return None if parameters else BASIC_TYPES.get(name, _OTHER_TYPES.get(name))


_COMPOSITES: dict[str, tuple[int, type[Serializer]]] = {
    "List": (1, ListSerializer),
    "Set": (1, SetSerializer),
    "Map": (2, MapSerializer),
    "Either": (2, EitherSerializer),
    "Nullable": (1, NullableSerializer),
}

# By the name that `type_name` gives them, so that names of StateMeta can be copied into `stateInfo`.
BASIC_TYPES: dict[str, Serializer] = {
    serializer.type_name: serializer
    for serializer in (
        primitives.StringSerializer(), primitives.BooleanSerializer(), primitives.ByteSerializer(),
        primitives.ShortSerializer(), primitives.IntSerializer(), primitives.LongSerializer(),
        primitives.FloatSerializer(), primitives.DoubleSerializer(), primitives.CharSerializer(),
        primitives.BigIntSerializer(), primitives.BigDecSerializer(),
        primitives.BytePrimitiveArraySerializer(), primitives.DateSerializer(),
        primitives.SqlTimestampSerializer(), primitives.InstantSerializer(), primitives.LocalDateSerializer(),
        primitives.LocalTimeSerializer(), primitives.LocalDateTimeSerializer(),
        operators.TimeWindowSerializer(),
    )
}  # fmt: skip

_OTHER_TYPES: dict[str, Serializer] = {"Int": primitives.IntSerializer()} | {
    serializer.type_name: serializer
    for serializer in (
        primitives.VoidNamespaceSerializer(), primitives.StringArraySerializer(),
        primitives.BooleanPrimitiveArraySerializer(), primitives.ShortPrimitiveArraySerializer(),
        primitives.IntPrimitiveArraySerializer(), primitives.LongPrimitiveArraySerializer(),
        primitives.FloatPrimitiveArraySerializer(), primitives.DoublePrimitiveArraySerializer(),
        primitives.SqlDateSerializer(), primitives.SqlTimeSerializer(), operators.GlobalWindowSerializer(),
    )
}  # fmt: skip
