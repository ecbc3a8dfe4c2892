"""Random conditions on the columns of a table, over values that it has and near ones: what a scan may prune by or be given."""

from __future__ import annotations

import random
from collections.abc import Sequence

import duckdb

_COMPARISONS = ("=", "=", "=", "<>", "<", ">=", "IS NOT DISTINCT FROM", "IS DISTINCT FROM")


class Lookups:
    """Random statements over one table; the same ones for the same seed.

    Args:
        seed: of the random numbers.
        connection: has the table, with its rows.
        table: its name in SQL.
    """

    def __init__(self, seed: int, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        self._random = random.Random(seed)
        self._table = table
        described = connection.execute(f"DESCRIBE {table}").fetchall()
        self._types: dict[str, str] = {}
        self._constants: dict[str, list[str]] = {}
        for name, kind, *_ in described:
            for path, own in _paths(f'"{name}"', str(kind), connection, table):
                self._types[path] = own
                self._constants[path] = _constants(path, own, connection, table)

    def statement(self) -> str:
        """Return a statement."""
        form = self._random.choice(
            [
                "SELECT * FROM {t} a WHERE {c}",
                "SELECT * FROM {t} a WHERE {c} AND {c}",
                "SELECT * FROM {t} a WHERE {c} OR {c}",
                "SELECT * FROM {t} a WHERE NOT ({c}) AND {c}",
                "SELECT count(*) FROM {t} a WHERE {c}",
                "SELECT _key_group, count(*), min(_subtask) FROM {t} a WHERE {c} GROUP BY ALL",
                "SELECT a._key_group FROM (SELECT * FROM {t} WHERE {c}) a WHERE {c}",
                "WITH w AS (SELECT * FROM {t} a WHERE {c}) SELECT count(*) FROM w a WHERE {c}",
                "SELECT a.* FROM {t} a JOIN {t} b ON a.key = b.key WHERE {c}",
                "SELECT a.* FROM {t} a LEFT JOIN {t} b USING (key) WHERE {c}",
                "SELECT a.* FROM {t} a JOIN (VALUES {v}) v(k) ON {p} = v.k",
                "WITH w(k) AS (VALUES {v}) SELECT a.* FROM {t} a WHERE {p} IN (SELECT k FROM w)",
                "SELECT a.* FROM {t} a SEMI JOIN (VALUES {v}) v(k) ON {p} = v.k WHERE {c}",
                "SELECT a.* FROM {t} a FULL JOIN (VALUES {v}) v(k) ON {p} = v.k AND {c}",
                "SELECT CASE WHEN {c} THEN 1 ELSE 2 END AS x, count(*) FROM {t} a GROUP BY x",
                "SELECT sum(_key_group) FILTER (WHERE {c}) FROM {t} a WHERE {c}",
            ]
        )
        path = self._path()
        made = form.replace("{t}", self._table)
        made = made.replace(
            "{v}", ", ".join(f"({self._constant(path)})" for _ in range(self._random.randint(1, 3)))
        )
        made = made.replace("{p}", self._in_a(path))
        while "{c}" in made:
            made = made.replace("{c}", self._condition(), 1)
        return made

    def _condition(self) -> str:
        path = self._path()
        column, constants = (
            self._in_a(path),
            [self._constant(path) for _ in range(self._random.randint(1, 3))],
        )
        return self._random.choice(
            [
                f"{column} {self._random.choice(_COMPARISONS)} {constants[0]}",
                f"{column} {self._random.choice(_COMPARISONS)} {constants[0]}",
                f"{constants[0]} = {column}",
                f"{column} IN ({', '.join(constants)})",
                f"{column} NOT IN ({', '.join(constants)})",
                f"{column} BETWEEN {constants[0]} AND {constants[-1]}",
                f"({column} = {constants[0]} OR {column} = {constants[-1]})",
                f"{column} IS NULL",
                f"{column} IS NOT NULL",
                f"coalesce({column} = {constants[0]}, false)",
                f"{column} = (SELECT {constants[0]})",
                f"CAST({column} AS VARCHAR) = CAST({constants[0]} AS VARCHAR)",
            ]
        )

    def _path(self) -> str:
        # Keys are what prunes most.
        keys = [path for path in self._types if path.startswith('"key"')]
        return self._random.choice(keys if self._random.random() < 0.5 else sorted(self._types))

    def _in_a(self, path: str) -> str:
        return f"a.{path}" if self._random.random() < 0.7 else path if path.startswith("_") else f"a.{path}"

    def _constant(self, path: str) -> str:
        return self._random.choice(self._constants[path])


def _paths(
    path: str, kind: str, connection: duckdb.DuckDBPyConnection, table: str
) -> Sequence[tuple[str, str]]:
    """Return a column and its fields at any depth, with their types."""
    found = [(path, kind)]
    if kind.startswith("STRUCT(") and not kind.endswith("]"):
        fields = (
            connection.execute(f"SELECT struct_keys(any_value({path})) FROM {table}").fetchall()[0][0] or []
        )
        for name in fields:
            inner = f'{path}."{name}"'
            (own,) = connection.execute(f"SELECT any_value(typeof({inner})) FROM {table}").fetchall()[0]
            found += _paths(inner, str(own), connection, table)
    return found


def _constants(path: str, kind: str, connection: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    """Return constants in the spellings that people use: of values that are there, and of others."""
    rows = connection.execute(
        f"SELECT DISTINCT {path}::VARCHAR AS x FROM {table} WHERE {path} IS NOT NULL ORDER BY x LIMIT 20"
    ).fetchall()
    quoted = ["'" + text.replace("'", "''") + "'" for (text,) in rows]
    made = [
        "NULL",
        *quoted,
        *(f"{text}::{kind}" for text in quoted),
        *(f"CAST({text} AS {kind})" for text in quoted),
    ]
    if kind in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT"):
        made += ["0", "-1", "5", "127", "128", "99999999999", "1.0", "2.5", "'7'", "TRUE", "1::TINYINT"]
        made += (
            [text for (text,) in rows]
            + [f"{text}.0" for (text,) in rows]
            + [f"BIGINT '{text}'" for (text,) in rows]
        )
    elif kind in ("DOUBLE", "FLOAT"):
        made += [
            "0",
            "-0.0",
            "0.1",
            "1e0",
            "'nan'::DOUBLE",
            "1",
            *(text for (text,) in rows if text[-1].isdigit()),
        ]
    elif kind == "BOOLEAN":
        made += ["TRUE", "FALSE", "'t'", "1"]
    elif kind == "DATE":
        made += (
            [f"DATE {text}" for text in quoted]
            + [f"TIMESTAMP {text}" for text in quoted]
            + ["DATE '2020-01-01'"]
        )
    elif kind.startswith("TIMESTAMP"):
        made += (
            [f"TIMESTAMP {text}" for text in quoted]
            + [f"{text}::DATE" for text in quoted]
            + ["TIMESTAMP '2020-01-01'"]
        )
    elif kind == "VARCHAR":
        made += [
            "'nothing'",
            "''",
            *(f"upper({text})" for text in quoted),
            *(f"VARCHAR {text}" for text in quoted),
        ]
    return made
