"""The x-ray tables: as many entries, keys and bytes as the rows of the states have, whatever the format."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Catalog, Database, Root, connect
from readers import Selection, State, is_keyed, json_text
from tests.support.checkpoints import put
from tests.support.paths import DATA
from tests.support.unpacked import unpacked
from tools.synthetic.rocksdb import write_native_savepoint

VALUE_BYTES = 9  # a null flag and a long
FLINK = DATA / "flink" / "2.3.0"
WORDCOUNT = FLINK / "wordcount-hashmap-savepoints" / "canonical"
INCREMENTAL = FLINK / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
FOLDERS = [
    WORDCOUNT,
    FLINK / "wordcount-rocksdb-savepoints" / "native",
    FLINK / "everything-hashmap-savepoints" / "native",
    *(
        pytest.param(path, marks=pytest.mark.slow)
        for path in (
            FLINK / "wordcount-hashmap-savepoints" / "native",
            next(INCREMENTAL.rglob("_metadata")).parent,
            FLINK / "everything-rocksdb-savepoints" / "canonical",
            FLINK / "everything-rocksdb-savepoints" / "native",
            FLINK / "everything-hashmap-savepoints" / "canonical",
        )
    ),
]
ARCHIVES = [
    "1.20.3-changelog-rocksdb-materialized-chk-3",
    "1.20.3-heaptimers-chk-2",
    "1.20.3-filemerging-rocksdb-chk-3",
    "1.20.3-kinds-compressed-canonical",
    "2.3.0-forst-kinds-native",
    "1.20.3-unaligned-hashmap-chk-1",
    "1.20.3-wordcount-hashmap-maxpar1000-canonical",
]


def opened(path: Path) -> Database:
    database = connect(path).default
    assert database is not None
    return database


@pytest.fixture(params=FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def database(request: pytest.FixtureRequest) -> Database:
    return opened(request.param)


@pytest.fixture(params=ARCHIVES)
def packed(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return opened(unpacked(request.param, tmp_path).directory)


def rows(database: Database, table: str, **values: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = database.table(table).scan(**values).to_arrow().to_pylist()
    return found


def named(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["operator_id"], row["state_name"], row["state_kind"]


def check_sizes(database: Database) -> None:
    """Each level has the sum of the one below it, and the entries that the states have."""
    states = {
        (operator.operator_id, state.name, state.kind.value): state
        for operator in database.savepoint.operators
        for state in operator.states
    }
    counted = {name: counts_of(state) for name, state in states.items()}
    found = rows(database, "xray")
    of_level = defaultdict(list)
    for row in found:
        of_level[row["level"]].append(row)

    assert of_level.keys() <= {"operator", "state", "subtask", "key_group"}
    assert {row["operator_id"]: row["bytes"] for row in of_level["operator"]} == {
        operator.operator_id: operator.metadata.size_bytes for operator in database.savepoint.operators
    }
    assert {named(row) for row in of_level["state"]} == states.keys()
    for row in of_level["state"]:
        exact = counted[named(row)]
        below = [one for one in of_level["subtask"] if named(one) == named(row)]
        groups = [one for one in of_level["key_group"] if named(one) == named(row)]
        assert sum(one["entries"] for one in below) == row["entries"]
        assert sum(one["bytes"] for one in below) == row["bytes"]
        assert {one["subtask"] for one in below} == {part.source.subtask for part in states[named(row)].parts}
        if is_keyed(states[named(row)].kind):
            assert sum(one["entries"] for one in groups) == row["entries"]
            assert sum(one["bytes"] for one in groups) == row["bytes"]
        if row["is_estimate"]:
            # Which entries overwrite, and which deletions hit nothing, shows only in a pass.
            assert row["source"] == "sst properties"
        else:
            assert row["entries"] == exact.total()
            kept = {(one["key_group"], one["subtask"]): one["entries"] for one in groups}
            assert kept == {place: number for place, number in exact.items() if place[0] >= 0 and number}


def counts_of(state: State) -> Counter[tuple[int, int]]:
    """(key group, subtask) → how many entries of the state are there."""
    found: Counter[tuple[int, int]] = Counter()
    for part in state.parts:
        for group, number in part.source.counts(part.name, Selection()):
            found[group, part.source.subtask] += number
    return found


def check_keys(database: Database) -> None:
    """Distinct keys, the largest keys and orphan timers are those of the decoded rows."""
    for operator in database.savepoint.operators:
        keys_of: dict[tuple[str, str], Counter[str]] = {}
        for state in operator.states:
            if not is_keyed(state.kind):
                continue
            keys: Counter[str] = Counter()
            for batch in state.read(["key"]):
                keys.update(shown(batch.column(0)))
            keys_of[state.name, state.kind.value] = keys
        found = rows(database, "xray_keys", operator_id=operator.operator_id)
        assert {(row["state_name"], row["state_kind"]): row["distinct_keys"] for row in found} == {
            state: len(keys) for state, keys in keys_of.items()
        }
        assert not any(row["is_estimate"] for row in found)
        largest = rows(database, "xray_largest", operator_id=operator.operator_id)
        for (name, kind), keys in keys_of.items():
            own = [row for row in largest if (row["state_name"], row["state_kind"]) == (name, kind)]
            assert {row["key"] for row in own} <= keys.keys()
            by_bytes = sorted((row["rank_by_bytes"], -row["bytes"]) for row in own if row["rank_by_bytes"])
            assert [rank for rank, _ in by_bytes] == list(range(1, min(len(keys), 20) + 1))
            assert [size for _, size in by_bytes] == sorted(size for _, size in by_bytes)
            if kind == "TIMER":
                by_entries = sorted(
                    (row["rank_by_entries"], row["entries"]) for row in own if row["rank_by_entries"]
                )
                assert [number for _, number in by_entries] == sorted(keys.values(), reverse=True)[:20]
                assert all(row["entries"] == keys[row["key"]] for row in own)
        others = {key for (_, kind), keys in keys_of.items() if kind != "TIMER" for key in keys}
        orphans = Counter(
            {
                (name, key): number
                for (name, kind), keys in keys_of.items()
                if kind == "TIMER"
                for key, number in keys.items()
                if key not in others
            }
        )
        assert {
            (f"_timer_state/{row['time_domain'].lower()}_{row['timer_service']}", row["key"]): row["timers"]
            for row in rows(database, "xray_orphan_timers", operator_id=operator.operator_id)
        } == orphans


def shown(keys: pa.Array) -> list[str]:
    return list((keys if pa.types.is_string(keys.type) else json_text(keys)).to_pylist())


def test_sizes_are_those_of_the_states(database: Database) -> None:
    check_sizes(database)


@pytest.mark.slow
def test_sizes_are_those_of_the_states_of_other_formats(packed: Database) -> None:
    check_sizes(packed)


def test_keys_are_those_of_the_rows(database: Database) -> None:
    check_keys(database)


@pytest.mark.slow
def test_keys_are_those_of_the_rows_of_other_formats(packed: Database) -> None:
    check_keys(packed)


def test_a_state_has_its_entries_where_they_are() -> None:
    database = opened(WORDCOUNT)

    found = [row for row in rows(database, "xray") if row["operator_uid"] == "aggregate"]

    facts = {
        "operator_id": found[0]["operator_id"],
        "operator_uid": "aggregate",
        "operator_name": "aggregate",
    }
    state = {"state_name": "count", "state_kind": "VALUE"}
    exact = {"is_estimate": False, "deleted_share": None, "source": "scan"}
    nowhere = {"subtask": None, "key_group": None}
    sizes = [row for row in found if row["level"] == "key_group"]
    assert found[:2] == [
        {
            "level": "operator",
            **facts,
            **nowhere,
            "state_name": None,
            "state_kind": None,
            "entries": 1000,
            "bytes": found[0]["bytes"],
            "is_estimate": False,
            "distinct_keys": None,
            "deleted_share": None,
            "source": "metadata, scan",
        },
        {
            "level": "state",
            **facts,
            **state,
            **nowhere,
            "entries": 1000,
            # Two lengths stand before the key and the value of an entry.
            "bytes": 17890 + 8 * 1000,
            "distinct_keys": 1000,
            **exact,
        },
    ]
    assert len(sizes) == len({row["key_group"] for row in sizes}) == 128
    assert sum(row["entries"] for row in sizes) == 1000


def test_a_read_of_facts_reads_no_table_of_rocksdb() -> None:
    table = opened(FLINK / "wordcount-rocksdb-savepoints" / "native").table("xray")

    scan = table.scan()

    assert scan.bytes_total == 0
    assert scan.to_arrow().num_rows > 0
    assert scan.bytes_read == 0


@pytest.mark.slow
def test_overwritten_and_deleted_entries_are_garbage(tmp_path: Path) -> None:
    # Each value is written twice, and each map entry beside one that is deleted.
    write_native_savepoint(tmp_path / "native", 200, ("count", "perDay"))
    database = opened(tmp_path / "native")

    keys = {row["state_name"]: row for row in rows(database, "xray_keys")}
    sizes = {row["state_name"]: row for row in rows(database, "xray") if row["level"] == "state"}

    assert {name: (row["entries"], row["distinct_keys"]) for name, row in keys.items()} == {
        "count": (200, 200),
        "perDay": (800, 200),
    }
    assert keys["count"]["garbage_share"] == 0.5
    live = keys["perDay"]["entry_bytes"] + 8 * 800
    # Twice the entries, the deleted ones with a byte more, and the deletions, which have no value.
    stored = 2 * live + (live + 800) + (live + 800 - 800 * VALUE_BYTES)
    assert keys["perDay"]["garbage_share"] == pytest.approx(1 - live / stored)
    assert {name: (row["entries"], row["deleted_share"]) for name, row in sizes.items()} == {
        "count": (400, 0.0),
        "perDay": (1600, 0.5),
    }
    assert all(row["is_estimate"] for row in sizes.values())


def test_operators_are_left_out_by_their_names() -> None:
    database = opened(FLINK / "everything-hashmap-savepoints" / "canonical")

    scan = database.table("xray").scan(operator_uid="kinds")

    assert len(scan.splits) == 1
    assert {row["operator_uid"] for row in scan.to_arrow().to_pylist()} == {"kinds"}


def test_only_the_states_that_are_asked_for_are_read() -> None:
    database = opened(FLINK / "everything-hashmap-savepoints" / "canonical")

    scan = database.table("xray_keys").scan(columns=["distinct_keys"], state_name="map")

    assert len(scan.splits) == 1
    assert scan.to_arrow().to_pylist() == [{"distinct_keys": 6}]


def test_growth_is_the_history_of_the_sizes(tmp_path: Path) -> None:
    for number in (1, 2):
        put(tmp_path / "job" / f"chk-{number}", number)
    catalog = Catalog([Root(path=str(tmp_path), label="prod")])
    columns = ["_checkpoint_id", "level", "operator_id", "state_name", "subtask", "entries", "bytes"]

    history = catalog.schema("prod__job__history").database
    assert history is not None
    found = history.table("xray").scan(columns).to_arrow().to_pylist()

    alone = [
        {"_checkpoint_id": number, **row}
        for number in (1, 2)
        for row in catalog.database(f"chk-{number}").scan("xray", columns=columns[1:]).to_arrow().to_pylist()
    ]
    assert len(alone) > 2 * 128
    assert sorted(map(str, found)) == sorted(map(str, alone))


def test_a_split_can_be_read_by_another_process() -> None:
    database = opened(WORDCOUNT)
    for name in ("xray", "xray_keys", "xray_largest", "xray_orphan_timers"):
        scan = database.table(name).scan()
        sent = pickle.loads(pickle.dumps([split.elsewhere() for split in scan.splits]))

        assert [row for split in sent for batch in split.read() for row in batch.to_pylist()] == (
            scan.to_arrow().to_pylist()
        )


@pytest.mark.parametrize("name", ["xray", "xray_keys", "xray_largest", "xray_orphan_timers"])
def test_a_cancelled_query_ends_a_split_that_has_no_rows_yet(name: str) -> None:
    scan = opened(FLINK / "everything-hashmap-savepoints" / "canonical").table(name).scan()

    def refuse() -> None:
        raise InterruptedError

    scan.counter.on_check(refuse)

    for split in scan.splits:
        with pytest.raises(InterruptedError):
            next(split.read(scan.counter))
