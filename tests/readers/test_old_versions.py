"""Savepoints and checkpoints that jobs of Flink 1.7 to 1.13 wrote, against the values that these jobs put in."""

from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from readers.errors import CorruptDataError
from readers.jars.jobclasses import JobClasses
from readers.keygroups import operator_id_of
from readers.savepoint import Savepoint
from readers.states import DECODED, UNREADABLE, State
from tests.support.expected import rows_of, shown_name
from tests.support.notation import json_text, normal, without_types
from tests.support.oldversions import unpack_old

Rows = Counter[str]

_KINDS = (
    "1.7.2/kinds-rocks/sp-1",
    "1.12.7/kinds-rocks/sp-1",
    "1.13.6/kinds-rocksfull-heaptimers/checkpoint",
)
_SQL = ("1.8.3/sql-rocks/sp-1", "1.8.3/sql-heap/sp-1", "1.10.3/sql-heap/sp-1", "1.12.7/sql-rocks/sp-1")
# The job wrote down their fields alone.
_UNNAMED_CLASSES = (
    "lab.T$NoCtor",
    "org.apache.flink.streaming.connectors.kafka.internals.KafkaTopicPartition",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_old(tmp_path_factory.mktemp("old"))


def directory_of(folder: Path, snapshot: str) -> Path:
    """Return the savepoint, or the one checkpoint in its folder."""
    (metadata,) = (folder / snapshot).rglob("_metadata")
    return metadata.parent


def truth_of(folder: Path, snapshot: str) -> Iterator[dict[str, Any]]:
    lines = (folder / f"{snapshot}.truth.jsonl").read_text(encoding="utf-8").splitlines()
    return map(json.loads, lines)


@pytest.mark.parametrize("snapshot", _KINDS)
def test_every_state_of_every_kind_holds_what_its_job_put_in(snapshot: str, folder: Path) -> None:
    savepoint = Savepoint(directory_of(folder, snapshot), jars=JobClasses.open([folder / "job.jar"]))
    decoded: Rows = Counter()
    for operator in savepoint.operators:
        for state in operator.states:
            assert state.status == DECODED, (state.name, state.note)
            for row in rows_of(state):
                decoded[_text(operator.operator_id, _truth_name(state), row)] += 1
    savepoint.close()

    expected: Rows = Counter()
    for row in truth_of(folder, snapshot):
        shown = {name: normal(value) for name, value in row.items()}
        expected[_text(operator_id_of(row["uid"]), row["state"], shown)] += 1
    assert list((expected - decoded).elements())[:5] == [], "missing"
    assert list((decoded - expected).elements())[:5] == [], "not expected"


def _truth_name(state: State) -> str:
    return "timer" if state.kind.name == "TIMER" else shown_name(state)


def _text(operator: str, name: str, row: Mapping[str, Any]) -> str:
    """Return what both sides have of a row. A Kryo object is JSON text, which does not tell maps from lists."""
    columns = ("key", "map_key", "timestamp", "value")
    shown = [_unnamed(without_types(row.get(column))) for column in columns]
    return json_text([operator, name, *shown])


def _unnamed(value: Any) -> Any:
    """Return a value without the classes of objects that only the readers name."""
    if isinstance(value, list):
        return [_unnamed(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _unnamed(part)
        for name, part in value.items()
        if name != "$class" or part not in _UNNAMED_CLASSES
    }


@pytest.mark.parametrize("snapshot", _SQL)
def test_every_state_of_sql_holds_what_its_queries_aggregated(snapshot: str, folder: Path) -> None:
    savepoint = Savepoint(directory_of(folder, snapshot))
    states: dict[str, list[dict[str, Any]]] = {}
    for operator in savepoint.operators:
        for state in operator.states:
            assert state.status == DECODED, (state.name, state.note)
            states[f"{operator.operator_id[:6]} {state.name}"] = list(rows_of(state))
    savepoint.close()
    shown = _old_planner(states) if snapshot.startswith("1.8") else _blink(states)

    expected: dict[str, Rows] = defaultdict(Counter)
    for row in truth_of(folder, snapshot):
        if row["uid"] == "sql":
            name = row["state"]
            # Each side of the join has one of the two columns; distinct values are one by one.
            value = row["value"]
            values = {"join-left": [value[:1]], "join-right": [value[1:]]}.get(name, [value])
            values = [[one] for one in value] if name == "distinct" else values
            expected[name].update(json_text([row.get("key"), *value]) for value in values)
    assert shown == {name: expected[name] for name in shown}
    assert set(expected) - set(shown) <= {"topn", "global"}


def _counted(rows: Iterable[list[Any]]) -> Rows:
    return Counter(map(json_text, rows))


def _blink(states: dict[str, list[dict[str, Any]]]) -> dict[str, Rows]:
    def side(name: str) -> Rows:
        return _counted([row["key"][0], *row["map_key"][1:]] for row in states[name])

    return {
        "agg": _counted([row["key"][0], *row["value"]] for row in states["fad292 accState"]),
        "global": _counted([None, *row["value"]] for row in states["9235c5 accState"]),
        "distinct": _counted([row["key"][0], row["map_key"]] for row in states["14f58f distinctAcc_0"]),
        "topn": _counted([row["key"][0], *row["map_key"]] for row in states["5f0c6a data-state-with-append"]),
        "join-left": side("c94c69 left-records"),
        "join-right": side("c94c69 right-records"),
    }


def _old_planner(states: dict[str, list[dict[str, Any]]]) -> dict[str, Rows]:
    def accumulated(row: dict[str, Any]) -> list[Any]:
        return [accumulator[0] for accumulator in row["value"]["fields"]]

    def side(name: str) -> Rows:
        return _counted([row["key"]["fields"][0], *row["map_key"]["fields"][1:]] for row in states[name])

    return {
        "agg": _counted(
            [row["key"]["fields"][0], *accumulated(row)] for row in states["fad292 GroupAggregateState"]
        ),
        "distinct": _counted(
            [row["key"]["fields"][0], *row["map_key"]["fields"]]
            for row in states["138fed agg1$distinctValueMap"]
        ),
        "join-left": side("dc9a8e left"),
        "join-right": side("dc9a8e right"),
    }


def test_texts_in_the_views_of_flink_1_9_are_texts(folder: Path) -> None:
    savepoint = Savepoint(directory_of(folder, "1.9.3/sqlx-heap/sp-1"))
    rows = {
        f"{operator.operator_id[:6]} {state.name}": list(rows_of(state))
        for operator in savepoint.operators
        for state in operator.states
    }
    notes = {state.note for operator in savepoint.operators for state in operator.states}
    savepoint.close()

    listed = {row["key"][0]: row["value"] for row in rows["5f4a0d agg2$list"]}
    joined = {row["key"][0]: row["value"][3] for row in rows["652146 accState"]}
    assert notes == {""}
    assert listed == {
        3: ["kéy-5", "kéy-0"],
        4: ["kéy-1", "kéy-6"],
        5: ["kéy-7", "kéy-2"],
        6: ["", "kéy-8"],
        7: ["kéy-9", "kéy-4"],
    }
    assert sorted(row["map_key"] for row in rows["5f4a0d agg1$valueToOrderMapView"]) == sorted(joined)
    assert joined["kéy-8"] == ",".join(["kéy-8"] * 6)
    assert {len(text.split(",")) for text in joined.values()} == {3, 4, 5, 6, 7}


def test_windows_without_timers_in_a_native_savepoint_say_so(tmp_path: Path) -> None:
    savepoint = Savepoint(unpack_old(tmp_path, "heaptimers") / "native")
    notes = {
        (state.name, state.status, state.note.partition(":")[0])
        for operator in savepoint.operators
        for state in operator.states
        if operator.lacks_timers
    }
    others = {
        state.note
        for operator in savepoint.operators
        for state in operator.states
        if not operator.lacks_timers
    }
    savepoint.close()

    assert notes == {
        ("window-contents", DECODED, "timers"),
        ("count", DECODED, "timers"),
        ("merging-window-set", DECODED, ""),
        ("fired-global", DECODED, ""),
    }
    assert others == {""}


def damaged(folder: Path, snapshot: str, target: Path, before: bytes, after: bytes) -> Path:
    """Copy a savepoint, with other bytes in the place where its files have `before` for the first time."""
    assert len(before) == len(after)
    shutil.copytree(directory_of(folder, snapshot), target)
    file = next(path for path in sorted(target.iterdir()) if before in path.read_bytes())
    file.write_bytes(file.read_bytes().replace(before, after, 1))
    return target


def states_of(savepoint: Savepoint, operator_id: str) -> dict[str, State]:
    (operator,) = (one for one in savepoint.operators if one.operator_id.startswith(operator_id))
    return {state.name: state for state in operator.states}


def test_a_damaged_state_of_a_heap_leaves_the_others_readable(folder: Path, tmp_path: Path) -> None:
    snapshot = "1.9.3/sqlx-heap/sp-1"
    # The first text stands in the map of the first state of a key group; the length before it is changed.
    text = "kéy-5".encode()
    path = damaged(folder, snapshot, tmp_path / "new", b"\0\0\0\x06" + text, b"\x7f\0\0\x06" + text)
    whole, broken = Savepoint(directory_of(folder, snapshot)), Savepoint(path)

    before, after = states_of(whole, "5f4a0d"), states_of(broken, "5f4a0d")
    failed = {}
    for name, state in after.items():
        try:
            assert list(rows_of(state)) == list(rows_of(before[name])), name
        except CorruptDataError as error:
            failed[name] = error.message.partition(";")[0]
    assert failed == {
        "agg1$valueToOrderMapView": "expected a count or length, found 2130706438 with 338 bytes left"
    }


def test_a_state_of_which_a_subtask_has_another_type_is_not_called_decoded(
    folder: Path, tmp_path: Path
) -> None:
    serializer = b"typeutils.base.LongSerializer$LongSerializerSnapshot"
    other = serializer.replace(b"Serializer$", b"Serialized$")
    path = damaged(folder, "1.12.7/kinds-rocks/sp-1", tmp_path / "new", serializer, other)
    savepoint = Savepoint(path, jars=JobClasses.open([folder / "job.jar"]))

    unreadable = []
    for operator in savepoint.operators:
        for state in operator.states:
            if state.status == UNREADABLE:
                unreadable.append(state)
            else:
                list(state.read())
    (state,) = unreadable
    assert "expected subtasks to agree on the type of" in state.note
    with pytest.raises(CorruptDataError, match="expected subtasks to agree on the type of"):
        list(state.read())
    savepoint.close()


def test_a_state_whose_objects_of_kryo_cannot_be_read_is_not_called_decoded(
    folder: Path, tmp_path: Path
) -> None:
    objects = b"[Ljava.lang.Object" + bytes((ord(";") | 0x80,))
    path = damaged(folder, "1.8.3/sql-rocks/sp-1", tmp_path / "new", objects + b"\x01", objects + b"\x7f")
    savepoint = Savepoint(path)

    states = states_of(savepoint, "138fed")

    assert {name: state.status for name, state in states.items() if state.status != DECODED} == {
        "agg1$distinctValueMap": UNREADABLE
    }
    assert "expected one of 1 objects, found 125" in states["agg1$distinctValueMap"].note
    with pytest.raises(CorruptDataError, match="expected one of 1 objects, found 125"):
        list(states["agg1$distinctValueMap"].read())
