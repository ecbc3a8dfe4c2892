"""Leaving rows out changes no answer: what a scan prunes or filters is what plain DuckDB drops of a full scan.

The tables have keys of many types, and the statements look for values that are there, in many spellings. A fixed seed runs every
time, many more in `make test-slow`.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from catalog import Catalog, connect
from catalog.scan import ANYTHING
from service.base.errors import QueryError
from service.base.settings import Settings
from service.query.engines.duckdb.engine import DuckDBEngine
from service.query.sql.planner import plan
from tests.support.answers import Answer, comparable
from tests.support.examples import examples
from tests.support.lookups import Lookups
from tests.support.paths import DATA

ALL_STATES = DATA / "corpus" / "1.20.3" / "allstates-hashmap-compressed" / "canonical"
# Keys: text, structs, whole numbers of each size, DOUBLE, BOOLEAN, timestamp, date, structs with names, UUIDs.
OPERATORS = (
    "7c4ef5d55906523938d90d18b48a92e6",
    "e0e1113689a400d25b7611dd94ef14a1",
    "f1b04cfc8b0eecfdbd6c8e530e570c12",
    "c56f1a1b092f37e0daf0c72f87449b6f",
    "8d36cd2509473f71cc483395c3af86bc",
    "bbfa7d5b50bab10324ebfaade3026924",
    "f51b611bf3f9f72f2fdc442e8dc768df",
    "9d2abaed3732ded5b45b693b4a525f3c",
    "6e7c9671fb65c43266dde9ad318b3109",
    "1d0126c52a3e4c76b7546ecc15875eb0",
    "0dca6fdf55f02c914416c6080a96a345",
    "577abf00f7d827c6881febbe7046aeac",
    "2a234b5a08960190d3695a8590c38bef",
)
TABLES = [f"{operator}__map2" for operator in OPERATORS] + ["timers", OPERATORS[3]]


@pytest.fixture(scope="module")
def savepoint() -> Catalog:
    return connect(ALL_STATES)


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDBEngine]:
    made = DuckDBEngine(Settings.of(threads=2))
    yield made
    made.close()


@pytest.fixture(scope="module")
def plain(savepoint: Catalog) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with all rows of the tables in memory."""
    assert savepoint.default is not None
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name in TABLES:
            connection.register("rows", savepoint.default.table(name).plan(ANYTHING).to_arrow())
            connection.execute(f'CREATE TABLE "{name}" AS FROM rows')
            connection.unregister("rows")
        yield connection


_SEEDS = [(14, 10), *((seed, 30) for seed in range(200, 200 + examples(10)))]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "count"), _SEEDS)
def test_a_scan_leaves_out_only_what_the_statement_drops(
    savepoint: Catalog, engine: DuckDBEngine, plain: duckdb.DuckDBPyConnection, seed: int, count: int
) -> None:
    answered = pruned = 0
    for number, table in enumerate(TABLES):
        made = Lookups(seed * 100 + number, plain, f'"{table}"')
        for _ in range(count):
            sql = made.statement()
            expected = _plain_answer(plain, sql)
            found, is_pruned = _answer(engine, savepoint, sql)
            if expected is None:  # fewer rows may have no value at which plain DuckDB fails
                continue
            assert found == expected, sql
            answered += 1
            pruned += is_pruned

    assert answered > count * len(TABLES) / 2
    # Some seeds make few conditions on keys.
    assert pruned > answered / 20


def _plain_answer(plain: duckdb.DuckDBPyConnection, sql: str) -> Answer | None:
    try:
        return comparable(plain.sql(sql).to_arrow_table())
    except duckdb.Error:
        return None


def _answer(engine: DuckDBEngine, savepoint: Catalog, sql: str) -> tuple[Answer | str, bool]:
    """Return the answer, or the text of the error, and whether the plan prunes."""
    planned = plan(sql, savepoint)
    execution = engine.execution(planned)
    try:
        reader = execution.open()
        batches = list(reader)
        found: Answer | str = comparable(pa.Table.from_batches(batches, reader.schema))
    except QueryError as error:
        found = str(error)
    finally:
        execution.close()
    return found, any(reference.predicate != ANYTHING for reference in planned.tables)
