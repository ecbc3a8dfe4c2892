"""A tool for each use case of `service.tasks.registry`: arguments from its request, content from its outcome.

`preview_write` is of its own kind: what a script would change. An agent never writes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from copy import deepcopy
from typing import Any

import orjson
from anyio import CancelScope, sleep, to_thread

from service.doors.mcp.calls import Call, LimitedArguments, PreviewWrite, database_of
from service.doors.mcp.results import ToolResult, cut_text, line_text, result_of, table_text
from service.doors.served import request_of
from service.query.encode import counted
from service.query.engines.registry import HERE
from service.query.running.run import QueryState
from service.tasks.registry import RegisteredTask
from service.tasks.write.request import WriteRequest
from service.tasks.write.serving.writes import Write, WriteOrder
from writers import FilesMode

# List of rows → the list of the names of their columns.
_COLUMNS = {"rows": "columns", "offsets": "offset_columns"}
_LOOK_S = 0.05
_OPEN = (QueryState.QUEUED, QueryState.RUNNING)
_SHOWN_SAMPLES = 20


def runner_of(registered: RegisteredTask) -> Callable[[Call, Any], Awaitable[ToolResult]]:
    """Return what answers the calls of a use case's tool."""
    task = registered.load()

    async def run(call: Call, arguments: LimitedArguments) -> ToolResult:
        told: list[str] = []
        asked = request_of(task.request, arguments)
        outcome: Any = await call.outcome(task, asked, warn=told.append)
        is_brief = hasattr(outcome, "brief")
        content = outcome.brief() if is_brief else outcome.to_dict()
        told += content.pop("notes", [])
        content, notes = fitting_content(content, arguments.max_bytes)
        lines, left = [], arguments.max_bytes
        for line in () if is_brief else outcome.lines(None):
            left -= len(line) + 1
            if left < 0:
                break
            indent = "  " if line.startswith(" ") else ""
            lines.append(f"{indent}{line_text(line)}")
        texts = _brief_texts(content) if is_brief else lines
        return result_of(content, *texts, notes=[*told, *notes])

    return run


def _brief_texts(content: dict[str, Any]) -> Iterator[str]:
    """Yield brief content as texts: its facts, and its lists as tables; the names of columns stand in a list of their own."""
    heads = {name: content[columns] for name, columns in _COLUMNS.items() if columns in content}
    for name, value in content.items():
        if value is not None and not isinstance(value, list | dict):
            yield f"{name}: {line_text(str(value))}"
    for name, rows in content.items():
        if not isinstance(rows, list) or not rows:
            continue
        if name in heads:
            yield f"{name}\n{table_text(heads[name], rows)}"
        elif isinstance(rows[0], dict):
            names = list(dict.fromkeys(one for row in rows for one in row))
            yield f"{name}\n{table_text(names, [[row.get(one) for one in names] for row in rows])}"


def fitting_content(content: dict[str, Any], max_bytes: int) -> tuple[dict[str, Any], list[str]]:
    """Return content that has room: its longest lists lose their ends; and the sentences that say so."""
    if len(orjson.dumps(content)) <= max_bytes:
        return content, []
    content = deepcopy(content)
    cut: dict[str, tuple[list[Any], int]] = {}
    while len(orjson.dumps(content)) > max_bytes and (lists := list(_lists(content))):
        name, longest = max(lists, key=lambda one: len(orjson.dumps(one[1])))
        cut.setdefault(name, (longest, len(longest)))
        del longest[len(longest) // 2 :]
    notes = [
        f"{name}: {cut_text(len(rows), total, 'row', 'give more max_bytes')}"
        for name, (rows, total) in cut.items()
    ]
    return content, notes


def _lists(content: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the lists that may be cut, by name; in place of a list with one object those of the object, if it has any."""
    for name, value in content.items():
        if isinstance(value, list) and value:
            only = value[0] if len(value) == 1 else None
            inner = list(_lists(only)) if isinstance(only, dict) else []
            yield from inner or [(name, value)]


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
    source = database_of(call.visible, arguments.database).name
    # Only what changes is made, among the temporary files of the process.
    asked = request_of(
        WriteRequest, arguments, database=source, dry_run=True, files=FilesMode.REFERENCE, engine=HERE
    )
    return call.write_order(asked, is_checked=True)


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
