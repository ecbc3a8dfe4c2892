"""Samples: a key is in or out in every state, and what stays keeps its bytes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readers import (
    ComposedSource,
    Entry,
    Page,
    Savepoint,
    StateKind,
    StateName,
    StatePart,
    VoidNamespaceSerializer,
    is_keyed,
    json_text,
    type_named,
)
from readers.metadata import Mode, read_metadata
from readers.serializers.base import Serializer
from tests.support.paths import DATA
from tests.support.unpacked import unpacked
from tests.writers.test_elsewhere import check
from writers import (
    Encoder,
    FractionOfKeys,
    GatherOperatorState,
    KeyChoice,
    KeyFilter,
    ListedKeys,
    RefusedEditError,
    RewriteKeyedState,
    SavepointWriter,
    key_groups_of,
    texts_of,
)

HALF = FractionOfKeys(fraction=0.5, seed="s")
FLINK = DATA / "flink"
SOURCES = (
    "2.3.0/wordcount-rocksdb-checkpoint-incremental/checkpoint/chk-2",
    "2.3.0/everything-hashmap-savepoints/canonical",
    "2.3.0/everything-hashmap-savepoints/native",
    "2.3.0/everything-rocksdb-savepoints/native",
    "1.20.3/everything-rocksdb-savepoints/canonical",
)
ARCHIVES = (
    "1.20.3-heaptimers-chk-2",
    "1.20.3-changelog-rocksdb-materialized-chk-3",
    "1.20.3-windows-canonical",
    "2.3.0-queries-canonical",
)

Rows = dict[tuple[str, str], Counter[str]]


def rows_of(path: Path, keep: KeyChoice | None = None) -> Rows:
    """The rows of all states, of each operator; of the keys that stay."""
    found: Rows = {}
    for operator in Savepoint(path, roots=[str(path.parent)]).operators:
        for state in operator.states:
            if state.kind in (StateKind.COORDINATOR, StateKind.CHANNEL, StateKind.MASTER):
                continue
            rows: Counter[str] = Counter()
            for batch in state.read():
                chosen = batch
                if keep is not None and is_keyed(state.kind):
                    chosen = batch.filter(pa.array(keep.chosen(texts_of(batch.column("key")))))
                hidden = (
                    {"_key_group", "_subtask", "list_index"} if not is_keyed(state.kind) else {"_subtask"}
                )
                shown = chosen.select([name for name in chosen.schema.names if name not in hidden])
                rows.update(json_text(shown.to_struct_array()).to_pylist())
            found[operator.operator_id, state.name] = rows
    return found


def sample(source: Path, target: Path, keep: KeyChoice = HALF, parallelism: int | None = None) -> None:
    savepoint = Savepoint(source)
    edits: list[Any] = []
    for operator in savepoint.operators:
        fewer = parallelism if parallelism and operator.metadata.parallelism > parallelism else None
        if fewer:
            edits.append(GatherOperatorState(operator_id=operator.operator_id, parallelism=fewer))
        edits.append(RewriteKeyedState(operator=operator, keep=keep, parallelism=fewer))
    SavepointWriter(savepoint.location, edits).write(target)


def first_fast(names: tuple[str, ...]) -> list[Any]:
    """The first one in every run, the others beside the slow tests."""
    return [names[0], *(pytest.param(name, marks=pytest.mark.slow) for name in names[1:])]


@pytest.mark.parametrize("source", first_fast(SOURCES))
def test_a_key_is_in_or_out_in_every_state(source: str, tmp_path: Path) -> None:
    sample(FLINK / source, tmp_path / "new")

    expected = rows_of(FLINK / source, HALF)
    assert rows_of(tmp_path / "new") == expected
    assert any(expected.values())
    assert expected != rows_of(FLINK / source)


@pytest.mark.parametrize("archive", first_fast(ARCHIVES))
@pytest.mark.parametrize("parallelism", [None, 1])
def test_timers_windows_and_states_of_sql_follow_their_keys(
    archive: str, parallelism: int | None, tmp_path: Path
) -> None:
    source = unpacked(archive, tmp_path / "source").directory

    sample(source, tmp_path / "new", parallelism=parallelism)

    assert rows_of(tmp_path / "new") == rows_of(source, HALF)


def test_raw_timers_are_dealt_out_with_their_keys(tmp_path: Path) -> None:
    source = unpacked("1.20.3-heaptimers-chk-2", tmp_path / "source").directory

    sample(source, tmp_path / "new", parallelism=1)

    [timers] = [
        state
        for operator in Savepoint(tmp_path / "new").operators
        for state in operator.states
        if state.name == "_timer_state/event_user-timers"
    ]
    found = sorted(row["key"] for batch in timers.read() for row in batch.to_pylist())
    chosen = HALF.chosen(pa.array(keys := sorted({f"k{number}" for number in range(10)}), pa.string()))
    assert set(found) <= {key for key, is_in in zip(keys, chosen, strict=True) if is_in}
    assert found
    assert [part.source.subtask for part in timers.parts] == [0]


@pytest.mark.parametrize("source", first_fast(SOURCES))
def test_fewer_subtasks_have_the_same_rows(source: str, tmp_path: Path) -> None:
    sample(FLINK / source, tmp_path / "new", parallelism=1)

    assert rows_of(tmp_path / "new") == rows_of(FLINK / source, HALF)
    metadata = read_metadata((tmp_path / "new" / "_metadata").read_bytes())
    assert {one.parallelism for one in metadata.operators} == {1}
    assert all([subtask.index for subtask in one.subtasks] in ([0], []) for one in metadata.operators)


def test_gathered_elements_are_those_of_all_subtasks_and_one_copy_of_a_broadcast_state(
    tmp_path: Path,
) -> None:
    source = FLINK / SOURCES[1]
    savepoint = Savepoint(source)
    edits = [GatherOperatorState(operator_id=one.operator_id, parallelism=1) for one in savepoint.operators]

    SavepointWriter(savepoint.location, edits).write(tmp_path / "new")

    def offsets(path: Path) -> Counter[tuple[str, str, Mode]]:
        return Counter(
            {
                (one.operator_id, info.name, info.distribution_mode): len(info.offsets)
                for one in read_metadata((path / "_metadata").read_bytes()).operators
                for subtask in one.subtasks
                if subtask.managed_operator_state is not None
                for info in subtask.managed_operator_state.state_meta_infos
                if info.distribution_mode is not Mode.BROADCAST
            }
        )

    assert rows_of(tmp_path / "new") == rows_of(source)
    assert sum(offsets(tmp_path / "new").values()) > 2


def test_a_sample_of_all_keys_is_the_whole(tmp_path: Path) -> None:
    sample(FLINK / SOURCES[0], tmp_path / "new", FractionOfKeys(fraction=1, seed=""))

    assert rows_of(tmp_path / "new") == rows_of(FLINK / SOURCES[0])


@pytest.mark.parametrize("parallelism", [None, 1])
def test_other_processes_make_the_same_sample(parallelism: int | None, tmp_path: Path) -> None:
    source = FLINK / "2.3.0/wordcount-rocksdb-savepoints/native"

    def edits() -> list[RewriteKeyedState]:
        [operator] = [one for one in Savepoint(source).operators if one.metadata.uid == "aggregate"]
        return [RewriteKeyedState(operator=operator, keep=HALF, parallelism=parallelism)]

    check(source, edits, tmp_path)


KEYS = {
    "String": st.text(max_size=200).filter(lambda text: text.isprintable()),
    "Long": st.integers(-(2**63), 2**63 - 1),
    "Int": st.integers(-(2**31), 2**31 - 1),
    "Short": st.integers(-(2**15), 2**15 - 1),
}


@given(st.data())
def test_bytes_of_keys_decide_as_their_values_do(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(KEYS)))
    values = data.draw(st.lists(KEYS[name], min_size=1, max_size=20))
    choice = FractionOfKeys(fraction=data.draw(st.floats(0.01, 0.99)), seed=data.draw(st.text(max_size=3)))
    serializer = type_named(name)
    keys = pa.array(values, serializer.arrow())

    chosen = filter_of(serializer, choice).chosen(page_of(serializer, keys))

    assert chosen.tolist() == choice.chosen(pa.array(list(map(str, values)), pa.string())).tolist()


def test_a_long_and_a_text_of_one_id_are_one_key() -> None:
    numbers = pa.array(range(1000), pa.int64())

    chosen = HALF.chosen(texts_of(numbers))

    assert chosen.tolist() == HALF.chosen(pa.array(list(map(str, range(1000))))).tolist()
    assert abs(chosen.sum() - 500) < 3 * 250**0.5


@pytest.mark.parametrize("seed", ["", "0", "1", "another"])
@pytest.mark.parametrize("fraction", [0.001, 0.01, 0.3, 0.9])
def test_a_fraction_is_within_three_standard_deviations(seed: str, fraction: float) -> None:
    texts = pa.array([f"customer-{number}" for number in range(100_000)])

    found = FractionOfKeys(fraction=fraction, seed=seed).chosen(texts).sum()

    assert abs(found - 100_000 * fraction) <= 3 * (100_000 * fraction * (1 - fraction)) ** 0.5


def test_a_part_of_a_key_decides() -> None:
    keys = pa.array([{"customer": "a", "day": 1}, {"customer": "a", "day": 2}, {"customer": None, "day": 1}])

    assert texts_of(keys, ("customer",)).to_pylist() == ["a", "a", '{"customer":null,"day":1}']
    with pytest.raises(RefusedEditError, match="expected a key with a field city"):
        texts_of(keys, ("city",))


def test_listed_keys() -> None:
    assert ListedKeys(texts=pa.array(["a", "b"])).chosen(pa.array(["b", "c", None])).tolist() == [
        True,
        False,
        False,
    ]


def filter_of(serializer: Serializer, choice: KeyChoice) -> KeyFilter:
    name = StateName(name="s")
    return KeyFilter(source_of(serializer), name, choice)


def source_of(serializer: Serializer) -> ComposedSource:
    entry = Entry(
        kind=StateKind.VALUE,
        key=serializer,
        namespace=VoidNamespaceSerializer(),
        value=type_named("Int"),
    )
    return ComposedSource(
        subtask=0, path="", size_bytes=0, entries={StateName(name="s"): entry}, max_parallelism=128
    )


def page_of(serializer: Serializer, keys: pa.Array) -> Page:
    """Entries with some keys, as the writer has them."""
    source, name = source_of(serializer), StateName(name="s")
    encoder = Encoder.of_part(StatePart(source=source, name=name, entry=source.entries[name]), 2)
    groups = key_groups_of(serializer, keys, 128)
    columns = {
        "key": keys,
        "namespace": pa.nulls(len(keys), pa.binary()),
        "value": pa.array([0] * len(keys), pa.int32()),
    }
    arrays = [columns[field.name].cast(field.type) for field in encoder.schema]
    encoded = encoder.encode(pa.RecordBatch.from_arrays(arrays, encoder.schema.names), groups)
    return Page.of(encoded.data, (encoded.starts, encoded.ends), groups, 0, "")
