"""The plan of a conversion: which states are written anew, in which types, and which are left.

| state | of Flink 1.x, for Flink 2.x |
|---|---|
| objects of Kryo 2 | objects of Kryo 5 |
| a List, Set or Map in a POJO, or of a type hint, which was an object of Kryo | the type that the new job declares |

| state | for any Flink |
|---|---|
| numbers of another type than the new job declares | that type, where every value fits |
| with TTL, and declared without, or the other way round | so, for Flink 1.x; Flink 2.x does it by itself |

A state is in the plan only after all its values were made in the new type. What Flink migrates by itself is left to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from doctor import CheckReport, FlinkVersion, Job, Outcome, Severity, Stage
from readers import (
    Operator,
    ReaderError,
    Savepoint,
    Serializer,
    State,
    StateKind,
    StateName,
    TtlSerializer,
    is_keyed,
)
from writers import (
    Edit,
    ExpiringValue,
    RefusedEditError,
    RetypedField,
    RewriteKeyedState,
    StateAlteration,
    TypeChange,
    WithNewerFlink,
    WriterError,
    holds_older_objects,
    needed_type,
    try_types,
)

_KRYO_5_SINCE = 2  # the major version of Flink
_KEYS = "its keys are objects of Kryo, or hold some: Flink 2.x finds no state of them, and a key cannot be written anew yet"
# The rule for files of a native savepoint that another backend wrote.
_FOREIGN_FILES = "native-other-backend"
_NO_VALUES = frozenset(
    {StateKind.RAW_KEYED, StateKind.RAW_OPERATOR, StateKind.COORDINATOR, StateKind.CHANNEL, StateKind.MASTER}
)

Progress = Callable[[str], None]
"""Hears the name of each state that is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedState:
    """A state that is written anew.

    Attributes:
        operator: its operator in the source.
        state: the state in the source.
        changes: of the type of its values, in order.
        fields: what changes in the type: path, type before, type after.
        entries: how many entries it has.
    """

    operator: Operator
    state: State
    changes: tuple[TypeChange, ...]
    fields: tuple[tuple[str, str, str], ...]
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftState:
    """A state that the new job cannot restore as it is, and that stays so.

    Attributes:
        operator: its operator.
        state_name: its name; empty for the operator as a whole.
        reason: why it is not written anew.
    """

    operator: Operator
    state_name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a conversion does.

    Attributes:
        flink: the version that will restore the savepoint.
        converted: the states that are written anew.
        left: those that would have to be, and are not.
    """

    flink: FlinkVersion
    converted: tuple[ConvertedState, ...]
    left: tuple[LeftState, ...]

    @property
    def edits(self) -> tuple[Edit, ...]:
        """What writes them."""
        edits: list[Edit] = []
        for operator in {id(one.operator): one.operator for one in self.converted}.values():
            alterations = {
                StateName(name=one.state.name): StateAlteration(types=one.changes)
                for one in self.converted
                if one.operator is operator
            }
            edits.append(RewriteKeyedState(operator=operator, alterations=alterations))
        if self.flink.major >= _KRYO_5_SINCE:
            edits.append(WithNewerFlink((self.flink.major, self.flink.minor)))
        return tuple(edits)


def plan_of(
    savepoint: Savepoint, job: Job, flink: FlinkVersion, on_state: Progress = lambda name: None
) -> Plan:
    """Return what is written anew. Reads all values of states that need it.

    Args:
        savepoint: the source.
        job: what is known of the new job.
        flink: the version that will restore it.
        on_state: hears of each state.

    Raises:
        ReaderError: the savepoint cannot be read.
    """
    converted: list[ConvertedState] = []
    left: list[LeftState] = []
    for operator in savepoint.operators:
        declared = _declared(job, operator)
        for state in operator.states:
            on_state(state.name)
            try:
                found = _converted(operator, state, declared.get((state.name, is_keyed(state.kind))), flink)
            except (WriterError, ReaderError) as error:
                left.append(LeftState(operator=operator, state_name=state.name, reason=error.message))
                continue
            if found is not None:
                converted.append(found)
    return Plan(flink=flink, converted=tuple(converted), left=tuple(left))


def with_failures(plan: Plan, savepoint: Savepoint, reports: Iterable[CheckReport]) -> Plan:
    """Return a plan that also lists what fails for other reasons, which no conversion mends.

    Args:
        plan: the plan.
        savepoint: its source.
        reports: of checks of the source, with several backends. One that cannot read files of another is for jobs of that other.
    """
    found = list(reports)
    reports = [one for one in found if not _is_foreign(one)] or found
    operators = {operator.operator_id: operator for operator in savepoint.operators}
    known = {(one.operator.operator_id, one.state.name) for one in plan.converted}
    known |= {(one.operator.operator_id, one.state_name) for one in plan.left}
    left = list(plan.left)
    for report in reports:
        for verdict in report.operators:
            operator = operators.get(verdict.operator_id)
            if operator is None:
                continue
            failures = [
                (state.state_name, state.message)
                for state in verdict.states
                if state.severity is Severity.FAILS and verdict.stage is not Stage.GRAPH
            ]
            if verdict.rule is not None and verdict.outcome is Outcome.FAILS:
                failures = [("", verdict.message)]
            for name, message in failures:
                if (verdict.operator_id, name) not in known:
                    known.add((verdict.operator_id, name))
                    left.append(LeftState(operator=operator, state_name=name, reason=message))
    return replace(plan, left=tuple(left))


def _is_foreign(report: CheckReport) -> bool:
    return any(operator.rule == _FOREIGN_FILES for operator in report.operators)


def _declared(job: Job, operator: Operator) -> dict[tuple[str, bool], Serializer]:
    """Return the types of values that the new job declares, by name and whether it is keyed."""
    known = job.operators.get(operator.operator_id)
    states = known.states if known is not None else ()
    return {(state.name, state.keyed): state.entry.value for state in states if state.entry.value is not None}


def _converted(
    operator: Operator, state: State, declared: Serializer | None, flink: FlinkVersion
) -> ConvertedState | None:
    """Return a state in the type that it needs; None if it can stay.

    Raises:
        WriterError: it cannot be written anew.
        ReaderError: it cannot be read.
    """
    entry = state.entry
    if entry is None or state.kind in _NO_VALUES:
        return None
    is_upgrade = flink.major >= _KRYO_5_SINCE
    if is_upgrade:
        _check_addresses(state)
    if entry.value is None:
        return None
    changes = tuple(_changes(entry.value, declared, is_upgrade=is_upgrade))
    if not changes:
        return None
    if not is_keyed(state.kind):
        raise RefusedEditError("it is operator state, whose types cannot be changed yet")
    new = entry.value
    for change in changes:
        new = change.evolved(new).serializer
    return ConvertedState(
        operator=operator,
        state=state,
        changes=changes,
        fields=tuple(_differences(entry.value, new)),
        entries=try_types(operator, StateName(name=state.name), changes),
    )


def _check_addresses(state: State) -> None:
    """Refuse keys, namespaces and map keys that are objects of Kryo 2.

    Raises:
        RefusedEditError: some are.
    """
    entry = state.entry
    assert entry is not None
    if entry.key is not None and holds_older_objects(entry.key):
        raise RefusedEditError(_KEYS)
    for what, serializer in (("namespaces", entry.namespace), ("map keys", entry.map_key)):
        if serializer is not None and holds_older_objects(serializer):
            raise RefusedEditError(
                f"its {what} are objects of Kryo, or hold some, which cannot be written anew yet"
            )


def _changes(old: Serializer, declared: Serializer | None, *, is_upgrade: bool) -> Iterator[TypeChange]:
    """Yield the changes of a type that Flink does not make by itself."""
    new = needed_type(old, declared, is_upgrade=is_upgrade)
    if new is not old:
        # The change goes inside the wrapper of a TTL.
        yield RetypedField((), new.value if isinstance(new, TtlSerializer) else new)
    if declared is None or is_upgrade:
        return
    expires = isinstance(declared, TtlSerializer)
    if expires is not isinstance(old, TtlSerializer):
        yield ExpiringValue(time.time_ns() // 1_000_000 if expires else None)


def _differences(old: Serializer, new: Serializer, path: str = "value") -> Iterator[tuple[str, str, str]]:
    """Yield path, type before and type after of each part that changes."""
    if old is new:
        return
    parts = list(zip(old.children, new.children, strict=False))
    if type(old) is not type(new) or not parts or len(old.children) != len(new.children):
        yield path, _shown(old), _shown(new)
        return
    for (name, before), (_, after) in parts:
        yield from _differences(before, after, path if name in ("nullable", "value") else f"{path}.{name}")


def _shown(serializer: Serializer) -> str:
    version = getattr(getattr(serializer, "settings", None), "version", None)
    return f"{serializer.type_name} of Kryo {version}" if version else serializer.type_name
