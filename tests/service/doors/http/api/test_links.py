"""`GET /db/…`: addresses that pandas, Arrow, DuckDB and a browser read, and what keeps them from costing or leaking."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pandas as pd
import pyarrow as pa
import pytest
from fastapi import FastAPI
from pyarrow import parquet

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.doors.app import create_app
from service.doors.http.api.links.answers import CHANGING
from tests.support.paths import DATA

Serving = Callable[[FastAPI], AbstractContextManager[str]]
FLINK = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints"
KEY = "/db/native/aggregate.csv?key=key_662&columns=key,value"
ELSEWHERE = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}


def answered(client: httpx.Client, link: str, **request: Any) -> httpx.Response:
    answer = client.get(link, **request)
    assert answer.status_code == 200, answer.text
    return answer


def refused(client: httpx.Client, link: str, **request: Any) -> tuple[int, str]:
    answer = client.get(link, **request)
    return answer.status_code, answer.json()["error"]["code"]


def test_a_link_to_a_key_is_read_by_pandas(client: httpx.Client) -> None:
    frame = pd.read_csv(f"{client.base_url}{KEY}")

    assert frame.to_dict("records") == [{"key": "key_662", "value": 11290}]


def test_all_formats_have_the_rows_of_the_table(client: httpx.Client) -> None:
    body = {"sql": "SELECT * FROM native.aggregate ORDER BY key"}
    expected = client.post("/api/query", json=body).json()["rows"]

    def rows(table: pa.Table) -> list[list[Any]]:
        return [list(row.values()) for row in table.sort_by("key").to_pylist()]

    link = "/db/native/aggregate"
    assert sorted(answered(client, link).json()["rows"], key=lambda row: row[1]) == expected
    assert answered(client, link).headers["content-type"] == "application/json"
    assert rows(parquet.read_table(io.BytesIO(answered(client, f"{link}.parquet").content))) == expected
    for suffix in ("arrow", "arrows"):
        assert rows(pa.ipc.open_stream(answered(client, f"{link}.{suffix}").content).read_all()) == expected
    lines = pd.read_json(io.BytesIO(answered(client, f"{link}.jsonl").content), lines=True)
    assert len(lines) == len(pd.read_csv(f"{client.base_url}{link}.csv")) == len(expected)
    accepted = answered(client, link, headers={"accept": "text/csv"})
    assert accepted.headers["content-disposition"] == 'attachment; filename="aggregate.csv"'


def test_columns_whose_names_need_quotes_have_conditions(serving: Serving) -> None:
    root = Root(path=str(FLINK.parent / "everything-rocksdb-savepoints"))
    with (
        serving(create_app(Settings.of(workers=1), Catalog([root]))) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        link = "/db/native/kinds__wide.json"
        number = answered(client, link, params={"ttl-value": "3", "columns": "key"}).json()["rows"]
        plain = client.get(link, params={"where": '"ttl-value" = 3', "columns": "key"}).json()["rows"]

        assert sorted(number) == sorted(plain)
        assert len(plain) == 6
        for key, entries in answered(client, link, params={"columns": "key,map"}).json()["rows"][:3]:
            found = answered(client, link, params={"map": json.dumps(entries), "columns": "key"})
            assert [key] in found.json()["rows"]


def test_duckdb_reads_the_bytes_of_a_link(client: httpx.Client, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    file.write_bytes(answered(client, "/db/native/aggregate.parquet").content)

    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT value FROM read_parquet(?) WHERE key = 'key_662'", [str(file)]
        ).fetchall()

    assert found == [(11290,)]


def test_a_statement_is_a_link_to_a_database_or_to_none(client: httpx.Client) -> None:
    sql = "SELECT value FROM {}aggregate WHERE key = 'key_662'"

    for link, text in (
        ("/db", sql.format("native.")),
        ("/db.json", sql.format("native.")),
        ("/db/", sql.format("native.")),
        ("/db/native", sql.format("")),
        ("/db/native.json", sql.format("")),
        ("/db/latest", sql.format("")),
    ):
        assert answered(client, link, params={"sql": text}).json()["rows"] == [[11290]]
    one = "SELECT count(*) AS n FROM canonical.aggregate a JOIN native.aggregate b USING (key)"
    assert int(answered(client, "/db.csv", params={"sql": one}).text.split()[1]) > 0


def test_links_without_a_table_list(client: httpx.Client) -> None:
    listed = answered(client, "/db").json()["rows"]
    assert ["canonical"] in listed
    assert ["native"] in listed
    assert ["aggregate"] in answered(client, "/db/native").json()["rows"]
    assert "aggregate\r\n" in answered(client, "/db/native.csv").text.replace('"', "")
    jobs = answered(client, "/db/savepointdb/jobs.csv?columns=job").text
    assert {"job", "canonical", "native"} <= set(jobs.replace('"', "").split())


def test_a_key_group_and_a_limit_choose_rows(client: httpx.Client) -> None:
    [[group]] = answered(client, "/db/native/aggregate?key=key_662&columns=_key_group").json()["rows"]
    rows = answered(client, f"/db/native/aggregate?_key_group={group}&columns=key,_key_group").json()["rows"]

    assert ["key_662", group] in rows
    assert {row[1] for row in rows} == {group}
    limited = answered(client, "/db/native/aggregate?limit=2").json()
    assert (limited["row_count"], limited["truncated"]) == (2, True)
    assert len(answered(client, "/db/native/aggregate.csv?limit=2").text.splitlines()) == 3


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("key = 'key_662'", 1),
        ("key = 'key_662' OR value < 0", 1),
        ("value > 11000 -- the largest", 1),
        ("key IN (SELECT max(key) FROM aggregate)", 1),
        ("true", 1000),
    ],
)
def test_a_condition_of_sql_chooses_rows(client: httpx.Client, where: str, rows: int) -> None:
    answer = answered(client, "/db/native/aggregate", params={"where": where, "columns": "key"})

    assert answer.json()["row_count"] == rows
    # It holds beside the others, whatever words it has.
    with_key = {"where": where, "key": "key_1", "columns": "value"}
    assert answered(client, "/db/native/aggregate", params=with_key).json()["row_count"] == (rows == 1000)


@pytest.mark.parametrize(
    "where",
    [
        "true) OR (true",
        "true) UNION SELECT * FROM operators WHERE (true",
        "true) LIMIT 1 --",
        "true) GROUP BY ALL HAVING (true",
        "1; DROP TABLE aggregate",
        "true /*",
        "",
        "value >",
        "('" + "(" * 3000,
        "(" * 3000 + "true" + ")" * 3000,
    ],
)
def test_a_condition_stays_in_its_brackets(client: httpx.Client, where: str) -> None:
    status, _ = refused(client, "/db/native/aggregate", params={"where": where})

    assert status in (400, 413)


def test_an_escaped_dot_is_part_of_a_name(client: httpx.Client) -> None:
    told = client.get("/db/native/aggregate%2Ecsv").json()["error"]["message"]

    assert "aggregate.csv" in told
    assert "aggregate.csv" in client.get("/db/native/aggregate%2Ecsv.json").json()["error"]["message"]


@pytest.mark.slow
def test_names_may_have_escapes_and_slashes(client: httpx.Client, serving: Serving) -> None:
    assert answered(client, "/db/%6Eative/source__topic-partition-offset-states.csv").text
    assert answered(client, "/db/NATIVE/Aggregate?key=key_662&columns=value").json()["rows"] == [[11290]]
    assert answered(client, "/db/native/aggregate?columns=%22key%22,value&limit=1").json()["row_count"] == 1
    catalog = Catalog([Root(path=str(FLINK))])
    with (
        serving(create_app(Settings.of(workers=1), catalog)) as address,
        httpx.Client(base_url=address, timeout=60) as http,
    ):
        schema = catalog.schema("native")
        assert schema.database.name != "native"
        slashed = schema.database.name.replace("__", "/")
        for name in (schema.database.name, "native", slashed, slashed.replace("/", "%2F")):
            link = f"/db/{name}/aggregate?key=key_662&columns=value"
            assert answered(http, link, timeout=60).json()["rows"] == [[11290]], name
            link = f"/db/{name}?sql=SELECT count(*) FROM aggregate WHERE key = 'key_662'"
            assert answered(http, link, timeout=60).json()["rows"] == [[1]], name


@pytest.mark.parametrize(
    ("link", "status", "code", "told"),
    [
        ("/db/nativ/aggregate", 404, "DATABASE_NOT_FOUND", "native"),
        ("/db/native/agregate.csv", 404, "TABLE_NOT_FOUND", "aggregate"),
        ("/db/nativ?sql=SELECT * FROM operators", 404, "DATABASE_NOT_FOUND", "native"),
        ("/db/native/aggregate?columns=kye", 400, "COLUMN_NOT_FOUND", "key"),
        ("/db/native/aggregate?columns=", 400, "INVALID_REQUEST", "columns"),
        ("/db/native/aggregate?columns=a,,b", 400, "INVALID_REQUEST", "columns"),
        ("/db/native/aggregate?limt=1", 400, "INVALID_REQUEST", "limt"),
        ("/db?limt=1", 400, "INVALID_REQUEST", "limit"),
        ("/db/native?value=1", 400, "INVALID_REQUEST", "'value'"),
        ("/db/native?sort=value", 400, "INVALID_REQUEST", "/db/database/table"),
        ("/db?sql=SELECT 1&value=1", 400, "INVALID_REQUEST", "'value'"),
        ("/db?sql=SELECT 1&sort=value", 400, "INVALID_REQUEST", "sort"),
        ("/db/native/aggregate?vale=1", 400, "INVALID_REQUEST", 'did you mean \\"value\\"'),
        ("/db/native/aggregate?value=1&value=2", 400, "INVALID_REQUEST", "once"),
        ("/db/native/aggregate?value=many", 400, "INVALID_VALUE", "no value of the column 'value'"),
        ("/db/native/aggregate?value=1 OR 1=1", 400, "INVALID_VALUE", "no value of the column 'value'"),
        ("/db/native/aggregate?sort=", 400, "INVALID_REQUEST", "sort"),
        ("/db/nativ/aggregate?value=1", 404, "DATABASE_NOT_FOUND", "native"),
        ("/db/native/agregate?value=1", 404, "TABLE_NOT_FOUND", "aggregate"),
        ("/db/native/aggregate?limit=-1", 400, "INVALID_REQUEST", "limit"),
        ("/db/native/aggregate?limit=1&limit=2", 400, "INVALID_REQUEST", "once"),
        ("/db/native/aggregate?_key_group=many", 400, "INVALID_REQUEST", "_key_group"),
        ("/db/native/operators?key=a", 400, "INVALID_REQUEST", "a table with keys"),
        ("/db/native?key=a", 400, "INVALID_REQUEST", "/db/database/table"),
        ("/db/native?where=true", 400, "INVALID_REQUEST", "/db/database/table"),
        ("/db/native/aggregate?where=vale>1", 400, "COLUMN_NOT_FOUND", "value"),
        ("/db/native/aggregate?sql=SELECT 1&where=true", 400, "INVALID_REQUEST", "sql"),
        ("/db/native/aggregate?sql=SELECT * FROM operators", 404, "DATABASE_NOT_FOUND", "native/aggregate"),
        ("/db/native?sql=SELECT 1&key=a", 400, "INVALID_REQUEST", "sql"),
        ("/db.xlsx?sql=SELECT 1", 404, "NOT_FOUND", "parquet"),
        ("/db?sql=DROP TABLE aggregate", 403, "FORBIDDEN", ""),
        ("/db?sql=SELECT * FROM read_csv('/etc/passwd')", 403, "FORBIDDEN", ""),
        ("/db/native/aggregate.json?formulas=escape", 400, "INVALID_REQUEST", "csv"),
        ("/db/native/aggregate%22%3B--.csv", 404, "TABLE_NOT_FOUND", ""),
    ],
)
def test_a_wrong_link_says_what_is_wrong(
    client: httpx.Client, link: str, status: int, code: str, told: str
) -> None:
    answer = client.get(link)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    assert told in answer.text
    # Only a statement that runs is asked for its columns.
    assert client.head(link).status_code == (status if code != "COLUMN_NOT_FOUND" else 200)


@pytest.mark.parametrize(
    ("link", "rows"),
    [
        ("/db/native/aggregate?value=11290&columns=key,value", [["key_662", 11290]]),
        ("/db/native/aggregate?VALUE=11290&columns=key", [["key_662"]]),
        (
            "/db/native/aggregate?sort=-value,key&columns=key,value&limit=3",
            [["key_662", 11290], ["key_227", 200], ["key_27", 200]],
        ),
        ("/db/native/aggregate?sort=value&where=value > 200&columns=value", [[11290]]),
        ("/db/native/aggregate?value=200&sort=-key&columns=key&limit=1", [["key_827"]]),
        ("/db/native/source_offsets?partition=0&columns=partition", None),
        ("/db/native/operators?operator_uid=aggregate&columns=operator_uid", [["aggregate"]]),
        ("/db/native/operators?operator_uid=it's&columns=operator_uid", []),
        ('/db/native/source?value={"f0":"words","f1":0,"f2":1}&columns=value', None),
        ("/db/information_schema/schemata?schema_name=native&columns=schema_name", [["native"]]),
    ],
)
def test_columns_are_filtered_and_sorted_by_parameters(
    client: httpx.Client, link: str, rows: list[list[object]] | None
) -> None:
    answer = answered(client, link).json()["rows"]

    if rows is not None:
        assert answer == rows


def test_sorting_by_no_column_names_near_ones(client: httpx.Client) -> None:
    error = client.get("/db/native/aggregate?sort=-vale").json()["error"]

    assert (error["code"], error["hint"]) == ("COLUMN_NOT_FOUND", 'did you mean "value"?')


def test_a_link_that_cannot_change_is_not_read_twice(client: httpx.Client) -> None:
    first = answered(client, KEY)
    tag = first.headers["etag"]

    again = client.get(KEY, headers={"if-none-match": f'"other", {tag}'})

    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert first.headers["cache-control"] == again.headers["cache-control"] == "private, no-cache"
    other = (
        KEY.replace(".csv", ".json"),
        KEY.replace("native", "canonical"),
        KEY + "&limit=1",
        KEY + "&formulas=escape",
    )
    tags = {answered(client, link, headers={"if-none-match": tag}).headers["etag"] for link in other}
    assert len(tags - {tag}) == len(other)
    assert client.get("/db/nativ/aggregate", headers={"if-none-match": "*"}).status_code == 404


@pytest.mark.parametrize(
    "sql",
    ["SELECT now()", "SELECT * FROM native.aggregate USING SAMPLE 1", "SHOW DATABASES", "SELECT RANDOM ( )"],
)
def test_a_link_that_may_change_has_no_tag(client: httpx.Client, sql: str) -> None:
    answer = answered(client, "/db", params={"sql": sql}, headers={"if-none-match": "*"})

    assert "etag" not in answer.headers
    assert answer.headers["cache-control"] == "private, no-store"


def test_every_function_of_duckdb_that_changes_is_known() -> None:
    changing = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"

    with duckdb.connect() as connection:
        assert {name for (name,) in connection.execute(changing).fetchall()} <= CHANGING


@pytest.mark.slow
def test_another_savepoint_in_the_same_place_has_another_tag(serving: Serving, tmp_path: Path) -> None:
    place = tmp_path / "job" / "chk-1"
    shutil.copytree(FLINK / "native", place)
    catalog = Catalog([Root(path=str(tmp_path), label="prod")])
    link = "/db/latest/aggregate.csv?key=key_662&columns=value"
    with (
        serving(create_app(Settings.of(workers=1), catalog)) as address,
        httpx.Client(base_url=address, timeout=60) as http,
    ):
        tag = answered(http, link).headers["etag"]
        assert http.get(link, headers={"if-none-match": tag}).status_code == 304
        shutil.copytree(FLINK / "native", tmp_path / "job" / "chk-2")
        catalog.refresh()
        newer = answered(http, link, headers={"if-none-match": tag}).headers["etag"]
        shutil.rmtree(tmp_path / "job" / "chk-2")
        catalog.refresh()

        assert newer != tag
        assert answered(http, link, headers={"if-none-match": newer}).headers["etag"] == tag


def test_head_says_what_get_would_without_running(client: httpx.Client) -> None:
    head, whole = client.head(KEY), answered(client, KEY)

    assert head.status_code == 200
    assert ("x-query-id" in head.headers, "x-query-id" in whole.headers) == (False, True)
    assert head.headers["etag"] == whole.headers["etag"]
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert "content-length" not in head.headers


def test_formulas_are_texts_for_spreadsheets(client: httpx.Client) -> None:
    link = "/db.csv?sql=SELECT '=1-1' AS a"

    assert answered(client, link).text == '"a"\r\n"=1-1"\r\n'
    assert "'=1-1" in answered(client, f"{link}&formulas=escape").text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({**ELSEWHERE, "sec-fetch-dest": "image"}, 403),
        ({**ELSEWHERE, "sec-fetch-dest": "script"}, 403),
        ({**ELSEWHERE, "sec-fetch-site": "same-site", "sec-fetch-dest": "empty"}, 403),
        ({**ELSEWHERE, "sec-fetch-dest": "document"}, 403),
        ({**ELSEWHERE, "sec-fetch-dest": "iframe", "sec-fetch-user": "?1"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "evil.example"}, 403),
        ({**ELSEWHERE, "sec-fetch-dest": "document", "sec-fetch-user": "?1"}, 200),
        ({"sec-fetch-site": "none", "sec-fetch-dest": "document"}, 200),
        ({"sec-fetch-site": "same-origin", "sec-fetch-dest": "empty"}, 200),
    ],
)
def test_other_sites_can_neither_load_links_nor_open_them(
    client: httpx.Client, headers: dict[str, str], status: int
) -> None:
    for link in (KEY, "/db", "/db.csv?sql=SELECT 1"):
        answer = client.get(link, headers=headers)

        assert answer.status_code == status
        assert not [name for name in answer.headers if name.startswith("access-control")]
    if status == 200:
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.slow
def test_a_link_has_the_limits_of_all_queries(serving: Serving) -> None:
    settings = Settings.of(workers=1, max_rows=3, max_rows_limit=4, max_scan_bytes=10_000)
    catalog = Catalog([Root(path=str(FLINK / "native"))])
    with (
        serving(create_app(settings, catalog)) as address,
        httpx.Client(base_url=address, timeout=60) as http,
    ):
        assert refused(http, "/db/native/aggregate.csv") == (413, "LIMIT_EXCEEDED")
        many = "/db?sql=SELECT unnest(range(9)) AS n"
        assert answered(http, many).json()["row_count"] == 3
        assert answered(http, f"{many}&limit=9").json()["row_count"] == 4
