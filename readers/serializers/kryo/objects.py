"""Objects that Kryo writes, read into JSON trees: the table of the classes whose layout is known.

Objects of classes without a serializer of their own are their fields in the order of their names (`FieldSerializer`): they can be
read only where the fields are given. Those of classes of the JDK and of Flink are known without class files. `reader.py` reads the
frame around objects.

| collection | bytes |
|---|---|
| 2.24 | [comparator,] varint n, n × element |
| 5 | varint n + 1 with a flag, [comparator,] [class, bool has nulls if the flag is set,] n × element |
| map | 2.24: [comparator,] varint n; 5: varint n + 1, [comparator]; n × (key, value) |

Elements of a declared final class are written without their class. In Kryo 5 the flag then says that there are nulls,
else that all elements are of one class, which stands once before them.

Source: `com.esotericsoftware.kryo.serializers`, `com.twitter.chill.java`,
`org.apache.flink.api.java.typeutils.runtime.kryo`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from readers.javaio import read_object
from readers.serializers.jsontree import clean_text, json_bytes, json_float, json_map, json_of
from readers.serializers.kryo.plain import TIME_BODIES
from readers.serializers.kryo.reader import Body, KryoInput, KryoReader, of_input, of_reader
from readers.serializers.kryo.settings import (
    BOX_OF,
    BOXES,
    COLLECTIONS,
    ENUMS,
    IMMUTABLE_COLLECTIONS,
    MAPS,
    OPEN_TYPES,
    PRIMITIVES,
    PROTOBUF,
    SCALA_COLLECTIONS,
    SCALA_TUPLE,
    KryoClass,
    KryoSettings,
    KryoType,
    array_of,
    component_of,
    java_util,
)
from readers.serializers.protobuf import ProtobufReader

_ANY = KryoType("java.lang.Object")  # of a map without declared type arguments


def _plain_collection(reader: KryoReader) -> Any:
    """Read varint n, n × element with its class: chill's and Flink's own collection serializers."""
    return [reader.any() for _ in range(reader.input.size())]


plain_collection = of_reader(_plain_collection)


def _elements(
    reader: KryoReader,
    _class_name: str,
    arguments: tuple[KryoType, ...],
    *,
    has_comparator: bool = False,
    can_be_null: bool = True,
) -> list[Any]:
    declared = arguments[0] if arguments else None
    element = reader.resolved(declared) if declared is not None else None
    known = element.name if element is not None and reader.is_final(element) else None
    if not reader.is_kryo5:
        if has_comparator:
            reader.any()
        count = reader.input.size()
        return [reader.any() if known is None else reader.object_or_null(known) for _ in range(count)]
    flag, count = reader.input.flagged_size()
    if has_comparator:
        reader.any()
    inner = declared.arguments if declared is not None else ()
    if count == 0:
        return []
    if known is not None:
        has_null = flag
    elif not flag:
        return [reader.any(inner) for _ in range(count)]
    else:
        known = reader.class_name()
        # Null as the class of all elements: there are no further bytes, so the nulls are counted here.
        if known is None:
            reader.count(count)
            return [None] * count
        has_null = can_be_null and reader.input.boolean()
    read = reader.object_or_null if has_null else reader.object
    return [read(known, inner) for _ in range(count)]


def _as_list(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    """Read `Arrays.asList`: chill writes the component class before the elements."""
    if reader.is_kryo5:
        return _elements(reader, class_name, arguments)
    count = reader.input.size()
    reader.class_name()
    return [reader.any() for _ in range(count)]


def _enum_set(reader: KryoReader) -> Any:
    element = reader.class_name() or ""
    return [reader.constant(element) for _ in range(reader.input.size())]


def _entries(
    reader: KryoReader, _class_name: str, arguments: tuple[KryoType, ...], *, has_comparator: bool = False
) -> list[Any]:
    # The comparator stands before the count in Kryo 2.24, behind it in Kryo 5; no column shows it.
    if has_comparator and not reader.is_kryo5:
        reader.any()
    count = reader.input.size(1 if reader.is_kryo5 else 0)
    if has_comparator and reader.is_kryo5:
        reader.any()
    key, value = arguments if len(arguments) == 2 else (_ANY, _ANY)
    return json_map((_key_or_value(reader, key), _key_or_value(reader, value)) for _ in range(count))


def _key_or_value(reader: KryoReader, declared: KryoType) -> Any:
    inner = declared.arguments if reader.is_kryo5 else ()
    known = reader.resolved(declared)
    if known is not None and reader.is_final(known):
        return reader.object_or_null(known.name, inner)
    return reader.any(inner)


def _singleton_map(reader: KryoReader) -> Any:
    key = reader.any()
    return json_map([(key, reader.any())])


COLLECTION_BODIES: dict[str, Body] = {
    **dict.fromkeys(COLLECTIONS, _elements),
    **dict.fromkeys(IMMUTABLE_COLLECTIONS, partial(_elements, can_be_null=False)),
    **dict.fromkeys(
        ("java.util.TreeSet", "java.util.PriorityQueue"), partial(_elements, has_comparator=True)
    ),
    "java.util.Arrays$ArrayList": _as_list,
    **dict.fromkeys(MAPS, _entries),
    "java.util.TreeMap": partial(_entries, has_comparator=True),
    **dict.fromkeys(
        java_util("Collections$EmptyList Collections$EmptyMap Collections$EmptySet"), of_reader(lambda _: [])
    ),
    **dict.fromkeys(
        java_util("Collections$SingletonList Collections$SingletonSet"),
        of_reader(lambda reader: [reader.any()]),
    ),
    "java.util.Collections$SingletonMap": of_reader(_singleton_map),
    **dict.fromkeys(java_util("RegularEnumSet JumboEnumSet"), of_reader(_enum_set)),
    **dict.fromkeys(SCALA_COLLECTIONS, plain_collection),
    "org.apache.avro.generic.GenericData$Array": plain_collection,
}
"""Class → the function that reads its body."""


_FLINK_TUPLE = "org.apache.flink.api.java.tuple.Tuple"
_ATOMIC = "java.util.concurrent.atomic.Atomic"

_VALUE_OF_2 = KryoClass(fields=(("value", "#T"),), parameters=1, variables=(("#T",),))


def _class_of(
    class_name: str, parameters: tuple[str, ...], fields: Mapping[str, str]
) -> tuple[KryoClass, KryoClass]:
    """Return a class for Kryo 2.24 and for Kryo 5, which name type variables in different ways."""
    found = []
    for declaring in ("", class_name):
        variables = {parameter: f"{declaring}#{parameter}" for parameter in parameters}
        found.append(
            KryoClass(
                fields=tuple((name, variables.get(declared, declared)) for name, declared in fields.items()),
                parameters=len(parameters),
                variables=tuple((variable,) for variable in variables.values()),
            )
        )
    return found[0], found[1]


def _tuple_of(arity: int) -> tuple[KryoClass, KryoClass]:
    parameters = tuple(f"T{index}" for index in range(arity))
    return _class_of(
        f"{_FLINK_TUPLE}{arity}", parameters, {f"f{index}": name for index, name in enumerate(parameters)}
    )


_CLASSES: Mapping[str, tuple[KryoClass, KryoClass]] = {
    **{f"{_FLINK_TUPLE}{arity}": _tuple_of(arity) for arity in range(26)},
    **{
        f"{_ATOMIC}{name}": _class_of(f"{_ATOMIC}{name}", (), {"value": declared})
        for name, declared in (("Integer", "int"), ("Long", "long"), ("Boolean", "int"))
    },
    f"{_ATOMIC}Reference": _class_of(f"{_ATOMIC}Reference", ("V",), {"value": "V"}),
}

_ROW = "org.apache.flink.types.Row"
_ROW_KIND = "org.apache.flink.types.RowKind"
_OBJECTS = "java.lang.Object[]"
_ROWS: tuple[Mapping[str, str], ...] = (
    {"fields": _OBJECTS},
    {"fields": _OBJECTS, "kind": _ROW_KIND},
    {
        "fieldByName": "java.util.Map<java.lang.String, java.lang.Object>",
        "fieldByPosition": _OBJECTS,
        "kind": _ROW_KIND,
        "positionByName": "java.util.LinkedHashMap<java.lang.String, java.lang.Integer>",
    },
)
"""The fields of a Row: up to Flink 1.10, in 1.11 and 1.12, since 1.13."""
_ROW_CLASSES = tuple(_class_of(_ROW, (), fields) for fields in _ROWS)


def _library_fields(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    return _object(reader, class_name, _CLASSES[class_name], arguments)


def _object(
    reader: KryoReader, class_name: str, classes: tuple[KryoClass, KryoClass], arguments: tuple[KryoType, ...]
) -> Any:
    known = classes[reader.is_kryo5]
    values = reader.fields(class_name, known, arguments)
    # Kryo sorts names as text, so f10 stands before f2; here they come as they are declared.
    return {"@class": class_name} | {name: values[name] for name, _ in known.fields}


def _row(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    """Read a Row: an older one begins with its array of fields, one of today with a map or null."""
    up_to_1_10, up_to_1_12, since_1_13 = _ROW_CLASSES
    known = since_1_13
    if reader.next_class() == array_of("java.lang.Object"):
        known = up_to_1_12 if reader.settings.has_row_kinds else up_to_1_10
    return _object(reader, class_name, known, arguments)


def _optional(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    """Read the value of an Optional: with its class in Kryo 5, as its field in 2.24."""
    return reader.any() if reader.is_kryo5 else reader.fields(class_name, _VALUE_OF_2, arguments)["value"]


LIBRARY_BODIES: dict[str, Body] = {
    **dict.fromkeys(_CLASSES, _library_fields),
    _ROW: _row,
    "java.util.Optional": _optional,
}
"""Class → the function that reads its body."""


_KRYO = "org.apache.flink.api.java.typeutils.runtime.kryo."

# A scale is an int32, so a few bytes could ask for gigabytes of zeros: beyond these the text has an exponent.
_MAX_ZEROS = 5000
_MAX_INTEGER_BITS = 14_000  # the most that Python turns into decimal text without a special setting


def value_reader(settings: KryoSettings, input_: KryoInput) -> KryoReader:
    """Return the reader of one value: `any` reads it with its class; the input then stands behind it.

    `any` raises:
        UnsupportedSerializerError: it holds an object of a class whose layout is not known.
        CorruptDataError: the bytes are no Kryo value.
    """
    return KryoReader(settings, input_, _body_of)


def is_readable(settings: KryoSettings, class_name: str) -> bool:
    """Return whether objects of a class can be read, as far as the class alone decides it."""
    if class_name in settings.serializers:
        return settings.serializers[class_name] in _SERIALIZERS
    if class_name.startswith("["):
        component = component_of(class_name)
        return component in PRIMITIVES or is_readable(settings, component)
    return class_name in BODIES or class_name in OPEN_TYPES or settings.class_of(class_name) is not None


def _body_of(reader: KryoReader, class_name: str) -> Body | None:
    """Return the function that reads the body of a class; None where its layout is not known."""
    given = reader.settings.serializers
    if class_name in given:
        return _given(reader, class_name, given[class_name])
    if class_name.startswith("["):
        return _array
    # Class files of a jar with all its libraries do not say that chill or Flink has a serializer for one of them.
    if class_name in BODIES and class_name not in reader.settings.classes:
        return BODIES[class_name]
    known = reader.class_of(class_name)
    if known is None:
        return None
    defaults = reader.settings.default_serializers
    for supertype in known.supertypes:
        if supertype in defaults:
            return _given(reader, class_name, defaults[supertype])
    if known.constants:
        return _enum
    return BODIES[known.container] if known.container else _fields


def _given(reader: KryoReader, class_name: str, serializer: str) -> Body:
    """Return the body that a serializer writes which the job names."""
    body = _SERIALIZERS.get(serializer)
    if body is None:
        raise reader.unsupported(f"{class_name}, which has the serializer {serializer}")
    return body


def _constant_body(value: Any) -> Body:
    """Return a body without bytes."""
    return lambda _reader, _class_name, _arguments: value


_JAVA = of_input(lambda input_: json_of(read_object(input_)))


def _protobuf(reader: KryoReader, class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    settings, input_ = reader.settings, reader.input
    data = input_.read(input_.varint("length"), "protobuf message")
    message = settings.message_of(class_name)
    if message is None or settings.descriptors is None:
        return {"@class": class_name, "@protobuf": json_bytes(bytes(data))}
    return {"@class": class_name} | ProtobufReader(settings.descriptors).tree(message, data)


def _enum(reader: KryoReader, class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    return reader.constant(class_name)


def _fields(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    known = reader.class_of(class_name) or KryoClass()
    return {"@class": class_name} | reader.fields(class_name, known, arguments)


def _scala_tuple(reader: KryoReader, class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    arity = int(class_name.removeprefix(SCALA_TUPLE))
    return {"@class": class_name} | {f"_{index}": reader.any() for index in range(1, arity + 1)}


def _array(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    component = component_of(class_name)
    if component == "byte":
        return json_bytes(bytes(reader.input.read(reader.input.size(1))))
    if component in PRIMITIVES:
        return [BODIES[component](reader, component, ()) for _ in range(reader.input.size(1))]
    # Kryo 5 does not hand the type arguments of an array on.
    inner = () if reader.is_kryo5 else arguments
    if reader.is_final(KryoType(component)):
        return [reader.object_or_null(component, inner) for _ in range(reader.input.size(1))]
    is_known = component in OPEN_TYPES or component.startswith("[") or component in BODIES
    if not is_known and reader.class_of(component) is None:
        raise reader.unsupported(class_name)
    return [reader.element(inner) for _ in range(reader.input.size(1))]


def _class_value(reader: KryoReader) -> Any:
    name = reader.class_name()
    # int and Integer have one id: a flag follows that distinguishes them.
    if reader.is_kryo5 and name not in PRIMITIVES and name not in BOXES:
        return name
    is_primitive = reader.input.boolean()
    return name if name is None or is_primitive else BOX_OF.get(name, name)


def _big_integer(input_: KryoInput) -> int | None:
    start = input_.position
    length = input_.varint("length") - 1
    if length < 0:
        return None
    if length == 0:
        raise input_.corrupt("expected the bytes of a BigInteger, found none", start)
    return int.from_bytes(input_.read(length, "BigInteger"), "big", signed=True)


def _big_integer_text(input_: KryoInput) -> str | None:
    value = _big_integer(input_)
    return None if value is None else _digits(value, input_)


def _big_decimal(input_: KryoInput) -> str | None:
    unscaled = _big_integer(input_)
    if unscaled is None:
        return None
    scale = input_.zigzag()
    digits = _digits(abs(unscaled), input_)
    sign = "-" if unscaled < 0 else ""
    if scale <= 0 and (scale >= -_MAX_ZEROS or unscaled == 0):
        return sign + digits + "0" * (-scale if unscaled else 0)
    if 0 < scale <= _MAX_ZEROS:
        padded = digits.rjust(scale + 1, "0")
        return f"{sign}{padded[:-scale]}.{padded[-scale:]}"
    return f"{sign}{digits[0]}{'.' if len(digits) > 1 else ''}{digits[1:]}E{len(digits) - 1 - scale:+d}"


def _digits(value: int, input_: KryoInput) -> str:
    if value.bit_length() > _MAX_INTEGER_BITS:
        raise input_.corrupt(
            f"expected an integer of at most {_MAX_INTEGER_BITS} bits, found {value.bit_length()}"
        )
    return str(value)


def _json_double(code: str) -> Callable[[KryoInput], Any]:
    return lambda input_: json_float(input_.fixed(code))


def _char(input_: KryoInput) -> str:
    return clean_text(chr(input_.fixed("H")))


def _uuid(input_: KryoInput) -> str:
    """Read two longs: zigzag ones of chill, fixed ones of Kryo 5."""
    halves = [input_.fixed("q") if input_.version >= 5 else input_.zigzag() for _ in range(2)]
    digits = "".join(f"{half & (1 << 64) - 1:016x}" for half in halves)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _bit_set(input_: KryoInput) -> list[int]:
    words = [input_.fixed("Q") for _ in range(input_.size())]
    return [64 * index + bit for index, word in enumerate(words) for bit in range(64) if word >> bit & 1]


def _pattern(input_: KryoInput) -> Any:
    pattern = input_.text()
    # chill does not write the flags.
    flags = input_.varint("flags") if input_.version >= 5 else 0
    return {"@class": "java.util.regex.Pattern", "pattern": pattern, "flags": flags} if flags else pattern


def _socket_address(input_: KryoInput) -> str:
    host = input_.text()
    return f"{host}:{input_.varint('port')}"


def _locale(input_: KryoInput) -> Any:
    """Read language, country and variant: a Java stream of chill, three texts of Kryo 5."""
    texts: list[Any] = []
    if input_.version >= 5:
        texts = [input_.text() for _ in range(3)]
    else:
        value = json_of(read_object(input_))
        if isinstance(value, dict):
            texts = [value.get(name) for name in ("language", "country", "variant")]
    return "_".join(str(text) for text in texts if text)


BODIES: dict[str, Body] = {
    **dict.fromkeys(("int", "java.lang.Integer", "long", "java.lang.Long"), of_input(KryoInput.zigzag)),
    **dict.fromkeys(("short", "java.lang.Short"), of_input(lambda input_: input_.fixed("h"))),
    **dict.fromkeys(("byte", "java.lang.Byte"), of_input(KryoInput.i1)),
    **dict.fromkeys(("boolean", "java.lang.Boolean"), of_input(KryoInput.boolean)),
    **dict.fromkeys(("char", "java.lang.Character"), of_input(_char)),
    **dict.fromkeys(("float", "java.lang.Float"), of_input(_json_double("f"))),
    **dict.fromkeys(("double", "java.lang.Double"), of_input(_json_double("d"))),
    **dict.fromkeys(("void", "java.lang.Void"), _constant_body(None)),
    **dict.fromkeys(
        (
            "java.lang.String", "java.lang.StringBuilder", "java.lang.StringBuffer", "java.util.Currency",
            "java.net.URI", "java.net.URL", "sun.util.calendar.ZoneInfo",
        ),
        of_input(KryoInput.text),
    ),
    "java.lang.Class": of_reader(_class_value),
    "java.math.BigInteger": of_input(_big_integer_text),
    "java.math.BigDecimal": of_input(_big_decimal),
    "java.util.UUID": of_input(_uuid),
    "java.util.BitSet": of_input(_bit_set),
    "java.util.regex.Pattern": of_input(_pattern),
    "java.net.InetSocketAddress": of_input(_socket_address),
    "java.util.Locale": of_input(_locale),
    "java.text.SimpleDateFormat": _JAVA,
    **COLLECTION_BODIES,
    **TIME_BODIES,
    **LIBRARY_BODIES,
    **dict.fromkeys(
        ("java.util.Collections$ReverseComparator", "java.lang.String$CaseInsensitiveComparator"),
        _constant_body({}),
    ),
    **dict.fromkeys(ENUMS, _enum),
    **{f"{SCALA_TUPLE}{arity}": _scala_tuple for arity in range(1, 23)},
    **dict.fromkeys(("scala.Some", "scala.util.Left", "scala.util.Right"), of_reader(KryoReader.any)),
}  # fmt: skip
"""Class → the function that reads its body."""

# The serializers that a registration or a default may name beside Kryo's own choice.
_SERIALIZERS: dict[str, Body] = {
    _KRYO + "JavaSerializer": _JAVA,
    "com.esotericsoftware.kryo.serializers.JavaSerializer": _JAVA,
    _KRYO + "Serializers$SpecificInstanceCollectionSerializerForArrayList": plain_collection,
    PROTOBUF: _protobuf,
}
