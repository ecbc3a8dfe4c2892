"""The table of tools: what an agent reads of each, and what answers it; and the resources, which say what tools say.

An agent pays for this text in each conversation, so each sentence must help to choose a tool, or to use it.

Resources are databases and tables as texts, which a person puts into a conversation:

| address | is |
|---|---|
| `savepointdb://<database>` | `describe_database` |
| `savepointdb://<database>/<table>` | `describe_table` |

Names are encoded as in other addresses. The list has the databases that the caller sees and that can be read, the newest first, a
page at a time; what their tables are called is in them. `list_databases` names those that cannot be read, and why.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from anyio import to_thread

from catalog.errors import near_names
from service.base.errors import InvalidRequestError, NotFoundError, QueryError, query_error_of
from service.doors.http.api import databases
from service.doors.mcp import calls, catalogtools, querytools
from service.doors.mcp.results import ToolResult, failure_of, line_text
from service.doors.mcp.tasktools import preview_write, runner_of
from service.doors.served import Served, body_of
from service.query.running.request import sendable
from service.tasks.registry import MCP, RegisteredTask, tasks_at

_OUR_FAULT = 500
_SAVED = "run_saved_query"
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
class Tool:
    """One tool.

    Attributes:
        title: for people.
        description: for the agent.
        arguments: their class.
        run: answers a call.
        output: the members of the structured content → their types in JSON schema.
    """

    title: str
    description: str
    arguments: type[calls.Arguments]
    run: Callable[[calls.Call, Any], Awaitable[ToolResult]]
    output: Mapping[str, str]

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return calls.schema_of(self.arguments)

    @property
    def output_schema(self) -> dict[str, Any]:
        """The JSON schema of its structured content."""
        return {
            "type": "object",
            "properties": {name: {"type": kind} for name, kind in self.output.items()},
            "required": list(self.output),
        }


async def called(tool: Tool, call: calls.Call, values: Mapping[str, Any] | None) -> ToolResult:
    """Return the result of a call; an error of what was asked is a result, too.

    Raises:
        Exception: the service is at fault.
    """
    try:
        return await tool.run(call, calls.arguments_of(tool.arguments, values))
    except QueryError as error:
        return failure_of(error)
    except Exception as error:
        found = query_error_of(error)
        if found.status == _OUR_FAULT:
            raise
        return failure_of(found)


def tools_of(served: Served) -> Mapping[str, Tool]:
    """Return the tools that there are: saved queries have one only where some may be."""
    own = {name: tool for name, tool in TOOLS.items() if name != _SAVED or served.saved.is_open}
    return own | {one.tool or name: _tool_of(one.tool or name, one) for name, one in tasks_at(MCP)}


def _tool_of(name: str, registered: RegisteredTask) -> Tool:
    return Tool(
        title=registered.title or name.replace("_", " ").capitalize(),
        description=registered.advice or registered.summary,
        arguments=body_of(name, registered.load().request, calls.LimitedArguments),
        run=runner_of(registered),
        output=registered.members,
    )


def near_tools(name: str, tools: Mapping[str, Tool]) -> list[str]:
    """Return the tools whose names are like a name that none has; all if none is."""
    return list(near_names(name, tools) or tools)


TOOLS: Mapping[str, Tool] = {
    "list_databases": Tool(
        title="List databases",
        description="List the savepoints and checkpoints and their jobs, newest first. Each is a database. Start here.",
        arguments=calls.ListDatabases,
        run=catalogtools.list_databases,
        output={"databases": "array", "jobs": "array", "total": "integer"},
    ),
    "describe_database": Tool(
        title="Describe a database",
        description="List the tables of a database, with their columns. Each operator is a table, and so is each state: "
        "`operator__state`. Others describe the savepoint: StateMeta, source_offsets, timers, files, xray, …",
        arguments=calls.DescribeDatabase,
        run=catalogtools.describe_database,
        output={"database": "string", "tables": "array", "total": "integer"},
    ),
    "describe_table": Tool(
        title="Describe a table",
        description="Show the columns, size, row count and first rows of a table. The answer has its quoted name, and a key, for "
        "SQL.",
        arguments=calls.DescribeTable,
        run=catalogtools.describe_table,
        output={
            "database": "string",
            "table": "string",
            "sql_name": "string",
            "columns": "array",
            "first_rows": "array",
        },
    ),
    "query": Tool(
        title="Run SQL",
        description='Run one read-only statement of DuckDB\'s SQL. Tables are "database"."table"; quote names, as in '
        '"chk-42"."aggregate__count". Without a database the only or newest one is read. `WHERE key = …` reads one key only. '
        "diff('before', 'after', 'table') is a table of the rows that differ. Prefer aggregates (count, min, max, ORDER BY … LIMIT) to "
        "many rows.",
        arguments=calls.RunQuery,
        run=querytools.query,
        output={"columns": "array", "rows": "array", "row_count": "integer", "truncated": "boolean"},
    ),
    _SAVED: Tool(
        title="Run a saved query",
        description="Run a query that people have saved under a name, with values for its parameters. Without a name: list them.",
        arguments=calls.RunSavedQuery,
        run=querytools.run_saved_query,
        output={},
    ),
    "preview_write": Tool(
        title="Preview a write",
        description="Show what a script of SQL would change, and whether Flink would restore the result. Writes nothing.",
        arguments=calls.PreviewWrite,
        run=preview_write,
        output={"database": "string", "statements": "array", "rows": "integer"},
    ),
}


async def listed_resources(
    call: calls.Call, cursor: str | None
) -> tuple[Mapping[str, tuple[str, str]], str | None]:
    """Return some of the databases that the caller sees and that can be read, and where the next ones begin.

    Args:
        call: who asks.
        cursor: where to begin, as the page before says; None for the first one.

    Returns:
        Addresses → names and descriptions; and the cursor of the next page, None if there is none.

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
        SCHEME + quote(name, safe=""): (name, _description(entry))
        for name, entry in zip(names[start:end], found[start:end], strict=True)
    }
    return shown, names[end] if end < len(names) else None


async def read_resource(call: calls.Call, address: str) -> ToolResult:
    """Return what a resource says; an error of what was asked is a result, too.

    Raises:
        NotFoundError: the address is none of a database or a table.
    """
    names = _names_of(address)
    tool = TOOLS["describe_table" if len(names) > 1 else "describe_database"]
    return await called(tool, call, dict(zip(("database", "table"), names, strict=False)))


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
