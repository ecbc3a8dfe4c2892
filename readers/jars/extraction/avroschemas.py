"""Avro schemas of classes: the one that Avro's compiler wrote into a class, and the one that Avro's reflection derives.

Avro: SpecificData#createSchema (field `SCHEMA$`), ReflectData#createSchema (null is no value of a field, as by default)
"""

from __future__ import annotations

import json
from typing import Any

from readers.errors import CorruptDataError
from readers.jars.classfiles.classfile import ClassFile
from readers.jars.classfiles.signatures import JavaType
from readers.jars.extraction.hierarchy import Hierarchy, NotPojoError, UnknownTypeError
from readers.jars.extraction.pojo import declared_fields
from readers.serializers.avro import AvroSerializer, read_schema
from readers.serializers.base import Serializer

_MAX_DEPTH = 32
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
    if depth > _MAX_DEPTH:
        raise UnknownTypeError(f"{found.name}: more than {_MAX_DEPTH} records in one another")
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
