"""What a Kryo instance knows beside the bytes: its registrations, and the fields and constants of classes.

Kryo writes a registered class as a number. The numbers follow from the order of registration, so they are derived here
as Flink derives them. Fields and constants are not in a savepoint: they come from `stateInfo`, or are listed here.

Flink: KryoUtils#applyRegistrations, KryoSerializer#buildKryoRegistrations
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from readers.serializers.kryo.classes import ARRAY_CODES, ARRAY_COMPONENTS, REGISTERED
from readers.serializers.protobuf.descriptors import Descriptors

# Flink 2.0 replaced Kryo 2.24 by Kryo 5.
KRYO_2_24 = 2
KRYO_5 = 5

PROTOBUF = "com.twitter.chill.protobuf.ProtobufSerializer"

# Kryo's primitives have the ids 0–9, chill's classes those up to 84: users' registrations follow.
_FIRST_REGISTRATION = 85


@dataclass(frozen=True, slots=True)
class KryoType:
    """The declared type of a field: a Java type, its type arguments, and whether the class is final."""

    name: str
    arguments: tuple[KryoType, ...] = ()
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KryoClass:
    """What the savepoint does not hold of a class.

    Attributes:
        fields: name and declared type (`int`, `java.util.List<java.lang.String>`, `final com.example.Point`).
            Those of a record without type arguments: Kryo makes no use of them there.
        constants: the names, in order, if it is an enum.
        is_final: the class is final; enums are.
        message: the protobuf message that chill's `ProtobufSerializer` writes of it.
    """

    fields: tuple[tuple[str, str], ...] = ()
    constants: tuple[str, ...] = ()
    is_final: bool = False
    message: str = ""


# Classes of Flink that are generic types to it, so that Kryo writes them.
FLINK_CLASSES: Mapping[str, KryoClass] = {
    "org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition": KryoClass(
        fields=(("cachedHash", "int"), ("partition", "int"), ("topic", "java.lang.String")), is_final=True
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KryoRegistration:
    """One registered class, with the class of the serializer it was given; "" for Kryo's choice."""

    class_name: str
    serializer: str = ""


@dataclass(frozen=True, kw_only=True)
class KryoSettings:
    """The settings of a Kryo instance.

    Attributes:
        version: KRYO_2_24 or KRYO_5; 0 where it is not known.
        registrations: in the order of their ids.
        default_serializers: class → serializer class.
        classes: class → its fields or constants, of users and of Flink.
        descriptors: of protobuf messages.
        recorded: the version that the snapshot itself shows, by a serializer instance of its time; 0 if it shows none.
    """

    version: int
    registrations: tuple[KryoRegistration, ...] = ()
    default_serializers: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, KryoClass] = field(default_factory=lambda: FLINK_CLASSES)
    descriptors: Descriptors | None = None
    recorded: int = field(default=0, compare=False)

    @cached_property
    def class_ids(self) -> dict[int, str]:
        """Registration id → class, as `KryoUtils#applyRegistrations` assigns them."""
        ids = dict(REGISTERED)
        known = set(ids.values())
        following = _FIRST_REGISTRATION
        for registration in self.registrations:
            # A class that Kryo or chill registered keeps its id, unless it is registered with a serializer.
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

    def message_of(self, class_name: str) -> str | None:
        """Return the protobuf message of a class; None if there is no descriptor for it."""
        if self.descriptors is None:
            return None
        stated = self.classes[class_name].message if class_name in self.classes else ""
        message = stated or self.descriptors.java_classes.get(class_name, "")
        return message if message in self.descriptors.messages else None

    def lacks_descriptor(self, class_name: str) -> bool:
        """Return whether objects of a class are protobuf messages that can be shown as bytes only."""
        return self.serializers.get(class_name) == PROTOBUF and self.message_of(class_name) is None


@cache
def kryo_type(text: str) -> KryoType:
    """Parse a declared type from its Java text, with `final`, type arguments and array brackets."""
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
    arguments = tuple(kryo_type(argument) for argument in _arguments(rest.rsplit(">", 1)[0]))
    return KryoType(name.strip(), arguments, is_final)


def _arguments(text: str) -> Iterator[str]:
    """Yield the type arguments, split at the commas of the outermost level."""
    depth, start = 0, 0
    for index, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def component_of(class_name: str) -> str:
    """Return the component class of an array class."""
    code = class_name[1:]
    return ARRAY_COMPONENTS.get(code) or (code[1:-1] if code.startswith("L") else code)
