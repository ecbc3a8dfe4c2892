"""What Flink makes of a class by itself: types that it knows by their names, supertypes, and why a class is no POJO.

A class that is in no jar, and is none of those of the JDK and of Flink that are known here, ends the search for supertypes: what is above
it cannot be told. Underscores and case do not count in the names of getters and setters; `final` does not count at all.

Flink: BasicTypeInfo, SqlTimeTypeInfo, PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ValueTypeInfo; TypeExtractor#analyzePojo,
#isValidPojoField, #getAllDeclaredFields
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from readers.errors import ReaderError
from readers.jars import classfile
from readers.jars.classfile import ClassFile
from readers.jars.classpath import ClassPath
from readers.jars.signatures import (
    OBJECT,
    ClassSignature,
    JavaType,
    MethodSignature,
    method_signature,
    type_of,
)
from readers.serializers import primitives
from readers.serializers.base import Serializer
from readers.serializers.kryo import settings

BASIC: dict[str, Serializer] = {
    "java.lang.String": primitives.StringSerializer(),
    "java.lang.Boolean": primitives.BooleanSerializer(), "java.lang.Byte": primitives.ByteSerializer(),
    "java.lang.Short": primitives.ShortSerializer(), "java.lang.Integer": primitives.IntSerializer(),
    "java.lang.Long": primitives.LongSerializer(), "java.lang.Float": primitives.FloatSerializer(),
    "java.lang.Double": primitives.DoubleSerializer(), "java.lang.Character": primitives.CharSerializer(),
    "java.lang.Void": primitives.VoidSerializer(), "java.util.Date": primitives.DateSerializer(),
    "java.math.BigInteger": primitives.BigIntSerializer(),
    "java.math.BigDecimal": primitives.BigDecSerializer(),
    "java.time.Instant": primitives.InstantSerializer(), "java.sql.Date": primitives.SqlDateSerializer(),
    "java.sql.Time": primitives.SqlTimeSerializer(), "java.sql.Timestamp": primitives.SqlTimestampSerializer(),
}  # fmt: skip

WRAPPERS = {
    "boolean": "java.lang.Boolean", "byte": "java.lang.Byte", "short": "java.lang.Short",
    "int": "java.lang.Integer", "long": "java.lang.Long", "float": "java.lang.Float",
    "double": "java.lang.Double", "char": "java.lang.Character", "void": "java.lang.Void",
}  # fmt: skip

PRIMITIVE_ARRAYS: dict[str, Serializer] = {
    "boolean": primitives.BooleanPrimitiveArraySerializer(),
    "byte": primitives.BytePrimitiveArraySerializer(), "short": primitives.ShortPrimitiveArraySerializer(),
    "int": primitives.IntPrimitiveArraySerializer(), "long": primitives.LongPrimitiveArraySerializer(),
    "float": primitives.FloatPrimitiveArraySerializer(),
    "double": primitives.DoublePrimitiveArraySerializer(),
    "char": primitives.CharPrimitiveArraySerializer(),
}  # fmt: skip

# Unlike the values of `ValueSerializer`, one of this class writes no bytes.
VALUES: dict[str, Serializer] = primitives.VALUES | {
    "org.apache.flink.types.NullValue": primitives.NullValueSerializer()
}

# Enums of the JDK that jobs keep in state; their constants have never changed.
ENUMS: dict[str, tuple[str, ...]] = {
    name: constants for name, constants in settings.ENUMS.items() if name.startswith("java.")
}


# `clazz.isAssignableFrom(List.class)`: the interfaces that a list has, but not its implementations.
LISTS = frozenset(
    {"java.util.List", "java.util.Collection", "java.lang.Iterable", "java.util.SequencedCollection"}
)
COLLECTIONS = LISTS | {"java.util.Map", "java.util.Set"}

_MAX_DEPTH = 256  # supertypes above each other: those of a hostile jar may contain themselves
_MAX_VISITED = (
    2_000_000  # members of classes of a foreign jar, each time that its class is looked at: some seconds
)
_CLASS = 8  # members that a class without any counts for

TUPLE = "org.apache.flink.api.java.tuple.Tuple"
VALUE = "org.apache.flink.types.Value"
SPECIFIC_RECORD = "org.apache.avro.specific.SpecificRecordBase"
WRITABLE = "org.apache.hadoop.io.Writable"

# Types of Flink and Avro that users extend; they have no fields that Flink would keep.
_KNOWN_SUPERTYPES: dict[str, tuple[str, ...]] = {
    "org.apache.flink.types.CopyableValue": (VALUE,),
    "org.apache.flink.types.Key": (VALUE,),
    "org.apache.flink.types.NormalizableKey": ("org.apache.flink.types.Key",),
    "org.apache.flink.types.ResettableValue": (VALUE,),
    "org.apache.flink.types.ListValue": (VALUE,),
    "org.apache.flink.types.MapValue": (VALUE,),
    VALUE: (),
    "org.apache.flink.core.io.IOReadableWritable": (),
    SPECIFIC_RECORD: (),
    "org.apache.avro.specific.SpecificRecord": (),
    TUPLE: (),
    OBJECT: (),
    "java.lang.Record": (),
    "java.lang.Enum": (),
}
# Classes of the JDK that users extend: those whose fields are all transient or static, and those with others, which have no setters.
_WITHOUT_FIELDS = frozenset(
    f"java.{name}"
    for name in (
        "lang.Number", "util.AbstractCollection", "util.AbstractList", "util.AbstractMap", "util.AbstractSet",
        "util.AbstractQueue", "util.Date", "util.LinkedList", "util.HashSet", "util.LinkedHashSet", "util.TreeSet",
    )
)  # fmt: skip
_WITH_FIELDS = frozenset(
    f"java.{name}"
    for name in (
        "util.ArrayList", "util.HashMap", "util.LinkedHashMap", "util.TreeMap", "util.Hashtable", "util.Properties",
        "lang.Throwable", "lang.Exception", "lang.RuntimeException", "lang.Error", "lang.Thread",
    )
)  # fmt: skip
_PLATFORM = ("java.", "javax.", "jdk.", "sun.")


class UnknownTypeError(Exception):
    """A type that cannot be told from the jars."""


class NotPojoError(Exception):
    """A class is no POJO: Flink leaves it to Kryo."""


class Hierarchy:
    """The supertypes of the classes of jars.

    Args:
        classes: the jars.
    """

    def __init__(self, classes: ClassPath) -> None:
        self._classes = classes
        self._visited = 0

    def find(self, name: str) -> ClassFile | None:
        """Return a class; None if it is in no jar.

        Raises:
            UnknownTypeError: it is damaged, or a foreign jar has more than is looked at.
        """
        try:
            found = self._classes.find(name)
        except ReaderError as error:
            raise UnknownTypeError(f"{name}: {error}") from error
        if found is not None and self._classes.is_foreign:
            # Who asks for a class goes through its members.
            self._visited += _CLASS + len(found.fields) + len(found.methods)
            if self._visited > _MAX_VISITED:
                raise UnknownTypeError("more types than are looked at")
        return found

    def superclasses(self, java_type: JavaType) -> Iterator[tuple[ClassFile, JavaType]]:
        """Yield a class and its superclasses up to `Object`, each with its type as the one below it extends it.

        Raises:
            NotPojoError: one of them belongs to the JDK and has fields that nobody sets.
            UnknownTypeError: one of them is in no jar and not known.
        """
        current = java_type
        for _ in range(_MAX_DEPTH):
            found = self.find(current.name)
            if found is None:
                if current.name in _KNOWN_SUPERTYPES or is_tuple_class(current.name):
                    return
                if current.name in _WITHOUT_FIELDS:
                    return
                if current.name in _WITH_FIELDS:
                    raise NotPojoError(f"it extends {current.name}, whose fields have no setters")
                raise UnknownTypeError(f"{current.name} is in no jar")
            yield found, current
            current = bound(generics_of(found).superclass, variables_of(found, current))
        raise UnknownTypeError(f"{java_type.name} has more than {_MAX_DEPTH} superclasses, or extends itself")

    def is_a(self, name: str, ancestor: str) -> bool | None:
        """Return whether a class extends or implements another one; None where it cannot be told."""
        seen: set[str] = set()
        waiting = [name]
        is_complete = True
        while waiting:
            current = waiting.pop()
            if current == ancestor:
                return True
            if current in seen:
                continue
            seen.add(current)
            if len(seen) > _MAX_DEPTH:
                return None
            found = self.find(current)
            if found is not None:
                waiting += [*found.interfaces, *((found.super_name,) if found.super_name else ())]
            elif current in _KNOWN_SUPERTYPES:
                waiting += _KNOWN_SUPERTYPES[current]
            elif not is_platform_class(current) and not is_tuple_class(current):
                is_complete = False
        return False if is_complete else None


def generics_of(found: ClassFile) -> ClassSignature:
    """Return the type parameters and supertypes of a class.

    Raises:
        UnknownTypeError: its signature is damaged.
    """
    try:
        return found.generics
    except ReaderError as error:
        raise UnknownTypeError(f"{found.name}: {error}") from error


def variables_of(found: ClassFile, java_type: JavaType) -> dict[str, JavaType]:
    """Return the values of the type parameters of a class in one of its types; empty for a raw type."""
    parameters = [name for name, _ in generics_of(found).parameters]
    # Those of the classes around it come first.
    arguments = java_type.arguments[len(java_type.arguments) - len(parameters) :] if parameters else ()
    return dict(zip(parameters, arguments, strict=True)) if len(arguments) == len(parameters) else {}


def bound(java_type: JavaType, variables: Mapping[str, JavaType]) -> JavaType:
    """Return a type with its type variables replaced, as far as Flink does.

    Since 2.0 Flink has types for collections whose arguments are classes. It looks at them before it replaces variables.
    """
    arguments = java_type.arguments
    if java_type.name in COLLECTIONS and any(each.kind == "variable" for each in arguments):
        return JavaType(java_type.name)
    if java_type.kind == "variable" or not arguments:
        return java_type.bound(variables)
    return replace(java_type, arguments=tuple(bound(each, variables) for each in arguments))


def is_tuple_class(name: str) -> bool:
    """Return whether a class is one of `Tuple0` to `Tuple25`."""
    return name.startswith(TUPLE) and name[len(TUPLE) :].isdecimal()


def is_platform_class(name: str) -> bool:
    """Return whether a class belongs to the JDK."""
    return name.startswith(_PLATFORM)


_CUSTOM_SERIALIZATION = ("readObject", "writeObject")
TYPE_INFO = "Lorg/apache/flink/api/common/typeinfo/TypeInfo;"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundField:
    """A field of a class or of a superclass, with its type where type parameters are known."""

    field: classfile.ClassField
    type: JavaType
    declared_in: str


def declared_fields(hierarchy: Hierarchy, java_type: JavaType) -> tuple[FoundField, ...]:
    """Return the fields of a class and its superclasses that Flink would keep.

    Raises:
        NotPojoError: two of them have one name.
        UnknownTypeError: a superclass is in no jar.
    """
    fields: dict[str, FoundField] = {}
    for found, current in hierarchy.superclasses(java_type):
        variables = variables_of(found, current)
        for each in found.fields:
            if each.access & (classfile.STATIC | classfile.TRANSIENT):
                continue
            if each.name in fields:
                raise NotPojoError(
                    f"{fields[each.name].declared_in} and {found.name} both have a field {each.name}"
                )
            fields[each.name] = FoundField(
                field=each, type=bound(_type_of(each, found), variables), declared_in=found.name
            )
    return tuple(fields.values())


def check_fields(hierarchy: Hierarchy, found: classfile.ClassFile, fields: tuple[FoundField, ...]) -> None:
    """Check that each field is public, or has a public getter and setter.

    Raises:
        NotPojoError: one is and has not.
        UnknownTypeError: a supertype that may have them is in no jar.
    """
    private = [each for each in fields if not each.field.is_public]
    if not private:
        return
    methods, missing = public_methods(hierarchy, found)
    accessors = _Accessors(methods, found)
    for each in private:
        lacking = accessors.lacking(each.field)
        if lacking and missing is not None:
            raise missing
        if lacking:
            raise NotPojoError(
                f"its field {each.field.name} is not public and has no public {' and no '.join(lacking)}"
            )


def check_class(hierarchy: Hierarchy, found: classfile.ClassFile) -> None:
    """Check the constructor and that the class does not serialize itself.

    Raises:
        NotPojoError: Flink does not take it for a POJO.
        UnknownTypeError: a superclass is in no jar.
    """
    for current, _ in hierarchy.superclasses(JavaType(found.name)):
        custom = next((each.name for each in current.methods if each.name in _CUSTOM_SERIALIZATION), None)
        if custom is not None:
            raise NotPojoError(f"{current.name} has a method {custom}, which Flink does not call")
    if found.is_record:
        return
    constructor = found.method("<init>", "()V")
    if constructor is None and not found.access & (classfile.ABSTRACT | classfile.INTERFACE):
        inner = ", as it is an inner class that is not static" if found.is_inner else ""
        raise NotPojoError(f"it has no constructor without parameters{inner}")
    if constructor is not None and not constructor.is_public:
        raise NotPojoError("its constructor without parameters is not public")


def public_methods(
    hierarchy: Hierarchy, found: classfile.ClassFile
) -> tuple[list[tuple[str, MethodSignature]], UnknownTypeError | None]:
    """Return the public methods of a class and its supertypes, and the error of one that is in no jar."""
    methods: list[tuple[str, MethodSignature]] = []
    missing: UnknownTypeError | None = None
    seen: set[str] = set()
    waiting: list[classfile.ClassFile] = []
    try:
        for current, _ in hierarchy.superclasses(JavaType(found.name)):
            waiting.append(current)
    except UnknownTypeError as error:
        missing = error
    while waiting:
        current = waiting.pop()
        if current.name in seen:
            continue
        seen.add(current.name)
        methods += _public_methods(current)
        for name in current.interfaces:
            interface = hierarchy.find(name)
            if interface is not None:
                waiting.append(interface)
    return methods, missing


def _public_methods(found: classfile.ClassFile) -> Iterator[tuple[str, MethodSignature]]:
    for method in found.methods:
        if method.is_public and not method.name.startswith("<"):
            yield _plain(method.name), _signature(method, found)


def _signature(method: classfile.ClassMethod, found: classfile.ClassFile) -> MethodSignature:
    try:
        return method_signature(method.descriptor)
    except ReaderError as error:
        raise UnknownTypeError(f"{found.name}.{method.name}: {error}") from error


def _plain(name: str) -> str:
    """Return the name of a method as Flink compares it; Scala's setters end in `_$eq`."""
    if name.endswith("_$eq"):
        return name[: -len("_$eq")].lower().replace("_", "") + "_$eq"
    return name.lower().replace("_", "")


class _Accessors:
    """The methods of a class that may be getters and setters.

    Args:
        methods: the public ones, and their names as Flink compares them.
        found: the class.
    """

    def __init__(self, methods: Iterable[tuple[str, MethodSignature]], found: classfile.ClassFile) -> None:
        self._class = found
        self._returned: set[tuple[str, str]] = set()
        self._taken: set[tuple[str, str]] = set()
        for name, types in methods:
            returned = types.returns.class_name
            if not types.parameters:
                self._returned.add((name, returned))
            elif len(types.parameters) == 1 and returned in ("void", found.name):
                self._taken.add((name, types.parameters[0].class_name))

    def lacking(self, field: classfile.ClassField) -> list[str]:
        """Return what a field lacks: a getter, a setter, both, or nothing."""
        plain, types = _plain(field.name), self._types(field)
        getters = {(name, each) for name in (f"get{plain}", f"is{plain}", plain) for each in types}
        setters = {(name, each) for name in (f"set{plain}", f"{plain}_$eq") for each in types}
        known = (("getter", getters, self._returned), ("setter", setters, self._taken))
        return [kind for kind, wanted, found in known if wanted.isdisjoint(found)]

    def _types(self, field: classfile.ClassField) -> tuple[str, str]:
        """Return the type of a field, and the class that boxes it."""
        try:
            wanted = type_of(field.descriptor).class_name
        except ReaderError as error:
            raise UnknownTypeError(f"{self._class.name}.{field.name}: {error}") from error
        return wanted, WRAPPERS.get(wanted, wanted)


def _type_of(field: classfile.ClassField, found: classfile.ClassFile) -> JavaType:
    try:
        return field.type
    except ReaderError as error:
        raise UnknownTypeError(f"{found.name}.{field.name}: {error}") from error
