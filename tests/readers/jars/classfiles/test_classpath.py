"""Jars: several of them, in one another, too large, damaged."""

from __future__ import annotations

import contextlib
import io
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readers import CorruptDataError, MissingFileError, ReaderError
from readers.jars.classpath import ClassPath, Jar
from tests.support.paths import DATA

SHAPES = DATA / "classfiles" / "shapes.jar"


def shape(name: str) -> bytes:
    with zipfile.ZipFile(SHAPES) as jar:
        return jar.read(f"{name.replace('.', '/')}.class")


def name_of(classes: ClassPath, name: str) -> str:
    found = classes.find(name)
    assert found is not None
    return found.name


def jar_of(entries: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, data in entries.items():
            jar.writestr(name, data)
    return buffer.getvalue()


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_classes_are_listed_and_found_by_their_binary_names():
    found = ClassPath.open([SHAPES])

    assert "acme.Shapes$Point" in found
    assert "acme.Point" not in found
    assert found.find("acme.Point") is None
    assert name_of(found, "acme.Shapes$Point") == "acme.Shapes$Point"
    assert sorted(found)[:2] == ["acme.Shapes", "acme.Shapes$Colour"]


def test_the_first_jar_with_a_class_wins(tmp_path):
    other = jar_of({"acme/Shapes.class": b"never read", "acme/Other.class": shape("acme.Shapes$T0")})

    found = ClassPath.open([SHAPES, written(tmp_path / "other.jar", other)])

    assert name_of(found, "acme.Shapes") == "acme.Shapes"
    with pytest.raises(CorruptDataError, match=r"expected the class acme\.Other, found acme\.Shapes\$T0"):
        found.find("acme.Other")


def test_jars_in_the_folder_lib_of_a_jar_belong_to_it(tmp_path):
    inner = jar_of({"acme/Shapes.class": shape("acme.Shapes")})
    outer = jar_of({"lib/inner.jar": inner, "elsewhere/other.jar": b"not a jar"})

    assert list(ClassPath.open([written(tmp_path / "outer.jar", outer)])) == ["acme.Shapes"]


def test_a_multi_release_jar_has_the_classes_of_its_newest_release_up_to_java_21(tmp_path):
    entries = {
        "acme/Shapes.class": b"old",
        "META-INF/versions/11/acme/Shapes.class": b"newer",
        "META-INF/versions/17/acme/Shapes.class": shape("acme.Shapes"),
        "META-INF/versions/99/acme/Shapes.class": b"too new",
    }
    manifest = {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\nMulti-Release: true\r\n"}

    found = ClassPath.open([written(tmp_path / "many.jar", jar_of(manifest | entries))])
    plain = ClassPath.open([written(tmp_path / "plain.jar", jar_of(entries))])

    assert list(found) == ["acme.Shapes"]
    assert name_of(found, "acme.Shapes") == "acme.Shapes"
    with pytest.raises(CorruptDataError):
        plain.find("acme.Shapes")


def test_classes_that_mention_a_text_are_found_without_parsing_them():
    found = ClassPath.open([SHAPES])

    assert list(found.mentioning(["leaf"])) == ["acme.Shapes$Colour$1"]
    assert list(found.mentioning([])) == []


def test_a_missing_jar_is_named(tmp_path):
    with pytest.raises(MissingFileError, match="expected a jar, found nothing"):
        ClassPath.open([tmp_path / "none.jar"])


@pytest.mark.parametrize("data", [b"", b"text", b"PK\x05\x06", b"\xca\xfe\xba\xbe" * 100])
def test_a_file_that_is_no_jar_is_refused(tmp_path, data):
    with pytest.raises(CorruptDataError):
        ClassPath.open([written(tmp_path / "no.jar", data)])


def test_a_jar_that_claims_a_million_entries_is_refused_before_they_are_read(tmp_path):
    with pytest.raises(CorruptDataError, match="expected at most 250000 entries, found 1000000"):
        ClassPath.open([written(tmp_path / "many.jar", claiming(1_000_000))])


def test_jars_have_together_as_many_entries_as_one_may_have(tmp_path):
    shapes, many = len(Jar.open(SHAPES).entries), claiming(250_000)
    message = f"expected at most 250000 entries, found {250_000 + shapes} in all jars"

    with pytest.raises(CorruptDataError, match=message):
        ClassPath.open([SHAPES, written(tmp_path / "many.jar", many)])
    nested = jar_of({"lib/a.jar": SHAPES.read_bytes(), "lib/b.jar": many})
    with pytest.raises(CorruptDataError, match=r"found 250... in all jars"):
        ClassPath.open([written(tmp_path / "nested.jar", nested)])


def claiming(entries):
    """A jar that claims to have so many entries."""
    end = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, entries, entries, 46_000_000, 0)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 0, 1)
    last = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return end + locator + last


def test_a_bomb_is_refused_by_its_size_and_not_inflated(tmp_path):
    bomb = jar_of({"acme/Bomb.class": bytes(40 << 20)})

    found = ClassPath.open([written(tmp_path / "bomb.jar", bomb)])

    with pytest.raises(CorruptDataError, match="expected at most 4194304 bytes, found 41943040"):
        found.find("acme.Bomb")


def test_an_entry_that_is_larger_than_it_says_is_refused(tmp_path):
    data = bytearray(jar_of({"acme/Bomb.class": bytes(1 << 20)}))
    directory = data.index(b"PK\x01\x02")
    data[directory + 24 : directory + 28] = (10).to_bytes(4, "little")

    with pytest.raises(CorruptDataError, match="expected 10 bytes, found 11"):
        ClassPath.open([written(tmp_path / "bomb.jar", bytes(data))]).find("acme.Bomb")


def test_a_wrong_checksum_is_refused(tmp_path):
    data = bytearray(jar_of({"acme/Shapes.class": shape("acme.Shapes")}))
    directory = data.index(b"PK\x01\x02")
    data[directory + 16 : directory + 20] = b"\0\0\0\0"

    with pytest.raises(CorruptDataError, match="expected the checksum 00000000"):
        ClassPath.open([written(tmp_path / "wrong.jar", bytes(data))]).find("acme.Shapes")


def test_a_jar_behind_a_script_is_read(tmp_path):
    data = b"#!/bin/sh\nexec java -jar $0\n" + SHAPES.read_bytes()

    assert ClassPath.open([written(tmp_path / "run.jar", data)]).find("acme.Shapes") is not None


@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_jar_is_read_or_refused(data):
    whole = bytearray(
        jar_of({"acme/T.class": shape("acme.Shapes$T0"), "lib/a.jar": jar_of({"a/B.class": b"1"})})
    )
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))

    with contextlib.suppress(ReaderError):
        found = ClassPath([Jar(bytes(whole), "damaged.jar")])
        for name in found:
            found.find(name)
        list(found.mentioning(["acme"]))


@pytest.mark.slow
def test_a_jar_of_20_000_classes_is_searched_whole(tmp_path):
    one = shape("acme.Shapes$Colour$1")
    names = [f"acme/many/C{number}.class" for number in range(20_000)]
    path = tmp_path / "large.jar"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as jar:
        for name in names:
            jar.writestr(name, one)

    found = ClassPath.open([path])

    assert len(found) == 20_000
    assert sum(1 for _ in found.mentioning(["leaf"])) == 20_000
    assert zlib.crc32(one) == Jar.open(path).entries[names[-1]].checksum
