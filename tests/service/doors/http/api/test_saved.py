"""`/api/saved` and `/saved/…`: saved queries over HTTP, as links, and who may see, run and change them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest
from pyarrow import parquet

from catalog import Catalog
from catalog.catalog import Root
from service.base.settings import Settings
from service.cli import main
from service.doors.app import create_app
from service.doors.http.auth.gate import Authenticator
from service.doors.http.auth.keys import KeyFile
from tests.support.paths import DATA
from tests.support.serving import listening

FLINK = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints"
FILE = """\
# Written by hand.
[queries.count-of]
description = "The count of one key."
database = "native"
sql = "SELECT key, value FROM aggregate WHERE key = :key"

[queries.hidden]
database = "canonical"
sql = "SELECT count(*) AS n FROM aggregate"

[queries.anywhere]
sql = "SELECT value FROM canonical.aggregate WHERE key = :key"
parameters.key.default = "key_662"

[queries.trino]
dialect = "trino"
database = "native"
sql = "SELECT :n / 2 AS half"
parameters.n = { type = "integer", default = 7 }
"""
GRANTS = {
    "owner": ["saved:*", "operator:*"],
    "analyst": ["nat*", "saved:nat*"],
    "reader": ["*"],
    "writer": ["write:*", "savepoints:*"],
    "guest": ["other-*", "saved:other-*"],
    "neighbour": ["saved:canonical"],
}
SAVED = {"sql": "SELECT value FROM aggregate WHERE key = :key", "database": "native"}


@dataclass
class Door:
    """A service with saved queries, and the keys of several people."""

    address: str
    keys: dict[str, str]
    file: Path

    def ask(self, method: str, path: str, name: str | None, **request: Any) -> httpx.Response:
        headers = {} if name is None else {"authorization": f"Bearer {self.keys[name]}"}
        headers |= request.pop("headers", {})
        return httpx.request(method, self.address + path, headers=headers, timeout=60, **request)

    def code(self, method: str, path: str, name: str | None, **request: Any) -> tuple[int, str]:
        answer = self.ask(method, path, name, **request)
        return answer.status_code, "" if answer.is_success else answer.json()["error"]["code"]

    def names(self, name: str) -> list[str]:
        listed = self.ask("GET", "/api/saved", name).json()["queries"]
        return [query["name"] for query in listed]


@contextmanager
def doors(folder: Path, *, starts: bool) -> Iterator[Door]:
    (folder / "queries.toml").write_text(FILE)
    keys = KeyFile(folder / "keys.json")
    secrets = {name: keys.create(name, grants) for name, grants in GRANTS.items()}
    app = create_app(
        Settings.of(workers=1, saved_queries=str(folder / "queries.toml"), save_queries=True, audit_log=True),
        Catalog([Root(path=str(FLINK / name)) for name in ("canonical", "native")]),
        authenticator=Authenticator(keys),
    )
    with listening(app, starts=starts) as address:
        yield Door(address, secrets, folder / "queries.toml")


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A service that runs no query."""
    with doors(tmp_path_factory.mktemp("saved"), starts=False) as found:
        yield found


@pytest.fixture(scope="module")
def open_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A service that runs queries."""
    with doors(tmp_path_factory.mktemp("saved"), starts=True) as found:
        yield found


@pytest.mark.slow
def test_a_saved_query_is_a_link_in_every_format(open_door: Door) -> None:
    link = "/saved/count-of"

    answer = open_door.ask("GET", f"{link}?key=key_662", "owner")
    assert answer.json()["rows"] == [["key_662", 11290]]
    assert answer.headers["content-type"] == "application/json"
    csv = open_door.ask("GET", f"{link}.csv?key=key_662", "owner")
    assert pd.read_csv(io.BytesIO(csv.content)).to_dict("records") == [{"key": "key_662", "value": 11290}]
    assert csv.headers["content-disposition"] == 'attachment; filename="count-of.csv"'
    found = parquet.read_table(
        io.BytesIO(open_door.ask("GET", f"{link}.parquet?key=key_662", "owner").content)
    )
    assert found.to_pylist() == [{"key": "key_662", "value": 11290}]
    lines = open_door.ask("GET", f"{link}.jsonl?key=key_662", "owner").text
    assert json.loads(lines) == {"key": "key_662", "value": 11290}
    assert open_door.ask("GET", "/saved/trino", "owner").json()["rows"] == [[3]]
    assert open_door.ask("GET", "/saved/trino?n=9", "owner").json()["rows"] == [[4]]
    other = open_door.ask("GET", f"{link}?key=key_662&_database=canonical", "owner").json()
    assert [database["name"] for database in other["databases"]] == ["canonical"]


@pytest.mark.slow
def test_a_saved_link_has_the_headers_of_links(open_door: Door) -> None:
    link = "/saved/count-of.csv?key=key_662"
    first = open_door.ask("GET", link, "owner")
    tag = first.headers["etag"]

    again = open_door.ask("GET", link, "owner", headers={"if-none-match": tag})
    head = open_door.ask("HEAD", link, "owner")

    assert (again.status_code, again.content) == (304, b"")
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)
    assert first.headers["cache-control"] == "private, no-cache"
    assert first.headers["x-content-type-options"] == "nosniff"
    assert first.headers["cross-origin-resource-policy"] == "same-origin"
    others = [
        "/saved/count-of.csv?key=key_663",
        "/saved/count-of.json?key=key_662",
        f"{link}&_limit=1",
        f"{link}&_formulas=escape",
        f"{link}&_database=canonical",
    ]
    tags = {open_door.ask("GET", other, "owner").headers["etag"] for other in others}
    assert len(tags - {tag}) == len(others)
    site = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "image"}
    assert open_door.code("GET", link, "owner", headers=site) == (403, "FORBIDDEN")


@pytest.mark.parametrize(
    ("link", "status", "code", "told"),
    [
        ("/saved/count-of", 400, "INVALID_PARAMETER", "a value for key"),
        ("/saved/count-of?kye=a", 400, "INVALID_PARAMETER", "expected key, found kye"),
        ("/saved/count-of?key=a&limit=1", 400, "INVALID_PARAMETER", "found limit"),
        ("/saved/count-of?key=a&_limt=1", 400, "INVALID_PARAMETER", "expected _limit"),
        ("/saved/count-of?key=a&key=b", 400, "INVALID_REQUEST", "once"),
        ("/saved/count-of?key=a&_limit=-1", 400, "INVALID_REQUEST", "_limit"),
        ("/saved/count-of.xlsx?key=a", 404, "NOT_FOUND", "parquet"),
        ("/saved/count-of.json?key=a&_formulas=escape", 400, "INVALID_REQUEST", "csv"),
        ("/saved/count-of?key=a&_database=nothing", 404, "DATABASE_NOT_FOUND", "nothing"),
        ("/saved/count-off.csv", 404, "SAVED_QUERY_NOT_FOUND", "count-of"),
        ("/saved/..%2Fkeys.json", 404, "NOT_FOUND", ""),
        ("/saved/%2e%2e", 404, "NOT_FOUND", ""),
        ("/saved/%00", 404, "SAVED_QUERY_NOT_FOUND", ""),
        ("/saved/", 404, "NOT_FOUND", ""),
        ("/saved/trino?n=1);--", 400, "INVALID_PARAMETER", "integer"),
    ],
)
def test_a_wrong_link_says_what_is_wrong(door: Door, link: str, status: int, code: str, told: str) -> None:
    answer = door.ask("GET", link, "owner")

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    assert told in answer.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    ["' OR true --", "'; DROP TABLE aggregate; --", "$key", ":key", "\\'", "é\u202e\U0001f600", "a\nb", '"'],
)
def test_a_value_is_a_value(open_door: Door, value: str) -> None:
    body = {"sql": "SELECT :a AS a, :b AS b", "parameters": {"a": value, "b": 2}}

    assert open_door.ask("GET", "/saved/count-of", "owner", params={"key": value}).json()["rows"] == []
    answer = open_door.ask("POST", "/api/query", "owner", json=body)
    assert answer.json()["rows"] == [[value, 2]]
    started = open_door.ask("POST", "/api/queries", "owner", json=body).json()
    # The history lists the statement, and no values.
    assert started["sql"] == "SELECT :a AS a, :b AS b"
    result = open_door.ask("GET", f"/api/queries/{started['query_id']}/result", "owner")
    assert result.json()["rows"] == [[value, 2]]


@pytest.mark.slow
def test_parameters_of_a_statement_are_all_given(open_door: Door) -> None:
    for sql, parameters in (("SELECT :a", {}), ("SELECT :a", {"b": 1}), ("SELECT 1", {"a": 1})):
        body = {"sql": sql, "parameters": parameters}
        assert open_door.code("POST", "/api/query", "owner", json=body) == (400, "INVALID_PARAMETER")
    body = {"sql": "SELECT :a", "parameters": {"a": [1]}}
    assert open_door.code("POST", "/api/query", "owner", json=body) == (400, "INVALID_REQUEST")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "seen", "count_of", "anywhere"),
    [
        ("owner", ["anywhere", "count-of", "hidden", "trino"], (200, ""), (200, "")),
        ("reader", ["anywhere", "count-of", "hidden", "trino"], (200, ""), (200, "")),
        ("analyst", ["anywhere", "count-of", "trino"], (200, ""), (404, "DATABASE_NOT_FOUND")),
        ("guest", ["anywhere"], (404, "SAVED_QUERY_NOT_FOUND"), (404, "DATABASE_NOT_FOUND")),
    ],
)
def test_a_saved_query_is_seen_with_its_database_and_reads_what_its_caller_may(
    open_door: Door, name: str, seen: list[str], count_of: tuple[int, str], anywhere: tuple[int, str]
) -> None:
    assert open_door.names(name) == seen
    assert open_door.code("GET", "/saved/count-of?key=key_662", name) == count_of
    assert open_door.code("GET", "/saved/anywhere", name) == anywhere
    hidden = (200, "") if "hidden" in seen else (404, "SAVED_QUERY_NOT_FOUND")
    for path in ("/saved/hidden", "/saved/hidden.csv", "/api/saved/hidden"):
        assert open_door.code("GET", path, name) == hidden
        if "hidden" not in seen:
            # As one that is not there, and like which none is called either.
            told = open_door.ask("GET", path, name).text.replace("hidden", "zzz")
            assert told == open_door.ask("GET", path.replace("hidden", "zzz"), name).text
    for path in ("/saved/count-of?key=a", "/api/saved", "/api/saved/count-of"):
        assert open_door.code("GET", path, None) == (401, "UNAUTHORIZED")


@pytest.mark.parametrize(
    ("name", "native", "canonical", "nowhere"),
    [
        ("owner", (200, ""), (200, ""), (200, "")),
        ("analyst", (200, ""), (404, "DATABASE_NOT_FOUND"), (403, "FORBIDDEN")),
        ("reader", (403, "FORBIDDEN"), (403, "FORBIDDEN"), (403, "FORBIDDEN")),
        ("writer", (403, "FORBIDDEN"), (403, "FORBIDDEN"), (403, "FORBIDDEN")),
        ("guest", (404, "DATABASE_NOT_FOUND"), (404, "DATABASE_NOT_FOUND"), (403, "FORBIDDEN")),
        (None, (401, "UNAUTHORIZED"), (401, "UNAUTHORIZED"), (401, "UNAUTHORIZED")),
    ],
)
def test_only_who_has_the_grant_saves_and_deletes(
    door: Door,
    name: str | None,
    native: tuple[int, str],
    canonical: tuple[int, str],
    nowhere: tuple[int, str],
) -> None:
    for database, expected in (("native", native), ("canonical", canonical), (None, nowhere)):
        body = SAVED | {"database": database}
        assert door.code("PUT", "/api/saved/mine", name, json=body) == expected
        assert ("mine" in door.names("owner")) is (expected[0] == 200)
        deleted = (204, "") if expected[0] == 200 else (404, "SAVED_QUERY_NOT_FOUND")
        assert door.code("DELETE", "/api/saved/mine", name) == (deleted if name else expected)
    assert door.ask("PUT", "/api/saved/mine", "owner", json=SAVED).is_success
    foreign = {"origin": "http://evil.example"}
    assert door.code("PUT", "/api/saved/mine", "owner", json=SAVED, headers=foreign) == (403, "FORBIDDEN")
    expected = (
        (204, "") if native[0] == 200 else (404, "SAVED_QUERY_NOT_FOUND") if name == "guest" else native
    )
    assert door.code("DELETE", "/api/saved/mine", name) == expected
    door.ask("DELETE", "/api/saved/mine", "owner")
    assert door.file.read_text() == FILE


def test_a_saved_query_belongs_to_its_database(door: Door) -> None:
    door.ask("PUT", "/api/saved/theirs", "owner", json=SAVED | {"database": "canonical"})

    assert door.code("DELETE", "/api/saved/theirs", "analyst") == (404, "SAVED_QUERY_NOT_FOUND")
    assert door.code("DELETE", "/api/saved/theirs", "reader") == (403, "FORBIDDEN")
    door.ask("DELETE", "/api/saved/theirs", "owner")


@pytest.mark.parametrize("name", ["theirs", "hidden"])
def test_a_name_that_a_hidden_query_has_is_as_free_as_any(door: Door, name: str) -> None:
    if name == "theirs":
        door.ask("PUT", "/api/saved/theirs", "neighbour", json=SAVED | {"database": "canonical"})
    mine = SAVED | {"description": "mine"}
    path, new = f"/api/saved/{name}", {"if-none-match": "*"}
    before = door.ask("GET", path, "neighbour").json()

    assert door.code("PUT", path, "analyst", json=mine, headers=new) == (200, "")
    assert door.code("PUT", path, "analyst", json=mine) == (200, "")
    assert door.code("PUT", path, "analyst", json=mine, headers=new) == (409, "SAVED_QUERY_EXISTS")
    assert door.ask("GET", path, "analyst").json()["description"] == "mine"
    assert door.names("analyst") == sorted(["anywhere", "count-of", "trino", name])
    # Neither takes the other's place.
    assert door.ask("GET", path, "neighbour").json() == before
    assert door.ask("GET", path, "owner").json()["description"] == ""
    assert door.code("DELETE", path, "analyst") == (204, "")
    assert door.code("DELETE", path, "analyst") == (404, "SAVED_QUERY_NOT_FOUND")
    assert door.ask("GET", path, "neighbour").json() == before
    if name == "theirs":
        assert door.code("DELETE", path, "neighbour") == (204, "")


def test_a_query_for_an_alias_belongs_to_the_database_that_the_alias_meant(door: Door) -> None:
    body = SAVED | {"database": "latest"}
    path = "/api/saved/newest"

    saved = door.ask("PUT", path, "analyst", json=body).json()
    assert (saved["database"], saved["may_change"]) == ("latest", True)
    # For the neighbour, too, `latest` is a database: another one.
    assert door.ask("GET", "/api/databases/latest", "neighbour").json()["alias_of"] == "canonical"
    assert door.code("GET", path, "neighbour") == (404, "SAVED_QUERY_NOT_FOUND")
    assert door.code("GET", "/saved/newest", "neighbour") == (404, "SAVED_QUERY_NOT_FOUND")
    assert door.code("DELETE", path, "neighbour") == (404, "SAVED_QUERY_NOT_FOUND")
    assert door.code("PUT", path, "neighbour", json=body | {"description": "theirs"}) == (200, "")
    assert door.ask("GET", path, "analyst").json() == saved
    assert door.ask("GET", path, "reader").json() == saved | {"may_change": False}
    assert door.code("DELETE", path, "neighbour") == (204, "")
    assert door.code("DELETE", path, "analyst") == (204, "")


def test_what_is_saved_is_described_and_replaced(door: Door) -> None:
    body = SAVED | {"description": "Mine.", "parameters": {"key": {"default": "key_662"}}}
    new = {"if-none-match": "*"}

    saved = door.ask("PUT", "/api/saved/mine", "analyst", json=body, headers=new).json()
    assert saved | {"saved_at": ""} == {
        "name": "mine",
        "sql": SAVED["sql"],
        "description": "Mine.",
        "database": "native",
        "dialect": "duckdb",
        "parameters": [{"name": "key", "type": "text", "default": "key_662"}],
        "link": "saved/mine",
        "may_change": True,
        "saved_by": "analyst",
        "saved_at": "",
    }
    assert door.ask("GET", "/api/saved/mine", "owner").json() == saved
    assert door.ask("GET", "/api/saved/mine", "reader").json() == saved | {"may_change": False}
    assert not door.ask("GET", "/api/saved/count-of", "owner").json()["may_change"]
    assert door.ask("HEAD", "/saved/mine", "reader").status_code == 200
    conflict = door.code("PUT", "/api/saved/mine", "analyst", json=body, headers=new)
    assert conflict == (409, "SAVED_QUERY_EXISTS")
    assert door.code("PUT", "/api/saved/count-of", "owner", json=SAVED) == (409, "CONFLICT")
    door.ask("PUT", "/api/saved/mine", "owner", json={"sql": "SELECT 1"})
    assert door.ask("GET", "/api/saved/mine", "owner").json()["saved_by"] == "owner"
    assert door.ask("DELETE", "/api/saved/mine", "owner").status_code == 204


@pytest.mark.parametrize(
    ("name", "body", "status", "code"),
    [
        ("X", SAVED, 400, "INVALID_SAVED_QUERY"),
        ("a.csv", SAVED, 400, "INVALID_SAVED_QUERY"),
        ("%00", SAVED, 400, "INVALID_SAVED_QUERY"),
        ("..%2Fx", SAVED, 404, "NOT_FOUND"),
        ("a" * 65, SAVED, 400, "INVALID_SAVED_QUERY"),
        ("x", {"sql": f"SELECT '{'x' * 300_000}'"}, 400, "INVALID_SAVED_QUERY"),
        ("x", {"sql": "x" * (2 << 20)}, 413, "LIMIT_EXCEEDED"),
        ("x", {"sql": "SELECT '"}, 400, "INVALID_SAVED_QUERY"),
        ("x", {"slq": ""}, 400, "INVALID_REQUEST"),
        ("x", SAVED | {"parameters": {"kye": {}}}, 400, "INVALID_SAVED_QUERY"),
        ("x", SAVED | {"parameters": {"key": {"type": "int"}}}, 400, "INVALID_SAVED_QUERY"),
        ("x", SAVED | {"parameters": {"key": {"type": "date", "default": "a"}}}, 400, "INVALID_SAVED_QUERY"),
        ("x", SAVED | {"database": "nothing"}, 404, "DATABASE_NOT_FOUND"),
    ],
)
def test_what_cannot_be_saved_is_refused(
    door: Door, name: str, body: dict[str, Any], status: int, code: str
) -> None:
    assert door.code("PUT", f"/api/saved/{name}", "owner", json=body) == (status, code)
    assert door.names("owner") == ["anywhere", "count-of", "hidden", "trino"]


@pytest.mark.slow
def test_what_is_saved_is_in_the_audit_log(open_door: Door, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "savepointdb.audit"):
        open_door.ask("PUT", "/api/saved/mine", "analyst", json=SAVED)
        open_door.ask("GET", "/saved/mine?key=key_662", "analyst")
        open_door.ask("DELETE", "/api/saved/mine", "analyst")

    told = [(record.getMessage(), vars(record)["fields"]) for record in caplog.records]
    assert [message for message, _ in told] == [
        "saved query written",
        "query finished",
        "saved query deleted",
    ]
    assert told[0][1] == {"name": "mine", "user": "analyst", "user_source": "key", "database": "native"}
    assert told[1][1]["statement"].endswith(" WHERE key = (?)")


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"saved_queries": "queries.toml"}, {"save_queries": True}])
def test_clients_save_nothing_unless_the_service_lets_them(tmp_path: Path, settings: dict[str, Any]) -> None:
    (tmp_path / "queries.toml").write_text(FILE)
    if "saved_queries" in settings:
        settings = {"saved_queries": str(tmp_path / "queries.toml")}
    app = create_app(Settings.of(**settings), Catalog())

    with listening(app, starts=False) as address:
        answer = httpx.put(f"{address}/api/saved/x", json={"sql": "SELECT 1"}, timeout=60)
        listed = httpx.get(f"{address}/api/saved", timeout=60).json()
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert (listed["may_save"], bool(listed["queries"])) == (False, "saved_queries" in settings)
    assert [path.name for path in tmp_path.iterdir()] == ["queries.toml"]


def test_a_service_does_not_start_over_a_wrong_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "queries.toml").write_text("[queries.x]\nslq = 'SELECT 1'")

    for file, told in (("queries.toml", "is it sql?"), ("none.toml", "found none")):
        assert main(["serve", "--root", str(FLINK), "--saved-queries", str(tmp_path / file)]) == 1
        assert told in capsys.readouterr().err
