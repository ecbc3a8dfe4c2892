"""Statements in other dialects than DuckDB's, as DuckDB says the same. What is allowed is decided behind that, for all alike.

Of Trino's dialect sqlglot knows the syntax. What means something else in DuckDB is said anew here:

| Trino | DuckDB |
|---|---|
| `a / b` of integers: an integer, cut towards zero; division by zero is an error | `a // b`, which is that for integers only |
| an output column without a name: `_col0`, by its place | the text of the expression |
| `date_diff`: full units between two points in time | `date_sub`; its `date_diff` counts borders |
| `cardinality`: of arrays and maps | a macro |
| `format_datetime` with a pattern of Joda's | `strftime` |
| `infinity()`, `nan()`, `url_extract_host` and the like | a literal, a pattern |
| `CAST(x AS decimal)`: no digits behind the point | three of them |
| `decimal '1.50'` | the number |
| `current_user`, `current_catalog`, `current_schema`, `version()` | what the session says |

Decimals divide as DOUBLE: no digits are lost that Trino would cut.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import ErrorLevel, exp, parse, tokenize
from sqlglot.errors import ParseError, SqlglotError, TokenError, UnsupportedError
from sqlglot.tokenizer_core import Token, TokenType

from catalog import Catalog
from service.errors import (
    ForbiddenError,
    InvalidQueryError,
    InvalidRequestError,
    LimitExceededError,
    QueryError,
    QuerySyntaxError,
)
from service.sql.functions import CARDINALITY
from service.sql.planner import DIALECT, Plan, check_length, plan, position_of_word, syntax_error

if TYPE_CHECKING:
    from service.queries.query import QueryRequest

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


def planned(request: QueryRequest, catalog: Catalog, max_sql_bytes: int) -> Plan:
    """What a request's statement means, in whichever dialect it is.

    Raises:
        QueryError: it means nothing, or may not run; its position is that in the request's text.
    """
    if request.dialect not in _TRANSLATIONS:
        known = " or ".join(repr(name) for name in _TRANSLATIONS)
        raise InvalidRequestError(f"expected the dialect {known}, found {request.dialect!r}")
    translate = _TRANSLATIONS[request.dialect]
    check_length(request.sql, max_sql_bytes)
    sql = translate(request.sql, request.constants)
    try:
        found = plan(sql, catalog, schema=request.schema, system_tables=request.system_tables)
    except QueryError as error:
        if sql != request.sql:
            _relocate(error, sql, request.sql)
        raise
    return found if sql == request.sql else replace(found, sql=request.sql, is_translated=True)


def trino_tokens(sql: str) -> list[Token]:
    """The tokens of a statement in Trino's dialect, without semicolons at the end.

    Raises:
        QuerySyntaxError: a string, a quoted name or a comment has no end.
    """
    try:
        tokens = tokenize(sql, read=TRINO)
    except TokenError as error:
        raise QuerySyntaxError("a string, a quoted name or a comment has no end") from error
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    return tokens


def _from_duckdb(sql: str, _constants: Mapping[str, str]) -> str:
    return sql


def _from_trino(sql: str, constants: Mapping[str, str]) -> str:
    """A query in Trino's dialect in DuckDB's."""
    explain = _EXPLAIN.match(sql.lstrip())
    prefix = explain.group() if explain else ""
    body = sql.lstrip()[len(prefix) :]
    try:
        tree = _parsed(body)
        for node in list(tree.walk()):
            rewrite = _REWRITES.get(type(node))
            if rewrite is not None:
                rewrite(node, constants)
        for select in tree.find_all(exp.Select):
            _name_columns(select)
        text = tree.sql(DIALECT, comments=False, unsupported_level=ErrorLevel.RAISE)
    except RecursionError as error:
        raise LimitExceededError("the statement is nested too deeply") from error
    except UnsupportedError as error:
        raise InvalidQueryError(str(error).strip()) from error
    except ParseError as error:
        raise syntax_error(error) from error
    except TokenError as error:
        raise QuerySyntaxError("a string, a quoted name or a comment has no end") from error
    except SqlglotError as error:
        raise QuerySyntaxError("it is not SQL") from error
    return f"{prefix} {text}" if prefix else text


def _parsed(sql: str) -> exp.Expr:
    """The tree of the one statement."""
    trees = [tree for tree in parse(sql, read=TRINO) if tree is not None]
    if not trees:
        raise QuerySyntaxError("expected a statement, found none")
    if len(trees) > 1:
        raise ForbiddenError("expected one statement, found several")
    tree = trees[0]
    if isinstance(tree, exp.Values):
        return exp.select("*").from_(tree)
    if not isinstance(tree, exp.Query):
        raise ForbiddenError(f"expected a query, found {tree.key.upper()}")
    return tree


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
    """Functions that sqlglot does not know."""
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
    """A pattern of Joda's, as strftime has it.

    Raises:
        InvalidQueryError: it has a letter that strftime has nothing for.
    """

    def piece(found: re.Match[str]) -> str:
        text = found.group()
        if text.startswith("'"):
            return (text[1:-1] or "'").replace("%", "%%")
        if text not in _JODA and text[0].isalpha():
            raise InvalidQueryError(f"format_datetime does not know {text!r} here", code="NOT_SUPPORTED")
        return _JODA.get(text, text.replace("%", "%%"))

    return re.sub(r"'[^']*'|([A-Za-z])\1*|[^A-Za-z']+", piece, pattern)


def _constant(name: str) -> Callable[[exp.Expr, Mapping[str, str]], None]:
    def rewrite(node: exp.Expr, constants: Mapping[str, str]) -> None:
        if name in constants:
            node.replace(exp.Literal.string(constants[name]))

    return rewrite


def _column(node: exp.Expr, constants: Mapping[str, str]) -> None:
    """`current_catalog` and `current_schema` are names to sqlglot."""
    assert isinstance(node, exp.Column)
    name = node.name.lower()
    if len(node.parts) == 1 and name in constants and not node.this.args.get("quoted"):
        node.replace(exp.Literal.string(constants[name]))


def _name_columns(select: exp.Select) -> None:
    """Give the output columns without a name the one that Trino gives them."""
    for number, column in enumerate(select.expressions):
        if isinstance(column, exp.Alias | exp.Column | exp.Star | exp.Dot | exp.Aliases) or column.is_star:
            continue
        column.replace(exp.alias_(column.copy(), f"_col{number}", quoted=True))


def _relocate(error: QueryError, translated: str, sql: str) -> None:
    """Let an error point to the same word in the text that was given."""
    position, error.position = error.position, None
    if position is None:
        return
    line = translated.split("\n")[position.line - 1]
    found = _WORD_AT.match(line, position.column - 1)
    if found is not None:
        error.position = position_of_word(sql, found[1] or found[0])


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
