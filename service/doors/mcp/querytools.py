"""`query`: rows."""

from __future__ import annotations

from service.doors.mcp.calls import MOST_ROWS, Call, RunQuery
from service.doors.mcp.results import Sheet, ToolResult, cut_text, result_of, sheet_of, table_text
from service.query.encode import counted, printable
from service.query.running.request import QueryRequest
from service.query.serving.query import Query


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
        notes = [*_notes_of(running), *_cut_notes(sheet, running.truncated)]
        content = {
            "columns": [{"name": column.name, "type": column.type} for column in sheet.columns],
            "rows": sheet.rows,
            "row_count": len(sheet.rows),
            "truncated": running.truncated or sheet.is_full,
            "databases": [origin.name for origin in running.origins],
            "query_id": running.id,
        }
        is_text = running.plan.is_text
    return result_of(content, plan_text(sheet) if is_text else sheet_text(sheet), notes=notes)


def plan_text(sheet: Sheet) -> str:
    """Return the lines of a plan."""
    return "\n".join(printable(line) for row in sheet.rows for line in str(row[-1]).splitlines())


def sheet_text(sheet: Sheet) -> str:
    """Return rows as CSV whose header has the types."""
    return table_text([f"{column.name} {column.type}" for column in sheet.columns], sheet.rows)


def _notes_of(running: Query) -> list[str]:
    """Return what the service assumed, and which files the answer lacks."""
    return [*running.plan.warnings, *(file.text() for file in running.incomplete)]


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
