"""The tools that return rows: `query`, and `run_saved_query` for statements that people have written for others."""

from __future__ import annotations

from typing import Any

from anyio import to_thread

from service.doors.mcp.calls import MOST_ROWS, Call, RunQuery, RunSavedQuery
from service.doors.mcp.results import Sheet, ToolResult, cut_text, result_of, sheet_of, table_text
from service.query.encode import counted, printable
from service.query.running.request import QueryRequest
from service.tasks.saved.query import SavedQuery

_MOST_LISTED = 100


async def query(call: Call, arguments: RunQuery) -> ToolResult:
    """Run a statement and return its rows."""
    request = call.request(
        arguments.sql,
        max_rows=arguments.max_rows,
        schema=arguments.database,
        allow_partial=arguments.allow_partial,
    )
    return await rows_of(call, request, arguments.max_bytes)


async def rows_of(call: Call, request: QueryRequest, max_bytes: int) -> ToolResult:
    """Run a request and return its rows, as many as have room."""
    async with call.running(request) as running:
        sheet = await sheet_of(running, max_bytes)
        notes = [*running.plan.warnings, *(file.text() for file in running.incomplete)]
        notes += _cut_notes(sheet, running.truncated)
        content = {
            "columns": [{"name": column.name, "type": column.type} for column in sheet.columns],
            "rows": sheet.rows,
            "row_count": len(sheet.rows),
            "truncated": running.truncated or sheet.is_full,
            "databases": [origin.name for origin in running.origins],
            "query_id": running.id,
        }
        is_text = running.plan.is_text
    if is_text:
        text = "\n".join(printable(line) for row in sheet.rows for line in str(row[-1]).splitlines())
    else:
        # The header has the types, too.
        text = table_text([f"{column.name} {column.type}" for column in sheet.columns], sheet.rows)
    return result_of(content, text, notes=notes)


def _cut_notes(sheet: Sheet, truncated: bool) -> list[str]:
    notes = []
    if truncated or sheet.is_full:
        why = (
            "give more max_bytes, name fewer columns"
            if sheet.is_full
            else f"give more max_rows (most {MOST_ROWS})"
        )
        more = f"there are more: {why}, filter or aggregate, or page by ORDER BY … LIMIT … OFFSET …"
        notes.append(cut_text(len(sheet.rows), None, "row", more))
    if sheet.cut_cells:
        notes.append(
            f"{counted(len(sheet.cut_cells), 'long value')} cut: take parts, such as substr(column, 1, 500)"
        )
    return notes


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
