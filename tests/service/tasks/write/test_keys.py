"""DELETE KEY and RENAME KEY: everything of a key, in every state, timer, window and map of every operator."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import savepointdb
from readers import Savepoint, is_keyed, json_text
from service.cli import main
from tests.support.paths import DATA
from tests.support.unpacked import unpacked

FLINK = DATA / "flink"
KINDS = FLINK / "2.3.0/kinds-hashmap-savepoints/canonical"
_PLACES = ("_key_group", "_subtask")
_SOURCES: dict[str, Callable[[Path], Path]] = {
    "heap, native": lambda _: FLINK / "2.3.0/everything-hashmap-savepoints/native",
    "RocksDB, native": lambda _: FLINK / "1.20.3/everything-rocksdb-savepoints/native",
    "canonical, without uids": lambda _: FLINK / "1.20.3/kinds-hashmap-savepoints/canonical",
    "changelog": lambda folder: unpacked("1.20.3-changelog-rocksdb-materialized-chk-3", folder).directory,
    "tuples and windows": lambda folder: unpacked("2.3.0-windows-canonical", folder).directory,
    "rows of SQL": lambda folder: unpacked("2.3.0-queries-canonical", folder).directory,
}
Rows = dict[str, list[str]]
# One layout in every run, the others beside the slow tests.
_EACH = [
    pytest.param(name, marks=() if name == "canonical, without uids" else pytest.mark.slow)
    for name in _SOURCES
]
_KEYS = {
    "changelog": ("key_662", "made up"),
    "tuples and windows": ("(k,1)", "(other,-7)"),
    "rows of SQL": ("k1", "a longer key"),
}


def rows_of(path: Path) -> Rows:
    """All keyed rows of a savepoint by operator and state, as sorted texts, without the places that follow from the key."""
    found: Rows = {}
    for operator in Savepoint(path, roots=[str(path)]).operators:
        for state in operator.states:
            if is_keyed(state.kind):
                texts = [
                    text for batch in state.read() for text in json_text(batch.to_struct_array()).to_pylist()
                ]
                rows = (
                    {name: value for name, value in json.loads(text).items() if name not in _PLACES}
                    for text in texts
                )
                found[f"{operator.operator_id} {state.name}"] = sorted(
                    json.dumps(row, sort_keys=True) for row in rows
                )
    return found


def texts_of(path: Path, key: str) -> set[str]:
    """What a lookup finds of a key: one text each row."""
    return {
        json.dumps({**row, "database": None}) for row in savepointdb.lookup(str(path), key).to_dict()["rows"]
    }


def split(rows: Rows, key: Any) -> tuple[Rows, Rows]:
    """The rows of a key, and the others."""
    own = {name: [text for text in texts if json.loads(text)["key"] == key] for name, texts in rows.items()}
    return own, {name: sorted(set(texts) - set(own[name])) for name, texts in rows.items()}


def renamed(rows: Rows, key: Any) -> Rows:
    return {
        name: sorted(json.dumps({**json.loads(text), "key": key}, sort_keys=True) for text in texts)
        for name, texts in rows.items()
    }


@pytest.mark.parametrize("source", _EACH)
def test_all_rows_of_a_key_go_and_no_others(source: str, tmp_path: Path) -> None:
    path, (key, _) = _SOURCES[source](tmp_path), _KEYS.get(source, ("k1", ""))
    before, found = rows_of(path), texts_of(path, key)

    assert main(["write", str(path), f"DELETE KEY '{key}'", "--to", str(tmp_path / "new")]) == 0

    after = rows_of(tmp_path / "new")
    gone = {name: sorted(set(texts) - set(after[name])) for name, texts in before.items()}
    assert texts_of(tmp_path / "new", key) == set()
    assert sum(map(len, gone.values())) == len(found) > 0
    assert (
        len(
            {json.dumps(json.loads(text)["key"], sort_keys=True) for texts in gone.values() for text in texts}
        )
        == 1
    )
    assert {name: sorted(after[name] + gone[name]) for name in before} == before


@pytest.mark.parametrize("source", _EACH)
def test_a_key_that_is_renamed_there_and_back_is_as_it_was(source: str, tmp_path: Path) -> None:
    path, (key, new) = _SOURCES[source](tmp_path), _KEYS.get(source, ("k1", "another"))
    before, found = rows_of(path), len(texts_of(path, key))

    assert main(["write", str(path), f"RENAME KEY '{key}' TO '{new}'", "--to", str(tmp_path / "there")]) == 0
    there = rows_of(tmp_path / "there")
    assert (
        main(
            [
                "write",
                str(tmp_path / "there"),
                f"RENAME KEY '{new}' TO '{key}'",
                "--to",
                str(tmp_path / "back"),
            ]
        )
        == 0
    )

    assert len(texts_of(tmp_path / "there", key)) == 0
    assert len(texts_of(tmp_path / "there", new)) == found > 0
    assert there != before
    assert rows_of(tmp_path / "back") == before


@settings(deadline=None, max_examples=5)
@example("{}")
@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(
        lambda text: text not in "k0 k1 k2 k3 k4 k5"
    )
)
@pytest.mark.slow
def test_a_key_of_any_text_moves(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("any")
    script = "RENAME KEY 'k1' TO '{}'".format(text.replace("'", "''"))

    assert main(["write", str(KINDS), script, "--to", str(folder / "new")]) == 0

    own, others = split(rows_of(KINDS), "k1")
    moved, left = split(rows_of(folder / "new"), text)
    assert (moved, left) == (renamed(own, text), others)


def test_keys_of_some_operators_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = "DELETE KEY 'k1', 'k2' FROM \"tumbling-window\""

    assert main(["write", str(KINDS), script, "--to", str(tmp_path / "new")]) == 0

    shown = capsys.readouterr().out.splitlines()
    window = '{"start":"1970-01-01T00:00:00.000","end":"1970-01-01T00:00:10.000"}'
    assert shown[0] == "keys 'k1', 'k2': 8 rows of 2 states removed"
    assert "  4 rows of timers of tumbling-window (window-timers, EVENT) are removed" in shown
    assert f'    key k1, namespace {window}: removed, value {{"f0":3,"f1":3}}' in shown
    own = {json.loads(one)["operator"] for one in texts_of(tmp_path / "new", "k1")}
    assert own == {"kinds"}


def test_a_number_is_the_key_of_operators_with_numbers_alone(capsys: pytest.CaptureFixture[str]) -> None:
    source = str(FLINK / "2.3.0/wordcount-hashmap-savepoints/native")

    assert main(["write", source, "DELETE KEY 3", "--dry-run"]) == 0

    assert capsys.readouterr().out.splitlines()[:2] == [
        "key '3': 1 row of 1 state removed",
        "  1 row of mod7-no-uid__seen is removed",
    ]


def test_later_statements_see_what_earlier_ones_did(tmp_path: Path) -> None:
    script = (
        "INSERT INTO kinds__value VALUES ('made up', 7); RENAME KEY 'made up' TO 'again' FROM kinds; DELETE KEY 'k1', 'k2'; "
        "RENAME KEY 'k0' TO 'k1'; UPDATE kinds__value SET value = 9 WHERE key IN ('k1', 'again'); DROP TABLE \"tumbling-window\"; "
        "RENAME KEY 'again' TO 'k2'"
    )

    assert main(["write", str(KINDS), script, "--to", str(tmp_path / "new")]) == 0

    values = {
        json.loads(text)["key"]: json.loads(text)["value"] for text in _values(rows_of(tmp_path / "new"))
    }
    assert values["k1"] == values["k2"] == 9
    assert "k0" not in values


def _values(rows: Rows) -> list[str]:
    return next(texts for name, texts in rows.items() if name.endswith(" value"))


def test_a_key_that_exists_is_kept_or_replaced_where_the_statement_says_so(tmp_path: Path) -> None:
    script = "DELETE KEY 'k2' FROM kinds; RENAME KEY 'k1' TO 'k2' ON CONFLICT DO {}"
    for action in ("NOTHING", "REPLACE"):
        assert main(["write", str(KINDS), script.format(action), "--to", str(tmp_path / action)]) == 0

    before, kept, replaced = map(rows_of, (KINDS, tmp_path / "NOTHING", tmp_path / "REPLACE"))
    own, others = split(before, "k1")
    _, left = split(others, "k2")
    windows = [name for name in before if "window" in name]
    assert {name: kept[name] for name in windows} == {name: before[name] for name in windows}
    moved = renamed(own, "k2")
    assert replaced == {name: sorted(left[name] + moved[name]) for name in before}
    assert {name: kept[name] for name in before if name not in windows} == {
        name: replaced[name] for name in before if name not in windows
    }


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("DELETE KEY 'nope'", "no state has the key 'nope' (--allow-empty"),
        ("DELETE KEY 'k1', 'k-1'", "no state has the key 'k-1' (near keys: k1"),
        ("DELETE KEY 'k1' FROM broadcast", "'k1' is no key of broadcast (no operator has keyed state that can be read)"),
        ("DELETE KEY 'k1' FROM kinds, nobody", "there is no table 'nobody'"),
        ("DELETE KEY 'k1' FROM other.kinds", "expected a table of 'canonical', found one of 'other'"),
        ("DELETE KEY k1", "expected a number, or a text in single quotes, found 'k1'"),
        ("DELETE KEY 'k1',", "expected a number, or a text in single quotes, found the end"),
        ("RENAME KEY 'k1' TO 'k1'", "expected another key than 'k1', found 'k1'"),
        ("RENAME KEY 'k1' TO 'k2'", "the key 'k2' exists already: 1 row of kinds__"),
        ("RENAME KEY 'k1' TO 'k2' ON CONFLICT DO UPDATE", "expected NOTHING or REPLACE, found 'UPDATE'"),
        ("RENAME KEY 'k1' TO 'k2' ON CONFLICT DO NOTHING", "the script changes nothing"),
        ("RENAME KEY 'nope' TO 'k2'", "no state has the key 'nope'"),
        (
            "ALTER TABLE kinds__value ALTER COLUMN value TYPE 'String'; DELETE KEY 'k1'",
            "an earlier statement altered 'kinds__value': change its keys in a script of their own",
        ),
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused(
    script: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["write", str(KINDS), script, "--to", str(tmp_path / "new")]) == 1

    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_text_that_is_no_key_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    source = str(FLINK / "2.3.0/wordcount-hashmap-savepoints/native")

    assert main(["write", source, "DELETE KEY 'x' FROM \"mod7-no-uid\"", "--dry-run"]) == 1

    assert "'x' is no key of mod7-no-uid (mod7-no-uid: " in capsys.readouterr().err


def test_timers_in_raw_keyed_state_are_never_left_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(unpacked("2.3.0-heaptimers-chk-2", tmp_path).directory)

    assert main(["write", source, "DELETE KEY 'k1'", "--dry-run"]) == 1

    assert (
        "4 rows of timers of kinds (user-timers, EVENT) are in raw keyed state, which cannot be changed"
        in capsys.readouterr().err
    )


def test_a_preview_has_each_state() -> None:
    report = savepointdb.write(str(KINDS), None, "DELETE KEY 'k1' FROM kinds", dry_run=True).to_dict()

    [statement] = report["statements"]
    assert (statement["table"], statement["removed"], report["rows"]) == ("KEY", 27, 27)
    assert {one["table"]: one["removed"] for one in statement["states"] if one["table"] != "timers"} == {
        "kinds__value": 1, "kinds__list": 4, "kinds__map": 3, "kinds__reducing": 1, "kinds__aggregating": 1,
        "kinds__ttl-value": 1, "kinds__ttl-list": 4, "kinds__ttl-map": 4,
    }  # fmt: skip
    assert [one["removed"] for one in statement["states"] if one["table"] == "timers"] == [4, 4]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE aggregate SET value = 5 WHERE key = 'key_662'",
        "INSERT INTO aggregate VALUES ('made up', 5)",
        "MERGE INTO aggregate t USING (SELECT 'key_662' AS k) s ON t.key = s.k WHEN MATCHED THEN DELETE",
        "DELETE FROM aggregate WHERE key = 'key_662'",
    ],
)
def test_the_table_of_an_operator_with_one_state_is_that_of_its_state(statement: str, tmp_path: Path) -> None:
    source = FLINK / "2.3.0/wordcount-hashmap-savepoints/canonical"
    by_state = statement.replace("aggregate", "aggregate__count", 1)
    for script, name in ((statement, "operator"), (by_state, "state")):
        assert main(["write", str(source), script, "--to", str(tmp_path / name)]) == 0

    assert rows_of(tmp_path / "operator") == rows_of(tmp_path / "state") != rows_of(source)
