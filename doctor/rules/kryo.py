"""Rules for Kryo. A snapshot names the class and the registrations; it holds no fields, and not whether Kryo 2 or 5 wrote it.

Flink's own verdict is AS_IS wherever the class is the same. Flink 2.0 replaced Kryo 2.24 by Kryo 5, whose bytes differ for many
classes: what each becomes was seen in real restores.

Flink: KryoSerializerSnapshot#resolveSchemaCompatibility
"""

from __future__ import annotations

from doctor.rules import types
from doctor.rules.rule import (
    DOUBT,
    FAILS_DECODING,
    FAILS_RESTORE,
    FINE,
    LOSES,
    RISK,
    Comparison,
    Context,
    Path,
    Rule,
    Verdict,
    found,
    refused,
)
from doctor.rules.types import class_changed
from readers import KryoSerializer

_REWRITE = "convert it with `savepointdb convert`, which takes those of Flink 1.16 to 1.20, or make the class a POJO before the upgrade"
_LOOK = "check with --values: only the values show it"

FIELDS_UNSEEN = RISK.rule(
    id="kryo-fields-unseen",
    change="a class that Kryo writes, unchanged by name: its fields are not in the snapshot",
    effect=(
        "Flink says nothing if fields were added, removed, renamed or retyped; hashmap then fails at restore, rocksdb at the first "
        "access, or values are garbage"
    ),
    remedy="check against the jar too, or with --values; make the class a POJO",
    shown_by="kryo-add-field kryo-rename-field pojo-list-of-pojo-add-field",
)
REGISTRATIONS_CHANGED = FINE.but(verdict=Verdict.RECONFIGURED).rule(
    id="kryo-registrations-changed",
    change="Kryo registrations added, inserted, reordered or removed while the classes stay",
    effect="the values are the same",
    shown_by="kryo-reg-add kryo-reg-first kryo-reg-reorder kryo-reg-remove",
)
REGISTERED_CLASS_GONE = FAILS_RESTORE.but(verdict=Verdict.INCOMPATIBLE).rule(
    id="kryo-registered-class-gone",
    change="a class that was registered with Kryo, or its own Kryo serializer, is no longer in the jar",
    effect="the whole operator fails when its state file is opened, whether a value is of the class or not",
    flink="IllegalStateException: Missing value for the key",
    remedy="keep the class and its Kryo serializer in the jar",
    shown_by="kryo-reg-remove-class kryo-serializer-removed kryo-serializer-removed2",
)
SERIALIZER_REMOVED = FAILS_RESTORE.rule(
    id="kryo-serializer-removed",
    change="the class had a Kryo serializer of its own, and is registered without one",
    effect="if the serializer's class is gone, the operator fails when its state file is opened; else rocksdb reads garbage",
    flink="IllegalStateException: Missing value for the key",
    remedy="keep the Kryo serializer and its registration",
    shown_by="kryo-serializer-removed kryo-serializer-removed2",
)
SERIALIZER_ADDED = FINE.but(rocksdb=LOSES).rule(
    id="kryo-serializer-added",
    change="the class gets a Kryo serializer of its own, or another one",
    effect="hashmap decodes with the old one and keeps the values; rocksdb reads garbage and says nothing",
    remedy="restore with hashmap from a canonical savepoint of Flink 1.13 or later once, or give the state a new name",
    shown_by="kryo-serializer-added2",
)
ZONES = LOSES.but(rocksdb=FINE).rule(
    id="kryo2-zones",
    change="ZonedDateTime and OffsetDateTime under Kryo 2 (Flink 1.x), the job unchanged",
    effect="the id of the zone offset is lost when hashmap writes the value: `…T01:02:03null`",
    remedy="store an Instant and the id of the zone instead",
    shown_by="kryo-type-zoned kryo-type-offsetdt pojo-duration-field",
)
OFFSETS = LOSES.rule(
    id="kryo2-offsets",
    change="ZoneOffset and OffsetTime under Kryo 2 (Flink 1.x), the job unchanged",
    effect="the id of the offset is lost when the value is written: it shows `null`, and calls on it fail",
    remedy="store the seconds of the offset instead",
    shown_by="kryo-type-offset-time com.esotericsoftware.kryo.serializers.FieldSerializer",
)
AVRO_REGISTRATION = FAILS_RESTORE.but(verdict=Verdict.INCOMPATIBLE).rule(
    id="kryo-instance-registration",
    change="1.x → 2.x: a Kryo serializer is registered as an instance, as flink-avro on the class path of 1.x does",
    effect="it is stored as an object of a class that 2.x does not have: the whole operator fails when its state file is opened",
    flink="Missing value for the key 'org.apache.avro.generic.GenericData$Array'",
    remedy=_REWRITE,
    shown_by="kryo-avro-on-cp-pojo kryo-avro-on-cp-list o.a.f.api.common.ExecutionConfig$SerializableSerializer",
)
KRYO_5_UNREADABLE = FAILS_DECODING.rule(
    id="kryo5-unreadable",
    change=(
        "ArrayDeque, Vector, CopyOnWriteArrayList, LinkedHashSet, Hashtable, Properties, IdentityHashMap under Kryo 5 (Flink 2.x), the job "
        "unchanged"
    ),
    effect="Kryo 5 makes an object without its inner array, and fails to fill it",
    flink="NullPointerException: Cannot store to object array",
    remedy="keep the elements in a ListState or a MapState, or in an ArrayList or a HashMap",
    shown_by="kryo-type-array-deque kryo-type-vector kryo-type-linked-hash-set com.esotericsoftware.kryo.serializers.CollectionSerializer",
)
UPGRADE_SAME = FINE.rule(
    id="kryo-upgrade-same",
    change="1.x → 2.x: a class whose Kryo 2 bytes Kryo 5 reads alike (URI)",
    effect="the values are the same",
    shown_by="kryo-type-uri o.a.f.api.java.typeutils.runtime.kryo.KryoSerializer",
)
UPGRADE_LOSES = LOSES.rule(
    id="kryo-upgrade-loses",
    change="1.x → 2.x: collections, maps, BitSet, Period, Year, MonthDay, OffsetTime, OptionalDouble under Kryo",
    effect="Kryo 5 reads one element too few, empty maps, other bits or numbers; no error is raised",
    remedy=_REWRITE,
    shown_by=(
        "kryo-type-arraylist kryo-type-linkedlist kryo-type-hashmap kryo-type-treemap kryo-type-bitset "
        "kryo-type-arraylist-hint kryo-type-period kryo-type-year kryo-type-month-day "
        "com.esotericsoftware.kryo.serializers.CollectionSerializer"
    ),
)
UPGRADE_FAILS = FAILS_DECODING.rule(
    id="kryo-upgrade-fails",
    change=(
        "1.x → 2.x: UUID, Locale, Duration, LocalDate, ZonedDateTime, OffsetDateTime, ZoneId, YearMonth, OptionalInt, OptionalLong, "
        "ArrayDeque, Vector, CopyOnWriteArrayList, LinkedHashSet, Pattern under Kryo"
    ),
    effect="Kryo 5 cannot read them: hashmap fails at restore, rocksdb when a value is read first, or migrated",
    flink="EOFException: Buffer underflow; DateTimeException",
    remedy=_REWRITE,
    shown_by=(
        "kryo-type-uuid kryo-type-locale kryo-type-duration kryo-type-zoned pojo-instant-field "
        "pojo-uuid-field kryo-map-key kryo-type-zone-id kryo-type-optional-long"
    ),
)
UPGRADE_UNLISTED = DOUBT.rule(
    id="kryo-upgrade-unlisted",
    change="1.x → 2.x: any other class under Kryo, above all the job's own",
    effect=(
        "Flink lets it through, and whether Kryo 5 reads the bytes of Kryo 2 depends on the fields: int, long, boolean and "
        "String are read, boxed numbers are garbage, doubles, arrays, enums and lists fail"
    ),
    remedy=_LOOK,
    shown_by="kryo-no-default-ctor kryo-final-boxed kryo-type-object kryo-type-optional kryo-in-list",
)
UPGRADE_OWN_SERIALIZER = LOSES.rule(
    id="kryo-upgrade-own-serializer",
    change="1.x → 2.x: a class with a Kryo serializer of its own, ported to Kryo 5",
    effect="its writeLong and writeInt have other bytes in Kryo 5: garbage, and no error is raised",
    remedy=_REWRITE,
    shown_by="kryo-serializer-upgrade",
)
UPGRADE_COLLECTION_FIELD = refused(
    id="kryo-upgrade-collection-field",
    change="1.x → 2.x: a field of type List, Map or Set in a POJO, which Kryo wrote in 1.x",
    effect="2.x has serializers of its own for them: the state is refused when it is declared",
    remedy=_REWRITE + "; pipeline.built-in-collection-types: false keeps Kryo, which loses elements",
    shown_by="pojo-list-field pojo-listonly-field pojo-maponly-field",
)
KEY_INVISIBLE = FAILS_RESTORE.but(rocksdb=LOSES).rule(
    id="kryo-upgrade-key",
    change="1.x → 2.x: keys that Kryo wrote",
    effect="hashmap fails at restore or reads garbage; rocksdb restores, and no key is ever found again, as its bytes differ",
    remedy=_REWRITE,
    shown_by="key-kryo-same key-kryo-reg",
)


def compare_kryo(old: KryoSerializer, new: KryoSerializer, context: Context, path: Path) -> Comparison:
    """Compare two classes that Kryo writes; what an upgrade does to their values is found by `upgraded`."""
    if old.type_class != new.type_class:
        return class_changed(old.type_class, new.type_class, context, path)
    total = _serializers(old, new, context, path)
    before = [registered.class_name for registered in old.settings.registrations]
    after = [registered.class_name for registered in new.settings.registrations]
    if before != after:
        detail = f"{len(before)} registrations → {len(after)}"
        total |= found(REGISTRATIONS_CHANGED, path, detail)
        for name in before:
            if name not in after and context.classes.has(name) is None and not name.startswith(_FLINK):
                total |= found(types.CLASS_NEEDED, path, name)
    if not context.is_upgrade and may_change(old.type_class):
        total |= found(FIELDS_UNSEEN, path, old.type_class)
    return total


def _serializers(old: KryoSerializer, new: KryoSerializer, context: Context, path: Path) -> Comparison:
    before = old.settings.serializers.get(old.type_class, "")
    after = new.settings.serializers.get(old.type_class, "")
    if before == after or context.is_upgrade:
        return Comparison()
    detail = f"{old.type_class}: {before or 'Kryo'} → {after or 'Kryo'}"
    # A serializer that is still on the class path can decode, and rocksdb reads with the new one all the same.
    if before and context.classes.has(before) is not True:
        return found(SERIALIZER_REMOVED, path, detail)
    return found(SERIALIZER_ADDED, path, detail)


def may_change(class_name: str) -> bool:
    """Return whether the bytes of a class depend on classes of the job: its own classes, and types that hold any object."""
    return not class_name.startswith(("java.", "javax.")) or class_name in _OPEN or class_name in _LOST


def upgraded(old: KryoSerializer, path: Path) -> Comparison:
    """Return what Kryo 5 makes of values of a class that Kryo 2 wrote."""
    name = old.type_class
    if name in old.settings.serializers:
        return found(UPGRADE_OWN_SERIALIZER, path, name)
    rule = _UPGRADES.get(name, UPGRADE_UNLISTED)
    return found(rule, path, name)


def refilled(old: KryoSerializer, path: Path) -> Comparison:
    """Return what Kryo 5 does to collections of the JDK that it cannot fill, without any upgrade."""
    return found(KRYO_5_UNREADABLE, path, old.type_class) if old.type_class in _UNFILLED else Comparison()


def zoned(old: KryoSerializer, path: Path) -> Comparison:
    """Return what Kryo 2 does to dates with zones, without any upgrade."""
    if old.type_class in _OFFSETS:
        return found(OFFSETS, path, old.type_class)
    return found(ZONES, path, old.type_class) if old.type_class in _ZONED else Comparison()


def unloadable(old: KryoSerializer, context: Context, path: Path) -> Comparison:
    """Return the findings about what a snapshot of Kryo needs before any value is read."""
    total = Comparison()
    settings = old.settings
    if context.is_upgrade and settings.recorded == _KRYO_2:
        total |= found(AVRO_REGISTRATION, path, old.type_class)
    for registration in settings.registrations:
        for name in (registration.class_name, registration.serializer):
            # Flink registers a dummy of its own where flink-avro is not on the class path.
            if name and not name.startswith(_FLINK) and context.classes.has(name) is False:
                total |= found(REGISTERED_CLASS_GONE, path, name)
    return total


_KRYO_2 = 2
_FLINK = ("org.apache.flink.", "org.apache.avro.")
_UNFILLED = frozenset(
    f"java.util.{name}"
    for name in (
        "ArrayDeque", "Vector", "Stack", "concurrent.CopyOnWriteArrayList", "LinkedHashSet",
        "Hashtable", "Properties", "IdentityHashMap",
    )
)  # fmt: skip
_OFFSETS = frozenset({"java.time.ZoneOffset", "java.time.OffsetTime"})
_ZONED = frozenset({"java.time.ZonedDateTime", "java.time.OffsetDateTime"})
# Types that hold objects of any class.
_OPEN = frozenset({"java.lang.Object", "java.util.Optional", "java.io.Serializable", "java.lang.Comparable"})
_LOST = frozenset(
    f"java.util.{name}"
    for name in (
        "List", "Set", "Map", "Collection", "Queue", "Deque", "SortedMap", "SortedSet", "NavigableMap", "NavigableSet",
        "ArrayList", "LinkedList", "Vector", "Stack", "ArrayDeque", "PriorityQueue", "HashSet", "LinkedHashSet", "TreeSet",
        "HashMap", "LinkedHashMap", "TreeMap", "Hashtable", "IdentityHashMap", "WeakHashMap", "concurrent.ConcurrentHashMap",
        "concurrent.CopyOnWriteArrayList", "BitSet",
    )
)  # fmt: skip
_FAILING = (
    "java.util.UUID", "java.util.Locale", "java.time.Duration", "java.time.LocalDate",
    "java.time.ZonedDateTime", "java.time.OffsetDateTime", "java.time.ZoneId", "java.time.YearMonth",
    "java.util.OptionalInt", "java.util.OptionalLong", "java.util.ArrayDeque", "java.util.Vector",
    "java.util.LinkedHashSet", "java.util.regex.Pattern", "java.util.concurrent.CopyOnWriteArrayList",
)  # fmt: skip
# Kryo 5 reads other numbers.
_OTHER = (
    "java.time.Period", "java.time.Year", "java.time.MonthDay", "java.time.OffsetTime",
    "java.time.ZoneOffset", "java.util.OptionalDouble",
)  # fmt: skip
_UPGRADES: dict[str, Rule] = (
    dict.fromkeys((*_LOST, *_OTHER), UPGRADE_LOSES)
    | dict.fromkeys(_FAILING, UPGRADE_FAILS)
    | {"java.net.URI": UPGRADE_SAME}
)
COLLECTION_FIELDS = frozenset({"java.util.List", "java.util.Map", "java.util.Set"})
"""Declared types of fields that Flink 2.x gives serializers of its own; in 1.x Kryo wrote them."""
