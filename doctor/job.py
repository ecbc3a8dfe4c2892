"""`Job`: what is known of a job: its operators, their states and the types of these.

The old job is known from its savepoint. The new job is known from what the savepoint is compared with: each kind of it knows
other facts, so a `Job` says which (`knows`). What is not known is never taken for unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from doctor.jarclasses import NO_JAR, JarClasses
from doctor.report import OperatorVerdict, Risk, StateOutcome, StateVerdict
from readers import Entry, Operator, Serializer, Source, StateName


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
    entry: Entry
    snapshot_classes: frozenset[str] = frozenset()
    risks: tuple[Risk, ...] = ()
    misfit: str = ""
    leaves_bytes: bool = False
    impossible_offset: str = ""
    is_v2: bool = False
    places: tuple[tuple[Source, StateName], ...] = field(default=(), repr=False, compare=False)

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
    key: Serializer | None = None
    key_classes: frozenset[str] = frozenset()
    states: tuple[JobState, ...] = ()
    formats: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()
    in_flight: bool = False
    raw: bool = False
    lacks_timers: bool = False
    opened: Operator | None = None
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
