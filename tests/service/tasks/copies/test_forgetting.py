"""`forget`: all that belongs to ids goes, and a search of all bytes proves it, or tells what is left."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import savepointdb
from service.cli import main
from tests.support.paths import DATA

FLINK = DATA / "flink/2.3.0"
WORDS = FLINK / "wordcount-rocksdb-savepoints/native"
KINDS = FLINK / "kinds-hashmap-savepoints/canonical"
_ID = "key_662"


@pytest.fixture
def ids(tmp_path: Path) -> str:
    path = tmp_path / "ids.csv"
    path.write_text(f"key\n{_ID}\nnobody-has-this\n")
    return str(path)


def forget(*arguments: str) -> int:
    return main(["forget", *arguments])


def report_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_keys_go_and_the_report_has_none_of_them(tmp_path: Path, ids: str) -> None:
    source, new, report = str(WORDS), str(tmp_path / "new"), tmp_path / "report.json"

    assert forget(source, "--to", new, "--keys", ids, "--verify", "--report", str(report)) == 0

    found = report_of(report)
    assert _ID not in report.read_text()
    assert "nobody" not in report.read_text()
    assert (found["ids"], found["held"]) == (2, 1)
    assert [(one["table"], one["rows"]) for one in found["removed"]] == [("aggregate__count", 1)]
    assert found["verified"]["proven"] is True
    assert found["verified"]["unread"] == found["verified"]["bytes"] == found["verified"]["rows"] == []
    assert [one["path"] for one in found["files_before"]] == ["_metadata"]
    assert all(len(one["sha256"]) == 64 for one in (*found["files_before"], *found["files_after"]))


def test_a_search_finds_keys_in_compressed_files_of_rocksdb(tmp_path: Path, ids: str) -> None:
    report = tmp_path / "report.json"

    assert forget(str(WORDS), "--keys", ids, "--verify", "--report", str(report)) == 1

    found = report_of(report)["verified"]
    assert found["proven"] is False
    assert found["rows"] == [{"table": "aggregate__count", "rows": 1}]
    assert {(one["number"], one["where"]) for one in found["bytes"]} == {(0, "entries of the SST file")}


def test_bytes_that_a_write_left_behind_go(
    tmp_path: Path, ids: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(FLINK / "wordcount-hashmap-savepoints/canonical")
    assert main(["write", source, f"DELETE KEY '{_ID}'", "--to", str(tmp_path / "deleted")]) == 0
    capsys.readouterr()

    assert forget(str(tmp_path / "deleted"), "--keys", ids, "--verify") == 1
    shown = capsys.readouterr().out
    new = str(tmp_path / "new")
    assert forget(str(tmp_path / "deleted"), "--to", new, "--keys", ids, "--verify", "--allow-empty") == 0

    assert "left: id 1 as UTF-8, once, in " in shown
    assert "not proven: " in shown
    assert "nothing of the ids is left: " in capsys.readouterr().out


def test_an_id_too_short_for_a_search_of_bytes_proves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "short.csv").write_text("key\nk1\n")
    short, new = str(tmp_path / "short.csv"), str(tmp_path / "new")

    assert forget(str(KINDS), "--to", new, "--keys", short, "--verify") == 1

    shown = capsys.readouterr().out
    assert "left: " not in shown
    assert "not searched as bytes: 1 id, too short; their rows were looked for" in shown
    assert "not proven: " in shown
    assert main(["lookup", new, "k1"]) == 1


def test_only_a_first_line_key_is_a_header(tmp_path: Path) -> None:
    source = created(
        tmp_path / "source",
        "CREATE TABLE op__one AS SELECT k AS key, 1 AS value FROM (VALUES ('id'), ('key'), ('alice-1'), ('erin-1')) AS t(k)",
    )
    left = {}
    for header in ("id", "key"):
        (tmp_path / "ids.csv").write_text(f"{header}\nalice-1\n")
        savepointdb.forget(source, str(tmp_path / header), str(tmp_path / "ids.csv"))
        with savepointdb.connect(str(tmp_path / header)) as new:
            left[header] = new.sql("SELECT key FROM op__one ORDER BY key").fetchall()

    assert left == {"id": [("erin-1",), ("key",)], "key": [("erin-1",), ("id",), ("key",)]}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_a_planted_leftover_is_found(
    encoding: str, tmp_path: Path, ids: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(KINDS, tmp_path / "planted")
    (tmp_path / "planted/raw").write_bytes(b"\0" * 999 + "nobody-has-this".encode(encoding) + b"\0")

    assert forget(str(tmp_path / "planted"), "--keys", ids, "--verify") == 1

    assert "once, in raw (file), at 999" in capsys.readouterr().out


def test_rows_and_entries_whose_column_has_an_id_go(tmp_path: Path, ids: str) -> None:
    masks = tmp_path / "groups.toml"
    masks.write_text(
        'version = 1\n[group.customer]\ncolumns = ["kinds__map.value", "broadcast__rules.value.f1"]\n'
    )
    Path(ids).write_text("text-2\nb1\n")
    new = str(tmp_path / "new")

    told = savepointdb.forget(
        str(KINDS), new, ids, group=["customer"], masks=str(masks), verify=True
    ).to_dict()

    rows = {one["table"]: one["text"] for one in told["removed"]}
    count = "SELECT count(*) FROM kinds__map WHERE value = 'text-2'"
    assert savepointdb.connect(new).sql(count).fetchall() == [(0,)]
    [(before,)] = savepointdb.connect(str(KINDS)).sql(count).fetchall()
    assert rows["kinds__map"] == f"{before} rows of kinds__map removed, by value"
    assert told["verified"]["rows"] == []


@pytest.mark.parametrize("kind", ["canonical", "native"])
@pytest.mark.parametrize(
    ("column", "one_id", "removed", "left"),
    [
        (
            "events__last-numbers.value.f0",
            "k1",
            1,
            [("k0", 0, 0), ("k2", 1, 0), ("k3", 0, 1), ("k4", 2, 0), ("k5", 1, 1)],
        ),
        ("events__readers.value", "reader-0", 1, [("reader-1", 0, 1)]),
        ("broadcast__rules.map_key", "k3", 1, [("k0",), ("k1",), ("k2",), ("k4",), ("k5",)]),
        ("broadcast__rules.value.f1", "rule-3", 6, []),
    ],
)
def test_rows_of_operator_state_go(
    kind: str, column: str, one_id: str, removed: int, left: list[tuple[object, ...]], tmp_path: Path
) -> None:
    table, _, path = column.partition(".")
    shown = path if table.startswith("broadcast") else f"{path}, list_index, _subtask"
    (tmp_path / "groups.toml").write_text(f'version = 1\n[group.customer]\ncolumns = ["{column}"]\n')
    (tmp_path / "ids.csv").write_text(f"{one_id}\n")
    source = FLINK / "everything-rocksdb-savepoints" / kind

    told = savepointdb.forget(
        str(source),
        str(tmp_path / "new"),
        str(tmp_path / "ids.csv"),
        group=["customer"],
        masks=str(tmp_path / "groups.toml"),
        verify=True,
    ).to_dict()

    found = savepointdb.connect(str(tmp_path / "new")).sql(f'SELECT {shown} FROM "{table}" ORDER BY ALL')
    assert found.fetchall() == left
    assert [(one["table"], one["rows"]) for one in told["removed"]] == [(table, removed)]
    assert told["verified"]["rows"] == told["verified"]["bytes"] == told["verified"]["unread"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "{}/new"), "no state has any of the ids"),
        (("--to", "{}/new", "--group", "customer"), "expected group and masks together, found one of them"),
        (("--to", "{}/new", "--keys", "{}/nothing.csv"), "keys: expected a CSV file of keys"),
        ((), "expected DIR, the directory of the new savepoint"),
    ],
)
def test_what_means_nothing_is_refused(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ids.csv").write_text("nobody\n")
    given = [one.format(tmp_path) for one in arguments]

    assert forget(str(KINDS), "--keys", str(tmp_path / "ids.csv"), *given) != 0

    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


_ORDER = (
    "Pojo(com.acme.Order: note String, lines List<Pojo(com.acme.Line: buyer String, tags List<String>)>, "
    "shares Map<String, List<Pojo(com.acme.Share: who String, part Integer)>>)"
)
_ORDERS = (
    "SELECT 'k1' AS key, {'note': 'n', 'lines': [{'buyer': 'alice-1', 'tags': ['x', 'bobby-1']}, {'buyer': 'carol-1', "
    "'tags': ['alice-1']}], 'shares': MAP {'bobby-1': [{'who': 'carol-1', 'part': 1}], 'dave-1': [{'who': 'alice-1', 'part': 2}, "
    "{'who': 'erin-1', 'part': 3}]}} AS value, TIMESTAMP '2026-01-02 03:04:05' AS ttl_timestamp "
    "UNION ALL SELECT 'k2', {'note': 'alice-1', 'lines': NULL, 'shares': MAP {}}, TIMESTAMP '2026-01-02 03:04:05' "
    "UNION ALL SELECT 'k3', {'note': 'bobby-1', 'lines': [{'buyer': 'bobby-1', 'tags': NULL}], 'shares': NULL}, "
    "TIMESTAMP '2026-01-02 03:04:05'"
)


def created(path: Path, script: str) -> str:
    assert main(["create", str(path), script, "--flink", "2.3"]) == 0
    return str(path)


def forget_group(source: str, new: Path, *columns: str) -> dict[str, Any]:
    """Forget `alice-1` and `bobby-1` in columns; return the report, which is proven."""
    (new.parent / "ids.csv").write_text("alice-1\nbobby-1\nnobody-1\n")
    (new.parent / "groups.toml").write_text(
        f"version = 1\n[group.customer]\ncolumns = {json.dumps(columns)}\n"
    )
    told = savepointdb.forget(
        source,
        str(new),
        str(new.parent / "ids.csv"),
        group=["customer"],
        masks=str(new.parent / "groups.toml"),
        verify=True,
    ).to_dict()
    return {name: told[name] for name in ("ids", "held", "removed")} | {"proven": told["verified"]["proven"]}


def test_elements_and_entries_inside_of_values_go(tmp_path: Path) -> None:
    source = created(
        tmp_path / "source",
        f"CREATE TABLE shop__order WITH (ttl = true, value_type = '{_ORDER}') AS {_ORDERS}",
    )

    told = forget_group(
        source,
        tmp_path / "new",
        "shop__order.value.lines.**",
        "shop__order.value.shares.**",
        "shop__order.value.note",
    )

    assert told == {
        "ids": 3,
        "held": 2,
        "proven": True,
        "removed": [
            {
                "table": "shop__order",
                "rows": 2,
                "elements": 4,
                "text": "2 rows of shop__order removed, by value.note; "
                "4 elements inside of 1 row of shop__order removed, by value.lines, value.shares",
            }
        ],
    }
    left = savepointdb.connect(str(tmp_path / "new")).sql(
        "SELECT key, value, ttl_timestamp::VARCHAR FROM shop__order"
    )
    assert left.fetchall() == [
        (
            "k1",
            {
                "lines": [{"buyer": "carol-1", "tags": []}],
                "note": "n",
                "shares": [("dave-1", [{"part": 3, "who": "erin-1"}])],
            },
            "2026-01-02 03:04:05",
        )
    ]


def test_elements_of_lists_of_all_kinds_of_states_go(tmp_path: Path) -> None:
    source = created(
        tmp_path / "source",
        "CREATE TABLE op__plain AS SELECT 'k' AS key, ['alice-1', 'x', 'bobby-1'] AS value;"
        "CREATE TABLE op__listed (key VARCHAR, value VARCHAR[], list_index INTEGER) WITH (kind = 'LIST') AS "
        "SELECT 'k' AS key, ['x', 'alice-1'] AS value, 0 AS list_index UNION ALL SELECT 'k', ['y'], 1;"
        "CREATE TABLE op__mapped WITH (kind = 'MAP') AS SELECT 'k' AS key, 'alice-1' AS map_key, MAP {'bobby-1': 1, 'z': 2} AS value;"
        "CREATE TABLE op__shared WITH (kind = 'BROADCAST') AS SELECT 'r' AS map_key, ['bobby-1', 'w'] AS value;"
        "CREATE TABLE op__split WITH (kind = 'OPERATOR_LIST') AS SELECT ['alice-1'] AS value",
    )

    told = forget_group(source, tmp_path / "new", "op__*.value.**")

    assert told["proven"] is False  # the map key is in no column of the group
    assert {one["table"]: (one["rows"], one["elements"]) for one in told["removed"]} == {
        "op__plain": (0, 2),
        "op__listed": (0, 1),
        "op__mapped": (0, 1),
        "op__shared": (0, 1),
        "op__split": (0, 1),
    }
    new = savepointdb.connect(str(tmp_path / "new"))
    assert new.sql("SELECT key, value FROM op__plain").fetchall() == [("k", ["x"])]
    assert new.sql("SELECT list_index, value FROM op__listed ORDER BY ALL").fetchall() == [
        (0, ["x"]),
        (1, ["y"]),
    ]
    assert new.sql("SELECT map_key, value FROM op__mapped").fetchall() == [("alice-1", [("z", 2)])]
    assert new.sql("SELECT map_key, value FROM op__shared").fetchall() == [("r", ["w"])]
    assert new.sql("SELECT value FROM op__split").fetchall() == [([],)]


def test_a_value_that_would_lose_other_bytes_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = created(
        tmp_path / "source", "CREATE TABLE op__list AS SELECT 'k' AS key, ['alice-1', '一'] AS value"
    )
    half_a_pair = b"\x02\x80\xb0\x03"  # U+D800, which no column of text can hold
    for file in Path(source).iterdir():
        file.write_bytes(file.read_bytes().replace(b"\x02\x80\x9c\x01", half_a_pair))

    with pytest.raises(
        savepointdb.QueryError, match="list, key 'k': expected a value whose columns hold all of its bytes"
    ):
        forget_group(source, tmp_path / "new", "op__list.value")

    assert not (tmp_path / "new").exists()


_NUMBERS = (
    "CREATE TABLE long__one AS SELECT n AS key, [n, n + 70000] AS value FROM (VALUES (0::BIGINT), (1), (5), (70001)) AS t(n);"
    "CREATE TABLE text__one AS SELECT n AS key, n AS value FROM (VALUES ('0'), ('01'), ('+5'), ('0070001')) AS t(n)"
)


def test_an_id_is_a_number_by_its_own_text_alone(tmp_path: Path) -> None:
    source = created(tmp_path / "source", _NUMBERS)
    (tmp_path / "ids.csv").write_text("01\n00\n+5\n0070001\n")

    told = savepointdb.forget(source, str(tmp_path / "new"), str(tmp_path / "ids.csv"), verify=True).to_dict()

    new = savepointdb.connect(str(tmp_path / "new"))
    assert new.sql("SELECT key FROM long__one ORDER BY key").fetchall() == [(0,), (1,), (5,), (70001,)]
    assert new.sql("SELECT key FROM text__one").fetchall() == [("0",)]
    assert told["held"] == 3
    assert told["verified"]["rows"] == told["verified"]["bytes"] == []


def test_elements_are_numbers_by_their_own_texts_alone(tmp_path: Path) -> None:
    source = created(tmp_path / "source", _NUMBERS)
    (tmp_path / "ids.csv").write_text("01\n5\n070000\n70001\n")
    (tmp_path / "groups.toml").write_text(
        'version = 1\n[group.customer]\ncolumns = ["long__one.value", "text__one.value"]\n'
    )

    savepointdb.forget(
        source,
        str(tmp_path / "new"),
        str(tmp_path / "ids.csv"),
        group=["customer"],
        masks=str(tmp_path / "groups.toml"),
    )

    new = savepointdb.connect(str(tmp_path / "new"))
    assert new.sql("SELECT key, value FROM long__one ORDER BY key").fetchall() == [
        (0, [0, 70000]),
        (1, [1]),
        (5, [70005]),
        (70001, [140001]),
    ]
    assert new.sql("SELECT key FROM text__one ORDER BY key").fetchall() == [("+5",), ("0",), ("0070001",)]
