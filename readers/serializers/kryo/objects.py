"""Kryo's object format, read into JSON trees: Kryo 2.24 (Flink 1.x) and Kryo 5 (Flink 2.x).

A value has no length and no field names; it ends where reading it ends. See `kryoinput.py` for numbers and strings.

| part | bytes |
|---|---|
| any | class, and if that is not null: reference, body |
| class | varint 0 null · 1 by name: varint number of the name, the name if it is new · k: registration k - 2 |
| reference | varint 0 null · 1 new · r: object r - 2, in the order in which they begin |
| field of a final class | reference and body; a box: 00 null or 01, body |

Primitives and their boxes have no reference, nor have enums in Kryo 5. Objects of classes without a serializer of their
own are their fields in the order of their names (`FieldSerializer`): they can be read only where the fields are known
from elsewhere. Source: `com.esotericsoftware.kryo.serializers`,
`com.twitter.chill.java`, `org.apache.flink.api.java.typeutils.runtime.kryo`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from readers.errors import UnsupportedSerializerError
from readers.javaio import STREAM_HEADER, read_object
from readers.serializers.jsontree import MAX_NODES, clean_text, json_bytes, json_float, json_map, json_of
from readers.serializers.kryo.classes import (
    ARRAY_CODES,
    ARRAY_COMPONENTS,
    BOX_OF,
    BOXES,
    COLLECTIONS,
    ENUMS,
    FINAL,
    IMMUTABLE_COLLECTIONS,
    MAPS,
    OPEN_TYPES,
    PRIMITIVES,
    REGISTERED,
    SCALA_COLLECTIONS,
    SCALA_TUPLE,
    java_util,
)
from readers.serializers.kryo.input import KryoInput
from readers.serializers.protobuf.descriptors import Descriptors
from readers.serializers.protobuf.serializer import ProtobufReader
from readers.timetext import date_text, duration_text, instant_text, time_text

_MAX_DEPTH = 100
_FIRST_REGISTRATION = 85
_CLASS_OFFSET = 2  # behind 0 null and 1 by name
_MILLISECOND_NANOS = 1_000_000
_QUARTER_HOUR_S = 900
_NEW_JAVA_STREAM = b"\x01" + STREAM_HEADER


@dataclass(frozen=True, slots=True)
class KryoType:
    """The declared type of a field: a Java type, its type arguments, whether the class is final."""

    name: str
    arguments: tuple[KryoType, ...] = ()
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KryoClass:
    """What the savepoint does not say of a class.

    Attributes:
        fields: name and declared type (`int`, `java.util.List<java.lang.String>`, `final com.example.Point`).
            Those of a record without type arguments: Kryo makes no use of them there.
        constants: the names, in order, if it is an enum.
        is_final: whether the class is final; enums are.
        message: the protobuf message that chill's `ProtobufSerializer` writes of it.
    """

    fields: tuple[tuple[str, str], ...] = ()
    constants: tuple[str, ...] = ()
    is_final: bool = False
    message: str = ""


# What classes of Flink that Kryo writes are made of.
FLINK_CLASSES: Mapping[str, KryoClass] = {
    "org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition": KryoClass(
        fields=(("cachedHash", "int"), ("partition", "int"), ("topic", "java.lang.String")), is_final=True
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KryoRegistration:
    """One class that was registered, with the class of the serializer it was given; "" for Kryo's choice."""

    class_name: str
    serializer: str = ""


@dataclass(frozen=True, kw_only=True)
class KryoSettings:
    """What a Kryo instance knows beside the bytes.

    Attributes:
        version: 2 (2.24) or 5.
        registrations: in the order of their ids.
        default_serializers: class → serializer class.
        classes: what is known of user classes, and of those of Flink.
        descriptors: of protobuf messages.
    """

    version: int
    registrations: tuple[KryoRegistration, ...] = ()
    default_serializers: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, KryoClass] = field(default_factory=lambda: FLINK_CLASSES)
    descriptors: Descriptors | None = None

    @cached_property
    def class_ids(self) -> dict[int, str]:
        """Registration id → class, as `KryoUtils#applyRegistrations` hands them out: known classes keep theirs."""
        ids = dict(REGISTERED)
        known = set(ids.values())
        following = _FIRST_REGISTRATION
        for registration in self.registrations:
            if registration.class_name in known and not registration.serializer:
                continue
            ids[following] = registration.class_name
            known.add(registration.class_name)
            following += 1
        return ids

    @cached_property
    def serializers(self) -> dict[str, str]:
        """Class → serializer class, where one was given."""
        given = {entry.class_name: entry.serializer for entry in self.registrations if entry.serializer}
        return dict(self.default_serializers) | given

    def reads(self, class_name: str) -> bool:
        """Whether objects of a class, and of the classes it is usual to find behind it, can be read."""
        if class_name in self.serializers:
            return self.serializers[class_name] in _SERIALIZERS
        if class_name.startswith("["):
            component = _component(class_name)
            return component in PRIMITIVES or self.reads(component)
        return class_name in self.classes or class_name in _BODIES or class_name in OPEN_TYPES

    def message_of(self, class_name: str) -> str | None:
        """The protobuf message of a class; None if there is no descriptor for it."""
        if self.descriptors is None:
            return None
        stated = self.classes[class_name].message if class_name in self.classes else ""
        message = stated or self.descriptors.java_classes.get(class_name, "")
        return message if message in self.descriptors.messages else None

    def lacks_descriptor(self, class_name: str) -> bool:
        """Whether objects of a class are protobuf messages that cannot be shown but as bytes."""
        return self.serializers.get(class_name) == PROTOBUF and self.message_of(class_name) is None


class KryoReader:
    """Reads one value: class names and references count anew in each."""

    def __init__(self, settings: KryoSettings, input_: KryoInput) -> None:
        self.input = input_
        self.settings = settings
        self.class_ids = settings.class_ids
        self.given = settings.serializers
        self.names: list[str] = []
        self.objects: list[Any] = []
        self.sizes: list[int] = []  # how many values each object holds, -1 while it is read
        self.nodes = 0
        self.depth = 0
        self.java_classes: set[str] = set()  # whose objects turned out to be Java streams

    @property
    def is_kryo5(self) -> bool:
        return self.settings.version >= 5

    def any(self, arguments: tuple[KryoType, ...] = ()) -> Any:
        """A value with its class."""
        class_name = self.class_name()
        return None if class_name is None else self.object(class_name, arguments)

    def class_name(self) -> str | None:
        """A class; None for null."""
        start = self.input.position
        number = self.input.varint("class")
        if number == 0:
            return None
        if number == 1:
            return self._class_by_name()
        class_name = self.class_ids.get(number - _CLASS_OFFSET)
        if class_name is None:
            raise self.input.corrupt(f"expected a registered class, found id {number - _CLASS_OFFSET}", start)
        return class_name

    def object(self, class_name: str, arguments: tuple[KryoType, ...] = ()) -> Any:
        """A reference, if the class has them, and the body."""
        if not self._is_referenced(class_name):
            return self._body(class_name, arguments)
        if self._reader_of(class_name) is _unknown:
            self._expect_java_stream(class_name)
        start = self.input.position
        reference = self.input.varint("reference")
        if reference == 0:
            return None
        if reference == 1:
            return self._new(class_name, arguments)
        number = reference - 2
        if number >= len(self.objects):
            raise self.input.corrupt(f"expected one of {len(self.objects)} objects, found {number}", start)
        if self.sizes[number] < 0:
            return {"@reference": class_name}
        self.count(self.sizes[number])
        return self.objects[number]

    def object_or_null(self, class_name: str, arguments: tuple[KryoType, ...] = ()) -> Any:
        """A value whose class is known from the outside."""
        if self._is_referenced(class_name):
            return self.object(class_name, arguments)
        return self._body(class_name, arguments) if self.input.u1() else None

    def field(self, declared: KryoType) -> Any:
        """A field of an object."""
        if declared.name in PRIMITIVES:
            return self._body(declared.name, ())
        if self.is_final(declared):
            return self.object_or_null(declared.name, declared.arguments)
        return self.any(declared.arguments)

    def is_final(self, declared: KryoType) -> bool:
        """Whether values of a declared type are written without their class."""
        name = declared.name
        if name.startswith("["):
            component = _component(name)
            return component in PRIMITIVES or self.is_final(KryoType(component))
        known = self.settings.classes.get(name)
        return (
            declared.is_final
            or name in FINAL
            or (known is not None and (known.is_final or bool(known.constants)))
        )

    def unsupported(self, class_name: str) -> UnsupportedSerializerError:
        """The error for a class whose layout is not known: `raise reader.unsupported(…)`."""
        return UnsupportedSerializerError(
            f"expected a class that Kryo writes in a known layout, found {class_name}, whose fields are not known",
            position=self.input.position,
            breadcrumbs=(class_name,),
        )

    def _expect_java_stream(self, class_name: str) -> None:
        """Throwables are Java streams. Any other unknown class may be an enum, which has no reference in Kryo 5."""
        start = self.input.position
        beginning = bytes(self.input.data[start : min(start + len(_NEW_JAVA_STREAM), self.input.end)])
        if beginning == _NEW_JAVA_STREAM:
            self.java_classes.add(class_name)
        elif class_name not in self.java_classes:
            raise self.unsupported(class_name)

    def _class_by_name(self) -> str:
        start = self.input.position
        number = self.input.varint("class name")
        if number > len(self.names):
            raise self.input.corrupt(f"expected one of {len(self.names)} class names, found {number}", start)
        if number == len(self.names):
            self.names.append(self.input.name("a class name"))
        return self.names[number]

    def _is_referenced(self, class_name: str) -> bool:
        if class_name in PRIMITIVES or class_name in BOXES:
            return False
        return not (self.is_kryo5 and self._constants(class_name))

    def _new(self, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
        number, before = len(self.objects), self.nodes
        self.objects.append(None)
        self.sizes.append(-1)
        value = self._body(class_name, arguments)
        self.objects[number] = value
        self.sizes[number] = self.nodes - before
        return value

    def _body(self, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
        self.count(1)
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self.input.corrupt(f"Kryo objects nest deeper than {_MAX_DEPTH} levels")
        value = self._reader_of(class_name)(self, class_name, arguments)
        self.depth -= 1
        return value

    def _reader_of(self, class_name: str) -> Body:
        if class_name in self.given:
            reader = _SERIALIZERS.get(self.given[class_name])
            if reader is None:
                raise self.unsupported(f"{class_name}, which has the serializer {self.given[class_name]}")
            return reader
        if self._constants(class_name):
            return _enum
        if class_name in self.settings.classes:
            return _fields
        if class_name.startswith("["):
            return _array
        return _BODIES.get(class_name, _unknown)

    def _constants(self, class_name: str) -> tuple[str, ...]:
        known = self.settings.classes.get(class_name)
        return known.constants if known is not None else ENUMS.get(class_name, ())

    def constant(self, class_name: str) -> Any:
        """An ordinal, stored with 1 added, as the constant's name, if that is known."""
        start = self.input.position
        ordinal = self.input.varint("ordinal") - 1
        constants = self._constants(class_name)
        if ordinal < 0:
            return None
        if not constants:
            return {"@class": class_name, "ordinal": ordinal}
        if ordinal >= len(constants):
            raise self.input.corrupt(f"expected a constant of {class_name}, found ordinal {ordinal}", start)
        return constants[ordinal]

    def count(self, values: int) -> None:
        """Some values more in the tree."""
        self.nodes += values
        if self.nodes > MAX_NODES:
            raise self.input.corrupt(f"expected a Kryo object of at most {MAX_NODES} values")


Body = Callable[[KryoReader, str, tuple[KryoType, ...]], Any]
"""Reads the body of an object of a class whose declared type arguments are given."""


@cache
def kryo_type(text: str) -> KryoType:
    """A declared type from its Java text: `final`, type arguments and array brackets are understood."""
    text = text.strip()
    is_final = text.startswith("final ")
    text = text.removeprefix("final ").strip()
    if text.endswith("[]"):
        component = kryo_type(text[:-2]).name
        code = ARRAY_CODES.get(component) or (component if component.startswith("[") else f"L{component};")
        return KryoType(f"[{code}", (), is_final)
    name, bracket, rest = text.partition("<")
    if not bracket:
        return KryoType(name, (), is_final)
    return KryoType(
        name.strip(), tuple(kryo_type(part) for part in _arguments(rest.rsplit(">", 1)[0])), is_final
    )


def _arguments(text: str) -> Iterator[str]:
    """The type arguments, split at the commas of the outermost level."""
    depth, start = 0, 0
    for index, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def _component(class_name: str) -> str:
    """The component class of an array class."""
    code = class_name[1:]
    return ARRAY_COMPONENTS.get(code) or (code[1:-1] if code.startswith("L") else code)


# ---- bodies ---------------------------------------------------------------------------------------------------------


def _scalar(read: Callable[[KryoInput], Any]) -> Body:
    """A body that needs no more than the input."""
    return lambda reader, _class_name, _arguments: read(reader.input)


def _constant_body(value: Any) -> Body:
    """A body without bytes."""
    return lambda _reader, _class_name, _arguments: value


def _unknown(reader: KryoReader, _class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    """A class without a layout, of which only Java streams get this far."""
    return json_of(read_object(reader.input))


def _java(reader: KryoReader, _class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    return json_of(read_object(reader.input))


def _protobuf(reader: KryoReader, class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    """chill writes the length of the message before it."""
    settings, input_ = reader.settings, reader.input
    data = input_.read(input_.varint("length"), "protobuf message")
    message = settings.message_of(class_name)
    if message is None or settings.descriptors is None:
        return {"@class": class_name, "@protobuf": json_bytes(bytes(data))}
    return {"@class": class_name} | ProtobufReader(settings.descriptors).tree(message, data)


def _enum(reader: KryoReader, class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    return reader.constant(class_name)


def _fields(reader: KryoReader, class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    fields = sorted(reader.settings.classes[class_name].fields)
    return {"@class": class_name} | {name: reader.field(kryo_type(declared)) for name, declared in fields}


def _tuple(reader: KryoReader, class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    """`FieldSerializer` sorts f10 before f2."""
    arity = int(class_name.removeprefix(_FLINK_TUPLE))
    values = {name: reader.any() for name in sorted(f"f{index}" for index in range(arity))}
    return {"@class": class_name} | {f"f{index}": values[f"f{index}"] for index in range(arity)}


def _scala_tuple(reader: KryoReader, class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    arity = int(class_name.removeprefix(SCALA_TUPLE))
    return {"@class": class_name} | {f"_{index}": reader.any() for index in range(1, arity + 1)}


def _plain_collection(reader: KryoReader, _class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    return [reader.any() for _ in range(reader.input.size())]


def _collection(reader: KryoReader, _class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    return _elements(reader, arguments, has_comparator=False)


def _sorted_collection(reader: KryoReader, _class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    return _elements(reader, arguments, has_comparator=True)


def _immutable_collection(reader: KryoReader, _class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    return _elements(reader, arguments, has_comparator=False, can_be_null=False)


def _elements(
    reader: KryoReader, arguments: tuple[KryoType, ...], *, has_comparator: bool, can_be_null: bool = True
) -> list[Any]:
    element = arguments[0] if arguments else None
    known = element.name if element is not None and reader.is_final(element) else None
    if not reader.is_kryo5:
        if has_comparator:
            reader.any()
        count = reader.input.size()
        return [reader.any() if known is None else reader.object_or_null(known) for _ in range(count)]
    flag, count = reader.input.flagged_size()
    if has_comparator:
        reader.any()
    inner = element.arguments if element is not None else ()
    if count == 0:
        return []
    if known is not None:
        has_null = flag
    elif not flag:
        return [reader.any(inner) for _ in range(count)]
    else:
        known = reader.class_name()
        if known is None:
            reader.count(count)
            return [None] * count
        has_null = can_be_null and reader.input.boolean()
    read = reader.object_or_null if has_null else reader.object
    return [read(known, inner) for _ in range(count)]


def _map(reader: KryoReader, _class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    return _entries(reader, arguments, has_comparator=False)


def _sorted_map(reader: KryoReader, _class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    return _entries(reader, arguments, has_comparator=True)


def _entries(reader: KryoReader, arguments: tuple[KryoType, ...], *, has_comparator: bool) -> list[Any]:
    """The comparator stands before the count in Kryo 2.24, behind it in Kryo 5."""
    if has_comparator and not reader.is_kryo5:
        reader.any()
    count = reader.input.size(1 if reader.is_kryo5 else 0)
    if has_comparator and reader.is_kryo5:
        reader.any()
    key, value = arguments if len(arguments) == 2 else (_ANY, _ANY)
    return json_map((_part(reader, key), _part(reader, value)) for _ in range(count))


def _part(reader: KryoReader, declared: KryoType) -> Any:
    """A key or value of a map."""
    inner = declared.arguments if reader.is_kryo5 else ()
    return reader.object_or_null(declared.name, inner) if reader.is_final(declared) else reader.any(inner)


def _as_list(reader: KryoReader, class_name: str, arguments: tuple[KryoType, ...]) -> Any:
    """`Arrays.asList`: chill writes the component class before the elements."""
    if reader.is_kryo5:
        return _collection(reader, class_name, arguments)
    count = reader.input.size()
    reader.class_name()
    return [reader.any() for _ in range(count)]


def _singleton(reader: KryoReader, _class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    return [reader.any()]


def _singleton_map(reader: KryoReader, _class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    key = reader.any()
    return json_map([(key, reader.any())])


def _optional(reader: KryoReader, _class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    return reader.any()


def _enum_set(reader: KryoReader, _class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    element = reader.class_name() or ""
    return [reader.constant(element) for _ in range(reader.input.size())]


def _array(reader: KryoReader, class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    component = _component(class_name)
    if component == "byte":
        return json_bytes(bytes(reader.input.read(reader.input.size(1))))
    if component in PRIMITIVES:
        return [_BODIES[component](reader, component, ()) for _ in range(reader.input.size(1))]
    declared = KryoType(component)
    if reader.is_final(declared):
        return [reader.object_or_null(component) for _ in range(reader.input.size(1))]
    if component not in OPEN_TYPES and not component.startswith("[") and component not in _BODIES:
        raise reader.unsupported(class_name)
    return [reader.any() for _ in range(reader.input.size(1))]


def _class_value(reader: KryoReader, _class_name: str, _arguments: tuple[KryoType, ...]) -> Any:
    """`java.lang.Class`: int and Integer share an id, a flag tells them apart."""
    name = reader.class_name()
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
    """chill writes two zigzag longs, Kryo 5 two fixed ones."""
    halves = [input_.fixed("q") if input_.version >= 5 else input_.zigzag() for _ in range(2)]
    digits = "".join(f"{half & (1 << 64) - 1:016x}" for half in halves)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _bit_set(input_: KryoInput) -> list[int]:
    words = [input_.fixed("Q") for _ in range(input_.size())]
    return [64 * index + bit for index, word in enumerate(words) for bit in range(64) if word >> bit & 1]


def _pattern(input_: KryoInput) -> Any:
    """chill loses the flags."""
    pattern = input_.text()
    flags = input_.varint("flags") if input_.version >= 5 else 0
    return {"@class": "java.util.regex.Pattern", "pattern": pattern, "flags": flags} if flags else pattern


def _socket_address(input_: KryoInput) -> str:
    host = input_.text()
    return f"{host}:{input_.varint('port')}"


def _locale(input_: KryoInput) -> Any:
    """chill writes a Java stream, Kryo 5 the three parts."""
    if input_.version < 5:
        value = json_of(read_object(input_))
        parts = (
            [value.get(name) for name in ("language", "country", "variant")]
            if isinstance(value, dict)
            else []
        )
    else:
        parts = [input_.text() for _ in range(3)]
    return "_".join(str(part) for part in parts if part)


# ---- dates and times ------------------------------------------------------------------------------------------------


def _millis(input_: KryoInput) -> str:
    return instant_text(*_split_millis(input_.positive_long()))


def _local_millis(input_: KryoInput) -> str:
    return _millis(input_).removesuffix("Z")


def _sql_timestamp(input_: KryoInput) -> str:
    """chill stores the milliseconds, which the nanos hold too; Kryo 5 rounds them down to the second."""
    seconds, _ = _split_millis(input_.positive_long())
    return instant_text(seconds, _nanos(input_)).removesuffix("Z")


def _split_millis(milliseconds: int) -> tuple[int, int]:
    return milliseconds // 1000, milliseconds % 1000 * _MILLISECOND_NANOS


def _nanos(input_: KryoInput) -> int:
    return _checked(input_, input_.positive_int(), 1_000_000_000, "nanos")


def _checked(input_: KryoInput, value: int, bound: int, what: str) -> int:
    if not 0 <= value < bound:
        raise input_.corrupt(f"expected {what} below {bound}, found {value}")
    return value


def _local_date(reader: KryoReader) -> str:
    input_ = reader.input
    if reader.is_kryo5:
        year, month, day = input_.positive_int(), input_.u1(), input_.u1()
    else:
        day, month, year = input_.fixed("h"), input_.fixed("h"), input_.zigzag()
    return date_text(year, _checked(input_, month, 13, "a month"), _checked(input_, day, 32, "a day"))


def _local_time(reader: KryoReader) -> str:
    """Kryo 5 stops at the last part that is not zero and writes its complement."""
    input_ = reader.input
    if not reader.is_kryo5:
        hour, minute, nano, second = input_.u1(), input_.u1(), input_.zigzag(), input_.u1()
        return _time(input_, hour, minute, second, nano)
    parts = [0, 0, 0, 0]
    for index in range(3):
        part = input_.i1()
        parts[index] = ~part if part < 0 else part
        if part < 0:
            return _time(input_, *parts)
    parts[3] = input_.positive_int()
    return _time(input_, *parts)


def _time(input_: KryoInput, hour: int, minute: int, second: int, nano: int) -> str:
    _checked(input_, hour, 24, "an hour")
    _checked(input_, minute, 60, "a minute")
    _checked(input_, second, 60, "a second")
    return time_text(hour, minute, second, _checked(input_, nano, 1_000_000_000, "nanos"))


def _local_date_time(reader: KryoReader) -> str:
    date = _inner(reader, "java.time.LocalDate", _local_date)
    return f"{date}T{_inner(reader, 'java.time.LocalTime', _local_time)}"


def _zone_offset(reader: KryoReader) -> str:
    """Kryo 5: quarters of an hour, or 127 and the seconds."""
    if not reader.is_kryo5:
        return _offset_text(reader.input.zigzag())
    quarters = reader.input.i1()
    return _offset_text(reader.input.fixed("i") if quarters == 127 else quarters * _QUARTER_HOUR_S)


def _zone_region(reader: KryoReader) -> Any:
    if reader.is_kryo5:
        return reader.input.text()
    return reader.object("java.lang.String")


def _zoned_date_time(reader: KryoReader) -> str:
    """2.24: the fields dateTime, offset, zone; the zone is of any class."""
    moment = _inner(reader, "java.time.LocalDateTime", _local_date_time)
    if reader.is_kryo5:
        zone = reader.input.name("a time zone")
        return f"{moment}{zone}" if zone.startswith(("Z", "+", "-")) else f"{moment}[{zone}]"
    offset = reader.object("java.time.ZoneOffset")
    zone = reader.any()
    return f"{moment}{offset or ''}" + (f"[{zone}]" if zone is not None and zone != offset else "")


def _offset_date_time(reader: KryoReader) -> str:
    moment = _inner(reader, "java.time.LocalDateTime", _local_date_time)
    return f"{moment}{_inner(reader, 'java.time.ZoneOffset', _zone_offset)}"


def _instant(reader: KryoReader) -> str:
    input_ = reader.input
    if reader.is_kryo5:
        seconds = input_.positive_long()
        return instant_text(seconds, _nanos(input_))
    nanos = _checked(input_, input_.zigzag(), 1_000_000_000, "nanos")
    return instant_text(input_.zigzag(), nanos)


def _duration(reader: KryoReader) -> str:
    input_ = reader.input
    if reader.is_kryo5:
        seconds = input_.fixed("q")
        return duration_text(seconds, _nanos(input_))
    nanos = _checked(input_, input_.zigzag(), 1_000_000_000, "nanos")
    return duration_text(input_.zigzag(), nanos)


def _period(reader: KryoReader) -> str:
    if reader.is_kryo5:
        years, months, days = (reader.input.positive_int() for _ in range(3))
    else:
        days, months, years = (reader.input.zigzag() for _ in range(3))
    text = "".join(f"{amount}{unit}" for amount, unit in ((years, "Y"), (months, "M"), (days, "D")) if amount)
    return f"P{text or '0D'}"


def _inner(reader: KryoReader, class_name: str, read: Callable[[KryoReader], Any]) -> Any:
    """A part of a `java.time` object: an object of its own for `FieldSerializer`, plain bytes in Kryo 5."""
    return read(reader) if reader.is_kryo5 else reader.object(class_name)


def _offset_text(seconds: int) -> str:
    if seconds == 0:
        return "Z"
    minutes, rest = divmod(abs(seconds), 60)
    text = f"{'-' if seconds < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{rest:02d}" if rest else text


def _temporal(read: Callable[[KryoReader], Any]) -> Body:
    return lambda reader, _class_name, _arguments: read(reader)


# ---- tables ---------------------------------------------------------------------------------------------------------

_ANY = KryoType("java.lang.Object")
_MAX_ZEROS = 5000
_MAX_INTEGER_BITS = 14_000  # what Python turns into decimal text without a special setting
_FLINK_TUPLE = "org.apache.flink.api.java.tuple.Tuple"


def _each(names: Sequence[str], body: Body) -> dict[str, Body]:
    return dict.fromkeys(names, body)


_BODIES: dict[str, Body] = {
    **_each(("int", "java.lang.Integer", "long", "java.lang.Long"), _scalar(KryoInput.zigzag)),
    **_each(("short", "java.lang.Short"), _scalar(lambda input_: input_.fixed("h"))),
    **_each(("byte", "java.lang.Byte"), _scalar(KryoInput.i1)),
    **_each(("boolean", "java.lang.Boolean"), _scalar(KryoInput.boolean)),
    **_each(("char", "java.lang.Character"), _scalar(_char)),
    **_each(("float", "java.lang.Float"), _scalar(_json_double("f"))),
    **_each(("double", "java.lang.Double"), _scalar(_json_double("d"))),
    **_each(("void", "java.lang.Void"), _constant_body(None)),
    **_each(
        (
            "java.lang.String",
            "java.lang.StringBuilder",
            "java.lang.StringBuffer",
            "java.util.Currency",
            "java.net.URI",
            "java.net.URL",
            "sun.util.calendar.ZoneInfo",
        ),
        _scalar(KryoInput.text),
    ),
    "java.lang.Class": _class_value,
    "java.math.BigInteger": _scalar(_big_integer_text),
    "java.math.BigDecimal": _scalar(_big_decimal),
    "java.util.Date": _scalar(_millis),
    **_each(("java.sql.Date", "java.sql.Time"), _scalar(_local_millis)),
    "java.sql.Timestamp": _scalar(_sql_timestamp),
    "java.util.UUID": _scalar(_uuid),
    "java.util.BitSet": _scalar(_bit_set),
    "java.util.regex.Pattern": _scalar(_pattern),
    "java.net.InetSocketAddress": _scalar(_socket_address),
    "java.util.Locale": _scalar(_locale),
    "java.text.SimpleDateFormat": _java,
    "java.util.Optional": _optional,
    **_each(COLLECTIONS, _collection),
    **_each(IMMUTABLE_COLLECTIONS, _immutable_collection),
    **_each(("java.util.TreeSet", "java.util.PriorityQueue"), _sorted_collection),
    "java.util.Arrays$ArrayList": _as_list,
    **_each(MAPS, _map),
    "java.util.TreeMap": _sorted_map,
    **_each(java_util("Collections$EmptyList Collections$EmptyMap Collections$EmptySet"), _constant_body([])),
    **_each(java_util("Collections$SingletonList Collections$SingletonSet"), _singleton),
    "java.util.Collections$SingletonMap": _singleton_map,
    **_each(java_util("RegularEnumSet JumboEnumSet"), _enum_set),
    **_each(
        ("java.util.Collections$ReverseComparator", "java.lang.String$CaseInsensitiveComparator"),
        _constant_body({}),
    ),
    **_each(tuple(ENUMS), _enum),
    "java.time.LocalDate": _temporal(_local_date),
    "java.time.LocalTime": _temporal(_local_time),
    "java.time.LocalDateTime": _temporal(_local_date_time),
    "java.time.ZonedDateTime": _temporal(_zoned_date_time),
    "java.time.OffsetDateTime": _temporal(_offset_date_time),
    "java.time.ZoneOffset": _temporal(_zone_offset),
    "java.time.ZoneRegion": _temporal(_zone_region),
    "java.time.Instant": _temporal(_instant),
    "java.time.Duration": _temporal(_duration),
    "java.time.Period": _temporal(_period),
    **{f"{_FLINK_TUPLE}{arity}": _tuple for arity in range(26)},
    **{f"{SCALA_TUPLE}{arity}": _scala_tuple for arity in range(1, 23)},
    **_each(SCALA_COLLECTIONS, _plain_collection),
    **_each(("scala.Some", "scala.util.Left", "scala.util.Right"), _optional),
    "org.apache.avro.generic.GenericData$Array": _plain_collection,
}

# What a registration or a default serializer may name beside Kryo's own choice.
_KRYO = "org.apache.flink.api.java.typeutils.runtime.kryo."
PROTOBUF = "com.twitter.chill.protobuf.ProtobufSerializer"
_SERIALIZERS: dict[str, Body] = {
    _KRYO + "JavaSerializer": _java,
    "com.esotericsoftware.kryo.serializers.JavaSerializer": _java,
    _KRYO + "Serializers$SpecificInstanceCollectionSerializerForArrayList": _plain_collection,
    PROTOBUF: _protobuf,
}
