"""`Context`: what the comparison of two type trees needs to know beside them. `Comparison`: what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from doctor.jarclasses import NO_JAR, JarClasses
from doctor.rules.rule import Finding, Rule, Verdict
from doctor.versions import FlinkVersion
from readers import EnumSerializer, PojoSerializer, Serializer

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
    """

    flink: FlinkVersion
    backend: str
    keyed: bool
    old_kryo: int
    classes: KnownClasses
    compare: Compare

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


def found(rule: Rule, path: Path, detail: str = "", verdict: Verdict | None = None) -> Comparison:
    """Return the comparison with one finding; Flink's verdict is that of the rule, if no other is given."""
    known = rule.verdict if verdict is None else verdict
    return Comparison(verdict=known, findings=(Finding(rule=rule, path=path, detail=detail),))


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
