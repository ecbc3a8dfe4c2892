"""Writes small class files and jars, which no compiler would write."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

PUBLIC = 0x0001


def class_file(
    name: str,
    super_name: str = "java.lang.Object",
    fields: Iterable[tuple[str, str]] = (),
    *,
    access: int = PUBLIC,
) -> bytes:
    """A class with public fields, each a name and a descriptor, and a public constructor without code."""
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
    members = [(PUBLIC, text(field), text(descriptor), 0) for field, descriptor in fields]
    constructor = (PUBLIC, text("<init>"), text("()V"), 0)
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
