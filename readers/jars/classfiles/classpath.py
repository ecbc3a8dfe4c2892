"""`ClassPath`: the classes of one or several jars, found by their names.

A class is read when it is first asked for, and again if many others were read since. As in Flink, jars in the folder `lib` of a jar
belong to it. Of a multi-release jar the classes of the newest Java that Flink runs on are taken.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator

from readers.errors import CorruptDataError
from readers.jars.classfiles.classfile import ClassFile, read_class
from readers.jars.classfiles.constantpool import UTF8
from readers.jars.classfiles.jar import MAX_CLASS_BYTES, MAX_ENTRIES, MAX_ENTRY_BYTES, Jar, JarEntry

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

    @classmethod
    def of_bytes(cls, data: bytes) -> ClassPath:
        """Open a jar that is in memory.

        Raises:
            CorruptDataError: it is damaged, or larger than allowed.
        """
        return cls([Jar(data, "a jar in memory")])

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
