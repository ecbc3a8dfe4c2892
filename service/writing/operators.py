"""Operators that go, and operators that get another uid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from readers import operator_id_of
from service.writing.family import Context, Effect, Family
from service.writing.statements.statement import Statement
from service.writing.statements.tables import DropTable, RenameTable
from writers import DropOperator, Edit, RenameOperator


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
        return Effect(
            table=name, text=f"{name} is dropped: a job that has this operator starts it without state"
        )

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
