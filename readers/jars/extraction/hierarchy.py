"""Supertypes of classes: of those in the jars, and of those of the JDK and of Flink that are in none.

A class that is in no jar and not known here ends the search: what is above it cannot be told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from readers.errors import ReaderError
from readers.jars.classfiles.classfile import ClassFile
from readers.jars.classfiles.classpath import ClassPath
from readers.jars.classfiles.signatures import OBJECT, ClassSignature, JavaType

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
