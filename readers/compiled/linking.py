"""An object file → an image of memory, which is loaded without LLVM.

LLVM emits the code of kernels for the large code model: whatever stands elsewhere, code or constants, is referred to by its
64-bit address, and by nothing else. So an image is the sections one after another, with a list of the words to which the
address of the image must be added, and a list of the words that are addresses of the C library's functions.

Read of an ELF file, all little endian (System V ABI, chapter 4; AMD64 supplement, 4.4):

| struct | fields, in order |
|---|---|
| header, at 0 | 16 bytes identification · type · machine · … · offset of the section headers at 40 · their size and number at 58 |
| section header | name · type · flags · address · offset · size · link · info · alignment · size of an entry |
| symbol | name · info · other · section · value · size |
| relocation with addend | offset in its section · symbol << 32, kind · addend |
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_IDENTIFICATION = b"\x7fELF\x02\x01"
_RELOCATABLE, _X86_64 = 1, 62
_SYMBOLS, _RELOCATIONS, _RELOCATIONS_WITHOUT_ADDEND, _NO_BYTES = 2, 4, 9, 8
_WRITE, _ALLOCATE, _THREAD_LOCAL = 1, 2, 1 << 10
_ADDRESS = 1
"""R_X86_64_64: the word is the symbol's address and the addend."""
_UNDEFINED = 0
_WORD = struct.Struct("<Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Code and constants as they stand in memory.

    Attributes:
        content: the bytes; where a word is an address in the image, its offset.
        inner: the offsets of these words.
        outer: name of a function of the C library → the offsets of the words that are its address.
        entries: symbol → offset of its code.
    """

    content: bytes
    inner: tuple[int, ...]
    outer: dict[str, tuple[int, ...]]
    entries: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Section:
    """A header of a section; see above."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


def image_of(code: bytes) -> Image | None:
    """Return the image of an object file; None if it is of another machine, or has what no image can have."""
    if not code.startswith(_IDENTIFICATION) or struct.unpack_from("<HH", code, 16) != (_RELOCATABLE, _X86_64):
        return None
    sections = list(_sections(code))
    placed: dict[int, int] = {}
    content = bytearray()
    for number, section in enumerate(sections):
        if not section.flags & _ALLOCATE:
            continue
        if section.flags & (_WRITE | _THREAD_LOCAL) or section.kind == _NO_BYTES:
            return None
        content += bytes(-len(content) % max(section.alignment, 1))
        placed[number] = len(content)
        content += code[section.offset : section.offset + section.size]
    symbols = list(_symbols(code, sections))
    inner: list[int] = []
    outer: dict[str, list[int]] = {}
    for section in sections:
        if section.kind not in (_RELOCATIONS, _RELOCATIONS_WITHOUT_ADDEND) or section.info not in placed:
            continue
        if section.kind == _RELOCATIONS_WITHOUT_ADDEND:
            return None
        entries = code[section.offset : section.offset + section.size]
        for offset, reference, addend in struct.iter_unpack("<QQq", entries):
            name, home, value = symbols[reference >> 32]
            place = placed[section.info] + offset
            if reference & 0xFFFFFFFF != _ADDRESS:
                return None
            if home in placed:
                _WORD.pack_into(content, place, placed[home] + value + addend)
                inner.append(place)
            elif home == _UNDEFINED and addend == 0:
                outer.setdefault(name, []).append(place)
            else:
                return None
    return Image(
        content=bytes(content),
        inner=tuple(inner),
        outer={name: tuple(places) for name, places in outer.items()},
        entries={name: placed[home] + value for name, home, value in symbols if name and home in placed},
    )


def _sections(code: bytes) -> Iterator[_Section]:
    (start,) = _WORD.unpack_from(code, 40)
    size, number = struct.unpack_from("<HH", code, 58)
    for at in range(start, start + size * number, size):
        yield _Section(*struct.unpack_from("<IIQQQQIIQQ", code, at))


def _symbols(code: bytes, sections: list[_Section]) -> Iterator[tuple[str, int, int]]:
    """Yield the name, the section and the offset in it of each symbol."""
    for section in sections:
        if section.kind == _SYMBOLS:
            names = sections[section.link].offset
            entries = code[section.offset : section.offset + section.size]
            for name, _, _, home, value, _ in struct.iter_unpack("<IBBHQQ", entries):
                start = names + name
                yield code[start : code.index(b"\0", start)].decode(), home, value
