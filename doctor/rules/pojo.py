"""Rules for POJOs and records: fields are compared by declaring class and name.

Flink looks the fields of the savepoint up in the new class by reflection, from their declaring class upwards. The hashmap backend
decodes values into objects of the *new* class with the *old* serializers, by `Field#set`: it unboxes and widens primitives, and takes
references of the declared class and its subclasses (`is_assignable`).

Flink: PojoSerializerSnapshot#resolveSchemaCompatibility, PojoFieldUtils#getField
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from doctor.report import DROPPED, Change, Mend
from doctor.rules import types
from doctor.rules.rule import (
    FAILS_REGISTER,
    FAILS_RESTORE,
    FINE,
    LOSES,
    RISK,
    Comparison,
    Context,
    Path,
    Verdict,
    found,
    joined,
    refused,
    retype,
    walk,
)
from doctor.rules.types import class_changed
from readers import (
    EnumSerializer,
    KryoSerializer,
    ListSerializer,
    MapSerializer,
    NullableSerializer,
    PojoField,
    PojoSerializer,
    RowSerializer,
    Serializer,
    TupleSerializer,
)

_WIDER = tuple(f"java.lang.{name}" for name in ("Byte", "Short", "Integer", "Long", "Float", "Double"))
_CHAR = "java.lang.Character"
_NUMBERS = {name: _WIDER[index:] for index, name in enumerate(_WIDER)} | {_CHAR: (_CHAR, *_WIDER[2:])}
_PRIMITIVES = dict(
    zip(("byte", "short", "int", "long", "float", "double", "char"), (*_WIDER, _CHAR), strict=True)
) | {"boolean": "java.lang.Boolean"}
_ANY = "java.lang.Object"
_COMPARED = {"java.io.Serializable", "java.lang.Comparable"}
# Flink gives serializers to fields of these types, and decodes these classes.
_INTERFACES = {
    "java.util.ArrayList": "java.util.List",
    "java.util.HashMap": "java.util.Map",
    "java.util.HashSet": "java.util.Set",
}
_BASIC = {
    f"{short}Serializer": name
    for short, name in zip(
        ("Byte", "Short", "Int", "Long", "Float", "Double", "Char"), (*_WIDER, _CHAR), strict=True
    )
} | {
    "BooleanSerializer": "java.lang.Boolean",
    "StringSerializer": "java.lang.String",
    "BigDecSerializer": "java.math.BigDecimal",
    "BigIntSerializer": "java.math.BigInteger",
    "DateSerializer": "java.util.Date",
    "SqlDateSerializer": "java.sql.Date",
    "SqlTimeSerializer": "java.sql.Time",
    "SqlTimestampSerializer": "java.sql.Timestamp",
    "InstantSerializer": "java.time.Instant",
    "LocalDateSerializer": "java.time.LocalDate",
    "LocalTimeSerializer": "java.time.LocalTime",
    "LocalDateTimeSerializer": "java.time.LocalDateTime",
}
FIELD_ADDED = FINE.but(verdict=Verdict.MIGRATION).rule(
    id="pojo-field-added",
    change="a field added to a POJO or record",
    effect="the values are migrated; the new field has the default of the constructor (null, 0)",
    remedy="if the default is not right, set the field with `UPDATE` before the restore",
    shown_by="pojo-add-field pojo-super-add-field record-add-component pojo-nested-add-field",
)
FIELD_REMOVED = LOSES.but(verdict=Verdict.MIGRATION).rule(
    id="pojo-field-removed",
    change="a field removed from a POJO or record, or renamed, which is removed and added",
    effect="the values of the field are dropped without an error; if it became `transient` or static, the restore fails",
    remedy="keep the field, or rename it in the savepoint with `ALTER TABLE … RENAME COLUMN`",
    shown_by="pojo-remove-field pojo-rename-field pojo-field-transient",
)
COMPONENT_REMOVED = FAILS_RESTORE.but(verdict=Verdict.MIGRATION, rocksdb=FAILS_REGISTER).rule(
    id="record-component-removed",
    change=(
        "a component removed from a record whose other components are in alphabetical order, at least one after it"
    ),
    effect=(
        "Flink takes such a record for unchanged, and counts the removed component too: hashmap fails when it decodes values, "
        "rocksdb while it migrates"
    ),
    flink="ArrayIndexOutOfBoundsException: Index … out of bounds for length …",
    remedy="keep the component, or declare the others in another order than that of the alphabet",
    shown_by="record-remove-component o.a.f.api.java.typeutils.runtime.JavaRecordBuilderFactory",
)
FIELD_TRANSIENT = FAILS_REGISTER.rule(
    id="pojo-field-transient",
    change="a field of a POJO that became transient or static",
    effect="Flink finds the field in the class and no serializer for it: its check of the types itself fails",
    flink="a present field should have its associated new field serializer available",
    remedy="remove the field instead, or keep it as it was",
    shown_by="pojo-field-transient o.a.f.api.java.typeutils.runtime.PojoSerializerSnapshot",
)
FIELD_MOVED_DOWN = LOSES.but(verdict=Verdict.MIGRATION).rule(
    id="pojo-field-moved-down",
    change="a field moved from a superclass into the class",
    effect="Flink looks it up in the superclass only: its values are dropped without an error",
    remedy="leave the field in the superclass",
    shown_by="pojo-field-from-superclass o.a.f.api.java.typeutils.runtime.PojoFieldUtils",
)
SUPERCLASS_RENAMED = LOSES.but(verdict=Verdict.MIGRATION).rule(
    id="pojo-superclass-renamed",
    change="a superclass that declares fields has another name, or another superclass has its fields now",
    effect="Flink looks for them in the old one: their values are dropped without an error; if it is still there, it fails",
    remedy="keep the name of the superclass",
    shown_by="pojo-superclass-renamed pojo-field-to-lower-superclass o.a.f.api.java.typeutils.runtime.PojoFieldUtils",
)
FIELD_DETACHED = FAILS_RESTORE.but(verdict=Verdict.INCOMPATIBLE, rocksdb=FAILS_REGISTER).rule(
    id="pojo-field-detached",
    change="a POJO no longer extends the class that declares a field, and that class is still in the jar",
    effect="Flink finds the field and cannot set it: hashmap fails when it decodes values, rocksdb when it compares or migrates them",
    flink="IllegalArgumentException: Can not set … field",
    remedy="keep the superclass, or remove the old one from the jar too, and lose its fields",
    shown_by="pojo-superclass-renamed-kept o.a.f.api.java.typeutils.runtime.PojoFieldUtils",
)
FIELD_MOVED = RISK.rule(
    id="pojo-field-moved",
    change="a field moved between two superclasses",
    effect="upwards its values are kept, downwards they are dropped without an error",
    remedy="check against the jar too: it shows which superclass is above the other",
    shown_by="pojo-field-to-upper-superclass pojo-field-to-lower-superclass o.a.f.api.java.typeutils.runtime.PojoFieldUtils",
)
FIELD_RETYPED = FAILS_RESTORE.but(verdict=Verdict.INCOMPATIBLE, rocksdb=FAILS_REGISTER).rule(
    id="pojo-field-retyped",
    change="a field of a POJO with another type, to which Java cannot assign the old values",
    effect="hashmap: the old value cannot be set when values are decoded; rocksdb: the state is refused when it is declared",
    flink="IllegalArgumentException: Can not set … field",
    remedy="keep the type and add a field, or retype it in the savepoint with `ALTER TABLE … ALTER COLUMN`",
    shown_by=(
        "pojo-retype-long-string pojo-tuple-field-arity pojo-list-to-set pojo-retype-int-boxed-long "
        "pojo-nested-class-renamed-kept nested-retype-broadcast-value"
    ),
)
FIELD_RETYPED_ASSIGNABLE = refused(
    id="pojo-field-retyped-assignable",
    change="a field of a POJO with another type, to which Java can assign the old values (int → long)",
    remedy="keep the type and add a field, or retype it in the savepoint with `ALTER TABLE … ALTER COLUMN`",
    shown_by="pojo-list-field pojo-retype-integer-number pojo-linkedlist-to-list o.a.f.api.java.typeutils.runtime.PojoSerializerSnapshot",
)
NESTED_UNREADABLE = FAILS_RESTORE.but(verdict=Verdict.MIGRATION).rule(
    id="pojo-nested-unreadable",
    change="the class of a field is gone, or an enum in a field lost a constant",
    effect="the whole operator fails when its state file is opened, whatever Flink's verdict is",
    flink="IllegalStateException: field serializer snapshots should be present.",
    remedy="keep the class and its constants in the jar",
    shown_by="pojo-field-enum-remove o.a.f.api.java.typeutils.runtime.PojoSerializerSnapshot",
)
REGISTRATION_CHANGED = FINE.but(verdict=Verdict.RECONFIGURED).rule(
    id="pojo-registrations-changed",
    change="registered subclasses added, removed or reordered; subclasses met that are not registered",
    effect="the values are the same",
    shown_by="pojo-subclass-register-add pojo-subclass-register-reorder key-pojo-subclass-register",
)
SUBCLASSES_UNSEEN = RISK.rule(
    id="pojo-subclasses-unseen",
    change="values of subclasses that the snapshot does not list",
    effect=(
        "the first hashmap snapshot of a job lists no unregistered subclass, even if values are of one: if the new job lacks it, "
        "or adds a field to it, the restore fails"
    ),
    flink="EOFException",
    remedy="check with --values, and register the subclasses",
    shown_by="pojo-subclass-add-field pojo-subclass-class-gone",
)
POJO_TO_KRYO = FAILS_RESTORE.but(verdict=Verdict.INCOMPATIBLE, rocksdb=FAILS_REGISTER).rule(
    id="pojo-to-kryo",
    change="a class is no longer a POJO to Flink, so Kryo writes it; as far as is known it lost its default constructor",
    effect="the state is refused when it is declared; hashmap: without the constructor no value can be decoded either",
    flink="The new state serializer must not be incompatible with the old state serializer",
    remedy="make it a POJO again: public class, public default constructor, public fields or getters and setters",
    shown_by="pojo-to-kryo-ctor",
)
POJO_TO_KRYO_READABLE = refused(
    id="pojo-to-kryo-readable",
    change="a class is no longer a POJO to Flink, so Kryo writes it; it still has its default constructor (a getter or setter lost)",
    remedy="make it a POJO again: public class, public default constructor, public fields or getters and setters",
    shown_by="o.a.f.api.java.typeutils.runtime.PojoSerializer o.a.f.api.java.typeutils.TypeExtractor",
)
POJO_TO_OTHER = refused(
    id="pojo-to-other",
    change="a POJO is read by another serializer, as Kryo → POJO or POJO → Avro reflect",
    remedy="keep the way in which the class is serialised, or give the state a new name and copy its values",
    shown_by="pojo-to-avro-reflect own-serializer-to-pojo",
)


def _util(*names: str) -> set[str]:
    return {f"java.util.{name}" for name in names} | {"java.lang.Iterable"}


_LIST = _util("List", "Collection")
_SET = _util("Set", "Collection")
_QUEUE = _util("Queue", "Collection")
# What a value of a class may be assigned to; that of an interface is of the class that is usually made for it.
_SUPERTYPES: dict[str, set[str]] = {
    **{f"java.util.{name}": _LIST for name in ("ArrayList", "Vector", "Stack", "concurrent.CopyOnWriteArrayList")},
    **{f"java.util.{name}": _LIST | _util("ArrayList") for name in ("List", "Collection")},
    "java.util.LinkedList": _LIST | _QUEUE | _util("Deque"),
    "java.util.ArrayDeque": _QUEUE | _util("Deque"),
    "java.util.PriorityQueue": _QUEUE,
    "java.util.HashSet": _SET,
    "java.util.Set": _SET | _util("HashSet"),
    "java.util.LinkedHashSet": _SET | _util("HashSet"),
    "java.util.TreeSet": _SET | _util("SortedSet", "NavigableSet"),
    "java.util.HashMap": {"java.util.Map"},
    "java.util.Map": {"java.util.HashMap"},
    "java.util.LinkedHashMap": {"java.util.Map", "java.util.HashMap"},
    "java.util.TreeMap": {"java.util.Map", "java.util.SortedMap", "java.util.NavigableMap"},
    "java.util.concurrent.ConcurrentHashMap": {"java.util.Map", "java.util.concurrent.ConcurrentMap"},
    **{name: {"java.lang.Number", *_COMPARED} for name in (*_WIDER, "java.math.BigDecimal", "java.math.BigInteger")},
    **dict.fromkeys((_CHAR, "java.lang.Boolean", "java.util.Date", "java.util.UUID"), _COMPARED),
    "java.lang.String": {"java.lang.CharSequence", *_COMPARED},
    **{f"java.sql.{name}": {"java.util.Date", *_COMPARED} for name in ("Date", "Time", "Timestamp")},
    **{
        f"java.time.{name}": {"java.time.temporal.Temporal", *_COMPARED}
        for name in ("Instant", "LocalDate", "LocalTime", "LocalDateTime")
    },
}  # fmt: skip


def is_assignable(
    old: Serializer, new: Serializer, declared: str | None, extends: Callable[[str, str], bool | None]
) -> bool:
    """Return whether values that `old` decodes can be assigned to a field whose type `new` serializes.

    Args:
        old, new: the serializers.
        declared: the class of the field, or its primitive; None where no jar tells, then its serializer does.
        extends: whether a class extends or implements another one.
    """
    value, told = _class_of(old), _class_of(new)
    # What a number is declared as is not known without a jar: most likely a primitive.
    target = _PRIMITIVES.get(declared, declared) if declared is not None else _declared_as(new, told)
    if value in _NUMBERS and target in _NUMBERS:
        # A primitive takes narrower numbers too, an object of its class takes none.
        is_primitive = declared is None or declared in _PRIMITIVES
        return target in _NUMBERS[value] if is_primitive else value == target
    return (
        value in (target, told)
        or target == _ANY
        or target in _SUPERTYPES.get(value, ())
        or target in _superclasses(old)
        or extends(value, target) is True
    )


def _declared_as(serializer: Serializer, value: str) -> str:
    # Kryo writes a field that is declared as the class itself.
    return value if isinstance(serializer, KryoSerializer) else _INTERFACES.get(value, value)


def _superclasses(serializer: Serializer) -> frozenset[str]:
    """Return the superclasses of a POJO that declare fields of it: no snapshot names the others."""
    if not isinstance(serializer, PojoSerializer):
        return frozenset()
    return frozenset(field.declared_in for field in serializer.fields if field.declared_in)


def _class_of(serializer: Serializer) -> str:
    """Return the class of the values of a serializer."""
    if isinstance(serializer, NullableSerializer):
        return _class_of(serializer.inner)
    if isinstance(serializer, KryoSerializer):
        return serializer.type_class
    if isinstance(serializer, PojoSerializer):
        return serializer.pojo_class
    if isinstance(serializer, EnumSerializer):
        return serializer.enum_class
    if isinstance(serializer, TupleSerializer):
        return serializer.tuple_class
    if isinstance(serializer, RowSerializer):
        return "org.apache.flink.types.Row"
    if type(serializer) is ListSerializer:
        return "java.util.ArrayList"
    if type(serializer) is MapSerializer:
        return "java.util.HashMap"
    if serializer.java_class.endswith(".SetSerializer"):
        return "java.util.HashSet"
    return _BASIC.get(serializer.java_class.rsplit(".", 1)[-1], serializer.type_name)


def compare_pojos(old: PojoSerializer, new: PojoSerializer, context: Context, path: Path) -> Comparison:
    """Compare two POJOs."""
    if old.pojo_class != new.pojo_class:
        return class_changed(old.pojo_class, new.pojo_class, context, path, retype(path, new))
    total = _fields(old, new, context, path) | _registrations(old, new, context, path)
    if context.decodes_all and not old.registered and not old.non_registered:
        total |= found(SUBCLASSES_UNSEEN, path, old.pojo_class)
    return total


def _fields(old: PojoSerializer, new: PojoSerializer, context: Context, path: Path) -> Comparison:
    total = Comparison()
    known = {field.name: field for field in new.fields if not field.hidden}
    # Two classes of a hierarchy may have fields of one name.
    declared = {(field.declared_in, field.name): field for field in new.fields if not field.hidden}
    kept = set()
    remaining: list[str | None] = []
    for field in old.fields:
        if field.hidden:
            # The class that wrote the savepoint had lost the field already.
            total |= Comparison(verdict=Verdict.MIGRATION)
            remaining.append(None)
            continue
        at = (*path, field.name)
        same = declared.get((field.declared_in, field.name))
        now = same or known.get(field.name)
        owner = context.classes.jar.owner(field.declared_in or old.pojo_class, field.name)
        if owner and context.classes.jar.extends(old.pojo_class, owner) is False:
            total |= found(FIELD_DETACHED, at, f"{old.pojo_class} no longer extends {owner}")
            continue
        if now is None and owner:
            total |= found(FIELD_TRANSIENT, at, f"{old.pojo_class}.{field.name}")
            continue
        if now is None:
            gone = f"{old.pojo_class} no longer has {field.name}"
            total |= found(FIELD_REMOVED, at, gone, mend=_renamed(old, new, field, at))
            total |= _needed(field, context, at)
            remaining.append(None)
            continue
        remaining.append(field.name)
        moved = Comparison() if same else _moved(old, new, field, owner, at)
        total |= moved
        if moved.verdict is Verdict.MIGRATION:
            continue
        kept.add((now.declared_in, now.name))
        total |= _retyped(field, now, new, context, at)
    for added in new.fields:
        if not added.hidden and (added.declared_in, added.name) not in kept:
            total |= found(FIELD_ADDED, (*path, added.name), f"{old.pojo_class} has a new field {added.name}")
    return total | _components(old, remaining, context, path)


def _renamed(old: PojoSerializer, new: PojoSerializer, gone: PojoField, path: Path) -> Mend:
    """Return how a field goes: if one field alone went and one of the same type came, it may have another name now."""
    names = [{field.name for field in pojo.fields if not field.hidden} for pojo in (old, new)]
    added = [field for field in new.fields if not field.hidden and field.name not in names[0]]
    if len(names[0] - names[1]) == 1 and len(added) == 1 and added[0].serializer == gone.serializer:
        return Mend(change=Change.RENAME_FIELD, path=path, value=added[0].name, is_assumed=True)
    return replace(DROPPED, path=path)


def _components(old: PojoSerializer, remaining: list[str | None], context: Context, path: Path) -> Comparison:
    """Return the finding about a record that lost components.

    Its constructor is called with the fields by their place in the savepoint where the names that are left are those of the
    components, in their order; else by their place in the constructor.
    """
    components = context.classes.jar.components(old.pojo_class)
    if components is None or tuple(name for name in remaining if name is not None) != components:
        return Comparison()
    # A removed field behind all others is never set.
    if None not in remaining[: len(components)]:
        return Comparison()
    return found(COMPONENT_REMOVED, path, f"{old.pojo_class} has only {', '.join(components)}")


def _needed(field: PojoField, context: Context, path: Path) -> Comparison:
    """Return the findings about classes that the snapshot of a removed field still names."""
    classes = [
        node.pojo_class if isinstance(node, PojoSerializer) else node.enum_class
        for _, node in walk(field.serializer)
        if isinstance(node, PojoSerializer | EnumSerializer)
    ]
    return joined(
        found(types.CLASS_NEEDED, path, name) for name in classes if context.classes.has(name) is None
    )


def _moved(
    old: PojoSerializer, new: PojoSerializer, before: PojoField, owner: str | None, path: Path
) -> Comparison:
    """Return the finding about a field that another class of the hierarchy declares now.

    Args:
        old, new: the POJO.
        before: the field in the savepoint.
        owner: the class in which the lookup finds it; empty for none, None where no jar tells.
        path: the path that leads to it.
    """
    # The lookup walks up: what was declared in the class itself is found in any superclass.
    if owner or not before.declared_in or before.declared_in == old.pojo_class:
        return Comparison()
    now = next(field.declared_in for field in new.fields if field.name == before.name and not field.hidden)
    if not now:
        return Comparison()
    detail = f"{before.name} moved from {before.declared_in} to {now}"
    if now == old.pojo_class:
        return found(FIELD_MOVED_DOWN, path, detail)
    is_renamed = before.declared_in not in _declaring(new) and now not in _declaring(old)
    return found(SUPERCLASS_RENAMED if is_renamed or owner == "" else FIELD_MOVED, path, detail)


def _declaring(pojo: PojoSerializer) -> frozenset[str]:
    return frozenset(field.declared_in for field in pojo.fields)


def _retyped(
    before: PojoField, now: PojoField, new: PojoSerializer, context: Context, path: Path
) -> Comparison:
    nested = context.compare(before.serializer, now.serializer, context, path)
    if nested.verdict is not Verdict.INCOMPATIBLE:
        return nested
    unreadable = (types.CLASS_GONE, types.ENUM_REMOVED)
    if any(finding.rule in unreadable and finding.path == path for finding in nested.findings):
        return nested | found(NESTED_UNREADABLE, path, _change(before, now))
    one, other = before.serializer, now.serializer
    if (
        isinstance(one, PojoSerializer)
        and isinstance(other, PojoSerializer)
        and one.pojo_class == other.pojo_class
    ):
        return nested
    declared = context.classes.jar.declared_class(now.declared_in or new.pojo_class, now.name)
    assignable = is_assignable(one, other, declared, context.classes.jar.extends)
    return nested | found(
        FIELD_RETYPED_ASSIGNABLE if assignable else FIELD_RETYPED,
        path,
        _change(before, now),
        mend=retype(path, now.serializer),
    )


def _change(before: PojoField, now: PojoField) -> str:
    return f"{before.name}: {before.serializer.type_name} → {now.serializer.type_name}"


def _registrations(old: PojoSerializer, new: PojoSerializer, context: Context, path: Path) -> Comparison:
    total = Comparison()
    before, after = dict(old.registered), dict(new.registered)
    described = after | dict(new.non_registered)
    for name, serializer in old.registered + old.non_registered:
        at = (*path, f"({name})")
        now = described.get(name)
        if now is None and context.classes.has(name) is None:
            # A job that has met other subclasses, or registers others, and not this one, has most likely lost it; one that
            # registers none any more has more likely dropped the registrations.
            lost = bool(new.non_registered) or (name in before and bool(after))
            detail = f"{name}, unless it is still in the jar" if lost else name
            total |= found(types.CLASS_GONE if lost else types.CLASS_NEEDED, at, detail)
        elif now is not None and (name in before) and (name in after):
            total |= context.compare(serializer, now, context, at)
    order = tuple(after)[: len(before)] != tuple(before)
    if order or old.non_registered:
        total |= found(REGISTRATION_CHANGED, path, old.pojo_class)
    return total
