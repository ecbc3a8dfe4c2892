"""The scripts that prove each statement of docs/writing.md, which has the table of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from readers import operator_id_of
from tests.support.creations import BACKENDS
from tests.support.proofs import Proof
from tests.support.restoring import VERSIONS

UPDATE = "`UPDATE table SET value = …, value.field = … [FROM …] [WHERE …]`"
DELETE = "`DELETE FROM table [USING …] [WHERE …]`"
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
CREATE = "`CREATE TABLE operator__state … AS SELECT …`"
OFFSETS = "`UPDATE source_offsets SET starting_offset = … [WHERE …]`"
REWIND = "`CALL rewind_kafka('operator', 'topic', MAP {0: 5, 1: 20})`"


def statement_matrix() -> list[str]:
    """Who restored each proof, as the table of docs/writing.md."""
    pairs = [(version, backend) for version in VERSIONS for backend in BACKENDS]
    lines = [
        "| statement | of | " + " | ".join(f"{version} {backend}" for version, backend in pairs) + " |",
        "|" + "---|" * (2 + len(pairs)),
    ]
    for proof in PROOFS:
        by = proof.recorded["restored_by"]
        marks = ["yes" if " ".join(pair) in by else "not tried" for pair in pairs]
        lines.append("| " + " | ".join((proof.statement, proof.of, *marks)) + " |")
    return lines


def _told(*uids: str) -> dict[str, str]:
    return {operator_id_of(uid): uid for uid in uids}


_MOD7 = "058086c13c6c5a39fabcbe0b8a1b827d"  # the operator without uid
_OTHERS = "--allow-non-restored"


def _of_kinds(name: str, statement: str, of: str, *script: str, **facts: Any) -> Proof:
    """All kinds of state, in the layout of the backend that restores them."""
    restoring = facts.pop("restoring", ("--emit", "1"))
    return Proof(
        name=name,
        statement=statement,
        of=of,
        source=facts.pop("source", "everything-{backend}-savepoints/native"),
        job="kinds",
        told=_told("kinds", "events", "broadcast"),
        restoring=(_OTHERS, *restoring),
        script="; ".join(script),
        **facts,
    )


def _of_queries(name: str, statement: str, *script: str, probe: str = "k1,k2,k3,new", to: str = "t") -> Proof:
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


def _of_words(name: str, statement: str, of: str, *script: str, **facts: Any) -> Proof:
    """A word count with an operator without uid, in the layout of the backend that restores it."""
    return Proof(
        name=name,
        statement=statement,
        of=of,
        source=facts.pop("source", "wordcount-{backend}-savepoints/native"),
        job="wordcount",
        told=facts.pop("told", {**_told("source", "aggregate"), _MOD7: "mod7-no-uid"}),
        restoring=("--emit", "2", *facts.pop("restoring", ())),
        script="; ".join(script),
        **facts,
    )


def _of_types(name: str, statement: str, of: str, *script: str, **facts: Any) -> Proof:
    """Values of many types; the job tells what it finds by each key."""
    return Proof(
        name=name,
        statement=statement,
        of=of,
        source="types-hashmap-savepoints/canonical",
        job="types",
        told=_told("types"),
        restoring=("--emit", "1", *facts.pop("restoring", ())),
        script="; ".join(script),
        **facts,
    )


_FIRST, _SECOND = (
    f"{{'start': TIMESTAMP '1970-01-01 00:00:{start}', 'end': TIMESTAMP '1970-01-01 00:00:{end}'}}"
    for start, end in (("00", "10"), ("10", "20"))
)
_ITS_END = "TIMESTAMP '1970-01-01 00:00:19.999'"
_EVENTS = "timer_service = 'user-timers' AND time_domain = 'EVENT'"
_OF_WINDOWS = "timer_service = 'window-timers'"
_PERSON = (
    "Pojo(savepointdb.restore.SampleTypes$Person: name String, age Int, score Long, "
    "address Pojo(savepointdb.restore.SampleTypes$Address: street String, number Int))"
)
_AGGREGATE, _DISTINCT, _JOIN, _LEFT_JOIN = (
    f'"{uid}__{view}"'
    for uid, view in (
        ("4_group-aggregate", "aggregate"),
        ("9_group-aggregate", "distinct_0"),
        ("17_join", "left"),
        ("26_join", "left"),
    )
)
_DEDUPLICATE, _TOP_N, _WINDOWS = (
    f'"{uid}__{view}"'
    for uid, view in (
        ("32_deduplicate", "deduplicate"),
        ("38_rank", "data-state-with-append"),
        ("44_global-window-aggregate", "windows"),
    )
)


def _updates() -> Iterator[Proof]:
    yield _of_kinds(
        "update-keyed",
        UPDATE,
        "value, list, map, reducing, aggregating; another key, another map key",
        "UPDATE kinds__value AS v SET value = v.value * 10 + r.value FROM kinds__reducing r WHERE r.key = v.key AND v.key < 'k3'",
        "UPDATE kinds__list SET value = value + 100 WHERE list_index = 1",
        "UPDATE kinds__map SET map_key = 'm9', value = 'x' WHERE key = 'k1' AND map_key = 'm2'",
        "UPDATE kinds__reducing SET value = 1000 WHERE key = 'k2'",
        "UPDATE kinds__aggregating SET value.f0 = 100 WHERE key = 'k1'",
        "UPDATE kinds__value SET key = 'moved' WHERE key = 'k4'",
    )
    yield _of_kinds(
        "update-ttl",
        UPDATE,
        "value, list and map with TTL",
        "UPDATE \"kinds__ttl-value\" SET value = 70, ttl_timestamp = TIMESTAMP '2026-01-02 03:04:05' WHERE key = 'k1'",
        'UPDATE "kinds__ttl-list" SET value = value + 50 WHERE list_index = 2',
        "UPDATE \"kinds__ttl-map\" SET key = 'moved', value = 5 WHERE key = 'k0'",
    )
    yield _of_kinds(
        "update-windows",
        UPDATE,
        "timers and the contents of windows",
        f"UPDATE timers SET timestamp = timestamp + INTERVAL 1 SECOND WHERE {_EVENTS} AND key = 'k1'",
        f"UPDATE timers SET key = 'moved' WHERE {_EVENTS} AND key = 'k2'",
        f"UPDATE \"tumbling-window__window-contents\" SET value.f0 = 90 WHERE key = 'k1' AND namespace = {_FIRST}",
        restoring=("--fire",),
    )
    yield _of_kinds(
        "rows-of-operators",
        UPDATE,
        "elements of list and union state, entries of broadcast state",
        'UPDATE "events__last-numbers" SET value.f1 = value.f1 + 100 WHERE list_index = 0',
        "UPDATE events__readers SET value = upper(value)",
        "UPDATE broadcast__rules SET map_key = 'k9', value.f1 = 'x' WHERE map_key = 'k3'",
        restoring=("--fire",),
    )
    yield _of_types(
        "update-types",
        UPDATE,
        "values of 15 types",
        "UPDATE types__v_long SET value = value + 1",
        "UPDATE types__v_int SET value = -value",
        "UPDATE types__v_double SET value = value / 2",
        "UPDATE types__v_boolean SET value = NOT value",
        "UPDATE types__v_string SET value = value || '日'",
        "UPDATE types__v_bytes SET value = '\\x07\\xFF'::BLOB WHERE key = 'k1'",
        "UPDATE types__v_instant SET value = TIMESTAMP '2020-01-02 03:04:05.678' WHERE key = 'k0'",
        "UPDATE types__v_datetime SET value = TIMESTAMP '2020-01-02 03:04:05.678' WHERE key = 'k0'",
        "UPDATE types__v_decimal SET value = '-0.125' WHERE key = 'k1'",
        "UPDATE types__v_tuple SET value.f0 = 'y'",
        "UPDATE types__v_row SET value.f1 = NULL, value.f0 = 'z' WHERE key = 'k1'",
        "UPDATE types__v_list SET value = ['p', 'q', 'r'] WHERE key = 'k2'",
        "UPDATE types__v_map SET value = MAP {'b': 2::BIGINT, 'c': 3} WHERE key = 'k2'",
        "UPDATE types__v_pojo SET value.age = 99, value.address.street = 'new' WHERE key = 'k1'",
        "UPDATE types__v_enum SET value = 'BLUE' WHERE key = 'k0'",
        "UPDATE types__v_rowdata SET value.f1 = 'another name', value.f2 = NULL WHERE key = 'k1'",
        "UPDATE types__m_pojo SET value.score = 5 WHERE key = 'k1'",
    )
    yield _of_queries(
        "update-views",
        UPDATE,
        f"UPDATE {_AGGREGATE} SET f0 = 100, f1 = 5, f3 = 7.25 WHERE k0 = 'k1'",
        f"UPDATE {_AGGREGATE} SET k0 = 'new' WHERE k0 = 'k2'",
        f"UPDATE {_DISTINCT} SET distinct_value = 0.99 WHERE k0 = 'k3' AND distinct_value = 0.08",
        f"UPDATE {_JOIN.replace('left', 'right')} SET f1 = 500 WHERE k0 = 'k1' AND f1 = 6",
        f"UPDATE {_LEFT_JOIN} SET f1 = 600 WHERE k0 = 'k1' AND f1 = 6",
        f"UPDATE {_DEDUPLICATE} SET f1 = 700, f2 = 'changed' WHERE k0 = 'k1'",
        f"UPDATE {_TOP_N} SET value = [{{'f0': 'k1', 'f1': 1, 'f2': 'changed', '__row_kind': '+I'}}] "
        "WHERE key.f0 = 'k1' AND map_key.f0 = 1",
        f"UPDATE {_WINDOWS} SET f0 = 50, f1 = 800 WHERE k0 = 'k1'",
    )
    yield _of_queries(
        "update-right-sides",
        UPDATE,
        f"UPDATE {_JOIN} SET f1 = 500 WHERE k0 = 'k1' AND f1 = 6",
        f"UPDATE {_LEFT_JOIN.replace('left', 'right')} SET f1 = 9 WHERE k0 = 'k1' AND f1 = 6",
        to="u",
    )


def _deletes() -> Iterator[Proof]:
    yield _of_kinds(
        "delete-keyed",
        DELETE,
        "value, list, map, reducing, aggregating, with TTL and without",
        "DELETE FROM kinds__value USING kinds__reducing r WHERE r.key = kinds__value.key AND r.key IN ('k1', 'k3')",
        "DELETE FROM kinds__list WHERE list_index = 0 OR key = 'k2'",
        "DELETE FROM kinds__map WHERE map_key = 'm2'",
        "DELETE FROM kinds__reducing WHERE key = 'k0'",
        "DELETE FROM kinds__aggregating WHERE key = 'k1'",
        "DELETE FROM \"kinds__ttl-value\" WHERE key = 'k1'",
        "DELETE FROM \"kinds__ttl-list\" WHERE list_index < 2 AND key <> 'k5'",
        "DELETE FROM \"kinds__ttl-map\" WHERE map_key = 'm0'",
    )
    yield _of_kinds(
        "delete-windows",
        DELETE,
        "timers; windows with their timers",
        f"DELETE FROM timers WHERE {_EVENTS} AND key IN ('k1', 'k4')",
        "DELETE FROM timers WHERE timer_service = 'window-timers' AND key = 'k2'",
        "DELETE FROM \"tumbling-window__window-contents\" WHERE key = 'k2'",
        restoring=("--fire",),
    )
    yield _of_kinds(
        "delete-of-operators",
        DELETE,
        "elements of list and union state, entries of broadcast state",
        "DELETE FROM \"events__last-numbers\" WHERE value.f0 IN ('k0', 'k3')",
        "DELETE FROM events__readers WHERE value = 'reader-1'",
        "DELETE FROM broadcast__rules WHERE map_key > 'k3'",
        restoring=("--fire",),
    )
    yield _of_queries(
        "delete-views",
        DELETE,
        f"DELETE FROM {_AGGREGATE} WHERE k0 = 'k1'",
        f"DELETE FROM {_DISTINCT} WHERE k0 = 'k1' AND distinct_value = 0.01",
        f"DELETE FROM {_JOIN.replace('left', 'right')} WHERE k0 = 'k1' AND f1 > 10",
        f"DELETE FROM {_LEFT_JOIN} WHERE k0 = 'k1' AND f1 > 10",
        f"DELETE FROM {_DEDUPLICATE} WHERE k0 = 'k2'",
        f"DELETE FROM {_TOP_N} WHERE key.f0 = 'k3' AND map_key.f0 = 3",
        f"DELETE FROM {_WINDOWS} WHERE k0 = 'k4' AND f0 = 4 AND f1 < 100",
        f"DELETE FROM timers WHERE {_OF_WINDOWS} AND key.f0 = 'k4' AND CAST(namespace AS VARCHAR) = '1709208060000'",
    )


def _inserts() -> Iterator[Proof]:
    yield _of_kinds(
        "insert-keyed",
        INSERT,
        "value, list, map, reducing, aggregating, with TTL and without",
        "INSERT INTO kinds__value SELECT 'new' || i, i FROM range(20) t(i)",
        "INSERT INTO kinds__list (key, list_index, value) VALUES ('k3', 0, 77), ('k3', NULL, 78), ('new', NULL, 79)",
        "INSERT INTO kinds__map VALUES ('k3', 'm', 'v'), ('new', 'm', NULL)",
        "DELETE FROM kinds__reducing WHERE key = 'k1'",
        "INSERT INTO kinds__reducing VALUES ('k1', 500), ('new', 7)",
        "INSERT INTO kinds__aggregating VALUES ('new', {'f0': 10, 'f1': 4})",
        "INSERT INTO \"kinds__ttl-value\" (key, value) VALUES ('new', 5)",
        "INSERT INTO \"kinds__ttl-list\" (key, value, ttl_timestamp) VALUES ('k0', 6, TIMESTAMP '2026-01-02 03:04:05'), ('new', 7, NULL)",
        "INSERT INTO \"kinds__ttl-map\" (key, map_key, value) SELECT 'new', map_key, value + 9 FROM \"kinds__ttl-map\" WHERE key = 'k0'",
    )
    columns = "INSERT INTO timers (operator_id, timer_service, time_domain, key, namespace, timestamp) VALUES"
    yield _of_kinds(
        "insert-windows",
        INSERT,
        "timers; windows with their timers",
        f"INSERT INTO \"tumbling-window__window-contents\" VALUES ('new', {_SECOND}, {{'f0': 41, 'f1': 2}})",
        f"{columns} ('{operator_id_of('tumbling-window')}', 'window-timers', 'EVENT', 'new', {_SECOND}, {_ITS_END})",
        f"INSERT INTO timers SELECT * REPLACE ('new' AS key) FROM timers WHERE {_EVENTS} AND key = 'k2'",
        f"{columns} ('{operator_id_of('kinds')}', 'user-timers', 'PROCESSING', 'new', NULL, TIMESTAMP '2100-01-01 00:00:00')",
        restoring=("--fire",),
    )
    yield _of_kinds(
        "insert-of-operators",
        INSERT,
        "elements of list and union state, entries of broadcast state",
        "INSERT INTO \"events__last-numbers\" (value, _subtask) VALUES ({'f0': 'new', 'f1': 5}, 1), ({'f0': 'more', 'f1': 6}, 0)",
        "INSERT INTO events__readers VALUES ('made up')",
        "INSERT INTO broadcast__rules (map_key, value) VALUES ('k9', {'f0': 1, 'f1': 'x'})",
        restoring=("--fire",),
    )
    yield _of_types(
        "insert-types",
        INSERT,
        "values of 15 types",
        *(
            f"INSERT INTO types__{state} ({columns}) SELECT key || '-2'{columns.removeprefix('key')} FROM types__{state}"
            for states, columns in (
                (
                    "v_long v_int v_double v_boolean v_string v_bytes v_instant v_datetime v_decimal",
                    "key, value",
                ),
                ("v_tuple v_row v_list v_map v_pojo v_enum v_rowdata l_string", "key, value"),
                ("m_long m_pojo", "key, map_key, value"),
            )
            for state in states.split()
        ),
        restoring=("--parallelism", "3"),
    )
    new = "{'f0': 'new', '__row_kind': '+I'}"
    yield _of_queries(
        "insert-sql",
        INSERT,
        *(
            f'INSERT INTO "{state}" ({columns}) SELECT {values} FROM "{state}" WHERE key.f0 = \'k1\''
            for state, columns, values in (
                ("4_group-aggregate__accState", "key, value", f"{new}, value"),
                ("32_deduplicate__deduplicate-state", "key, value", f"{new}, value"),
                (
                    "44_global-window-aggregate__window-aggs",
                    "key, namespace, value",
                    f"{new}, namespace, value",
                ),
                ("17_join__right-records", "key, map_key, value", f"{new}, map_key, value"),
                ("26_join__left-records", "key, map_key, value", f"{new}, map_key, value"),
                ("38_rank__data-state-with-append", "key, map_key, value", f"{new}, map_key, value"),
            )
        ),
        f"INSERT INTO timers SELECT * REPLACE ({new} AS key) FROM timers WHERE {_OF_WINDOWS} AND key.f0 = 'k1'",
    )
    yield _of_words(
        "insert-late",
        INSERT,
        "subtasks that have no keyed state yet",
        "INSERT INTO aggregate__count SELECT 'key_' || i, i FROM range(1, 100) t(i)",
        source="late-canonical",
    )


def _conditional() -> Iterator[Proof]:
    yield _of_kinds(
        "on-conflict",
        ON_CONFLICT,
        "value, map, with TTL, broadcast",
        "INSERT INTO kinds__value VALUES ('k3', 4), ('new', 5) "
        "ON CONFLICT (key) DO UPDATE SET value = kinds__value.value + excluded.value",
        "INSERT INTO kinds__map VALUES ('k3', 'm0', 'ignored'), ('k3', 'new', 'v') ON CONFLICT DO NOTHING",
        "INSERT INTO \"kinds__ttl-value\" (key, value) VALUES ('k1', 40), ('new', 50) "
        "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        "INSERT INTO broadcast__rules (map_key, value) VALUES ('k0', {'f0': 8, 'f1': 'y'}), ('k9', {'f0': 9, 'f1': 'z'}) "
        "ON CONFLICT DO UPDATE SET value = excluded.value",
    )
    yield _of_kinds(
        "merge",
        MERGE,
        "reducing, map, list state of operators",
        "MERGE INTO kinds__reducing t USING kinds__value s ON t.key = s.key WHEN MATCHED AND s.key = 'k0' THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET value = t.value + s.value",
        "MERGE INTO kinds__map t USING (VALUES ('k1', 'm0', 'a'), ('new', 'm0', 'b')) s(k, m, v) "
        "ON t.key = s.k AND t.map_key = s.m "
        "WHEN MATCHED THEN UPDATE SET value = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.m, s.v)",
        'MERGE INTO "events__last-numbers" t USING kinds__value s ON t.value.f0 = s.key '
        "WHEN MATCHED AND s.key = 'k1' THEN DELETE WHEN MATCHED THEN UPDATE SET value.f1 = s.value * 2",
        restoring=("--fire",),
    )


def _of_operators() -> Iterator[Proof]:
    yield _of_words("drop-operator", DROP_OPERATOR, "an operator with keyed state", "DROP TABLE aggregate")
    yield _of_kafka(
        "drop-source", DROP_OPERATOR, "both halves of a FLIP-27 source", 'DROP TABLE "kafka-source"'
    )
    yield _of_words(
        "rename-operator",
        RENAME_OPERATOR,
        "an operator with a uid, and one without",
        f"ALTER TABLE aggregate RENAME TO 'counts'; ALTER TABLE \"{_MOD7}\" RENAME TO 'sevens'",
        restoring=("--conf", "uids=counts,sevens"),
        told={
            **_told("source"),
            operator_id_of("counts"): "aggregate",
            operator_id_of("sevens"): "mod7-no-uid",
        },
    )
    yield _of_words(
        "reshard",
        RESHARD,
        "128 key groups in 2 subtasks → 1,000 in 3, restored in 2",
        *(
            f'ALTER TABLE "{name}" SET (max_parallelism = 1000, parallelism = 3)'
            for name in ("source", "aggregate", _MOD7)
        ),
        restoring=("--max-parallelism", "1000"),
    )
    yield _of_kinds(
        "reshard-kinds",
        RESHARD,
        "all kinds of state, timers and windows; 128 key groups → 1,000, restored in 3 subtasks",
        "DROP TABLE types",
        *(
            f'ALTER TABLE "{name}" SET (max_parallelism = 1000)'
            for name in ("kinds", "tumbling-window", "events", "broadcast")
        ),
        restoring=("--max-parallelism", "1000", "--parallelism", "3", "--fire"),
    )


def _of_states() -> Iterator[Proof]:
    keyed = (
        *("kinds__value", "kinds__list", "kinds__map", "kinds__reducing", "kinds__aggregating"),
        *('"kinds__ttl-value"', '"kinds__ttl-list"', '"kinds__ttl-map"'),
    )
    yield _of_kinds(
        "drop-keyed",
        DROP_STATE,
        "all kinds of keyed state but one",
        *(f"DROP TABLE {name}" for name in keyed if name != "kinds__list"),
    )
    operators = ('"events__last-numbers"', "events__readers", "broadcast__rules")
    yield _of_kinds(
        "drop-of-operators",
        DROP_STATE,
        "list, union, broadcast",
        *(f"DROP TABLE {name}" for name in operators),
        restoring=("--fire",),
    )
    yield _of_kinds(
        "truncate-keyed",
        TRUNCATE,
        "all kinds of keyed state but one",
        *(f"TRUNCATE {name}" for name in keyed if name != "kinds__list"),
    )
    yield _of_kinds(
        "truncate-of-operators",
        TRUNCATE,
        "list, union, broadcast",
        *(f"TRUNCATE {name}" for name in operators),
        restoring=("--fire",),
    )
    yield _of_words(
        "rename-state",
        RENAME_STATE,
        "keyed state, and state of an operator",
        "ALTER TABLE aggregate__count RENAME TO words",
        'ALTER TABLE "source__topic-partition-offset-states" RENAME TO positions',
        restoring=("--conf", "states=words,positions"),
    )
    expiring = "value,list,map,reducing,aggregating"
    yield _of_kinds(
        "ttl",
        TTL,
        "on: value, list, map, reducing, aggregating; off: value, list, map",
        *(f"ALTER TABLE kinds__{name} SET (ttl = true)" for name in expiring.split(",")),
        *(f'ALTER TABLE "kinds__ttl-{name}" SET (ttl = false)' for name in ("value", "list", "map")),
        restoring=("--emit", "1", "--conf", f"expiring={expiring}"),
    )


def _of_columns() -> Iterator[Proof]:
    changes = (
        "ALTER TABLE types__v_pojo DROP COLUMN value.score",
        "ALTER TABLE types__v_pojo RENAME COLUMN value.age TO score",
        "ALTER TABLE types__v_pojo ALTER COLUMN value.score TYPE BIGINT",
        "ALTER TABLE types__v_pojo ADD COLUMN value.age INT DEFAULT 7",
        "ALTER TABLE types__v_tuple DROP COLUMN value.f1",
        "ALTER TABLE types__v_tuple ADD COLUMN value.f1 BIGINT DEFAULT 9",
        "ALTER TABLE types__v_row DROP COLUMN value.f0",
        "ALTER TABLE types__v_row ADD COLUMN value.f1 BIGINT DEFAULT 8",
        "ALTER TABLE types__v_row ALTER COLUMN value.f0 TYPE VARCHAR",
        "ALTER TABLE types__m_pojo DROP COLUMN value.address",
        f"ALTER TABLE types__m_pojo ADD COLUMN value.address 'Pojo({_PERSON.partition('Pojo(')[2].partition('Pojo(')[2][:-1]}'",
    )
    for name, statement, of in (
        ("rename-column", RENAME_COLUMN, "a field of a POJO"),
        ("add-column", ADD_COLUMN, "fields of POJOs, Tuples and Rows"),
        ("columns", DROP_COLUMN, "fields of POJOs, Tuples and Rows"),
    ):
        chosen = {
            "rename-column": changes[:4],
            "add-column": changes[4:],
            "columns": changes,
        }[name]
        yield _of_types(name, statement, of, *chosen)
    yield _of_types(
        "retype",
        RETYPE,
        "Int → Long, Double → BigDecimal, a field of a Tuple, a POJO → a Row",
        "DROP TABLE types__v_long; ALTER TABLE types__v_int RENAME TO v_long",
        "ALTER TABLE types__v_long ALTER COLUMN value TYPE BIGINT",
        "DROP TABLE types__v_decimal; ALTER TABLE types__v_double RENAME TO v_decimal",
        "ALTER TABLE types__v_decimal ALTER COLUMN value TYPE 'BigDecimal'",
        "ALTER TABLE types__v_tuple DROP COLUMN value.f1; ALTER TABLE types__v_tuple ADD COLUMN value.f1 INTEGER DEFAULT 5",
        "ALTER TABLE types__v_tuple ALTER COLUMN value.f1 TYPE BIGINT",
        "DROP TABLE types__v_row; ALTER TABLE types__v_pojo RENAME TO v_row",
        "ALTER TABLE types__v_row DROP COLUMN value.address; ALTER TABLE types__v_row DROP COLUMN value.score",
        "ALTER TABLE types__v_row ALTER COLUMN value TYPE 'Row(name String, age Long)'",
    )


def _creates() -> Iterator[Proof]:
    yield _of_types(
        "create-pojo",
        CREATE,
        "values that become POJOs: of Tuples, and of numbers in a map",
        "DROP TABLE types__v_pojo; ALTER TABLE types__m_pojo RENAME TO 'old'",
        f"CREATE TABLE types__v_pojo WITH (value_type = '{_PERSON}') AS SELECT key, "
        "{'name': value.f0, 'age': value.f1, 'score': NULL, 'address': {'street': 's', 'number': value.f1}} AS value FROM types__v_tuple",
        f"CREATE TABLE types__m_pojo WITH (kind = 'MAP', value_type = '{_PERSON}') AS SELECT key, map_key, "
        "{'name': map_key, 'age': 1, 'score': value, 'address': NULL} AS value FROM types__m_long",
        undeclared=("old",),
    )
    renamed = ("value", "list", "map", "reducing", "aggregating")
    yield _of_kinds(
        "create-keyed",
        CREATE,
        "keyed states of each kind in an operator that is there, with TTL and without",
        *(f"ALTER TABLE kinds__{name} RENAME TO 'old-{name}'" for name in renamed),
        *(f'DROP TABLE "kinds__ttl-{name}"' for name in ("value", "list", "map")),
        'CREATE TABLE kinds__value AS SELECT key, value + 5 AS value FROM "kinds__old-value"',
        "CREATE TABLE kinds__list WITH (kind = 'LIST') AS SELECT key, value * 2 AS value, list_index FROM \"kinds__old-list\"",
        "CREATE TABLE kinds__map WITH (kind = 'MAP') AS SELECT key, map_key, value || '!' AS value "
        'FROM "kinds__old-map" WHERE value IS NOT NULL',
        "CREATE TABLE kinds__reducing WITH (kind = 'REDUCING') AS SELECT key, value * 3 AS value FROM \"kinds__old-reducing\"",
        "CREATE TABLE kinds__aggregating WITH (kind = 'AGGREGATING', value_type = 'Tuple2<Long, Integer>') "
        'AS SELECT key, value FROM "kinds__old-aggregating"',
        'CREATE TABLE "kinds__ttl-value" WITH (ttl = true) AS SELECT key, value FROM "kinds__old-value"',
        "CREATE TABLE \"kinds__ttl-list\" WITH (kind = 'LIST', ttl = true) "
        'AS SELECT key, value FROM "kinds__old-list" WHERE list_index = 0',
        "CREATE TABLE \"kinds__ttl-map\" WITH (kind = 'MAP', ttl = true) AS SELECT key, 'm' AS map_key, value FROM \"kinds__old-value\"",
        undeclared=tuple(f"old-{name}" for name in renamed),
    )
    yield _of_kinds(
        "create-of-operators",
        CREATE,
        "list, union and broadcast states in operators that are there",
        "ALTER TABLE \"events__last-numbers\" RENAME TO 'old'; DROP TABLE events__readers; DROP TABLE broadcast__rules",
        "CREATE TABLE \"events__last-numbers\" WITH (kind = 'OPERATOR_LIST', value_type = 'Tuple2<String, Long>') "
        "AS SELECT {'f0': value.f0, 'f1': value.f1 + 1} AS value FROM events__old",
        "CREATE TABLE events__readers (value VARCHAR) WITH (kind = 'UNION_LIST') AS VALUES ('one'), ('two'), ('three')",
        "CREATE TABLE broadcast__rules WITH (kind = 'BROADCAST', value_type = 'Tuple2<Integer, String>') "
        "AS SELECT 'k' || i AS map_key, {'a': i::INTEGER, 'b': 'made up'} AS value FROM range(3) t(i)",
        restoring=("--fire",),
        undeclared=("old",),
    )
    yield _of_kinds(
        "create-operator",
        CREATE,
        "new operators, with timers and a window",
        "CREATE TABLE kinds__value WITH (operator_uid = 'kinds', parallelism = 2) AS SELECT key, value FROM aggregate__count",
        "CREATE TABLE kinds__events WITH (kind = 'TIMER', state = '_timer_state/event_user-timers', operator_uid = 'kinds', "
        "parallelism = 2) "
        "AS SELECT key, TIMESTAMP '2001-09-09 01:46:40.007' AS \"timestamp\" FROM aggregate__count WHERE key LIKE 'key_1_'",
        "CREATE TABLE windows__contents WITH (kind = 'AGGREGATING', value_type = 'Tuple2<Long, Integer>', "
        "operator_uid = 'tumbling-window', state = 'window-contents', namespace_type = 'TimeWindow', parallelism = 2) "
        f"AS SELECT 'k1' AS key, {_SECOND} AS namespace, {{'total': 90, 'n': 2}} AS value",
        "CREATE TABLE windows__timers WITH (kind = 'TIMER', state = '_timer_state/event_window-timers', operator_uid = 'tumbling-window', "
        "namespace_type = 'TimeWindow', parallelism = 2) "
        f"AS SELECT 'k1' AS key, {_SECOND} AS namespace, {_ITS_END} AS \"timestamp\"",
        source="wordcount-{backend}-savepoints/native",
        restoring=("--fire",),
    )


def _of_kafka(name: str, statement: str, of: str, script: str, *told: str) -> Proof:
    return Proof(
        name=name,
        statement=statement,
        of=of,
        source="source-kafka-hashmap-canonical",
        job="kafka",
        told=_told("aggregate", *told),
        restoring=(_OTHERS, "--emit", "2"),
        script=script,
        written_by="1.20.3",
    )


def _of_offsets() -> Iterator[Proof]:
    rewind = "UPDATE source_offsets SET starting_offset = starting_offset - 5"
    yield _of_words(
        "offsets", OFFSETS, "a source with offsets in a list state", f'{rewind} WHERE "partition" = 2'
    )
    yield _of_kafka("offsets-kafka", OFFSETS, "KafkaSource", rewind, "kafka-source")
    numbers = {"written_by": "1.20.3", "restoring": (_OTHERS, "--emit", "2")}
    yield Proof(
        name="offsets-numbers",
        statement=OFFSETS,
        of="NumberSequenceSource, DataGeneratorSource",
        source="source-numberseq-canonical",
        job="numbers",
        told=_told("numseq"),
        script=rewind,
        **numbers,  # type: ignore[arg-type]  # a dict has one type of values
    )
    yield _of_kafka(
        "rewind-call",
        REWIND,
        "KafkaSource",
        "CALL rewind_kafka('kafka-source', 'words-1.20.3-hashmap', MAP {0: 5, 1: 20})",
        "kafka-source",
    )


PROOFS = (
    *_updates(),
    *_deletes(),
    *_inserts(),
    *_conditional(),
    *_of_operators(),
    *_of_states(),
    *_of_columns(),
    *_creates(),
    *_of_offsets(),
)
"""Each with each version and backend."""
