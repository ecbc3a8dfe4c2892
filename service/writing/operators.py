"""Operators that go, and operators that get another uid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from readers import State, operator_id_of
from service.writing.family import Context, Effect, Family
from service.writing.statements.statement import Statement
from service.writing.statements.tables import DropTable, RenameTable
from writers import DropOperator, Edit, RenameOperator, is_of_sink


class OperatorChanges(Family):
    """DROP TABLE and ALTER TABLE … RENAME TO of operators."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._edits: list[Edit] = []

    @property
    def appliers(self) -> Mapping[type[Statement], Callable[[Any], Effect]]:
        return {DropTable: self._drop, RenameTable: self._rename}

    def edits(self) -> Iterator[Edit]:
        return iter(self._edits)

    def _drop(self, statement: DropTable) -> Effect:
        name = statement.name
        source_id, operator_id = self.context.operator(name)
        self._edits.append(DropOperator(operator_id))
        self.context.operator_ids[source_id] = None
        text = f"{name} is dropped: a job that has this operator starts it without state"
        if any(is_of_sink(state) for state in self._states(source_id)):
            text += "; what it has written and not committed is never committed"
        return Effect(table=name, text=text)

    def _states(self, source_id: str) -> tuple[State, ...]:
        operators = self.context.database.savepoint.operators
        return next(one.states for one in operators if one.operator_id == source_id)

    def _rename(self, statement: RenameTable) -> Effect:
        name = statement.name
        source_id, operator_id = self.context.operator(name)
        self._edits.append(RenameOperator(operator_id, statement.new_name))
        self.context.operator_ids[source_id] = operator_id_of(statement.new_name)
        text = (
            f"{name} has the uid {statement.new_name!r}: a job without such an operator restores only with "
            "allowNonRestoredState, and leaves this state out"
        )
        return Effect(table=name, text=text)
