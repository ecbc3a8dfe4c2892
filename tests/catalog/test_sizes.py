"""Sizes of states: each state's own bytes, which add up to the savepoint's at most."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog import connect
from tests.support.paths import DATA

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
