"""Rows of keyed state that statements add, change and remove: elements of lists, entries of maps, windows, timers, TTL."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.keyedchanges import NOW, KeyedDraft
from tests.support.paths import DATA
from tests.support.unpacked import unpacked
from writers import RefusedEditError, RemovedRows, UnencodableValueError, UpdatedRows

FLINK = DATA / "flink/2.3.0"
KINDS = FLINK / "kinds-hashmap-savepoints/canonical"
TYPES = FLINK / "types-hashmap-savepoints/canonical"
KEY_TIMERS = "_timer_state/event_user-timers"
WINDOW_TIMERS = "_timer_state/event_window-timers"


@pytest.fixture
def kinds() -> KeyedDraft:
    return KeyedDraft(KINDS, "value")


@pytest.fixture
def windows() -> KeyedDraft:
    return KeyedDraft(KINDS, "window-contents")


@pytest.fixture
def types() -> KeyedDraft:
    return KeyedDraft(TYPES, "v_long")


def others(draft: KeyedDraft, *changed: str) -> dict[str, list[Any]]:
    return {name: rows for name, rows in draft.everything().items() if name not in changed}


def test_added_keys_stand_beside_those_that_were_there(kinds: KeyedDraft, tmp_path: Path) -> None:
    before = kinds.rows("value", "key", "value")
    kinds.insert("value", *({"key": f"new {number}", "value": number} for number in range(300)))

    after = kinds.write(tmp_path / "new")

    assert after.rows("value", "key", "value") == sorted(
        [*before, *((f"new {number}", number) for number in range(300))], key=repr
    )
    assert others(after, "value") == others(kinds, "value")


def test_later_statements_change_and_remove_added_rows(kinds: KeyedDraft, tmp_path: Path) -> None:
    kinds.remove("value", lambda _: True)
    kinds.insert("value", {"key": "a", "value": 1}, {"key": "b", "value": 2})
    (name,) = kinds.changes
    _, added = kinds.changes[name].layers
    places = added.rows.select(["_group", "_row"])
    values = places.append_column("0", [[10 * value for value in added.rows.column("value").to_pylist()]])
    first, second = (added.rows.column("key").to_pylist().index(key) for key in "ab")
    kinds.changes[name] = kinds.changes[name].followed_by(
        UpdatedRows(values.slice(first, 1), (("value",),)), RemovedRows(places.slice(second, 1))
    )
    kinds.insert("value", {"key": "c", "value": 3})

    assert kinds.write(tmp_path / "new").rows("value", "key", "value") == [("a", 10), ("c", 3)]


@pytest.mark.parametrize("keys", [["a", "b", "a"], ["a", "key-0"]])
def test_a_key_that_is_there_is_refused_by_name(kinds: KeyedDraft, keys: list[str], tmp_path: Path) -> None:
    known = kinds.rows("value", "key")[0][0]
    keys = [known if key == "key-0" else key for key in keys]
    kinds.insert("value", *({"key": key, "value": 1} for key in keys))

    with pytest.raises(RefusedEditError, match=f"value: expected .* found key '({known}|a)'"):
        kinds.write(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_removed_key_is_added_again(kinds: KeyedDraft, tmp_path: Path) -> None:
    key = kinds.rows("reducing", "key")[0][0]
    kinds.remove("reducing", lambda row: row["key"] == key)
    kinds.insert("reducing", {"key": key, "value": 77})

    assert (key, 77) in kinds.write(tmp_path / "new").rows("reducing", "key", "value")


def test_a_value_of_every_type_is_added(types: KeyedDraft, tmp_path: Path) -> None:
    """The values of another key: they go through SQL's types and back."""
    copied = {}
    for state in types.operator.states:
        name = state.name
        if name.startswith("_timer"):
            continue
        found = [row for row in _rows(types, name) if row["key"] == types.rows(name, "key")[0][0]]
        types.insert(name, *({**row, "key": "copy"} for row in found))
        copied[name] = [{**row, "key": "copy"} for row in found]

    after = types.write(tmp_path / "new")

    for name, rows in copied.items():
        assert [row for row in _rows(after, name) if row["key"] == "copy"] == rows
    assert len(copied) == 19


def _rows(draft: KeyedDraft, name: str) -> list[dict[str, Any]]:
    made = {"_key_group", "_subtask", "_undecoded", "_out_of_range"}
    columns = [column for column in draft.state(name).schema.names if column not in made]
    return [dict(zip(columns, row, strict=True)) for row in draft.rows(name, *columns)]


@pytest.mark.parametrize("name", ["value", "reducing", "aggregating", "list"])
def test_no_entry_is_null(kinds: KeyedDraft, name: str, tmp_path: Path) -> None:
    kinds.insert(name, {"key": "a", "value": None})

    with pytest.raises(UnencodableValueError, match=rf"{name}\.value: key 'a': expected a value, found NULL"):
        kinds.write(tmp_path / "new")


def test_a_null_map_value_is_refused_where_its_serializer_has_none(
    kinds: KeyedDraft, types: KeyedDraft, tmp_path: Path
) -> None:
    kinds.insert("map", {"key": "a", "map_key": "m", "value": None})
    types.insert("m_long", {"key": "a", "map_key": "m", "value": None})

    # A String has a null of its own, a Long has none.
    assert ("a", "m", None) in kinds.write(tmp_path / "new").rows("map", "key", "map_key", "value")
    with pytest.raises(
        UnencodableValueError, match=r"m_long.value: key 'a', map_key 'm': .* the next savepoint"
    ):
        types.write(tmp_path / "other")


def test_a_namespace_is_refused_where_there_is_none(kinds: KeyedDraft, tmp_path: Path) -> None:
    kinds.insert("value", {"key": "a", "namespace": "n", "value": 1})

    with pytest.raises(
        UnencodableValueError, match=r"value.namespace: key 'a', namespace 'n': expected NULL"
    ):
        kinds.write(tmp_path / "new")


def test_a_map_entry_is_a_row(kinds: KeyedDraft, tmp_path: Path) -> None:
    known, map_key = kinds.rows("map", "key", "map_key")[0]
    kinds.insert(
        "map",
        {"key": known, "map_key": "one more", "value": "v"},
        {"key": "a", "map_key": map_key, "value": "w"},
    )
    kinds.remove("map", lambda row: row["key"] == known and row["map_key"] == map_key)

    found = kinds.write(tmp_path / "new").rows("map", "key", "map_key", "value")

    assert {(known, "one more", "v"), ("a", map_key, "w")} <= set(found)
    assert len(found) == len(kinds.rows("map")) + 1


def lists(draft: KeyedDraft, name: str = "list") -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for key, _, value in sorted(draft.rows(name, "key", "list_index", "value")):
        found.setdefault(key, []).append(value)
    return found


def test_elements_change_come_and_go(kinds: KeyedDraft, tmp_path: Path) -> None:
    before = lists(kinds)
    first, second, third, fourth, *_ = sorted(before)
    kinds.update("list", lambda row: row["key"] == first and row["list_index"] == 1, value=-1)
    kinds.remove("list", lambda row: row["key"] == second)
    kinds.remove("list", lambda row: row["key"] == third and row["list_index"] == 0)
    kinds.insert(
        "list",
        {"key": fourth, "value": 7},
        {"key": "new", "value": 8},
        {"key": fourth, "value": 6, "list_index": 0},
        {"key": "new", "value": 9},
    )

    after = kinds.write(tmp_path / "new")

    expected = dict(before)
    del expected[second]
    expected[first] = [before[first][0], -1, *before[first][2:]]
    expected[third] = before[third][1:]
    expected[fourth] = [6, *before[fourth], 7]
    expected["new"] = [8, 9]
    assert lists(after) == expected
    assert others(after, "list") == others(kinds, "list")


def test_elements_with_ttl_have_their_own_times(kinds: KeyedDraft, tmp_path: Path) -> None:
    old = datetime.datetime(2020, 1, 1)
    key = kinds.rows("ttl-list", "key")[0][0]
    columns = ("key", "list_index", "value", "ttl_timestamp")
    before = [row[2:] for row in sorted(kinds.rows("ttl-list", *columns)) if row[0] == key]
    kinds.update("ttl-list", lambda row: row["key"] == key and row["list_index"] == 1, value=5)
    kinds.insert("ttl-list", {"key": key, "value": 6}, {"key": "new", "value": 7, "ttl_timestamp": old})

    found = kinds.write(tmp_path / "new").rows("ttl-list", *columns)

    after = [row[2:] for row in sorted(found) if row[0] == key]
    assert after == [before[0], (5, NOW), *before[2:], (6, NOW)]
    assert ("new", 0, 7, old) in found


def test_values_with_ttl_are_accessed_now_or_when_the_statement_says(
    kinds: KeyedDraft, tmp_path: Path
) -> None:
    old = datetime.datetime(2020, 1, 1)
    key, other, *_ = [row[0] for row in kinds.rows("ttl-value", "key")]
    kinds.update("ttl-value", lambda row: row["key"] == key, value=5)
    kinds.update("ttl-value", lambda row: row["key"] == other, ttl_timestamp=old)
    kinds.insert("ttl-value", {"key": "a", "value": 1}, {"key": "b", "value": 2, "ttl_timestamp": old})
    kinds.insert("ttl-map", {"key": "a", "map_key": "m", "value": 3})

    after = kinds.write(tmp_path / "new")

    found = {key: rest for key, *rest in after.rows("ttl-value", "key", "value", "ttl_timestamp")}
    assert found[key] == [5, NOW]
    assert found[other][1] == old
    assert [found["a"], found["b"]] == [[1, NOW], [2, old]]
    assert ("a", "m", 3, NOW) in after.rows("ttl-map", "key", "map_key", "value", "ttl_timestamp")


def test_a_window_is_made_up_with_its_timer(windows: KeyedDraft, tmp_path: Path) -> None:
    start = datetime.datetime(1970, 1, 1, 0, 1, 40)
    window = {"start": start, "end": start + datetime.timedelta(seconds=10)}
    last = window["end"] - datetime.timedelta(milliseconds=1)
    windows.insert("window-contents", {"key": "a", "namespace": window, "value": {"f0": 5, "f1": 2}})
    windows.insert(WINDOW_TIMERS, {"key": "a", "namespace": window, "timestamp": last})
    windows.remove("window-contents", lambda row: row["key"] == windows.rows("window-contents", "key")[0][0])

    after = windows.write(tmp_path / "new")

    assert ("a", window, {"f0": 5, "f1": 2}) in after.rows("window-contents", "key", "namespace", "value")
    assert ("a", window, last) in after.rows(WINDOW_TIMERS, "key", "namespace", "timestamp")
    assert len(after.rows("window-contents")) == len(windows.rows("window-contents")) - 1


def test_timers_change_come_and_go(kinds: KeyedDraft, tmp_path: Path) -> None:
    before = kinds.rows(KEY_TIMERS, "key", "timestamp")
    (key, time), *rest = before
    later = time + datetime.timedelta(hours=1)
    kinds.update(KEY_TIMERS, lambda row: (row["key"], row["timestamp"]) == (key, time), timestamp=later)
    kinds.insert(KEY_TIMERS, {"key": "a", "timestamp": time}, {"key": key, "timestamp": time})
    kinds.remove(KEY_TIMERS, lambda row: (row["key"], row["timestamp"]) == rest[-1])

    found = kinds.write(tmp_path / "new").rows(KEY_TIMERS, "key", "timestamp")

    assert found == sorted([(key, later), ("a", time), (key, time), *rest[:-1]], key=repr)


def test_two_timers_of_one_time_are_refused(kinds: KeyedDraft, tmp_path: Path) -> None:
    kinds.update(KEY_TIMERS, lambda _: True, timestamp=datetime.datetime(2026, 1, 1))

    with pytest.raises(
        RefusedEditError, match=r"event_user-timers: expected each key once, found key '.*', timestamp"
    ):
        kinds.write(tmp_path / "new")


def test_a_timer_that_becomes_another_is_refused(kinds: KeyedDraft, tmp_path: Path) -> None:
    (key, time), (_, other), *_ = kinds.rows(KEY_TIMERS, "key", "timestamp")
    kinds.update(KEY_TIMERS, lambda row: (row["key"], row["timestamp"]) == (key, time), timestamp=other)

    with pytest.raises(RefusedEditError, match="which is there already"):
        kinds.write(tmp_path / "new")


def test_all_timers_move_by_an_hour(kinds: KeyedDraft, tmp_path: Path) -> None:
    hour = datetime.timedelta(hours=1)
    kinds.update(KEY_TIMERS, lambda _: True, timestamp=lambda row: row["timestamp"] + hour)

    after = kinds.write(tmp_path / "new")

    assert after.rows(KEY_TIMERS, "key", "timestamp") == [
        (key, time + hour) for key, time in kinds.rows(KEY_TIMERS, "key", "timestamp")
    ]


def test_part_of_a_value_changes(types: KeyedDraft, tmp_path: Path) -> None:
    before = [row for row in types.rows("v_pojo", "key", "value") if row[1]["address"]]
    types.remove("v_pojo", lambda row: row["value"]["address"] is None)
    types.update(
        "v_pojo", lambda _: True, value__address__street="Elm", value__age=lambda row: row["value"]["age"] + 1
    )

    after = types.write(tmp_path / "new").rows("v_pojo", "key", "value")

    assert after == [
        (key, value | {"age": value["age"] + 1, "address": value["address"] | {"street": "Elm"}})
        for key, value in before
    ]


def test_a_row_that_is_not_there_is_refused(kinds: KeyedDraft, tmp_path: Path) -> None:
    kinds.remove("list", lambda row: row["key"] == kinds.rows("list", "key")[0][0])
    (name,) = kinds.changes
    rows = kinds.changes[name].layers[0].rows
    far = rows.set_column(1, "_row", [[row + 1000 for row in rows.column("_row").to_pylist()]])
    kinds.changes[name] = kinds.changes[name].followed_by(RemovedRows(far))

    with pytest.raises(RefusedEditError, match=r"list: expected row 10.. of key group"):
        kinds.write(tmp_path / "new")


@pytest.mark.slow
def test_lists_that_the_hashmap_backend_wrote_and_nobody_decodes_are_refused(tmp_path: Path) -> None:
    source = unpacked("1.20.3-alltypes-collections-hashmap-native", tmp_path).directory
    draft = KeyedDraft(source, "l_char")
    draft.insert("l_char", {"key": "new", "value": "x"})

    with pytest.raises(
        RefusedEditError, match=r"l_kryo_generic.*: expected elements that are decoded.* take a canonical"
    ):
        draft.write(tmp_path / "new")


def test_a_window_without_its_timer_is_warned_of(windows: KeyedDraft) -> None:
    start = datetime.datetime(1970, 1, 1, 0, 1, 40)
    window = {"start": start, "end": start + datetime.timedelta(seconds=10)}
    windows.insert("window-contents", {"key": "a", "namespace": window, "value": {"f0": 5, "f1": 2}})

    (warning,) = windows.writer().summary.warnings

    assert warning == (
        'window-contents: 1 row (key \'a\', namespace {"start":"1970-01-01T00:01:40.000","end":"1970-01-01T00:01:50.000"}): '
        "a window without a timer never fires: add its timer, or leave both"
    )


def test_a_window_whose_timer_goes_is_warned_of(windows: KeyedDraft) -> None:
    windows.remove(WINDOW_TIMERS, lambda row: row["key"] in ("k0", "k1"))
    windows.remove("window-contents", lambda row: row["key"] == "k1")

    (warning,) = windows.writer().summary.warnings

    assert warning.startswith("window-contents: 2 rows (key 'k0', namespace ")


def test_windows_that_keep_their_timers_are_not_warned_of(windows: KeyedDraft) -> None:
    windows.update("window-contents", lambda _: True, value__f0=1)
    windows.remove("window-contents", lambda row: row["key"] == "k2")

    assert windows.writer().summary.warnings == ()


def test_a_ttl_of_0_is_warned_of(kinds: KeyedDraft) -> None:
    begin = datetime.datetime(1970, 1, 1)
    kinds.update("ttl-value", lambda _: True, ttl_timestamp=begin)
    kinds.insert("ttl-list", {"key": "a", "value": 1, "ttl_timestamp": begin}, {"key": "a", "value": 2})

    values, lists = kinds.writer().summary.warnings

    assert values.startswith("ttl-value: 6 rows (key 'k")
    assert lists.startswith("ttl-list: 1 row (key 'a'): a ttl_timestamp of 1970 is long past")
