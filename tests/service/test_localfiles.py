"""Files of this machine in FROM: for those who may read any file here, and for nobody who asks over the network."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from service.cli import main
from tests.support.agents import Agent
from tests.support.paths import DATA

NATIVE = str(DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "native")
WORDS = pa.table({"key": ["key_662", "key_1", "none"], "n": pa.array([7, 8, 9], pa.int64())})
REFUSAL = "reading files is not allowed"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the same rows in a file of each kind."""
    monkeypatch.chdir(tmp_path)
    csv.write_csv(WORDS, tmp_path / "words.csv")
    parquet.write_table(WORDS, tmp_path / "words.parquet", row_group_size=1)
    feather.write_feather(WORDS, tmp_path / "words.arrow", compression="uncompressed")
    with pa.ipc.new_stream(tmp_path / "stream.arrow", WORDS.schema) as stream:
        stream.write_table(WORDS)
    lines = [json.dumps(row) for row in WORDS.to_pylist()]
    (tmp_path / "words.jsonl").write_text("\n".join(lines))
    return tmp_path


@pytest.fixture
def query(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs `savepointdb query`, with CSV of its rows."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["query", "--savepoint", NATIVE, "--format", "csv", "--no-cache", *arguments])
        return code, *capsys.readouterr()

    return call


@pytest.mark.parametrize("name", ["words.csv", "words.parquet", "words.arrow", "stream.arrow", "words.jsonl"])
def test_a_file_is_joined_with_a_state(
    folder: Path, query: Callable[..., tuple[int, str, str]], name: str
) -> None:
    sql = f"SELECT a.key, value, words.n FROM aggregate a JOIN '{name}' words USING (key) ORDER BY value"

    assert query(sql) == (0, '"key","value","n"\r\n"key_1",38,8\r\n"key_662",11290,7\r\n', "")


def test_a_condition_of_a_join_with_a_file_prunes_the_state(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sql = "EXPLAIN SELECT value FROM 'words.csv' w JOIN aggregate a ON a.key = w.key WHERE w.key = 'key_662'"

    assert main(["query", "--savepoint", NATIVE, "--no-cache", sql]) == 0
    assert "1 of 128 key groups" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("FROM 'words.parquet' ORDER BY n LIMIT 1", '"key","n"\r\n"key_662",7\r\n'),
        ("SELECT sum(n) AS n FROM 'words.parquet'", '"n"\r\n24\r\n'),
        ("DESCRIBE 'words.csv'", None),
        ("SUMMARIZE 'words.csv'", None),
        ("WITH w AS (FROM 'words.csv') SELECT count(*) AS n FROM w", '"n"\r\n3\r\n'),
        ("SELECT value FROM aggregate WHERE key IN (SELECT key FROM 'words.csv' WHERE n = 7)", None),
    ],
)
def test_a_file_stands_wherever_a_table_may(
    folder: Path, query: Callable[..., tuple[int, str, str]], sql: str, rows: str | None
) -> None:
    code, output, _ = query(sql)

    assert code == 0
    assert rows is None or output == rows


def test_columns_without_a_name_of_their_own_get_the_one_of_duckdb(
    folder: Path, query: Callable[..., tuple[int, str, str]]
) -> None:
    # pandas writes the index first, without a name.
    (folder / "odd.csv").write_text(",a,A,a_1\n0,1,2,3\n")

    assert query("FROM 'odd.csv'")[1] == '"column0","a","A_1","a_1_1"\r\n0,1,2,3\r\n'
    assert query("SELECT A_1 AS one, a_1_1 AS other FROM 'odd.csv' WHERE column0 = 0")[1] == (
        '"one","other"\r\n2,3\r\n'
    )


@pytest.mark.parametrize(
    ("sql", "code", "message"),
    [
        ("SELECT 1 FROM 'none.csv'", 3, "line 1, column 15: expected a file, found none (none.csv)"),
        ("SELECT 1 FROM '/etc/passwd'", 1, "expected a file with one of the endings .parquet, .csv"),
        ("SELECT x FROM 'words.csv'", 1, "line 1, column 8: there is no column 'x'"),
        ("FROM 'list.json'", 3, "each line must be one JSON object"),
        ("FROM 'list.arrow'", 3, "damaged or incomplete: expected rows: "),
        ("FROM 'empty.arrows'", 3, "damaged or incomplete: expected rows: "),
        ("SELECT 1 FROM read_csv('words.csv')", 1, "reading from read_csv() is not allowed"),
        ('SELECT 1 FROM "words.csv"', 1, "there is no table 'words.csv'"),
    ],
)
def test_what_cannot_be_read_says_why(
    folder: Path, query: Callable[..., tuple[int, str, str]], sql: str, code: int, message: str
) -> None:
    (folder / "list.json").write_text('[{"a": 1}]')
    (folder / "list.arrow").write_text('[{"a": 1}]')
    (folder / "empty.arrows").touch()

    found = query(sql)

    assert found[0] == code
    assert message in found[2]


def test_the_shell_reads_files(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT sum(n) AS n FROM 'words.csv';"))

    assert main([NATIVE, "--format", "csv"]) == 0
    assert capsys.readouterr().out == '"n"\r\n24\r\n'


def test_a_saved_query_reads_no_file(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "saved.toml").write_text("[queries.words]\nsql = \"SELECT count(*) FROM 'words.csv'\"\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO(".run words\n"))

    code = main(["query", "--saved", "words", "--saved-queries", "saved.toml", "--savepoint", NATIVE])

    assert (code, REFUSAL in capsys.readouterr().err) == (1, True)
    assert main([NATIVE, "--saved-queries", "saved.toml"]) == 1
    assert REFUSAL in capsys.readouterr().err


def test_a_rule_reads_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "rules.toml").write_text('[[rule]]\nname = "words"\nsql = "SELECT * FROM \'words.csv\'"\n')

    assert main(["test", "rules.toml", NATIVE]) == 2
    assert REFUSAL in capsys.readouterr().out


def test_a_bisection_reads_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT a.key, n FROM aggregate a JOIN 'words.csv' USING (key) WHERE value > 11000"

    assert main(["bisect", NATIVE, sql]) == 0
    assert "key_662  7" in capsys.readouterr().out


def test_nobody_reads_files_over_the_network(folder: Path, client: httpx.Client) -> None:
    sql = f"SELECT * FROM '{folder}/words.csv'"

    answers = [
        client.post("/api/query", json={"sql": sql}),
        client.post("/api/query", json={"sql": sql, "database": "native"}),
        client.get("/db", params={"sql": sql}),
        client.get("/db/native.csv", params={"sql": sql}),
        client.get(
            "/db/native/aggregate", params={"where": f"key IN (SELECT key FROM '{folder}/words.csv')"}
        ),
    ]
    agent = Agent(client).call("query", sql=sql, database="native")
    trino = client.post("/v1/statement", content=sql.encode(), headers={"X-Trino-User": "test"}).json()
    while "nextUri" in trino:
        trino = client.get(trino["nextUri"]).json()

    assert [(one.status_code, one.json()["error"]["code"]) for one in answers[:4]] == [(403, "FORBIDDEN")] * 4
    assert answers[4].status_code in (400, 403)
    assert (agent["isError"], REFUSAL in json.dumps(agent)) == (True, True)
    assert "error" in trino
    assert "key_1" not in "".join([*(one.text for one in answers), json.dumps(agent), json.dumps(trino)])
