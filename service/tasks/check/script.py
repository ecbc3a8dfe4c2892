"""What a check finds and a write can mend → the script of `savepointdb write`. What it leaves stands in its comments.

| mend | statement |
|---|---|
| another type | `ALTER TABLE … ALTER COLUMN value.age TYPE BIGINT` |
| another name | `ALTER TABLE … RENAME COLUMN value.a TO b`, `ALTER TABLE … RENAME TO …` |
| not declared any more | `DROP TABLE …`, `ALTER TABLE … DROP COLUMN value.a` |
| key groups, TTL | `ALTER TABLE … SET (max_parallelism = 1000)`, `SET (ttl = true)` |

A statement is in the script only if the writers accept its change of the type. One that removes what the job may need is a comment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import writers
from catalog import Database
from doctor import DROPPED, Change, CheckReport, Mend, OperatorVerdict, Severity, StateOutcome, StateVerdict
from readers import Serializer, State, StateKind, is_keyed, sql_type, type_named
from service.query.encode import printable
from service.query.sql.text import quoted
from service.tasks.check.findings import Script, findings_of, title_of

_LEFT = frozenset({Severity.FAILS, Severity.UNKNOWN, Severity.LOSES, Severity.DOUBT})


def script_of(reports: Sequence[CheckReport], database: Database) -> Script:
    """Return the script that mends the findings of all backends.

    Args:
        reports: one for each backend, the worst first.
        database: the savepoint, whose tables the statements name.

    Raises:
        ReaderError: the headers of an operator cannot be read.
    """
    tables = {
        (operator_id, state.name, is_keyed(state.kind)): (table.name, state)
        for operator_id, table in database.state_tables()
        for state in (table.states[0].state,)
    }
    operators = [operator for report in reports for operator in report.operators]
    states = (state for operator in operators for state in operator.states)
    added = frozenset(state.state_name for state in states if state.outcome is StateOutcome.NEW)
    writer = _Writer(tables, database.operator_names, added)
    for operator in operators:
        for state in operator.states:
            writer.add_state(operator, state)
    for operator in operators:
        writer.add_operator(operator)
    for finding in findings_of(reports[0]):
        if finding.severity in _LEFT and (finding.operator, finding.state) not in writer.mended:
            remedy = f" → {finding.remedy}" if finding.remedy else ""
            writer.comments.append(f"left: {finding.place}: {finding.message}{remedy}")
    return Script(
        statements=tuple(dict.fromkeys(writer.statements)),
        comments=tuple(map(printable, dict.fromkeys(writer.comments))),
        assumed=len(writer.assumed),
    )


class _Writer:
    """Collects the statements.

    Args:
        tables: operator id, name of a state, whether it is keyed → its table, and the state.
        operators: operator id → its table.
        added: names of states that only the new job has.
    """

    def __init__(
        self,
        tables: dict[tuple[str, str, bool], tuple[str, State]],
        operators: dict[str, str],
        added: frozenset[str],
    ) -> None:
        self._tables = tables
        self._added = added
        self._operators = operators
        self.statements: list[str] = []
        self.comments: list[str] = []
        self.assumed: set[str] = set()
        self.mended: set[tuple[str, str]] = set()
        self._with_states: set[str] = set()

    def add_state(self, operator: OperatorVerdict, verdict: StateVerdict) -> None:
        """Add the statements that mend one state."""
        place = operator.operator_id, verdict.state_name, is_keyed(StateKind(verdict.kind))
        known = self._tables.get(place)
        if known is None or not verdict.mends:
            return
        table, state = known
        if not is_keyed(state.kind) and any(_type_change(one) for one in verdict.mends):
            self.comments.append(f"left: {table}: a write does not change types of operator state")
            return
        values = state.entry.value if state.entry is not None else None
        # A state gets another name after its fields.
        mends = sorted(verdict.mends, key=lambda one: one.change is Change.RENAME)
        try:
            for mend in mends:
                values = _evolved(mend, values)
                if mend.change is Change.RETYPE and values is not None:
                    writers.write_snapshot(values)
        except writers.WriterError as error:
            self.comments.append(f"left: {table}: {error.message}")
            return
        for mend in mends:
            # Another operator may have the state now.
            is_elsewhere = mend == DROPPED and verdict.state_name in self._added
            if self._add(_statement(mend, table), replace(mend, is_lossy=mend.is_lossy or is_elsewhere)):
                self._with_states.add(operator.operator_id)
        self.mended.add((title_of(operator), verdict.state_name))

    def add_operator(self, operator: OperatorVerdict) -> None:
        """Add the statements that mend one operator as a whole."""
        table = self._operators.get(operator.operator_id)
        if table is None:
            return
        for mend in operator.mends:
            statement = _statement(mend, table)
            if mend.change is Change.MAX_PARALLELISM and operator.operator_id in self._with_states:
                self.comments.append(f"needs a script of its own, after this one: {statement}")
            else:
                self._add(statement, mend)
            self.mended.add((title_of(operator), ""))

    def _add(self, statement: str, mend: Mend) -> bool:
        """Add a statement, and return True; or name what would be lost."""
        if mend.is_lossy:
            self.comments.append(f"not written, as the job may need these rows: {statement}")
            return False
        if mend.is_assumed and statement not in self.assumed:
            self.assumed.add(statement)
            self.comments.append(f"assumed, because both have the same types: {statement}")
        self.statements.append(statement)
        return True


def _evolved(mend: Mend, values: Serializer | None) -> Serializer | None:
    """Return the serializer of values after a mend.

    Raises:
        WriterError: they cannot be changed so.
    """
    change = _type_change(mend)
    if change is None:
        return values
    if values is None:
        raise writers.UnencodableTypeError("expected values of a known type, found none")
    return change.evolved(values).serializer


def _type_change(mend: Mend) -> writers.TypeChange | None:
    path = mend.path[1:]
    match mend.change:
        case Change.RETYPE if mend.path[:1] != ("value",):
            raise writers.UnencodableTypeError(
                f"expected a change below value, found one of {'.'.join(mend.path)}"
            )
        case Change.RETYPE:
            return writers.RetypedField(path, type_named(mend.value))
        case Change.RENAME_FIELD:
            return writers.RenamedField(path, mend.value)
        case Change.DROP if path:
            return writers.DroppedField(path)
        case Change.TTL:
            return writers.ExpiringValue(0 if mend.value == "true" else None)
        case _:
            return None


def _statement(mend: Mend, table: str) -> str:
    name, path = quoted(table), ".".join(("value", *map(quoted, mend.path[1:])))
    match mend.change:
        case Change.RETYPE:
            return f"ALTER TABLE {name} ALTER COLUMN {path} TYPE {_type(mend.value)};"
        case Change.RENAME_FIELD:
            return f"ALTER TABLE {name} RENAME COLUMN {path} TO {quoted(mend.value)};"
        case Change.RENAME:
            return f"ALTER TABLE {name} RENAME TO {_text(mend.value)};"
        case Change.MAX_PARALLELISM:
            return f"ALTER TABLE {name} SET (max_parallelism = {mend.value});"
        case Change.TTL:
            return f"ALTER TABLE {name} SET (ttl = {mend.value});"
        case Change.DROP if mend.path:
            return f"ALTER TABLE {name} DROP COLUMN {path};"
        case _:
            return f"DROP TABLE {name};"


def _type(name: str) -> str:
    """Return a type as SQL has it, if that means the same type of Flink."""
    serializer = type_named(name)
    column = serializer.arrow()
    try:
        is_same = writers.type_of_column("value", column) == serializer
    except writers.WriterError:
        is_same = False
    return sql_type(column) if is_same else _text(name)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
