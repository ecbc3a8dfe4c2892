"""The bytes of a savepoint in which texts and numbers may be left over: its files, whatever is in them, and what they hold compressed.

| searched | because |
|---|---|
| every file of the folder, and every file that a handle names, as it is | also what no reader reads: garbage, states of unknown types |
| blocks of SST files, plain, with keys in full | compressed, keys share their beginnings, and old entries and deletions stay |
| compressed key groups and lists, decompressed | |
| the names of files | |

A text is looked for in the forms in which Flink and its serializers write texts and numbers: see `forms_of`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from readers.errors import ReaderError
from readers.formats.rocksdb.sst.files import Files, TableBytes
from readers.formats.rocksdb.sst.manifest import NotReadHereError
from readers.formats.rocksdb.sst.table import plain_blocks
from readers.formats.source import Selection, Source
from readers.savepoint import Savepoint
from readers.storage.filesystems import Stream
from readers.surveys.needles import LEAST_BYTES, Needles, expanded

Bytes = NDArray[np.uint8]
_PIECE_BYTES = 4 << 20
_SST_MAGIC = (0x88E241B785F4CFF7).to_bytes(8, "little")
_UTF_8 = "UTF-8"
_ENTRIES = "entries of the SST file"
_SST_BACKENDS = frozenset({"rocksdb", "forst"})
_LEAST_NUMBER = 1 << 16  # smaller ones stand in most files, as counts and lengths
# How `Needles` takes the forms that are no texts in bytes.
_WIDTHS = {"Long": 0, "Int": 0, "Kryo": 0, "UTF-16 (big endian)": 2, "UTF-16 (little endian)": 3}
_LONG, _INT = range(-(1 << 63), 1 << 63), range(-(1 << 31), 1 << 31)


def forms_of(text: str) -> Iterator[tuple[str, bytes]]:
    """Yield the forms in which a text may stand in files, with their names; none that many other values have, too.

    Flink's own texts have seven bits of a character in a byte (StringValue), those of Java's streams UTF-8 of halves of a pair, and the
    last byte of Kryo's has another bit. A text that goes on with a letter or digit is another one, and does not count.
    """
    utf_8 = text.encode("utf-8", "surrogatepass")
    forms = {
        _UTF_8: utf_8,
        "UTF-16 (big endian)": text.encode("utf-16-be", "surrogatepass"),
        "UTF-16 (little endian)": text.encode("utf-16-le", "surrogatepass"),
        "StringValue": _string_value(text),
        "modified UTF-8": _modified_utf_8(text),
        "Kryo": utf_8[:-1] + bytes([utf_8[-1] | 0x80]) if text.isascii() and text else b"",
    }
    number = _number_of(text)
    if number is not None and not _is_small(text):
        if number in _LONG:
            forms["Long"] = number.to_bytes(8, "big", signed=True)
        if number in _INT:
            forms["Int"] = number.to_bytes(4, "big", signed=True)
    known: set[bytes] = set()
    for name, form in forms.items():
        if len(form) >= LEAST_BYTES and form not in known:
            known.add(form)
            yield name, form


def _number_of(text: str) -> int | None:
    # Text with leading zeros is another id than the number.
    return int(text) if re.fullmatch(r"-?(0|[1-9][0-9]{0,18})", text, re.ASCII) else None


def _is_small(text: str) -> bool:
    number = _number_of(text)
    return number is not None and abs(number) < _LEAST_NUMBER


def _string_value(text: str) -> bytes:
    """Return the characters of a text as Flink's StringValue writes them, without its length."""
    found = bytearray()
    for unit in np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2").tolist():
        while unit >= 0x80:
            found.append(unit & 0x7F | 0x80)
            unit >>= 7
        found.append(unit)
    return bytes(found)


def _modified_utf_8(text: str) -> bytes:
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2").tolist()
    return b"".join(
        b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in units
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Bytes of a text that were found.

    Attributes:
        path: of the file.
        where: what of the file was searched.
        number: of the text.
        form: in which it stands there.
        count: how often.
        position: of the first, in what was searched.
    """

    path: str
    where: str
    number: int
    form: str
    count: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What a search found.

    Attributes:
        found: the bytes of texts, by files.
        unread: what could not be read, and so not be searched, with the reason.
        unsearched: the numbers of texts that are too short, or small numbers: their bytes stand everywhere.
        files, searched_bytes: how much was searched.
    """

    found: tuple[Leftover, ...]
    unread: tuple[str, ...]
    unsearched: tuple[int, ...]
    files: int
    searched_bytes: int


def find_leftovers(savepoint: Savepoint, texts: Sequence[str], threads: int = 1) -> Leftovers:
    """Search all bytes of a savepoint for texts.

    Args:
        savepoint: the savepoint.
        texts: no two alike.
        threads: most files that are searched at the same time.
    """
    forms = [(number, name, form) for number, text in enumerate(texts) for name, form in forms_of(text)]
    needles, meanings = _distinct(forms)
    search = _Search(Needles(needles, [_WIDTHS.get(one[0][1], 1) for one in meanings]), meanings)
    unread: list[str] = []
    units = [*_files(savepoint), *_tables(savepoint, unread), *_decompressed(savepoint)]
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        list(pool.map(search.unit, units))
    found = sorted(search.found, key=lambda one: (one.path, one.where, one.number, one.form))
    errors = [
        f"{one.error.path or one.family.value}: {one.error}"
        for op in savepoint.operators
        for one in op.unread
    ]
    # Forms of other lengths may be long enough; a proof needs all that are usual.
    usual = {number for number, name, _ in forms if name == _UTF_8 and not _is_small(texts[number])}
    return Leftovers(
        found=tuple(found),
        unread=(*dict.fromkeys([*errors, *sorted([*unread, *search.unread])]),),
        unsearched=tuple(number for number in range(len(texts)) if number not in usual),
        files=sum(isinstance(one, _File) for one in units),
        searched_bytes=search.searched_bytes,
    )


_Meaning = tuple[int, str]


def _distinct(forms: Iterable[tuple[int, str, bytes]]) -> tuple[list[bytes], list[list[_Meaning]]]:
    """Return the strings to look for, and what each of them is: two texts may share one."""
    found: dict[bytes, list[_Meaning]] = {}
    for number, name, form in forms:
        found.setdefault(form, []).append((number, name))
    return list(found), list(found.values())


@dataclass(frozen=True, slots=True)
class _File:
    """A file, or the bytes of a handle; `path` is that of a local file, else `stream` opens the bytes."""

    shown: str
    path: Path | None = None
    stream: Stream | None = None


@dataclass(frozen=True, slots=True)
class _Table:
    """An SST file: in a file of its own, in a part of one, or in `_metadata`."""

    shown: str
    stream: Stream


@dataclass(frozen=True, slots=True)
class _Pages:
    """What a source holds compressed."""

    source: Source


class _Search:
    """Searches files and pages, in several threads."""

    def __init__(self, needles: Needles, meanings: list[list[_Meaning]]) -> None:
        self._needles, self._meanings = needles, meanings
        self.found: list[Leftover] = []
        self.unread: list[str] = []
        self.searched_bytes = 0

    def unit(self, unit: _File | _Table | _Pages) -> None:
        """Search a file, the entries of an SST file, or the pages of a source."""
        if isinstance(unit, _Pages):
            self._pages(unit.source)
            return
        try:
            if isinstance(unit, _Table):
                self._look(unit.shown, _ENTRIES, _entries(unit.stream))
                return
            name = np.frombuffer(os.fsencode(unit.shown), dtype=np.uint8)
            self._look(unit.shown, "name", iter([name]))
            if unit.path is not None:
                self._look(unit.shown, "file", _pieces(unit.path))
            elif unit.stream is not None:
                stream = unit.stream
                starts = range(0, stream.size_bytes, _PIECE_BYTES)
                self._look(
                    unit.shown,
                    "file",
                    (stream.view(start, min(_PIECE_BYTES, stream.size_bytes - start)) for start in starts),
                )
        except (OSError, ReaderError, NotReadHereError) as error:
            self.unread.append(f"{unit.shown}: {error}")

    def _pages(self, source: Source) -> None:
        seen: set[tuple[int, int]] = set()
        for name in source.entries:
            try:
                for page in source.pages(name, Selection()):
                    place = page.data.ctypes.data, len(page.data)
                    # States of one key group share its bytes.
                    if place not in seen:
                        seen.add(place)
                        self._look(source.path, f"decompressed {name.name}", iter([np.array(page.data)]))
                    seen = {place}
            except ReaderError as error:
                self.unread.append(f"{source.path}, {name.name}: {error}")

    def _look(self, path: str, where: str, pieces: Iterator[Bytes]) -> None:
        size = 0

        def counted() -> Iterator[Bytes]:
            nonlocal size
            for piece in pieces:
                size += len(piece)
                yield piece

        for hit in self._needles.hits(counted()):
            self.found += [
                Leftover(
                    path=path, where=where, number=number, form=form, count=hit.count, position=hit.first
                )
                for number, form in self._meanings[hit.number]
            ]
        self.searched_bytes += size


def files_of(savepoint: Savepoint) -> Iterator[tuple[str, Path]]:
    """Yield every file on this machine: those in the folder, by their names there, and those elsewhere that a handle names."""
    location = savepoint.location
    seen: set[str] = set()
    if location.is_local:
        folder = location.exclusive_directory.path
        for base, _, names in os.walk(folder):
            for name in sorted(names):
                path = os.path.join(base, name)
                seen.add(os.path.realpath(path))
                yield os.path.relpath(path, folder), Path(path)
    for handle in savepoint.metadata.streams():
        with suppress(ReaderError):  # an unread handle
            file = location.resolve(handle) if handle.path is not None else None
            if (
                file is not None
                and file.is_local
                and (real := os.path.realpath(file.location.path)) not in seen
            ):
                seen.add(real)
                yield file.location.path, Path(file.location.path)


def _files(savepoint: Savepoint) -> Iterator[_File]:
    yield from (_File(name, path) for name, path in files_of(savepoint))
    location = savepoint.location
    if location.is_local:
        return
    yield _File(str(location.metadata), stream=location.open_metadata())
    seen: set[str] = set()
    for handle in savepoint.metadata.streams():
        with suppress(ReaderError):
            file = location.resolve(handle) if handle.path is not None else None
            if file is not None and not file.is_local and file.path not in seen:
                seen.add(file.path)
                yield _File(file.path, stream=location.open_stream(handle))


def _tables(savepoint: Savepoint, unread: list[str]) -> Iterator[_Table]:
    """Yield the SST files of handles, wherever their bytes are; note those that cannot be opened."""
    seen: set[Hashable] = set()
    for handle in savepoint.metadata.streams():
        if handle.inline_data is None and (handle.path is None or handle in seen):
            continue
        seen.add(handle)
        try:
            stream = savepoint.location.open_stream(handle)
            size = stream.size_bytes
            if size > len(_SST_MAGIC) and stream.read(size - len(_SST_MAGIC), len(_SST_MAGIC)) == _SST_MAGIC:
                yield _Table(handle.path or f"_metadata ({handle.name})", stream)
        except ReaderError as error:
            unread.append(f"{handle.path or handle.name}: {error}")


def _decompressed(savepoint: Savepoint) -> Iterator[_Pages]:
    """Yield the sources whose bytes stand in no file as they are."""
    for operator in savepoint.operators:
        for source in operator.sources:
            header = source.stored_header()
            is_plain = header is not None and not header.header.compressed
            if source.backend not in _SST_BACKENDS and not is_plain:
                yield _Pages(source)


def _pieces(path: Path) -> Iterator[Bytes]:
    with path.open("rb", buffering=0) as file:
        while True:
            piece = np.empty(_PIECE_BYTES, dtype=np.uint8)
            count = file.readinto(memoryview(piece))
            if not count:
                return
            yield piece[:count]


def _entries(stream: Stream) -> Iterator[Bytes]:
    for block, length in plain_blocks(_OneFile(stream), stream.path):
        found = expanded(block, length)
        if found is None:
            raise NotReadHereError("a malformed block")
        yield found


class _OneFile(Files):
    """One SST file, which no MANIFEST names."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    @property
    def is_local(self) -> bool:
        return False

    def read(self, name: str) -> bytes:
        return self._stream.read(0, self._stream.size_bytes)

    def open(self, name: str) -> TableBytes:
        return _StreamBytes(self._stream)

    def directory(self) -> Path:
        raise NotImplementedError


class _StreamBytes(TableBytes):
    def __init__(self, stream: Stream) -> None:
        self._stream, self.size_bytes = stream, stream.size_bytes

    def read_into(self, buffer: Bytes, offset: int) -> int:
        count = max(min(len(buffer), self.size_bytes - offset), 0)
        buffer[:count] = self._stream.view(offset, count)
        return count

    def close(self) -> None:
        """The stream is its owner's."""
