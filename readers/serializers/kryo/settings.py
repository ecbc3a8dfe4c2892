"""What a Kryo instance knows beside the bytes: classes that Kryo, chill and Flink know, registrations, fields and constants of classes.

Kryo writes a registered class as a number. The numbers follow from the order of registration, so they are derived here
as Flink derives them. Fields and constants are not in a savepoint: they come from `stateInfo`, from class files, or are
listed here.

Flink: KryoUtils#applyRegistrations, KryoSerializer#buildKryoRegistrations
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Protocol

from readers.serializers.base import KRYO_2_24 as KRYO_2_24
from readers.serializers.base import KRYO_5 as KRYO_5
from readers.serializers.protobuf import Descriptors

SCALA_TUPLE = "scala.Tuple"

PRIMITIVES = ("int", "float", "boolean", "byte", "char", "short", "long", "double")
BOX_OF = {
    name: f"java.lang.{box}"
    for name, box in zip(
        PRIMITIVES,
        ("Integer", "Float", "Boolean", "Byte", "Character", "Short", "Long", "Double"),
        strict=True,
    )
}
BOXES = frozenset(BOX_OF.values()) | {"void", "java.lang.Void"}
ARRAY_CODES = dict(zip(PRIMITIVES, "IFZBCSJD", strict=True))
ARRAY_COMPONENTS = {code: name for name, code in ARRAY_CODES.items()}


def java_util(names: str) -> tuple[str, ...]:
    """Return the class names of `java.util` that `names` lists, separated by spaces."""
    return tuple(f"java.util.{name}" for name in names.split())


COLLECTIONS = java_util(
    "ArrayList LinkedList Vector Stack ArrayDeque HashSet LinkedHashSet ArrayList$SubList "
    "concurrent.CopyOnWriteArrayList concurrent.CopyOnWriteArraySet concurrent.ConcurrentLinkedQueue "
    "concurrent.ConcurrentLinkedDeque concurrent.LinkedBlockingQueue concurrent.LinkedBlockingDeque "
    "Collections$UnmodifiableList Collections$UnmodifiableRandomAccessList Collections$UnmodifiableCollection "
    "Collections$UnmodifiableSet Collections$SynchronizedList Collections$SynchronizedRandomAccessList "
    "Collections$SynchronizedSet Collections$SynchronizedCollection"
)
IMMUTABLE_COLLECTIONS = java_util(
    "ImmutableCollections$List12 ImmutableCollections$ListN ImmutableCollections$SubList "
    "ImmutableCollections$Set12 ImmutableCollections$SetN"
)
MAPS = java_util(
    "HashMap LinkedHashMap Hashtable Properties IdentityHashMap WeakHashMap concurrent.ConcurrentHashMap "
    "ImmutableCollections$Map1 ImmutableCollections$MapN Collections$UnmodifiableMap Collections$SynchronizedMap"
)
SCALA_COLLECTIONS = tuple(
    f"scala.collection.{name}"
    for name in [
        "immutable.Vector", "immutable.Set$Set1", "immutable.Set$Set2", "immutable.Set$Set3",
        "immutable.Set$Set4", "immutable.HashSet$HashTrieSet", "immutable.Map$Map1", "immutable.Map$Map2",
        "immutable.Map$Map3", "immutable.Map$Map4", "immutable.HashMap$HashTrieMap", "mutable.HashMap",
        "mutable.HashSet",
    ]
)  # fmt: skip

# Declared types that do not decide which objects a field holds: the bytes name the class of each.
OPEN_TYPES = frozenset((
    "java.lang.Object", "java.lang.Number", "java.lang.CharSequence", "java.lang.Comparable", "java.lang.Iterable",
    "java.lang.Throwable", "java.lang.Exception", "java.lang.RuntimeException", "java.lang.Error",
    "java.io.Serializable",
    *java_util("Collection List Set SortedSet NavigableSet Queue Deque Map SortedMap NavigableMap AbstractList "
                "AbstractCollection AbstractMap AbstractSet TimeZone EnumSet concurrent.ConcurrentMap"),
    "java.time.ZoneId", "java.time.temporal.Temporal",
))  # fmt: skip

# Kryo writes values of a declared final class without their class.
FINAL = frozenset((
    *BOX_OF.values(), "java.lang.String", "java.lang.StringBuilder", "java.lang.StringBuffer", "java.lang.Class",
    "java.net.URI", "java.util.regex.Pattern", "java.util.UUID", "java.util.Optional", "java.util.Currency",
    "java.util.Locale",
    "java.time.LocalDate", "java.time.LocalTime", "java.time.LocalDateTime", "java.time.Instant", "java.time.Duration",
    "java.time.ZoneOffset", "java.time.ZonedDateTime", "java.time.OffsetDateTime", "java.time.Period",
    "org.apache.flink.types.Row",
))  # fmt: skip

ENUMS: dict[str, tuple[str, ...]] = {
    "java.util.concurrent.TimeUnit": (
        "NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS",
    ),
    "java.time.DayOfWeek": ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"),
    "java.time.Month": (
        "JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE",
        "JULY", "AUGUST", "SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER",
    ),
    "org.apache.flink.types.RowKind": ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"),
}  # fmt: skip

# Kryo registers the primitives, then Flink chill's classes, in this order (`FlinkScalaKryoInstantiator`,
# `FlinkChillPackageRegistrar`).
REGISTERED: dict[int, str] = {
    **dict(enumerate((
        "int", "java.lang.String", "float", "boolean", "byte", "char", "short", "long", "double", "void",
    ))),
    **dict(enumerate((
        *(f"scala.collection.convert.Wrappers${kind}Wrapper" for kind in ("Seq", "Iterator", "Map", "JList", "JMap")),
        "scala.Some", "scala.util.Left", "scala.util.Right", *SCALA_COLLECTIONS[:11],
        "scala.collection.immutable.Range$Inclusive", "scala.collection.immutable.NumericRange$Inclusive",
        "scala.collection.immutable.NumericRange$Exclusive", "scala.collection.mutable.BitSet",
        *SCALA_COLLECTIONS[11:], "scala.collection.convert.Wrappers$IterableWrapper",
        *(f"{SCALA_TUPLE}{arity}" for arity in range(1, 23)),
        *(f"scala.Tuple1$mc{code}$sp" for code in "JID"),
        *(f"scala.Tuple2$mc{code}$sp" for code in ["JJ", "JI", "JD", "IJ", "II", "ID", "DJ", "DI", "DD"]),
        "scala.Symbol", "scala.reflect.ClassTag", "scala.runtime.BoxedUnit",
        "java.util.Arrays$ArrayList", "java.util.BitSet", "java.util.PriorityQueue", "java.util.regex.Pattern",
        "java.sql.Date", "java.sql.Time", "java.sql.Timestamp", "java.net.URI", "java.net.InetSocketAddress",
        "java.util.UUID", "java.util.Locale", "java.text.SimpleDateFormat",
    ), 10)),
}  # fmt: skip


PROTOBUF = "com.twitter.chill.protobuf.ProtobufSerializer"

# Kryo's primitives have the ids 0–9, chill's classes those up to 84: users' registrations follow.
_FIRST_REGISTRATION = 85


@dataclass(frozen=True, slots=True)
class KryoType:
    """The declared type of a field.

    Attributes:
        name: a Java type, or a type variable: `#T` by its name, as Kryo 2.24 finds it; `com.acme.Box#T` with the class that
            declares it, as Kryo 5 does.
        arguments: its type arguments; of an array those of its component.
        is_final: Kryo writes values of it without their class.
        is_unknown: whether it is final is not known.
    """

    name: str
    arguments: tuple[KryoType, ...] = ()
    is_final: bool = False
    is_unknown: bool = False

    @property
    def is_variable(self) -> bool:
        """True for a type variable, and for an array of one."""
        return "#" in self.name


@dataclass(frozen=True, kw_only=True)
class KryoClass:
    """What the savepoint does not hold of a class.

    Attributes:
        fields: name and declared type (`int`, `java.util.List<java.lang.String>`, `final com.example.Point`). A field that
            one of a subclass hides has its class behind its name: `id(com.example.Base)`; it follows that one.
            Those of a record without type arguments: Kryo makes no use of them there.
        constants: the names, in order, if it is an enum.
        has_bodies: constants of the enum have bodies, so that the enum is not final.
        is_final: the class is final; enums are.
        message: the protobuf message that chill's `ProtobufSerializer` writes of it.
        container: the class of the JDK as which its objects are written: a subclass of a collection or of a map.
        parameters: how many type parameters it has.
        supertypes: its superclasses and interfaces, as far as they are known.
        variables: for each type parameter, and for each of its superclasses, the type variables that it stands for.
    """

    fields: tuple[tuple[str, str], ...] = ()
    constants: tuple[str, ...] = ()
    has_bodies: bool = False
    is_final: bool = False
    message: str = ""
    container: str = ""
    supertypes: frozenset[str] = frozenset()
    parameters: int = 0
    variables: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def stored_fields(self) -> tuple[tuple[str, KryoType], ...]:
        """Name and type of each field, in the order in which Kryo writes them: Java's order of their names."""
        by_name = sorted(self.fields, key=lambda known: known[0].partition("(")[0].encode("utf-16-be"))
        return tuple((name, kryo_type(declared)) for name, declared in by_name)

    @property
    def is_closed(self) -> bool:
        """True if Kryo writes values of a field of this type without their class."""
        return self.is_final or (bool(self.constants) and not self.has_bodies)


class ClassSource(Protocol):
    """What knows classes by their class files."""

    def kryo_class(self, class_name: str, version: int) -> KryoClass | None:
        """Return what a version of Kryo makes of a class; None if its layout does not follow from the class files."""

    def lacks(self, class_name: str) -> str:
        """Return why it does not follow: `com.acme.Base is in no jar`."""


# Classes of Flink that are generic types to it, so that Kryo writes them.
FLINK_CLASSES: Mapping[str, KryoClass] = {
    "org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition": KryoClass(
        fields=(("cachedHash", "int"), ("partition", "int"), ("topic", "java.lang.String")), is_final=True
    )
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
        class_files: knows further classes.
        has_row_kinds: a `Row` has a kind: since Flink 1.11.
    """

    version: int
    registrations: tuple[KryoRegistration, ...] = ()
    default_serializers: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, KryoClass] = field(default_factory=lambda: FLINK_CLASSES)
    descriptors: Descriptors | None = None
    recorded: int = field(default=0, compare=False)
    class_files: ClassSource | None = None
    has_row_kinds: bool = True

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

    def class_of(self, class_name: str) -> KryoClass | None:
        """Return what is known of a class; None if its fields are not."""
        known = self.classes.get(class_name)
        if known is not None or self.class_files is None:
            return known
        return self.class_files.kryo_class(class_name, self.version)

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


@lru_cache(maxsize=4096)
def kryo_type(text: str) -> KryoType:
    """Parse a declared type from its Java text, with `final` or `unknown`, type arguments and array brackets."""
    text = text.strip()
    is_final, is_unknown = text.startswith("final "), text.startswith("unknown ")
    text = text.removeprefix("final ").removeprefix("unknown ").strip()
    if text.endswith("[]"):
        component = kryo_type(text[:-2])
        return KryoType(array_of(component.name), component.arguments, is_final, is_unknown)
    name, bracket, rest = text.partition("<")
    if not bracket:
        return KryoType(name, (), is_final, is_unknown)
    arguments = tuple(kryo_type(argument) for argument in _arguments(rest.rsplit(">", 1)[0]))
    return KryoType(name.strip(), arguments, is_final, is_unknown)


def _arguments(text: str) -> Iterator[str]:
    """Yield the type arguments, split at the commas of the outermost level."""
    depth, start = 0, 0
    for index, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def array_of(component: str) -> str:
    """Return the class of arrays of a class."""
    return f"[{ARRAY_CODES.get(component) or (component if component.startswith('[') else f'L{component};')}"


def component_of(class_name: str) -> str:
    """Return the component class of an array class."""
    code = class_name[1:]
    return ARRAY_COMPONENTS.get(code) or (code[1:-1] if code.startswith("L") else code)
