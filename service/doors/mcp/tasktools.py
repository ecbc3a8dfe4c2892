"""A tool for each use case of `service.tasks.registry`: arguments from its request, content from its outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import orjson

from service.base.process.waiting import found_in_thread
from service.doors.http.api.tasks import body_of, context_of, request_of
from service.doors.mcp.arguments import Arguments, LimitedArguments
from service.doors.mcp.calls import Call
from service.doors.mcp.results import ToolResult, result_of
from service.doors.mcp.texts import cut_text, line_text
from service.query.running.group import QueryGroup
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
        group = QueryGroup(call.served.queries.start, call.queries)
        asked = request_of(task.request, arguments)
        told: list[str] = []
        context = context_of(call.served, call.caller, call.source, group)
        context = replace(context, warn=told.append)
        outcome = await found_in_thread(lambda: task.run(asked, context), group.cancel)
        content, notes = fitting_content(outcome.to_dict(), arguments.max_bytes)
        lines, left = [], arguments.max_bytes
        for line in outcome.lines(None):
            left -= len(line) + 1
            if left < 0:
                break
            lines.append(line_text(line) if not line.startswith(" ") else f"  {line_text(line)}")
        return result_of(content, *lines, notes=[*told, *notes])

    return run


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
