"""Keyed state that other processes make: the same bytes as this process makes, or nothing."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from readers import MissingFileError, Savepoint, SavepointLocation, StateKind, StateName, type_named
from readers.metadata import (
    KeyGroupsSavepointStateHandle,
    RelativeFileStateHandle,
    SavepointMetadata,
    read_metadata,
)
from readers.serializers.primitives import StringSerializer
from tests.catalog.test_objectstore import outline
from tests.support.keyedchanges import KeyedDraft, Row
from tests.support.objectstore import Fault, ObjectStore, Proxy, status
from tests.support.paths import DATA
from tests.writers.test_savepoint import contents
from writers import (
    AddedField,
    CreateOperator,
    DroppedField,
    Edit,
    ExpiringValue,
    NewState,
    RenamedField,
    RetypedField,
    RewriteKeyedState,
    SavepointWriter,
    Spool,
    SpooledEntries,
    StateAlteration,
    StateChanges,
    TargetError,
    UnencodableValueError,
    UpdatedRows,
    done,
    write_empty_savepoint,
)

FLINK = DATA / "flink/2.3.0"
CANONICAL = FLINK / "wordcount-rocksdb-savepoints/canonical"
ROCKSDB = FLINK / "wordcount-rocksdb-savepoints/native"
TYPES = FLINK / "everything-rocksdb-savepoints/native"
HEAP = FLINK / "everything-hashmap-savepoints/native"
UNFINISHED = "_metadata.unfinished"


def elsewhere(source: Path | str) -> Callable[[Sequence[bytes]], list[bytes]]:
    """What does the work of parcels with a savepoint of its own, the last parcel first, and each of them twice."""

    def run(parcels: Sequence[bytes]) -> list[bytes]:
        for parcel in parcels:
            done(parcel, lambda: Savepoint(source))
        return [done(parcel, lambda: Savepoint(source)) for parcel in reversed(parcels)][::-1]

    return run


def outcome(folder: Path) -> tuple[SavepointMetadata, list[list[str]]]:
    """The metadata of a savepoint without the names of its files, which are random, and the hashes of these of each operator."""
    metadata = read_metadata((folder / "_metadata").read_bytes())
    files = []
    operators = []
    for operator in metadata.operators:
        found = []
        subtasks = []
        for subtask in operator.subtasks:
            handle = subtask.managed_keyed_state
            if isinstance(handle, KeyGroupsSavepointStateHandle):
                file = handle.delegate
                if isinstance(file, RelativeFileStateHandle):
                    found.append(hashlib.sha256((folder / file.relative_path).read_bytes()).hexdigest())
                    handle = replace(handle, delegate=replace(file, relative_path=""))
            subtasks.append(replace(subtask, managed_keyed_state=handle))
        operators.append(replace(operator, subtasks=tuple(subtasks)))
        files.append(found)
    return replace(metadata, operators=tuple(operators)), files


def check(source: Path, edits: Callable[[], Sequence[Edit]], folder: Path) -> None:
    """Write by this process and elsewhere, and compare."""
    here = SavepointWriter(SavepointLocation(source), edits()).write(folder / "here")
    there = SavepointWriter(SavepointLocation(source), edits()).write(folder / "there", run=elsewhere(source))

    assert there == here
    assert outcome(folder / "there") == outcome(folder / "here")
    assert len(list((folder / "there").iterdir())) == len(list((folder / "here").iterdir()))


def changed(source: Path) -> Callable[[], Sequence[Edit]]:
    def edits() -> Sequence[Edit]:
        draft = KeyedDraft(source, "count")
        draft.update("count", lambda row: row["value"] % 3 == 0, value=lambda row: row["value"] + 1)
        draft.remove("count", lambda row: row["key"] == "key_7")
        draft.insert("count", {"key": "new", "value": 5}, {"key": "newer", "value": 6})
        draft.update("count", lambda row: row["key"] == "key_8", value=0)
        return [RewriteKeyedState(operator=draft.operator, changes=draft.changes)]

    return edits


@pytest.mark.parametrize("source", [CANONICAL, ROCKSDB], ids=["canonical", "rocksdb"])
def test_changed_rows(source: Path, tmp_path: Path) -> None:
    check(source, changed(source), tmp_path)


@pytest.mark.slow
def test_rows_of_many_states_of_the_hashmap_backend(tmp_path: Path) -> None:
    def edits() -> Sequence[Edit]:
        draft = KeyedDraft(HEAP, "value")
        for name in ("value", "reducing", "aggregating"):
            draft.remove(name, lambda row: row["key"] in ("k1", "k2"))
        draft.remove("list", lambda row: row["list_index"] == 1)
        draft.update("map", lambda row: True, value="text")
        return [RewriteKeyedState(operator=draft.operator, changes=draft.changes)]

    check(HEAP, edits, tmp_path)


def test_other_types(tmp_path: Path) -> None:
    def edits() -> Sequence[Edit]:
        operator = KeyedDraft(ROCKSDB, "count").operator
        alteration = StateAlteration(types=(RetypedField((), StringSerializer()),), name="texts")
        return [RewriteKeyedState(operator=operator, alterations={StateName(name="count"): alteration})]

    check(ROCKSDB, edits, tmp_path)


@pytest.mark.parametrize(
    ("state", "alteration"),
    [
        (
            "v_pojo",
            StateAlteration(
                types=(
                    RenamedField(("name",), "title"),
                    AddedField(("count",), type_named("Long"), pa.scalar(3)),
                    DroppedField(("balance",)),
                )
            ),
        ),
        ("v_long", StateAlteration(types=(ExpiringValue(5),), name="expiring")),
        ("v_long", StateAlteration(dropped=True)),
        ("v_string", StateAlteration(truncated=True)),
    ],
    ids=["fields", "ttl", "dropped", "truncated"],
)
def test_altered_states(state: str, alteration: StateAlteration, tmp_path: Path) -> None:
    def edits() -> Sequence[Edit]:
        operator = KeyedDraft(TYPES, state).operator
        return [RewriteKeyedState(operator=operator, alterations={StateName(name=state): alteration})]

    check(TYPES, edits, tmp_path)


@pytest.mark.parametrize("source", [CANONICAL, HEAP], ids=["canonical", "hashmap"])
@pytest.mark.parametrize(("groups", "subtasks"), [(1000, 3), pytest.param(128, 5, marks=pytest.mark.slow)])
def test_other_key_groups_and_subtasks(source: Path, groups: int, subtasks: int, tmp_path: Path) -> None:
    def edits() -> Sequence[Edit]:
        operator = KeyedDraft(source, "count" if source is CANONICAL else "value").operator
        return [RewriteKeyedState(operator=operator, max_parallelism=groups, parallelism=subtasks)]

    check(source, edits, tmp_path)


def new_states() -> tuple[SpooledEntries, ...]:
    text, number = type_named("String"), type_named("Long")
    states = (
        NewState(name="numbers", kind=StateKind.VALUE, types={"key": text, "value": number}, now_ms=0),
        NewState(name="texts", kind=StateKind.LIST, types={"key": text, "value": text}, now_ms=0),
        NewState(name="some", kind=StateKind.VALUE, types={"key": text, "value": number}, ttl=True, now_ms=5),
    )
    spooled = tuple(SpooledEntries(state, 128) for state in states)
    for rows in range(3):
        keys = [f"{rows}-{number}" for number in range(500)]
        spooled[0].add(pa.record_batch({"key": keys, "value": range(500)}))
        spooled[1].add(pa.record_batch({"key": [f"{number % 7}" for number in range(500)], "value": keys}))
        spooled[2].add(pa.record_batch({"key": keys[:1], "value": [rows]}))
    return spooled


def test_a_new_operator(tmp_path: Path) -> None:
    source = tmp_path / "empty"
    source.mkdir()
    write_empty_savepoint(source)

    def edits() -> Sequence[Edit]:
        return [CreateOperator(uid="new", parallelism=3, max_parallelism=128, keyed=new_states())]

    check(source, edits, tmp_path)


def test_new_states_beside_others(tmp_path: Path) -> None:
    def edits() -> Sequence[Edit]:
        return [RewriteKeyedState(operator=KeyedDraft(ROCKSDB, "count").operator, added=new_states())]

    check(ROCKSDB, edits, tmp_path)


def divided(modulus: int, rest: int) -> Callable[[Row], bool]:
    return lambda row: row["value"] % modulus == rest


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    layers=st.lists(
        st.tuples(st.sampled_from(["update", "remove", "insert"]), st.integers(2, 9)), max_size=4
    ),
    in_memory=st.sampled_from([0, 1 << 20]),
)
@pytest.mark.slow
def test_any_layers(
    layers: list[tuple[str, int]], in_memory: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    spool = Spool(folder, in_memory)

    def edits() -> Sequence[Edit]:
        draft = KeyedDraft(CANONICAL, "count")
        for number, (kind, modulus) in enumerate(layers):
            if kind == "update":
                draft.update("count", divided(modulus, 0), value=number)
            elif kind == "remove":
                draft.remove("count", divided(modulus, 1))
            else:
                draft.insert("count", *({"key": f"{number}-{at}", "value": at} for at in range(modulus)))
        changes = {
            name: replace(
                change,
                layers=tuple(
                    spool.updated(layer.rows.to_reader(), layer.paths)
                    if isinstance(layer, UpdatedRows)
                    else layer
                    for layer in change.layers
                ),
            )
            for name, change in draft.changes.items()
        }
        return [RewriteKeyedState(operator=draft.operator, changes=changes)]

    check(CANONICAL, edits, folder)


def test_a_place_that_another_process_does_not_see_is_one_error(tmp_path: Path) -> None:
    target, hidden = tmp_path / "new", tmp_path / "hidden"

    def run(parcels: Sequence[bytes]) -> list[bytes]:
        target.rename(hidden)
        try:
            return elsewhere(CANONICAL)(parcels)
        finally:
            hidden.rename(target)

    with pytest.raises(
        TargetError, match=r"expected the new savepoint that .* has begun, found none on .* share"
    ):
        SavepointWriter(SavepointLocation(CANONICAL), changed(CANONICAL)()).write(target, run=run)

    assert list(tmp_path.iterdir()) == []


def test_another_directory_of_the_same_path_gets_no_file(tmp_path: Path) -> None:
    target, hidden = tmp_path / "new", tmp_path / "hidden"
    found: list[str] = []

    def run(parcels: Sequence[bytes]) -> list[bytes]:
        shutil.copytree(target, hidden)
        (target / UNFINISHED).write_bytes(b"A new savepoint of another writer")
        done = elsewhere(CANONICAL)(parcels)
        found.extend(sorted(path.name for path in target.iterdir()))
        return done

    before = len(contents(CANONICAL))
    with pytest.raises(TargetError, match="found none"):
        SavepointWriter(SavepointLocation(CANONICAL), changed(CANONICAL)()).write(target, run=run)

    assert len([name for name in found if not name.startswith(("_metadata", "parts-"))]) <= before - 1
    assert not target.exists()


def test_files_of_attempts_that_did_not_end_are_removed(tmp_path: Path) -> None:
    def run(parcels: Sequence[bytes]) -> list[bytes]:
        (tmp_path / "new" / "half").write_bytes(b"half a file")
        return elsewhere(CANONICAL)(parcels)

    SavepointWriter(SavepointLocation(CANONICAL), changed(CANONICAL)()).write(tmp_path / "new", run=run)

    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert "half" not in names
    assert len(names) == 3
    assert UNFINISHED not in names


@pytest.mark.slow
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("the cluster is gone")])
def test_work_that_ends_early_leaves_no_target(error: BaseException, tmp_path: Path) -> None:
    def run(parcels: Sequence[bytes]) -> list[bytes]:
        elsewhere(CANONICAL)(parcels[:1])
        raise error

    with pytest.raises(type(error)):
        SavepointWriter(SavepointLocation(CANONICAL), changed(CANONICAL)()).write(tmp_path / "new", run=run)

    assert list(tmp_path.iterdir()) == []


def test_work_that_begins_after_the_end_writes_nothing(tmp_path: Path) -> None:
    late: list[bytes] = []

    def run(parcels: Sequence[bytes]) -> list[bytes]:
        late.extend(parcels)
        raise OSError

    with suppress(OSError):
        SavepointWriter(SavepointLocation(CANONICAL), changed(CANONICAL)()).write(tmp_path / "new", run=run)
    elsewhere(CANONICAL)(late)

    assert late
    assert list(tmp_path.iterdir()) == []


def test_errors_come_back_as_they_are(tmp_path: Path) -> None:
    draft = KeyedDraft(CANONICAL, "count")
    operator = draft.operator
    alteration = StateAlteration(types=(RetypedField((), type_named("Byte")),))
    edit = RewriteKeyedState(operator=operator, alterations={StateName(name="count"): alteration})
    with pytest.raises(UnencodableValueError) as here:
        SavepointWriter(SavepointLocation(CANONICAL), [edit]).write(tmp_path / "here")

    with pytest.raises(UnencodableValueError) as there:
        SavepointWriter(SavepointLocation(CANONICAL), [edit]).write(
            tmp_path / "there", run=elsewhere(CANONICAL)
        )

    assert str(there.value) == str(here.value)
    assert (there.value.breadcrumbs, there.value.row) == (here.value.breadcrumbs, here.value.row)
    assert list(tmp_path.iterdir()) == []


def test_a_source_that_another_process_does_not_see_is_its_error(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROCKSDB, source)
    outline(source / "_metadata")
    writer = SavepointWriter(SavepointLocation(source), changed(source)())
    found = tmp_path / "found"
    shutil.copytree(source, found)
    for path in found.iterdir():
        if path.name != "_metadata":
            path.unlink()

    with pytest.raises(MissingFileError):
        writer.write(tmp_path / "new", run=elsewhere(found))

    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_in_a_store(store: ObjectStore, proxy: Proxy, tmp_path: Path) -> None:
    for key in store.contents(""):
        store.delete(key)
    here = SavepointWriter(SavepointLocation(CANONICAL), changed(CANONICAL)()).write(tmp_path / "here")

    def run(parcels: Sequence[bytes]) -> list[bytes]:
        store.put("new/half", b"half a file")
        return elsewhere(CANONICAL)(parcels)

    there = SavepointWriter(SavepointLocation(CANONICAL), changed(CANONICAL)()).write(
        proxy.url("new"), run=run
    )

    assert there == here
    found = store.contents("new/")
    assert len(found) == 3
    files = {digest for name, digest in contents(tmp_path / "here").items() if name != "_metadata"}
    assert {digest for key, digest in found.items() if key != "new/_metadata"} == files
    assert store.uploads == []


@pytest.mark.slow
def test_a_store_that_fails_elsewhere_keeps_nothing(store: ObjectStore, proxy: Proxy) -> None:
    for key in store.contents(""):
        store.delete(key)

    def run(parcels: Sequence[bytes]) -> list[bytes]:
        # The first file arrives, the second does not.
        proxy.faults.append(Fault(status(403), method="PUT", key="new/", after=1))
        try:
            return [done(parcel, lambda: Savepoint(CANONICAL)) for parcel in parcels]
        finally:
            proxy.faults.clear()

    with pytest.raises(TargetError, match="access denied"):
        SavepointWriter(SavepointLocation(CANONICAL), changed(CANONICAL)()).write(proxy.url("new"), run=run)

    assert store.contents("new/") == {}
    assert store.uploads == []


@pytest.mark.slow
def test_a_store_gets_no_file_of_a_write_that_has_ended(store: ObjectStore, proxy: Proxy) -> None:
    for key in store.contents(""):
        store.delete(key)
    late: list[bytes] = []

    def run(parcels: Sequence[bytes]) -> list[bytes]:
        late.extend(parcels)
        raise OSError

    with suppress(OSError):
        SavepointWriter(SavepointLocation(CANONICAL), changed(CANONICAL)()).write(proxy.url("new"), run=run)
    elsewhere(CANONICAL)(late)

    assert late
    assert store.contents("new/") == {}


def test_what_is_read_is_estimated() -> None:
    [edit] = changed(ROCKSDB)()
    assert isinstance(edit, RewriteKeyedState)
    resharded = RewriteKeyedState(operator=edit.operator, parallelism=3)
    sizes = [source.size_bytes for source in edit.operator.sources if source.recorded is not None]

    assert SavepointWriter(SavepointLocation(ROCKSDB), [edit]).made_bytes == sum(sizes)
    estimate = SavepointWriter(SavepointLocation(ROCKSDB), [resharded]).made_bytes
    assert sum(sizes) - 3 <= estimate <= sum(sizes)
    assert SavepointWriter(SavepointLocation(ROCKSDB), []).made_bytes == 0


def test_no_changes_need_no_work(tmp_path: Path) -> None:
    asked: list[int] = []

    def run(parcels: Sequence[bytes]) -> list[bytes]:
        asked.append(len(parcels))
        return []

    changes = {StateName(name="count"): StateChanges(now_ms=0)}
    edit = RewriteKeyedState(operator=KeyedDraft(CANONICAL, "count").operator, changes=changes)
    SavepointWriter(SavepointLocation(CANONICAL), [edit]).write(tmp_path / "new", run=run)

    assert asked == []
    assert contents(tmp_path / "new").keys() == contents(CANONICAL).keys()
