"""The bodies of the classes that are written anew: as Kryo 2.24 wrote them, as Kryo 5 writes them.

`readers.serializers.kryo.objects` describes the bytes. A class that is not in these tables is refused: real Flink has not shown
that its objects come out equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from readers import (
    COLLECTIONS,
    IMMUTABLE_COLLECTIONS,
    MAPS,
    PRIMITIVES,
    JavaObject,
    KryoInput,
    KryoReader,
    KryoType,
    component_of,
    read_object,
)
from writers.errors import UnencodableValueError
from writers.kryo.objects import TIMES, BodyWriter, KryoObject, KryoOutput, ObjectWriter

_ANY = KryoType("java.lang.Object")  # of a map without declared type arguments
_FLINK_TUPLE = "org.apache.flink.api.java.tuple.Tuple"

_BodyReader = Callable[[KryoReader, str, tuple[KryoType, ...]], Any]


@dataclass(frozen=True, slots=True)
class Body:
    """A class's body in both versions.

    Attributes:
        read: reads it from Kryo 2.24.
        write: writes it for Kryo 5.
    """

    read: _BodyReader
    write: BodyWriter


def body_of(reader: KryoReader, class_name: str) -> Body | None:
    """Return the body of a class; None if its objects cannot be written anew."""
    settings = reader.settings
    if class_name in settings.serializers:
        return None
    if class_name.startswith("["):
        return _ARRAY
    # Class files of a jar with all its libraries do not say that chill or Flink has a serializer for one of them.
    if class_name in BODIES and class_name not in settings.classes:
        return BODIES[class_name]
    known = reader.class_of(class_name)
    if known is None or known.container or not known.supertypes.isdisjoint(settings.default_serializers):
        return None
    if known.constants:
        return None if known.has_bodies else _ENUM
    # What type variables are bound to depends on the objects around.
    return (
        None
        if known.parameters or any(declared.is_variable for _, declared in known.stored_fields)
        else _FIELDS
    )


def text(input_: KryoInput) -> str | None:
    """Read a text; half a surrogate pair is refused, as no text of Arrow holds it.

    Raises:
        UnencodableValueError: it has one.
    """
    start = input_.position
    value = input_.text()
    if value is not None and "\N{REPLACEMENT CHARACTER}" in value:
        again = KryoOutput()
        again.text(value)
        if again.data != input_.data[start : input_.position]:
            raise UnencodableValueError("expected text, found half a surrogate pair")
    return value


def _scalar(read: Callable[[KryoInput], Any], write: Callable[[KryoOutput, Any], None]) -> Body:
    """Return a body that stands alone."""
    return Body(
        lambda reader, _class_name, _arguments: read(reader.input),
        lambda writer, value, _arguments: write(writer.output, value.body),
    )


def _time(read: Callable[[KryoReader], Any], write: Callable[[KryoOutput, Any], None]) -> Body:
    return Body(
        lambda reader, _class_name, _arguments: read(reader),
        lambda writer, value, _arguments: write(writer.output, value.body),
    )


def _fixed(code: str) -> Body:
    return _scalar(lambda input_: input_.fixed(code), lambda output, value: output.fixed(code, value))


# ---- collections and maps ----


def _elements(can_be_null: bool) -> Body:
    return Body(
        lambda reader, _class_name, arguments: (None, _read_elements(reader, arguments)),
        lambda writer, value, arguments: _write_elements(writer, value, arguments, can_be_null=can_be_null),
    )


def _read_elements(reader: KryoReader, arguments: tuple[KryoType, ...]) -> list[Any]:
    known = _known(reader, arguments[0] if arguments else None)
    count = reader.input.size()
    return [reader.any() if known is None else reader.object_or_null(known) for _ in range(count)]


def _known(reader: KryoReader | ObjectWriter, declared: KryoType | None) -> str | None:
    """Return the class of all elements, if their declared type decides it."""
    return declared.name if declared is not None and reader.is_final(declared) else None


def _sorted_elements(reader: KryoReader, _class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    _expect_natural(reader)
    return _NATURAL, _read_elements(reader, arguments)


_NATURAL = "natural order"


def _expect_natural(reader: KryoReader) -> None:
    comparator = reader.class_name()
    if comparator is not None:
        raise UnencodableValueError(
            f"expected a collection in the natural order of its elements, found the comparator {comparator}"
        )


def _write_elements(
    writer: ObjectWriter, value: KryoObject, arguments: tuple[KryoType, ...], *, can_be_null: bool = True
) -> None:
    order, elements = value.body
    output, count = writer.output, len(elements)
    element = arguments[0] if arguments else None
    inner = element.arguments if element is not None else ()
    has_null = None in elements
    known = _known(writer, element)
    classes = {one.class_name for one in elements if one is not None}
    is_alike = count > 0 and known is None and len(classes) < 2
    output.flagged(has_null if known is not None else is_alike, count + 1)
    if order is not None:
        output.u1(0)
    if known is None and not is_alike:
        for one in elements:
            writer.any(one, inner)
        return
    if is_alike:
        writer.class_name(next(iter(classes), None))
        if not classes:
            return
        if can_be_null:
            output.u1(has_null)
    for one in elements:
        if has_null and can_be_null:
            writer.object_or_null(one, inner)
        else:
            writer.object(one, inner)


def _as_list(reader: KryoReader, _class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    count = reader.input.size()
    reader.class_name()
    return None, [reader.any() for _ in range(count)]


def _map_body(*, is_sorted: bool) -> Body:
    def read(reader: KryoReader, _class_name: str, arguments: tuple[KryoType, ...]) -> Any:
        if is_sorted:
            _expect_natural(reader)
        key, value = arguments if len(arguments) == 2 else (_ANY, _ANY)
        count = reader.input.size()
        return [(_read_item(reader, key), _read_item(reader, value)) for _ in range(count)]

    def write(writer: ObjectWriter, value: KryoObject, arguments: tuple[KryoType, ...]) -> None:
        types = arguments if len(arguments) == 2 else (_ANY, _ANY)
        writer.output.varint(len(value.body) + 1)
        if is_sorted:
            writer.output.u1(0)
        for pair in value.body:
            for declared, one in zip(types, pair, strict=True):
                if writer.is_final(declared):
                    writer.object_or_null(one, declared.arguments)
                else:
                    writer.any(one, declared.arguments)

    return Body(read, write)


def _read_item(reader: KryoReader, declared: KryoType) -> Any:
    return reader.object_or_null(declared.name) if reader.is_final(declared) else reader.any()


def _pair_write(writer: ObjectWriter, value: KryoObject, _arguments: tuple[KryoType, ...]) -> None:
    for one in value.body[0]:
        writer.any(one)


# ---- objects ----


def _read_fields(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    known = reader.class_of(class_name)
    assert known is not None
    return reader.fields(class_name, known, arguments)


def _write_fields(writer: ObjectWriter, value: KryoObject, _arguments: tuple[KryoType, ...]) -> None:
    known = writer.settings.class_of(value.class_name)
    declared = known.stored_fields if known is not None else ()
    if [name for name, _ in declared] != list(value.body):
        raise UnencodableValueError(
            f"expected a class whose fields Kryo 5 writes as Kryo 2 does, found {value.class_name}"
        )
    for name, type_ in declared:
        writer.field(type_, value.body[name])


def _tuple(arity: int) -> Body:
    # `FieldSerializer` sorts names as text: f10 stands before f2.
    names = sorted(f"f{index}" for index in range(arity))

    def read(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
        _expect_untyped(reader, class_name, arguments)
        return {name: reader.any() for name in names}

    def write(writer: ObjectWriter, value: KryoObject, _arguments: tuple[KryoType, ...]) -> None:
        for one in value.body.values():
            writer.any(one)

    return Body(read, write)


def _optional(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    _expect_untyped(reader, class_name, arguments)
    return reader.any()


def _expect_untyped(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> None:
    """Refuse a generic class in a field with type arguments: they say whether its values have a class.

    Raises:
        UnsupportedSerializerError: it is one.
    """
    if arguments:
        raise reader.unsupported(f"{class_name} with type arguments")


def _read_array(reader: KryoReader, class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    component = component_of(class_name)
    if component == "byte":
        return bytes(reader.input.read(reader.input.size(1)))
    count = reader.input.size(1)
    if component in PRIMITIVES:
        body = BODIES[component]
        return [KryoObject(component, body.read(reader, component, ())) for _ in range(count)]
    if reader.is_final(KryoType(component)):
        return [reader.object_or_null(component) for _ in range(count)]
    if component not in _OPEN_COMPONENTS:
        raise reader.unsupported(class_name)
    return [reader.any() for _ in range(count)]


_OPEN_COMPONENTS = frozenset(("java.lang.Object", "java.util.List", "java.util.Map", "java.lang.Number"))


def _write_array(writer: ObjectWriter, value: KryoObject, _arguments: tuple[KryoType, ...]) -> None:
    component = component_of(value.class_name)
    writer.output.varint(len(value.body) + 1)
    if component == "byte":
        writer.output.data += value.body
        return
    is_final = writer.is_final(KryoType(component))
    for one in value.body:
        if component in PRIMITIVES:
            writer.body(one)
        elif is_final:
            writer.object_or_null(one)
        else:
            writer.any(one)


def _read_ordinal(reader: KryoReader, class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    start = reader.input.position
    ordinal = reader.input.varint("ordinal")
    if not 1 <= ordinal <= len(reader.constants(class_name)):
        raise reader.input.corrupt(f"expected a constant of {class_name}, found ordinal {ordinal - 1}", start)
    return ordinal


def _big_integer(input_: KryoInput) -> bytes:
    return bytes(input_.read(input_.size(1)))


def _write_big_integer(output: KryoOutput, value: bytes) -> None:
    output.varint(len(value) + 1)
    output.data += value


def _write_big_decimal(output: KryoOutput, value: tuple[bytes, int]) -> None:
    _write_big_integer(output, value[0])
    output.zigzag(value[1])


def _uuid(output: KryoOutput, halves: Iterable[int]) -> None:
    for half in halves:
        output.fixed("q", half)


def _bit_set(output: KryoOutput, words: list[int]) -> None:
    output.varint(len(words))
    for word in words:
        output.fixed("Q", word)


def _pattern(output: KryoOutput, value: str | None) -> None:
    # chill does not write the flags, so Flink 1 reads none.
    output.text(value)
    output.varint(0)


def _locale(input_: KryoInput) -> list[str]:
    """Read the Java stream of chill.

    Raises:
        UnencodableValueError: the locale has a script or extensions, which Kryo 5 does not write.
    """
    value = read_object(input_)
    fields = value.fields if isinstance(value, JavaObject) else {}
    texts = [fields.get(name) for name in ("language", "country", "variant", "script", "extensions")]
    if not all(isinstance(one, str) for one in texts):
        raise input_.corrupt("expected the texts of a Locale, found other objects")
    *kept, script, extensions = (str(one) for one in texts)
    if script or extensions:
        raise UnencodableValueError(
            f"expected a Locale of language, country and variant, found {script or extensions}, which Kryo 5 does not write"
        )
    return kept


def _locale_texts(output: KryoOutput, texts: Iterable[str]) -> None:
    for one in texts:
        output.text(one)


_INTEGER = _scalar(KryoInput.zigzag, KryoOutput.zigzag)
_TEXT = _scalar(text, KryoOutput.text)
_LONG = _scalar(KryoInput.positive_long, KryoOutput.positive_long)
_LIST = _elements(can_be_null=True)
_ENUM = Body(_read_ordinal, lambda writer, value, _arguments: writer.output.varint(value.body))
_FIELDS = Body(_read_fields, _write_fields)
_ARRAY = Body(_read_array, _write_array)

BODIES: dict[str, Body] = {
    **dict.fromkeys(("int", "java.lang.Integer", "long", "java.lang.Long"), _INTEGER),
    **dict.fromkeys(("short", "java.lang.Short"), _fixed("h")),
    **dict.fromkeys(("byte", "java.lang.Byte"), _fixed("b")),
    **dict.fromkeys(("boolean", "java.lang.Boolean"), _fixed("?")),
    **dict.fromkeys(("char", "java.lang.Character"), _fixed("H")),
    **dict.fromkeys(("float", "java.lang.Float"), _fixed("f")),
    **dict.fromkeys(("double", "java.lang.Double"), _fixed("d")),
    **dict.fromkeys(
        (
            "java.lang.String",
            "java.lang.StringBuilder",
            "java.lang.StringBuffer",
            "java.util.Currency",
            "java.net.URI",
            "java.net.URL",
            "sun.util.calendar.ZoneInfo",
        ),
        _TEXT,
    ),
    "java.math.BigInteger": _scalar(_big_integer, _write_big_integer),
    "java.math.BigDecimal": _scalar(
        lambda input_: (_big_integer(input_), input_.zigzag()), _write_big_decimal
    ),
    "java.util.UUID": _scalar(lambda input_: [input_.zigzag() for _ in range(2)], _uuid),
    "java.util.BitSet": _scalar(lambda input_: [input_.fixed("Q") for _ in range(input_.size())], _bit_set),
    "java.util.regex.Pattern": _scalar(text, _pattern),
    "java.util.Locale": _scalar(_locale, _locale_texts),
    "java.util.Optional": Body(_optional, lambda writer, value, _arguments: writer.any(value.body)),
    "java.util.Date": _LONG,
    "java.sql.Date": _LONG,
    "java.sql.Time": _LONG,
    **dict.fromkeys(COLLECTIONS, _LIST),
    **dict.fromkeys(IMMUTABLE_COLLECTIONS, _elements(can_be_null=False)),
    **dict.fromkeys(
        ("java.util.TreeSet", "java.util.PriorityQueue"), Body(_sorted_elements, _write_elements)
    ),
    "java.util.Arrays$ArrayList": Body(_as_list, _write_elements),
    **dict.fromkeys(MAPS, _map_body(is_sorted=False)),
    "java.util.TreeMap": _map_body(is_sorted=True),
    **dict.fromkeys(
        (f"java.util.Collections$Empty{kind}" for kind in ("List", "Set")),
        _scalar(lambda _input: (None, []), lambda _output, _value: None),
    ),
    "java.util.Collections$EmptyMap": _scalar(lambda _input: [], lambda _output, _value: None),
    **dict.fromkeys(
        (f"java.util.Collections$Singleton{kind}" for kind in ("List", "Set")),
        Body(
            lambda reader, _class_name, _arguments: (None, [reader.any()]),
            lambda writer, value, _arguments: writer.any(value.body[1][0]),
        ),
    ),
    "java.util.Collections$SingletonMap": Body(
        lambda reader, _class_name, _arguments: [(reader.any(), reader.any())], _pair_write
    ),
    **{f"{_FLINK_TUPLE}{arity}": _tuple(arity) for arity in range(1, 26)},
    **{name: _time(*both) for name, both in TIMES.items()},
}
"""Class → its body."""
