"""Functions in FROM whose arguments are names in single quotes: they become tables.

`FROM f('a', 'b')` and `FROM TABLE(f('a', 'b'))`, as Trino and Flink write it, mean the same. In the tree the call becomes the name of a
table that spans the whole call, so all that holds for tables holds for it.

`diff('before', 'after', 'table')` in FROM: the rows of a table that differ between two savepoints.

| in FROM | is |
|---|---|
| `diff('a', 'b', 'op__state')` | the rows of the table that were added, removed or changed from a to b |
| `diff('a', 'b')` | the summary: a row for each state |
| `diff('previous', 'b', …)` | the same from the savepoint before b, in the job of b |
| `TABLE(diff(…))` | the same, as Trino writes functions in FROM |

The names of databases and tables are texts, so that they need no other quotes. In the tree the call becomes the name of a table that
spans the whole call, so all that holds for tables holds for it.

Statements with the names of Flink's State Catalog: `compat=flink`.

| in a statement | is |
|---|---|
| `metadata`, `uid_<uid>_keyed`, … behind a database | a table by the name that it has there (`catalog.upstream`) |
| `savepoint_metadata('path')` in FROM, also within `TABLE(…)` | `metadata` of the database at this path, or of this name |
| `state."database".table` | `flink."database".table` |

A path is compared with those of the databases that the user sees, and never opened.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from catalog import Catalog, Database, Job, Table
from catalog.history import earlier_than
from readers import ReaderError
from service.base.errors import InvalidQueryError, InvalidRequestError, Position, query_error_of
from service.query.sql.allowlist import DIFFERENCES
from service.query.sql.parser import blanked, tokens_of

_TABLE = "table"


@dataclass(frozen=True, slots=True)
class NameArgument:
    """A name that a call gives, and where it stands in the text."""

    name: str
    position: Position | None


def table_call(
    node: exp.Table, sql: str, function: str, form: str, counts: Collection[int]
) -> tuple[NameArgument, ...] | None:
    """Return the arguments of a call that stands in place of a table, and make the node a table of that name; None for anything else.

    Args:
        node: what stands in FROM.
        sql: the text in which the nodes have their positions.
        function: its name.
        form: how it is written, for errors.
        counts: how many arguments it may have.

    Raises:
        InvalidQueryError: the call has other arguments than names in single quotes.
    """
    outer = node.this
    call = outer
    if _is_call_of(_TABLE, outer) and len(outer.expressions) == 1:
        call = outer.expressions[0]
    if not _is_call_of(function, call):
        return None
    position = _position_of(call, sql)
    if len(node.parts) > 1:
        raise InvalidQueryError(
            f"expected {function} without a qualifier", hint=f"write {form}", position=position
        )
    arguments: Sequence[exp.Expr] = call.expressions
    if len(arguments) not in counts:
        raise InvalidQueryError(f"expected {form}, found {len(arguments)} arguments", position=position)
    names = tuple(_name(argument, sql, form) for argument in arguments)
    name = exp.to_identifier(function)
    name.meta.update(outer.meta)
    if "start" in outer.meta:
        name.meta["end"] = _end_of_call(sql, outer.meta["start"])
    node.set("this", name)
    return names


def _is_call_of(name: str, node: object) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.casefold() == name


def _name(argument: exp.Expr, sql: str, form: str) -> NameArgument:
    # Values in place of parameters stand in parentheses.
    literal = argument.unnest()
    position = _position_of(argument, sql)
    if not literal.is_string or not literal.name:
        raise InvalidQueryError(
            f"expected a name in single quotes, found {argument.sql()}",
            hint=f"write {form}, with the names of databases that SHOW SCHEMAS lists",
            position=position,
        )
    return NameArgument(literal.name, position)


def _position_of(node: exp.Expr, sql: str) -> Position | None:
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return Position.of(sql, min(starts)) if starts else None


def _end_of_call(sql: str, start: int) -> int:
    """Return the offset of the parenthesis that ends a call."""
    depth = 0
    for token in tokens_of(blanked(sql, start)):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
            if depth == 0:
                return int(token.end)
    raise AssertionError("the text was parsed, so the call has an end")


# A database of this name goes before.
PREVIOUS = "previous"
_FORM = f"{DIFFERENCES}('before', 'after') or {DIFFERENCES}('before', 'after', 'table')"


def difference_call(node: exp.Table, sql: str) -> tuple[NameArgument, ...] | None:
    """Return the arguments of a call of `diff` in place of a table, and make the node a table of that name; None for anything else.

    Args:
        node: what stands in FROM.
        sql: the text in which the nodes have their positions.

    Raises:
        InvalidQueryError: the call has other arguments than names in single quotes.
    """
    return table_call(node, sql, DIFFERENCES, _FORM, (2, 3))


def one_before(after: Database, jobs: Iterable[Job]) -> tuple[Database | None, tuple[str, ...]]:
    """Return the savepoint before one in its job, and a sentence for each newer one that cannot be read.

    Args:
        after: the savepoint.
        jobs: of the catalog.

    Returns:
        The newest one before it that can be read; None if there is none.
    """
    skipped: list[str] = []
    for earlier in earlier_than(after, jobs):
        try:
            earlier.describe()
        except ReaderError as error:
            skipped.append(
                f'"{earlier.name}" is newer than "{PREVIOUS}", and cannot be read: {query_error_of(error).message}'
            )
        else:
            return earlier, tuple(skipped)
    return None, tuple(skipped)


FLINK = "flink"
STATE_CATALOG = "state"
"""The name that Flink's own examples give to the catalog."""
METADATA = "metadata"
SAVEPOINT_METADATA = "savepoint_metadata"
_METADATA_FORM = f"{SAVEPOINT_METADATA}('path')"
_METADATA_FILE = "/_metadata"


def check_compat(compat: str) -> None:
    """Refuse a name that says nothing of which names statements use.

    Raises:
        InvalidRequestError: it is neither empty nor `flink`.
    """
    if compat not in ("", FLINK):
        raise InvalidRequestError(f"expected the compat {FLINK!r} or none, found {compat!r}")


def metadata_call(node: exp.Table, sql: str) -> NameArgument | None:
    """Return the argument of `savepoint_metadata` in place of a table, and make the node a table of that name; None for others.

    Raises:
        InvalidQueryError: the call has another argument than a text in single quotes.
    """
    found = table_call(node, sql, SAVEPOINT_METADATA, _METADATA_FORM, (1,))
    return None if found is None else found[0]


def database_at(catalog: Catalog, path: str) -> Database | None:
    """Return the database at a path that the user sees; None if there is none."""
    wanted = _plain(path)
    return next((one for one in catalog.known() if _plain(one.path) == wanted), None)


def upstream_table(database: object, name: str) -> Table | None:
    """Return a table of a database by its name in Flink's State Catalog; None if there is none.

    Raises:
        ReaderError: a file that may hold the state of this name cannot be read.
    """
    return database.upstream_table(name) if isinstance(database, Database) else None


def _plain(path: str) -> str:
    """Return a path in the one spelling in which paths are compared."""
    if path.startswith("file:"):
        path = unquote(urlsplit(path).path)
    return path.rstrip("/").removesuffix(_METADATA_FILE)
