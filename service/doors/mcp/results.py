"""What a tool returns: structured content for programs, and a short text that says the same to an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from service.base.errors import QueryError
from service.doors.http.errors import error_body
from service.doors.mcp.texts import error_text, line_text
from service.query.running.origin import sendable


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a call.

    Attributes:
        content: an object of JSON.
        text: the same, short.
        is_error: True if the call failed; the agent may mend its arguments.
    """

    content: dict[str, Any]
    text: str
    is_error: bool = False


def result_of(content: dict[str, Any], *parts: str, notes: Sequence[str] = ()) -> ToolResult:
    """Return a result; its text is the parts and then the notes, a line each, which the content has as `notes`."""
    shown = [line_text(note) for note in notes]
    whole = content | ({"notes": list(notes)} if notes else {})
    return ToolResult(content=_encodable(whole), text="\n".join([*filter(None, parts), *shown]))


def failure_of(error: QueryError) -> ToolResult:
    """Return the result of a call that failed."""
    return ToolResult(
        content=_encodable({"error": error_body(error).model_dump(exclude_none=True)}),
        text=error_text(error),
        is_error=True,
    )


def _encodable(content: dict[str, Any]) -> dict[str, Any]:
    """Return content whose texts have a form in UTF-8: names of folders need not, and texts of clients need not."""
    try:
        orjson.dumps(content)
    except TypeError:
        changed: dict[str, Any] = _changed(content)
        return changed
    return content


def _changed(value: Any) -> Any:
    if isinstance(value, str):
        return sendable(value)
    if isinstance(value, dict):
        return {name: _changed(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(each) for each in value]
    return value
