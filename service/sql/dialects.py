"""Statements in other dialects than DuckDB's → the same in DuckDB's. The planner checks all of them after that.

sqlglot knows the syntax of Trino's dialect. What means something else in DuckDB is rewritten here:

| Trino | DuckDB |
|---|---|
| `a / b` of integers: an integer, cut towards zero; division by zero is an error | `a // b`, which means that for integers only |
| an output column without a name: `_col0`, by its position | the text of the expression |
| `date_diff`: full units between two points in time | `date_sub`; its `date_diff` counts borders |
| `cardinality`: of arrays and maps | a macro |
| `format_datetime` with a pattern of Joda-Time | `strftime` |
| `infinity()`, `nan()`, `url_extract_host` and the like | a literal, a pattern |
| `CAST(x AS decimal)`: no digits behind the point | three of them |
| `decimal '1.50'` | the number |
| `current_user`, `current_catalog`, `current_schema`, `version()` | the values of the session |

Decimals divide as DOUBLE: no digits are lost that Trino would cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from catalog import Catalog
from service.errors import (
    ForbiddenError,
    InvalidQueryError,
    InvalidRequestError,
    QueryError,
    QuerySyntaxError,
)
from service.sql.functions import CARDINALITY
from service.sql.names import quoting_hint
from service.sql.parser import (
    DIALECT,
    blanked,
    check_length,
    generated,
    parsed,
    position_of_word,
    too_deep,
    with_double_quotes,
)
from service.sql.plan import Plan
from service.sql.planner import plan
from service.sql.resolver import SystemTables

TRINO = "trino"
_DOUBLES = {"infinity": "inf", "nan": "nan"}
_URL_PARTS = {
    "url_extract_host": r"^[^:/?#]+://(?:[^/?#@]*@)?([^/?#:]*)",
    "url_extract_path": r"^[^:/?#]+://[^/?#]*([^?#]*)",
    "url_extract_protocol": r"^([^:/?#]+)://",
    "url_extract_query": r"^[^?#]*\?([^#]*)",
}
_JODA = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "dd": "%d",
    "d": "%-d",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%g",
    "EEEE": "%A",
    "EEE": "%a",
    "a": "%p",
    "DDD": "%j",
}
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?|[+-]?\.\d+")
_WORD_AT = re.compile(r'"((?:[^"]|"")*)"|\w+')
_EXPLAIN = re.compile(r"EXPLAIN(?:\s+ANALYZE)?\b", re.IGNORECASE)


def planned(
    sql: str,
    catalog: Catalog,
    *,
    dialect: str,
    max_sql_bytes: int,
    schema: str | None = None,
    system_tables: SystemTables | None = None,
    constants: Mapping[str, str],
) -> Plan:
    """Plan one statement in any dialect.

    Args:
        sql: the statement.
        catalog: its databases.
        dialect: `duckdb` or `trino`.
        max_sql_bytes: length of the longest statement.
        schema: the database of tables without one; the only or the newest database if None.
        system_tables: tables that hide those of the catalog.
        constants: values of `current_user` and the like, for dialects that have them.

    Raises:
        QueryError: the statement means nothing or is not allowed; the error's position is in `sql`, not in the translation.
    """
    if dialect not in _TRANSLATIONS:
        known = " or ".join(repr(name) for name in _TRANSLATIONS)
        raise InvalidRequestError(f"expected the dialect {known}, found {dialect!r}")
    check_length(sql, max_sql_bytes)
    sql = with_double_quotes(sql)
    try:
        translation = _TRANSLATIONS[dialect](sql, constants)
    except QuerySyntaxError as error:
        error.hint = error.hint or quoting_hint(sql, error.position, catalog, schema)
        raise
    try:
        # The default limit for the translation: it may be longer than the text.
        result = plan(translation, catalog, schema=schema, system_tables=system_tables)
    except QueryError as error:
        if translation != sql:
            _relocate(error, translation, sql)
        elif isinstance(error, QuerySyntaxError):
            error.hint = error.hint or quoting_hint(sql, error.position, catalog, schema)
        raise
    return result if translation == sql else replace(result, sql=sql, is_translated=True)


def _from_duckdb(sql: str, _constants: Mapping[str, str]) -> str:
    return sql


def _from_trino(sql: str, constants: Mapping[str, str]) -> str:
    """Translate a query from Trino's dialect to DuckDB's."""
    # sqlglot takes all that follows EXPLAIN for one token.
    start = len(sql) - len(sql.lstrip())
    explain = _EXPLAIN.match(sql, start)
    prefix = explain.group() if explain else ""
    try:
        tree = parsed(blanked(sql, start + len(prefix)), TRINO)
        if not isinstance(tree, exp.Query):
            raise ForbiddenError(f"expected a query, found {tree.key.upper()}")
        # A list, because nodes are replaced meanwhile.
        for node in list(tree.walk()):
            rewrite = _REWRITES.get(type(node))
            if rewrite is not None:
                rewrite(node, constants)
        for select in tree.find_all(exp.Select):
            _name_columns(select)
    except RecursionError as error:
        raise too_deep() from error
    text = generated(tree)
    return f"{prefix} {text}" if prefix else text


def _divide(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    # `//` of DuckDB divides integers only as such: 7 // 2 = 3, 7.0 // 2 = 3.5.
    node.replace(exp.paren(exp.IntDiv(this=node.this, expression=node.expression), copy=False))


def _cardinality(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    node.replace(exp.Anonymous(this=CARDINALITY, expressions=[node.this]))


def _full_units(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    unit = node.args.get("unit")
    name = exp.Literal.string(unit.name.lower() if unit else "day")
    node.replace(exp.Anonymous(this="date_sub", expressions=[name, node.expression, node.this]))


def _cast(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    kind = node.args["to"]
    if kind.this is not exp.DataType.Type.DECIMAL or kind.expressions:
        return
    value = node.this
    # sqlglot reads `DECIMAL '1.50'` as a cast of the text.
    if isinstance(value, exp.Literal) and value.is_string and _NUMBER.fullmatch(value.this.strip()):
        number = value.this.strip()
        literal: exp.Expr = exp.Literal.number(number.lstrip("+-"))
        node.replace(exp.Neg(this=literal) if number.startswith("-") else literal)
        return
    digits = [exp.DataTypeParam(this=exp.Literal.number(number)) for number in (38, 0)]
    kind.set("expressions", digits)


def _function(node: exp.Expr, _constants: Mapping[str, str]) -> None:
    """Rewrite a function that sqlglot does not know."""
    name, arguments = node.name.lower(), node.expressions
    if name in _DOUBLES and not arguments:
        node.replace(exp.cast(exp.Literal.string(_DOUBLES[name]), "DOUBLE"))
    elif name == "format_datetime" and len(arguments) == 2 and arguments[1].is_string:
        pattern = exp.Literal.string(_strftime(arguments[1].this))
        node.replace(exp.Anonymous(this="strftime", expressions=[arguments[0], pattern]))
    elif name in _URL_PARTS and len(arguments) == 1:
        pattern = exp.Literal.string(_URL_PARTS[name])
        group = exp.Literal.number(1)
        node.replace(exp.Anonymous(this="regexp_extract", expressions=[arguments[0], pattern, group]))


def _strftime(pattern: str) -> str:
    """Return a pattern of Joda-Time as a pattern of strftime.

    Raises:
        InvalidQueryError: the pattern has a letter without a counterpart.
    """

    def translated(field: re.Match[str]) -> str:
        text = field.group()
        if text.startswith("'"):
            return (text[1:-1] or "'").replace("%", "%%")
        if text not in _JODA and text[0].isalpha():
            raise InvalidQueryError(f"format_datetime does not know {text!r} here", code="NOT_SUPPORTED")
        return _JODA.get(text, text.replace("%", "%%"))

    return re.sub(r"'[^']*'|([A-Za-z])\1*|[^A-Za-z']+", translated, pattern)


def _constant(name: str) -> Callable[[exp.Expr, Mapping[str, str]], None]:
    def rewrite(node: exp.Expr, constants: Mapping[str, str]) -> None:
        if name in constants:
            node.replace(exp.Literal.string(constants[name]))

    return rewrite


def _column(node: exp.Expr, constants: Mapping[str, str]) -> None:
    # sqlglot reads `current_catalog` and `current_schema` as names of columns.
    assert isinstance(node, exp.Column)
    name = node.name.lower()
    if len(node.parts) == 1 and name in constants and not node.this.args.get("quoted"):
        node.replace(exp.Literal.string(constants[name]))


def _name_columns(select: exp.Select) -> None:
    """Give output columns without a name the name that Trino gives them."""
    for number, column in enumerate(select.expressions):
        if isinstance(column, exp.Alias | exp.Column | exp.Star | exp.Dot | exp.Aliases) or column.is_star:
            continue
        column.replace(exp.alias_(column.copy(), f"_col{number}", quoted=True))


def _relocate(error: QueryError, translated: str, sql: str) -> None:
    """Move the position of an error to the same word in the text as it was given."""
    position, error.position = error.position, None
    if position is None:
        return
    line = translated.split("\n")[position.line - 1]
    word = _WORD_AT.match(line, position.column - 1)
    if word is not None:
        error.position = position_of_word(sql, word[1] or word[0])


_Rewrite = Callable[[exp.Expr, Mapping[str, str]], None]
_REWRITES: dict[type[exp.Expr], _Rewrite] = {
    exp.Anonymous: _function,
    exp.ArraySize: _cardinality,
    exp.Cast: _cast,
    exp.Column: _column,
    exp.CurrentCatalog: _constant("current_catalog"),
    exp.CurrentSchema: _constant("current_schema"),
    exp.CurrentUser: _constant("current_user"),
    exp.CurrentVersion: _constant("version"),
    exp.DateDiff: _full_units,
    exp.Div: _divide,
    exp.TryCast: _cast,
}
_TRANSLATIONS: dict[str, Callable[[str, Mapping[str, str]], str]] = {
    DIALECT: _from_duckdb,
    TRINO: _from_trino,
}
