"""`preview_write`: what a script would change. An agent never writes."""

from __future__ import annotations

from typing import Any

from anyio import CancelScope, sleep, to_thread

from service.base.principal import Identity
from service.doors.mcp.arguments import PreviewWrite
from service.doors.mcp.calls import Call, database_of
from service.doors.mcp.results import ToolResult, result_of
from service.doors.mcp.tasktools import fitting_content
from service.doors.mcp.texts import line_text
from service.doors.served import request_of
from service.query.encode import counted
from service.query.engines.registry import HERE
from service.query.running.run import QueryState
from service.tasks.write.request import WriteRequest
from service.tasks.write.serving.write import Write, WriteOrder
from service.tasks.write.statements.script import statements_of
from writers import FilesMode

_LOOK_S = 0.05
_OPEN = (QueryState.QUEUED, QueryState.RUNNING)
_SHOWN_SAMPLES = 20


async def preview_write(call: Call, arguments: PreviewWrite) -> ToolResult:
    """Run a script in a process of its own, and return what it would change."""
    order = await to_thread.run_sync(_order, call, arguments)
    write = await to_thread.run_sync(call.served.writes.start, order)
    try:
        while write.state in _OPEN:
            await sleep(_LOOK_S)
    finally:
        if write.state in _OPEN:
            with CancelScope(shield=True):
                await to_thread.run_sync(_ended, write)
    record = write.record
    if record.error is not None:
        raise record.error
    content, notes = fitting_content({"database": order.source, **(record.report or {})}, arguments.max_bytes)
    return result_of(content, *_texts(content), notes=[*notes, "nothing was written"])


def _order(call: Call, arguments: PreviewWrite) -> WriteOrder:
    visible = call.visible
    source = database_of(visible, arguments.database).name
    statements = statements_of(arguments.sql, call.served.settings.queries.max_sql_bytes)
    return WriteOrder(
        # Only what changes is made, among the temporary files of the process.
        request=request_of(
            WriteRequest, arguments, database=source, dry_run=True, files=FilesMode.REFERENCE, engine=HERE
        ),
        databases=tuple(visible.known()),
        target=None,
        kinds=tuple(type(one).__name__.upper() for one in statements),
        owner=Identity(call.caller.source, call.caller.name),
        client=call.source,
        is_checked=True,
    )


def _ended(write: Write) -> None:
    write.cancel()
    write.join()


def _texts(content: dict[str, Any]) -> list[str]:
    lines = [f"{line_text(content['database'])}: {counted(content['rows'], 'row')} would change"]
    for one in content["statements"]:
        lines.append(line_text(one["text"]))
        for sample in one["samples"][:_SHOWN_SAMPLES]:
            parts = [sample["place"], sample["before"], sample["after"]]
            lines.append("  " + " → ".join(line_text(_values(part)) for part in parts if part is not None))
    lines += [f"warning: {line_text(one)}" for one in content["summary"]["warnings"]]
    if check := content["check"]:
        lines.append(f"check: {line_text(check['headline'])}; {line_text(check['advice'])}")
    return lines


def _values(values: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
