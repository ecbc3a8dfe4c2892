"""Subclasses of POJOs that a savepoint does not describe, as the job's classes have them.

A heap backend serializes with copies of a serializer, so its snapshot may lack the subclasses that a copy has met: a value
then names its class, and its fields are those that Flink's `TypeExtractor` finds in that class. The jars do not say which of
the subclasses a savepoint holds, so each of them gets its columns.

Flink: PojoSerializer#createSubclassSerializer
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from readers.cursor import Cursor
from readers.errors import CorruptDataError, ReaderError
from readers.jars.classfiles.classfile import ABSTRACT, INTERFACE
from readers.jars.classfiles.classpath import ClassPath
from readers.jars.classfiles.constantpool import CLASS, SIZES, TWO_INDEXES, UTF8
from readers.jars.extraction.extractor import Registrations, TypeExtractor
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
