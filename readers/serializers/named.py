"""The serializer of a type by its name: `Long`, `Tuple2<String, Integer>`, `List<Long>`.

A savepoint does not hold the types of records in flight, nor those of the keys of a changelog without a base. `stateInfo`
may name them, as `Serializer.type_name` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from readers.serializers import operators, primitives, temporal
from readers.serializers.base import Serializer
from readers.serializers.containers import ListSerializer, MapSerializer
from readers.serializers.tuples import TupleSerializer

_TOKEN = re.compile(r"\s*([\w.$\[\]]+|[<>,])")
_TUPLE = re.compile(r"Tuple([1-9]|1\d|2[0-5])")
_MAX_DEPTH = 16  # the name comes from a file of the user: a hostile one must not exhaust the stack


def serializer_named(text: str) -> Serializer | None:
    """Return the serializer of a type; None if it is not made of Flink's basic types, tuples, lists and maps."""
    tokens = _TOKEN.findall(text)
    # `findall` skips text that is no token.
    if "".join(tokens) != re.sub(r"\s", "", text):
        return None
    rest = iter([*tokens, ""])
    serializer, following = _type(next(rest), rest, 0)
    return serializer if following == "" else None


def _type(name: str, rest: Iterator[str], depth: int) -> tuple[Serializer | None, str]:
    """Return the type that begins with `name`, and the token behind it."""
    following = next(rest, "")
    parameters: list[Serializer] = []
    if following == "<" and depth < _MAX_DEPTH:
        while following in ("<", ","):
            parameter, following = _type(next(rest, ""), rest, depth + 1)
            if parameter is None:
                return None, following
            parameters.append(parameter)
        if following != ">":
            return None, following
        following = next(rest, "")
    return _serializer(name, tuple(parameters)), following


def _serializer(name: str, parameters: tuple[Serializer, ...]) -> Serializer | None:
    tuple_class = _TUPLE.fullmatch(name)
    if tuple_class is not None and int(tuple_class[1]) == len(parameters):
        return TupleSerializer(f"org.apache.flink.api.java.tuple.{name}", parameters)
    if name == "List" and len(parameters) == 1:
        return ListSerializer(*parameters)
    if name == "Map" and len(parameters) == 2:
        return MapSerializer(*parameters)
    return None if parameters else BASIC_TYPES.get(name)


# By the name that `type_name` gives them, so that names of StateMeta can be copied into `stateInfo`.
BASIC_TYPES: dict[str, Serializer] = {
    serializer.type_name: serializer
    for serializer in (
        primitives.StringSerializer(),
        primitives.BooleanSerializer(),
        primitives.ByteSerializer(),
        primitives.ShortSerializer(),
        primitives.IntSerializer(),
        primitives.LongSerializer(),
        primitives.FloatSerializer(),
        primitives.DoubleSerializer(),
        primitives.CharSerializer(),
        primitives.BigIntSerializer(),
        primitives.BigDecSerializer(),
        primitives.BytePrimitiveArraySerializer(),
        temporal.DateSerializer(),
        temporal.SqlTimestampSerializer(),
        temporal.InstantSerializer(),
        temporal.LocalDateSerializer(),
        temporal.LocalTimeSerializer(),
        temporal.LocalDateTimeSerializer(),
        operators.TimeWindowSerializer(),
    )
}
