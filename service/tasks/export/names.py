"""The names of tables → names of folders, which are the names of tables in Iceberg and Delta, too.

ASCII letters, digits, `_` and `-` stay; each byte (of UTF-8) of any other character is `~` and two hexadecimal digits, also a `_` at
the beginning: many readers pass over folders that begin with it. So two tables have two names, and a name is one step of a path on
every file system. A name of more than 150 characters is cut, and ends with `~~` and a hash of the whole.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from catalog.naming import unique_names

_ESCAPED = re.compile(r"[^A-Za-z0-9_-]|^_")
_LONGEST = 150
_HASH_DIGITS = 32
# Windows keeps these for devices, in any case.
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
)


def folder_name(table: str) -> str:
    """Return the name of the folder of a table."""
    spelled = _ESCAPED.sub(_escaped, table) or "~"
    if spelled.casefold() in _DEVICES:
        spelled += "~"
    if len(spelled) <= _LONGEST:
        return spelled
    digest = hashlib.sha256(spelled.encode()).hexdigest()[:_HASH_DIGITS]
    return f"{spelled[: _LONGEST - _HASH_DIGITS - 2]}~~{digest}"


def folder_names(tables: Sequence[tuple[str, str]]) -> list[str]:
    """Return a name for each (table, id of its operator): with the id where two tables have one name, in any case."""
    return unique_names((folder_name(table), operator_id) for table, operator_id in tables)


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"~{byte:02x}" for byte in match[0].encode(errors="surrogatepass"))
