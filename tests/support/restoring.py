"""A restore in real Flink: a script over a savepoint, and the state that a job restored from the result has.

`tests/flink/restore` runs the jobs. What it printed is recorded, so that every run of the tests compares the rows that we read of a
new savepoint with those that Flink found in it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

from readers import Operator, Savepoint, StateKind
from tests.support.paths import DATA
from tests.support.servedflink import served_flink
from tests.support.unpacked import unpacked

RECORDED = DATA / "restored"
VERSIONS = ("1.20.3", "2.3.0")
# Every subtask has all of it.
_SHARED = frozenset({"operator-union-list", "broadcast"})
_POJOS = (frozenset({"age", "name"}), frozenset({"number", "street"}))  # of the job `types`


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """A script over a savepoint, and how a job is restored from the result.

    Attributes:
        name: of the edit.
        version, backend: of Flink.
        source: the savepoint, in `tests/data/flink/VERSION`; or the name of an archive of `tests/data/snapshots`.
        job: of `tests/flink/restore`.
        script: the statements.
        options: further options of the command; those that begin with `tests/` are paths in the project.
        restoring: further options of the job.
        undeclared: states that the job does not declare: Flink keeps them, and the job cannot list them.
        states: the states that are compared; all if there are none.
        written_by: the version of Flink that wrote the source, if it is another one.
        fields: the fields of values that are compared; all if there are none.
        others: savepoints that the script names: name → below `tests/data/flink`, or an archive of `tests/data/snapshots`.
        command: of `savepointdb`, which writes the result.
        sends: lines, as JSON, that the job must print: state that it found, or output after the restore.
    """

    name: str
    version: str
    backend: str
    source: str
    script: str
    job: str = "wordcount"
    options: tuple[str, ...] = ()
    restoring: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    written_by: str | None = None
    fields: tuple[str, ...] = ()
    command: str = "write"
    others: dict[str, str] = field(default_factory=dict)
    sends: tuple[str, ...] = ()

    def concerns(self, state: str) -> bool:
        """Whether the rows of a state are compared."""
        return state not in self.undeclared and (not self.states or state in self.states)

    @property
    def id(self) -> str:
        """Its name in lists of tests, and the name of the file with what Flink found."""
        return f"{self.name}-{self.version}-{self.backend}"

    @property
    def kind(self) -> str:
        """What wrote the source, in words."""
        return self.source.rpartition("/")[2]

    def copy(self, folder: Path) -> Path:
        """A copy of the source below a folder: a job may delete what its savepoint refers to."""
        if "/" not in self.source:
            return unpacked(f"{self.written_by or self.version}-{self.source}", folder).directory
        path = DATA / "flink" / self.version / self.source
        shutil.copytree(path.parent, folder / path.parent.name)
        return folder / path.parent.name / path.name

    def named(self, folder: Path) -> Iterator[str]:
        """The options of `savepointdb write` that name the other savepoints; archives are unpacked below a folder."""
        for name, source in self.others.items():
            path = DATA / "flink" / source
            yield from (
                "--savepoint",
                f"{name}={path if path.exists() else unpacked(source, folder / name).directory}",
            )

    @property
    def recorded(self) -> dict[str, Any]:
        """What Flink found, as `digest` shortens it."""
        found: dict[str, Any] = json.loads((RECORDED / f"{self.id}.json").read_text())
        return found

    def restored(self, savepoint: Path) -> list[dict[str, Any]]:
        """The lines that the job prints, restored from a savepoint in real Flink."""
        return served_flink(self.version).run(
            self.backend, self.job, "--from", str(savepoint), *self.restoring
        )


def digest(rows: Iterator[tuple[str, str, str]]) -> dict[str, Any]:
    """Shorten rows (operator, state, text): the rows of operator state, and number and hash of those of keyed state."""
    texts: dict[str, list[str]] = {}
    for operator, state, text in rows:
        texts.setdefault(f"{operator} {state}", []).append(text)
    return {
        name: sorted(found)
        if len(found) <= 16
        else {"rows": len(found), "sha256": hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()}
        for name, found in sorted(texts.items())
    }


def rows_of_flink(lines: list[dict[str, Any]], restore: Restore) -> Iterator[tuple[str, str, str]]:
    """The rows of state among the lines of a job: (operator, state, text)."""
    copies: dict[tuple[str, str], dict[int, list[str]]] = {}
    for line in lines:
        if "state" not in line or line["kind"] == "coordinator" or not restore.concerns(line["state"]):
            continue
        if line["kind"] == "timer":
            name = f"_timer_state/{line['time_domain']}_{line['state']}"
            yield line["operator"], name, json.dumps([line["key"], line["timestamp"]])
            continue
        if line["kind"] == "list":
            for element in line["value"]:
                yield line["operator"], line["state"], _text({**line, "value": element})
            continue
        text = _text(line)
        if line["kind"] in _SHARED:
            found = copies.setdefault((line["operator"], line["state"]), {})
            found.setdefault(line["subtask"], []).append(text)
        else:
            yield line["operator"], line["state"], text
    for (operator, state), found in copies.items():
        texts = [sorted(one) for one in found.values()]
        assert texts == texts[:1] * len(texts), f"subtasks have other rows of {state}"
        yield from ((operator, state, text) for text in texts[0])


def rows_of_ours(path: Path, names: dict[str, str], restore: Restore) -> Iterator[tuple[str, str, str]]:
    """The rows that we read of a savepoint, of the operators with these ids, as the job prints them."""
    # The source's copy is beside it.
    for operator in Savepoint(path, roots=[str(path.parent)]).operators:
        if operator.operator_id in names:
            yield from _rows(operator, names[operator.operator_id], restore)


def _rows(operator: Operator, name: str, restore: Restore) -> Iterator[tuple[str, str, str]]:
    for state in operator.states:
        if state.kind is StateKind.COORDINATOR or not restore.concerns(state.name):
            continue
        for batch in state.read():
            for row in batch.to_pylist():
                if restore.fields:
                    row["value"] = {field: row["value"][field] for field in restore.fields}
                yield name, state.name, _text(row)


def _text(row: dict[str, Any]) -> str:
    """A row as text, of the job or ours: its keys and its value, or the time of a timer."""
    if "timestamp" in row:
        return json.dumps([row["key"], round(row["timestamp"].replace(tzinfo=UTC).timestamp() * 1000)])
    keys = [row.get("key"), *([row["map_key"]] if row.get("map_key") is not None else [])]
    return json.dumps([*keys, _fields(row["value"])])


def _fields(value: Any) -> Any:
    """The fields of a struct without their names, which the job and we give in words of our own."""
    if not isinstance(value, dict):
        return value
    # Only the fields of a POJO have names in a savepoint; the job prints them in the order of the class.
    if any(set(value) >= names for names in _POJOS):
        return [_fields(value[name]) for name in sorted(value)]
    return list(value.values())
