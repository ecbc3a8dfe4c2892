"""Savepoints that `savepointdb create` makes from nothing, and how a job of real Flink is restored from each of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from readers import Savepoint, operator_id_of
from tests.support.expected import rows_of
from tests.support.notation import json_text, normal
from tests.support.restoring import RECORDED, VERSIONS, Restore

BACKENDS = ("hashmap", "rocksdb")
_MOST_ROWS = 100
_KEPT = ("key", "map_key", "value", "timestamp", "time_domain")


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A script, and the job that is restored from what it creates.

    Attributes:
        name: of what is created, in words.
        job: of `tests/flink/restore`.
        uids: of its operators.
        script: the statements.
        restoring: further options of the job.
    """

    name: str
    job: str
    uids: tuple[str, ...]
    script: str
    restoring: tuple[str, ...] = ()

    def restore(self, version: str, backend: str) -> Restore:
        """How it is restored by a version of Flink."""
        return Restore(
            name=f"create-{self.job}",
            version=version,
            backend=backend,
            source="",
            script=self.script,
            job=self.job,
            restoring=self.restoring,
        )

    def rows(self, savepoint: Path) -> list[str]:
        """The rows that we read of a savepoint, in the notation of the job."""
        names = {operator_id_of(uid): uid for uid in self.uids}
        return sorted(
            text_of_row(names[operator.operator_id], row["state_name"], row)
            for operator in Savepoint(savepoint).operators
            if operator.operator_id in names
            for state in operator.states
            for row in rows_of(state)
        )


def rows_of_job(lines: list[dict[str, Any]]) -> list[str]:
    """The rows of state among the lines of a job; those that several subtasks have, once."""
    return sorted({text_of_row(line["operator"], line["state"], line) for line in lines if "state" in line})


def outputs_of(lines: list[dict[str, Any]]) -> list[str]:
    """What the job's operators sent after the restore."""
    return sorted(json_text(line) for line in lines if line.get("phase") == "output")


def text_of_row(operator: str, state: str, row: dict[str, Any]) -> str:
    """A row of a state in the notation of the job, with the keys and the value that the job prints."""
    kept = {name: normal(row.get(name)) for name in _KEPT if row.get(name) is not None or name == "value"}
    if "timestamp" in kept:
        kept.pop("value", None)
    kind = str(row["kind"]).removesuffix("-ttl").replace("operator-union-list", "operator-list")
    return json_text([operator, state, kind, kept])


def digest(rows: list[str]) -> Any:
    """Rows as they are recorded: many as their number and hash."""
    if len(rows) <= _MOST_ROWS:
        return rows
    return {"rows": len(rows), "sha256": hashlib.sha256("\n".join(rows).encode()).hexdigest()}


def recorded(creation: Creation) -> dict[str, Any]:
    """What each Flink found and its job sent, and which of them did."""
    found: dict[str, Any] = json.loads(_file(creation).read_text())
    return found


def record(creation: Creation, restore: Restore, state: Any, output: list[str]) -> None:
    """Record what a Flink found; those before it found the same, or are forgotten."""
    found = {"state": state, "output": output}
    before = recorded(creation) if _file(creation).exists() else {}
    is_same = all(before.get(name) == value for name, value in found.items())
    by = {*(before["restored_by"] if is_same else ()), f"{restore.version} {restore.backend}"}
    text = json.dumps({**found, "restored_by": sorted(by)}, indent=1, ensure_ascii=False)
    _file(creation).write_text(text + "\n")


def _file(creation: Creation) -> Path:
    return RECORDED / f"create-{creation.job}.json"


def restores() -> Iterator[tuple[Creation, Restore]]:
    """Each creation with each version and backend of Flink."""
    for creation in CREATIONS:
        for version in VERSIONS:
            for backend in BACKENDS:
                yield creation, creation.restore(version, backend)


def creation_matrix() -> list[str]:
    """The recorded restores as the table of docs/evidence/restored.md."""
    lines = [
        "| created from nothing | options of the job | "
        + " | ".join(f"Flink {version}, {backend}" for version in VERSIONS for backend in BACKENDS)
        + " |",
        "|" + "---|" * 6,
    ]
    for creation in CREATIONS:
        by = recorded(creation)["restored_by"]
        marks = [
            "restored" if f"{version} {backend}" in by else "not tried"
            for version in VERSIONS
            for backend in BACKENDS
        ]
        lines.append("| " + " | ".join((creation.name, " ".join(creation.restoring), *marks)) + " |")
    return lines


_TYPES = r"""
CREATE TABLE types__v_long (key VARCHAR, value BIGINT) WITH (parallelism = 2) AS VALUES ('k0', 1), ('k1', -2);
CREATE TABLE types__v_int (key VARCHAR, value INTEGER) AS VALUES ('k0', 7);
CREATE TABLE types__v_double AS SELECT 'k0' AS key, 0.25::DOUBLE AS value;
CREATE TABLE types__v_boolean AS SELECT 'k0' AS key, true AS value;
CREATE TABLE types__v_string AS SELECT 'k0' AS key, 'é' AS value;
CREATE TABLE types__v_bytes AS SELECT 'k0' AS key, '\x01\xFF'::BLOB AS value;
CREATE TABLE types__v_instant AS SELECT 'k0' AS key, TIMESTAMPTZ '2023-11-14 22:13:20+00' AS value;
CREATE TABLE types__v_datetime AS SELECT 'k0' AS key, TIMESTAMP '2024-02-29 12:34:56.789' AS value;
CREATE TABLE types__v_decimal AS SELECT 'k0' AS key, 1234.50 AS value;
CREATE TABLE types__v_tuple WITH (value_type = 'Tuple2<String, Long>') AS SELECT 'k0' AS key, {'a': 't', 'b': 5} AS value;
CREATE TABLE types__v_row AS SELECT 'k0' AS key, {'a': 'r', 'b': NULL::BIGINT} AS value;
CREATE TABLE types__v_list AS SELECT 'k0' AS key, ['a', 'b'] AS value;
CREATE TABLE types__v_map AS SELECT 'k0' AS key, MAP {'a': 1::BIGINT} AS value;
CREATE TABLE types__v_pojo WITH (value_type = 'Pojo(savepointdb.restore.SampleTypes$Person: name String, age Int, score Long,
    address Pojo(savepointdb.restore.SampleTypes$Address: street String, number Int))')
  AS SELECT 'k0' AS key, {'name': 'p', 'age': 30, 'score': NULL, 'address': {'street': 's', 'number': 3}} AS value;
CREATE TABLE types__v_enum WITH (value_type = 'Enum(savepointdb.restore.SampleTypes$Color: RED, GREEN, BLUE)')
  AS SELECT 'k0' AS key, 'BLUE' AS value;
CREATE TABLE types__l_string (key VARCHAR, value VARCHAR, list_index INTEGER) WITH (kind = 'LIST')
  AS VALUES ('k0', 'b', 1), ('k0', 'a', 0), ('k1', 'c', 0);
CREATE TABLE types__m_long (key VARCHAR, map_key VARCHAR, value BIGINT) WITH (kind = 'MAP') AS VALUES ('k0', 'x', 1), ('k0', 'y', 2);
CREATE TABLE types__m_pojo WITH (kind = 'MAP', value_type = 'Pojo(savepointdb.restore.SampleTypes$Person: name String, age Int, score Long,
    address Pojo(savepointdb.restore.SampleTypes$Address: street String, number Int))')
  AS SELECT 'k1' AS key, 'm' AS map_key, {'name': NULL, 'age': 1, 'score': 2, 'address': NULL} AS value;
CREATE TABLE types__timers (key VARCHAR, "timestamp" TIMESTAMP) WITH (kind = 'TIMER', state = '_timer_state/event_user-timers')
  AS VALUES ('k0', TIMESTAMP '2001-09-09 01:46:40')
"""
_KINDS = """
CREATE TABLE kinds__value (key VARCHAR, value BIGINT) WITH (parallelism = 2) AS SELECT 'k' || k, 100 * k FROM range(6) t(k);
CREATE TABLE kinds__list (key VARCHAR, value INTEGER) WITH (kind = 'LIST') AS SELECT 'k' || k, k FROM range(6) t(k);
CREATE TABLE kinds__map (key VARCHAR, map_key VARCHAR, value VARCHAR) WITH (kind = 'MAP')
  AS SELECT 'k' || k, 'm' || m, 'text-' || m FROM range(6) t(k), range(2) u(m);
CREATE TABLE kinds__reducing (key VARCHAR, value BIGINT) WITH (kind = 'REDUCING') AS SELECT 'k' || k, 1000 FROM range(6) t(k);
CREATE TABLE kinds__aggregating (key VARCHAR, value STRUCT(total BIGINT, n INTEGER))
  WITH (kind = 'AGGREGATING', value_type = 'Tuple2<Long, Integer>')
  AS SELECT 'k' || k, {'total': 30 * k, 'n': 3} FROM range(6) t(k);
CREATE TABLE "kinds__ttl-value" (key VARCHAR, value BIGINT) WITH (ttl = true) AS SELECT 'k' || k, k FROM range(6) t(k);
CREATE TABLE "kinds__ttl-list" (key VARCHAR, value INTEGER) WITH (kind = 'LIST', ttl = true) AS VALUES ('k0', 1), ('k0', 2), ('k1', 3);
CREATE TABLE "kinds__ttl-map" (key VARCHAR, map_key VARCHAR, value BIGINT) WITH (kind = 'MAP', ttl = true) AS VALUES ('k0', 'm', 1);
CREATE TABLE kinds__events (key VARCHAR, "timestamp" TIMESTAMP) WITH (kind = 'TIMER', state = '_timer_state/event_user-timers')
  AS VALUES ('k3', TIMESTAMP '2001-09-09 01:46:40.007');
CREATE TABLE kinds__processing (key VARCHAR, "timestamp" TIMESTAMP) WITH (kind = 'TIMER', state = '_timer_state/processing_user-timers')
  AS VALUES ('k4', TIMESTAMP '2100-01-01 00:00:00');
CREATE TABLE "tumbling-window__window-contents"
  WITH (kind = 'AGGREGATING', value_type = 'Tuple2<Long, Integer>', namespace_type = 'TimeWindow', parallelism = 2)
  AS SELECT 'k1' AS key, {'start': TIMESTAMP '1970-01-01 00:00:10', 'end': TIMESTAMP '1970-01-01 00:00:20'} AS namespace,
  {'total': 90, 'n': 2} AS value;
CREATE TABLE "tumbling-window__timers" WITH (kind = 'TIMER', state = '_timer_state/event_window-timers', namespace_type = 'TimeWindow')
  AS SELECT 'k1' AS key, {'start': TIMESTAMP '1970-01-01 00:00:10', 'end': TIMESTAMP '1970-01-01 00:00:20'} AS namespace,
  TIMESTAMP '1970-01-01 00:00:19.999' AS "timestamp";
CREATE TABLE broadcast__rules (map_key VARCHAR, value STRUCT(a INTEGER, b VARCHAR))
  WITH (kind = 'BROADCAST', value_type = 'Tuple2<Integer, String>', parallelism = 2)
  AS VALUES ('k0', {'a': 1, 'b': 'rule-1'}), ('k1', {'a': 2, 'b': 'rule-2'});
CREATE TABLE "events__last-numbers" (value STRUCT(key VARCHAR, n BIGINT))
  WITH (kind = 'OPERATOR_LIST', value_type = 'Tuple2<String, Long>', parallelism = 2)
  AS SELECT {'key': 'k' || k, 'n': 3} FROM range(6) t(k);
CREATE TABLE events__readers (value VARCHAR) WITH (kind = 'UNION_LIST') AS VALUES ('reader-0'), ('reader-1')
"""
_WORDS = """
CREATE TABLE aggregate__count (key VARCHAR, value BIGINT) WITH (parallelism = 3, max_parallelism = 1000)
  AS SELECT CASE WHEN k < 4 THEN 'p' || k || '@' || 100 ELSE 'key_' || k END, k FROM range(2000) t(k);
CREATE TABLE source__offsets (value STRUCT(topic VARCHAR, p INTEGER, n BIGINT))
  WITH (kind = 'OPERATOR_LIST', state = 'topic-partition-offset-states', value_type = 'Tuple3<String, Integer, Long>',
    parallelism = 3, max_parallelism = 1000)
  AS SELECT {'topic': 'words', 'p': p, 'n': 100} FROM range(4) t(p)
"""

CREATIONS = (
    Creation(
        name="2,000 counts by word and the offsets of the source, in 3 subtasks and 1,000 key groups",
        job="wordcount",
        uids=("aggregate", "source"),
        script=_WORDS,
        restoring=("--max-parallelism", "1000", "--emit", "2"),
    ),
    Creation(
        name="values of 15 types, a list, maps and timers",
        job="types",
        uids=("types",),
        script=_TYPES,
    ),
    Creation(
        name="all kinds of keyed and operator state, TTL, timers, a window",
        job="kinds",
        uids=("kinds", "broadcast", "events"),
        script=_KINDS,
        restoring=("--emit", "1", "--fire"),
    ),
)
"""What is created from nothing, and restored by real Flink."""
