"""A plan and its summary → lines for people, and values that are JSON for `convert --json`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from readers import Operator
from service.query.encode import counted
from service.tasks.convert.plan import Plan
from service.tasks.convert.running import Converted
from writers import Summary


def report_of(done: Converted) -> dict[str, Any]:
    """Return the report.

    | member | content |
    |---|---|
    | `flink` | the version that restores the new savepoint |
    | `converted` | of each state: `operator_id`, `uid`, `state_name`, `state_kind`, `entries`, `fields` (path, before, after) |
    | `left` | of each state that is left: `operator_id`, `uid`, `state_name`, `reason` |
    | `summary` | the new savepoint in numbers; null if there is nothing to convert |
    | `check` | what a restore does with the new savepoint, as of a write; null if nothing was written |
    """
    plan, summary = done.plan, done.summary
    return {
        "flink": plan.flink.text,
        "converted": [
            {
                **_named(one.operator),
                "state_name": one.state.name,
                "state_kind": one.state.kind.value,
                "entries": one.entries,
                "fields": [{"path": path, "before": old, "after": new} for path, old, new in one.fields],
            }
            for one in plan.converted
        ],
        "left": [
            {**_named(one.operator), "state_name": one.state_name, "reason": one.reason} for one in plan.left
        ],
        "summary": asdict(summary) if summary is not None else None,
        "check": None if done.check is None else done.check.to_dict(),
    }


def lines_of(plan: Plan, summary: Summary | None) -> Iterator[str]:
    """Yield what is written anew, what is left, and the new savepoint in numbers."""
    for one in plan.converted:
        yield f"{_shown(one.operator)}, state {one.state.name}: {one.entries:,} {'entry' if one.entries == 1 else 'entries'}"
        yield from (f"  {path}: {before} → {after}" for path, before, after in one.fields)
    for left in plan.left:
        state = f", state {left.state_name}" if left.state_name else ""
        yield f"left as it is: {_shown(left.operator)}{state}: {left.reason}"
    if summary is None:
        yield f"nothing to convert for Flink {plan.flink.text}"
        return
    yield (
        f"{counted(summary.operators, 'operator')}, {counted(summary.files, 'file')} "
        f"with {counted(summary.file_bytes, 'byte')}"
    )
    yield from (f"warning: {warning}" for warning in summary.warnings)


def _named(operator: Operator) -> dict[str, Any]:
    return {"operator_id": operator.operator_id, "uid": operator.metadata.uid}


def _shown(operator: Operator) -> str:
    return operator.metadata.uid or operator.metadata.name or operator.operator_id
