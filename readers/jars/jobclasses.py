"""`JobClasses`: the jars of a job, opened once, and what their classes say of values that a savepoint does not describe.

In: jars. Out: the fields of classes whose objects Kryo wrote (see `kryoclasses`), and the serializers of subclasses of POJOs. A value is
decoded by them only if its bytes fit to their end.

A heap backend serializes with copies of a serializer, so its snapshot may lack the subclasses that a copy has met: a value
then names its class, and its fields are those that Flink's `TypeExtractor` finds in that class. The jars do not say which of
the subclasses a savepoint holds, so each of them gets its columns.

Flink: PojoSerializer#createSubclassSerializer
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from readers.cursor import Cursor
from readers.errors import CorruptDataError, ReaderError
from readers.jars.classfile import ABSTRACT, CLASS, INTERFACE, SIZES, TWO_INDEXES, UTF8
from readers.jars.classpath import ClassPath, Jar
from readers.jars.extractor import Registrations, TypeExtractor
from readers.jars.kryoclasses import KryoClasses
from readers.serializers.base import OpaqueSerializer, Serializer, nodes, rebuild
from readers.serializers.kryo.serializer import KryoSerializer
from readers.serializers.kryo.settings import KRYO_5, KryoRegistration
from readers.serializers.pojo import PojoSerializer

MAX_SUBCLASSES = 64
"""Of one POJO: each adds columns. A base class of hundreds is no type that a query can show."""

# Of all classes: some seconds. Subclasses beyond are classes that nobody has, and values of them say so.
_MAX_CONSTANTS = 30_000_000
_TO_CONSTANTS = 8  # magic number and version


class Hierarchy:
    """The subclasses of all classes of a class path.

    Args:
        class_path: the classes.
    """

    def __init__(self, class_path: ClassPath) -> None:
        self._class_path = class_path
        self._below: dict[str, list[str]] | None = None

    def subclasses_of(self, name: str) -> list[str]:
        """Return the names of the classes below a class that have objects, sorted."""
        if self._below is None:
            self._below = self._read()
        found: dict[str, None] = {}
        open_ = [name]
        while open_:
            for below in self._below.get(open_.pop(), ()):
                if below not in found:
                    found[below] = None
                    open_.append(below)
        return sorted(below for below in found if self._has_objects(below))

    def _has_objects(self, name: str) -> bool:
        try:
            found = self._class_path.find(name)
        except ReaderError:
            return False
        return found is not None and not found.access & (ABSTRACT | INTERFACE)

    def _read(self) -> dict[str, list[str]]:
        below: dict[str, list[str]] = defaultdict(list)
        constants = 0
        for name in self._class_path:
            # A damaged class is an error where it is needed.
            try:
                data = self._class_path.resource(f"{name.replace('.', '/')}.class") or b""
                constants += int.from_bytes(data[_TO_CONSTANTS : _TO_CONSTANTS + 2], "big")
                if constants > _MAX_CONSTANTS:
                    break
                above = superclass_of(data) if data else None
            except CorruptDataError:
                continue
            if above is not None and above != "java.lang.Object":
                below[above].append(name)
        return below


def superclass_of(data: bytes) -> str | None:
    """Return the superclass that a class file names; None if it names none. Reads no more of the file than this needs.

    Raises:
        CorruptDataError: the bytes contradict the format.
    """
    cursor = Cursor(data, position=_TO_CONSTANTS)
    position, starts = cursor.position + 2, [0]
    count = cursor.u2()
    try:
        while len(starts) < count:
            tag = data[position]
            starts.append(position)
            if tag == UTF8:
                position += 3 + int.from_bytes(data[position + 1 : position + 3], "big")
                continue
            position += 1 + SIZES[tag]
            if tag in TWO_INDEXES:
                starts.append(0)
        index = int.from_bytes(data[position + 4 : position + 6], "big")
        if index == 0:
            return None
        name = _constant(data, starts, index, CLASS)
        text = _constant(data, starts, int.from_bytes(data[name + 1 : name + 3], "big"), UTF8)
    except (IndexError, KeyError) as error:
        raise cursor.corrupt("expected the constants of a class file, found other bytes", position) from error
    length = int.from_bytes(data[text + 1 : text + 3], "big")
    return data[text + 3 : text + 3 + length].decode("utf-8", "replace").replace("/", ".")


def _constant(data: bytes, starts: list[int], index: int, tag: int) -> int:
    """Return where a constant begins."""
    start = starts[index]
    if data[start] != tag:
        raise KeyError(index)
    return start


@dataclass(frozen=True, kw_only=True)
class Completion:
    """Adds the subclasses of the job's classes to type trees of one operator.

    Attributes:
        hierarchy: the subclasses of the classes.
        extractor: makes serializers of classes.
        described: POJO → its serializer, as far as the savepoint describes it.
        job: a Kryo serializer of the job, for its default serializers; None if it has none.
        too_many: POJOs with more subclasses than are shown.
    """

    hierarchy: Hierarchy
    extractor: TypeExtractor
    described: Mapping[str, PojoSerializer]
    job: KryoSerializer | None
    too_many: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, hierarchy: Hierarchy, class_path: ClassPath, kryo: int, trees: Iterable[Serializer]
    ) -> Completion:
        """Return the completion of the type trees of an operator."""
        described: dict[str, PojoSerializer] = {}
        jobs: list[KryoSerializer] = []
        for node in nodes(tuple(trees)):
            if isinstance(node, PojoSerializer):
                described.setdefault(node.pojo_class, node)
            elif isinstance(node, KryoSerializer):
                jobs.append(node)
        job = max(jobs, key=lambda node: len(node.settings.registrations), default=None)
        extractor = TypeExtractor(
            class_path,
            flink_major=2 if kryo >= KRYO_5 else 1,
            registrations=Registrations(kryo=() if job is None else tuple(_registrations(job))),
        )
        return cls(hierarchy=hierarchy, extractor=extractor, described=described, job=job)

    def complete(self, tree: Serializer, above: frozenset[str] = frozenset()) -> Serializer:
        """Return a type tree whose POJOs have the subclasses that the savepoint does not describe."""

        def add(node: Serializer) -> Serializer:
            # A subclass that holds objects of its base class has no end.
            if not isinstance(node, PojoSerializer) or node.pojo_class in above:
                return node
            known = {name for name, _ in (*node.registered, *node.non_registered)}
            missing = [name for name in self.hierarchy.subclasses_of(node.pojo_class) if name not in known]
            if len(missing) > MAX_SUBCLASSES:
                self.too_many[node.pojo_class] = len(missing)
                return node
            found = tuple(
                (name, serializer)
                for name in missing
                if (serializer := self._serializer(name, above | {node.pojo_class})) is not None
            )
            if not found:
                return node
            assumed = node.assumed | {name for name, _ in found}
            return replace(node, non_registered=node.non_registered + found, assumed=assumed)

        return rebuild(tree, add)

    def _serializer(self, name: str, above: frozenset[str]) -> Serializer | None:
        serializer = self.extractor.extract_class(name).serializer
        if serializer is None or isinstance(serializer, OpaqueSerializer):
            return None

        def describe(node: Serializer) -> Serializer:
            if isinstance(node, PojoSerializer) and node.pojo_class != name:
                return self.described.get(node.pojo_class, node)
            if isinstance(node, KryoSerializer) and self.job is not None:
                defaults = self.job.settings.default_serializers
                return replace(node, settings=replace(node.settings, default_serializers=defaults))
            return node

        return self.complete(rebuild(serializer, describe), above)


def _registrations(job: KryoSerializer) -> Iterator[KryoRegistration]:
    """Yield the classes that the job registers: every serializer registers its own class first."""
    return (each for each in job.settings.registrations if each.class_name != job.type_class)


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
