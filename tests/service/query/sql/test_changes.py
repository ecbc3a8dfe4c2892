"""`"job__history".changes('table')`: what each checkpoint of a job changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog import Catalog, Root
from service.base.errors import InvalidQueryError, InvalidRequestError, QueryError, TableNotFoundError
from service.query.sql.planner import planned
from tests.support.changing import CHANGES, TABLE, make_job

ROWS = [(number, *row) for number, rows in CHANGES.items() for row in rows]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_job(tmp_path_factory.mktemp("changes") / "job")


@pytest.fixture(scope="module")
def catalog(job: Path) -> Catalog:
    return Catalog([Root(path=str(job.parent), label="prod")])


def rows_of(ask: Any, source: str, where: str = "", **request: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = ask.rows(
        f"SELECT _checkpoint_id, change, key, value_before, value_after FROM {source} {where} "
        "ORDER BY _checkpoint_id, change, key",
        **request,
    )
    return found


@pytest.mark.parametrize(
    ("dialect", "source"),
    [
        ("duckdb", f"job__history.changes('{TABLE}')"),
        ("duckdb", f"flink.\"prod__job__history\".Changes('{TABLE.upper()}')"),
        ("trino", f"TABLE(job__history.changes('{TABLE}'))"),
        ("trino", f"TABLE(flink.prod__job__history.changes('{TABLE}')) c"),
    ],
)
def test_each_checkpoint_has_its_changes(
    ask_of: Callable[[Catalog], Any], catalog: Catalog, dialect: str, source: str
) -> None:
    assert rows_of(ask_of(catalog), source, dialect=dialect) == ROWS


def test_conditions_leave_out_checkpoints_and_keys(
    ask_of: Callable[[Catalog], Any], catalog: Catalog
) -> None:
    ask, source = ask_of(catalog), f"job__history.changes('{TABLE}')"

    assert rows_of(ask, source, "WHERE _checkpoint_id > 5") == []
    nothing = ask.bytes_read
    assert rows_of(ask, source, "WHERE key = 'new'") == [row for row in ROWS if row[2] == "new"]
    assert rows_of(ask, source, "WHERE _checkpoint_id = 3") == [row for row in ROWS if row[0] == 3]
    of_one = ask.bytes_read
    assert rows_of(ask, source) == ROWS
    assert nothing == 0 < of_one < ask.bytes_read


def test_a_checkpoint_that_is_gone_is_spanned(
    ask_of: Callable[[Catalog], Any], job: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(job, tmp_path / "job")
    shutil.rmtree(copy / "chk-3")
    (copy / "chk-2" / "_metadata").write_bytes(b"no metadata")

    ask = ask_of(Catalog([Root(path=str(tmp_path), label="prod")]))

    assert rows_of(ask, f"job__history.changes('{TABLE}')") == [
        (4, "changed", "key_1", 2, 3),
        (4, "changed", "key_662", 11290, 11292),
        (4, "removed", "key_0", 1, None),
    ]


def test_a_damaged_state_fails_and_is_not_left_out(
    ask_of: Callable[[Catalog], Any], job: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(job, tmp_path / "job")
    largest = max(
        (copy / "chk-3").iterdir(), key=lambda path: path.stat().st_size if path.name != "_metadata" else 0
    )
    largest.write_bytes(largest.read_bytes()[:200])

    with pytest.raises(QueryError):
        rows_of(ask_of(Catalog([Root(path=str(tmp_path), label="prod")])), f"job__history.changes('{TABLE}')")


def test_an_empty_name_is_a_savepoint_without_rows(
    ask_of: Callable[[Catalog], Any], catalog: Catalog
) -> None:
    rows = ask_of(catalog).rows(
        f"SELECT change, value_before, value_after FROM diff('', 'prod__job__chk-4', '{TABLE}') WHERE key = 'key_662'"
    )

    assert rows == [("added", None, 11292)]


@pytest.mark.parametrize(
    ("sql", "kind", "message", "column"),
    [
        (f"changes('{TABLE}')", InvalidQueryError, "expected the schema of a history before changes", 15),
        (f"\"prod__job__chk-1\".changes('{TABLE}')", InvalidQueryError, "found 'prod__job__chk-1'", 42),
        ("job__history.changes('aggregate__cont')", TableNotFoundError, "'aggregate__cont'", 36),
        ("job__history.changes()", InvalidQueryError, "found 0 arguments", 28),
        ("job__history.changes('a', 'b')", InvalidQueryError, "found 2 arguments", 28),
        ("job__history.changes(a)", InvalidQueryError, "single quotes, found a", None),
        ("job__history.changes('')", InvalidQueryError, "single quotes, found ''", None),
        ("diff('', 'prod__job__chk-1')", InvalidRequestError, "a summary compares two savepoints", 20),
    ],
)
def test_errors_say_what_and_where(
    catalog: Catalog, sql: str, kind: type[QueryError], message: str, column: int | None
) -> None:
    with pytest.raises(kind) as raised:
        planned(f"SELECT * FROM {sql}", catalog, dialect="duckdb", max_sql_bytes=1000, constants={})

    assert message in raised.value.message
    if column is not None:
        assert raised.value.position is not None
        assert raised.value.position.column == column


def test_one_checkpoint_has_no_changes(job: Path, tmp_path: Path) -> None:
    shutil.copytree(job / "chk-1", tmp_path / "job" / "chk-1")
    catalog = Catalog([Root(path=str(tmp_path), label="prod")])

    with pytest.raises(InvalidRequestError, match="expected two checkpoints with aggregate__count"):
        planned(
            f"FROM job__history.changes('{TABLE}')",
            catalog,
            dialect="duckdb",
            max_sql_bytes=1000,
            constants={},
        )
