"""The columns of a table as statements that DuckDB takes: the answer to SHOW CREATE TABLE."""

from __future__ import annotations

import re

from catalog.table import Table
from service.query.sql.edits import quoted
from service.query.sql.literals import text_constant
from service.query.sql.types import sql_type

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def definition_of(table: Table, database: str | None) -> str:
    """Return the statements that make an empty table with the same columns and comment.

    Args:
        table: the table.
        database: the schema before its name; None for none.
    """
    name = ".".join(map(_identifier, [*([] if database is None else [database]), table.name]))
    columns = ",\n".join(
        f"    {_identifier(column.name)} {sql_type(column.type, as_identifier)}" for column in table.schema
    )
    return f"CREATE TABLE {name} (\n{columns}\n);\nCOMMENT ON TABLE {name} IS {text_constant(table.comment)};"


def as_identifier(name: str) -> str:
    """Return a name as a statement writes it: in quotation marks where it needs them."""
    return name if _PLAIN.fullmatch(name) and name.casefold() not in _RESERVED else quoted(name)


def _identifier(name: str) -> str:
    """Return a name in quotation marks also where it has capitals: other databases would read it in small letters."""
    return as_identifier(name) if name == name.lower() else quoted(name)


# The words that DuckDB takes for no name, and some that sqlglot, which reads a statement first, takes for none.
_WORDS = """all analyse analyze and anti any array as asc asof asymmetric at authorization binary both by case cast check collate
    collation column columns concurrently constraint create cross default deferrable desc describe distinct do else end
    except false fetch for foreign freeze from full generated glob group having ilike in initially inner intersect into
    is isnull join lambda lateral leading left like limit map natural not notnull null offset on only or order outer
    overlaps partition pivot pivot_longer pivot_wider placing positional primary qualify references returning right
    select semi show similar some struct summarize symmetric table tablesample then to trailing true try_cast tuple
    union unique unpack unpivot using values variadic verbose when where window with"""
_RESERVED = frozenset(_WORDS.split())
