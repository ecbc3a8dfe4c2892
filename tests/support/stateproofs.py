"""The scripts that change operators, states, types and offsets, each to be restored by real Flink."""

from __future__ import annotations

from collections.abc import Iterator

from readers import operator_id_of
from tests.support.proofs import Proof
from tests.support.statements import (
    ADD_COLUMN,
    CREATE,
    DROP_COLUMN,
    DROP_OPERATOR,
    DROP_STATE,
    END_OF_SECOND_WINDOW,
    MOD7,
    OFFSETS,
    OTHERS,
    RENAME_COLUMN,
    RENAME_OPERATOR,
    RENAME_STATE,
    RESHARD,
    RETYPE,
    REWIND,
    SECOND_WINDOW,
    TRUNCATE,
    TTL,
    UPDATE,
    of_kafka,
    of_kinds,
    of_types,
    of_words,
    told_by,
)

_ADDRESS = "Pojo(savepointdb.restore.SampleTypes$Address: street String, number Int)"
_PERSON = (
    f"Pojo(savepointdb.restore.SampleTypes$Person: name String, age Int, score Long, address {_ADDRESS})"
)


def _of_operators() -> Iterator[Proof]:
    yield of_words("drop-operator", DROP_OPERATOR, "an operator with keyed state", "DROP TABLE aggregate")
    yield of_kafka(
        "drop-source", DROP_OPERATOR, "both halves of a FLIP-27 source", 'DROP TABLE "kafka-source"'
    )
    yield of_words(
        "rename-operator",
        RENAME_OPERATOR,
        "an operator with a uid, and one without",
        f"ALTER TABLE aggregate RENAME TO 'counts'; ALTER TABLE \"{MOD7}\" RENAME TO 'sevens'",
        restoring=("--conf", "uids=counts,sevens"),
        told={
            **told_by("source"),
            operator_id_of("counts"): "aggregate",
            operator_id_of("sevens"): "mod7-no-uid",
        },
    )
    yield of_words(
        "reshard",
        RESHARD,
        "128 key groups in 2 subtasks → 1,000 in 3, restored in 2",
        *(
            f'ALTER TABLE "{name}" SET (max_parallelism = 1000, parallelism = 3)'
            for name in ("source", "aggregate", MOD7)
        ),
        restoring=("--max-parallelism", "1000"),
    )
    yield of_kinds(
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
    yield of_kinds(
        "drop-keyed",
        DROP_STATE,
        "all kinds of keyed state but one",
        *(f"DROP TABLE {name}" for name in keyed if name != "kinds__list"),
    )
    operators = ('"events__last-numbers"', "events__readers", "broadcast__rules")
    yield of_kinds(
        "drop-of-operators",
        DROP_STATE,
        "list, union, broadcast",
        *(f"DROP TABLE {name}" for name in operators),
        restoring=("--fire",),
    )
    yield of_kinds(
        "truncate-keyed",
        TRUNCATE,
        "all kinds of keyed state but one",
        *(f"TRUNCATE {name}" for name in keyed if name != "kinds__list"),
    )
    yield of_kinds(
        "truncate-of-operators",
        TRUNCATE,
        "list, union, broadcast",
        *(f"TRUNCATE {name}" for name in operators),
        restoring=("--fire",),
    )
    yield of_words(
        "rename-state",
        RENAME_STATE,
        "keyed state, and state of an operator",
        "ALTER TABLE aggregate__count RENAME TO words",
        'ALTER TABLE "source__topic-partition-offset-states" RENAME TO positions',
        restoring=("--conf", "states=words,positions"),
    )
    expiring = "value,list,map,reducing,aggregating"
    yield of_kinds(
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
        f"ALTER TABLE types__m_pojo ADD COLUMN value.address '{_ADDRESS}'",
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
        yield of_types(name, statement, of, *chosen)
    yield of_types(
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
    yield of_types(
        "tuple-to-pojo",
        RETYPE,
        "a Tuple → a POJO, whose fields then get their names",
        "DROP TABLE types__v_pojo; ALTER TABLE types__v_tuple RENAME TO v_pojo",
        "ALTER TABLE types__v_pojo ALTER COLUMN value TYPE 'Pojo(savepointdb.restore.SampleTypes$Person: f0 String, f1 Long)'",
        "ALTER TABLE types__v_pojo RENAME COLUMN value.f0 TO name; ALTER TABLE types__v_pojo RENAME COLUMN value.f1 TO score",
        "ALTER TABLE types__v_pojo ADD COLUMN value.age INT DEFAULT 7",
        f"ALTER TABLE types__v_pojo ADD COLUMN value.address '{_ADDRESS}' DEFAULT NULL",
    )
    yield of_types(
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
    yield of_kinds(
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
    yield of_kinds(
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
    yield of_kinds(
        "create-operator",
        CREATE,
        "new operators, with timers and a window",
        "CREATE TABLE kinds__value WITH (operator_uid = 'kinds', parallelism = 2) AS SELECT key, value FROM aggregate__count",
        "CREATE TABLE kinds__events WITH (kind = 'TIMER', state = '_timer_state/event_user-timers', operator_uid = 'kinds', "
        "parallelism = 2) "
        "AS SELECT key, TIMESTAMP '2001-09-09 01:46:40.007' AS \"timestamp\" FROM aggregate__count WHERE key LIKE 'key_1_'",
        "CREATE TABLE windows__contents WITH (kind = 'AGGREGATING', value_type = 'Tuple2<Long, Integer>', "
        "operator_uid = 'tumbling-window', state = 'window-contents', namespace_type = 'TimeWindow', parallelism = 2) "
        f"AS SELECT 'k1' AS key, {SECOND_WINDOW} AS namespace, {{'total': 90, 'n': 2}} AS value",
        "CREATE TABLE windows__timers WITH (kind = 'TIMER', state = '_timer_state/event_window-timers', operator_uid = 'tumbling-window', "
        "namespace_type = 'TimeWindow', parallelism = 2) "
        f"AS SELECT 'k1' AS key, {SECOND_WINDOW} AS namespace, {END_OF_SECOND_WINDOW} AS \"timestamp\"",
        source="wordcount-{backend}-savepoints/native",
        restoring=("--fire",),
    )


def _of_offsets() -> Iterator[Proof]:
    rewind = "UPDATE source_offsets SET starting_offset = starting_offset - 5"
    yield of_words(
        "offsets", OFFSETS, "a source with offsets in a list state", f'{rewind} WHERE "partition" = 2'
    )
    yield of_kafka("offsets-kafka", OFFSETS, "KafkaSource", rewind, "kafka-source")
    numbers = {"written_by": "1.20.3", "restoring": (OTHERS, "--emit", "2")}
    yield Proof(
        name="offsets-numbers",
        statement=OFFSETS,
        of="NumberSequenceSource, DataGeneratorSource",
        source="source-numberseq-canonical",
        job="numbers",
        told=told_by("numseq"),
        script=rewind,
        **numbers,  # type: ignore[arg-type]  # a dict has one type of values
    )
    yield Proof(
        name="offsets-files",
        statement=UPDATE,
        of="the position of a FileSource",
        source="source-files-canonical",
        job="files",
        told=told_by("files"),
        script="UPDATE \"files__SourceReaderState\" SET value.records_after_offset = 3 WHERE value.path LIKE '%/a'",
        fields=("path", "records_after_offset"),
        **numbers,  # type: ignore[arg-type]  # a dict has one type of values
    )
    yield of_kafka(
        "rewind-call",
        REWIND,
        "KafkaSource",
        "CALL rewind_kafka('kafka-source', 'words-1.20.3-hashmap', MAP {0: 5, 1: 20})",
        "kafka-source",
    )


STATE_PROOFS = (
    *_of_operators(),
    *_of_states(),
    *_of_columns(),
    *_creates(),
    *_of_offsets(),
)
