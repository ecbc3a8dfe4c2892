"""The rows of the tables about the restore of a savepoint, as the doctor finds them without the new job.

The catalog has these tables, and knows no rules of restores: `service.base.catalogtables` names these functions to it.

| table | a row per | reads |
|---|---|---|
| restore_check | operator, and state of an operator, for each state backend | `_metadata` and the headers of the state files |
| required_classes | class that a state names, and role of it | the same |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

import doctor
from catalog.facts import REQUIRED_CLASSES, RESTORE_CHECK
from doctor import CheckReport, OperatorVerdict, Risk, StateVerdict
from readers import Savepoint

# Those that the newest Flink has.
_BACKENDS = ("hashmap", "rocksdb")


def restore_check_rows(savepoint: Savepoint, uids: Mapping[str, str]) -> pa.RecordBatch:
    """Return a row for each operator, where `state_name` is NULL, and for each of its states, with each backend.

    Args:
        savepoint: the savepoint.
        uids: operator id → uid, for uids that are not from `_metadata`.
    """
    rows = [row for backend in _BACKENDS for row in _report_rows(_report(savepoint, backend), uids)]
    return pa.RecordBatch.from_pylist(rows, schema=RESTORE_CHECK)


def required_class_rows(savepoint: Savepoint, uids: Mapping[str, str]) -> pa.RecordBatch:
    """Return a row for each class that a state names, and each role of it.

    Args:
        savepoint: the savepoint.
        uids: operator id → uid, for uids that are not from `_metadata`.
    """
    report = _report(savepoint, _BACKENDS[0])
    known = {operator.operator_id: operator.uid for operator in report.operators}
    rows = [
        {
            "class_name": required.class_name,
            "role": required.role,
            "operator_id": required.operator_id,
            "operator_uid": known.get(required.operator_id) or uids.get(required.operator_id),
            "state_name": required.state_name,
        }
        for required in report.required_classes
    ]
    return pa.RecordBatch.from_pylist(rows, schema=REQUIRED_CLASSES)


def _report(savepoint: Savepoint, backend: str) -> CheckReport:
    return doctor.check(savepoint, backend=backend)


def _report_rows(report: CheckReport, uids: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    where = {"flink": report.flink, "backend": report.backend}
    for operator in report.operators:
        named = {
            **where,
            "operator_id": operator.operator_id,
            "operator_uid": operator.uid or uids.get(operator.operator_id),
            "operator_name": operator.name,
        }
        yield {**named, **_operator_row(operator)}
        for state in operator.states:
            yield {**named, **_state_row(state)}


def _operator_row(operator: OperatorVerdict) -> dict[str, Any]:
    return {
        **_verdict_row(operator),
        "severity": _severity(operator),
        "changes_values": operator.loses_data,
    }


def _state_row(state: StateVerdict) -> dict[str, Any]:
    return {
        **_verdict_row(state),
        "state_name": state.state_name,
        "state_kind": state.kind,
        "severity": state.severity.value,
        "changes_values": state.changes_values,
        "field_path": state.field_path,
    }


def _verdict_row(verdict: OperatorVerdict | StateVerdict) -> dict[str, Any]:
    return {
        "outcome": verdict.outcome.value,
        "stage": verdict.stage,
        "message": verdict.message or None,
        "remedy": verdict.remedy or None,
        "rule": verdict.rule,
        "evidence": ", ".join(verdict.evidence) or None,
        "risks": _risks(verdict.risks),
    }


def _severity(operator: OperatorVerdict) -> str:
    """Return the weight of an operator: where it restores with the same values, that of its worst risk."""
    if operator.outcome != "restores":
        return operator.outcome.value
    if operator.loses_data:
        return "loses"
    risks = [*operator.risks, *(risk for state in operator.states for risk in state.risks)]
    found = {risk.severity.value for risk in risks}
    return next((severity for severity in ("doubt", "risk") if severity in found), "fine")


def _risks(risks: Iterable[Risk]) -> str | None:
    """Return the risks as one text, because every BI tool shows a text."""
    told = [f"{risk.rule}: {risk.message}" for risk in risks if risk.severity != "fine"]
    return "; ".join(told) or None
