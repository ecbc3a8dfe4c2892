"""Proofs of statements: a script with the statement, restored by each version and backend of real Flink.

`tests/support/proven.py` has the scripts. Of each restore four things hold: Flink restores the savepoint; the state that the
job finds is what we read of it; a savepoint that Flink takes then has the same rows, of every state; and the job goes on from it. What
the job sends is recorded once for all of them, with the rows of a savepoint that Flink takes in the end.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from readers import SUBTASK, Operator, Savepoint, State, StateKind
from tests.support.creations import rows_of_job, text_of_row
from tests.support.expected import rows_of
from tests.support.restoring import RECORDED, VERSIONS, Restore

_FOLDER = RECORDED / "statements"
_OTHER = dict(zip(VERSIONS, reversed(VERSIONS), strict=True))
_ACCESS = re.compile(r", 'ttl_timestamp': datetime\.datetime\([0-9, ]*\)")
# Their elements may come to other subtasks, in another order.
_OF_OPERATORS = frozenset({StateKind.OPERATOR_LIST, StateKind.UNION_LIST, StateKind.BROADCAST})


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A script, and how jobs are restored from the savepoints that it writes.

    Attributes:
        name: tells it apart; of its record, too.
        statement: the cell of docs/reference/statements.md that it proves.
        of: what the script changes, in words.
        source: as of a `Restore`; `{backend}` in it stands for the backend that restores it.
        script: the statements.
        job: of `tests/flink/restore`.
        told: id → the name in the lines of the job, for each operator that lists its state.
        restoring: further options of the job.
        undeclared: states that the job does not declare: Flink keeps them, and the job cannot list them.
        written_by: the version of Flink that wrote the source, where it is always the same one.
        fields: the fields of values that the job lists; all if there are none.
        others: as of a `Restore`; `{backend}` and `{version}` in it stand for what restores it, `{other}` for the other version.
    """

    name: str
    statement: str
    of: str
    source: str
    script: str
    job: str
    told: dict[str, str]
    restoring: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()
    written_by: str | None = None
    fields: tuple[str, ...] = ()
    others: dict[str, str] = field(default_factory=dict)

    def restore(self, version: str, backend: str) -> Restore:
        """The restore by a version and backend of Flink."""
        return Restore(
            name=self.name,
            version=version,
            backend=backend,
            source=self.source.format(backend=backend),
            script=self.script,
            job=self.job,
            restoring=self.restoring,
            written_by=self.written_by,
            others={
                name: source.format(backend=backend, version=version, other=_OTHER[version])
                for name, source in self.others.items()
            },
        )

    @property
    def recorded(self) -> dict[str, Any]:
        """What the job sent, what a savepoint held in the end, and who restored it."""
        found: dict[str, Any] = json.loads(self._file.read_text())
        return found

    def record(self, restore: Restore, **found: Any) -> None:
        """Record what a restore found; those before it found the same, or are forgotten."""
        before = self.recorded if self._file.exists() else {}
        is_same = all(before.get(name) == value for name, value in found.items())
        by = {*(before["restored_by"] if is_same else ()), f"{restore.version} {restore.backend}"}
        self._file.parent.mkdir(exist_ok=True)
        text = json.dumps({**found, "restored_by": sorted(by)}, indent=1, ensure_ascii=False)
        self._file.write_text(text + "\n")

    @property
    def _file(self) -> Path:
        return _FOLDER / f"{self.name}.json"

    def told_rows(self, savepoint: Path) -> list[str]:
        """The rows that we read of the states that the job lists, in its notation."""
        names = self.told
        return sorted(
            text_of_row(names[operator.operator_id], row["state_name"], self._shown(row))
            for operator in _operators(savepoint)
            if operator.operator_id in names
            for state in operator.states
            if state.name not in self.undeclared and state.kind is not StateKind.COORDINATOR
            for row in rows_of(state)
        )

    def lines(self, lines: list[dict[str, Any]]) -> list[str]:
        """The rows of state among the lines of a job."""
        told = set(self.told.values())
        return rows_of_job(
            [line for line in lines if line.get("kind") != "coordinator" and line.get("operator") in told]
        )

    def _shown(self, row: dict[str, Any]) -> dict[str, Any]:
        if not self.fields:
            return row
        return row | {"value": {field: row["value"][field] for field in self.fields}}


def rows_of_operators(savepoint: Path, operators: set[str]) -> list[str]:
    """All rows of all states of these operators, by key group and with the times of their last access."""
    return sorted(
        text
        for operator in _operators(savepoint)
        if operator.operator_id in operators
        for state in operator.states
        if state.kind is not StateKind.COORDINATOR
        for text in _texts(operator, state)
    )


def operator_ids(savepoint: Path) -> set[str]:
    """The ids of the operators of a savepoint."""
    return {operator.operator_id for operator in _operators(savepoint)}


def digest(rows: list[str]) -> dict[str, Any]:
    """Shorten rows to their number and hash, without the times of their last access."""
    texts = sorted(_ACCESS.sub("", row) for row in rows)
    return {"rows": len(texts), "sha256": hashlib.sha256("\n".join(texts).encode()).hexdigest()}


def _texts(operator: Operator, state: State) -> Iterator[str]:
    hidden = {SUBTASK} | ({"list_index"} if state.kind in _OF_OPERATORS else set())
    for batch in state.read():
        for row in batch.drop_columns([name for name in batch.schema.names if name in hidden]).to_pylist():
            yield f"{operator.operator_id} {state.name} {row}"


def _operators(savepoint: Path) -> tuple[Operator, ...]:
    # The source's copy is beside it.
    return tuple(Savepoint(savepoint, roots=[str(savepoint.parent)]).operators)
