"""The savepoints that benchmarks are measured on are what Flink would write."""

from __future__ import annotations

from pathlib import Path

import pytest

import catalog
from readers.formats.source import Selection
from readers.savepoint import Savepoint
from readers.states import State
from tools.synthetic import savepoints
from tools.synthetic.rocksdb import write_native_savepoint
from tools.synthetic.savepoints import STATES, write_savepoint

FLINK = Path(__file__).parent / "data" / "flink" / "2.3.0" / "wordcount-hashmap-savepoints" / "canonical"
KEYS = 1000


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("generated") / "savepoint"
    write_savepoint(path, KEYS)
    return path


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("native") / "savepoint"
    write_native_savepoint(path, KEYS)
    return path


def state_of(path: Path, uid: str, name: str) -> State:
    operator = next(known for known in Savepoint(path).operators if known.answers_to(uid))
    return next(state for state in operator.states if state.name == name)


def key_bytes(state: State) -> dict[bytes, int]:
    """The composite keys of a canonical state with the key group that they stand in."""
    found = {}
    for part in state.parts:
        for page in part.source.pages(part.name, Selection()):
            for (start, _), (end, _), group in zip(page.starts, page.ends, page.key_groups, strict=True):
                raw = page.data[start:end].tobytes()
                found[bytes([raw[0] & 0x7F]) + raw[1:]] = int(group)
    return found


@pytest.mark.slow
def test_keys_are_those_that_flink_wrote_byte_for_byte(generated: Path) -> None:
    assert key_bytes(state_of(generated, "aggregate", "count")) == key_bytes(
        state_of(FLINK, "aggregate", "count")
    )


def test_the_header_declares_what_flinks_does(generated: Path) -> None:
    ours, flinks = state_of(generated, "aggregate", "count"), state_of(FLINK, "aggregate", "count")

    assert ours.entry == flinks.entry
    assert (ours.kind, ours.status, ours.max_parallelism) == (flinks.kind, "decoded", flinks.max_parallelism)
    assert [part.source.key_group_range for part in ours.parts] == [
        p.source.key_group_range for p in flinks.parts
    ]


def test_rows_are_the_announced_ones(generated: Path) -> None:
    database = catalog.connect(generated).default
    assert database is not None

    def rows(state: str) -> list[dict[str, object]]:
        columns = [name for name in database.table(f"aggregate__{state}").schema.names if name[0] != "_"]
        table = database.table(f"aggregate__{state}").scan(columns=columns).to_arrow()
        return sorted(table.drop_columns(["namespace"]).to_pylist(), key=str)

    numbers = range(KEYS)
    assert rows("count") == sorted(({"key": f"key_{i}", "value": 10_000 + i % 13} for i in numbers), key=str)
    assert rows("account") == sorted(
        (
            {
                "key": f"key_{i}",
                "value": {
                    "balance": i / 4,
                    "id": i,
                    "name": f"account holder {i}",
                    "updatedAt": 1_700_000_000_000 + i,
                },
            }
            for i in numbers
        ),
        key=str,
    )
    assert rows("perDay") == sorted(
        (
            {"key": f"key_{i}", "value": i + day, "map_key": str(20_240_101 + day)}
            for i in numbers
            for day in range(4)
        ),
        key=str,
    )
    assert rows("events") == sorted(
        (
            {"key": f"key_{i}", "value": f"event_{3 * i + event}", "list_index": event}
            for i in numbers
            for event in range(3)
        ),
        key=str,
    )


def test_many_keys_are_written_as_few_are(
    generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(savepoints, "_KEYS_AT_A_TIME", 70)  # of 500 in a subtask

    write_savepoint(tmp_path / "savepoint", KEYS)

    for file in generated.iterdir():
        assert (tmp_path / "savepoint" / file.name).read_bytes() == file.read_bytes()


def test_entries_in_another_order_are_the_same(generated: Path, tmp_path: Path) -> None:
    write_savepoint(tmp_path / "savepoint", KEYS, is_sorted=False)

    for name in STATES:
        ours, theirs = (state_of(path, "aggregate", name) for path in (tmp_path / "savepoint", generated))
        assert entries(ours) == entries(theirs)
    numbers = [
        list(key_bytes(state_of(path, "aggregate", "count"))) for path in (generated, tmp_path / "savepoint")
    ]
    assert numbers[0] == sorted(numbers[0])
    assert numbers[1] != numbers[0]


@pytest.mark.slow
def test_more_key_groups_hold_the_same_rows(generated: Path, tmp_path: Path) -> None:
    write_savepoint(tmp_path / "savepoint", KEYS, max_parallelism=1024)
    few, many = catalog.connect(generated), catalog.connect(tmp_path / "savepoint")

    for state in STATES:
        columns = [name for name in few.table(f"aggregate__{state}").schema.names if name in _ROW]
        one, other = (
            connected.table(f"aggregate__{state}").scan(columns).to_arrow().to_pylist()
            for connected in (few, many)
        )
        assert sorted(other, key=str) == sorted(one, key=str)
    found = many.table("aggregate__count").scan(["key", "value"], key="key_662").to_arrow().to_pylist()
    assert found == [{"key": "key_662", "value": 10_012}]
    for part in state_of(tmp_path / "savepoint", "aggregate", "count").parts:
        for page in part.source.pages(part.name, Selection()):
            prefixes = [
                int.from_bytes(page.data[start : start + 2].tobytes(), "big") for start in page.starts[:, 0]
            ]
            assert [prefix & 0x7FFF for prefix in prefixes] == page.key_groups.tolist()


_ROW = {"key", "map_key", "value", "list_index"}


def entries(state: State) -> list[tuple[int, bytes, bytes]]:
    """Key group, composite key without the flag that meta data follow, and value of every entry."""
    found = []
    for part in state.parts:
        for page in part.source.pages(part.name, Selection()):
            for starts, ends, group in zip(page.starts, page.ends, page.key_groups, strict=True):
                key, value = (page.data[start:end].tobytes() for start, end in zip(starts, ends, strict=True))
                found.append((int(group), bytes([key[0] & 0x7F]) + key[1:], value))
    return sorted(found)


@pytest.mark.parametrize("name", STATES)
def test_native_savepoints_hold_the_rows_of_canonical_ones(generated: Path, native: Path, name: str) -> None:
    found = entries(state_of(native, "aggregate", name))

    assert found == entries(state_of(generated, "aggregate", name))
