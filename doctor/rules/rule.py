"""`Rule`: what one kind of change does to a restore, and what shows it."""

from __future__ import annotations

from dataclasses import dataclass

from doctor.report import Severity, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of a table of rules.

    Attributes:
        id: the rule as reports name it.
        change: what is different between the savepoint and the new job.
        effect: what happens, in one sentence.
        severity: the weight of it.
        stage: the step that fails; None if none does.
        flink: the words of Flink's message; empty if it says nothing.
        remedy: what to do about it.
        evidence: names of labelled restores (`pojo-add-field`), and classes of Flink.
    """

    id: str
    change: str
    effect: str
    severity: Severity
    stage: Stage | None = None
    flink: str = ""
    remedy: str = ""
    evidence: tuple[str, ...]
