"""`savepointdb create`: states of jobs that never ran, from queries and files."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

import catalog
from readers import Savepoint
from service.cli import main
from tests.support.paths import DATA

WORDCOUNT = DATA / "flink/2.3.0/wordcount-hashmap-savepoints/canonical"
TABLE = pa.table({"word": ["a", "b", "c"], "n": [1, 2, 3]})
Create = Callable[..., tuple[int, str, str]]


@pytest.fixture
def create(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Create:
    """Returns a function that runs `savepointdb create`: code, output, errors."""

    def created(script: str, *options: str) -> tuple[int, str, str]:
        code = main(["create", str(tmp_path / "new"), script, *options])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return created


def rows(path: Path, table: str, *columns: str) -> list[tuple[Any, ...]]:
    found = catalog.connect(str(path)).table(table).scan(list(columns)).to_arrow()
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def test_a_table_of_parquet_becomes_a_state(tmp_path: Path, create: Create) -> None:
    parquet.write_table(TABLE, tmp_path / "counts.parquet", row_group_size=2)

    code, output, errors = create(
        "CREATE TABLE aggregate__count (key VARCHAR, value BIGINT) WITH (kind = 'VALUE', operator_uid = 'aggregate') "
        f"AS SELECT word, n * 10 FROM '{tmp_path}/counts.parquet' WHERE n > 1",
        *("--flink", "2.3"),
    )

    assert (code, errors) == (0, "")
    assert output == (
        "aggregate__count is created with 2 rows: state 'count' of kind VALUE (key String, value Long) of the new operator with "
        f"uid 'aggregate'\n1 operator, 1 file with {_file_bytes(tmp_path)} bytes\nwritten: {tmp_path / 'new'}\n"
        "checked: Flink 2.3 with hashmap restores it with the same values; rocksdb alike\n"
        f"restore it: flink run -s {tmp_path / 'new'} …\n"
    )
    assert rows(tmp_path / "new", "aggregate__count", "key", "value") == [("b", 20), ("c", 30)]


@pytest.mark.parametrize(
    ("options", "version", "uid"),
    [
        (("--flink", "2.3"), 6, "aggregate"),
        (("--flink", "2.0.1"), 5, "aggregate"),
        (("--flink", "1.20"), 3, None),
        ((), 3, None),
    ],
)
def test_metadata_has_the_uid_where_flink_reads_it(
    options: tuple[str, ...], version: int, uid: str | None, tmp_path: Path, create: Create
) -> None:
    code, _, errors = create(
        "CREATE TABLE aggregate__count AS SELECT 'a' AS key, 1::BIGINT AS value", *options
    )

    assert (code, errors) == (0, "")
    metadata = Savepoint(tmp_path / "new").metadata
    assert metadata.version == version
    assert [(one.uid, one.name) for one in metadata.operators] == [(uid, uid)]
    assert rows(tmp_path / "new", "aggregate__count", "key", "value") == [("a", 1)]


@pytest.mark.parametrize(
    ("flink", "message"),
    [("two", "expected a version of Flink"), ("1.5", "expected Flink 1.11 or later, found 1.5")],
)
def test_no_savepoint_is_made_for_a_flink_that_reads_none(
    flink: str, message: str, tmp_path: Path, create: Create
) -> None:
    code, _, errors = create("CREATE TABLE a__b AS SELECT 'a' AS key, 1 AS value", "--flink", flink)

    assert code == 1
    assert message in errors
    assert not (tmp_path / "new").exists()


def _file_bytes(tmp_path: Path) -> int:
    return sum(path.stat().st_size for path in (tmp_path / "new").iterdir() if path.name != "_metadata")


def test_files_of_other_formats_are_tables_too(tmp_path: Path, create: Create) -> None:
    csv.write_csv(TABLE, tmp_path / "a.csv")
    feather.write_feather(TABLE, str(tmp_path / "b.arrow"))
    (tmp_path / "c.jsonl").write_text('{"word": "x", "n": 7}\n{"word": "y", "n": 8}\n')

    code, _, errors = create(
        f"CREATE TABLE op__first AS SELECT word AS key, n AS value FROM '{tmp_path}/a.csv';"
        f"CREATE TABLE op__second AS SELECT b.word AS key, b.n + a.n AS value FROM '{tmp_path}/b.arrow' b "
        f"JOIN '{tmp_path}/a.csv' AS a ON a.word = b.word;"
        f"CREATE TABLE op__third AS SELECT word AS key, n AS value FROM '{tmp_path}/c.jsonl'"
    )

    assert (code, errors) == (0, "")
    new = tmp_path / "new"
    assert rows(new, "op__first", "key", "value") == [("a", 1), ("b", 2), ("c", 3)]
    assert rows(new, "op__second", "key", "value") == [("a", 2), ("b", 4), ("c", 6)]
    assert rows(new, "op__third", "key", "value") == [("x", 7), ("y", 8)]


def test_another_savepoint_is_a_source(tmp_path: Path, create: Create) -> None:
    code, _, errors = create(
        "CREATE TABLE totals__sum AS SELECT key, value * 2 AS value FROM other.aggregate WHERE key < 'key_11'",
        *("--savepoint", f"other={WORDCOUNT}", "--parallelism", "3", "--max-parallelism", "300"),
    )

    assert (code, errors) == (0, "")
    found = rows(tmp_path / "new", "totals__sum", "key", "value")
    before = catalog.connect(str(WORDCOUNT)).table("aggregate").scan(["key", "value"]).to_arrow().to_pylist()
    assert found == sorted((row["key"], row["value"] * 2) for row in before if row["key"] < "key_11")
    operators = catalog.connect(str(tmp_path / "new")).table("operators").scan().to_arrow().to_pylist()
    assert [(row["operator_parallelism"], row["operator_max_parallelism"]) for row in operators] == [(3, 300)]


def test_kinds_and_types_are_named_as_in_flink(tmp_path: Path, create: Create) -> None:
    code, _, errors = create(
        "CREATE TABLE kinds__list (key VARCHAR, value INTEGER, list_index INTEGER) WITH (kind = 'LIST') "
        "AS VALUES ('a', 3, 2), ('a', 1, 0), ('b', 9, 0), ('a', 2, 1);"
        "CREATE TABLE kinds__map WITH (kind = 'map', value_type = 'Pojo(com.acme.P: x Int, y String)') "
        "AS SELECT 'a' AS key, 1::BIGINT AS map_key, {'x': 5, 'y': 'z'} AS value;"
        "CREATE TABLE kinds__expiring WITH (ttl = true) AS SELECT 'a' AS key, 1.5::DOUBLE AS value;"
        "CREATE TABLE kinds__windows WITH (kind = 'REDUCING', namespace_type = 'TimeWindow') AS SELECT 'a' AS key, "
        "{'start': TIMESTAMP '2020-01-01', 'end': TIMESTAMP '2020-01-02'} AS namespace, 5::BIGINT AS value;"
        "CREATE TABLE kinds__timers (key VARCHAR, \"timestamp\" TIMESTAMP) WITH (kind = 'TIMER', "
        "state = '_timer_state/event_user-timers') AS VALUES ('a', TIMESTAMP '2030-01-01');"
        "CREATE TABLE source__offsets WITH (kind = 'OPERATOR_LIST', value_type = 'Tuple3<String, Integer, Long>') "
        "AS SELECT {'topic': 'words', 'partition': p::INTEGER, 'offset': 100 + p} AS value FROM range(4) t(p);"
        "CREATE TABLE rules__rules WITH (kind = 'BROADCAST') AS SELECT 'r' AS map_key, 1 AS value"
    )

    assert (code, errors) == (0, "")
    new = tmp_path / "new"
    assert rows(new, "kinds__list", "key", "list_index", "value") == [
        ("a", 0, 1),
        ("a", 1, 2),
        ("a", 2, 3),
        ("b", 0, 9),
    ]
    assert rows(new, "kinds__map", "map_key", "value") == [(1, {"x": 5, "y": "z"})]
    assert rows(new, "kinds__expiring", "value") == [(1.5,)]
    assert rows(new, "timers", "key", "timestamp") == [("a", datetime.datetime(2030, 1, 1))]
    assert len(rows(new, "source__offsets", "value")) == 4
    meta = catalog.connect(str(new)).table("StateMeta").scan().to_arrow().to_pylist()
    assert {
        row["state_name"]: (row["state_kind"], row["value_type"], row["decode_status"]) for row in meta
    } == {
        "list": ("LIST", "Integer", "decoded"),
        "map": ("MAP", "com.acme.P", "decoded"),
        "expiring": ("VALUE", "Double", "decoded"),
        "windows": ("REDUCING", "Long", "decoded"),
        "_timer_state/event_user-timers": ("TIMER", None, "decoded"),
        "offsets": ("OPERATOR_LIST", "Tuple3<String, Integer, Long>", "decoded"),
        "rules": ("BROADCAST", "Integer", "decoded"),
    }


def test_fields_of_a_row_without_names_stand_in_order(tmp_path: Path, create: Create) -> None:
    code, _, errors = create(
        "CREATE TABLE a__s (key VARCHAR, value STRUCT(n BIGINT, t VARCHAR)) AS SELECT 'k', ROW(1, 'x')"
    )

    assert (code, errors) == (0, "")
    assert rows(tmp_path / "new", "a__s", "key", "value") == [("k", {"f0": 1, "f1": "x", "__row_kind": "+I"})]


def test_elements_of_lists_stand_at_their_indexes(tmp_path: Path, create: Create) -> None:
    query = "AS SELECT 'k' || n % 2 AS key, 10 * n AS value, 2 - n // 2 AS list_index FROM range(6) t(n)"
    code, _, errors = create(
        f"CREATE TABLE a__listed (key VARCHAR, value BIGINT, list_index INT) WITH (kind = 'LIST') {query};"
        f"CREATE TABLE a__unlisted WITH (kind = 'list') {query}"
    )

    assert (code, errors) == (0, "")
    expected = [("k0", 0, 40), ("k0", 1, 20), ("k0", 2, 0), ("k1", 0, 50), ("k1", 1, 30), ("k1", 2, 10)]
    for table in ("a__listed", "a__unlisted"):
        assert rows(tmp_path / "new", table, "key", "list_index", "value") == expected


@pytest.mark.parametrize(
    ("indexes", "message"),
    [
        ("(-1), (0)", "expected the list_index 0, found -1"),
        ("(0), (2)", "expected the list_index 1, found 2"),
        ("(0), (0)", "expected the list_index 1, found 0"),
    ],
)
def test_an_index_that_a_list_does_not_have_is_refused(
    indexes: str, message: str, tmp_path: Path, create: Create
) -> None:
    code, _, errors = create(
        f"CREATE TABLE a__list WITH (kind = 'LIST') AS SELECT 'k' AS key, 1 AS value, list_index FROM (VALUES {indexes}) t(list_index)"
    )

    assert code == 1
    assert f"key k: {message}" in errors
    assert not (tmp_path / "new").exists()


def test_a_dry_run_writes_nothing(tmp_path: Path, create: Create) -> None:
    code, output, _ = create("CREATE TABLE a__b AS SELECT 1 AS key, 2 AS value", "--dry-run")

    assert code == 0
    assert output.startswith(
        "a__b is created with 1 row: state 'b' of kind VALUE (key Integer, value Integer)"
    )
    assert output.endswith("nothing was written: a dry run\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("CREATE TABLE a AS SELECT 1 AS key, 2 AS value", "expected a table named operator__state"),
        ("CREATE TABLE a__b AS SELECT 1 AS key", "found no value"),
        ("CREATE TABLE a__b AS SELECT 1 AS key, 2 AS value, 3 AS x", "expected the columns key, value"),
        ("CREATE TABLE a__b (key INT) AS SELECT 1, 2", "columns"),
        (
            "CREATE TABLE a__b WITH (kind = 'X') AS SELECT 1 AS key, 2 AS value",
            "expected one of the kinds VALUE",
        ),
        (
            "CREATE TABLE a__b WITH (colour = 'X') AS SELECT 1 AS key, 2 AS value",
            "there is no option 'colour'",
        ),
        (
            "CREATE TABLE a__b WITH (value_type = 'Lon') AS SELECT 1 AS key, 2 AS value",
            "value_type: expected a type",
        ),
        (
            "CREATE TABLE a__b WITH (map_key_type = 'Long') AS SELECT 1 AS key, 2 AS value",
            "no column map_key",
        ),
        ("CREATE TABLE a__b WITH (parallelism = 200) AS SELECT 1 AS key, 2 AS value", "found 128 and 200"),
        ("CREATE TABLE a__b WITH (ttl = 7) AS SELECT 1 AS key, 2 AS value", "expected true or false for ttl"),
        (
            "CREATE TABLE a__b AS SELECT 1 AS key, 2::UBIGINT AS value",
            "expected a column whose type Flink has",
        ),
        ("CREATE TABLE a__b AS SELECT NULL::INT AS key, 2 AS value", "key: expected a value, found NULL"),
        ("CREATE TABLE a__b AS VALUES (1, 2)", "expected the columns key, value"),
        ("CREATE TABLE a__b (key INT, value INT) AS VALUES (1, 2), (1, 3)", "expected each key once in b"),
        (
            "CREATE TABLE a__b AS SELECT [1] AS key, 2 AS value FROM 'missing.csv'",
            "expected a file, found none",
        ),
        (
            "CREATE TABLE a__b AS SELECT 1 AS key, 2 AS value FROM '/etc/passwd'",
            "expected a file with one of",
        ),
        ("CREATE TABLE a__b AS SELECT * FROM read_csv('/etc/passwd')", "read_csv"),
        ("CREATE TABLE a__b AS COPY x TO 'y'", "Expecting"),
        ("CREATE TABLE a__b", "expected AS, found the end"),
        (
            "CREATE TABLE a__b AS SELECT 1 AS key, 2 AS value; CREATE TABLE a__b AS SELECT 1 AS key, 2 AS value",
            "which the script creates already",
        ),
        (
            "CREATE TABLE a__b AS SELECT 1 AS key, 2 AS value; CREATE TABLE a__c AS SELECT 'x' AS key, 2 AS value",
            "expected keys of one type in all states of 'a', found Integer in 'b' and String in 'c'",
        ),
        (
            "CREATE TABLE a__b AS SELECT 1 AS key, 2 AS value; "
            "CREATE TABLE a__c WITH (max_parallelism = 7) AS SELECT 1 AS key, 2 AS value",
            "expected parallelism 1 and max_parallelism 128 in all states of 'a'",
        ),
        (
            "CREATE TABLE a__b WITH (parallelism = 4097, max_parallelism = 32768) AS SELECT 1 AS key, 2 AS value",
            "a: expected a parallelism of at most 4,096 in a new savepoint, found 4,097",
        ),
    ],
)
def test_a_wrong_statement_is_refused_and_nothing_is_written(
    tmp_path: Path, create: Create, script: str, message: str
) -> None:
    code, output, errors = create(script)

    assert code != 0
    assert message in errors
    assert output == ""
    assert list(tmp_path.iterdir()) == []


def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, create: Create) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1 nothing of the kind PAR1")

    code, _, errors = create(f"CREATE TABLE a__b AS SELECT * FROM '{tmp_path}/x.parquet'")

    assert code != 0
    assert "x.parquet" in errors


def test_write_adds_operators_and_reads_other_savepoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = DATA / "flink/1.20.3/everything-rocksdb-savepoints/canonical"

    code = main(
        [
            *("write", str(WORDCOUNT), "--to", str(tmp_path / "new"), "--savepoint", f"other={everything}"),
            "CREATE TABLE totals__sum AS SELECT a.key, a.value + (SELECT count(*) FROM other.operators) AS value "
            "FROM aggregate a WHERE a.key = 'key_662'",
        ]
    )

    assert (code, capsys.readouterr().err) == (0, "")
    count = len(rows(everything, "operators", "operator_uid"))
    assert rows(tmp_path / "new", "totals__sum", "key", "value") == [("key_662", 11290 + count)]
    assert rows(tmp_path / "new", "aggregate", "key") == rows(WORDCOUNT, "aggregate", "key")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("kind", ["canonical", "native"])
def test_write_adds_states_to_an_operator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], backend: str, kind: str
) -> None:
    source = DATA / f"flink/1.20.3/wordcount-{backend}-savepoints/{kind}"

    code = main(
        [
            *("write", str(source), "--to", str(tmp_path / "new")),
            "CREATE TABLE aggregate__twice AS SELECT key, 2 * value AS value FROM aggregate WHERE value > 100;"
            "CREATE TABLE aggregate__words (key VARCHAR, value VARCHAR) WITH (kind = 'LIST') "
            "AS VALUES ('key_1', 'a'), ('new', 'b'), ('key_1', 'c');"
            "CREATE TABLE aggregate__rules WITH (kind = 'BROADCAST') AS SELECT 'r' AS map_key, 1::BIGINT AS value;"
            "CREATE TABLE source__names WITH (kind = 'UNION_LIST') AS SELECT 'x' AS value;"
            "CREATE TABLE source__keyed AS SELECT 1::BIGINT AS key, 2::BIGINT AS value;"
            "ALTER TABLE aggregate RENAME TO 'counts'",
        ]
    )

    assert (code, capsys.readouterr().err) == (0, "")
    new = tmp_path / "new"
    before = rows(source, "aggregate__count", "key", "value")
    assert rows(new, "counts__count", "key", "value") == before
    assert rows(new, "counts__twice", "key", "value") == [
        (key, 2 * value) for key, value in before if value > 100
    ]
    assert rows(new, "counts__words", "key", "list_index", "value") == [
        ("key_1", 0, "a"),
        ("key_1", 1, "c"),
        ("new", 0, "b"),
    ]
    assert rows(new, "counts__rules", "map_key", "value") == [("r", 1)]
    assert rows(new, "source__names", "value") == [("x",)]
    assert rows(new, "source__keyed", "key", "value") == [(1, 2)]
    assert rows(new, "source_offsets", "topic", "partition", "starting_offset") == rows(
        source, "source_offsets", "topic", "partition", "starting_offset"
    )


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "CREATE TABLE aggregate__count AS SELECT 'a' AS key, 1 AS value",
            "expected states of different names, found count, count",
        ),
        (
            "CREATE TABLE aggregate__x AS SELECT 1 AS key, 1 AS value",
            "expected keys of type String in the new state x, as the states of the operator have, found others",
        ),
        (
            "CREATE TABLE aggregate__x WITH (max_parallelism = 256) AS SELECT 'a' AS key, 1 AS value",
            "expected parallelism 2 and max_parallelism 128 in all states of 'aggregate'",
        ),
    ],
)
def test_a_state_that_does_not_fit_its_operator_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str, message: str
) -> None:
    assert main(["write", str(WORDCOUNT), "--to", str(tmp_path / "new"), script]) != 0

    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_states_are_created_changed_and_dropped_in_one_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (
        "UPDATE aggregate__count SET value = 0 WHERE key = 'key_662';"
        "CREATE TABLE aggregate__copy AS SELECT key, value FROM aggregate__count WHERE key IN ('key_662', 'key_1');"
        "DROP TABLE source; CREATE TABLE source__names WITH (kind = 'OPERATOR_LIST') AS SELECT 'x' AS value"
    )

    assert main(["write", str(WORDCOUNT), "--to", str(tmp_path / "new"), script]) == 0, (
        capsys.readouterr().err
    )

    new = tmp_path / "new"
    assert rows(new, "aggregate__copy", "key", "value") == [
        row for row in rows(new, "aggregate__count", "key", "value") if row[0] in ("key_662", "key_1")
    ]
    assert ("key_662", 0) in rows(new, "aggregate__copy", "key", "value")
    assert rows(new, "source__names", "value") == [("x",)]


@pytest.mark.parametrize(
    "second",
    [
        "CREATE TABLE a__c AS SELECT key, value FROM a__b",
        "UPDATE a__b SET value = 3",
        "DELETE FROM a__b",
        "INSERT INTO a__b VALUES (5, 6)",
    ],
)
def test_a_table_that_a_script_creates_is_not_read_or_changed_by_it(
    tmp_path: Path, create: Create, second: str
) -> None:
    code, _, errors = create(f"CREATE TABLE a__b AS SELECT 1 AS key, 2 AS value; {second}")

    assert code != 0
    assert "an earlier statement creates 'a__b': read or change its rows in a script of their own" in errors
    assert list(tmp_path.iterdir()) == []
