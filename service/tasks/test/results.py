"""The results of rules, and of the savepoints that they were tested on.

| exit code | when |
|---|---|
| 0 | no rule is violated, or only rules of less severity than asked for |
| 1 | a rule is violated |
| 2 | a rule has an error, or the command line is wrong |
| 3 | a savepoint, or a part of it that a rule needs, cannot be read |

Of several the greatest counts: what was not tested may be violated, too.
"""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from service.query.running.group import FirstRows
from service.query.running.origin import sendable
from service.tasks.test.rules import CURRENT, PREVIOUS, Rule, Severity

KEPT, VIOLATED, BROKEN, UNREADABLE = range(4)


class Status(StrEnum):
    """How a rule ended on a savepoint."""

    PASSED = "passed"
    VIOLATED = "violated"
    SKIPPED = "skipped"
    ERROR = "error"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """The result of a rule on a savepoint, or on one of its states.

    Attributes:
        rule: the rule.
        status: how it ended.
        table: the table of the state; empty if the rule is not tested for each state.
        message: what was found, or why it was not tested; empty if it passed.
        rows: the first rows that violate it; None if there are none.
        sql: the query whose rows these are, with the values of its parameters; empty if it was not asked.
        elapsed_s: seconds that it took.
    """

    rule: Rule
    status: Status
    table: str = ""
    message: str = ""
    rows: FirstRows | None = None
    sql: str = ""
    elapsed_s: float = 0.0

    @property
    def title(self) -> str:
        """The name of the rule, with the table if it is tested for each state."""
        return f"{self.rule.name} › {self.table}" if self.table else self.rule.name

    def fails(self, fail_on: Severity) -> bool:
        """Return whether it is a violation of at least this severity."""
        return self.status is Status.VIOLATED and self.rule.severity.weight <= fail_on.weight

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that are JSON."""
        return {
            "rule": self.rule.name,
            "severity": self.rule.severity.value,
            "description": self.rule.description,
            "table": sendable(self.table) or None,
            "status": self.status.value,
            "message": sendable(self.message) or None,
            "expected": self.rule.expectation,
            "rows": None if self.rows is None else self.rows.to_dict(),
            "sql": sendable(self.sql) or None,
            "elapsed_s": round(self.elapsed_s, 3),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointResult:
    """The results of all rules on a savepoint.

    Attributes:
        name: of its database.
        path: its directory.
        job: the name of its job.
        checkpoint_id: the number that Flink gave it; None if it cannot be read.
        kind: `SAVEPOINT` or `CHECKPOINT`; None if it does not say, or cannot be read.
        created_at: the time of its `_metadata`; None where it is not known.
        previous: the name of the one before it; None if there is none.
        previous_path: its directory; empty if there is none.
        notes: what a reader should know of the choice of these savepoints, in sentences.
        error: why it cannot be read; empty if it can.
        is_gone: True if it was deleted meanwhile.
        results: of the rules; none if it cannot be read.
    """

    name: str
    path: str
    job: str
    checkpoint_id: int | None = None
    kind: str | None = None
    created_at: datetime | None = None
    previous: str | None = None
    previous_path: str = ""
    notes: tuple[str, ...] = ()
    error: str = ""
    is_gone: bool = False
    results: tuple[RuleResult, ...] = ()

    def exit_code(self, fail_on: Severity) -> int:
        """Return what it contributes to the exit code."""
        statuses = {one.status for one in self.results}
        if self.error or Status.UNREADABLE in statuses:
            return UNREADABLE
        if Status.ERROR in statuses:
            return BROKEN
        return VIOLATED if any(one.fails(fail_on) for one in self.results) else KEPT

    def all_rows(self, one: RuleResult) -> str:
        """Return the command that shows all rows that violate a rule; empty if the report has them all."""
        if one.rows is None or one.rows.row_count <= one.rows.batch.num_rows:
            return ""
        savepoints = [f"{CURRENT}={self.path}"]
        if PREVIOUS in one.sql.casefold() and self.previous_path:
            savepoints.append(f"{PREVIOUS}={self.previous_path}")
        return shlex.join(["savepointdb", "query", *savepoints, _in_a_line(one.sql), "--database", CURRENT])

    def counts(self) -> Counter[Status]:
        """Return how many results have each status."""
        return Counter(one.status for one in self.results)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that are JSON."""
        return {
            "name": sendable(self.name),
            "path": sendable(self.path),
            "job": sendable(self.job),
            "checkpoint_id": self.checkpoint_id,
            "kind": self.kind,
            "created_at": None if self.created_at is None else self.created_at.isoformat(),
            "previous": None if self.previous is None else sendable(self.previous),
            "notes": [sendable(note) for note in self.notes],
            "error": sendable(self.error) or None,
            "results": [one.to_dict() for one in self.results],
        }


def _in_a_line(sql: str) -> str:
    """Return a query on one line, unless a line of it may end in a comment, or within quotation marks."""
    lines = sql.strip().splitlines()
    is_safe = "--" not in sql and all(line.count(mark) % 2 == 0 for line in lines for mark in "'\"")
    return " ".join(line.strip() for line in lines) if is_safe else sql.strip()
