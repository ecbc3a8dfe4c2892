"""`Job`: what is known of a job: its operators, their states and the types of these. `Against`: something that tells of it.

The old job is known from its savepoint. The new job is known from what the savepoint is compared with: each kind of it knows
other facts, so a `Job` says which (`knows`). What is not known is never taken for unchanged.

`FlinkVersion`: what a version of Flink reads and has, whatever the job. `JarClasses`: the classes of jars, as the rules ask for them:
what the class files say, and where that ends.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, ClassVar

import readers
from doctor.errors import UnknownBackendError, UnknownVersionError
from doctor.report import OperatorVerdict, Risk, StateOutcome, StateVerdict

# ForSt reads and registers state as RocksDB does.
BACKENDS = ("hashmap", "rocksdb", "forst")
# The newest Flink whose savepoints were tested; one that is newer may write the same files.
NEWEST_FLINK = "2.3.0"
_VERSION = re.compile(r"(\d+)\.(\d+)(\.\d+)?([-.].*)?")

# The newest `_metadata` that each version reads; it reads all older ones from version 2 on.
# Flink: MetadataSerializers (V3 since 1.11, V4 since 1.16, V5 since 2.0, V6 since 2.1)
_METADATA = (((2, 1), 6), ((2, 0), 5), ((1, 16), 4), ((1, 11), 3), ((1, 8), 2))
_MAX_SUPERCLASSES = 64
_PLATFORM = ("java.", "javax.")
# Classes that the cluster has, or may have, without the jar.
_CLUSTER = ("org.apache.flink.", "org.apache.avro.", "scala.")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkVersion:
    """A version of Flink.

    Attributes:
        text: as it was given.
        major, minor: its first two numbers.
    """

    text: str
    major: int
    minor: int

    @property
    def newest_metadata(self) -> int:
        """The newest version of `_metadata` that it reads."""
        return next(newest for since, newest in _METADATA if (self.major, self.minor) >= since)


def flink_version(text: str) -> FlinkVersion:
    """Parse a version: `2.3.0`, `2.3`, `1.20-SNAPSHOT`.

    Raises:
        UnknownVersionError: no version, or one before 1.8 or after 2.x.
    """
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise UnknownVersionError(f"expected a version of Flink such as 2.3.0, found {text!r:.60}")
    version = FlinkVersion(text=text.strip(), major=int(match[1]), minor=int(match[2]))
    if not (version.major, version.minor) >= (1, 8) or version.major > 2:
        raise UnknownVersionError(f"expected a version of Flink from 1.8 to 2.x, found {text!r:.60}")
    return version


def known_backend(name: str) -> str:
    """Return a state backend by its name.

    Raises:
        UnknownBackendError: neither `hashmap`, `rocksdb` nor `forst`.
    """
    if name not in BACKENDS:
        raise UnknownBackendError(f"expected a state backend of {', '.join(BACKENDS)}, found {name!r:.60}")
    return name


class JarClasses:
    """The classes of jars.

    Args:
        classes: the jars.
    """

    def __init__(self, classes: readers.ClassPath) -> None:
        self._classes = classes
        self._hierarchy = readers.Hierarchy(classes)
        self._packages = frozenset(name.rpartition(".")[0] for name in classes)

    def has(self, name: str) -> bool | None:
        """Return whether a class is there, by its binary name; None if that cannot be told."""
        if name in self._classes or name.startswith(_PLATFORM):
            return True
        if name.startswith(_CLUSTER):
            return None
        # Of a package of which nothing is in the jar, all of it may be elsewhere on the class path.
        return False if name.rpartition(".")[0] in self._packages else None

    def owner(self, name: str, field: str) -> str | None:
        """Return which class has a field, static and transient ones too: this one, or the next superclass that has it.

        Empty if none has it, None if that cannot be told.
        """
        if self.has(name) is False:
            return ""
        for _ in range(_MAX_SUPERCLASSES):
            found = self._find(name)
            if found is None:
                return "" if name == readers.OBJECT else None
            if any(each.name == field for each in found.fields):
                return name
            name = found.super_name or readers.OBJECT
        return None

    def declared_class(self, name: str, field: str) -> str | None:
        """Return the class, or the primitive, of a field that a class declares, as Java sees it; None if that cannot be told."""
        found = self._find(name)
        declared = [each for each in found.fields if each.name == field] if found is not None else []
        # Java assigns by the descriptor: what a type parameter stands for is not in it.
        with suppress(ValueError):
            return readers.type_of(declared[0].descriptor).class_name if declared else None
        return None

    def constructs(self, name: str) -> bool | None:
        """Return whether a class is public and has a public constructor without parameters; None if that cannot be told."""
        found = self._find(name)
        if found is None:
            return None
        return found.is_public and any(
            each.name == "<init>" and each.descriptor == "()V" and each.is_public for each in found.methods
        )

    def extends(self, name: str, ancestor: str) -> bool | None:
        """Return whether a class extends or implements another one; None if that cannot be told."""
        if not self._packages:
            return None
        with suppress(readers.UnknownTypeError):
            return self._hierarchy.is_a(name, ancestor)
        return None

    def components(self, name: str) -> tuple[str, ...] | None:
        """Return the names of the components of a record, in order; None if it is none, or that cannot be told."""
        found = self._find(name)
        if found is None or found.record_components is None:
            return None
        return tuple(component.name for component in found.record_components)

    def constants(self, name: str) -> tuple[str, ...] | None:
        """Return the constants of an enum, in order; None if it is none, or that cannot be told."""
        found = self._find(name)
        return found.enum_constants if found is not None and found.is_enum else None

    def _find(self, name: str) -> readers.ClassFile | None:
        with suppress(readers.ReaderError):
            return self._classes.find(name)
        return None


NO_JAR = JarClasses(readers.ClassPath(()))
"""The classes of a job of which no jar is given: next to nothing can be told."""


class Fact(Enum):
    """What may be known of a job."""

    OPERATORS = auto()  # the ids of all its operators
    PARALLELISM = auto()
    MAX_PARALLELISM = auto()
    STATES = auto()  # the states that are declared when the job starts, and their types
    CLASSES = auto()  # the class files of its jar


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """One state of an operator.

    Attributes:
        name: the name; a timer state may share it with another state.
        keyed: True for keyed state and timers, False for operator state.
        entry: its kind and serializers.
        snapshot_classes: the classes of its serializer snapshots.
        risks: what is not known of it for certain.
        misfit: why stored values do not fit to the classes of the new job; empty if they fit, or were not tried.
        leaves_bytes: they do not fit only because bytes are left behind them, which Flink passes over.
        impossible_offset: why a source cannot read on from an offset in it; empty if it can, or if it holds none.
        places: the sources of a savepoint that have it, and its name there; none where no savepoint tells of it.
        is_v2: it is a state of the asynchronous state API (since 2.0), which backends register in another way.
    """

    name: str
    keyed: bool
    entry: readers.Entry
    snapshot_classes: frozenset[str] = frozenset()
    risks: tuple[Risk, ...] = ()
    misfit: str = ""
    leaves_bytes: bool = False
    impossible_offset: str = ""
    is_v2: bool = False
    places: tuple[tuple[readers.Source, readers.StateName], ...] = field(
        default=(), repr=False, compare=False
    )

    def verdict(self, outcome: StateOutcome, **facts: Any) -> StateVerdict:
        """Return a verdict about the state; `facts` are fields of it."""
        return StateVerdict(state_name=self.name, kind=self.entry.kind.value, outcome=outcome, **facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOperator:
    """One operator.

    Attributes:
        operator_id: 32 hex digits.
        uid, name: None where they are not known.
        parallelism: None where it is not known.
        max_parallelism: None where it is not known.
        has_state: True if the savepoint has any state of it, that of its coordinator too.
        key: the serializer of its keys; None if it has no keyed state.
        key_classes: the classes of the serializer snapshots of its keys.
        states: its states.
        formats: the layouts of its state files: `canonical`, or the backend that wrote a native one.
        problems: why some of its states are not known.
        in_flight: True if records in flight are recorded with it.
        raw: True if it has raw state, which no serializer describes.
        lacks_timers: True if its windows have no timers in the savepoint.
        opened: the operator of the savepoint that this was read from; None for other kinds of facts.
        assumed: True if what is not known of its types was taken from the savepoint.
    """

    operator_id: str
    uid: str | None = None
    name: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    has_state: bool = False
    key: readers.Serializer | None = None
    key_classes: frozenset[str] = frozenset()
    states: tuple[JobState, ...] = ()
    formats: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()
    in_flight: bool = False
    raw: bool = False
    lacks_timers: bool = False
    opened: readers.Operator | None = None
    assumed: bool = False

    @property
    def title(self) -> str:
        """The operator as a message names it."""
        known = self.uid or self.name
        return f"{known!r} ({self.operator_id})" if known else self.operator_id

    def verdict(self, **facts: Any) -> OperatorVerdict:
        """Return a verdict about the operator; `facts` are fields of it."""
        return OperatorVerdict(operator_id=self.operator_id, uid=self.uid, name=self.name, **facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is known of a job.

    Attributes:
        knows: the facts that are known.
        metadata_version: of its savepoint; None if there is none.
        operators: by operator id.
        classes: the classes of its jar; `NO_JAR` where none is known.
        risks: what is not known of the job as a whole for certain.
    """

    knows: frozenset[Fact]
    metadata_version: int | None
    operators: dict[str, JobOperator]
    classes: JarClasses = NO_JAR
    risks: tuple[Risk, ...] = ()


class Against(ABC):
    """One thing that a savepoint is compared with.

    Attributes:
        order: several of them inform in this order; what lists operators and states comes before what describes classes.
    """

    order: ClassVar[int] = 0

    @property
    @abstractmethod
    def description(self) -> str:
        """The thing as the report names it."""

    @abstractmethod
    def inform(self, new: Job, old: Job, flink: FlinkVersion) -> Job:
        """Return what is known of the new job, with what this tells.

        Args:
            new: what is known of it so far.
            old: the job that wrote the savepoint.
            flink: the version that restores it.

        Raises:
            ReaderError: it cannot be read.
        """
