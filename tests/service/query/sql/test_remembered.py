"""Queries that are planned a second time: the plan is that of the first time, or another where the names mean something else."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog import Catalog, connect
from service.base.errors import DatabaseNotFoundError, QueryError, TableNotFoundError
from service.query.sql import planner
from service.query.sql.plan import Plan
from service.query.sql.resolver import RememberedQueries
from service.query.sql.text import parsed
from tests.support.checkpoints import COUNTS, put

COUNT = "SELECT value FROM aggregate__count WHERE key = 'key_662'"
# With the texts that are planned anew each time.
STATEMENTS = {
    COUNT: True,
    "EXPLAIN " + COUNT: True,
    "  " + COUNT + " -- the same": True,
    'SELECT * FROM "job__chk-1".aggregate a JOIN latest.aggregate__count b USING (key)': True,
    "WITH c AS (FROM aggregate__count) SELECT c.value, k FROM c, range(3) AS r(k) WHERE key IN ('a', 'b')": True,
    "FROM aggregate__count UNION ALL BY NAME SELECT key, 1 AS value FROM aggregate WHERE _key_group = 7": True,
    "SELECT count(*) FROM information_schema.tables, aggregate__count": False,
    "SELECT value FROM job__history.aggregate__count": False,
    "SELECT * FROM diff('job__chk-1', 'latest', 'aggregate__count')": False,
    "SELECT 1": True,
    "SUMMARIZE aggregate__count": False,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path / "job" / "chk-1", 1)
    put(tmp_path / "job" / "chk-2", 2)
    return tmp_path


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were planned in full."""
    monkeypatch.setattr(planner, "_REMEMBERED", RememberedQueries())
    texts = []

    def counted(text: str) -> Any:
        texts.append(text.strip())
        return parsed(text)

    monkeypatch.setattr(planner, "parsed", counted)
    return texts


def told(plan: Plan) -> Any:
    tables = [
        (table.name, table.database, table.columns, table.predicate, table.grounds) for table in plan.tables
    ]
    return plan.sql, plan.text, plan.query, plan.prefix, plan.assumed, plan.skipped, tables


@pytest.mark.parametrize(("sql", "is_remembered"), STATEMENTS.items())
def test_the_second_plan_is_that_of_the_first_time(
    root: Path, remembered: list[str], sql: str, is_remembered: bool
) -> None:
    known = connect(root)
    first = planner.plan(sql, known)
    assert remembered
    remembered.clear()

    second = planner.plan(sql, known)

    assert told(second)[:-1] == told(first)[:-1]
    if is_remembered:
        assert told(second) == told(first)
        assert [table.table for table in second.tables] == [table.table for table in first.tables]
        assert not remembered
    else:
        assert remembered
    assert all(one is not other for one, other in zip(first.tables, second.tables, strict=True))


def value(known: Catalog, sql: str = COUNT, **options: Any) -> Any:
    plan = planner.plan(sql, known, **options)
    return plan.tables[0].scan.narrowed(["value"]).to_arrow().column("value").to_pylist()[0]


def test_names_that_mean_another_savepoint_are_read_anew(root: Path, remembered: list[str]) -> None:
    known = connect(root)

    assert [value(known, schema=f"job__chk-{number}") for number in (1, 2, 1, 2)] == [
        COUNTS[number] for number in (1, 2, 1, 2)
    ]
    assert value(connect(root / "job" / "chk-1")) == COUNTS[1]
    assert value(connect(root / "job" / "chk-2")) == COUNTS[2]
    remembered.clear()
    assert value(known, schema="job__chk-2") == COUNTS[2]


@pytest.mark.parametrize(
    ("catalog_of", "options", "error"),
    [
        (lambda known: known.visible(lambda name: name.endswith("chk-1")), {}, DatabaseNotFoundError),
        (lambda known: known.visible(lambda _name: False), {"schema": None}, DatabaseNotFoundError),
        (lambda known: known, {"schema": "nowhere"}, DatabaseNotFoundError),
        (lambda known: known, {"sql": COUNT.replace("count", "nothing")}, TableNotFoundError),
        (lambda _known: Catalog(), {}, DatabaseNotFoundError),
    ],
)
@pytest.mark.usefixtures("remembered")
def test_who_may_not_see_a_table_is_refused_as_for_the_first_time(
    root: Path, catalog_of: Callable[[Catalog], Catalog], options: dict[str, Any], error: type[QueryError]
) -> None:
    known = connect(root)
    arguments = {"sql": COUNT, "schema": "job__chk-2"} | options
    other = catalog_of(known)
    with pytest.raises(error) as first:
        planner.plan(catalog=other, **arguments)
    assert value(known, schema="job__chk-2") == COUNTS[2]

    with pytest.raises(error) as second:
        planner.plan(catalog=other, **arguments)

    assert (str(second.value), second.value.hint) == (str(first.value), first.value.hint)
    assert second.value.position == first.value.position


@pytest.mark.usefixtures("remembered")
def test_a_text_keeps_no_savepoint_open(root: Path) -> None:
    known = connect(root)
    table = weakref.ref(planner.plan(COUNT, known, schema="job__chk-1").tables[0].table)
    assert table() is not None

    del known
    gc.collect()

    assert table() is None


def test_only_so_many_short_texts_are_remembered(root: Path, remembered: list[str]) -> None:
    known = connect(root / "job" / "chk-1")
    long = COUNT + " " * 2_000
    texts = [f"{COUNT} OR value = {number}" for number in range(129)]

    for text in (long, long, *texts, texts[-1], texts[0]):
        planner.plan(text, known)

    assert remembered == [COUNT, COUNT, *texts, texts[0]]
