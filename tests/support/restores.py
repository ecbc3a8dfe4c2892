"""The scripts whose results real Flink has restored, over sources of each layout.

The table of docs/evidence/restored.md shows them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from tests.support.grafts import GRAFTS
from tests.support.restoring import RECORDED, VERSIONS, Restore

_BACKENDS = ("hashmap", "rocksdb")
_EACH = tuple(product(VERSIONS, _BACKENDS))
# Each version and each backend once, where one does not depend on the other.
_CROSSED = tuple(zip(VERSIONS, _BACKENDS, strict=True))


def matrix() -> list[str]:
    """The recorded restores as the table of docs/evidence/restored.md."""
    lines = [
        "| script | options | source | " + " | ".join(f"Flink {version}" for version in VERSIONS) + " |",
        "|" + "---|" * (3 + len(VERSIONS)),
    ]
    by_row: dict[tuple[str, str, str], dict[str, bool]] = {}
    for restore in RESTORES:
        options = " ".join(
            option
            for option in (*(restore.options if restore.script else ()), *restore.restoring)
            if "conf" not in option and "." not in option
        )
        source = f"{restore.backend}, {restore.kind}{_others(restore)}"
        script = restore.script or " ".join(("savepointdb", restore.command, *restore.options))
        row = by_row.setdefault((f"`{script}`", options, source), {})
        row[restore.version] = (RECORDED / f"{restore.id}.json").exists()
    for cells, found in by_row.items():
        marks = ["restored" if found.get(version) else "not tried" for version in VERSIONS]
        lines.append("| " + " | ".join((*cells, *marks)) + " |")
    return lines


def _others(restore: Restore) -> str:
    """The savepoints that the script names, in words."""
    words = dict.fromkeys(VERSIONS, "of the other Flink") | {restore.version: "of the same Flink"}
    named = (
        f"; {name}: {path.lstrip('-/')} {words[version]}"
        for name, origin in restore.others.items()
        for version in VERSIONS
        if (path := origin.removeprefix(version)) != origin
    )
    return "".join(named).replace("wordcount-", "").replace("-savepoints/", " ")


def _over(pairs: Iterable[tuple[str, str]], **facts: Any) -> Iterator[Restore]:
    """The same restore by each of these versions and backends."""
    for version, backend in pairs:
        yield Restore(version=version, backend=backend, **facts)


_REWIND = "UPDATE source_offsets SET starting_offset = 24000 WHERE topic = 'words' AND \"partition\" = 2"
_SOURCES = {
    "hashmap": ("wordcount-hashmap-savepoints/canonical", "wordcount-hashmap-savepoints/native"),
    "rocksdb": (
        "wordcount-rocksdb-savepoints/canonical",
        "wordcount-rocksdb-savepoints/native",
        "wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2",
    ),
}
_EDITS: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("rewind", _REWIND, (), ("--emit", "2")),
    ("drop", "DROP TABLE aggregate", (), ()),
    ("rename", "ALTER TABLE aggregate RENAME TO 'counts'", ("--files", "copy"), ("--allow-non-restored",)),
    (
        "back",
        "DROP TABLE source; ALTER TABLE aggregate RENAME TO 'source'; ALTER TABLE source RENAME TO 'aggregate'",
        (),
        (),
    ),
    ("reference", _REWIND, ("--files", "reference"), ("--parallelism", "3")),
)


def _all() -> Iterator[Restore]:
    for version in VERSIONS:
        for backend, sources in _SOURCES.items():
            for source in sources:
                for name, script, options, restoring in _EDITS:
                    kind = source.rpartition("/")[2]
                    yield Restore(
                        name=f"{name}-{kind}",
                        version=version,
                        backend=backend,
                        source=source,
                        script=script,
                        options=options,
                        restoring=restoring,
                    )


def _more() -> Iterator[Restore]:
    """Sources that the project's own job did not write: a KafkaSource, merged files, changelogs."""
    others = ("--allow-non-restored",)
    yield from _over(
        product(VERSIONS, ["hashmap"]),
        name="rewind-kafka",
        source="source-kafka-hashmap-canonical",
        script="UPDATE source_offsets SET starting_offset = starting_offset - 5",
        job="kafka",
        restoring=others,
    )
    log = (
        *("--conf", "state.changelog.enabled=true", "--conf", "state.changelog.storage=filesystem"),
        *("--conf", "dstl.dfs.base-path=file:///tmp/savepointdb-changelog"),
    )
    for backend, source, restoring in (
        ("rocksdb", "filemerging-rocksdb-chk-3", others),
        ("hashmap", "changelog-hashmap-materialized-chk-3", (*others, *log)),
        ("rocksdb", "changelog-rocksdb-materialized-chk-3", (*others, *log)),
    ):
        yield Restore(
            name=f"rewind-{source}",
            version="1.20.3",
            backend=backend,
            source=source,
            script=_REWIND,
            restoring=restoring,
            undeclared=("union-offset-states",),
        )


def _operator_state() -> Iterator[Restore]:
    """Offsets in compressed state, and a Kafka source that a call rewinds."""
    emitting = ("--allow-non-restored", "--emit", "2")
    yield from _over(
        _CROSSED,
        name="rewind-compressed",
        source="words-compressed-canonical",
        script="UPDATE source_offsets SET starting_offset = starting_offset - 1000",
        restoring=emitting,
        states=("topic-partition-offset-states",),
        written_by="1.20.3",
    )
    for version, backend in _CROSSED:
        yield Restore(
            name="rewind-call",
            version=version,
            backend=backend,
            source="source-kafka-hashmap-canonical",
            script=f"CALL rewind_kafka('kafka-source', 'words-{version}-hashmap', MAP {{0: 5, 1: 20}})",
            job="kafka",
            restoring=("--allow-non-restored",),
        )
    yield from _over(
        _CROSSED,
        name="rewind-numbers",
        source="source-numberseq-canonical",
        script="UPDATE source_offsets SET starting_offset = starting_offset - 5",
        job="numbers",
        restoring=emitting,
        written_by="1.20.3",
    )


_ELEMENTS = (
    'UPDATE "events__last-numbers" SET value.f1 = value.f1 + 100 WHERE list_index = 0; '
    "DELETE FROM \"events__last-numbers\" WHERE value.f0 = 'k3'; "
    "INSERT INTO \"events__last-numbers\" (value, _subtask) VALUES ({'f0': 'new', 'f1': 5}, 1); "
    "UPDATE events__readers SET value = upper(value); INSERT INTO events__readers VALUES ('made up')"
)
_OFFSETS = (
    'UPDATE "source__topic-partition-offset-states" SET value.f2 = 7 WHERE value.f1 = 2; '
    'DELETE FROM "source__topic-partition-offset-states" WHERE value.f1 = 3; '
    "INSERT INTO \"source__topic-partition-offset-states\" VALUES ({'f0': 'words', 'f1': 9, 'f2': 0})"
)
_ENTRIES = (
    "UPDATE broadcast__rules SET value.f0 = 9 WHERE map_key = 'k0'; DELETE FROM broadcast__rules WHERE map_key = 'k1'; "
    "INSERT INTO broadcast__rules (map_key, value) VALUES ('k9', {'f0': 1, 'f1': 'x'})"
)


def _rows_of_operator_state() -> Iterator[Restore]:
    """Elements of list and union states, entries of broadcast states, records of files."""
    others = ("--allow-non-restored", "--emit", "1")
    compressed = "kinds-compressed-canonical"
    for version in VERSIONS:
        for backend in ("hashmap", "rocksdb"):
            source = f"everything-{backend}-savepoints/canonical"
            sources = (
                (source, "", None),
                *([(compressed, "-compressed", "1.20.3")] if backend == "hashmap" else []),
            )
            for path, suffix, written_by in sources:
                for name, script, restoring, states in (
                    ("elements", _ELEMENTS, others, ("last-numbers", "readers")),
                    ("entries", _ENTRIES, (*others, "--parallelism", "3"), ("rules",)),
                ):
                    yield Restore(
                        name=name + suffix,
                        version=version,
                        backend=backend,
                        source=path,
                        script=script,
                        job="kinds",
                        restoring=restoring,
                        states=states,
                        written_by=written_by,
                    )
    for version, source in (
        ("1.20.3", "filemerging-rocksdb-chk-3"),
        ("2.3.0", "wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2"),
    ):
        yield Restore(
            name="elements-checkpoint",
            version=version,
            backend="rocksdb",
            source=source,
            script=_OFFSETS,
            restoring=others,
            states=("topic-partition-offset-states",),
        )
    yield from _over(
        _CROSSED,
        name="files",
        source="source-files-canonical",
        script="UPDATE \"files__SourceReaderState\" SET value.records_after_offset = 3 WHERE value.path LIKE '%/a'",
        job="files",
        restoring=("--allow-non-restored", "--emit", "2"),
        written_by="1.20.3",
        fields=("path", "records_after_offset"),
    )


_ROWS = (
    "UPDATE kinds__value SET value = value * 10 WHERE key IN ('k1', 'k3')",
    "INSERT INTO kinds__value VALUES ('k3', 4), ('new', 5) "
    "ON CONFLICT (key) DO UPDATE SET value = kinds__value.value + excluded.value",
    "MERGE INTO kinds__reducing t USING kinds__value s ON t.key = s.key WHEN MATCHED AND s.key = 'k0' THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET value = t.value + s.value WHEN NOT MATCHED THEN INSERT VALUES (s.key, s.value)",
    "UPDATE kinds__map SET map_key = concat('M', map_key), value = 'x' WHERE key = 'k1'",
    "UPDATE kinds__map SET key = 'other' WHERE key = 'k2'",
    "DELETE FROM kinds__list WHERE list_index = 0",
    "INSERT INTO kinds__list (key, value) SELECT key, value FROM kinds__value",
    "UPDATE kinds__aggregating SET value.f0 = 100 WHERE key = 'k1'",
    "UPDATE \"kinds__ttl-value\" SET value = 7 WHERE key = 'k1'",
    "DELETE FROM timers WHERE key = 'k1'",
    "UPDATE timers SET timestamp = timestamp + INTERVAL 1 SECOND WHERE time_domain = 'EVENT' AND timer_service = 'user-timers'",
    "UPDATE broadcast__rules SET value.f1 = 'x' WHERE map_key = 'k3'",
    'UPDATE "events__last-numbers" SET value.f1 = value.f1 + 1',
)


def _rows_of_states() -> Iterator[Restore]:
    """All kinds of statements that change rows, over all kinds of state: each sees what the earlier ones did."""
    for version in VERSIONS:
        for backend, kind in (("hashmap", "native"), ("rocksdb", "native"), ("hashmap", "canonical")):
            if (version, kind) == ("1.20.3", "canonical"):
                continue
            yield Restore(
                name=f"rows-{kind}",
                version=version,
                backend=backend,
                source=f"everything-{backend}-savepoints/{kind}",
                job="kinds",
                script="; ".join(_ROWS),
                restoring=("--allow-non-restored",),
            )


def _created() -> Iterator[Restore]:
    """States that operators get; the state of this name that they had is kept under another one."""
    for version in VERSIONS:
        for backend, source in (
            ("hashmap", "wordcount-hashmap-savepoints/canonical"),
            ("hashmap", "wordcount-hashmap-savepoints/native"),
            ("rocksdb", "wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2"),
        ):
            yield Restore(
                name=f"create-count-{source.rpartition('/')[2]}",
                version=version,
                backend=backend,
                source=source,
                script="ALTER TABLE aggregate__count RENAME TO 'before'; CREATE TABLE aggregate__count AS SELECT key, value + 1 AS value "
                "FROM aggregate__before; CREATE TABLE source__more WITH (kind = 'BROADCAST') AS SELECT 'a' AS map_key, 1 AS value",
                restoring=("--emit", "2"),
                undeclared=("before", "more"),
            )


_COUNT = "UPDATE aggregate__count SET value = value + 1000 WHERE key = 'key_662'"
# Only when all operators with keyed state are written anew, the other backend restores them.
_ALL_KEYED = f'{_COUNT}; UPDATE "058086c13c6c5a39fabcbe0b8a1b827d__seen" SET value = value + 1'


def _layouts() -> Iterator[Restore]:
    """One value of keyed state in every layout; all other entries come along, also to the other backend and to more subtasks."""
    more = ("--parallelism", "3")
    sources: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
        ("rocksdb", "wordcount-hashmap-savepoints/canonical", _COUNT, ()),
        ("hashmap", "wordcount-hashmap-savepoints/native", _COUNT, ()),
        ("rocksdb", "wordcount-hashmap-savepoints/native", _ALL_KEYED, more),
        ("rocksdb", "wordcount-rocksdb-savepoints/native", _COUNT, ()),
        ("hashmap", "wordcount-rocksdb-savepoints/native", _ALL_KEYED, more),
        ("rocksdb", "wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2", _COUNT, ()),
    )
    for version in VERSIONS:
        for backend, source, script, restoring in sources:
            yield Restore(
                name=f"count-{source.partition('/')[0].removeprefix('wordcount-')}-{source.rpartition('/')[2]}",
                version=version,
                backend=backend,
                source=source,
                script=script,
                restoring=restoring,
            )
    archives: tuple[tuple[str, str, tuple[str, ...]], ...] = (
        ("hashmap", "changelog-hashmap-materialized-chk-3", ()),
        ("rocksdb", "changelog-rocksdb-materialized-chk-3", more),
        ("rocksdb", "filemerging-rocksdb-chk-3", ()),
        ("hashmap", "wordcount-hashmap-maxpar1000-canonical", ("--max-parallelism", "1000", *more)),
    )
    for backend, source, restoring in archives:
        yield Restore(
            name=f"count-{source}",
            version="1.20.3",
            backend=backend,
            source=source,
            script=_COUNT,
            restoring=("--allow-non-restored", *restoring),
            undeclared=("union-offset-states",),
        )
    yield from _over(
        _CROSSED,
        name="values-compressed",
        source="kinds-compressed-canonical",
        script="UPDATE kinds__value SET value = value + 1000; UPDATE kinds__aggregating SET value.f0 = value.f0 + 1; "
        "DELETE FROM kinds__reducing WHERE key = 'k2'",
        job="kinds",
        restoring=("--allow-non-restored", *more),
        states=("value", "aggregating", "reducing", "map", "list"),
        written_by="1.20.3",
    )


_WINDOWS = "80874c5910ae85605cc0b18f46030a71"  # the window operator's id; 1.20 stores no uids
_NEW_WINDOW = "{'start': TIMESTAMP '1970-01-01 01:00:00', 'end': TIMESTAMP '1970-01-01 01:00:10'}"
_MADE_UP = (
    "DELETE FROM kinds__reducing WHERE key = 'k1'; INSERT INTO kinds__reducing VALUES ('k1', 500), ('new', 7)",
    "INSERT INTO kinds__aggregating VALUES ('new', {'f0': 10, 'f1': 4})",
    "DELETE FROM kinds__list WHERE key = 'k0' OR key = 'k1' AND list_index % 2 = 0",
    "INSERT INTO kinds__list (key, list_index, value) VALUES ('k3', 0, 77), ('k3', NULL, 78), ('new', NULL, 79), ('new', NULL, 80)",
    "INSERT INTO kinds__map (key, map_key, value) VALUES ('k3', 'm', 'v'), ('new', 'm', NULL)",
    "INSERT INTO \"kinds__ttl-value\" (key, value) VALUES ('new', 5)",
    "INSERT INTO \"kinds__ttl-list\" (key, value) VALUES ('k0', 6), ('new', 7)",
    "UPDATE \"kinds__ttl-list\" SET value = 99 WHERE key = 'k1'",
    "INSERT INTO \"kinds__ttl-map\" (key, map_key, value) VALUES ('new', 'a', 5)",
    f"INSERT INTO \"tumbling-window__window-contents\" VALUES ('new', {_NEW_WINDOW}, {{'f0': 41, 'f1': 2}})",
    f"INSERT INTO timers VALUES ('{_WINDOWS}', NULL, 'window-timers', 'EVENT', 'new', {_NEW_WINDOW}, TIMESTAMP '1970-01-01 01:00:09.999')",
    "INSERT INTO timers SELECT * REPLACE ('new' AS key) FROM timers WHERE key = 'k2' AND timer_service = 'user-timers'",
)
_SENT = (
    '{"phase": "output", "operator": "kinds", "key": "k1", "value": 4, "reducing": 504, "aggregating": 2.0}',
    '{"phase": "output", "operator": "kinds", "key": "k1", "value": 5, "reducing": 509, "aggregating": 2.5}',
    '{"phase": "output", "operator": "tumbling-window", "key": "new", "window": {"start": 3600000, "end": 3610000}, "value": 20.5}',
    '{"phase": "output", "operator": "kinds", "fired": 1000000000003, "key": "new"}',
)
_COMPARED = (
    *("v_long", "v_int", "v_double", "v_boolean", "v_string", "v_decimal", "v_list", "v_tuple", "v_enum"),
    *("l_string", "m_long"),
)
_SHOWN_OTHERWISE = ("v_pojo", "v_row", "v_rowdata", "v_map", "v_bytes", "v_instant", "v_datetime", "m_pojo")
# Values that the job prints in words of its own: each is found by its key.
_FOUND = (
    '{"operator": "types", "state": "m_pojo", "kind": "map", "subtask": 0, "key": "k1-2", "map_key": "m1", "value": '
    '{"name": "person 1", "age": 31, "score": 100, "address": {"street": "street 1", "number": 1}}}',
    '{"operator": "types", "state": "v_bytes", "kind": "value", "subtask": 0, "key": "k1-2", "value": {"$bytes": "010201"}}',
    '{"operator": "types", "state": "v_datetime", "kind": "value", "subtask": 0, "key": "k1-2", "value": "2024-02-29T12:34:56.789000001"}',
    '{"operator": "types", "state": "v_instant", "kind": "value", "subtask": 0, "key": "k1-2", "value": "2023-11-14T22:13:21.000000005Z"}',
    '{"operator": "types", "state": "v_map", "kind": "value", "subtask": 0, "key": "k1-2", "value": {"$map": [["a", 1]]}}',
    '{"operator": "types", "state": "v_pojo", "kind": "value", "subtask": 0, "key": "k1-2", "value": '
    '{"name": "person 1", "age": 31, "score": 100, "address": {"street": "street 1", "number": 1}}}',
    '{"operator": "types", "state": "v_row", "kind": "value", "subtask": 0, "key": "k1-2", "value": {"$row": "+I", "fields": ["r1", 1]}}',
    '{"operator": "types", "state": "v_rowdata", "kind": "value", "subtask": 0, "key": "k1-2", "value": [1, "a long name 1", 1.25]}',
)


def _copied(state: str) -> str:
    columns = "key, map_key, value" if state.startswith("m_") else "key, value"
    return f"INSERT INTO types__{state} ({columns}) SELECT key || '-2'{columns.removeprefix('key')} FROM types__{state}"


def _made_up() -> Iterator[Restore]:
    """Rows that no job has written: the job goes on from them, and windows and timers fire."""
    yield from _over(
        _EACH,
        name="made-up",
        source="kinds-hashmap-savepoints/canonical",
        job="kinds",
        script="; ".join(_MADE_UP),
        restoring=("--emit", "2", "--fire"),
        sends=_SENT,
    )
    yield from _over(
        _EACH,
        name="types",
        source="types-hashmap-savepoints/canonical",
        job="types",
        script="; ".join(map(_copied, (*_COMPARED, *_SHOWN_OTHERWISE))),
        states=_COMPARED,
        sends=_FOUND,
        restoring=("--parallelism", "3"),
    )


_TTL = (
    *("kinds__value", "kinds__ttl-value", "ttl-value"),
    *("kinds__list", "kinds__ttl-list", "ttl-list"),
)
_SWAPPED = "; ".join(
    f'ALTER TABLE {one} SET (ttl = true); ALTER TABLE "{other}" SET (ttl = false); ALTER TABLE {one} RENAME TO other; '
    f'ALTER TABLE "{other}" RENAME TO {one[7:]}; ALTER TABLE kinds__other RENAME TO "{name}"'
    for one, other, name in (_TTL[:3], _TTL[3:])
)
_RETYPED = (
    "DROP TABLE types__v_long; ALTER TABLE types__v_int RENAME TO v_long; "
    "ALTER TABLE types__v_long ALTER COLUMN value TYPE BIGINT; ALTER TABLE types__v_pojo DROP COLUMN value.score; "
    "ALTER TABLE types__v_pojo RENAME COLUMN value.age TO score; "
    "ALTER TABLE types__v_pojo ALTER COLUMN value.score TYPE BIGINT; "
    "ALTER TABLE types__v_pojo ADD COLUMN value.age INT DEFAULT 7; "
    "ALTER TABLE types__v_tuple DROP COLUMN value.f1; ALTER TABLE types__v_tuple ADD COLUMN value.f1 BIGINT DEFAULT 9; "
    "TRUNCATE types__m_long; DROP TABLE types__v_enum"
)


# The operator without uid, by its id: savepoints of 1.20 have no names.
_MOD7 = "058086c13c6c5a39fabcbe0b8a1b827d"


_WORDS = ("source", "aggregate")
_KINDS = ("kinds", "tumbling-window", "events", "broadcast")


def _dealt(shape: str, *names: str) -> str:
    return "; ".join(f'ALTER TABLE "{name}" SET ({shape})' for name in names)


def _altered() -> Iterator[Restore]:
    """States and operators that are altered."""
    counts = ("count", "seen", "topic-partition-offset-states")
    for version in VERSIONS:
        for backend, source in (("hashmap", "canonical"), ("rocksdb", "native")):
            parallelism = "3" if backend == "hashmap" else "2"
            yield Restore(
                name="reshard",
                version=version,
                backend=backend,
                source=f"wordcount-{backend}-savepoints/{source}",
                script=_dealt("max_parallelism = 1000, parallelism = 3", *_WORDS, _MOD7),
                restoring=("--max-parallelism", "1000", "--parallelism", parallelism),
                states=counts,
            )
            yield Restore(
                name="reshard-kinds",
                version=version,
                backend=backend,
                source=f"everything-{backend}-savepoints/{source}",
                script="DROP TABLE types; " + _dealt("max_parallelism = 1000", *_KINDS),
                job="kinds",
                restoring=("--allow-non-restored", "--max-parallelism", "1000", "--parallelism", "3"),
            )
            yield Restore(
                name="ttl",
                version=version,
                backend=backend,
                source=f"everything-{backend}-savepoints/{source}",
                script=_SWAPPED,
                job="kinds",
                restoring=("--allow-non-restored",),
                states=("value", "ttl-value", "list", "ttl-list", "reducing"),
            )
    yield from _over(
        _EACH,
        name="reshard-back",
        source="wordcount-hashmap-maxpar1000-canonical",
        script=_dealt("max_parallelism = 128", *_WORDS),
        restoring=("--allow-non-restored",),
        states=counts[::2],
        written_by="1.20.3",
    )
    yield from _over(
        _EACH,
        name="retype",
        source="types-canonical",
        script=_RETYPED,
        job="types",
        restoring=("--allow-non-restored",),
        states=("v_int", "v_long", "v_pojo", "v_tuple", "m_long", "m_pojo", "v_string"),
        written_by="1.20.3",
    )


_OF_FORST = (
    "UPDATE kinds__value SET value = value * 10 WHERE key = 'k1'; INSERT INTO kinds__value VALUES ('new', 5)",
    "UPDATE kinds__list SET value = value + 100 WHERE list_index = 1; DELETE FROM kinds__map WHERE map_key = 'm0'",
    "UPDATE kinds__reducing SET value = 1000 WHERE key = 'k2'; UPDATE \"kinds__ttl-value\" SET value = 7 WHERE key = 'k1'",
    "UPDATE \"tumbling-window__window-contents\" SET value.f0 = 90 WHERE key = 'k1'",
    "DELETE FROM timers WHERE key = 'k3' AND timer_service = 'user-timers'",
)


def _of_forst() -> Iterator[Restore]:
    """Keyed state that ForSt wrote, for the other backends; ForSt restores what leaves its keyed state alone."""
    yield from _over(
        product(["2.3.0"], _BACKENDS),
        name="forst",
        source="forst-kinds-native",
        job="kinds",
        script="; ".join(_OF_FORST),
        restoring=("--emit", "1", "--fire"),
    )
    yield Restore(
        name="forst-offsets",
        version="2.3.0",
        backend="forst",
        source="forst-chk-4",
        script='UPDATE "source__topic-partition-offset-states" SET value.f2 = 7 WHERE value.f1 = 2',
        restoring=("--allow-non-restored", "--emit", "2", "--parallelism", "3"),
        undeclared=("union-offset-states",),
    )


def _of_heap_timers() -> Iterator[Restore]:
    """RocksDB's states with timers on the heap, which are raw keyed state and come along: to timers of either kind."""
    yield from _over(
        _EACH,
        name="heap-timers",
        source="heaptimers-chk-2",
        job="kinds",
        script="UPDATE kinds__value SET value = value + 1000; INSERT INTO kinds__value VALUES ('new', 5); "
        "UPDATE \"tumbling-window__window-contents\" SET value.f0 = 90 WHERE key = 'k1'",
        restoring=("--emit", "1", "--fire"),
        sends=(
            '{"phase": "output", "operator": "kinds", "fired": 1000000000003, "key": "k5"}',
            '{"phase": "output", "operator": "tumbling-window", "key": "k1", "window": {"start": 0, "end": 10000}, "value": 30.0}',
        ),
    )


def _samples() -> Iterator[Restore]:
    """Some of the keys of every kind of state, from each layout: with masks, without, and without those that are forgotten."""
    everything: dict[str, Any] = {
        "job": "kinds",
        "command": "sample",
        "script": "",
        "restoring": ("--allow-non-restored",),
    }
    # Flink 1.20 records no uids: tables are called by the ids of their operators.
    masks = dict(zip(VERSIONS, ("kinds-ids.toml", "kinds.toml"), strict=True))
    for version, backend, kind in product(VERSIONS, _BACKENDS, ("canonical", "native")):
        yield Restore(
            name=f"sample-{kind}",
            version=version,
            backend=backend,
            source=f"everything-{backend}-savepoints/{kind}",
            options=("--fraction", "0.6", "--parallelism", "1"),
            **everything,
        )
        yield Restore(
            name=f"sample-masked-{kind}",
            version=version,
            backend=backend,
            source=f"everything-{backend}-savepoints/{kind}",
            options=("--fraction", "0.8", "--mask", f"tests/data/masks/{masks[version]}"),
            **everything,
        )
        yield Restore(
            name=f"forget-{kind}",
            version=version,
            backend=backend,
            source=f"everything-{backend}-savepoints/{kind}",
            options=("--keys", "tests/data/masks/ids.csv"),
            **everything | {"command": "forget"},
        )
    inside = "tests/data/masks/inside"
    yield from _over(
        _EACH,
        name="forget-inside",
        source="types-hashmap-savepoints/canonical",
        job="types",
        command="forget",
        script="",
        options=("--keys", f"{inside}.csv", "--group", "customer", "--masks", f"{inside}.toml"),
        states=_COMPARED,
        sends=(
            '{"operator": "types", "state": "v_map", "kind": "value", "subtask": 0, "key": "k1", "value": {"$map": []}}',
        ),
    )
    for version, parallelism in product(VERSIONS, ("1", "2")):
        yield Restore(
            name=f"sample-raw-{parallelism}",
            version=version,
            backend="rocksdb",
            source="heaptimers-chk-2",
            job="kinds",
            command="sample",
            script="",
            options=("--fraction", "0.6", "--parallelism", parallelism),
        )


RESTORES = (
    *_all(),
    *_more(),
    *_operator_state(),
    *_rows_of_operator_state(),
    *_rows_of_states(),
    *_created(),
    *_layouts(),
    *_made_up(),
    *_altered(),
    *_of_forst(),
    *_of_heap_timers(),
    *GRAFTS,
    *_samples(),
)
