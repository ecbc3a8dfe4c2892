"""Savepoints, operators and serializers of Flink's own migration tests, 1.2 to 2.2; see `tests/data/versions`."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import lzma
import os
import random
import tarfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from readers.cursor import Cursor
from readers.errors import ReaderError
from readers.formats.heap import source as heapmaps
from readers.offsets import source_offsets
from readers.savepoint import Savepoint
from readers.schemas import SUBTASK
from readers.serializers.base import Serializer
from readers.serializers.kryo.settings import KRYO_2_24, KryoClass
from readers.serializers.primitives import LongSerializer
from readers.snapshots.reading import read_block, read_pairs, read_versioned
from readers.stateinfo.file import NOTHING, SavepointInfo
from readers.stateinfo.refinement import Knowledge
from readers.states import State
from tests.support.paths import DATA
from tests.support.single_values import decode, decode_columns, walker_of

VERSIONS = DATA / "versions"
EPOCH = datetime.datetime(1970, 1, 1)
MORE = "SAVEPOINTDB_MORE_SAVEPOINTS"


@cache
def packed(name: str) -> dict[str, bytes]:
    """Return the files of an archive by name."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress((VERSIONS / f"{name}.tar.xz").read_bytes()))) as tar:
        files = ((member.name, tar.extractfile(member)) for member in tar.getmembers())
        return {path: file.read() for path, file in files if file is not None}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the archives of savepoints."""
    root = tmp_path_factory.mktemp("versions")
    for name in ("savepoints", "operators", "sql"):
        for path, data in packed(name).items():
            (root / name / path).parent.mkdir(parents=True, exist_ok=True)
            (root / name / path).write_bytes(data)
    return root


def savepoints_of(archive: str, prefix: str = "") -> list[str]:
    """Return the folders of the savepoints in an archive."""
    names = (path.removesuffix("/_metadata") for path in packed(archive) if path.endswith("/_metadata"))
    return sorted(name for name in names if name.startswith(prefix))


def states_of(savepoint: Savepoint) -> Iterator[State]:
    for operator in savepoint.operators:
        yield from operator.states
    yield from savepoint.master_states


def rows_of(state: State, *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows of a state, sorted, as tuples of some columns."""
    found = (plain(row) for batch in state.read(columns or None) for row in batch.to_pylist())
    return sorted((tuple(row[name] for name in columns or row) for row in found), key=repr)


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: times as milliseconds, bytes as hexadecimal text."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else value


# ---- every savepoint ----


@pytest.mark.slow
@pytest.mark.parametrize("archive", ["savepoints", "operators", "sql"])
def test_every_state_of_every_version_reads_and_what_is_raw_says_why(archive: str, folder: Path) -> None:
    statuses: Counter[str] = Counter()
    for name in savepoints_of(archive):
        savepoint = Savepoint(folder / archive / name)
        for state in states_of(savepoint):
            statuses[state.status] += 1
            assert state.status == "decoded" or state.note, (name, state.name)
            for batch in state.read():
                batch.validate(full=True)
        savepoint.close()

    assert statuses == STATUSES[archive]


@pytest.mark.parametrize(("entries", "size_bytes"), [(1, 1 << 20), (2, 1 << 20), (1 << 15, 1), (3, 40)])
def test_namespaces_that_are_read_some_entries_at_a_time_have_all_rows(
    entries: int, size_bytes: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_rows() -> list[tuple[str, str, Any, int]]:
        opened = ((name, Savepoint(folder / "operators" / name)) for name in names)
        states = ((name, state) for name, savepoint in opened for state in states_of(savepoint))
        return [(name, state.name, rows_of(state), count_of(state)) for name, state in states]

    names = [name for name in savepoints_of("operators") if name.endswith("/1.2")]
    at_once = all_rows()
    monkeypatch.setattr(heapmaps, "CUT_ENTRIES", entries)
    monkeypatch.setattr(heapmaps, "WINDOW_BYTES", size_bytes)

    assert all_rows() == at_once
    assert sum(len(rows) for _, _, rows, _ in at_once) > 30


def count_of(state: State) -> int:
    """Return the number of rows, without comparing them."""
    return sum(batch.num_rows for batch in state.read([SUBTASK]))


STATUSES = {
    "savepoints": Counter(decoded=473, partial=6, raw=6),
    "operators": Counter(decoded=300, raw=57),
    "sql": Counter(decoded=398),
}


@pytest.mark.slow
@pytest.mark.skipif(MORE not in os.environ, reason=f"{MORE} names no folder")
def test_every_savepoint_of_a_folder_reads() -> None:
    found = sorted(path.parent for path in Path(os.environ[MORE]).rglob("_metadata"))

    assert found
    for path in found:
        savepoint = Savepoint(path)
        for state in states_of(savepoint):
            assert state.status == "decoded" or state.note, (path, state.name)
            for batch in state.read():
                batch.validate(full=True)
        savepoint.close()


# ---- what the migration tests assert ----

DRAGONS = [
    ("Here be dragons!",),
    ("Here be more dragons!",),
    ("Here be the mostest dragons!",),
    ("Here be yet more dragons!",),
]
KEYED = [({"f0": number}, None, number) for number in range(4)]
NAMESPACED = [({"f0": number}, number, number) for number in range(4)]
TIMERS = [({"f0": number}, number) for number in range(4)]


@pytest.mark.parametrize("name", savepoints_of("savepoints", "stateful-udf"))
def test_keyed_state_timers_and_sources_of_a_job(name: str, folder: Path) -> None:
    """Flink: StatefulJobSnapshotMigrationITCase (from 1.4 on)."""
    found: Counter[str] = Counter()
    for state in states_of(Savepoint(folder / "savepoints" / name)):
        found[state.name] += 1
        if state.name == "source-state":
            assert rows_of(state, "value") == DRAGONS
        elif state.name.startswith("_timer_state/"):
            assert rows_of(state, "key", "namespace") == TIMERS
        elif state.name == "state-name" and state.status == "partial":
            assert "a changelog without a base does not record how keys are serialized" in state.note
            keys = [f"{number:016x}" for number in range(4)]
            assert rows_of(state, "key", "namespace", "value") == [
                (key, None, number) for number, key in enumerate(keys)
            ]
        elif state.name == "state-name":
            namespaced = state.entry is not None and isinstance(state.entry.namespace, LongSerializer)
            assert rows_of(state, "key", "namespace", "value") == (NAMESPACED if namespaced else KEYED)

    in_flight = Counter({"result partition 0": 4} if name.endswith("1.17-rocksdb-checkpoint") else {})
    timers = Counter({"_timer_state/event_timer": 2, "_timer_state/processing_timer": 2})
    assert found == Counter({"source-state": 2, "state-name": 4}) + timers + in_flight


@pytest.mark.parametrize("name", savepoints_of("savepoints", "old-stateful-udf"))
def test_keyed_state_of_a_job_of_flink_1_2_to_1_4(name: str, folder: Path) -> None:
    """Flink: StatefulJobSavepointMigrationITCase."""
    states = [
        state for state in states_of(Savepoint(folder / "savepoints" / name)) if state.name == "state-name"
    ]
    rows = [rows_of(state, "key", "namespace", "value") for state in states]

    assert sorted(rows, key=repr) == [NAMESPACED, *[KEYED] * (len(rows) - 1)]
    assert len(rows) >= 4


@pytest.mark.parametrize("name", savepoints_of("savepoints", "broadcast-udf"))
def test_broadcast_state_of_a_job(name: str, folder: Path) -> None:
    """Flink: StatefulJobWBroadcastStateMigrationITCase."""
    rows = {
        state.name: rows_of(state, "map_key", "value")
        for state in states_of(Savepoint(folder / "savepoints" / name))
        if state.name.startswith("broadcast-state")
    }

    assert rows == {
        "broadcast-state-1": [(number, number) for number in range(4)],
        "broadcast-state-2": [(str(number), number) for number in range(4)],
        "broadcast-state-3": [(number, str(number)) for number in range(4)],
    }


@pytest.mark.parametrize("name", savepoints_of("savepoints", "nonKeyed"))
def test_operator_lists_of_a_chain(name: str, folder: Path) -> None:
    """Flink: AbstractNonKeyedOperatorRestoreTestBase. The head of a chain of 1.2 is not in it; the others have no ids."""
    savepoint = Savepoint(folder / "savepoints" / name)
    rows = {
        operator.operator_id: rows_of(state, "value")
        for operator in savepoint.operators
        for state in operator.states
    }

    assert sorted(rows.values()) == [
        [(f'"{place}{number}"',) for number in range(4)] for place in ("first", "second", "third")
    ]


@pytest.mark.parametrize("name", savepoints_of("savepoints", "complexKeyed"))
def test_keyed_state_in_a_chain(name: str, folder: Path) -> None:
    """Flink: AbstractKeyedOperatorRestoreTestBase."""
    (state,) = (
        state for state in states_of(Savepoint(folder / "savepoints" / name)) if state.name == "values"
    )

    assert rows_of(state, "key", "value") == [({"f0": number}, number) for number in range(10)]


@pytest.mark.parametrize("name", savepoints_of("savepoints", "scala-udf"))
def test_scala_types(name: str, folder: Path) -> None:
    """Flink: StatefulJobSavepointMigrationITCase.scala."""
    rows = {
        state.name: [value for _, value in rows_of(state, "key", "value")]
        for state in states_of(Savepoint(folder / "savepoints" / name))
        if state.name.endswith("State") and "key" in state.schema.names
    }
    failures = [json.loads(value["failure"]) for value in rows.pop("tryFailureState")]

    doubled = [{"_1": str(number), "_2": 2 * number} for number in range(4)]
    assert [failure["@class"] for failure in failures] == ["java.lang.RuntimeException"] * 4
    assert rows == {
        "caseClassState": doubled,
        "caseClassWithNestingState": [{"_1": number, "_2": doubled[number]} for number in range(4)],
        "collectionState": [[value] for value in doubled],
        "tryState": [
            {"success": {"_1": str(number), "_2": 5 * number}, "failure": None} for number in range(4)
        ],
        "optionState": doubled,
        "optionNoneState": [None] * 4,
        "eitherLeftState": [{"left": value, "right": None} for value in doubled],
        "eitherRightState": [{"left": None, "right": str(3 * number)} for number in range(4)],
        "enumOneState": ["THREE"] * 4,
        "enumThreeState": [],
    }


@pytest.mark.parametrize("name", savepoints_of("savepoints", "user-serializer"))
def test_a_serializer_of_the_user_is_named_and_its_values_are_bytes(name: str, folder: Path) -> None:
    """Flink: TypeSerializerSnapshotMigrationITCase. Its serializer writes a Long; a savepoint does not say so."""
    (state,) = (
        state for state in states_of(Savepoint(folder / "savepoints" / name)) if state.name == "testState"
    )
    rows = rows_of(state, "key", "value")

    assert state.status == "raw"
    assert "TypeSerializerSnapshotMigrationITCase$TestSerializer" in state.note
    values = [f"{number:016x}" for number in range(4)]
    if "rocksdb" in name:
        assert rows == [({"f0": number}, value) for number, value in enumerate(values)]
    else:
        ((key, entries),) = rows
        assert key is None
        assert entries == "".join(f"00{value}{value}" for value in values)


@pytest.mark.parametrize("name", savepoints_of("savepoints", "state-processor"))
def test_state_of_a_job_on_the_datagen_source(name: str, folder: Path) -> None:
    states = {state.name: state for state in states_of(Savepoint(folder / "savepoints" / name))}

    assert rows_of(states["KeyedPrimitiveValue"], "key", "value") == [(number, 1) for number in range(10)]
    assert rows_of(states["KeyedPrimitiveValueList"], "key", "value") == [(n, n) for n in range(10)]
    assert {row["split_id"] for (row,) in rows_of(states["SourceReaderState"], "value")} == {"1", "2"}


@pytest.mark.parametrize("name", savepoints_of("operators", "win-op-migration-test-reduce-event-time"))
def test_windows(name: str, folder: Path) -> None:
    """Flink: WindowOperatorMigrationTest. 1.2 lays a state out by its namespaces."""
    states = {state.name: state for state in states_of(Savepoint(folder / "operators" / name))}

    first, second = ({"start": start, "end": start + 3000} for start in (0, 3000))
    assert rows_of(states["window-contents"], "key", "namespace", "value") == [
        ("key1", first, {"f0": "key1", "f1": 3}),
        ("key2", first, {"f0": "key2", "f1": 3}),
        ("key2", second, {"f0": "key2", "f1": 2}),
    ]
    assert rows_of(states["_timer_state/event_window-timers"], "key", "namespace", "timestamp") == [
        ("key1", first, 2999),
        ("key2", first, 2999),
        ("key2", second, 5999),
    ]


@pytest.mark.parametrize(
    "name", savepoints_of("operators", "win-op-migration-test-session-with-stateful-trigger/")
)
def test_session_windows_with_several_states(name: str, folder: Path) -> None:
    """Flink: WindowOperatorMigrationTest."""
    states = {state.name: state for state in states_of(Savepoint(folder / "operators" / name))}

    windows = [{"start": 10, "end": 4000}, {"start": 0, "end": 6500}]
    assert rows_of(states["count"], "key", "namespace", "value") == [("key1", windows[0], 2)]
    assert rows_of(states["window-contents"], "key", "namespace", "list_index", "value") == [
        ("key1", {"start": 10, "end": 3010}, index, {"f0": "key1", "f1": index + 1}) for index in range(2)
    ]
    merged = rows_of(states["merging-window-set"], "key", "namespace", "value")
    assert [(key, value["f0"]) for key, _, value in merged] == [("key1", windows[0]), ("key2", windows[1])]


@pytest.mark.parametrize("name", savepoints_of("operators", "win-op-migration-test-kryo-serialized-key"))
def test_keys_of_a_class_that_only_the_user_knows(name: str, folder: Path) -> None:
    """The state is bytes; with the fields of its class in `stateInfo` it is rows."""
    described = SavepointInfo(
        operators={}, classes={_NON_POJO: KryoClass(fields=(("data", "java.lang.String"),))}
    )
    for info, status in ((NOTHING, "raw"), (described, "decoded")):
        savepoint = Savepoint(folder / "operators" / name, state_info=info)
        (state,) = (state for state in states_of(savepoint) if state.name == "window-contents")

        assert state.status == status
        if info is NOTHING:
            assert len(rows_of(state, "key")) == 1
            assert _NON_POJO in state.note
        else:
            rows = rows_of(state, "key", "namespace", "value")
            assert [
                (json.loads(key)["data"], namespace["start"], value["f1"]) for key, namespace, value in rows
            ] == [
                ("key1", 0, 3),
                ("key2", 0, 3),
                ("key2", 3000, 2),
            ]


_NON_POJO = "org.apache.flink.streaming.runtime.operators.windowing.NonPojoType"


@pytest.mark.parametrize("name", savepoints_of("operators", "cep-migration-after-branching"))
def test_patterns(name: str, folder: Path) -> None:
    """Flink: CEPMigrationTest#testRestoreAfterBranchingPattern. Up to 1.5 one value holds the automaton of a key."""
    event = (("id", "int"), ("name", "java.lang.String"), ("price", "double"))
    info = SavepointInfo(
        operators={},
        classes={
            "org.apache.flink.cep.Event": KryoClass(fields=event),
            "org.apache.flink.cep.SubEvent": KryoClass(fields=(*event, ("volume", "double"))),
        },
    )
    states = {
        state.name: state for state in states_of(Savepoint(folder / "operators" / name, state_info=info))
    }

    assert {state.status for state in states.values()} == {"decoded"}
    if "sharedBuffer-events" in states:
        events = [value["element"] for (value,) in rows_of(states["sharedBuffer-events"], "value")]
    else:
        ((automaton,),) = rows_of(states["nfaOperatorStateName"], "value")
        pages = {page["name"]: page["entries"] for page in automaton["buffer"]["pages"]}
        events = [entry["event"] for entries in pages.values() for entry in entries]
        assert sorted(pages) == ["middle", "start"]
        assert automaton["window_time"] == 10
        assert [part["type"] for part in json.loads(automaton["states"])["states"]].count("Start") == 1
    assert sorted(
        (found["name"], found["price"], found.get("volume")) for found in map(json.loads, events)
    ) == [
        ("foo1", 1.0, 10.0),
        ("foo2", 2.0, 10.0),
        ("start", 1.0, None),
    ]


@pytest.mark.parametrize("name", savepoints_of("operators", "kafka-consumer-migration-test/"))
def test_where_a_kafka_consumer_stands(name: str, folder: Path) -> None:
    """Flink: FlinkKafkaConsumerBaseMigrationTest. Until 1.3 Java objects, then Kryo's."""
    offsets = source_offsets(Savepoint(folder / "operators" / name)).to_pylist()

    assert [
        (row["connector"], row["topic"], row["partition"], row["starting_offset"]) for row in offsets
    ] == [
        ("kafka", "abc", 13, 16768),
        ("kafka", "def", 7, 987654321),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "win-op-migration-test-session-with-stateful-trigger/1.2",
        "win-op-migration-test-kryo-serialized-key/1.2",
        "win-op-migration-test-kryo-serialized-key/1.5",
        "cep-migration-after-branching/1.3",
        "kafka-consumer-migration-test/1.2",
    ],
)
def test_broken_files_end_in_rows_or_a_typed_error(name: str, tmp_path: Path) -> None:
    chance = random.Random(name)
    for data in _changes(packed("operators")[f"{name}/_metadata"], chance):
        (tmp_path / "_metadata").write_bytes(data)
        try:
            for state in states_of(Savepoint(tmp_path)):
                with contextlib.suppress(ReaderError):
                    for batch in state.read():
                        batch.validate(full=True)
        except ReaderError:
            continue


# ---- serializers ----


def serializer_of(family: str, version: str) -> Serializer:
    """Return the serializer whose snapshot one version of Flink wrote; 1.6 wrote it in pairs."""
    data = packed("serializers")[f"{family}/{version}/snapshot"]
    errors = []
    for read in (read_block, _first_pair, read_versioned):
        cursor = Cursor(data)
        try:
            serializer = read(cursor)
        except ReaderError as error:
            errors.append(error)
            continue
        if cursor.remaining == 0:
            return Knowledge(kryo=KRYO_2_24).inform(serializer)
    raise errors[0]


def _first_pair(cursor: Cursor) -> Serializer:
    (serializer,) = read_pairs(cursor)
    return serializer


def values_of(family: str, version: str) -> list[Any]:
    """Return the values that it wrote, one behind the other."""
    serializer, data = serializer_of(family, version), packed("serializers")[f"{family}/{version}/data"]
    walker, buffer = walker_of(serializer), np.frombuffer(data + b"\xff", dtype=np.uint8)
    values: list[bytes] = []
    position = 0
    while position < len(data) or not values:
        _, ends = walker.measure(buffer, position, len(data), 1, family)
        values.append(data[position : int(ends[0, 0])])
        position = int(ends[0, 0])
    return decode(serializer, *values)


EXPECTED: dict[str, dict[str, list[tuple[Any, int]]]] = json.loads(
    (VERSIONS / "serializers.json").read_text()
)


@pytest.mark.parametrize("family", sorted(EXPECTED))
def test_values_of_every_version_of_a_serializer(family: str) -> None:
    for versions, runs in EXPECTED[family].items():
        expected = [value for value, times in runs for _ in range(times)]
        for version in versions.split():
            assert plain(values_of(family, version)) == expected, version


def test_every_serializer_that_is_not_of_a_user_has_its_values() -> None:
    families = {path.partition("/")[0] for path in packed("serializers")}

    assert families - set(EXPECTED) == set(USERS)


_TESTS = "org.apache.flink.api.java.typeutils.runtime."
_ANIMAL = f"{_TESTS}kryo.KryoPojosForMigrationTests$Animal: Kryo stores no field names"
_ITSELF = "its bytes are what the class itself writes"
USERS: dict[str, dict[str, str]] = {
    "copyable-value-serializer": {
        "1.6 1.7": f"{_TESTS}CopyableSerializerMigrationTest$SimpleCopyable: {_ITSELF}",
        "1.11": f"{_TESTS}CopyableSerializerUpgradeTest$SimpleCopyable: {_ITSELF}",
    },
    "value-serializer": {
        "1.6 1.7": f"{_TESTS}ValueSerializerMigrationTest$NameValue: {_ITSELF}",
        "1.11": f"{_TESTS}ValueSerializerUpgradeTest$NameValue: {_ITSELF}",
    },
    "kryo-type-serializer": {"1.6 1.7": _ANIMAL},
    "kryo-type-serializer-custom": {"1.6 1.7": _ANIMAL},
    "kryo-type-serializer-empty-config": {"1.6 1.7 1.11": _ANIMAL},
    "kryo-type-serializer-changed-registration-order": {"1.11": _ANIMAL},
    "kryo-custom-type-serializer-changed-registration-order": {"1.11": _ANIMAL},
}


@pytest.mark.parametrize("family", sorted(USERS))
def test_a_serializer_of_a_user_names_the_class(family: str) -> None:
    for versions, reason in USERS[family].items():
        for version in versions.split():
            problems = list(serializer_of(family, version).problems())

            assert [(problem.reason, problem.sized) for problem in problems] == [(reason, False)]


def test_a_lockable_of_flink_1_6_whose_snapshot_is_that_of_its_element() -> None:
    """It wrote the config snapshot of its element: the values would begin four bytes too early."""
    serializer = serializer_of("lockable-type-serializer", "1.6")

    assert serializer.type_name == "Lockable<String>"
    assert values_of("lockable-type-serializer", "1.6") == [{"references": 0, "element": "hello world"}] * 10


def _changes(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Yield truncated and changed bytes."""
    for _ in range(40):
        yield data[: chance.randrange(len(data))]
        changed = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(changed))] = chance.choice(
                [0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)]
            )
        yield bytes(changed)


@pytest.mark.parametrize(
    "family",
    [
        "scala-enum-serializer",
        "value-serializer",
        "copyable-value-serializer",
        "two-phase-commit-sink-state-serializer",
        "nfa-state-serializer",
        "lockable-type-serializer",
        "shared-buffer-node-serializer",
        "variant-serializer",
    ],
)
def test_broken_snapshots_and_values_end_in_a_value_or_a_typed_error(family: str) -> None:
    chance = random.Random(family)
    files = packed("serializers")
    versions = sorted({path.split("/")[1] for path in files if path.startswith(f"{family}/")})
    for version in versions:
        for data in _changes(files[f"{family}/{version}/snapshot"], chance):
            for read in (read_block, _first_pair, read_versioned):
                try:
                    assert isinstance(read(Cursor(data)), Serializer)
                except ReaderError:
                    continue
        serializer = serializer_of(family, version)
        for data in _changes(files[f"{family}/{version}/data"], chance):
            try:
                decode_columns(serializer, data, ends=False)
            except ReaderError:
                continue
