"""Which databases a query of `information_schema` and the like asks for: only these are opened, and none is left out."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from service.query.sql.pruning import requested_databases

DATABASES = ("a__x", "a__y", "b__z")
ALL = None


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("table_schem = 'a__x'", ("a__x",)),
        ("'a__x' = t.table_schem", ("a__x",)),
        ("table_schem IN ('a__x', 'b__z')", ("a__x", "b__z")),
        ("table_schem = 'a__x' OR table_schem = 'b__z'", ("a__x", "b__z")),
        ("table_schem LIKE 'a\\_\\_%' ESCAPE '\\'", ("a__x", "a__y")),
        ("(table_schem LIKE 'a%')", ("a__x", "a__y")),
        ("(table_schem LIKE 'a%' AND (table_name LIKE '%'))", ("a__x", "a__y")),
        ("table_schem NOT LIKE 'a%'", ALL),
        ("table_schem NOT LIKE 'a%' ESCAPE '!'", ALL),
        ("table_schem LIKE 'a%' AND table_schem NOT LIKE '%y'", ("a__x", "a__y")),
        ("NOT (table_schem LIKE 'a%')", ALL),
        ("table_schem LIKE 'a%' OR table_name = 't'", ALL),
        ("table_schem NOT IN ('a__x')", ALL),
        ("lower(table_schem) = 'a__x'", ALL),
    ],
)
def test_the_databases_of_a_condition(condition: str, wanted: tuple[str, ...] | None) -> None:
    query = parse_one(f"SELECT * FROM system.jdbc.tables AS t WHERE {condition}", read="duckdb")
    table = query.find(exp.Table)

    assert table is not None
    assert requested_databases(table, lambda: DATABASES) == wanted
