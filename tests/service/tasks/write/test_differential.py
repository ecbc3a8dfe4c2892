"""Random scripts: SELECT of the new savepoint finds what DuckDB makes of a copy of the tables by the same script."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import catalog
from service.cli import main
from tests.support.paths import DATA

CANONICAL = DATA / "flink/2.3.0/everything-rocksdb-savepoints/canonical"
NATIVE = DATA / "flink/1.20.3/everything-hashmap-savepoints/native"
ROCKSDB = DATA / "flink/2.3.0/everything-rocksdb-savepoints/native"
# Each table with the columns that tell its rows from others, and the type of its values.
TABLES = {"kinds__value": ("key",), "kinds__reducing": ("key",), "kinds__map": ("key", "map_key")}

keys = st.sampled_from(["'k0'", "'k1'", "'k2'", "'k5'", "'new'", "'other'"])
numbers = st.integers(-50, 50)


@st.composite
def conditions(draw: st.DrawFn, table: str) -> str:
    """A condition on rows of a table."""
    simple = st.one_of(
        keys.map(lambda key: f"{table}.key <= {key}"),
        keys.map(lambda key: f"{table}.key IS DISTINCT FROM {key}"),
        st.just(f"length(CAST({table}.value AS VARCHAR)) > 1"),
        st.just(f"{table}.value IS NULL"),
        numbers.map(lambda number: f"hash({table}.key) % 7 > {number % 7}"),
        st.just(f"{table}.key IN (SELECT key FROM kinds__value WHERE value % 2 = 1)"),
        st.just(f"{table}.value < (SELECT max(m.value) FROM {table} m)"),
    )
    found = draw(st.lists(simple, min_size=1, max_size=2))
    return f" {draw(st.sampled_from(['AND', 'OR']))} ".join(found)


@st.composite
def values(draw: st.DrawFn, table: str) -> str:
    """A new value of a row of a table."""
    if table == "kinds__map":
        return draw(
            st.sampled_from([f"upper({table}.value)", "'x'", f"concat({table}.key, {table}.map_key)", "NULL"])
        )
    return draw(
        st.one_of(
            numbers.map(str),
            numbers.map(lambda number: f"{table}.value + {number}"),
            st.just(f"CASE WHEN {table}.key = 'k1' THEN 7 ELSE {table}.value END"),
            st.just("(SELECT count(*) FROM kinds__map)"),
        )
    )


@st.composite
def new_rows(draw: st.DrawFn, table: str) -> str:
    """Rows in parentheses, with an identity each."""
    chosen = draw(st.lists(keys, min_size=1, max_size=3, unique=True))
    if table == "kinds__map":
        return ", ".join(f"({key}, 'm{draw(st.integers(0, 4))}', 'text')" for key in chosen)
    return ", ".join(f"({key}, {draw(numbers)})" for key in chosen)


@st.composite
def statements(draw: st.DrawFn, number: int) -> str:
    """A statement; its number makes new keys differ."""
    table = draw(st.sampled_from(sorted(TABLES)))
    identity = TABLES[table]
    listed = ", ".join(identity)
    condition = draw(conditions(table))
    kind = draw(st.integers(0, 6))
    if kind == 0:
        return f"DELETE FROM {table} WHERE {condition}"
    if kind == 1:
        return f"DELETE FROM {table} USING kinds__value v WHERE {table}.key = v.key AND v.value > {draw(numbers)} AND ({condition})"
    if kind == 2:
        return f"UPDATE {table} SET {identity[-1]} = concat({identity[-1]}, '-{number}') WHERE {condition}"
    if kind == 3:
        rows = draw(new_rows(table))
        action = draw(st.sampled_from(["DO NOTHING", "DO UPDATE SET value = excluded.value"]))
        return f"INSERT INTO {table} ({listed}, value) VALUES {rows} ON CONFLICT ({listed}) {action}"
    if kind == 4:
        same = " AND ".join(f"{table}.{name} = s.{name}" for name in identity)
        return (
            f"MERGE INTO {table} USING (SELECT * FROM (VALUES {draw(new_rows(table))}) AS v({listed}, value)) AS s ON {same} "
            f"WHEN MATCHED AND {condition} THEN DELETE WHEN MATCHED THEN UPDATE SET value = s.value "
            f"WHEN NOT MATCHED THEN INSERT ({listed}, value) VALUES ({', '.join(f's.{name}' for name in identity)}, s.value)"
        )
    if kind == 5:
        return (
            f"UPDATE {table} SET value = {draw(values(table))} FROM (SELECT key, count(*) AS n FROM kinds__map GROUP BY key) c "
            f"WHERE c.key = {table}.key AND ({condition})"
        )
    return f"UPDATE {table} SET value = {draw(values(table))} WHERE {condition}"


scripts = st.integers(1, 4).flatmap(
    lambda count: st.tuples(*(statements(number) for number in range(count))).map(list)
)


def tables_of(path: Path) -> dict[str, Any]:
    """The tables of a savepoint, in Arrow."""
    database = catalog.connect(str(path))
    return {
        name: database.table(name).scan(columns=[*identity, "value"]).to_arrow()
        for name, identity in TABLES.items()
    }


def by_duckdb(source: Path, script: list[str]) -> dict[str, list[Any]]:
    """The rows of the tables after a script, on a plain copy."""
    connection = duckdb.connect()
    for name, rows in tables_of(source).items():
        connection.register("rows_of_source", rows)
        types = ", ".join(
            f"{column} {'BIGINT' if column == 'value' and name != 'kinds__map' else 'VARCHAR'}"
            for column in rows.schema.names
        )
        connection.execute(f"CREATE TABLE {name} ({types}, PRIMARY KEY ({', '.join(TABLES[name])}))")
        connection.execute(f"INSERT INTO {name} SELECT * FROM rows_of_source")
    for statement in script:
        connection.execute(statement)
    found = {name: sorted(connection.table(name).fetchall(), key=repr) for name in TABLES}
    connection.close()
    return found


def check(source: Path, script: list[str]) -> None:
    expected = by_duckdb(source, script)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "new"
        assert main(["write", str(source), "; ".join(script), "--to", str(target), "--allow-empty"]) == 0
        found = {
            name: sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True), key=repr)
            for name, rows in tables_of(target).items()
        }
    assert found == expected


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=scripts)
def test_a_script_does_what_duckdb_does(script: list[str]) -> None:
    check(CANONICAL, script)


@pytest.mark.slow
@pytest.mark.parametrize("source", [CANONICAL, NATIVE, ROCKSDB], ids=["canonical", "hashmap", "rocksdb"])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=scripts)
def test_scripts_do_what_duckdb_does(source: Path, script: list[str]) -> None:
    check(source, script)
