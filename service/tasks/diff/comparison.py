"""The rows of `diff('before', 'after')` → `Comparison` → JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
from sqlglot import exp

from catalog import Database
from catalog.differences.summary import OffsetDifference, diff_facts
from service.base.errors import QueryError, SavepointError
from service.query.sql.allowlist import DIFFERENCES
from service.query.sql.parser import DIALECT

SAME = "same"
_ONE_SIDED = ("added", "removed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A row that differs, as texts.

    Attributes:
        change: added, removed or changed.
        identity: its key, namespace and the like.
        before, after: its values; None where it has none.
    """

    change: str
    identity: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateComparison:
    """One state of two savepoints.

    Attributes:
        operator_id, operator: the id of its operator, and the name of the operator's table.
        state_name: as Flink has it; None for an operator without states.
        table_name: of its rows; None where they cannot be compared.
        change: same, changed, added or removed; None where that is not known.
        type_before, type_after: the types of its values; None where there is no such state.
        added, removed, changed: how many rows are; None where that is not known.
        rows_before, rows_after: how many rows there are; None where that is not known.
        size_before, size_after: bytes of its entries; None where that is not known.
        samples: the first rows that differ.
        error: why its rows cannot be compared; None if they can.
    """

    operator_id: str
    operator: str
    state_name: str | None
    table_name: str | None
    change: str | None
    type_before: str | None
    type_after: str | None
    added: int | None
    removed: int | None
    changed: int | None
    rows_before: int | None
    rows_after: int | None
    size_before: int | None
    size_after: int | None
    samples: tuple[Sample, ...] = ()
    error: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> StateComparison:
        """Return a row of the table as a comparison."""
        return cls(**{**row, "samples": tuple(Sample(**sample) for sample in row["samples"] or ())})

    @property
    def place(self) -> str:
        """Its operator and state, for people."""
        return self.operator if self.state_name is None else f"{self.operator} › {self.state_name}"

    @property
    def rows(self) -> int:
        """How many rows differ, as far as is known."""
        return (self.added or 0) + (self.removed or 0) + (self.changed or 0)

    @property
    def has_other_type(self) -> bool:
        """True if the types of its values differ."""
        return self.change not in _ONE_SIDED and self.type_before != self.type_after

    @property
    def is_equal(self) -> bool:
        """True if nothing differs, for certain."""
        return self.change == SAME and self.error is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two savepoints, compared.

    Attributes:
        before, after: the databases.
        states: all states of both, by operator; those of one operator may be only a part of them.
        moved: id of an operator that only one of them has → `added` or `removed`.
        offsets: of sources, that moved.
        offsets_error: why some offsets cannot be compared; None if they can.
        size_before, size_after: bytes of the savepoints.
        rows: a row for each state, as the query found it.
    """

    before: Database
    after: Database
    states: tuple[StateComparison, ...]
    moved: Mapping[str, str]
    offsets: tuple[OffsetDifference, ...]
    offsets_error: str | None
    size_before: int
    size_after: int
    rows: pa.Table

    @property
    def is_equal(self) -> bool:
        """True if no state, row or offset differs, for certain."""
        return (
            all(state.is_equal for state in self.states) and not self.offsets and self.offsets_error is None
        )

    @property
    def errors(self) -> tuple[str, ...]:
        """Why something cannot be compared."""
        found = [*(state.error for state in self.states), self.offsets_error]
        return tuple(error for error in found if error is not None)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that are JSON."""
        return {
            "before": self.before.name,
            "after": self.after.name,
            "operators": [
                _operator(list(states), self.moved)
                for _, states in groupby(self.states, lambda state: state.operator_id)
            ],
            "offsets": [asdict(offset) for offset in self.offsets],
            "offsets_error": self.offsets_error,
            "sizes": {"before": self.size_before, "after": self.size_after},
        }


def summary_statement(before: str, after: str, operator_id: str | None = None) -> str:
    """Return the statement whose rows become a `Comparison`.

    Args:
        before, after: names of databases.
        operator_id: of the only operator to compare; None for all.
    """
    return f"SELECT * FROM {_call(before, after)}{_only(operator_id)}"


def states_statement(before: str, after: str, operator_id: str | None = None) -> str:
    """Return the statement whose rows are the names of the states; it reads none of them."""
    return f"SELECT state_name, table_name FROM {_call(before, after)}{_only(operator_id)}"


def rows_statement(before: str, after: str, table: str) -> str:
    """Return the statement whose rows are those of a table that differ."""
    return f"SELECT * FROM {_call(before, after, table)}"


def comparison_of(
    before: Database, after: Database, rows: pa.Table, operator_id: str | None = None
) -> Comparison:
    """Return the comparison whose rows a query found.

    Args:
        before, after: the databases.
        rows: those of `summary_statement`.
        operator_id: of the only operator to compare; None for all.

    Raises:
        ReaderError: a savepoint cannot be read any more.
    """
    states = [StateComparison.of(row) for row in rows.to_pylist()]
    known = diff_facts(before, after)
    order = {one: number for number, one in enumerate(known.operators)}
    return Comparison(
        before=before,
        after=after,
        # Splits are read side by side.
        states=tuple(
            sorted(states, key=lambda one: (order.get(one.operator_id, len(order)), one.state_name or ""))
        ),
        moved=known.moved,
        offsets=tuple(
            offset
            for offset in sorted(known.offsets, key=_place_of)
            if operator_id is None or offset.operator == known.operators.get(operator_id)
        ),
        offsets_error=known.offsets_error,
        size_before=known.size_before,
        size_after=known.size_after,
        rows=rows,
    )


def gone_or(error: QueryError, databases: Iterable[Database]) -> QueryError:
    """Return the error that names the savepoints that were removed meanwhile; the error itself if none was."""
    gone = [f'"{database.name}"' for database in databases if database.is_gone]
    if not gone or not isinstance(error, SavepointError):
        return error
    return SavepointError(
        f"savepoint {', '.join(gone)} was removed while it was compared",
        hint="SHOW SCHEMAS lists those that are there",
        detail=error.detail,
        code="SAVEPOINT_GONE",
        status=410,
    )


def _call(*names: str) -> str:
    return f"{DIFFERENCES}({', '.join(map(_text, names))})"


def _only(operator_id: str | None) -> str:
    return "" if operator_id is None else f" WHERE operator_id = {_text(operator_id)}"


def _text(name: str) -> str:
    return exp.Literal.string(name).sql(DIALECT)


def _place_of(offset: OffsetDifference) -> tuple[str, str, int]:
    return offset.operator, offset.topic or "", -1 if offset.partition is None else offset.partition


def _operator(states: list[StateComparison], moved: Mapping[str, str]) -> dict[str, Any]:
    changes = {state.change for state in states}
    # What is not known is no change, unless another state has one.
    change = "changed" if changes - {SAME, None} else None if None in changes else SAME
    return {
        "operator_id": states[0].operator_id,
        "name": states[0].operator,
        "change": moved.get(states[0].operator_id, change),
        "states": [_state(state) for state in states if state.state_name is not None],
    }


def _state(state: StateComparison) -> dict[str, Any]:
    made = asdict(state)
    del made["operator_id"], made["operator"]
    return made | {"samples": list(made["samples"])}
