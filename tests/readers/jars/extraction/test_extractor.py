"""Types that are extracted from class files = the types that Flink extracts from the same classes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from readers import PojoSerializer, Savepoint, Serializer, TupleSerializer
from readers.jars.classpath import ClassPath
from readers.jars.extractor import Registrations, TypeExtractor
from readers.serializers.avro import AvroSerializer
from readers.serializers.base import rebuild
from readers.serializers.containers import (
    EnumSerializer,
    GenericArraySerializer,
    ListSerializer,
    MapSerializer,
    NullableSerializer,
    SetSerializer,
)
from readers.serializers.kryo.serializer import KryoSerializer
from readers.serializers.structs import EitherSerializer
from tests.support.compatpairs import unpack_pairs
from tests.support.paths import DATA

CLASSES = DATA / "classfiles"
FLINK = ("1.20.3", "2.3.0")

# Pairs whose states show a kind of type each; the slow run takes all of them.
SAMPLE = (
    "pojo-list-field",
    "pojo-super-add-field",
    "record-add-component",
    "enum-reorder",
    "avro-specific-add-default",
)

# Their types are given by the job's code.
GIVEN = ("org.apache.avro.generic.GenericRecord", "scala.", "org.apache.flink.")


def described(serializer: Serializer) -> str:
    """A type in the notation of Beans.java."""
    if isinstance(serializer, PojoSerializer):
        fields = [
            f"{each.declared_in}.{each.name} {described(each.serializer)}" for each in serializer.fields
        ]
        return f"Pojo({', '.join([serializer.pojo_class, *fields])})"
    if isinstance(serializer, KryoSerializer):
        return f"Kryo({serializer.type_class})"
    if isinstance(serializer, EnumSerializer):
        return f"Enum({serializer.enum_class})"
    if isinstance(serializer, EitherSerializer):
        return f"Either({described(serializer.left)}, {described(serializer.right)})"
    if isinstance(serializer, TupleSerializer):
        return f"Tuple({', '.join([serializer.tuple_class, *map(described, serializer.fields)])})"
    if isinstance(serializer, GenericArraySerializer):
        # A BasicArrayTypeInfo has no component to ask for.
        boxed = serializer.component_class.startswith("java.lang.")
        return "GenericArraySerializer" if boxed else f"Array({described(serializer.element)})"
    if isinstance(serializer, NullableSerializer):
        return described(serializer.inner)
    if isinstance(serializer, MapSerializer):
        return f"Map({described(serializer.key)}, {described(serializer.value)})"
    if isinstance(serializer, SetSerializer):
        return f"Set({described(serializer.element)})"
    if isinstance(serializer, ListSerializer):
        return f"List({described(serializer.element)})"
    return serializer.java_class.rsplit(".", 1)[-1]


def extractor(jar: Path, flink: str, registrations: Registrations | None = None) -> TypeExtractor:
    return TypeExtractor(ClassPath.open([jar]), flink_major=int(flink[0]), registrations=registrations)


def known(types: TypeExtractor, name: str) -> Serializer:
    found = types.extract_class(name)
    assert found.unknown == ""
    assert found.serializer is not None
    return found.serializer


@pytest.mark.parametrize("flink", FLINK)
def test_flink_extracts_the_same_types_from_the_same_classes(flink):
    expected = (CLASSES / f"beans-{flink}.txt").read_text().splitlines()
    types = extractor(CLASSES / "beans.jar", flink)

    names = [line.partition(" = ")[0] for line in expected]

    assert [f"{name} = {described(known(types, name))}" for name in names] == expected


def test_a_class_that_is_no_pojo_has_a_reason():
    types = extractor(CLASSES / "beans.jar", "2.3.0")

    reasons = {
        name: types.extract_class(f"acme.Beans${name}").not_pojos[f"acme.Beans${name}"]
        for name in (
            "WrongGetter", "WrongSetter", "NoSetter", "NoConstructor", "HiddenConstructor", "NotPublic", "NoFields",
            "Custom", "Inner", "Face", "Shadow", "OfList",
        )
    }  # fmt: skip

    assert reasons == {
        "WrongGetter": "its field n is not public and has no public getter",
        "WrongSetter": "its field n is not public and has no public setter",
        "NoSetter": "its field id is not public and has no public setter",
        "NoConstructor": "it has no constructor without parameters",
        "HiddenConstructor": "its constructor without parameters is not public",
        "NotPublic": "it is not public",
        "NoFields": "it has no fields",
        "Custom": "acme.Beans$Custom has a method readObject, which Flink does not call",
        "Inner": "it has no constructor without parameters, as it is an inner class that is not static",
        "Face": "it is an interface",
        "Shadow": "acme.Beans$Shadow and acme.Beans$Plain both have a field id",
        "OfList": "it extends java.util.ArrayList, whose fields have no setters",
    }


def test_registered_subclasses_are_those_of_the_pojo_in_the_order_of_registration():
    pojo = tuple(f"acme.Beans${name}" for name in ("Up", "Child", "Lists"))

    found = known(
        extractor(CLASSES / "beans.jar", "2.3.0", registrations=Registrations(pojo=pojo)), "acme.Beans$Plain"
    )

    assert isinstance(found, PojoSerializer)
    assert [name for name, _ in found.registered] == ["acme.Beans$Up", "acme.Beans$Child"]


def test_a_class_in_no_jar_cannot_be_told():
    found = extractor(CLASSES / "beans.jar", "2.3.0").extract_class("org.acme.Elsewhere")

    assert found.serializer is None
    assert found.unknown == "org.acme.Elsewhere is in no jar"


def unregistered(serializer: Serializer) -> Serializer:
    """A type without what only the job's configuration or its values say."""

    def change(node: Serializer) -> Serializer:
        if isinstance(node, KryoSerializer):
            return replace(
                node, settings=replace(node.settings, version=0, registrations=(), default_serializers={})
            )
        if isinstance(node, PojoSerializer):
            return replace(node, registered=(), non_registered=())
        if isinstance(node, AvroSerializer):
            return replace(node, schema=json.dumps(json.loads(node.schema), sort_keys=True))
        return node

    return rebuild(serializer, change)


def stored_types(savepoint: Path) -> dict[str, Serializer]:
    """The types of a savepoint's states that the name of a class decides: class → type."""
    found = {}
    for operator in Savepoint(savepoint).operators:
        for source in operator.sources:
            for entry in source.entries.values():
                for kind in (entry.key, entry.map_key, entry.value):
                    name = class_of(kind)
                    if kind is not None and name and not name.startswith(GIVEN):
                        found[name] = kind
    return found


def class_of(serializer: Serializer | None) -> str:
    if isinstance(serializer, PojoSerializer):
        return serializer.pojo_class
    if isinstance(serializer, KryoSerializer):
        return serializer.type_class
    if isinstance(serializer, EnumSerializer):
        return serializer.enum_class
    return serializer.runtime_class if isinstance(serializer, AvroSerializer) else ""


def check_pairs(folder: Path) -> int:
    """Compare the types of all savepoints whose job's jar is there."""
    compared = 0
    for savepoint in sorted(folder.glob("*/savepoints/*-canonical")):
        variant, flink, *_ = savepoint.name.split("-")
        pair = savepoint.parents[1]
        jar = pair / "jars" / f"{variant}-{flink}.jar"
        if not jar.exists():
            continue
        types = extractor(jar, flink)
        for name, stored in stored_types(savepoint).items():
            found = types.extract_reflected(name) if is_reflected(stored, jar) else types.extract_class(name)
            assert found.unknown == ""
            assert found.serializer is not None
            assert unregistered(found.serializer) == unregistered(stored), f"{savepoint} {name}"
            compared += 1
    return compared


def is_reflected(serializer: Serializer, jar: Path) -> bool:
    found = ClassPath.open([jar]).find(class_of(serializer))
    generated = found is not None and found.super_name == "org.apache.avro.specific.SpecificRecordBase"
    return isinstance(serializer, AvroSerializer) and not generated


def test_types_of_a_jar_are_those_of_the_savepoint_of_its_job(tmp_path):
    assert check_pairs(unpack_pairs(tmp_path, SAMPLE)) == 22


@pytest.mark.slow
def test_types_of_all_jars_are_those_of_the_savepoints_of_their_jobs(tmp_path):
    assert check_pairs(unpack_pairs(tmp_path)) > 400
