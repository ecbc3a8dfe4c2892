"""A copy of a handle, or of a whole `_metadata`, with other leaves: how files move and nothing else changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from readers.metadata import (
    EmptySegmentFileStateHandle,
    FileMergingOperatorStreamStateHandle,
    OperatorStreamStateHandle,
    StateObject,
    StreamStateHandle,
)

_State = TypeVar("_State", bound=StateObject)
Moved = Callable[[StreamStateHandle], StreamStateHandle]


def with_leaves(state: _State, moved: Moved) -> _State:
    """Return the state object with every leaf replaced by `moved(leaf)`; a part whose leaves stay is the same object.

    Operator state in segments becomes ordinary operator state, and none if it is empty: a segment's handle records the
    folders of the job that owns it, and that job goes on writing to them.
    """
    found: _State = _replaced(state, moved)
    return found


def _replaced(value: Any, moved: Moved) -> Any:
    if isinstance(value, StreamStateHandle):
        # A segment without bytes refers to no file.
        return value if isinstance(value, EmptySegmentFileStateHandle) else moved(value)
    if isinstance(value, FileMergingOperatorStreamStateHandle):
        return _ordinary(value, moved)
    if isinstance(value, StateObject):
        return _replaced_fields(value, moved)
    if isinstance(value, tuple):
        items = [_replaced(item, moved) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def _replaced_fields(value: StateObject, moved: Moved) -> StateObject:
    changed = {}
    for field in dataclasses.fields(value):  # type: ignore[arg-type]  # every state object is a dataclass
        old = getattr(value, field.name)
        new = _replaced(old, moved)
        if new is not old:
            changed[field.name] = new
    return dataclasses.replace(value, **changed) if changed else value  # type: ignore[type-var]


def _ordinary(handle: FileMergingOperatorStreamStateHandle, moved: Moved) -> OperatorStreamStateHandle | None:
    if isinstance(handle.delegate, EmptySegmentFileStateHandle):
        return None
    return OperatorStreamStateHandle(
        state_meta_infos=handle.state_meta_infos, delegate=moved(handle.delegate)
    )
