"""SQL texts ↔ syntax trees of sqlglot, constants ↔ values of columns, and edits of a text. Errors carry the position in the text.

A short statement needs no dialect of sqlglot: that of DuckDB is loaded by the first text that does.

Constants of a statement become the values of a column that `column = constant` looks for, and values become constants, as keys
are read and written (`catalog.keys`). A constant is used only if DuckDB compares it with the column without a conversion that
could make other values of the column equal to it, or this value unequal.

| column | constants |
|---|---|
| text | text |
| integers | integers in range |
| boolean | TRUE, FALSE |
| decimals | numbers that fit it exactly |
| floating point | numbers that the type holds exactly, except zero, which has two encodings |
| date, timestamps | ISO text, DATE '…', TIMESTAMP '…' that fit it exactly |
| structs | {'name': constant, …} with all names in the column's order, ROW(constant, …) |
| lists | [constant, …] |

NULL equals nothing, so it is no value here.

The statement that DuckDB runs is the user's own text, with names of tables replaced: an `Edit` each. A text generated from the
tree of sqlglot may mean something else: sqlglot reads some operators in another order than DuckDB.

    SELECT "chk-41".orders.key::DATE -- why not
    FROM "chk-41".orders

    SELECT "orders".key::DATE -- why not
    FROM "1: chk-41.orders" AS "orders"

Values of a client stand in place of its parameters before anything reads the statement: `?` for the next one, `$name` for one by
its name. They are written as constants, so that they prune as constants do; what they hold never becomes SQL.
"""

from __future__ import annotations

import base64
import importlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

import pyarrow as pa
from sqlglot import exp, parse, tokenize
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, TokenError, UnsupportedError
from sqlglot.tokenizer_core import Token, TokenType

import catalog
from catalog import NotAKeyError
from readers import json_text, sql_type
from service.base.errors import (
    ForbiddenError,
    InvalidQueryError,
    LimitExceededError,
    Position,
    QuerySyntaxError,
)

DIALECT = "duckdb"

# sqlglot ends some descriptions with the dump of a token.
_DUMPED_TOKEN = re.compile(r"\s*but got <Token.*", re.DOTALL)


def load_dialect() -> None:
    """Load DuckDB's dialect now, for those who will need it: workers share what is loaded before they are forked."""
    importlib.import_module("service.query.sql.syntax")


def check_length(sql: str, max_sql_bytes: int) -> None:
    """Refuse a text that is too long.

    Raises:
        LimitExceededError: the text has more bytes.
    """
    length = len(sql.encode(errors="surrogatepass"))
    if length > max_sql_bytes:
        raise LimitExceededError(f"expected a statement of at most {max_sql_bytes} bytes, found {length}")


def tokens_of(sql: str, *, has_commands: bool = True) -> list[Token]:
    """Return the tokens of a text in DuckDB's dialect, without semicolons at the end.

    Args:
        sql: the text.
        has_commands: whether everything between a word like CALL and the next semicolon is one token, quoted or not.

    Raises:
        QuerySyntaxError: a string, a quoted name or a comment has no end.
    """
    from service.query.sql.syntax import words_of  # heavy

    try:
        tokens = tokenize(sql, read=DIALECT) if has_commands else words_of(sql)
    except TokenError as error:
        raise _unended() from error
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    return tokens


def with_double_quotes(sql: str) -> str:
    """Return a text whose names in backquotes, as Flink's SQL quotes them, stand in double quotes."""
    if "`" not in sql:
        return sql
    from service.query.sql.syntax import backquoting_words_of  # heavy

    try:
        tokens = backquoting_words_of(sql)
    except TokenError:
        return sql
    pieces, end = [], 0
    for token in tokens:
        if token.token_type is TokenType.IDENTIFIER and sql[token.start] == "`":
            name = token.text.replace('"', '""')
            pieces += [sql[end : token.start], f'"{name}"']
            end = token.end + 1
    return "".join([*pieces, sql[end:]])


def parsed(sql: str, dialect: str | type[Dialect] = DIALECT) -> exp.Expr:
    """Parse one statement. VALUES alone becomes `SELECT * FROM (VALUES …)`.

    Raises:
        QuerySyntaxError: the text is empty or not SQL.
        ForbiddenError: the text has several statements.
    """
    from service.query.sql.syntax import DuckDBSyntax  # heavy

    try:
        trees = [
            tree
            for tree in parse(sql, read=DuckDBSyntax if dialect == DIALECT else dialect)
            if tree is not None
        ]
    except ParseError as error:
        raise _syntax_error(error) from error
    except TokenError as error:
        raise _unended() from error
    except SqlglotError as error:
        raise QuerySyntaxError("it is not SQL") from error
    if not trees:
        raise QuerySyntaxError("expected a statement, found none")
    if len(trees) > 1:
        raise ForbiddenError("expected one statement, found several")
    tree = trees[0]
    return exp.select("*").from_(tree) if isinstance(tree, exp.Values) else tree


def generated(tree: exp.Expr, dialect: str = DIALECT) -> str:
    """Return the text of a tree.

    Raises:
        InvalidQueryError: the dialect has no words for some of it.
        LimitExceededError: the tree is too deep.
    """
    try:
        return tree.sql(dialect, comments=False, unsupported_level=ErrorLevel.RAISE)
    except RecursionError as error:
        raise too_deep() from error
    except UnsupportedError as error:
        raise InvalidQueryError(str(error).strip()) from error
    except SqlglotError as error:
        raise QuerySyntaxError("it is not SQL") from error


def blanked(sql: str, length: int) -> str:
    """Replace the first characters with blanks: what follows keeps its positions."""
    return re.sub(r"[^\n]", " ", sql[:length]) + sql[length:]


def position_of_word(sql: str, word: str) -> Position | None:
    """Return where a word, in any case, first stands in a text."""
    match = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", sql, re.IGNORECASE)
    return Position.of(sql, match.start()) if match else None


def too_deep() -> LimitExceededError:
    """Return the error of a statement that exhausts Python's stack."""
    return LimitExceededError("the statement is nested too deeply")


def _unended() -> QuerySyntaxError:
    return QuerySyntaxError("a string, a quoted name or a comment has no end")


def _syntax_error(error: ParseError) -> QuerySyntaxError:
    details = error.errors[0] if error.errors else {}
    description = str(details.get("description") or "it is not SQL")
    text = _DUMPED_TOKEN.sub("", description).partition(" missing for ")[0]
    near = details.get("highlight")
    position = None
    if details.get("line"):
        # sqlglot counts to the end of the token that it could not read.
        column = max(1, int(details["col"]) - len(str(near or " ")) + 1)
        position = Position(int(details["line"]), column)
    return QuerySyntaxError(f"{text} near {near!r}" if near else text, position=position)


_INTEGER = re.compile(r"-?\d{1,20}")
_NUMBER = re.compile(r"\d{1,40}(?:\.\d{0,40})?|\.\d{1,40}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)?")
_MARK = '"'
# sqlglot counts BIT '101' among them, which is no hundred and one.
_INTEGERS = exp.DataType.INTEGER_TYPES - {exp.DataType.Type.BIT}
_TIMESTAMPS = frozenset(
    {exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ, exp.DataType.Type.DATETIME}
)


def value_of(node: exp.Expr, column: pa.DataType, *, strict: bool = False) -> Any:
    """Return the value of a constant in a column of this type; None if it has none for certain.

    Args:
        node: an expression.
        column: the type of the column.
        strict: True if text is text only: the constant is the value of another column, and DuckDB does not convert it.
    """
    node = node.unnest()
    if isinstance(node, exp.Boolean):
        return node.this if pa.types.is_boolean(column) else None
    if strict and not pa.types.is_string(column) and isinstance(node, exp.Literal) and node.is_string:
        return None
    if isinstance(node, exp.Cast):
        if not _is_type_of(node.to, column) or not node.this.is_string:
            return None
        node = node.this
    for test, value in _VALUES:
        if test(column):
            return value(node, column)
    return None


def condition_of(column: str, value: pa.Array) -> str:
    """Return the condition that is true where a column has the value that an array holds; where it can prune, it does."""
    return f"{column} = {_constant(value)}"


def value_constant(value: Any) -> str:
    """Return the constant of a value of Python.

    Raises:
        InvalidQueryError: SQL has no constant for it.
    """
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    value = str(value) if isinstance(value, UUID) else value
    try:
        if isinstance(value, str):
            value.encode()
        return _constant(pa.array([value]))
    except (pa.ArrowException, ValueError, TypeError, OverflowError, LookupError) as error:
        raise InvalidQueryError(
            f"expected a value that SQL has as a constant, found {type(value).__name__} {repr(value)[:100]}",
            hint="numbers, texts, bytes, dates and times, and lists and dicts of them have one",
        ) from error


def text_constant(text: str) -> str:
    """Return the constant of a text."""
    return "'" + text.replace("'", "''") + "'"


def _text(node: exp.Expr, _column: pa.DataType) -> str | None:
    return node.this if isinstance(node, exp.Literal) and node.is_string else None


def _integer(node: exp.Expr, column: pa.DataType) -> Any:
    literal, sign = _signed(node)
    if literal is None or not _INTEGER.fullmatch(literal.this):
        return None
    return _value(str(sign * int(literal.this)), column)


def _decimal(node: exp.Expr, column: pa.DataType) -> Any:
    number = _number(node)
    return None if number is None else _value(number, column)


def _floating(node: exp.Expr, column: pa.DataType) -> Any:
    number = _number(node)
    if number is None:
        return None
    value = _value(number, column)
    # A number that the type cannot hold is rounded before it is compared; the engine decides what matches then.
    # Zero has two encodings, and a lookup would find one of them.
    is_exact = value and math.isfinite(value) and Decimal(value) == Decimal(number)
    return value if is_exact else None


def _number(node: exp.Expr) -> str | None:
    """Return the text of a literal number, with its sign; None if the node is none."""
    literal, sign = _signed(node)
    if literal is None or literal.is_string or not _NUMBER.fullmatch(literal.this):
        return None
    return f"{'-' if sign < 0 else ''}{literal.this}"


def _date(node: exp.Expr, column: pa.DataType) -> Any:
    text = _text(node, column)
    return _value(text, column) if text and _DATE.fullmatch(text) else None


def _timestamp(node: exp.Expr, column: pa.DataType) -> Any:
    text = _text(node, column)
    # The engine decides about constants that are finer than the unit of the column: they are no keys.
    is_known = text and column.tz is None and _TIMESTAMP.fullmatch(text)
    return _value(str(text), column) if is_known else None


def _value(text: str, column: pa.DataType) -> Any:
    """Return the value that a text is, as keys are read; None if it is none."""
    try:
        return catalog.parse_key(text, column).value
    except NotAKeyError:
        return None


def _struct(node: exp.Expr, column: pa.DataType) -> dict[str, Any] | None:
    fields = list(column)
    if isinstance(node, exp.Struct):
        values = _named_fields(node.expressions, [field.name for field in fields])
    elif isinstance(node, exp.Tuple) or (isinstance(node, exp.Anonymous) and node.name.upper() == "ROW"):
        values = node.expressions
    else:
        return None
    if values is None or len(values) != len(fields):
        return None
    members = {
        field.name: value_of(value, field.type, strict=True)
        for field, value in zip(fields, values, strict=True)
    }
    # Fewer members than fields: two fields have the same name.
    return None if None in members.values() or len(members) != len(fields) else members


def _named_fields(nodes: Sequence[exp.Expr], names: list[str]) -> list[exp.Expr] | None:
    """Return the values of `{'name': value}` or ROW(value); None if the names are not these."""
    if not any(isinstance(node, exp.PropertyEQ) for node in nodes):
        return list(nodes)
    if not all(isinstance(node, exp.PropertyEQ) for node in nodes):
        return None
    return [node.expression for node in nodes] if [node.this.name for node in nodes] == names else None


def _list(node: exp.Expr, column: pa.DataType) -> list[Any] | None:
    if not isinstance(node, exp.Array):
        return None
    elements = [value_of(element, column.value_type, strict=True) for element in node.expressions]
    return None if any(value is None for value in elements) else elements


def _signed(node: exp.Expr) -> tuple[exp.Literal | None, int]:
    """Return a literal and its sign; None if the node is no literal."""
    sign = -1 if isinstance(node, exp.Neg) else 1
    literal = node.this if isinstance(node, exp.Neg) else node
    return (literal if isinstance(literal, exp.Literal) else None), sign


def _is_type_of(target: exp.DataType, column: pa.DataType) -> bool:
    """Return whether a cast of text to this type gives a value of the column's type."""
    if target.expressions or target.args.get("nested"):
        return False
    if pa.types.is_string(column):
        return target.this in exp.DataType.TEXT_TYPES
    if pa.types.is_date(column):
        return bool(target.this is exp.DataType.Type.DATE)
    if pa.types.is_timestamp(column):
        return target.this in _TIMESTAMPS
    return pa.types.is_integer(column) and target.this in _INTEGERS


_VALUES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[exp.Expr, pa.DataType], Any]], ...] = (
    (pa.types.is_string, _text),
    (pa.types.is_integer, _integer),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_floating, _floating),
    (pa.types.is_date, _date),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_struct, _struct),
    (pa.types.is_list, _list),
)


def _constant(value: pa.Array) -> str:
    """Return the constant for a value: of an array that holds nothing else."""
    if value.null_count:
        return "NULL"
    for test, written in _CONSTANTS:
        if test(value.type):
            return written(value)
    return _cast(value)


def _cast(value: pa.Array) -> str:
    text: str = json_text(value)[0].as_py()
    return f"TRY_CAST({text_constant(text.strip(_MARK))} AS {sql_type(value.type)})"


def _floating_constant(value: pa.Array) -> str:
    text = repr(value[0].as_py())
    is_plain = _NUMBER.fullmatch(text.removeprefix("-")) and Decimal(text) == Decimal(value[0].as_py())
    return text if is_plain else _cast(value)


def _time_constant(value: pa.Array) -> str:
    """Return a constant that prunes, if its text has no more digits than DuckDB keeps."""
    text = json_text(value)[0].as_py().strip(_MARK)
    text = text.removesuffix("000") if value.type.unit == "ns" else text
    is_plain = value.type.tz is None and _TIMESTAMP.fullmatch(text.replace("T", " "))
    return f"TIMESTAMP {text_constant(text.replace('T', ' '))}" if is_plain else _cast(value)


def _struct_constant(value: pa.Array) -> str:
    fields = (f"{text_constant(field.name)}: {_constant(value.field(field.name))}" for field in value.type)
    return "{" + ", ".join(fields) + "}"


def _list_constant(value: pa.Array) -> str:
    elements = value.flatten()
    constants = ", ".join(_constant(elements.slice(at, 1)) for at in range(len(elements)))
    # A list of Python without elements has no type of elements.
    is_plain = constants or pa.types.is_null(value.type.value_type)
    return f"[{constants}]" if is_plain else f"CAST([] AS {sql_type(value.type)})"


def _map_constant(value: pa.Array) -> str:
    # The keys of a slice are those of the whole array.
    whole = value.take(pa.array([0]))
    keys, items = whole.keys, whole.items
    entries = (f"{_constant(keys.slice(at, 1))}: {_constant(items.slice(at, 1))}" for at in range(len(keys)))
    return f"CAST(MAP {{{', '.join(entries)}}} AS {sql_type(value.type)})"


_CONSTANTS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], str]], ...] = (
    (pa.types.is_string, lambda value: text_constant(value[0].as_py())),
    (pa.types.is_integer, lambda value: str(value[0].as_py())),
    (pa.types.is_boolean, lambda value: str(value[0].as_py()).upper()),
    # A decimal with an exponent would be a DOUBLE.
    (pa.types.is_decimal, lambda value: format(value[0].as_py(), "f")),
    (pa.types.is_floating, _floating_constant),
    (pa.types.is_timestamp, _time_constant),
    (
        pa.types.is_binary,
        lambda value: f"from_base64({text_constant(base64.b64encode(value[0].as_py()).decode())})",
    ),
    (pa.types.is_struct, _struct_constant),
    (pa.types.is_map, _map_constant),
    (pa.types.is_list, _list_constant),
)


_TABLE_WORD = re.compile(r"\bTABLE\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """The text that replaces `[start, end)` of a statement."""

    start: int
    end: int
    text: str


def quoted(name: str) -> str:
    """Return a name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def edit_of(parts: Sequence[exp.Expr], text: str) -> Edit:
    """Return the edit that replaces a name of several parts.

    Raises:
        InvalidQueryError: the text does not show where the name stands.
    """
    first, last = parts[0].meta, parts[-1].meta
    if "start" not in first or "end" not in last:
        name = ".".join(part.name for part in parts)
        raise InvalidQueryError(
            f"expected {name!r} as a plain name, found it in a form that is not understood"
        )
    return Edit(first["start"], last["end"] + 1, text)


def edited(sql: str, edits: Iterable[Edit]) -> str:
    """Return a text with its edits.

    Raises:
        InvalidQueryError: two edits replace the same part of the text.
    """
    pieces: list[str] = []
    end = 0
    behind_table = _behind_table(sql) if _TABLE_WORD.search(sql) else {}
    for edit in sorted(set(edits)):
        if edit.start < end:
            position = Position.of(sql, edit.start)
            raise InvalidQueryError("expected a name of a table or column", position=position)
        before, text = sql[end : edit.start], edit.text
        if edit.start in behind_table:
            before, text = before[: behind_table[edit.start] - end], f"SELECT * FROM {text}"
        pieces += [before, text]
        end = edit.end
    return "".join([*pieces, sql[end:]]).strip()


def with_values(sql: str, values: Sequence[Any] | Mapping[str, Any]) -> str:
    """Return a statement with values of Python in place of its parameters.

    Args:
        sql: the statement.
        values: for its `?`, in order; or for its `$name`, by name.

    Raises:
        InvalidQueryError: it has more or fewer parameters, or SQL has no constant for a value.
    """
    if isinstance(values, Mapping):
        found = list(_named_parameters(sql))
        names = {name for _, _, name in found}
        if names != values.keys():
            raise InvalidQueryError(
                f"expected values for {_listed(names)}, found values for {_listed(values)}",
                hint="parameters are written as $name",
            )
        chosen = [values[name] for _, _, name in found]
    else:
        found = [
            (token.start, token.end, "?")
            for token in _all_tokens(sql)
            if token.token_type is TokenType.PLACEHOLDER
        ]
        if len(found) != len(values):
            raise InvalidQueryError(
                f"expected {len(found)} value{'' if len(found) == 1 else 's'} for parameters, found {len(values)}",
                hint="each ? is a parameter",
            )
        chosen = list(values)
    # Blanks and brackets: `1-?` must not become a comment.
    edits = (
        Edit(start, end + 1, f" ({value_constant(value)}) ")
        for (start, end, _), value in zip(found, chosen, strict=True)
    )
    return edited(sql, edits)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"${name}" for name in sorted(names)) or "none"


def _named_parameters(sql: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and name of each `$name`."""
    for mark, name in pairwise(_all_tokens(sql)):
        if mark.token_type is TokenType.PARAMETER and mark.text == "$" and name.start == mark.end + 1:
            yield mark.start, name.end, name.text


def _all_tokens(sql: str) -> list[Token]:
    """Return the tokens of a statement, also those after EXPLAIN, which sqlglot takes for one."""
    tokens = tokens_of(sql)
    while tokens and tokens[0].token_type is TokenType.COMMAND:
        sql = blanked(sql, tokens[0].end + 1)
        tokens = tokens_of(sql)
    return tokens


def _behind_table(sql: str) -> dict[int, int]:
    """Return start of a name → start of the word TABLE before it. `TABLE t` is a query that allows no alias."""
    return {
        name.start: word.start
        for word, name in pairwise(tokens_of(sql))
        if word.text.upper() == "TABLE" and sql[word.start] not in "\"'"
    }
