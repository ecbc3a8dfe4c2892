"""`run_saved_query`: statements with names and parameters, which people have written for others."""

from __future__ import annotations

from typing import Any

from anyio import to_thread

from service.doors.mcp.calls import Call, RunSavedQuery
from service.doors.mcp.querytools import rows_of
from service.doors.mcp.results import ToolResult, cut_text, result_of, table_text
from service.tasks.saved.query import SavedQuery

_MOST_LISTED = 100


async def run_saved_query(call: Call, arguments: RunSavedQuery) -> ToolResult:
    """Run a saved query with the caller's grants and the values of its parameters; without a name, list those there are."""
    if arguments.name is None:
        return _listed(await to_thread.run_sync(lambda: call.saved.queries))
    query = await to_thread.run_sync(call.saved.get, arguments.name)
    given = {name: _text(value) for name, value in arguments.parameters.items()}
    request = call.request("", max_rows=arguments.max_rows)
    return await rows_of(call, query.asked(request, given, arguments.database), arguments.max_bytes)


def _listed(queries: list[SavedQuery]) -> ToolResult:
    rows: list[dict[str, Any]] = [
        {
            "name": query.name,
            "parameters": {
                one.name: one.type if one.default is None else f"{one.type}, default {one.default}"
                for one in query.parameters
            },
            "description": query.description,
            "sql": query.sql,
        }
        for query in queries[:_MOST_LISTED]
    ]
    notes = [] if queries else ["there is no saved query"]
    if len(rows) < len(queries):
        notes.append(cut_text(len(rows), len(queries), "saved query", "the page of the service has all"))
    names = ("name", "parameters", "description", "sql")
    text = table_text(names, [[row[name] for name in names] for row in rows]) if rows else ""
    return result_of({"saved_queries": rows}, text, notes=notes)


def _text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
