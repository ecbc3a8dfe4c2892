"""Objects that Kryo writes, read into JSON trees: the table of the classes whose layout is known.

Objects of classes without a serializer of their own are their fields in the order of their names (`FieldSerializer`):
they can be read only where the fields are given. `reader.py` reads the frame around objects.

Source: `com.esotericsoftware.kryo.serializers`, `com.twitter.chill.java`,
`org.apache.flink.api.java.typeutils.runtime.kryo`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from readers.javaio import read_object
from readers.serializers.jsontree import clean_text, json_bytes, json_float, json_of
from readers.serializers.kryo.classes import BOX_OF, BOXES, ENUMS, OPEN_TYPES, PRIMITIVES, SCALA_TUPLE
from readers.serializers.kryo.collections import COLLECTION_BODIES, plain_collection
from readers.serializers.kryo.input import KryoInput
from readers.serializers.kryo.library import LIBRARY_BODIES
from readers.serializers.kryo.reader import Body, KryoReader, of_input, of_reader
from readers.serializers.kryo.settings import PROTOBUF, KryoClass, KryoSettings, KryoType, component_of
from readers.serializers.kryo.times import TIME_BODIES
from readers.serializers.protobuf.serializer import ProtobufReader

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
