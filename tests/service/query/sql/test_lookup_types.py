"""`WHERE key = …` on keys of every type: the rows of that key, from its key group alone where its hash is known."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from catalog import connect
from readers.jsontext import json_text
from service.query.sql.plan import explanation_of
from service.query.sql.planner import plan
from tests.service.conftest import Asker
from tests.support.paths import DATA

INFINITY = float("inf")
KEYS = DATA / "corpus/1.20.3/allstates-hashmap-compressed/canonical"

# Types of keys, and whether their Java hash follows from the value.
TYPES = {
    "String": True,
    "Tuple2<String, Integer>": True,
    "Tuple2<Long, Tuple2<String, Boolean>>": True,
    "Boolean": True,
    "Byte": True,
    "Short": True,
    "Integer": True,
    "Long": True,
    "Double": True,
    "Character": True,
    "BigDecimal": True,
    "Instant": True,
    "LocalDate": True,
    "Row<String, Integer>": True,
    "Kryo<java.util.UUID>": True,
    "corpus.T$KeyPojo": False,
}


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    made = Asker(connect(KEYS, name="k"))
    yield made
    made.queries.close()


def constant_of(value: Any) -> str:
    """A value as SQL."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"'{name}': {constant_of(field)}" for name, field in value.items()) + "}"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    return str(value).upper() if isinstance(value, bool) else f"{Decimal(value):f}"


def has_no_constant(key: Any) -> bool:
    """Nanoseconds, which TIMESTAMP has not; zero, which floating point has twice; NULL, which equals nothing."""
    if isinstance(key, dict):
        return any(map(has_no_constant, key.values()))
    return (
        key is None
        or getattr(key, "nanosecond", 0) != 0
        or (isinstance(key, float) and key in (0.0, INFINITY, -INFINITY))
    )


def tables_by_key(asker: Asker) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key_type, name in asker.rows("SELECT key_type, table_name FROM StateMeta WHERE key_type IS NOT NULL"):
        if name != "timers":
            found.setdefault(key_type, []).append(name)
    return found


@pytest.mark.parametrize("key_type", TYPES)
def test_a_key_of_any_type_is_found_in_its_key_group(asker: Asker, key_type: str) -> None:
    table = asker.catalog.table(tables_by_key(asker)[key_type][0])
    rows = table.scan(["key", "_key_group"]).to_arrow()
    texts = json_text(rows.column("key").combine_chunks()).to_pylist()
    found = dict(zip(texts, zip(*map(pa.ChunkedArray.to_pylist, rows.columns), strict=True), strict=True))
    assert found

    for text, (key, group) in list(found.items())[:20]:
        if has_no_constant(key):
            continue
        sql = f'SELECT key, _key_group FROM "{table.name}" WHERE key = {constant_of(key)}'
        [reading] = explanation_of(plan(sql, asker.catalog))
        assert reading.key_groups == (1 if TYPES[key_type] else reading.key_groups_total), sql
        assert set(map(str, asker.rows(sql))) == {str((key, group))}
        assert len(asker.rows(sql)) == texts.count(text)


def test_timers_of_a_key_are_in_its_key_group() -> None:
    savepoint = DATA / "flink/2.3.0/everything-rocksdb-savepoints/native"
    made = Asker(connect(savepoint, name="e"))
    everything = made.rows("SELECT * FROM timers")
    key = next(row[4] for row in everything)
    read = made.bytes_read
    sql = f"SELECT * FROM timers WHERE key = {constant_of(key)} AND time_domain IS NOT NULL"
    [reading] = explanation_of(plan(sql, made.catalog))

    assert sorted(map(str, made.rows(sql))) == sorted(str(row) for row in everything if row[4] == key)
    assert 0 < made.bytes_read < read
    assert (reading.key_groups, reading.key_groups_total > 1) == (1, True)
    made.queries.close()
