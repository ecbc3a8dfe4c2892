"""Class files that javac wrote, and what damages them."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers import CorruptDataError, ReaderError, UnsupportedVersionError
from readers.jars.classfile import TRANSIENT, read_class
from readers.jars.classpath import ClassPath, Jar
from readers.jars.signatures import class_signature, method_signature, type_of
from tests.support.paths import DATA

SHAPES = DATA / "classfiles" / "shapes.jar"


@pytest.fixture(scope="module")
def shapes() -> ClassPath:
    return ClassPath.open([SHAPES])


def bytes_of(name: str, jar: Path = SHAPES) -> bytes:
    opened = Jar.open(jar)
    return opened.read(opened.entries[f"{name.replace('.', '/')}.class"])


def test_fields_have_their_generic_types(shapes):
    found = shapes.find("acme.Shapes")

    assert {field.name: str(field.type) for field in found.fields} == {
        "NAME": "java.lang.String",
        "BIG": "long",
        "many": "T[]",
        "numbers": "java.util.List<? extends java.lang.Number>",
        "entries": "java.util.Map$Entry<java.lang.String, int[]>[]",
        "inner": "acme.Shapes$Inner<T, U, java.lang.String>",
    }
    assert [field.name for field in found.fields if field.access & TRANSIENT] == ["many"]
    assert [field.name for field in found.fields if field.is_static] == ["NAME", "BIG"]


def test_a_class_has_its_type_parameters_and_supertypes(shapes):
    generics = shapes.find("acme.Shapes").generics

    assert [(name, str(bound)) for name, bound in generics.parameters] == [
        ("T", "java.lang.Comparable<T>"),
        ("U", "java.lang.Object"),
    ]
    assert str(generics.superclass) == "java.lang.Object"
    assert [str(each) for each in generics.interfaces] == [
        "java.util.function.Supplier<java.util.Map<java.lang.String, java.util.List<U>>>"
    ]


def test_text_is_modified_utf_8(shapes):
    assert "naïve \x00 😀" in shapes.find("acme.Shapes").constants.texts() + [
        shapes.find("acme.Shapes").constants.value(index) for index in range(1, 200)
    ]


def test_methods_have_code_and_types(shapes):
    method = shapes.find("acme.Shapes").method("count")

    types = method_signature(method.signature)
    assert [str(each) for each in types.parameters] == ["java.util.List<?>", "acme.Shapes$T0[]"]
    assert str(types.returns) == "int"
    assert len(method.code.handlers) == 1
    assert list(method.annotations) == ["Ljava/lang/Deprecated;"]


def test_enums_have_their_constants_in_order(shapes):
    colour = shapes.find("acme.Shapes$Colour")

    assert colour.is_enum
    assert colour.enum_constants == ("RED", "GREEN", "BLUE")
    assert shapes.find("acme.Shapes$Colour$1").super_name == "acme.Shapes$Colour"


def test_records_have_their_components(shapes):
    point = shapes.find("acme.Shapes$Point")

    assert point.is_record
    assert point.is_final
    assert [(each.name, str(each.type)) for each in point.record_components] == [
        ("x", "long"),
        ("tags", "java.util.List<java.lang.String>"),
    ]


def test_nested_classes_say_whether_they_are_public_static_or_inner(shapes):
    found = {
        name: shapes.find(f"acme.{name}") for name in ("Shapes", "Shapes$Point", "Shapes$Inner", "Shapes$T0")
    }

    assert {name: each.is_inner for name, each in found.items()} == {
        "Shapes": False,
        "Shapes$Point": False,
        "Shapes$Inner": True,
        "Shapes$T0": False,
    }
    assert {name: each.is_public for name, each in found.items()} == {
        "Shapes": True,
        "Shapes$Point": True,
        "Shapes$Inner": True,
        "Shapes$T0": False,
    }
    assert shapes.find("acme.Shapes$Face$1").encloser == "acme.Shapes$Face"


@pytest.mark.parametrize("version", [44, 70, 0, 65535])
def test_a_version_that_is_not_known_is_refused(version):
    data = bytearray(bytes_of("acme.Shapes"))
    data[6:8] = version.to_bytes(2, "big")

    with pytest.raises(
        UnsupportedVersionError, match=f"expected a class file of version 45 to 69, found {version}"
    ):
        read_class(bytes(data))


@pytest.mark.parametrize("data", [b"", b"\xca\xfe", b"PK\x03\x04" * 8, b"\xca\xfe\xba\xbe\0\0\0\x41\xff\xff"])
def test_other_bytes_are_no_class(data):
    with pytest.raises(CorruptDataError):
        read_class(data)


def touch(found) -> None:
    """Ask for all that is read late."""
    _ = (
        found.generics,
        found.own_entry,
        found.enum_constants,
        found.constants.texts(),
        found.constants.classes(),
    )
    for field in found.fields:
        _ = field.type
    for method in found.methods:
        _ = method_signature(method.signature or method.descriptor)
    for component in found.record_components or ():
        _ = component.type


@given(data=st.data())
def test_a_damaged_class_file_is_read_or_refused(data):
    whole = bytearray(
        bytes_of(data.draw(st.sampled_from(["acme.Shapes", "acme.Shapes$Point", "acme.Shapes$Colour"])))
    )
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))

    with contextlib.suppress(ReaderError):
        touch(read_class(bytes(whole[:cut] if data.draw(st.booleans()) else whole)))


@given(text=st.text(alphabet="LTI[<>;:.()*+-aV/", max_size=60))
def test_any_text_is_a_signature_or_refused(text):
    for read in (type_of, method_signature, class_signature):
        with contextlib.suppress(CorruptDataError):
            read(text)


def test_types_in_one_another_are_bounded():
    with pytest.raises(CorruptDataError, match="at most 48 types in one another"):
        type_of("[" * 1000 + "I")
