"""Resources: databases and tables as texts, which a person puts into a conversation. Each is what the tool says that describes it.

| address | is |
|---|---|
| `savepointdb://<database>` | `describe_database` |
| `savepointdb://<database>/<table>` | `describe_table` |

Names are encoded as in other addresses. The list has the databases that the caller sees and that can be read, the newest first, a
page at a time; what their tables are called is in them. `list_databases` names those that cannot be read, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

from anyio import to_thread

from service.base.errors import InvalidRequestError, NotFoundError
from service.doors.http.api import databases
from service.doors.mcp.calls import Call
from service.doors.mcp.results import ToolResult
from service.doors.mcp.texts import line_text
from service.doors.mcp.tools import TOOLS, called
from service.query.running.origin import sendable

SCHEME = "savepointdb://"
MEDIA_TYPE = "text/plain"
TEMPLATES: Mapping[str, tuple[str, str]] = {
    f"{SCHEME}{{database}}": ("A database", "Its tables, with their columns or what they hold."),
    f"{SCHEME}{{database}}/{{table}}": (
        "A table",
        "Its columns, size and number of rows, and its first rows.",
    ),
}
_PAGE = 100
_LONGEST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePage:
    """Some of the resources that a caller sees.

    Attributes:
        resources: addresses → names and descriptions.
        following: where the next page begins; None if there is none.
    """

    resources: Mapping[str, tuple[str, str]]
    following: str | None


async def listed_resources(call: Call, cursor: str | None) -> ResourcePage:
    """Return the databases that the caller sees and that can be read, from a place on.

    Args:
        call: who asks.
        cursor: `following` of the page before; None for the first one.

    Raises:
        InvalidRequestError: nothing begins there.
    """
    listed = await to_thread.run_sync(databases.list_databases, call.visible)
    # Aliases are other names of the same: they would be there twice.
    found = [entry for entry in listed.databases if not entry.alias_of and not entry.error]
    names = [sendable(entry.name) for entry in found]
    if cursor is not None and cursor not in names:
        raise InvalidRequestError("expected a cursor of the page before", hint="begin again without one")
    start = 0 if cursor is None else names.index(cursor)
    end = start + _PAGE
    shown = {
        address_of(entry.name): (name, _description(entry))
        for name, entry in zip(names[start:end], found[start:end], strict=True)
    }
    return ResourcePage(resources=shown, following=names[end] if end < len(names) else None)


async def read_resource(call: Call, address: str) -> ToolResult:
    """Return what a resource says; an error of what was asked is a result, too.

    Raises:
        NotFoundError: the address is none of a database or a table.
    """
    names = _names_of(address)
    tool = TOOLS["describe_table" if len(names) > 1 else "describe_database"]
    return await called(tool, call, dict(zip(("database", "table"), names, strict=False)))


def address_of(*names: str) -> str:
    """Return the address of a database, or of a table in it."""
    return SCHEME + "/".join(quote(sendable(name), safe="") for name in names)


def _names_of(address: str) -> list[str]:
    path = address.removeprefix(SCHEME)
    names = [unquote(part) for part in path.split("/")]
    if path == address or len(names) > 2 or not all(names) or len(address) > _LONGEST:
        raise NotFoundError(
            f"no resource is at {line_text(sendable(address))[:200]}",
            hint=f"expected {' or '.join(TEMPLATES)}, with names as in other addresses (%20 for a blank)",
        )
    return names


def _description(entry: databases.DatabaseEntry) -> str:
    facts = [entry.kind or "", f"{entry.checkpoint_id}" if entry.checkpoint_id is not None else ""]
    job = f"of job {line_text(sendable(entry.job))}" if entry.job else ""
    return " ".join(filter(None, [*facts, job]))
