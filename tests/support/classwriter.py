"""Writes small class files and jars, which no compiler would write."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

PUBLIC, PRIVATE = 0x0001, 0x0002


def class_file(
    name: str,
    super_name: str = "java.lang.Object",
    fields: Iterable[tuple[str, str]] = (),
    *,
    access: int = PUBLIC,
    field_access: int = PUBLIC,
    constructor_access: int = PUBLIC,
) -> bytes:
    """A class with fields, each a name and a descriptor, and a constructor without code; public, if nothing else is given."""
    constants: list[bytes] = []

    def constant(data: bytes) -> int:
        constants.append(data)
        return len(constants)

    def text(value: str) -> int:
        encoded = value.encode()
        return constant(b"\x01" + struct.pack(">H", len(encoded)) + encoded)

    def class_(value: str) -> int:
        return constant(b"\x07" + struct.pack(">H", text(value.replace(".", "/"))))

    own, above = class_(name), class_(super_name)
    members = [(field_access, text(field), text(descriptor), 0) for field, descriptor in fields]
    constructor = (constructor_access, text("<init>"), text("()V"), 0)
    return b"".join(
        (
            struct.pack(">IHHH", 0xCAFEBABE, 0, 61, len(constants) + 1),
            *constants,
            struct.pack(">HHHHH", access, own, above, 0, len(members)),
            *(struct.pack(">4H", *member) for member in members),
            struct.pack(">H4H", 1, *constructor),
            struct.pack(">H", 0),
        )
    )


def write_jar(path: Path, classes: Mapping[str, bytes]) -> Path:
    """Write a jar of classes, by their binary names."""
    with zipfile.ZipFile(path, "w") as jar:
        for name, data in classes.items():
            jar.writestr(f"{name.replace('.', '/')}.class", data)
    return path
