"""Writes small class files and jars, which no compiler would write."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

PUBLIC, PRIVATE, STATIC = 0x0001, 0x0002, 0x0008
OBJECT = "java.lang.Object"


class ClassAssembler:
    """Assembles a class file with any code in its methods.

    Args:
        name: its binary name.
        super_name: of its superclass.
        signature: its generic signature, if it has one.
    """

    def __init__(self, name: str, super_name: str = OBJECT, signature: str | None = None) -> None:
        self._constants: list[bytes] = []
        self._known: dict[bytes, int] = {}
        self._index = 1
        self._fields: list[bytes] = []
        self._methods: list[bytes] = []
        self._own, self._above = self.class_(name), self.class_(super_name)
        self._attributes = (
            [] if signature is None else [self.attribute("Signature", u2(self.text(signature)))]
        )

    def constant(self, data: bytes) -> int:
        """Return the index of a constant; the same data is the same constant."""
        if data not in self._known:
            self._known[data] = self._index
            self._constants.append(data)
            self._index += 2 if data[0] in (5, 6) else 1
        return self._known[data]

    def text(self, value: str) -> int:
        """Return the index of a Utf8."""
        encoded = value.encode()
        return self.constant(b"\x01" + u2(len(encoded)) + encoded)

    def string(self, value: str) -> int:
        """Return the index of a String."""
        return self.constant(b"\x08" + u2(self.text(value)))

    def class_(self, value: str) -> int:
        """Return the index of a Class, by its binary name."""
        return self.constant(b"\x07" + u2(self.text(value.replace(".", "/"))))

    def member(self, owner: str, name: str, descriptor: str, tag: int = 10) -> int:
        """Return the index of a method; of a field with the tag 9."""
        pair = self.constant(b"\x0c" + u2(self.text(name)) + u2(self.text(descriptor)))
        return self.constant(bytes([tag]) + u2(self.class_(owner)) + u2(pair))

    def attribute(self, name: str, data: bytes) -> bytes:
        """Return an attribute."""
        return u2(self.text(name)) + struct.pack(">I", len(data)) + data

    def field(self, name: str, descriptor: str, access: int = PUBLIC) -> None:
        """Add a field."""
        self._fields.append(u2(access) + u2(self.text(name)) + u2(self.text(descriptor)) + u2(0))

    def method(
        self,
        name: str,
        descriptor: str,
        code: bytes | None,
        *,
        access: int = PUBLIC | STATIC,
        handlers: Iterable[int] = (),
    ) -> None:
        """Add a method, with the positions of its handlers; None for one without code."""
        attributes = []
        if code is not None:
            table = [u2(0) * 2 + u2(at) + u2(0) for at in handlers]
            body = u2(65535) * 2 + struct.pack(">I", len(code)) + code + u2(len(table)) + b"".join(table)
            attributes.append(self.attribute("Code", body + u2(0)))
        head = u2(access) + u2(self.text(name)) + u2(self.text(descriptor))
        self._methods.append(head + u2(len(attributes)) + b"".join(attributes))

    def annotate(self, data: bytes) -> None:
        """Add one annotation, given by its elements with their count."""
        annotation = u2(1) + u2(self.text("Lacme/Note;")) + data
        self._attributes.append(self.attribute("RuntimeVisibleAnnotations", annotation))

    def data(self) -> bytes:
        """Return the class file."""
        return b"".join(
            (
                struct.pack(">IHHH", 0xCAFEBABE, 0, 61, self._index),
                *self._constants,
                u2(PUBLIC) + u2(self._own) + u2(self._above) + u2(0),
                u2(len(self._fields)),
                *self._fields,
                u2(len(self._methods)),
                *self._methods,
                u2(len(self._attributes)),
                *self._attributes,
            )
        )


def u2(value: int) -> bytes:
    """Return two bytes, big-endian."""
    return struct.pack(">H", value)


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
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, data in classes.items():
            jar.writestr(f"{name.replace('.', '/')}.class", data)
    return path
