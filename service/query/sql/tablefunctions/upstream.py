"""Statements with the names of Flink's State Catalog: `compat=flink`.

| in a statement | is |
|---|---|
| `metadata`, `uid_<uid>_keyed`, … behind a database | a table by the name that it has there (`catalog.upstream`) |
| `savepoint_metadata('path')` in FROM, also within `TABLE(…)` | `metadata` of the database at this path, or of this name |
| `state."database".table` | `flink."database".table` |

A path is compared with those of the databases that the user sees, and never opened.
"""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from sqlglot import exp

from catalog import Catalog, Database, Table
from service.base.errors import InvalidRequestError
from service.query.sql.tablefunctions.calls import NameArgument, table_call

FLINK = "flink"
STATE_CATALOG = "state"
"""The name that Flink's own examples give to the catalog."""
METADATA = "metadata"
SAVEPOINT_METADATA = "savepoint_metadata"
_FORM = f"{SAVEPOINT_METADATA}('path')"
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
    found = table_call(node, sql, SAVEPOINT_METADATA, _FORM, (1,))
    return None if found is None else found.arguments[0]


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
