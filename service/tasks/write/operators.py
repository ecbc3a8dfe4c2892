"""Operators that go, and operators that get another uid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from readers import operator_id_of
from service.base.errors import InvalidQueryError
from service.tasks.write.changes import Changes, Effect, ScriptContext
from service.tasks.write.statements.alter import DropTable, RenameTable, SetOptions
from service.tasks.write.statements.parser import Fragment, Statement
from writers import DropOperator, Edit, RenameOperator, RewriteKeyedState, is_of_sink, shown

_SHAPE = ("max_parallelism", "parallelism")


class OperatorChanges(Changes):
    """DROP TABLE and ALTER TABLE of operators."""

    def __init__(self, context: ScriptContext) -> None:
        super().__init__(context)
        self._edits: list[Edit] = []
        self._shapes: dict[str, RewriteKeyedState] = {}

    @property
    def appliers(self) -> Mapping[type[Statement], Callable[[Any], Effect]]:
        return {DropTable: self._drop, RenameTable: self._rename, SetOptions: self._set}

    def edits(self) -> Iterator[Edit]:
        # State is found by the ids of operators in the source, so it comes first.
        for source_id, edit in self._shapes.items():
            if self.context.operator_ids[source_id] is not None:
                yield edit
        yield from self._edits

    def _drop(self, statement: DropTable) -> Effect:
        name = statement.name
        source_id, operator_id = self.context.operator(name)
        self._edits.append(DropOperator(operator_id))
        self.context.operator_ids[source_id] = None
        text = f"{name} is dropped: a job that has this operator starts it without state"
        if any(map(is_of_sink, self.context.in_source(source_id).states)):
            text += "; what it has written and not committed is never committed"
        return Effect(table=name, text=text)

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

    def _set(self, statement: SetOptions) -> Effect:
        name = statement.name
        source_id, _ = self.context.operator(name)
        values = {option: self._number(option, value) for option, value in statement.options}
        operator = self.context.in_source(source_id)
        edit = RewriteKeyedState(
            operator=operator,
            max_parallelism=values.get("max_parallelism"),
            parallelism=values.get("parallelism"),
        )
        known = self._shapes.get(source_id)
        shape = self._shapes[source_id] = edit if known is None else known.merged(edit)
        groups = shape.max_parallelism or operator.metadata.max_parallelism
        subtasks = shape.parallelism or operator.metadata.parallelism
        text = (
            f"{name} has {groups} key groups in {subtasks} subtasks: every entry goes to the group of its key. Flink restores it in "
            f"a job whose max parallelism is {groups} or not set; that of all operators of a chain must be the same"
        )
        return Effect(table=name, text=text)

    def _number(self, option: str, expression: Fragment) -> int:
        if option not in _SHAPE:
            raise InvalidQueryError(
                f"expected one of {', '.join(_SHAPE)} as the option of an operator, found {option}"
            )
        constant = self.context.constant(expression)
        value = constant.as_py() if pa.types.is_integer(constant.type) else None
        if value is None or value < 1:
            raise InvalidQueryError(f"expected a number above 0 for {option}, found {shown(constant)}")
        return int(value)
