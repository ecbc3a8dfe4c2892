"""`diff`, `history` and `check`: what changed, since when, and what a restore will do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from anyio import to_thread

from service.base.process.waiting import found_in_thread
from service.doors.http.api.checks import checked
from service.doors.http.api.tasks import context_of, request_of
from service.doors.mcp.arguments import Check, Diff, History
from service.doors.mcp.calls import Call
from service.doors.mcp.results import ToolResult, result_of
from service.doors.mcp.texts import cell_text, cut_text, fitting, line_text, table_text
from service.query.running.group import QueryGroup
from service.query.sql.literals import text_constant
from service.tasks.check.running import CheckRequest
from service.tasks.diff.comparison import SAME, Comparison, StateComparison
from service.tasks.diff.running import Compared, DiffRequest, compared_of, comparison_by
from service.tasks.diff.text import headline
from service.tasks.history.text import folded_rows
from service.tasks.history.timeline import HistoryRequest
from service.tasks.history.timeline import run as run_history

_FINE = "fine"


async def diff(call: Call, arguments: Diff) -> ToolResult:
    """Compare two savepoints: what differs by state, with the first rows that do, and the offsets that moved."""
    group = QueryGroup(call.served.queries.start, call.queries)
    context = context_of(call.served, call.caller, call.source, group)
    asked = request_of(DiffRequest, arguments)

    def compare() -> tuple[Compared, Comparison]:
        compared = compared_of(asked, context.catalog)
        return compared, comparison_by(compared, context)

    compared, found = await found_in_thread(compare, group.cancel)
    # What cannot be compared comes first, then the states with the most rows that differ.
    differing = sorted(
        (state for state in found.states if not state.is_equal),
        key=lambda state: (state.error is None, -state.rows),
    )
    rows = [_difference(state, found) for state in differing]
    kept = fitting(rows, arguments.max_bytes)
    notes = list(compared.skipped)
    if kept < len(rows):
        notes.append(cut_text(kept, len(rows), "state", "name an operator, or give more max_bytes"))
    notes += [f"offsets cannot all be compared: {found.offsets_error}"] if found.offsets_error else []
    offsets = [
        [one.operator, one.topic, one.partition, one.before, one.after]
        for one in found.offsets[: max(0, arguments.max_bytes // _BYTES_OF_AN_OFFSET)]
    ]
    if len(offsets) < len(found.offsets):
        notes.append(
            cut_text(len(offsets), len(found.offsets), "offset", "SELECT from source_offsets of both")
        )
    told = headline(found)
    content = {
        "before": found.before.name,
        "after": found.after.name,
        "is_equal": found.is_equal,
        "headline": told,
        "states": rows[:kept],
        "offset_columns": list(_OFFSETS),
        "offsets": offsets,
        "size_before": found.size_before,
        "size_after": found.size_after,
    }
    return result_of(
        content,
        f"{line_text(found.before.name)} → {line_text(found.after.name)}: {told}",
        *map(_difference_text, rows[:kept]),
        f"offsets that moved\n{table_text(_OFFSETS, offsets)}" if offsets else "",
        notes=notes,
    )


async def history(call: Call, arguments: History) -> ToolResult:
    """Return what each state of a job has of a key in all its checkpoints; those in which nothing changed are folded."""
    group = QueryGroup(call.served.queries.start, call.queries)
    context = context_of(call.served, call.caller, call.source, group)
    asked = request_of(HistoryRequest, arguments)
    timelines = await found_in_thread(lambda: run_history(asked, context), group.cancel)
    job = await to_thread.run_sync(context.catalog.job, timelines.job)
    folded = folded_rows(timelines)
    names = folded.schema.names
    rows = [[row[name] for name in names] for row in folded.to_pylist()]
    kept = fitting(rows, arguments.max_bytes)
    notes = [
        f"{state.table_name} has more rows of the key than are shown"
        for state in timelines.states
        if state.is_cut
    ]
    if kept < len(rows):
        notes.append(
            cut_text(kept, len(rows), "row", "give more max_bytes, or ask for the last checkpoints only")
        )
    if not rows:
        reasons = f": {', or '.join(timelines.misses)}" if timelines.misses else ""
        notes.append(f"no state of the job has the key{reasons}; lookup_key shows what keys look like")
    content = {
        "job": job.name,
        "history": job.history,
        "key": asked.key,
        "columns": names,
        "rows": rows[:kept],
    }
    head = f"job {line_text(job.name)}: {len(job.databases)} checkpoints; schema of its history: {line_text(job.history)}"
    return result_of(content, head, table_text(names, rows[:kept]) if rows else "", notes=notes)


async def check(call: Call, arguments: Check) -> ToolResult:
    """Say what a restore of a savepoint will do, and what to do about it."""
    report = await checked(call.served, call.caller, request_of(CheckRequest, arguments))
    findings = list(_findings(report))
    kept = fitting(findings, arguments.max_bytes)
    notes = []
    if kept < len(findings):
        notes.append(cut_text(kept, len(findings), "finding", "give more max_bytes"))
    content = {
        "database": report["savepoint"],
        **{name: report[name] for name in _OF_A_CHECK},
        "findings": findings[:kept],
        "backends": {name: one["outcome"] for name, one in report.get("backends", {}).items()},
    }
    return result_of(
        content,
        f"{line_text(report['savepoint'])}: {line_text(report['headline'])}",
        f"advice: {line_text(report['advice'])}",
        *map(_finding_text, findings[:kept]),
        notes=notes,
    )


def _difference(state: StateComparison, found: Comparison) -> dict[str, Any]:
    """Return what differs in a state, without what does not."""
    row: dict[str, Any] = {
        "operator": state.operator,
        "state": state.state_name,
        "change": state.change,
        "added": state.added,
        "removed": state.removed,
        "changed": state.changed,
        "rows_before": state.rows_before,
        "rows_after": state.rows_after,
        "error": state.error,
    }
    if state.has_other_type:
        row |= {"type_before": state.type_before, "type_after": state.type_after}
    if state.samples:
        row["samples"] = [[one.change, one.identity, one.before, one.after] for one in state.samples]
    if state.table_name is not None and state.change != SAME:
        names = ", ".join(map(text_constant, (found.before.name, found.after.name, state.table_name)))
        row["rows_sql"] = f"SELECT * FROM diff({names})"
    return {name: value for name, value in row.items() if value is not None}


def _difference_text(row: dict[str, Any]) -> str:
    place = " › ".join(line_text(row[name]) for name in ("operator", "state") if name in row)
    counts = ", ".join(f"{row[word]:,} {word}" for word in ("changed", "added", "removed") if row.get(word))
    lines = [f"{place}: {row.get('change', 'unknown')}{f' ({counts})' if counts else ''}"]
    lines += [f"  cannot be compared: {line_text(row['error'])}"] if "error" in row else []
    if "type_before" in row or "type_after" in row:
        lines.append(
            f"  type {line_text(str(row.get('type_before')))} → {line_text(str(row.get('type_after')))}"
        )
    for change, identity, before, after in row.get("samples", ()):
        shown = " → ".join(cell_text(value) for value in (before, after) if value is not None)
        lines.append(f"  {change} {cell_text(identity)}: {shown}")
    lines += [f"  all rows: {line_text(row['rows_sql'])}"] if "rows_sql" in row else []
    return "\n".join(lines)


def _findings(report: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what is not fine: of the savepoint, its operators and its states."""
    yield from _of(report, {})
    for operator in report["operators"]:
        place = {"operator": operator["uid"] or operator["name"] or operator["operator_id"]}
        yield from _of(operator, place)
        for state in operator["states"]:
            yield from _of(state, {**place, "state": state["state_name"]})


def _of(verdict: Mapping[str, Any], place: dict[str, str]) -> Iterator[dict[str, Any]]:
    if verdict["message"] and verdict["severity"] != _FINE:
        yield {
            "severity": verdict["severity"],
            **place,
            "outcome": verdict["outcome"],
            **_said(verdict),
        }
    yield from (
        {"severity": risk["severity"], **place, **_said(risk)}
        for risk in verdict["risks"]
        if risk["severity"] != _FINE
    )


def _said(verdict: Mapping[str, Any]) -> dict[str, str]:
    return {"message": verdict["message"], "remedy": verdict["remedy"]}


def _finding_text(finding: dict[str, Any]) -> str:
    place = " › ".join(line_text(finding[name]) for name in ("operator", "state") if name in finding)
    outcome = f" ({finding['outcome']})" if "outcome" in finding else ""
    remedy = f" → {line_text(finding['remedy'])}" if finding["remedy"] else ""
    return f"{finding['severity'].upper()} {place or 'the savepoint'}{outcome}: {line_text(finding['message'])}{remedy}"


_OFFSETS = ("operator", "topic", "partition", "before", "after")
_BYTES_OF_AN_OFFSET = 100
_OF_A_CHECK = ("against", "flink", "backend", "outcome", "severity", "loses_data", "headline", "advice")
