"""`query` and `lookup_key`: rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyio import to_thread

from catalog import Catalog, Database, Job
from service.doors.http.api.keys import KeyAnswer, KeyedStateEntry, KeyText, read_key
from service.doors.mcp.arguments import LEAST_BYTES, MOST_ROWS, LookupKey, RunQuery
from service.doors.mcp.calls import Call, database_of
from service.doors.mcp.results import ToolResult, result_of
from service.doors.mcp.sheet import Sheet, sheet_of
from service.doors.mcp.texts import cut_text, line_text, table_text
from service.query.encode import counted, printable
from service.query.serving.query import Query
from service.query.serving.request import QueryRequest

_OWN_COLUMNS = "_"
_MOST_EXAMPLES = 4
_MOST_REASONS = 4
_MOST_JOBS = 8
# A map or a list of one key may have any number of entries.
_ROWS_OF_A_STATE = 100
_EXAMPLE_BYTES = 1_000


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


async def lookup_key(call: Call, arguments: LookupKey) -> ToolResult:
    """Return what each state has of a key, and its timers; without a database those of the newest one, or of another job's newest."""
    database = await to_thread.run_sync(database_of, call.visible, arguments.database)
    content, parts, notes = await _looked_up(call, arguments, database)
    if arguments.database is None:
        others = await to_thread.run_sync(_of_other_jobs, call.visible, database)
        asked = []
        # The newest database of all may be of another job than the key.
        for job in others[: 0 if content["states"] else _MOST_JOBS]:
            other = await to_thread.run_sync(_newest_readable, job)
            if other is None:
                continue
            found = await _looked_up(call, arguments, other)
            asked.append(other.name)
            if found[0]["states"]:
                content, parts, notes = found
                notes.append(f"{database.name}, the newest database of all, does not have the key")
                break
        if asked and not content["states"]:
            notes.append(f"nor does the newest database of other jobs have it: {', '.join(asked)}")
        if len(asked) < len(others):
            left_out = counted(len(others) - len(asked), "other job")
            notes.append(f"{left_out} not searched; name a database to search it")
    return result_of(content, f"database {line_text(content['database'])}", *parts, notes=notes)


def _of_other_jobs(visible: Catalog, database: Database) -> list[Job]:
    return [job for job in visible.jobs() if database not in job.databases]


def _newest_readable(job: Job) -> Database | None:
    return next((one for one in job.databases if one.readable), None)


async def _looked_up(
    call: Call, arguments: LookupKey, database: Database
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return what each state of a database has of a key, as content, parts of the text, and notes."""
    known = await to_thread.run_sync(read_key, database.name, KeyText(key=arguments.key), call.visible)
    found: list[dict[str, Any]] = []
    notes: list[str] = []
    parts: list[str] = []
    left = arguments.max_bytes
    for state in known.states:
        if state.sql is None:
            continue
        shown = [name for name in state.columns if name != "key" and not name.startswith(_OWN_COLUMNS)]
        async with call.running(call.request(state.sql, max_rows=_ROWS_OF_A_STATE)) as running:
            sheet = await sheet_of(running, max(left, LEAST_BYTES))
            is_cut = running.truncated or sheet.is_full
        if not sheet.rows:
            continue
        left -= sheet.size_bytes
        places = [number for number, column in enumerate(sheet.columns) if column.name in shown]
        names = [sheet.columns[number].name for number in places]
        rows = [[row[number] for number in places] for row in sheet.rows]
        entry: dict[str, Any] = {
            "operator": state.operator,
            "state": state.state_name,
            "kind": state.state_kind,
            "table": state.table_name,
            "columns": names,
            "rows": rows,
        }
        found.append(entry | ({"truncated": True} if is_cut else {}))
        title = f"{line_text(state.operator)} › {line_text(state.state_name)} ({line_text(state.state_kind)})"
        parts.append(f"{title}\n{table_text(names, rows)}")
        if is_cut:
            notes.append(f"{state.state_name} has more rows of the key; query: {state.sql}")
        if left <= 0:
            notes.append("cut: further states may have the key; give more max_bytes")
            break
    content: dict[str, Any] = {"database": database.name, "key": arguments.key, "states": found}
    notes += [f"{one.operator} cannot be read: {one.message}" for one in known.unread]
    if not found:
        told, examples = await _nothing(call, arguments.key, known)
        content["examples"] = examples
        notes.insert(0, told)
    return content, parts, notes


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


async def _nothing(call: Call, key: str, known: KeyAnswer) -> tuple[str, list[str]]:
    """Return the sentence that no state has a key, and keys that there are."""
    examples: dict[str, str] = {}
    for state in known.states:
        if len(examples) == _MOST_EXAMPLES:
            break
        if state.key_type not in examples:
            example = await _example(call, state)
            if example is not None:
                examples[state.key_type] = f"{example} ({state.operator})"
    reasons = _near_misses(known.states)
    told = f"no state has the key {key!r:.200}"
    told += f": {', or '.join(reasons)}" if reasons else ""
    shown = list(examples.values())
    keys = f"keys here look like: {', '.join(shown)}" if shown else "no state here has keys"
    return f"{told}; {keys}", shown


async def _example(call: Call, state: KeyedStateEntry) -> str | None:
    async with call.running(call.request(state.example_sql)) as running:
        sheet = await sheet_of(running, _EXAMPLE_BYTES)
    return table_text([], sheet.rows).strip() if sheet.rows else None


def _near_misses(states: Sequence[KeyedStateEntry]) -> list[str]:
    """Return why a text, though a struct, is no key of states with structs."""
    reasons = {state.reason: state.operator for state in states if state.is_close and state.reason}
    return [f"{reason} ({operator})" for reason, operator in reasons.items()][:_MOST_REASONS]
