"""Times to live and keys that hang together loosely with what they belong to: told, or said not to be told; never passed over."""

from __future__ import annotations

import io
import zipfile

import pytest

from readers import ClassPath, Jar
from readers.jars.declared.reading import Declarations, read_declarations
from tests.support.paths import DATA

JAR = DATA / "classfiles" / "loose.jar"


def declared_by(name: str) -> Declarations:
    """What one class declares, beside the classes that it needs."""
    others = ("Loose", "Loose$Base", "Loose$Expiry", "Loose$Any", "Loose$Bound")
    buffer = io.BytesIO()
    with zipfile.ZipFile(JAR) as jar, zipfile.ZipFile(buffer, "w") as kept:
        for each in (*others, f"Loose${name}"):
            kept.writestr(f"acme/{each}.class", jar.read(f"acme/{each}.class"))
    return read_declarations(ClassPath([Jar(buffer.getvalue(), "a.jar")]), ("s",), flink_major=2)[0]


@pytest.mark.parametrize(
    ("name", "has_ttl"),
    [
        ("Loop", None),  # the elements of a collection may be this descriptor
        ("Captured", None),  # of a lambda
        ("Behind", None),  # an interface hides the method that is called
        ("Sometimes", None),
        ("Reference", True),
        ("Lazily", True),  # the descriptor is made in the same branch
        ("Passed", True),
    ],
)
def test_a_time_to_live_that_the_code_leaves_open_is_not_told(name, has_ttl):
    (found,) = declared_by(name).states["s"]

    assert found.has_ttl is has_ttl


def test_a_time_to_live_of_one_descriptor_leaves_others_alone():
    (other,) = declared_by("Passed").states["other"]

    assert other.has_ttl is False


def test_the_type_of_a_key_comes_from_a_superclass_of_the_selector():
    declared = declared_by("KeyedByBound")

    assert [key.type_name for key in declared.keys] == ["String"]
    assert not declared.has_untold_keys


def test_a_selector_whose_key_is_a_type_variable_leaves_keys_untold():
    declared = declared_by("KeyedByAny")

    assert [key.type_name for key in declared.keys] == ["Long"]
    assert declared.has_untold_keys
