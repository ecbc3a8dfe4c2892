"""`Jar`: the entries of a jar; `ClassPath`: the classes of one or several jars, found by their names.

Of a jar, or any other ZIP file, the central directory is read once, and the bytes of an entry when they are asked for:

| record | signature | what is read |
|---|---|---|
| end of central directory | `PK 05 06` | u2 count, u4 size and u4 offset of the directory |
| its 64-bit form | `PK 06 06` | u8 count, size, offset |
| entry of the directory | `PK 01 02` | flags, method, CRC, sizes, name, offset of the entry |
| local header | `PK 03 04` | lengths of name and extra field, which stand before the bytes |

Source: APPNOTE.TXT 6.3.10 of PKWARE. A jar comes from a user: counts, sizes and ratios are checked before anything is
inflated, and inflating stops at the size that the directory states.

A class is read when it is first asked for, and again if many others were read since. As in Flink, jars in the folder `lib` of a jar
belong to it. Of a multi-release jar the classes of the newest Java that Flink runs on are taken.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from readers.errors import CorruptDataError, MissingFileError, StorageError
from readers.jars.classfile import UTF8, ClassFile, read_class
from readers.storage.filesystems import watch_map

MAX_ENTRIES = 250_000
MAX_JAR_BYTES = 4 << 30
MAX_ENTRY_BYTES = 32 << 20  # of a resource
MAX_CLASS_BYTES = 4 << 20  # parsed, it takes twenty times as much
MAX_NESTED_BYTES = 128 << 20  # of all jars in a jar: they are kept in memory
_MAX_DIRECTORY_BYTES = 48 << 20
_NESTED = re.compile(r"lib/[^/]+\.jar")
_MAX_RATIO = 1100  # deflate packs at most 1032 bytes into one

_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_MAX_COMMENT = 0xFFFF
_STORED, _DEFLATED = 0, 8
_ENCRYPTED = 0x1
_UNKNOWN_32, _UNKNOWN_16 = 0xFFFFFFFF, 0xFFFF
_EXTRA_64 = 0x0001


@dataclass(frozen=True, slots=True)
class JarEntry:
    """One file in a jar, as the central directory records it."""

    name: str
    flags: int
    method: int
    checksum: int
    packed_bytes: int
    size_bytes: int
    offset: int


class Jar:
    """An opened jar.

    Args:
        data: its bytes.
        path: for errors.
        most_entries: that it may have, with those of its nested jars.

    Raises:
        CorruptDataError: it is no ZIP file, or larger than allowed.
    """

    def __init__(
        self, data: bytes | memoryview | mmap.mmap, path: str, most_entries: int = MAX_ENTRIES
    ) -> None:
        self.path = path
        self._data = memoryview(data)
        self._most_entries = most_entries
        self._nested: tuple[Jar, ...] | None = None
        self.entries = {entry.name: entry for entry in self._directory()}

    @property
    def nested(self) -> tuple[Jar, ...]:
        """The jars in its folder `lib`, which as in Flink belong to it. They are read once.

        Raises:
            CorruptDataError: one is damaged, or they are larger than allowed.
        """
        if self._nested is None:
            found = [entry for name, entry in self.entries.items() if _NESTED.fullmatch(name)]
            size = sum(entry.size_bytes for entry in found)
            if size > MAX_NESTED_BYTES:
                raise CorruptDataError(
                    f"expected at most {MAX_NESTED_BYTES} bytes of jars in the folder lib, found {size}",
                    path=self.path,
                )
            nested, left = [], self._most_entries - len(self.entries)
            for entry in found:
                nested.append(Jar(self.read(entry, MAX_NESTED_BYTES), f"{self.path}!/{entry.name}", left))
                left -= len(nested[-1].entries)
            self._nested = tuple(nested)
        return self._nested

    @classmethod
    def open_all(cls, paths: Iterable[str | os.PathLike[str]]) -> list[Jar]:
        """Open local jars, which may have as many entries together as one may have.

        Raises:
            MissingFileError: one does not exist.
            StorageError: one cannot be read.
            CorruptDataError: one is no ZIP file, or they are larger than allowed.
        """
        found, left = [], MAX_ENTRIES
        for path in paths:
            found.append(cls.open(path, left))
            left -= len(found[-1].entries)
        return found

    @classmethod
    def open(cls, path: str | os.PathLike[str], most_entries: int = MAX_ENTRIES) -> Jar:
        """Open a local file.

        Raises:
            MissingFileError: it does not exist.
            StorageError: it cannot be read.
            CorruptDataError: it is no ZIP file, or larger than allowed.
        """
        name = os.fspath(path)
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size > MAX_JAR_BYTES:
                    raise CorruptDataError(
                        f"expected a jar of at most {MAX_JAR_BYTES} bytes, found {size}", path=name
                    )
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else None
                if data is not None:
                    watch_map(data, name)
        except FileNotFoundError as error:
            raise MissingFileError("expected a jar, found nothing", path=name) from error
        except OSError as error:
            raise StorageError(f"expected a jar, found {error.strerror}", path=name) from error
        return cls(data or b"", name, most_entries)

    def read(self, entry: JarEntry, at_most: int = MAX_ENTRY_BYTES) -> bytes:
        """Return the bytes of an entry.

        Raises:
            CorruptDataError: it is damaged, encrypted, packed in another way, or larger than `at_most`.
        """
        if entry.size_bytes > at_most:
            raise self._corrupt(f"expected at most {at_most} bytes, found {entry.size_bytes}", entry)
        if entry.flags & _ENCRYPTED:
            raise self._corrupt("expected an entry that can be read, found an encrypted one", entry)
        packed = self._packed(entry)
        if entry.method == _STORED:
            data = bytes(packed)
        elif entry.method == _DEFLATED:
            data = self._inflated(packed, entry)
        else:
            raise self._corrupt(f"expected packing by deflate (8) or none (0), found {entry.method}", entry)
        if len(data) != entry.size_bytes:
            raise self._corrupt(f"expected {entry.size_bytes} bytes, found {len(data)}", entry)
        if zlib.crc32(data) != entry.checksum:
            raise self._corrupt(
                f"expected the checksum {entry.checksum:08x}, found {zlib.crc32(data):08x}", entry
            )
        return data

    def _packed(self, entry: JarEntry) -> memoryview:
        if entry.offset + _LOCAL.size > len(self._data):
            raise self._corrupt("expected an entry inside the file, found one behind its end", entry)
        header = _LOCAL.unpack_from(self._data, entry.offset)
        if header[0] != b"PK\x03\x04":
            raise self._corrupt(f"expected a local header, found {header[0].hex()}", entry)
        start = entry.offset + _LOCAL.size + header[-2] + header[-1]
        if start + entry.packed_bytes > len(self._data):
            raise self._corrupt("expected an entry inside the file, found one behind its end", entry)
        return self._data[start : start + entry.packed_bytes]

    def _inflated(self, packed: memoryview, entry: JarEntry) -> bytes:
        if entry.size_bytes > (entry.packed_bytes + 1) * _MAX_RATIO:
            raise self._corrupt(
                f"expected bytes that deflate can pack, found {entry.size_bytes} in {entry.packed_bytes}",
                entry,
            )
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            # One byte more than stated shows that the statement is wrong.
            return inflater.decompress(packed, entry.size_bytes + 1)
        except zlib.error as error:
            raise self._corrupt(f"expected deflated bytes, found {error}", entry) from error

    def _directory(self) -> Iterator[JarEntry]:
        """Read the central directory."""
        count, size, offset, end = self._end()
        if count > self._most_entries:
            raise CorruptDataError(
                f"expected at most {MAX_ENTRIES} entries, found {MAX_ENTRIES - self._most_entries + count} in all jars",
                path=self.path,
            )
        if size > _MAX_DIRECTORY_BYTES:
            raise CorruptDataError(
                f"expected a central directory of at most {_MAX_DIRECTORY_BYTES} bytes, found {size}",
                path=self.path,
            )
        # Bytes before the archive (a script that starts it) move all offsets.
        start = end - size
        shift = start - offset
        if start < 0 or shift < 0:
            raise CorruptDataError(
                f"expected a central directory before byte {end}, found one of {size} bytes at {offset}",
                path=self.path,
            )
        position = start
        for _ in range(count):
            if position + _ENTRY.size > end:
                raise CorruptDataError(
                    f"expected {count} entries in the central directory, found its end",
                    path=self.path,
                    position=position,
                )
            entry = _ENTRY.unpack_from(self._data, position)
            if entry[0] != b"PK\x01\x02":
                raise CorruptDataError(
                    f"expected an entry of the central directory, found {entry[0].hex()}",
                    path=self.path,
                    position=position,
                )
            flags, method, checksum, packed, unpacked = *entry[3:5], *entry[7:10]
            name_bytes, extra_bytes, comment_bytes, at = *entry[10:13], entry[16]
            name_at = position + _ENTRY.size
            extra_at = name_at + name_bytes
            position = extra_at + extra_bytes + comment_bytes
            name = bytes(self._data[name_at:extra_at]).decode("utf-8", "replace")
            if name.endswith("/"):
                continue
            if _UNKNOWN_32 in (packed, unpacked, at):
                extra = self._data[extra_at : extra_at + extra_bytes]
                packed, unpacked, at = _sizes_64(extra, packed, unpacked, at)
            yield JarEntry(name, flags, method, checksum, packed, unpacked, at + shift)

    def _end(self) -> tuple[int, int, int, int]:
        """Return count, size and offset of the central directory, and where it ends."""
        tail_at = max(0, len(self._data) - _END.size - _MAX_COMMENT)
        tail = bytes(self._data[tail_at:])
        found = tail.rfind(b"PK\x05\x06")
        if found < 0 or found + _END.size > len(tail):
            raise CorruptDataError(
                "expected a jar, found no end of a central directory",
                path=self.path,
                position=len(self._data),
            )
        end = tail_at + found
        _, _, _, _, count, size, offset, _ = _END.unpack_from(self._data, end)
        locator_at = end - _LOCATOR.size
        if (count == _UNKNOWN_16 or _UNKNOWN_32 in (size, offset)) and locator_at >= 0:
            signature, _, at, _ = _LOCATOR.unpack_from(self._data, locator_at)
            if signature == b"PK\x06\x07" and at + _END_64.size <= locator_at:
                record = _END_64.unpack_from(self._data, at)
                if record[0] == b"PK\x06\x06":
                    return record[7], record[8], record[9], at
        return count, size, offset, end

    def _corrupt(self, message: str, entry: JarEntry) -> CorruptDataError:
        return CorruptDataError(message, path=f"{self.path}!/{entry.name}", position=entry.offset)


def _sizes_64(extra: memoryview, packed: int, unpacked: int, at: int) -> tuple[int, int, int]:
    """Return the sizes and the offset from the 64-bit extra field: it holds those that are unknown, in this order."""
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, position)
        position += 4
        if kind == _EXTRA_64:
            values = iter(
                struct.unpack_from("<Q", extra, position + index)[0]
                for index in range(0, min(length, len(extra) - position) - 7, 8)
            )
            unpacked = next(values, unpacked) if unpacked == _UNKNOWN_32 else unpacked
            packed = next(values, packed) if packed == _UNKNOWN_32 else packed
            return packed, unpacked, next(values, at) if at == _UNKNOWN_32 else at
        position += length
    return packed, unpacked, at


JAVA_RELEASE = 21  # the newest Java that Flink 2.3 supports

_CLASS = ".class"
_MANIFEST = "META-INF/MANIFEST.MF"
_VERSIONED = re.compile(r"META-INF/versions/([1-9]\d{0,2})/(.+)")
_MAX_JARS = 1_000
_MAX_TOTAL_BYTES = 512 << 20  # inflated for one class path: some seconds
_MAX_PARSED_BYTES = 16 << 20  # of class files: some seconds
_MEMBER_BYTES = 64  # a field or method takes as long as so many more bytes
_MAX_KEPT_BYTES = 4 << 20  # of class files that are parsed, the last ones
_MAX_MANIFEST_BYTES = 4 << 20
_MAX_CONSTANT = 0xFFFF


class ClassPath:
    """The classes of jars, in the order in which Java searches them. Nothing is loaded or run.

    Args:
        jars: opened jars; their nested jars are opened with them.
        is_foreign: True for jars of somebody else: there is an end to how much of them is parsed.

    Attributes:
        is_foreign: as given.
        unread: how many entries `mentioning` passed over, as they are damaged or beyond the limits.

    Raises:
        CorruptDataError: a nested jar is damaged, or there is more than the limits allow.
    """

    def __init__(self, jars: Iterable[Jar], *, is_foreign: bool = False) -> None:
        self._lock = threading.Lock()
        self.is_foreign = is_foreign
        self._entries: dict[str, tuple[Jar, JarEntry]] = {}
        # The one that was asked for last comes last.
        self._classes: dict[str, tuple[ClassFile, int]] = {}
        self._kept_bytes = self._parsed_bytes = self._inflated_bytes = 0
        self._jars = self._seen = 0
        self.unread = 0
        for jar in jars:
            self._add(jar)
            for nested in jar.nested:
                self._add(nested)

    @classmethod
    def open(cls, paths: Iterable[str | os.PathLike[str]]) -> ClassPath:
        """Open local jars.

        Raises:
            MissingFileError: one does not exist.
            StorageError: one cannot be read.
            CorruptDataError: one is damaged, or larger than allowed.
        """
        return cls(Jar.open_all(paths))

    def __contains__(self, name: str) -> bool:
        """Return whether there is a class of a binary name: `com.acme.Order$Item`."""
        return _file_of(name) in self._entries

    def __iter__(self) -> Iterator[str]:
        """Yield the binary names of all classes."""
        for name in self._entries:
            if name.endswith(_CLASS) and not name.startswith("META-INF/"):
                yield name.removesuffix(_CLASS).replace("/", ".")

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def find(self, name: str) -> ClassFile | None:
        """Return the class of a binary name; None if there is none.

        Raises:
            CorruptDataError: the entry or the class file is damaged.
            UnsupportedVersionError: a version of class files that is not known.
        """
        found = self._entries.get(_file_of(name))
        if found is None:
            return None
        with self._lock:
            kept = self._classes.pop(name, None) or self._parsed(name, *found)
            self._classes[name] = kept
        return kept[0]

    def _parsed(self, name: str, jar: Jar, entry: JarEntry) -> tuple[ClassFile, int]:
        """Return a class and its size, and let go of those that were not asked for for longest."""
        size = entry.size_bytes
        self._parsed_bytes += size
        if self.is_foreign and self._parsed_bytes > _MAX_PARSED_BYTES:
            raise CorruptDataError(
                f"expected at most {_MAX_PARSED_BYTES} bytes of class files to parse, found more",
                path=entry.name,
            )
        data = jar.read(entry, MAX_CLASS_BYTES)
        found = self._checked(read_class(data, f"{jar.path}!/{entry.name}"), name)
        self._parsed_bytes += _MEMBER_BYTES * (len(found.fields) + len(found.methods))
        self._kept_bytes += size
        while self._kept_bytes > _MAX_KEPT_BYTES and self._classes:
            self._kept_bytes -= self._classes.pop(next(iter(self._classes)))[1]
        return found, size

    def mentioning(self, texts: Iterable[str], constants: Iterable[str] = ()) -> Iterator[str]:
        """Yield the names of the classes whose bytes hold one of some texts, unparsed.

        Damaged entries are passed over and counted in `unread`; `find` raises their errors.

        Args:
            texts: they may stand anywhere, also within names.
            constants: each is the whole of a constant: a name, or a text.
        """
        # As a constant pool holds it: modified UTF-8, which is UTF-8 but for U+0000 and characters beyond U+FFFF.
        wanted = [text.encode("utf-8", "replace") for text in texts]
        whole = [text.encode("utf-8", "replace")[:_MAX_CONSTANT] for text in constants]
        wanted += [bytes([UTF8]) + len(text).to_bytes(2, "big") + text for text in whole]
        if not wanted:
            return
        pattern = re.compile(b"|".join(re.escape(text) for text in wanted))
        for name in self:
            jar, entry = self._entries[_file_of(name)]
            try:
                data = self.read(jar, entry, MAX_CLASS_BYTES)
            except CorruptDataError:
                self.unread += 1
                continue
            if pattern.search(data):
                yield name

    def resource(self, name: str) -> bytes | None:
        """Return the bytes of a file in the jars; None if there is none.

        Raises:
            CorruptDataError: it is damaged or too large.
        """
        found = self._entries.get(name)
        return None if found is None else self.read(*found)

    def read(self, jar: Jar, entry: JarEntry, at_most: int = MAX_ENTRY_BYTES) -> bytes:
        """Return the bytes of an entry, within what may be inflated of one class path."""
        self._count(entry)
        return jar.read(entry, at_most)

    def _add(self, jar: Jar) -> None:
        self._jars += 1
        self._seen += len(jar.entries)
        if self._jars > _MAX_JARS:
            raise CorruptDataError(f"expected at most {_MAX_JARS} jars, found more", path=jar.path)
        releases: dict[str, tuple[int, JarEntry]] = {}
        is_multi_release = self._is_multi_release(jar)
        for name, entry in jar.entries.items():
            versioned = _VERSIONED.fullmatch(name) if name.startswith("META-INF/versions/") else None
            if versioned is None:
                self._entries.setdefault(name, (jar, entry))
            elif is_multi_release and int(versioned[1]) <= JAVA_RELEASE:
                release = int(versioned[1])
                if release > releases.get(versioned[2], (0, entry))[0]:
                    releases[versioned[2]] = release, entry
        for name, (_, entry) in releases.items():
            # Of this jar only: an earlier one of the class path wins.
            if self._entries.get(name, (jar, entry))[0] is jar:
                self._entries[name] = jar, entry
        if self._seen > MAX_ENTRIES:
            raise CorruptDataError(
                f"expected at most {MAX_ENTRIES} entries in all jars, found more", path=jar.path
            )

    def _is_multi_release(self, jar: Jar) -> bool:
        manifest = jar.entries.get(_MANIFEST)
        if manifest is None:
            return False
        self._count(manifest)
        text = jar.read(manifest, _MAX_MANIFEST_BYTES).lower()
        return re.search(rb"(?m)^multi-release: *true\s*$", text) is not None

    def _count(self, entry: JarEntry) -> None:
        self._inflated_bytes += entry.size_bytes
        if self._inflated_bytes > _MAX_TOTAL_BYTES:
            raise CorruptDataError(
                f"expected at most {_MAX_TOTAL_BYTES} bytes of classes, found more", path=entry.name
            )

    def _checked(self, found: ClassFile, name: str) -> ClassFile:
        if found.name != name:
            raise CorruptDataError(f"expected the class {name}, found {found.name}", path=_file_of(name))
        return found


def _file_of(name: str) -> str:
    return name.replace(".", "/") + _CLASS
