"""The editor of a state, by its kind."""

from __future__ import annotations

from readers import StateKind, StatePart
from writers.changes import StateChanges
from writers.keyed.lists import ListEditor
from writers.keyed.values import StateEditor, TimerEditor, ValueEditor


def editor_of(part: StatePart, changes: StateChanges) -> StateEditor:
    """Return the editor of a state in the layout of canonical entries."""
    kind = part.entry.kind
    # A list whose elements are not decoded is one row.
    if kind is StateKind.LIST and part.entry.is_raw("value"):
        return ValueEditor(part, changes)
    return EDITORS.get(kind, ValueEditor)(part, changes)


EDITORS: dict[StateKind, type[StateEditor]] = {
    StateKind.LIST: ListEditor,
    StateKind.TIMER: TimerEditor,
}
