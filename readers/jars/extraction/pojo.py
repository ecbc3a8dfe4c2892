"""The fields of a class, and why Flink does not take it for a POJO.

Flink: TypeExtractor#analyzePojo, #isValidPojoField, #getAllDeclaredFields. Underscores and case do not count in the names of
getters and setters; `final` does not count at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from readers.errors import ReaderError
from readers.jars.classfiles import classfile
from readers.jars.classfiles.signatures import JavaType, MethodSignature, method_signature, type_of
from readers.jars.extraction.basictypes import WRAPPERS
from readers.jars.extraction.hierarchy import Hierarchy, NotPojoError, UnknownTypeError, bound, variables_of

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
