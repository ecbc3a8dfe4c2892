"""The statements of docs/reference/statements.md, and the jobs of `tests/flink/restore` that prove them."""

from __future__ import annotations

from typing import Any

from readers import operator_id_of
from tests.support.proofs import Proof

UPDATE = "`UPDATE table SET value = …, value.field = … [FROM …] [WHERE …]`"
DELETE = "`DELETE FROM table [USING …] [WHERE …]`"
DELETE_KEY = "`DELETE KEY 'a', 'b' [FROM operator, …]`"
RENAME_KEY = "`RENAME KEY 'a' TO 'b' [FROM operator, …] [ON CONFLICT …]`"
INSERT = "`INSERT INTO table [(columns)] SELECT … or VALUES …`"
ON_CONFLICT = "`INSERT … ON CONFLICT [(key)] DO UPDATE SET … or DO NOTHING`"
MERGE = "`MERGE INTO table USING … ON … WHEN [NOT] MATCHED … THEN …`"
DROP_OPERATOR = "`DROP TABLE operator`"
RENAME_OPERATOR = "`ALTER TABLE operator RENAME TO 'uid'`"
RESHARD = "`ALTER TABLE operator SET (max_parallelism = 1000, parallelism = 3)`"
DROP_STATE = "`DROP TABLE operator__state`"
TRUNCATE = "`TRUNCATE operator__state`"
RENAME_STATE = "`ALTER TABLE operator__state RENAME TO name`"
TTL = "`ALTER TABLE operator__state SET (ttl = true)`"
RENAME_COLUMN = "`ALTER TABLE … RENAME COLUMN value.a TO b`"
ADD_COLUMN = "`ALTER TABLE … ADD COLUMN value.x BIGINT DEFAULT 0`"
DROP_COLUMN = "`ALTER TABLE … DROP COLUMN value.x`"
RETYPE = "`ALTER TABLE … ALTER COLUMN value.x TYPE BIGINT`"
COPY_OPERATOR = "`COPY OPERATOR other.operator [TO 'uid']`"
CREATE = "`CREATE TABLE operator__state … AS SELECT …`"
OFFSETS = "`UPDATE source_offsets SET starting_offset = … [WHERE …]`"
REWIND = "`CALL rewind_kafka('operator', 'topic', MAP {0: 5, 1: 20})`"

FIRST_WINDOW, SECOND_WINDOW = (
    f"{{'start': TIMESTAMP '1970-01-01 00:00:{start}', 'end': TIMESTAMP '1970-01-01 00:00:{end}'}}"
    for start, end in (("00", "10"), ("10", "20"))
)
END_OF_SECOND_WINDOW = "TIMESTAMP '1970-01-01 00:00:19.999'"


def told_by(*uids: str) -> dict[str, str]:
    return {operator_id_of(uid): uid for uid in uids}


MOD7 = "058086c13c6c5a39fabcbe0b8a1b827d"  # the operator without uid
OTHERS = "--allow-non-restored"


def of_kinds(name: str, statement: str, of: str, *script: str, **facts: Any) -> Proof:
    """All kinds of state, in the layout of the backend that restores them."""
    restoring = facts.pop("restoring", ("--emit", "1"))
    return Proof(
        name=name,
        statement=statement,
        of=of,
        source=facts.pop("source", "everything-{backend}-savepoints/native"),
        job="kinds",
        told=told_by("kinds", "events", "broadcast"),
        restoring=(OTHERS, *restoring),
        script="; ".join(script),
        **facts,
    )


def of_queries(name: str, statement: str, *script: str, probe: str = "k1,k2,k3,new", to: str = "t") -> Proof:
    """SQL operators, which list nothing: probes make them send what they have."""
    return Proof(
        name=name,
        statement=statement,
        of="SQL operators: accumulators, distinct values, join sides, deduplicate, Top-N, windows"
        if to == "t"
        else "the right sides of SQL joins",
        source="queries-canonical",
        job="queries",
        told={},
        restoring=("--probe", probe, "--conf", f"probes={to}", "--fire"),
        script="; ".join(script),
    )


def of_words(name: str, statement: str, of: str, *script: str, **facts: Any) -> Proof:
    """A word count with an operator without uid, in the layout of the backend that restores it."""
    return Proof(
        name=name,
        statement=statement,
        of=of,
        source=facts.pop("source", "wordcount-{backend}-savepoints/native"),
        job="wordcount",
        told=facts.pop("told", {**told_by("source", "aggregate"), MOD7: "mod7-no-uid"}),
        restoring=("--emit", "2", *facts.pop("restoring", ())),
        script="; ".join(script),
        **facts,
    )


def of_types(name: str, statement: str, of: str, *script: str, **facts: Any) -> Proof:
    """Values of many types; the job tells what it finds by each key."""
    return Proof(
        name=name,
        statement=statement,
        of=of,
        source="types-hashmap-savepoints/canonical",
        job="types",
        told=told_by("types"),
        restoring=("--emit", "1", *facts.pop("restoring", ())),
        script="; ".join(script),
        **facts,
    )


def of_windows(name: str, statement: str, *script: str, restoring: tuple[str, ...] = ()) -> Proof:
    """Windows that list nothing: they send what they hold when they fire."""
    return Proof(
        name=name,
        statement=statement,
        of="session and sliding windows, windows of elements, triggers and evictors; keys Long, Int, Tuple",
        source="windows-canonical",
        job="windows",
        told={},
        restoring=("--emit", "1", "--fire", *restoring),
        script="; ".join(script),
    )


def of_kafka(name: str, statement: str, of: str, script: str, *told: str) -> Proof:
    return Proof(
        name=name,
        statement=statement,
        of=of,
        source="source-kafka-hashmap-canonical",
        job="kafka",
        told=told_by("aggregate", *told),
        restoring=(OTHERS, "--emit", "2"),
        script=script,
        written_by="1.20.3",
    )
