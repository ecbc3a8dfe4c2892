"""`TypeExtractor`: a Java type → the serializer that a fresh job has for it.

| type | serializer |
|---|---|
| a basic type, an array of basic types | its own |
| `Tuple1<…>` to `Tuple25<…>`, and subclasses without fields of their own | TupleSerializer |
| `Either<A, B>` | EitherSerializer |
| an enum | EnumSerializer, with the constants in their order |
| a class that Avro generated | AvroSerializer, with the schema in its field `SCHEMA$` |
| `List<E>`, `Map<K, V>`, `Set<E>` of plain classes, since Flink 2.0 | List-, Map-, SetSerializer, nullable |
| a POJO or record | PojoSerializer: fields sorted by name |
| all others | KryoSerializer |

Flink: TypeExtractor#createTypeInfoWithTypeHierarchy, #privateGetForClass, #analyzePojo (1.20.3, 2.3.0). Avro:
SpecificData#createSchema, ReflectData#createSchema (null is no value of a field, as by default)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from readers.errors import CorruptDataError
from readers.jars import pojos
from readers.jars.classfile import ABSTRACT, INTERFACE, ClassFile
from readers.jars.classpath import ClassPath
from readers.jars.pojos import (
    BASIC,
    ENUMS,
    PRIMITIVE_ARRAYS,
    TYPE_INFO,
    VALUES,
    WRAPPERS,
    Hierarchy,
    NotPojoError,
    UnknownTypeError,
    check_class,
    check_fields,
    declared_fields,
)
from readers.jars.signatures import OBJECT, JavaType, class_type
from readers.serializers.avro import AvroSerializer, read_schema
from readers.serializers.base import OpaqueSerializer, Serializer
from readers.serializers.containers import (
    EnumSerializer,
    GenericArraySerializer,
    ListSerializer,
    MapSerializer,
    NullableSerializer,
    SetSerializer,
)
from readers.serializers.kryo.serializer import KryoSerializer
from readers.serializers.kryo.settings import KRYO_2_24, KRYO_5, KryoRegistration, KryoSettings
from readers.serializers.pojo import PojoField, PojoSerializer
from readers.serializers.primitives import StringArraySerializer, Tuple0Serializer
from readers.serializers.structs import EitherSerializer, TupleSerializer

_MAX_SCHEMA_DEPTH = 32
_PLAIN = {
    "boolean": "boolean", "int": "int", "long": "long", "float": "float", "double": "double",
    "java.lang.Boolean": "boolean", "java.lang.Integer": "int", "java.lang.Long": "long",
    "java.lang.Float": "float", "java.lang.Double": "double", "java.lang.String": "string",
    "java.lang.CharSequence": "string", "java.nio.ByteBuffer": "bytes",
}  # fmt: skip


def generated(found: ClassFile) -> Serializer:
    """Return the serializer of a class that Avro's compiler wrote, by the schema among its constants.

    Raises:
        UnknownTypeError: there is no such schema, or it is none.
    """
    wanted = _simple_name(found.name)
    for text in found.constants.texts():
        # The texts of a schema that is too long for one constant are no JSON each.
        if text.startswith("{") and _record_name(text) == wanted:
            return serializer_of(text, found.name)
    raise UnknownTypeError(f"{found.name} has no schema among its constants")


def reflected(hierarchy: Hierarchy, class_name: str) -> Serializer:
    """Return the serializer of a class whose schema Avro derives from its fields.

    Raises:
        UnknownTypeError: the class is in no jar, or a field is of a type whose schema is not known here.
    """
    found = hierarchy.find(class_name)
    if found is None:
        raise UnknownTypeError(f"{class_name} is in no jar")
    document = _record(hierarchy, found, set(), 0)
    return serializer_of(json.dumps(document, separators=(",", ":")), class_name)


def serializer_of(schema: str, class_name: str) -> Serializer:
    """Return the serializer of a class with a schema.

    Raises:
        UnknownTypeError: it is no schema.
    """
    try:
        return AvroSerializer(schema, class_name, read_schema(schema))
    except CorruptDataError as error:
        raise UnknownTypeError(f"{class_name}: {error}") from error


def _record_name(text: str) -> str | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    name = document.get("name") if isinstance(document, dict) else None
    return name.rsplit(".", 1)[-1] if isinstance(name, str) else None


def _record(hierarchy: Hierarchy, found: ClassFile, seen: set[str], depth: int) -> Any:
    if depth > _MAX_SCHEMA_DEPTH:
        raise UnknownTypeError(f"{found.name}: more than {_MAX_SCHEMA_DEPTH} records in one another")
    package, _, name = found.name.rpartition(".")
    # Avro names a nested class without the classes around it.
    namespace = ".".join(part for part in (package, *name.split("$")[:-1]) if part)
    full_name = f"{namespace}.{_simple_name(name)}"
    if full_name in seen:
        return full_name
    seen.add(full_name)
    heading = {"name": _simple_name(name), "namespace": namespace}
    if found.is_enum:
        return {"type": "enum", **heading, "symbols": list(found.enum_constants)}
    try:
        fields = declared_fields(hierarchy, JavaType(found.name))
    except NotPojoError as error:
        raise UnknownTypeError(f"{found.name}: {error}") from error
    members = [
        {"name": each.field.name, "type": _type(hierarchy, each.type, seen, depth)}
        for each in sorted(fields, key=lambda each: each.field.name)
    ]
    return {"type": "record", **heading, "fields": members}


def _type(hierarchy: Hierarchy, java_type: JavaType, seen: set[str], depth: int) -> Any:
    if java_type.kind in ("class", "primitive") and java_type.name in _PLAIN:
        return _PLAIN[java_type.name]
    if java_type.kind == "class" and java_type.name == "java.util.Map" and len(java_type.arguments) == 2:
        return {"type": "map", "values": _type(hierarchy, java_type.arguments[1], seen, depth + 1)}
    found = hierarchy.find(java_type.name) if java_type.kind == "class" else None
    if found is None or java_type.arguments:
        raise UnknownTypeError(f"the Avro schema of {java_type}")
    return _record(hierarchy, found, seen, depth + 1)


def _simple_name(name: str) -> str:
    return name.rsplit(".", 1)[-1].rsplit("$", 1)[-1]


_MAX_DEPTH = 48
_MAX_TYPES = 10_000
_EITHER = "org.apache.flink.types.Either"
_ROW = "org.apache.flink.types.Row"
_STRING = "java.lang.String"


class InvalidTypeError(Exception):
    """Flink cannot extract this type: of a field it makes a type that Kryo writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registrations:
    """Classes that a job registers.

    Attributes:
        pojo: with `registerPojoType`, in order.
        kryo: with `registerKryoType` and such, in order, with their serializers.
    """

    pojo: tuple[str, ...] = ()
    kryo: tuple[KryoRegistration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """What a job makes of a Java type.

    Attributes:
        serializer: None where it cannot be told.
        unknown: why it cannot be told; empty where it can.
        not_pojos: class → why it is no POJO.
    """

    serializer: Serializer | None
    unknown: str = ""
    not_pojos: Mapping[str, str] = field(default_factory=dict)


class TypeExtractor:
    """The types of the classes of a job.

    Args:
        classes: its jars.
        flink_major: 1 or 2.
        registrations: the classes that it registers.
        avro_array: what Kryo registers for Avro's arrays, which depends on flink-avro being there; None for nothing.

    Attributes:
        types_seen: how many types the last type consisted of.
    """

    def __init__(
        self,
        classes: ClassPath,
        *,
        flink_major: int,
        registrations: Registrations | None = None,
        avro_array: KryoRegistration | None = None,
    ) -> None:
        self._hierarchy = pojos.Hierarchy(classes)
        self._flink_major = flink_major
        self._registrations = registrations or Registrations()
        self._avro_array = avro_array
        self._not_pojos: dict[str, str] = {}
        self.types_seen = 0

    def extract(self, java_type: JavaType) -> Extraction:
        """Return the serializer that the job has for a type."""
        self._not_pojos = {}
        self.types_seen = 0
        try:
            serializer = self._type(java_type, (java_type.class_name,), 0)
        except (pojos.UnknownTypeError, InvalidTypeError, CorruptDataError) as error:
            return Extraction(serializer=None, unknown=str(error), not_pojos=self._not_pojos)
        return Extraction(serializer=serializer, not_pojos=self._not_pojos)

    def extract_class(self, name: str) -> Extraction:
        """Return the serializer that the job has for a class, by the name that `Class#getName` returns."""
        return self.extract(class_type(name))

    def extract_reflected(self, name: str) -> Extraction:
        """Return the serializer of a class whose schema Avro derives from its fields."""
        try:
            return Extraction(serializer=reflected(self._hierarchy, name))
        except (pojos.UnknownTypeError, CorruptDataError) as error:
            return Extraction(serializer=None, unknown=str(error))

    def kryo(self, name: str) -> KryoSerializer:
        """Return the serializer of a class that the job leaves to Kryo."""
        given = {name: KryoRegistration(class_name=name)}
        given |= {each.class_name: each for each in self._registrations.kryo}
        if self._avro_array is not None:
            given.setdefault(self._avro_array.class_name, self._avro_array)
        version = KRYO_2_24 if self._flink_major < 2 else KRYO_5
        return KryoSerializer(name, KryoSettings(version=version, registrations=tuple(given.values())))

    def _type(self, java_type: JavaType, above: tuple[str, ...], depth: int) -> Serializer:
        """Return the serializer of a type.

        Args:
            java_type: the type.
            above: the classes that it is in, itself among them: Flink leaves a class that contains itself to Kryo.
            depth: types around it.
        """
        if depth > _MAX_DEPTH:
            raise pojos.UnknownTypeError(f"more than {_MAX_DEPTH} types in one another")
        # Thirty classes with two fields each, of the next class, are a billion types.
        self.types_seen += 1
        if self.types_seen > _MAX_TYPES:
            raise pojos.UnknownTypeError(f"more than {_MAX_TYPES} types in one")
        if java_type.kind in ("variable", "wildcard"):
            raise InvalidTypeError(f"what {java_type} stands for is not in the class file")
        if java_type.kind == "primitive":
            return BASIC[WRAPPERS[java_type.name]]
        if java_type.kind == "array":
            return self._array(java_type, above, depth)
        if java_type.name == _EITHER and len(java_type.arguments) == 2:
            left, right = (
                self._type(each, (*above, each.class_name), depth + 1) for each in java_type.arguments
            )
            return EitherSerializer(left, right)
        found = self._hierarchy.find(java_type.name)
        self._check_factory(found)
        tuple_type = self._tuple_type(java_type)
        if tuple_type is not None:
            return self._tuple(java_type, tuple_type, above, depth)
        return self._class(java_type, found, above, depth)

    def _array(self, java_type: JavaType, above: tuple[str, ...], depth: int) -> Serializer:
        component = java_type.component
        if component.kind == "primitive":
            return PRIMITIVE_ARRAYS[component.name]
        if component.class_name == _STRING:
            return StringArraySerializer()
        return GenericArraySerializer(self._type(component, above, depth + 1), component.class_name)

    def _class(
        self, java_type: JavaType, found: ClassFile | None, above: tuple[str, ...], depth: int
    ) -> Serializer:
        name = java_type.name
        if name in (OBJECT, "java.lang.Class") or above.count(name) > 1:
            return self.kryo(name)
        if name in BASIC:
            return BASIC[name]
        if name in VALUES:
            return VALUES[name]
        if name in ENUMS:
            return EnumSerializer(name, ENUMS[name])
        collection = self._collection(java_type, depth) if self._flink_major >= 2 else None
        if collection is not None:
            return collection
        if found is None:
            # No class of the JDK that may be a value of state is a POJO: their fields are private.
            if pojos.is_platform_class(name) or name == _ROW:
                return self.kryo(name)
            raise pojos.UnknownTypeError(f"{name} is in no jar")
        return self._own_class(java_type, found, above, depth)

    def _own_class(
        self, java_type: JavaType, found: ClassFile, above: tuple[str, ...], depth: int
    ) -> Serializer:
        """Return the serializer of a class of the jars."""
        name = java_type.name
        if self._hierarchy.is_a(name, pojos.WRITABLE):
            raise pojos.UnknownTypeError(f"{name} is a Writable of Hadoop")
        if self._hierarchy.is_a(name, pojos.VALUE):
            return OpaqueSerializer(name, "its bytes are what the class itself writes")
        if found.is_enum or found.super_name == "java.lang.Enum":
            return EnumSerializer(name, found.enum_constants)
        if self._hierarchy.is_a(name, pojos.SPECIFIC_RECORD):
            return generated(found)
        if found.access & INTERFACE:
            self._not_pojos[name] = "it is an interface"
            return self.kryo(name)
        try:
            return self._pojo(java_type, found, above, depth)
        except pojos.NotPojoError as error:
            self._not_pojos[name] = str(error)
            return self.kryo(name)

    def _pojo(
        self, java_type: JavaType, found: ClassFile, above: tuple[str, ...], depth: int
    ) -> PojoSerializer:
        if not found.is_public:
            raise pojos.NotPojoError("it is not public")
        # A class that is no POJO for a reason of its own is none, whatever its superclasses are.
        if self._is_no_pojo_by_itself(found):
            check_class(self._hierarchy, found)
        fields = declared_fields(self._hierarchy, java_type)
        if not fields:
            raise pojos.NotPojoError("it has no fields")
        if not found.is_record:
            check_fields(self._hierarchy, found, fields)
        check_class(self._hierarchy, found)
        chain = tuple(each.name for each, _ in self._hierarchy.superclasses(java_type))
        kept = []
        for each in fields:
            if TYPE_INFO in each.field.annotations:
                raise pojos.UnknownTypeError(
                    f"{each.declared_in}.{each.field.name} has a type of its own (@TypeInfo)"
                )
            kept.append(
                PojoField(
                    each.field.name,
                    self._field(each.type, (*above, *chain, each.type.class_name), depth + 1),
                    declared_in=each.declared_in,
                )
            )
        kept.sort(key=lambda each: each.name)
        return PojoSerializer(java_type.name, tuple(kept), registered=self._subclasses(java_type.name, depth))

    def _field(self, java_type: JavaType, above: tuple[str, ...], depth: int) -> Serializer:
        try:
            return self._type(java_type, above, depth)
        except InvalidTypeError:
            return self.kryo(java_type.class_name)

    def _is_no_pojo_by_itself(self, found: ClassFile) -> bool:
        constructor = found.method("<init>", "()V")
        return (
            not found.access & (ABSTRACT | INTERFACE)
            and not found.is_record
            and (constructor is None or not constructor.is_public)
        )

    def _subclasses(self, name: str, depth: int) -> tuple[tuple[str, Serializer], ...]:
        """Return the registered subclasses of a POJO with their serializers, in the order of registration."""
        found = []
        for subclass in dict.fromkeys(self._registrations.pojo):
            if subclass != name and self._hierarchy.is_a(subclass, name):
                found.append((subclass, self._type(JavaType(subclass), (subclass,), depth + 1)))
        return tuple(found)

    def _collection(self, java_type: JavaType, depth: int) -> Serializer | None:
        """Return the serializer of a collection; None if Flink leaves it to Kryo, as all whose arguments have arguments."""
        plain = [each for each in java_type.arguments if each.kind in ("class", "array") and _is_class(each)]
        if not plain or len(plain) != len(java_type.arguments):
            return None
        # Flink begins anew here: a class that contains a list of itself has no end.
        inner = [self._type(each, (each.class_name,), depth + 1) for each in plain]
        if java_type.name == "java.util.Map" and len(inner) == 2:
            key, value = inner
            return NullableSerializer(MapSerializer(_nullable(key), value))
        if java_type.name in pojos.LISTS and len(inner) == 1:
            return NullableSerializer(ListSerializer(_nullable(inner[0])))
        if java_type.name == "java.util.Set" and len(inner) == 1:
            return NullableSerializer(SetSerializer(inner[0]))
        return None

    def _tuple_type(self, java_type: JavaType) -> JavaType | None:
        """Return the type of `Tuple0` to `Tuple25` that a type is or extends; None if there is none."""
        for _ in range(_MAX_DEPTH):
            if pojos.is_tuple_class(java_type.name):
                return java_type
            found = self._hierarchy.find(java_type.name)
            if found is None:
                return None
            java_type = pojos.bound(pojos.generics_of(found).superclass, pojos.variables_of(found, java_type))
        return None

    def _tuple(
        self, java_type: JavaType, tuple_type: JavaType, above: tuple[str, ...], depth: int
    ) -> Serializer:
        width = int(tuple_type.name[len(pojos.TUPLE) :])
        if width == 0:
            return Tuple0Serializer()
        if len(tuple_type.arguments) != width:
            raise InvalidTypeError(f"{java_type.name} does not say which types its fields have")
        if java_type is not tuple_type:
            own = declared_fields(self._hierarchy, java_type)
            if any(each.field.is_public for each in own):
                raise pojos.UnknownTypeError(f"{java_type.name} adds fields to {tuple_type.name}")
        fields = []
        for each in tuple_type.arguments:
            inside = (*above, each.class_name)
            is_recursive = each.kind == "class" and inside.count(each.class_name) > 1
            fields.append(self.kryo(each.name) if is_recursive else self._type(each, inside, depth + 1))
        return TupleSerializer(java_type.name, tuple(fields))

    def _check_factory(self, found: ClassFile | None) -> None:
        """Check that no class says by itself which type it has."""
        for _ in range(_MAX_DEPTH):
            if found is None:
                return
            if TYPE_INFO in found.annotations:
                raise pojos.UnknownTypeError(f"{found.name} has a type of its own (@TypeInfo)")
            found = self._hierarchy.find(found.super_name) if found.super_name else None


def _nullable(serializer: Serializer) -> Serializer:
    return serializer if isinstance(serializer, NullableSerializer) else NullableSerializer(serializer)


def _is_class(java_type: JavaType) -> bool:
    """Return whether reflection gives a `Class` for a type: without arguments, also in arrays."""
    if java_type.kind == "array":
        return java_type.component.kind == "primitive" or _is_class(java_type.component)
    return java_type.kind == "class" and not java_type.arguments
