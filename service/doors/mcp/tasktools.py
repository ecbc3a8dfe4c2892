"""A tool for each use case of `service.tasks.registry`: arguments from its request, content from its outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from service.base.process.waiting import found_in_thread
from service.doors.http.api.tasks import body_of, context_of, request_of
from service.doors.mcp.arguments import Arguments, LimitedArguments
from service.doors.mcp.calls import Call
from service.doors.mcp.results import ToolResult, result_of
from service.doors.mcp.texts import cut_text, line_text
from service.query.serving.group import QueryGroup
from service.tasks.registry import RegisteredTask


def arguments_class(name: str, registered: RegisteredTask) -> type[Arguments]:
    """Return the class of the arguments of a use case's tool."""
    kind = body_of(name, registered.load().request, LimitedArguments)
    assert issubclass(kind, Arguments)
    return kind


def runner_of(registered: RegisteredTask) -> Callable[[Call, Any], Awaitable[ToolResult]]:
    """Return what answers the calls of a use case's tool."""
    task = registered.load()

    async def run(call: Call, arguments: LimitedArguments) -> ToolResult:
        group = QueryGroup(call.served.queries, call.queries)
        asked = request_of(task.request, arguments)
        context = context_of(call.served, call.caller, call.source, group)
        outcome = await found_in_thread(lambda: task.run(asked, context), group.cancel)
        content, notes = _fitting(outcome.to_dict(), arguments.max_bytes)
        lines, left = [], arguments.max_bytes
        for line in outcome.lines(None):
            left -= len(line) + 1
            if left < 0:
                break
            lines.append(line_text(line) if not line.startswith(" ") else f"  {line_text(line)}")
        return result_of(content, *lines, notes=notes)

    return run


def _fitting(content: dict[str, Any], max_bytes: int) -> tuple[dict[str, Any], list[str]]:
    """Return content that has room: its longest lists lose their ends; and the sentences that say so."""
    whole, shown = content, dict(content)
    while len(orjson.dumps(shown)) > max_bytes:
        lists = {
            name: len(orjson.dumps(rows)) for name, rows in shown.items() if isinstance(rows, list) and rows
        }
        if not lists:
            break
        longest = max(lists, key=lambda name: lists[name])
        shown[longest] = shown[longest][: len(shown[longest]) // 2]
    notes = [
        f"{name}: {cut_text(len(shown[name]), len(rows), 'row', 'give more max_bytes')}"
        for name, rows in whole.items()
        if isinstance(rows, list) and len(shown[name]) < len(rows)
    ]
    return shown, notes
