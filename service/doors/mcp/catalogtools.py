"""`list_databases`, `describe_database`, `describe_table`: what there is to ask."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pyarrow as pa
from anyio import to_thread

from catalog import Catalog, Database, HistoryDatabase
from readers import sql_type
from service.base.errors import LimitExceededError
from service.doors.http.api import databases
from service.doors.mcp import calls
from service.doors.mcp.results import (
    Sheet,
    ToolResult,
    cut_text,
    fitting,
    line_text,
    result_of,
    sheet_of,
    table_text,
)
from service.query.encode import size_text, state_size_text
from service.query.sql.text import quoted, text_constant

# A table of this size is counted in a second.
_COUNTED_BYTES = 50_000_000
_COUNT_BYTES = 1_000
_SAMPLE_ROWS, _SAMPLE_CELL = 3, 200
_LONGEST_COLUMNS = 300
_OWN_COLUMNS = "_"
_KEY = "key"
_SHOWN = ("name", "job", "kind", "checkpoint_id", "created_at", "alias_of", "error")


async def list_databases(call: calls.Call, arguments: calls.ListDatabases) -> ToolResult:
    """Return the databases that the caller sees, those of one job together and the newest first, and their jobs."""
    visible = call.visible
    listed = await to_thread.run_sync(databases.list_databases, visible)
    wanted = (arguments.search or "").casefold()
    found = [
        entry
        for entry in listed.databases
        if wanted in entry.name.casefold() or wanted in (entry.job or "").casefold()
    ]
    rows = [
        entry.model_dump(mode="json", include=set(_SHOWN), exclude_none=True)
        for entry in found[: arguments.max_rows]
    ]
    shown = found[: fitting(rows, calls.MOST_BYTES)]
    rows = rows[: len(shown)]
    names = [name for name in _SHOWN if any(name in row for row in rows)]
    shown_names = {entry.name for entry in shown}
    jobs = [
        {"name": job.name, "history": job.history, "databases": len(job.databases)}
        for job in await to_thread.run_sync(visible.jobs)
        if any(one.name in shown_names for one in job.databases)
    ]
    notes = []
    if len(shown) < len(found):
        notes.append(
            cut_text(
                len(shown),
                len(found),
                "database",
                "search for a part of a name or job, or give more max_rows",
            )
        )
    if not found:
        notes.append(
            "no database has such a name; call again without search"
            if wanted
            else "there is no database here"
        )
    content = {"databases": rows, "jobs": jobs, "total": len(found)}
    return result_of(
        content,
        table_text(names, [[row.get(name) for name in names] for row in rows]) if rows else "",
        *[
            f"job {line_text(str(job['name']))}: {job['databases']} databases; schema of its history: {line_text(str(job['history']))}"
            for job in jobs
        ],
        notes=notes,
    )


async def describe_database(call: calls.Call, arguments: calls.DescribeDatabase) -> ToolResult:
    """Return the tables of a database: those of its states with their columns, and the others with what they hold."""
    return await to_thread.run_sync(_described, call.visible, arguments)


def _described(visible: Catalog, arguments: calls.DescribeDatabase) -> ToolResult:
    found = _owner_of(visible, arguments.database)
    operators: Collection[str] = (
        {name.casefold() for name in found.operator_names.values()} if isinstance(found, Database) else ()
    )
    wanted = (arguments.search or "").casefold()
    tables = [table for table in found.listed() if wanted in table.name.casefold()]
    # The states come first: they are what a savepoint is for.
    tables.sort(key=lambda table: not _is_of_operator(table.name, operators))
    rows = []
    for table in tables[: arguments.max_rows]:
        is_state = _is_of_operator(table.name, operators)
        row: dict[str, Any] = {"name": table.name}
        row |= {"columns": _columns_text(table.schema)} if is_state else {"comment": table.comment}
        whole = found.table(table.name)
        own = whole.own_size
        row["size_bytes"] = whole.size_bytes if own is None else own.size_bytes
        if own is not None and own.is_estimate:
            row["is_estimate"] = True
        rows.append(row)
    rows = rows[: fitting(rows, calls.MOST_BYTES)]
    notes = []
    if len(rows) < len(tables):
        notes.append(
            cut_text(len(rows), len(tables), "table", "search for a part of a name, or give more max_rows")
        )
    content: dict[str, Any] = {"database": found.name, "tables": rows, "total": len(tables)}
    if isinstance(found, Database):
        entry = databases.describe_database(found.name, visible)
        facts = entry.model_dump(
            mode="json", include={"kind", "checkpoint_id", "created_at", "job"}, exclude_none=True
        )
        content |= facts
    head = ", ".join(
        f"{name}: {line_text(str(content[name]))}" for name in content if name not in ("tables", "total")
    )
    listed = [
        [
            row["name"],
            state_size_text(row["size_bytes"], is_estimate=row.get("is_estimate", False)),
            row.get("columns") or row["comment"],
        ]
        for row in rows
    ]
    return result_of(content, head, table_text(["table", "size", "columns or content"], listed), notes=notes)


async def describe_table(call: calls.Call, arguments: calls.DescribeTable) -> ToolResult:
    """Return the columns of a table, how large it is, a key of it, and its first rows."""
    visible = call.visible
    owner = await to_thread.run_sync(_owner_of, visible, arguments.database)
    table = await to_thread.run_sync(owner.table, arguments.table)
    detail = await to_thread.run_sync(databases.describe_table, owner.name, table.name, visible)
    extent = await to_thread.run_sync(lambda: table.extent)
    listed = [column.model_dump() for column in detail.columns]
    kept = fitting(listed, calls.MOST_BYTES)
    named = f"{quoted(owner.name)}.{quoted(table.name)}"
    content: dict[str, Any] = {
        "database": owner.name,
        "table": table.name,
        "sql_name": named,
        "comment": table.comment,
        "columns": listed[:kept],
        "size_bytes": detail.size_bytes if table.own_size is None else detail.state_bytes,
        **({"is_estimate": True} if detail.is_estimate else {}),
        "scan_bytes": detail.size_bytes,
        "key_groups": extent.key_groups,
    }
    facts = [f"about {size_text(detail.size_bytes)} to read"]
    if detail.state_bytes is not None:
        facts.insert(0, state_size_text(detail.state_bytes, is_estimate=detail.is_estimate))
    if extent.size_bytes <= _COUNTED_BYTES:
        async with call.running(call.request(f"SELECT count(*) FROM {named}")) as query:
            content["row_count"] = (await sheet_of(query, _COUNT_BYTES)).rows[0][0]
        facts.append(f"{content['row_count']:,} rows")
    notes = [cut_text(kept, len(listed), "column", "DESCRIBE shows all")] if kept < len(listed) else []
    async with call.running(call.request(f"SELECT * FROM {named}", max_rows=_SAMPLE_ROWS)) as query:
        try:
            sample = await sheet_of(query, calls.USUAL_BYTES, _SAMPLE_CELL)
        except LimitExceededError as error:
            sample = Sheet(0)
            notes.append(f"no rows are shown: {error.message}")
    example = _example_key(sample)
    if example is not None:
        content["example_key"] = example
        facts.append(f"keys look like {line_text(example)}")
    content["first_rows"] = sample.rows
    columns = table_text(["column", "type"], [list(column.values()) for column in listed[:kept]])
    rows = table_text([column.name for column in sample.columns], sample.rows)
    return result_of(
        content,
        f"{line_text(named)}: {line_text(table.comment)}; {', '.join(facts)}",
        columns,
        f"first rows:\n{rows}" if sample.rows else "",
        notes=notes,
    )


def _example_key(sample: Sheet) -> str | None:
    """Return a key of the rows as a constant of SQL; None if they have none, or have not all of it."""
    names = [column.name for column in sample.columns]
    if _KEY not in names:
        return None
    place = names.index(_KEY)
    keys = (row[place] for number, row in enumerate(sample.rows) if (number, place) not in sample.cut_cells)
    key = next((one for one in keys if one is not None), None)
    if key is None or isinstance(key, int | float):
        return None if key is None else str(key).lower()
    return text_constant(
        key if isinstance(key, str) else json.dumps(key, ensure_ascii=False, separators=(",", ":"))
    )


def _owner_of(visible: Catalog, name: str | None) -> Database | HistoryDatabase:
    """Return a database, or the history of a job."""
    return calls.database_of(visible, None) if name is None else visible.schema(name).database


def _is_of_operator(table: str, operators: Collection[str]) -> bool:
    folded = table.casefold()
    return folded in operators or any(folded.startswith(f"{name}__") for name in operators)


def _columns_text(schema: pa.Schema) -> str:
    """Return the columns that are no place in the savepoint, as SQL writes them."""
    text = ", ".join(
        f"{field.name} {sql_type(field.type)}" for field in schema if not field.name.startswith(_OWN_COLUMNS)
    )
    return text if len(text) <= _LONGEST_COLUMNS else f"{text[:_LONGEST_COLUMNS]}…"
