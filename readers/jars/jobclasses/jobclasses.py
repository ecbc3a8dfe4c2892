"""`JobClasses`: the jars of a job, opened once, and what their classes say of a savepoint's values."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

from readers.errors import ReaderError
from readers.jars.classfiles.classpath import ClassPath
from readers.jars.classfiles.jar import Jar
from readers.jars.jobclasses.kryoclasses import KryoClasses
from readers.jars.jobclasses.subclasses import Completion, Hierarchy
from readers.serializers.base import Serializer


class JobClasses:
    """The classes of a job. Safe to share between threads.

    Args:
        jars: opened jars, in the order in which Java searches them.
        is_foreign: see `ClassPath`.

    Attributes:
        jars: the jars.
        kryo: what Kryo makes of the classes.
        identity: hex digits that change with the content of a jar.

    Raises:
        CorruptDataError: a jar in a jar is damaged, or there is more than the limits allow.
    """

    def __init__(self, jars: Sequence[Jar], *, is_foreign: bool = False) -> None:
        self.jars = tuple(jars)
        self._class_path = ClassPath(jars, is_foreign=is_foreign)
        self.kryo = KryoClasses(self._class_path)
        self._hierarchy = Hierarchy(self._class_path)
        self.identity = _identity(jars)

    @classmethod
    def open(cls, paths: Iterable[str | os.PathLike[str]]) -> JobClasses:
        """Open local jars.

        Raises:
            MissingFileError: one does not exist.
            StorageError: one cannot be read.
            CorruptDataError: one is damaged, or larger than allowed.
        """
        return cls(Jar.open_all(paths))

    def is_primitive(self, class_name: str, field: str) -> bool | None:
        """Return whether a field that a class declares is of a primitive type; None if the jars do not tell."""
        with suppress(ReaderError):
            found = self._class_path.find(class_name)
            for one in found.fields if found is not None else ():
                if one.name == field:
                    return len(one.descriptor) == 1
        return None

    def completion(self, kryo: int, trees: Iterable[Serializer]) -> Completion:
        """Return what adds subclasses to the POJOs of an operator, in the types that a Flink with this Kryo makes of them."""
        return Completion.of(self._hierarchy, self._class_path, kryo, trees)


def _identity(jars: Sequence[Jar]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for jar in jars:
        for entry in jar.entries.values():
            digest.update(f"{entry.name}\0{entry.checksum:x}\0{entry.size_bytes:x}\n".encode())
        digest.update(b"\n")
    return digest.hexdigest()
