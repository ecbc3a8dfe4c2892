"""Rows that are added where a subtask has not used their state yet, or has no keyed state at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from readers import SavepointLocation, StateName
from readers.metadata import SavepointMetadata, read_metadata
from tests.support.keyedchanges import KeyedDraft
from tests.support.paths import DATA
from writers import Edit, RewriteKeyedState, SavepointWriter, StateAlteration

KINDS = DATA / "flink/2.3.0/kinds-hashmap-savepoints/canonical"
STATES = ("value", "reducing", "list", "ttl-map", "_timer_state/event_user-timers")


@dataclass(frozen=True)
class Keep(Edit):
    """Give subtask 0 of an operator the keyed state that it has in the source; the others keep it, or have none."""

    operator_id: str
    others: bool

    def applied(self, metadata: SavepointMetadata, source: SavepointLocation) -> SavepointMetadata:
        original = read_metadata((KINDS / "_metadata").read_bytes())
        (own,) = (one for one in original.operators if one.operator_id == self.operator_id)
        first, *_ = own.subtasks
        operators = [
            replace(
                one,
                subtasks=tuple(
                    first
                    if subtask.index == 0
                    else subtask
                    if self.others
                    else replace(subtask, managed_keyed_state=None)
                    for subtask in one.subtasks
                ),
            )
            if one.operator_id == self.operator_id
            else one
            for one in metadata.operators
        ]
        return replace(metadata, operators=tuple(operators))


@pytest.fixture(params=["no state", "other states"])
def late(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A savepoint whose subtask 1 has no keyed state, or only some of the states of subtask 0."""
    draft = KeyedDraft(KINDS, "value")
    gone = {
        StateName(name=name, timers=name.startswith("_timer")): StateAlteration(dropped=True)
        for name in STATES
    }
    edits: list[Edit] = [Keep(draft.operator.operator_id, others=request.param == "other states")]
    if request.param == "other states":
        edits.insert(0, RewriteKeyedState(operator=draft.operator, alterations=gone))
    SavepointWriter(SavepointLocation(KINDS), edits).write(tmp_path / "late")
    return tmp_path / "late"


@pytest.mark.slow
def test_added_rows_come_with_their_states(late: Path, tmp_path: Path) -> None:
    draft = KeyedDraft(late, "value")
    before = draft.everything()
    times = [row[0] for row in draft.rows("_timer_state/event_user-timers", "timestamp")]
    for number in range(40):
        key = f"new {number}"
        draft.insert("value", {"key": key, "value": number})
        draft.insert("list", {"key": key, "value": 1}, {"key": key, "value": 2})
        draft.insert("ttl-map", {"key": key, "map_key": "m", "value": number})
        draft.insert("_timer_state/event_user-timers", {"key": key, "timestamp": times[0]})

    after = draft.write(tmp_path / "new").everything()

    new = {key: len(after[key]) - len(rows) for key, rows in before.items()}
    assert {key: number for key, number in new.items() if number} == {
        "value": 40, "list": 80, "ttl-map": 40, "_timer_state/event_user-timers": 40
    }  # fmt: skip
    assert all(row in after[name] for name, rows in before.items() for row in rows)
    subtasks = [
        one.managed_keyed_state for one in KeyedDraft(tmp_path / "new", "value").operator.metadata.subtasks
    ]
    assert [one is not None for one in subtasks] == [True, True]


def test_rows_of_other_key_groups_leave_a_subtask_without_state_alone(late: Path, tmp_path: Path) -> None:
    draft = KeyedDraft(late, "value")
    draft.update("value", lambda _: True, value=5)

    after = draft.write(tmp_path / "new")

    assert [row[-1] for row in after.rows("value")] == [5] * len(draft.rows("value"))
    handles = [one.managed_keyed_state for one in after.operator.metadata.subtasks]
    assert len(handles) == 2
