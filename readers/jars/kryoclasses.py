"""The classes of a class path as Kryo writes their objects: fields with their declared types, constants, containers.

`FieldSerializer` writes the fields of a class and of its superclasses that are neither static nor transient. What stands in
a field depends on more than its class file: whether the declared class is final, and what its type variables are bound to.

| | Kryo 2.24 | Kryo 5 |
|---|---|---|
| synthetic fields, as `this$0` | written: chill asks for them | not written |
| type variable of a field | by its name, as it is bound when the object is read | resolved along the superclasses first |
| wildcard | Object | its bound |

Source: `com.esotericsoftware.kryo.serializers.FieldSerializer`, `FieldSerializerGenericsUtil` (2.24), `CachedFields`,
`com.esotericsoftware.kryo.util.GenericsUtil` (5); `com.twitter.chill.KryoBase#newDefaultSerializer`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from readers.errors import ReaderError
from readers.jars.classfile import INTERFACE, STATIC, SYNTHETIC, TRANSIENT, ClassField, ClassFile
from readers.jars.classpath import ClassPath
from readers.jars.signatures import JavaType
from readers.serializers.kryo import settings
from readers.serializers.kryo.settings import KRYO_5, KryoClass

_MAX_SUPERCLASSES = 256
_NAME = re.compile(r"[\w.$-]+")
# Kryo's annotations change how a field is written, but for this one, which leaves it out.
_ANNOTATIONS = "Lcom/esotericsoftware/kryo/"
_LEAVES_OUT = "Lcom/esotericsoftware/kryo/serializers/FieldSerializer$Optional;"
_WITHOUT_FIELDS = frozenset(("java.lang.Object", "java.lang.Record", "java.lang.Number", "java.lang.Enum"))
_WRITES_ITSELF = "com.esotericsoftware.kryo.KryoSerializable"

# The first supertype of a class that is in here decides how Kryo writes it, in this order.
_CONTAINERS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset(("java.util.TreeSet",)), "java.util.TreeSet"),
    (frozenset(("java.util.PriorityQueue",)), "java.util.PriorityQueue"),
    (
        frozenset(settings.COLLECTIONS)
        | frozenset(
            settings.java_util(
                "Collection List Set SortedSet NavigableSet Queue Deque AbstractCollection AbstractList AbstractSet "
                "AbstractQueue AbstractSequentialList"
            )
        ),
        "java.util.ArrayList",
    ),
    (frozenset(("java.util.TreeMap",)), "java.util.TreeMap"),
    (
        frozenset(settings.MAPS)
        | frozenset(settings.java_util("Map SortedMap NavigableMap AbstractMap concurrent.ConcurrentMap")),
        "java.util.HashMap",
    ),
)
# Kryo or chill have serializers for all subclasses of these.
_WITH_SERIALIZERS = frozenset((
    *settings.java_util("Date TimeZone Calendar Locale EnumSet Currency EnumMap BitSet"), "java.lang.Throwable",
    "java.lang.Exception", "java.lang.RuntimeException", "java.lang.Error", "java.nio.charset.Charset",
    "scala.collection.Traversable", "scala.collection.TraversableOnce", "scala.collection.Iterable",
))  # fmt: skip
# Of the JDK, of Scala and of Flink, beside those of which Kryo knows it anyway.
_FINAL_CLASSES = settings.FINAL | {
    "java.net.URL", "java.net.Inet4Address", "java.net.Inet6Address", "java.time.Year",
    "java.time.YearMonth", "java.time.MonthDay", "java.time.OffsetTime", "scala.Some",
    *settings.java_util("OptionalInt OptionalLong OptionalDouble StringJoiner"),
}  # fmt: skip
_OPEN_CLASSES = settings.OPEN_TYPES | {
    "scala.Option", "scala.collection.Seq", "scala.collection.Map", "scala.collection.Set",
    "scala.collection.immutable.Seq", "scala.collection.immutable.List", "scala.collection.immutable.Map",
    "scala.collection.immutable.Set", "scala.math.BigDecimal", "org.apache.flink.types.Either",
    "org.apache.flink.streaming.api.windowing.windows.Window",
    "org.apache.flink.streaming.api.windowing.windows.TimeWindow",
    "org.apache.flink.streaming.api.windowing.windows.GlobalWindow",
}  # fmt: skip
_OPEN_PREFIXES = ("java.", "javax.", "org.apache.flink.api.java.tuple.Tuple", settings.SCALA_TUPLE)


class KryoClasses:
    """What Kryo makes of the classes of a class path: a `ClassSource`. Safe to share between threads.

    Args:
        class_path: the classes.
    """

    def __init__(self, class_path: ClassPath) -> None:
        self._class_path = class_path
        self._known: dict[tuple[str, int], KryoClass | None] = {}
        self._lacking: dict[str, str] = {}

    def kryo_class(self, class_name: str, version: int) -> KryoClass | None:
        """Return what a version of Kryo makes of a class; None if its layout does not follow from the class files."""
        key = class_name, version
        if key not in self._known:
            try:
                self._known[key] = self._read(class_name, version)
            except ReaderError as error:
                self._known[key] = None
                self._lacking[class_name] = str(error)
        return self._known[key]

    def lacks(self, class_name: str) -> str:
        """Return why its layout does not follow from the class files."""
        return self._lacking.get(class_name, f"{class_name} is in no jar")

    def _read(self, class_name: str, version: int) -> KryoClass | None:
        found = self._class_path.find(class_name)
        if found is None:
            return None
        # A constant with a body has a class of its own.
        if found.is_enum and found.super_name not in (None, "java.lang.Enum"):
            return self.kryo_class(found.super_name, version)
        if found.is_enum:
            return KryoClass(
                constants=found.enum_constants, is_final=found.is_final, has_bodies=not found.is_final
            )
        if found.access & INTERFACE:
            return KryoClass()
        chain = list(self._chain(found))
        supertypes = self._supertypes(chain)
        container = next((shown for group, shown in _CONTAINERS if not group.isdisjoint(supertypes)), "")
        reason = self._obstacle(chain, supertypes, has_fields=not container)
        if reason:
            self._lacking[class_name] = reason
            return None
        fields = () if container else tuple(self._fields(chain, version))
        own = found.generics.parameters
        return KryoClass(
            fields=fields,
            is_final=found.is_final,
            container=container,
            supertypes=supertypes,
            parameters=len(own),
            variables=(
                tuple(_variables(chain)) if version >= KRYO_5 else tuple((f"#{name}",) for name, _ in own)
            ),
        )

    def _chain(self, found: ClassFile) -> Iterator[ClassFile]:
        """Yield a class and its superclasses, as far as they are in the class path."""
        current: ClassFile | None = found
        for _ in range(_MAX_SUPERCLASSES):
            if current is None:
                return
            yield current
            current = self._class_path.find(current.super_name) if current.super_name else None

    def _supertypes(self, chain: list[ClassFile]) -> frozenset[str]:
        """Return the names of the superclasses and of all interfaces, as far as they are known."""
        found = {each.super_name for each in chain if each.super_name}
        open_ = [name for each in chain for name in each.interfaces]
        while open_:
            name = open_.pop()
            if name in found:
                continue
            found.add(name)
            above = self._class_path.find(name)
            open_ += above.interfaces if above is not None else ()
        return frozenset(found)

    def _obstacle(self, chain: list[ClassFile], supertypes: frozenset[str], *, has_fields: bool) -> str:
        """Return why the layout of a class is not known; empty if it is."""
        name, last = chain[0].name, chain[-1].super_name
        if any(annotation.startswith(_ANNOTATIONS) for annotation in chain[0].annotations):
            return f"{name} names a serializer of its own"
        if _WRITES_ITSELF in supertypes:
            return f"{name} writes itself"
        special = supertypes & _WITH_SERIALIZERS
        if special:
            return f"{name} is written as a {min(special)}"
        if not has_fields:
            return ""
        if len(chain) >= _MAX_SUPERCLASSES:
            return f"{name} has more than {_MAX_SUPERCLASSES} superclasses"
        if last is not None and last not in _WITHOUT_FIELDS:
            return f"{last} is in no jar"
        for each in chain:
            for known in each.fields:
                if not known.is_static and any(
                    annotation.startswith(_ANNOTATIONS) and annotation != _LEAVES_OUT
                    for annotation in known.annotations
                ):
                    return f"{each.name}.{known.name} has an annotation of Kryo's"
        return ""

    def _fields(self, chain: list[ClassFile], version: int) -> Iterator[tuple[str, str]]:
        """Yield name and declared type of each field that Kryo writes, those of the class first."""
        if chain[0].record_components is not None:
            for component in chain[0].record_components:
                yield component.name, self._named(_erased(component.type))
            return
        names: set[str] = set()
        for declaring in chain:
            for known in declaring.fields:
                if not _is_written(known, version):
                    continue
                shown = known.name if known.name not in names else f"{known.name}({declaring.name})"
                names.add(known.name)
                if version >= KRYO_5:
                    yield shown, self._text_5(known.type, declaring, chain[0])
                else:
                    yield shown, self._text_2(known.type)

    # ---- Kryo 2.24 ----

    def _text_2(self, declared: JavaType) -> str:
        if declared.kind == "variable":
            return f"#{declared.name}"
        if declared.kind == "wildcard":
            return "java.lang.Object"
        if declared.kind == "array":
            return _array(self._text_2(declared.component))
        return self._named(declared, tuple(self._text_2(argument) for argument in declared.arguments))

    # ---- Kryo 5 ----

    def _text_5(self, declared: JavaType, declaring: ClassFile, concrete: ClassFile) -> str:
        if declared.kind in ("variable", "wildcard"):
            return self._text_of(self._resolved(declared, declaring, concrete))
        if declared.kind == "array":
            return _array(self._text_5(declared.component, declaring, concrete))
        arguments = tuple(self._text_5(argument, declaring, concrete) for argument in declared.arguments)
        return self._named(declared, arguments)

    def _text_of(self, resolved: JavaType) -> str:
        if resolved.kind == "variable":
            return resolved.name
        if resolved.kind == "array":
            return _array(self._text_of(resolved.component))
        return self._named(resolved)

    def _resolved(self, declared: JavaType, declaring: ClassFile, concrete: ClassFile) -> JavaType:
        """Return a class, or a type variable that is named with its class. Kryo: GenericsUtil#resolveType"""
        if declared.kind == "variable":
            return self._variable(declaring.name, concrete, _owned(declared, declaring), first=True)
        if declared.kind == "wildcard":
            bound = declared.component if declared.arguments else JavaType("java.lang.Object")
            return self._resolved(bound, declaring, concrete)
        if declared.kind == "array":
            component = self._resolved(declared.component, declaring, concrete)
            return component if component.kind == "variable" else JavaType("[]", (component,), "array")
        return _erased(declared)

    def _variable(self, declaring: str, current: ClassFile, variable: JavaType, *, first: bool) -> JavaType:
        """Return what a type variable stands for in a subclass. Kryo: GenericsUtil#resolveTypeVariable"""
        parent = current.generics.superclass
        above = self._class_path.find(parent.name) if parent.arguments else None
        if above is None:
            return variable
        if parent.name != declaring:
            found = self._variable(declaring, above, variable, first=False)
            if found.kind != "variable":
                return found
            variable = found
        # Kryo compares names, whichever class declares them.
        name = variable.name.rpartition("#")[2]
        for (parameter, _), argument in zip(above.generics.parameters, parent.arguments, strict=False):
            if parameter == name and argument.kind == "variable":
                return variable if first else _owned(argument, current)
            if parameter == name:
                return self._resolved(argument, current, current)
        return variable

    # ---- names of classes ----

    def _named(self, declared: JavaType, arguments: tuple[str, ...] = ()) -> str:
        """Return the text of a class with its type arguments, and with `final` or `unknown` before it."""
        if declared.kind == "array":
            return _array(self._named(declared.component))
        name = declared.name
        if declared.kind == "primitive":
            return name
        if _NAME.fullmatch(name) is None:
            return "unknown java.lang.Object"
        inner = f"<{', '.join(arguments)}>" if arguments else ""
        return f"{self._finality(name)}{name}{inner}"

    def _finality(self, name: str) -> str:
        """Return `final `, `unknown ` if the class is in no jar and not known, or nothing."""
        if name in _FINAL_CLASSES or name in settings.ENUMS:
            return "final "
        if name in _OPEN_CLASSES or name.startswith(_OPEN_PREFIXES):
            return ""
        try:
            found = self._class_path.find(name)
        except ReaderError:
            found = None
        if found is None:
            return "unknown "
        return "final " if found.is_final else ""


def _is_written(known: ClassField, version: int) -> bool:
    unwritten = STATIC | TRANSIENT | (SYNTHETIC if version >= KRYO_5 else 0)
    return not known.access & unwritten and _LEAVES_OUT not in known.annotations


def _erased(declared: JavaType) -> JavaType:
    if declared.kind == "array":
        return JavaType("[]", (_erased(declared.component),), "array")
    return JavaType(declared.class_name, (), "primitive" if declared.kind == "primitive" else "class")


def _owned(variable: JavaType, declaring: ClassFile) -> JavaType:
    """Return a type variable that is named with its class; one of a class around it is bound to nothing."""
    return JavaType(f"{declaring.name}#{variable.name}", (), "variable")


def _array(component: str) -> str:
    return f"{component}[]"


def _variables(chain: list[ClassFile]) -> Iterator[tuple[str, ...]]:
    """Yield, for each type parameter of a class and of its superclasses, the variables that it stands for.

    Kryo: Generics.GenericsHierarchy
    """
    for index, current in enumerate(chain):
        for parameter, _ in current.generics.parameters:
            name, group = parameter, [f"{current.name}#{parameter}"]
            for below, above in pairwise(chain[index:]):
                arguments = below.generics.superclass.arguments
                found = next(
                    (
                        parameter
                        for (parameter, _), argument in zip(
                            above.generics.parameters, arguments, strict=False
                        )
                        if argument.kind == "variable" and argument.name == name
                    ),
                    None,
                )
                if found is None:
                    break
                name = found
                group.append(f"{above.name}#{name}")
            yield tuple(group)
