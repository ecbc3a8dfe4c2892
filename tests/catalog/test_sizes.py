"""Sizes of states: each state's own bytes, which add up to the savepoint's at most."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from catalog import connect
from readers.formats.rocksdb.source import RocksSource
from readers.formats.source import StateName
from readers.metadata import KeyGroupRange
from tests.support.paths import DATA
from tests.support.unpacked import unpacked

FLINK = DATA / "flink" / "2.3.0"


def sizes(path: Path) -> tuple[dict[tuple[str, str], int], dict[str, int]]:
    """Return (operator id, state) → bytes, and operator id → bytes."""
    database = connect(path).default
    assert database is not None
    states = database.table("StateMeta").scan().to_arrow().to_pylist()
    operators = database.table("operators").scan().to_arrow().to_pylist()
    return (
        {(row["operator_id"], row["state_name"]): row["size_bytes"] for row in states},
        {row["operator_uid_hash"]: row["operator_total_size_in_bytes"] for row in operators},
    )


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("layout", ["canonical", "native"])
@pytest.mark.parametrize("job", ["wordcount", "everything"])
def test_states_of_an_operator_have_at_most_its_size_together(backend: str, layout: str, job: str) -> None:
    states, operators = sizes(FLINK / f"{job}-{backend}-savepoints" / layout)

    for operator, total in operators.items():
        own = [size for (owner, _), size in states.items() if owner == operator]
        assert 0 < sum(own) <= total


@pytest.mark.parametrize(
    "path",
    [
        FLINK / "everything-hashmap-savepoints" / "canonical",
        FLINK / "everything-hashmap-savepoints" / "native",
        FLINK / "everything-rocksdb-savepoints" / "canonical",
    ],
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_a_state_has_the_bytes_that_the_x_ray_finds(path: Path) -> None:
    database = connect(path).default
    assert database is not None
    states = database.table("StateMeta").scan().to_arrow().to_pylist()
    xray = database.table("xray").scan(level="state").to_arrow().to_pylist()

    found = {(row["operator_id"], row["state_name"]): row["bytes"] for row in xray}
    assert {"BROADCAST", "UNION_LIST", "MAP"} <= {row["state_kind"] for row in states}
    assert len({row["size_bytes"] for row in states}) > 3
    for row in states:
        assert row["size_bytes"] == found[row["operator_id"], row["state_name"]]
        assert row["size_is_estimate"] is False


def test_sizes_of_compressed_key_groups_are_estimates() -> None:
    states = connect(DATA / "corpus/1.20.3/allstates-hashmap-compressed/canonical").default
    assert states is not None
    rows = [row for row in states.table("StateMeta").scan().to_arrow().to_pylist() if row["key_type"]]

    assert {row["size_is_estimate"] for row in rows} == {True}
    assert len({row["size_bytes"] for row in rows}) > 3


def test_sizes_of_large_states_are_estimated_from_some_key_groups() -> None:
    database = connect(FLINK / "wordcount-hashmap-savepoints" / "canonical").default
    assert database is not None
    state = next(
        state for one in database.savepoint.operators for state in one.states if state.name == "count"
    )
    exact = state.own_size.size_bytes
    assert exact is not None

    sizes = [part.source.own_size(part.name, 0.25) for part in state.parts]

    assert all(size.is_estimate for size in sizes)
    assert sum(size.size_bytes or 0 for size in sizes) == pytest.approx(exact, rel=0.1)


def test_a_table_of_states_has_the_size_of_its_states() -> None:
    database = connect(FLINK / "everything-hashmap-savepoints" / "canonical").default
    assert database is not None
    rows = database.table("StateMeta").scan().to_arrow().to_pylist()
    for row in rows:
        if row["table_name"] not in (None, "timers"):
            own = database.table(row["table_name"]).own_size
            assert own is not None
            assert own.size_bytes == row["size_bytes"]
    assert database.table("files").own_size is None


def test_a_state_in_rocksdb_has_the_size_of_its_tables() -> None:
    checkpoint = FLINK / "wordcount-rocksdb-checkpoint-incremental" / "checkpoint"
    states, _ = sizes(checkpoint / "chk-2")
    database = connect(checkpoint / "chk-2").default
    assert database is not None
    files = database.table("files").scan().to_arrow().to_pylist()
    tables = {"seen": 0, "count": 0}
    for (operator, name), size in states.items():
        if name in tables:
            own = [row["size_bytes"] for row in files if row["operator_id"] == operator]
            assert 0 < size < sum(own)
            tables[name] = size

    assert tables["count"] > tables["seen"] > 0


def test_the_states_of_one_operator_differ_where_the_format_tells() -> None:
    states, _ = sizes(FLINK / "everything-rocksdb-savepoints" / "native")
    by_operator: dict[str, list[int]] = {}
    for (operator, _), size in states.items():
        by_operator.setdefault(operator, []).append(size)

    assert max(len(set(own)) for own in by_operator.values()) > 3


@pytest.mark.parametrize("name", ["1.20.3-heaptimers-chk-2", "1.20.3-unaligned-hashmap-chk-1"])
def test_raw_timers_and_records_in_flight_have_the_bytes_that_the_x_ray_finds(
    name: str, tmp_path: Path
) -> None:
    database = connect(unpacked(name, tmp_path).directory).default
    assert database is not None
    states = database.table("StateMeta").scan().to_arrow().to_pylist()
    xray = database.table("xray").scan(level="state").to_arrow().to_pylist()

    found = {(row["operator_id"], row["state_name"]): row["bytes"] for row in xray}
    kept = [row for row in states if row["state_kind"] in ("TIMER", "CHANNEL")]
    assert any(row["size_bytes"] for row in kept)
    for row in kept:
        assert row["size_bytes"] == found[row["operator_id"], row["state_name"]]


def test_tables_without_a_key_of_the_subtask_do_not_count() -> None:
    database = connect(FLINK / "wordcount-rocksdb-savepoints" / "native").default
    assert database is not None
    counts = next(
        state for one in database.savepoint.operators for state in one.states if state.name == "count"
    )
    first, second = (part.source for part in counts.parts)
    assert isinstance(first, RocksSource)
    assert isinstance(second, RocksSource)

    def of(source: RocksSource, groups: KeyGroupRange) -> int:
        rescaled = replace(source, handle=replace(source.handle, key_group_range=groups))
        return rescaled.own_size(StateName(name="count"), 1.0).size_bytes or 0

    assert of(first, first.key_group_range) > 0
    assert of(first, second.key_group_range) == 0
