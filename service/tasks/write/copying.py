"""COPY OPERATOR: operators of other savepoints, with their states as they are.

The statements of a script find no states of a copy: these are read and changed in a script of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from catalog import CatalogError, Database, Table
from readers import Operator, Savepoint, operator_id_of
from service.base.errors import InvalidQueryError, query_error_of, translated
from service.query.encode import counted, size_text
from service.query.sql.schemas import CATALOG
from service.tasks.write.changes import Changes, Effect, ScriptContext
from service.tasks.write.statements.creation import CopyOperator
from writers import Edit, TakeOperator, UnwritableError

_SHOWN_STATES = 10
_SEPARATOR = "__"
_OTHERS = "on the command line, --savepoint NAME=PATH names another savepoint"


def other_savepoint(context: ScriptContext, path: Sequence[str], what: str) -> Database:
    """Return the other savepoint of a name with the parts `savepoint.name` or `flink.savepoint.name`.

    Args:
        context: of the script.
        path: the parts.
        what: such a name, for the error.

    Raises:
        QueryError: the caller sees no savepoint of this name, or it is the one that is written.
    """
    *qualifier, name = path
    if not qualifier or len(qualifier) > 1 + (qualifier[0].casefold() == CATALOG):
        raise InvalidQueryError(f"expected {what}, found {'.'.join(path)!r}", hint=_OTHERS)
    try:
        found = context.catalog.database(qualifier[-1])
    except CatalogError as error:
        failure = query_error_of(error)
        failure.hint = failure.hint or _OTHERS
        raise failure from error
    if found.name == context.database.name:
        raise InvalidQueryError(f"expected another savepoint than the one that is written, for {name!r}")
    return found


class OperatorCopies(Changes):
    """COPY OPERATOR."""

    def __init__(self, context: ScriptContext) -> None:
        super().__init__(context)
        self._taken: dict[str, TakeOperator] = {}

    def edits(self) -> Iterator[Edit]:
        yield from self._taken.values()

    def table(self, name: str) -> Table | None:
        """Refuse the tables of a copy; return None for any other.

        Raises:
            QueryError: a statement copies it.
        """
        for known in self._taken:
            if name == known.casefold() or name.startswith(f"{known.casefold()}{_SEPARATOR}"):
                raise InvalidQueryError(
                    f"an earlier statement copies {known!r}: read or change its states in a script of their own"
                )
        return None

    def verify(self, savepoint: Savepoint) -> None:
        written = {operator.operator_id: operator for operator in savepoint.operators}
        for title, edit in self._taken.items():
            found, expected = _described(written[edit.operator_id]), _described(edit.operator)
            if found != expected:
                raise UnwritableError(
                    f"expected the states of {title} as they are in {edit.other.path}, read others back; nothing was written"
                )

    def _copy(self, statement: CopyOperator) -> Effect:
        name = statement.origin[-1]
        other = other_savepoint(self.context, statement.origin, "COPY OPERATOR savepoint.operator")
        with translated(CatalogError):
            operator_id = other.operator_of(name)
        operator = next(one for one in other.savepoint.operators if one.operator_id == operator_id)
        uid = statement.uid
        if uid is None and operator.metadata.uid is None:
            # Versions before 5 store the id of the uid, and not the uid.
            known = (name, other.operator_names[operator_id])
            uid = next((one for one in known if operator_id_of(one) == operator_id), None)
        if uid == "":
            raise InvalidQueryError("expected a uid, found an empty text")
        edit = TakeOperator(
            operator=operator, other=other.savepoint, uid=uid, source=self.context.database.savepoint
        )
        self._check_new(edit, statement)
        self._taken[uid or operator.metadata.uid or name] = edit
        versions = other.savepoint.metadata.flink_versions
        is_same = versions == self.context.database.savepoint.metadata.flink_versions
        origin = other.name if is_same else f"{other.name}, of Flink {versions}"
        return Effect(
            table=statement.name, text=f"{statement.name} is copied from {origin}: {_told(operator)}"
        )

    def _check_new(self, edit: TakeOperator, statement: CopyOperator) -> None:
        taken = {one.operator_id for one in self._taken.values()}
        now = {one for one in self.context.operator_ids.values() if one is not None}
        if edit.operator_id in taken | now:
            raise InvalidQueryError(
                f"the savepoint has an operator {statement.name!r} already ({edit.operator_id})",
                hint=f"DROP TABLE {statement.name} before it, or COPY OPERATOR … TO 'another uid'",
            )

    appliers: ClassVar = {CopyOperator: _copy}


def _described(operator: Operator) -> list[tuple[str, str, str]]:
    """Return the name, kind and columns of each state."""
    return sorted((state.name, state.kind.value, str(state.schema)) for state in operator.states)


def _told(operator: Operator) -> str:
    recorded = operator.metadata
    shown = [f"{state.name} ({state.kind.value})" for state in operator.states[:_SHOWN_STATES]]
    more = len(operator.states) - len(shown)
    states = ", ".join([*shown, *([f"{more} more"] if more else [])]) or "no state"
    groups = f"{recorded.max_parallelism} key groups in {counted(recorded.parallelism, 'subtask')}"
    return f"{states}; {groups}, {size_text(recorded.size_bytes)}, each byte as it is"
