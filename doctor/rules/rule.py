"""`Rule`: what one kind of change does to a restore, and what shows it. `Finding`: a rule that something of a savepoint meets.

`Context`: what the comparison of two type trees needs to know beside them. `Comparison`: what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, TypeAlias

from doctor.job import NO_JAR, FlinkVersion, JarClasses
from doctor.report import Change, Mend, Risk, Severity, Stage, StateOutcome
from readers import EnumSerializer, PojoSerializer, Serializer, type_text


class Verdict(IntEnum):
    """Flink's `TypeSerializerSchemaCompatibility`, from best to worst."""

    AS_IS = 0
    RECONFIGURED = 1
    MIGRATION = 2
    INCOMPATIBLE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a change does in one backend.

    Attributes:
        severity: the weight of it.
        stage: the step that fails; None if none does.
        outcome: of the state; None where that follows from Flink's verdict.
    """

    severity: Severity
    stage: Stage | None = None
    outcome: StateOutcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What a change does in every backend, and what Flink says of it.

    Attributes:
        heap: what happens with the backend hashmap, and in operator state with any backend.
        rocksdb: what happens with the backend rocksdb in keyed state.
        verdict: Flink's own verdict; AS_IS too where the change is no matter of serializers.
    """

    heap: Effect
    rocksdb: Effect
    verdict: Verdict = Verdict.AS_IS

    def but(self, *, rocksdb: Effects | None = None, verdict: Verdict = Verdict.AS_IS) -> Effects:
        """Return the effects with a verdict of Flink, and with those of others in rocksdb."""
        return Effects(heap=self.heap, rocksdb=(rocksdb or self).rocksdb, verdict=verdict)

    def rule(self, **texts: str) -> Rule:
        """Return the rule of a change that does this; `texts` are the other fields of `Rule`."""
        return Rule(backends=self, **texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of a table of rules.

    Attributes:
        id: the rule as reports name it.
        change: what is different between the savepoint and the new job.
        effect: what happens, in one sentence.
        backends: what happens in each backend, and Flink's verdict.
        flink: the words of Flink's message; empty if it says nothing.
        remedy: what to do about it.
        shown_by: names of labelled restores (`pojo-add-field`), and classes of Flink, with blanks between them.
    """

    id: str
    change: str
    effect: str
    backends: Effects
    flink: str = ""
    remedy: str = ""
    shown_by: str

    @property
    def cited(self) -> dict[str, Any]:
        """Its id, remedy and evidence: the arguments of a verdict, or of a risk, that rests on it."""
        return {"rule": self.id, "remedy": self.remedy, "evidence": self.evidence}

    @property
    def evidence(self) -> tuple[str, ...]:
        """The names in `shown_by`."""
        return tuple(self.shown_by.split())

    def effect_in(self, *, heap: bool) -> Effect:
        """Return what happens to state on the heap, where operator state always is, or in rocksdb."""
        return self.backends.heap if heap else self.backends.rocksdb


def refused(*, effect: str = "the state is refused when it is declared", **texts: str) -> Rule:
    """Return the rule of a change for which Flink refuses the state when it is declared; `texts` are fields of `Rule`."""
    flink = "The new state serializer must not be incompatible with the old state serializer"
    return FAILS_REGISTER.but(verdict=Verdict.INCOMPATIBLE).rule(effect=effect, flink=flink, **texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule that a state, or a field of it, meets.

    Attributes:
        rule: the rule.
        path: the names that lead to the field, outermost first.
        detail: it, with the names of this case; empty for the words of the rule.
        text: the whole message in place of both; empty for these.
        mend: what a write changes so that nothing is found any more; None if no write can.
    """

    rule: Rule
    path: tuple[str, ...] = ()
    detail: str = ""
    text: str = ""
    mend: Mend | None = None

    @property
    def message(self) -> str:
        """What happens, with the names of this case and Flink's words."""
        text = self.text or (f"{self.detail}: {self.rule.effect}" if self.detail else self.rule.effect)
        return f"{text} ({self.rule.flink})" if self.rule.flink and not self.text else text


def risk_of(finding: Finding, effect: Effect | None = None) -> Risk:
    """Return a finding as a risk; without an effect, with that of every backend."""
    return Risk(
        severity=(effect or finding.rule.backends.heap).severity,
        message=finding.message,
        field_path=".".join(finding.path) or None,
        **finding.rule.cited,
    )


def note_of(rule: Rule, detail: str = "") -> Risk:
    """Return what a rule says of every backend as a risk, in its own words."""
    text = f"{rule.change}; {rule.effect}"
    return Risk(
        severity=rule.backends.heap.severity, message=f"{detail}: {text}" if detail else text, **rule.cited
    )


def caution_of(rule: Rule, detail: str = "") -> Risk:
    """Return a word of caution: what no comparison sees."""
    return note_of(rule, f"{detail}, not compared" if detail else "not compared")


def _alike(severity: Severity, stage: Stage | None = None, outcome: StateOutcome | None = None) -> Effects:
    effect = Effect(severity=severity, stage=stage, outcome=outcome)
    return Effects(heap=effect, rocksdb=effect)


FINE = _alike(Severity.FINE)
LOSES = _alike(Severity.LOSES)
RISK = _alike(Severity.RISK)
DOUBT = _alike(Severity.DOUBT)
UNKNOWN = _alike(Severity.UNKNOWN, outcome=StateOutcome.UNKNOWN)
FAILS_GRAPH = _alike(Severity.FAILS, Stage.GRAPH, StateOutcome.NOT_DECLARED)
FAILS_RESTORE = _alike(Severity.FAILS, Stage.RESTORE, StateOutcome.INCOMPATIBLE)
FAILS_REGISTER = _alike(Severity.FAILS, Stage.REGISTER, StateOutcome.INCOMPATIBLE)
UNREADABLE_ACCESS = _alike(Severity.FAILS, Stage.ACCESS, StateOutcome.UNREADABLE)
UNREADABLE_SNAPSHOT = _alike(Severity.FAILS, Stage.SNAPSHOT, StateOutcome.UNREADABLE)
# Hashmap decodes all values when it restores, rocksdb each one when it is read first.
FAILS_DECODING = FAILS_RESTORE.but(rocksdb=UNREADABLE_ACCESS)


Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was found where two type trees differ.

    Attributes:
        verdict: Flink's verdict.
        findings: the rules that were met.
    """

    verdict: Verdict = Verdict.AS_IS
    findings: tuple[Finding, ...] = ()

    def __or__(self, other: Comparison) -> Comparison:
        return Comparison(verdict=max(self.verdict, other.verdict), findings=self.findings + other.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownClasses:
    """What is known of the classes of the new job.

    Attributes:
        named: the classes that its types name: they exist.
        pojos: those that are POJOs.
        enums: those that are enums.
        jar: what the jar tells of them; `NO_JAR` where none is given.
    """

    named: frozenset[str] = frozenset()
    pojos: dict[str, PojoSerializer] = field(default_factory=dict)
    enums: dict[str, EnumSerializer] = field(default_factory=dict)
    jar: JarClasses = NO_JAR

    def has(self, name: str) -> bool | None:
        """Return whether the new job has a class; None where that is not known."""
        return name in self.named or self.jar.has(name)


Compare: TypeAlias = "Callable[[Serializer, Serializer, Context, Path], Comparison]"
CompareAlike: TypeAlias = "Callable[[Any, Any, Context, Path], Comparison]"
"""Compares two types of one class, which a table names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the comparison of two type trees needs to know beside them.

    Attributes:
        flink: the version that restores.
        backend: the backend that restores.
        keyed: True for keyed state, False for operator state, which every backend decodes when it restores it.
        old_kryo: the version of Kryo that wrote the savepoint, 2 or 5.
        classes: the classes of the new job.
        compare: compares nested type trees.
        is_restorable: False if no backend reads the files of all operators.
    """

    flink: FlinkVersion
    backend: str
    keyed: bool
    old_kryo: int
    classes: KnownClasses
    compare: Compare
    is_restorable: bool = True

    @property
    def is_upgrade(self) -> bool:
        """True if Kryo 2 wrote the savepoint and Kryo 5 reads it."""
        return self.old_kryo < self.new_kryo

    @property
    def new_kryo(self) -> int:
        """The version of Kryo that reads the savepoint."""
        return 5 if self.flink.major >= 2 else 2

    @property
    def decodes_all(self) -> bool:
        """True if the restore decodes all values, with the old serializer, before any state is declared."""
        return not self.keyed or self.backend == "hashmap"

    def for_operator_state(self) -> Context:
        """Return the context for operator state."""
        return replace(self, keyed=False)


_LONGEST_TYPE = 4_000  # a class of a hostile jar has any number of fields


def found(
    rule: Rule, path: Path, detail: str = "", verdict: Verdict | None = None, mend: Mend | None = None
) -> Comparison:
    """Return the comparison with one finding; Flink's verdict is that of the rule, if no other is given."""
    known = rule.backends.verdict if verdict is None else verdict
    return Comparison(verdict=known, findings=(Finding(rule=rule, path=path, detail=detail, mend=mend),))


def retype(path: Path, new: Serializer) -> Mend | None:
    """Return the change of a type; None if no name of a length that people read tells the new one whole."""
    name = type_text(new)
    if name is None or len(name) > _LONGEST_TYPE:
        return None
    return Mend(change=Change.RETYPE, path=path, value=name)


def joined(comparisons: Iterable[Comparison]) -> Comparison:
    """Return all findings, and the worst verdict."""
    total = Comparison()
    for comparison in comparisons:
        total |= comparison
    return total


def walk(serializer: Serializer, path: Path = ()) -> Iterator[tuple[Path, Serializer]]:
    """Yield all nodes of a type tree with the paths that lead to them, outermost first."""
    yield path, serializer
    for name, child in serializer.children:
        yield from walk(child, (*path, name))
