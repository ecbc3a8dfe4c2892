"""The scripts that change, remove and add rows, each to be restored by real Flink."""

from __future__ import annotations

from collections.abc import Iterator

from readers import operator_id_of
from tests.support.proofs import Proof
from tests.support.statements import (
    DELETE,
    DELETE_KEY,
    END_OF_SECOND_WINDOW,
    FIRST_WINDOW,
    INSERT,
    MERGE,
    ON_CONFLICT,
    RENAME_KEY,
    RESHARD,
    SECOND_WINDOW,
    UPDATE,
    of_kinds,
    of_queries,
    of_types,
    of_windows,
    of_words,
)

_EVENTS = "timer_service = 'user-timers' AND time_domain = 'EVENT'"
_OF_WINDOWS = "timer_service = 'window-timers'"
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
    yield of_kinds(
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
    yield of_kinds(
        "update-ttl",
        UPDATE,
        "value, list and map with TTL",
        "UPDATE \"kinds__ttl-value\" SET value = 70, ttl_timestamp = TIMESTAMP '2026-01-02 03:04:05' WHERE key = 'k1'",
        'UPDATE "kinds__ttl-list" SET value = value + 50 WHERE list_index = 2',
        "UPDATE \"kinds__ttl-map\" SET key = 'moved', value = 5 WHERE key = 'k0'",
    )
    yield of_kinds(
        "update-windows",
        UPDATE,
        "timers and the contents of windows",
        f"UPDATE timers SET timestamp = timestamp + INTERVAL 1 SECOND WHERE {_EVENTS} AND key = 'k1'",
        f"UPDATE timers SET key = 'moved' WHERE {_EVENTS} AND key = 'k2'",
        f"UPDATE \"tumbling-window__window-contents\" SET value.f0 = 90 WHERE key = 'k1' AND namespace = {FIRST_WINDOW}",
        restoring=("--fire",),
    )
    yield of_kinds(
        "rows-of-operators",
        UPDATE,
        "elements of list and union state, entries of broadcast state",
        'UPDATE "events__last-numbers" SET value.f1 = value.f1 + 100 WHERE list_index = 0',
        "UPDATE events__readers SET value = upper(value)",
        "UPDATE broadcast__rules SET map_key = 'k9', value.f1 = 'x' WHERE map_key = 'k3'",
        restoring=("--fire",),
    )
    yield of_types(
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
    yield of_queries(
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
    yield of_queries(
        "update-right-sides",
        UPDATE,
        f"UPDATE {_JOIN} SET f1 = 500 WHERE k0 = 'k1' AND f1 = 6",
        f"UPDATE {_LEFT_JOIN.replace('left', 'right')} SET f1 = 9 WHERE k0 = 'k1' AND f1 = 6",
        to="u",
    )


def _deletes() -> Iterator[Proof]:
    yield of_kinds(
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
    yield of_kinds(
        "delete-windows",
        DELETE,
        "timers; windows with their timers",
        f"DELETE FROM timers WHERE {_EVENTS} AND key IN ('k1', 'k4')",
        "DELETE FROM timers WHERE timer_service = 'window-timers' AND key = 'k2'",
        "DELETE FROM \"tumbling-window__window-contents\" WHERE key = 'k2'",
        restoring=("--fire",),
    )
    yield of_kinds(
        "delete-of-operators",
        DELETE,
        "elements of list and union state, entries of broadcast state",
        "DELETE FROM \"events__last-numbers\" WHERE value.f0 IN ('k0', 'k3')",
        "DELETE FROM events__readers WHERE value = 'reader-1'",
        "DELETE FROM broadcast__rules WHERE map_key > 'k3'",
        restoring=("--fire",),
    )
    yield of_queries(
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


def _keys() -> Iterator[Proof]:
    yield of_kinds(
        "delete-key",
        DELETE_KEY,
        "every kind of keyed state, with TTL and without; timers, windows",
        "DELETE KEY 'k1', 'k4' FROM kinds, \"tumbling-window\"",
        restoring=("--fire",),
    )
    yield of_kinds(
        "rename-key",
        RENAME_KEY,
        "every kind of keyed state, with TTL and without; timers, windows",
        "RENAME KEY 'k2' TO 'moved' FROM kinds, \"tumbling-window\"",
        "RENAME KEY 'k3' TO 'k0' FROM kinds ON CONFLICT DO REPLACE",
        restoring=("--fire",),
    )


def _inserts() -> Iterator[Proof]:
    yield of_kinds(
        "insert-keyed",
        INSERT,
        "value, list, map, reducing, aggregating, with TTL and without",
        "INSERT INTO kinds__value SELECT 'new' || i, i FROM range(20) t(i)",
        "INSERT INTO kinds__list (key, list_index, value) VALUES ('k3', 0, 77), ('k3', NULL, 78), ('new', NULL, 79)",
        "INSERT INTO kinds__map (key, map_key, value) VALUES ('k3', 'm', 'v'), ('new', 'm', NULL)",
        "DELETE FROM kinds__reducing WHERE key = 'k1'",
        "INSERT INTO kinds__reducing VALUES ('k1', 500), ('new', 7)",
        "INSERT INTO kinds__aggregating VALUES ('new', {'f0': 10, 'f1': 4})",
        "INSERT INTO \"kinds__ttl-value\" (key, value) VALUES ('new', 5)",
        "INSERT INTO \"kinds__ttl-list\" (key, value, ttl_timestamp) VALUES ('k0', 6, TIMESTAMP '2026-01-02 03:04:05'), ('new', 7, NULL)",
        "INSERT INTO \"kinds__ttl-map\" (key, map_key, value) SELECT 'new', map_key, value + 9 FROM \"kinds__ttl-map\" WHERE key = 'k0'",
    )
    columns = (
        "INSERT INTO timers (operator_uid, timer_service, time_domain, key, namespace, timestamp) VALUES"
    )
    yield of_kinds(
        "insert-windows",
        INSERT,
        "timers; windows with their timers",
        f"INSERT INTO \"tumbling-window__window-contents\" VALUES ('new', {SECOND_WINDOW}, {{'f0': 41, 'f1': 2}})",
        f"{columns} ('tumbling-window', 'window-timers', 'EVENT', 'new', {SECOND_WINDOW}, {END_OF_SECOND_WINDOW})",
        f"INSERT INTO timers SELECT * REPLACE ('new' AS key) FROM timers WHERE {_EVENTS} AND key = 'k2'",
        f"{columns} ('kinds', 'user-timers', 'PROCESSING', 'new', NULL, TIMESTAMP '2100-01-01 00:00:00')",
        restoring=("--fire",),
    )
    yield of_kinds(
        "insert-of-operators",
        INSERT,
        "elements of list and union state, entries of broadcast state",
        "INSERT INTO \"events__last-numbers\" (value, _subtask) VALUES ({'f0': 'new', 'f1': 5}, 1), ({'f0': 'more', 'f1': 6}, 0)",
        "INSERT INTO events__readers VALUES ('made up')",
        "INSERT INTO broadcast__rules (map_key, value) VALUES ('k9', {'f0': 1, 'f1': 'x'})",
        restoring=("--fire",),
    )
    yield of_types(
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
    yield of_queries(
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
    yield of_words(
        "insert-late",
        INSERT,
        "subtasks that have no keyed state yet",
        "INSERT INTO aggregate__count SELECT 'key_' || i, i FROM range(1, 100) t(i)",
        source="late-canonical",
    )


def _window(start: int, end: int) -> str:
    return (
        f"{{'start': TIMESTAMP '1970-01-01 00:00:{start:02}', 'end': TIMESTAMP '1970-01-01 00:00:{end:02}'}}"
    )


def _of_all_windows() -> Iterator[Proof]:
    contents = {name: f'"{name}__window-contents"' for name in ("sessions", "elements", "sliding", "counted")}
    yield of_windows(
        "update-all-windows",
        UPDATE,
        f"UPDATE {contents['sessions']} SET value.f1 = 100 WHERE key = 1",
        f"UPDATE {contents['elements']} SET value.f1 = 900 WHERE key.f1 = 3 AND list_index = 0",
        f"UPDATE {contents['sliding']} SET value.f1 = 500 WHERE key = 'k2' AND namespace = {_window(0, 20)}",
        f"UPDATE {contents['counted']} SET value.value.f1 = 700 WHERE key = 1 AND list_index = 0",
        "UPDATE counted__count SET value = 1 WHERE key = 2",
    )
    timer = "DELETE FROM timers WHERE timer_service = 'window-timers' AND operator_id"
    yield of_windows(
        "delete-all-windows",
        DELETE,
        f'DELETE FROM {contents["sessions"]} WHERE key = 2; DELETE FROM "sessions__merging-window-set" WHERE key = 2',
        f"{timer} = '{operator_id_of('sessions')}' AND key = '2'",
        f"DELETE FROM {contents['elements']} WHERE key.f1 = 1 AND list_index = 0",
        f"DELETE FROM {contents['counted']} WHERE key = 3; DELETE FROM counted__count WHERE key = 3",
    )
    columns = "INSERT INTO timers (operator_id, timer_service, time_domain, key, namespace, timestamp) VALUES"
    yield of_windows(
        "insert-all-windows",
        INSERT,
        f"INSERT INTO {contents['sessions']} VALUES (40, {_window(0, 5)}, {{'f0': 40, 'f1': 4}})",
        'INSERT INTO "sessions__merging-window-set" (key, value) '
        f"VALUES (40, {{'f0': {_window(0, 9)}, 'f1': {_window(0, 5)}}})",
        f"{columns} ('{operator_id_of('sessions')}', 'window-timers', 'EVENT', '40', "
        '\'{"start":"1970-01-01T00:00:00.000","end":"1970-01-01T00:00:09.000"}\', TIMESTAMP \'1970-01-01 00:00:08.999\')',
        f"INSERT INTO {contents['elements']} (key, namespace, value) VALUES "
        f"({{'f0': 'k', 'f1': 0}}, {_window(0, 10)}, {{'f0': 0, 'f1': 77}}), "
        f"({{'f0': 'k', 'f1': 50}}, {_window(0, 10)}, {{'f0': 5, 'f1': 5}})",
        f"{columns} ('{operator_id_of('elements')}', 'window-timers', 'EVENT', '{{\"f0\":\"k\",\"f1\":50}}', "
        '\'{"start":"1970-01-01T00:00:00.000","end":"1970-01-01T00:00:10.000"}\', TIMESTAMP \'1970-01-01 00:00:09.999\')',
        f"INSERT INTO {contents['counted']} (key, namespace, value) SELECT key, namespace, value FROM {contents['counted']} "
        "WHERE key = 1 AND list_index = 0",
        "UPDATE counted__count SET value = 3 WHERE key = 1",
    )
    yield of_windows(
        "reshard-all-windows",
        RESHARD,
        *(
            f"ALTER TABLE {name} SET (max_parallelism = 1000, parallelism = 3)"
            for name in ("numbers", *contents)
        ),
        restoring=("--max-parallelism", "1000"),
    )


def _conditional() -> Iterator[Proof]:
    yield of_kinds(
        "on-conflict",
        ON_CONFLICT,
        "value, map, with TTL, broadcast",
        "INSERT INTO kinds__value VALUES ('k3', 4), ('new', 5) "
        "ON CONFLICT (key) DO UPDATE SET value = kinds__value.value + excluded.value",
        "INSERT INTO kinds__map (key, map_key, value) VALUES ('k3', 'm0', 'ignored'), ('k3', 'new', 'v') ON CONFLICT DO NOTHING",
        "INSERT INTO \"kinds__ttl-value\" (key, value) VALUES ('k1', 40), ('new', 50) "
        "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        "INSERT INTO broadcast__rules (map_key, value) VALUES ('k0', {'f0': 8, 'f1': 'y'}), ('k9', {'f0': 9, 'f1': 'z'}) "
        "ON CONFLICT DO UPDATE SET value = excluded.value",
    )
    yield of_kinds(
        "merge",
        MERGE,
        "reducing, map, list state of operators",
        "MERGE INTO kinds__reducing t USING kinds__value s ON t.key = s.key WHEN MATCHED AND s.key = 'k0' THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET value = t.value + s.value",
        "MERGE INTO kinds__map t USING (VALUES ('k1', 'm0', 'a'), ('new', 'm0', 'b')) s(k, m, v) "
        "ON t.key = s.k AND t.map_key = s.m "
        "WHEN MATCHED THEN UPDATE SET value = s.v WHEN NOT MATCHED THEN INSERT (key, map_key, value) VALUES (s.k, s.m, s.v)",
        'MERGE INTO "events__last-numbers" t USING kinds__value s ON t.value.f0 = s.key '
        "WHEN MATCHED AND s.key = 'k1' THEN DELETE WHEN MATCHED THEN UPDATE SET value.f1 = s.value * 2",
        restoring=("--fire",),
    )


ROW_PROOFS = (
    *_updates(),
    *_deletes(),
    *_keys(),
    *_inserts(),
    *_of_all_windows(),
    *_conditional(),
)
