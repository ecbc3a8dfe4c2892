"""Classes that Kryo, chill and Flink know by themselves: their names, final ones, enums, registration ids."""

from __future__ import annotations

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
