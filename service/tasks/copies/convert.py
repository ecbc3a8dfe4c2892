"""`convert`: a savepoint that a job cannot restore, or would restore with other values → one with equal values that it restores.

| state | of Flink 1.x, for Flink 2.x |
|---|---|
| objects of Kryo 2 | objects of Kryo 5 |
| a List, Set or Map in a POJO, or of a type hint, which was an object of Kryo | the type that the new job declares |

| state | for any Flink |
|---|---|
| numbers of another type than the new job declares | that type, where every value fits |
| with TTL, and declared without, or the other way round | so, for Flink 1.x; Flink 2.x does it by itself |

A state is in the plan only after all its values were made in the new type. What Flink migrates by itself is left to it. The new
savepoint is read back. It is written as scripts do, by `ALTER TABLE … TYPE` of whole values: `service.tasks.write` has the statements.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import doctor
import writers
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
from service.base import machine
from service.query.encode import counted, printable
from service.tasks.check.findings import FAILS, Finding, is_foreign
from service.tasks.check.running import WrittenCheck, check_lines, check_version, checked
from service.tasks.task import Context, Task, TaskRequest, option
from service.tasks.write.request import check_target, files_option, target_option, write_errors
from service.tasks.write.writing import summary_lines

_KRYO_5_SINCE = 2  # the major version of Flink
_KEYS = "its keys are objects of Kryo, or hold some: Flink 2.x finds no state of them, and a key cannot be written anew yet"
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
    changes: tuple[writers.TypeChange, ...]
    fields: tuple[tuple[str, str, str], ...]
    entries: int

    def to_dict(self) -> dict[str, Any]:
        return {
            **_named(self.operator),
            "state_name": self.state.name,
            "state_kind": self.state.kind.value,
            "entries": self.entries,
            "fields": [{"path": path, "before": old, "after": new} for path, old, new in self.fields],
        }


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

    def to_dict(self) -> dict[str, Any]:
        return {**_named(self.operator), "state_name": self.state_name, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a conversion does.

    Attributes:
        flink: the version that will restore the savepoint.
        converted: the states that are written anew.
        left: those that would have to be, and are not.
    """

    flink: doctor.FlinkVersion
    converted: tuple[ConvertedState, ...]
    left: tuple[LeftState, ...]

    @property
    def edits(self) -> tuple[writers.Edit, ...]:
        """What writes them."""
        edits: list[writers.Edit] = []
        for operator in {id(one.operator): one.operator for one in self.converted}.values():
            alterations = {
                StateName(name=one.state.name): writers.StateAlteration(types=one.changes)
                for one in self.converted
                if one.operator is operator
            }
            edits.append(writers.RewriteKeyedState(operator=operator, alterations=alterations))
        if self.flink.major >= _KRYO_5_SINCE:
            edits.append(writers.WithNewerFlink((self.flink.major, self.flink.minor)))
        return tuple(edits)


def plan_of(
    savepoint: Savepoint, job: doctor.Job, flink: doctor.FlinkVersion, on_state: Progress = lambda name: None
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
            except (writers.WriterError, ReaderError) as error:
                left.append(LeftState(operator=operator, state_name=state.name, reason=error.message))
                continue
            if found is not None:
                converted.append(found)
    return Plan(flink=flink, converted=tuple(converted), left=tuple(left))


def with_failures(plan: Plan, savepoint: Savepoint, reports: Iterable[doctor.CheckReport]) -> Plan:
    """Return a plan that also lists what fails for other reasons, which no conversion mends.

    Args:
        plan: the plan.
        savepoint: its source.
        reports: of checks of the source, with several backends. One that cannot read files of another is for jobs of that other.
    """
    found = list(reports)
    reports = [one for one in found if not is_foreign(one)] or found
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
                if state.severity is doctor.Severity.FAILS and verdict.stage is not doctor.Stage.GRAPH
            ]
            if verdict.rule is not None and verdict.outcome is doctor.Outcome.FAILS:
                failures = [("", verdict.message)]
            for name, message in failures:
                if (verdict.operator_id, name) not in known:
                    known.add((verdict.operator_id, name))
                    left.append(LeftState(operator=operator, state_name=name, reason=message))
    return replace(plan, left=tuple(left))


def _declared(job: doctor.Job, operator: Operator) -> dict[tuple[str, bool], Serializer]:
    """Return the types of values that the new job declares, by name and whether it is keyed."""
    known = job.operators.get(operator.operator_id)
    states = known.states if known is not None else ()
    return {(state.name, state.keyed): state.entry.value for state in states if state.entry.value is not None}


def _converted(
    operator: Operator, state: State, declared: Serializer | None, flink: doctor.FlinkVersion
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
        raise writers.RefusedEditError("it is operator state, whose types cannot be changed yet")
    new = entry.value
    for change in changes:
        new = change.evolved(new).serializer
    return ConvertedState(
        operator=operator,
        state=state,
        changes=changes,
        fields=tuple(_differences(entry.value, new)),
        entries=writers.try_types(operator, StateName(name=state.name), changes),
    )


def _check_addresses(state: State) -> None:
    """Refuse keys, namespaces and map keys that are objects of Kryo 2.

    Raises:
        RefusedEditError: some are.
    """
    entry = state.entry
    assert entry is not None
    if entry.key is not None and writers.holds_older_objects(entry.key):
        raise writers.RefusedEditError(_KEYS)
    for what, serializer in (("namespaces", entry.namespace), ("map keys", entry.map_key)):
        if serializer is not None and writers.holds_older_objects(serializer):
            raise writers.RefusedEditError(
                f"its {what} are objects of Kryo, or hold some, which cannot be written anew yet"
            )


def _changes(
    old: Serializer, declared: Serializer | None, *, is_upgrade: bool
) -> Iterator[writers.TypeChange]:
    """Yield the changes of a type that Flink does not make by itself."""
    new = writers.needed_type(old, declared, is_upgrade=is_upgrade)
    if new is not old:
        # The change goes inside the wrapper of a TTL.
        yield writers.RetypedField((), new.value if isinstance(new, TtlSerializer) else new)
    if declared is None or is_upgrade:
        return
    expires = isinstance(declared, TtlSerializer)
    if expires is not isinstance(old, TtlSerializer):
        yield writers.ExpiringValue(time.time_ns() // 1_000_000 if expires else None)


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


_BACKENDS = ("hashmap", "rocksdb")
# Kryo 5 stores no offset beside the region of a zone.
_OFFSET = re.compile(r"(?:Z|[+-]\d\d:\d\d(?::\d\d)?)(?=\[)")
_COMPARED = ("key", "namespace", "map_key", "list_index", "value")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertRequest(TaskRequest):
    """A savepoint to write anew, and the job that it is for."""

    database: str | None = option("name or alias of the savepoint; it is only read", default=None)
    target: str | None = target_option(flag="to")
    against: tuple[str, ...] = option(
        "the new job: a savepoint, a jar or a folder of jars. It describes the types that the states need. May be repeated.",
        default=(),
        metavar="X",
    )
    flink: str = option(
        "Flink that will restore it, such as 2.3 or 1.20", default=doctor.NEWEST_FLINK, metavar="VERSION"
    )
    dry_run: bool = option("show what would be written, and write nothing", default=False)
    files: str = files_option("files of states that stay")

    def __post_init__(self) -> None:
        TaskRequest.__post_init__(self)
        check_target(self.target, dry_run=self.dry_run)
        check_version(self.flink)


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """What a conversion did, or would do.

    Attributes:
        plan: the states that are written anew, and those that are left.
        summary: the new savepoint in numbers; None if there is nothing to convert.
        is_dry_run: True if nothing was to be written.
        target: the new savepoint; None if nothing was written.
        check: what a restore does with the new savepoint; None if nothing was written.
    """

    plan: Plan
    summary: writers.Summary | None
    is_dry_run: bool
    target: str | None = None
    check: WrittenCheck | None = None

    @property
    def exit_code(self) -> int:
        """1 if states are left that need it."""
        return int(bool(self.plan.left))

    def to_dict(self) -> dict[str, Any]:
        """Return the report.

        | member | content |
        |---|---|
        | `target` | the new savepoint; null if nothing was written |
        | `dry_run` | whether nothing was to be written |
        | `flink` | the version that restores the new savepoint |
        | `converted` | of each state: `operator_id`, `uid`, `state_name`, `state_kind`, `entries`, `fields` (path, before, after) |
        | `left` | of each state that is left: `operator_id`, `uid`, `state_name`, `reason` |
        | `summary` | the new savepoint in numbers; null if there is nothing to convert |
        | `check` | what a restore does with the new savepoint, as of a write; null if nothing was written |
        """
        return {
            "target": self.target,
            "dry_run": self.is_dry_run,
            "flink": self.plan.flink.text,
            "converted": [one.to_dict() for one in self.plan.converted],
            "left": [one.to_dict() for one in self.plan.left],
            "summary": asdict(self.summary) if self.summary is not None else None,
            "check": None if self.check is None else self.check.to_dict(),
        }

    @property
    def title(self) -> str:
        """Where the new savepoint is."""
        if self.target is not None:
            return f"written: {printable(self.target)}"
        return f"nothing was written{': a dry run' if self.is_dry_run and self.summary is not None else ''}"

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Yield what is written anew, what is left, the new savepoint in numbers, its place, and its check."""
        yield from map(printable, self._plan_lines())
        if self.summary is not None:
            yield self.title
        yield from map(printable, check_lines(self.check, self.target))

    def _plan_lines(self) -> Iterator[str]:
        for one in self.plan.converted:
            entries = f"{one.entries:,} {'entry' if one.entries == 1 else 'entries'}"
            yield f"{_title(one.operator)}, state {one.state.name}: {entries}"
            yield from (f"  {path}: {before} → {after}" for path, before, after in one.fields)
        for left in self.plan.left:
            state = f", state {left.state_name}" if left.state_name else ""
            yield f"left as it is: {_title(left.operator)}{state}: {left.reason}"
        if self.summary is None:
            yield f"nothing to convert for Flink {self.plan.flink.text}"
        else:
            yield from summary_lines(self.summary)


def run(request: ConvertRequest, context: Context) -> Converted:
    """Write the states of a savepoint anew that the new job would not restore with equal values.

    Raises:
        QueryError: something is at the target, it cannot be written, or the source cannot be written again.
        ReaderError: the savepoint cannot be read.
    """
    savepoint = context.only_database(request.database, "to convert").savepoint
    against, flink = context.against(request.against), doctor.flink_version(request.flink)
    state = ""

    def note(name: str) -> None:
        nonlocal state
        state = name

    context.progress(lambda: f"converting {printable(state)}")
    plan = plan_of(savepoint, doctor.new_job(savepoint, against, flink), flink, note)
    reports = [
        doctor.check(savepoint, against=against, flink=flink.text, backend=backend) for backend in _BACKENDS
    ]
    plan = with_failures(plan, savepoint, reports)
    if not plan.converted:
        return Converted(plan=plan, summary=None, is_dry_run=request.dry_run)
    checks: list[WrittenCheck] = []

    def verify(new: Savepoint) -> None:
        verify_converted(new, plan.converted)
        checks.append(_with_left(checked(new, against, flink.text), plan.left))

    with write_errors():
        files, threads = writers.FilesMode(request.files), machine.cores()
        writer = writers.SavepointWriter(
            savepoint.location, plan.edits, files, opened=savepoint, threads=threads
        )
        if request.dry_run or request.target is None:
            return Converted(plan=plan, summary=writer.summary, is_dry_run=True)
        summary = writer.write(request.target, verify)
    return Converted(plan=plan, summary=summary, is_dry_run=False, target=request.target, check=checks[-1])


def _with_left(check: WrittenCheck, left: Sequence[LeftState]) -> WrittenCheck:
    """Return the check of a new savepoint with the states that were left: their bytes are as old as they were, and it sees only types."""
    if not left:
        return check
    findings = [
        Finding(
            severity=doctor.Severity.FAILS,
            operator=_title(one.operator),
            state=one.state_name,
            outcome="left",
            stage=None,
            field_path=None,
            message=one.reason,
            remedy="",
            evidence=(),
            rule="",
        )
        for one in left
    ]
    places = {(one.operator, one.state) for one in findings}
    others = (one for one in check.findings if (one.operator, one.state) not in places)
    return replace(
        check,
        verdict=doctor.Severity.FAILS,
        exit_code=FAILS,
        headline=f"Flink {check.flink} cannot restore what was left as it is: {counted(len(left), 'state')}",
        advice="convert the source again, as the reasons say; or remove these states with DROP TABLE",
        findings=(*findings, *others),
    )


def _named(operator: Operator) -> dict[str, Any]:
    return {"operator_id": operator.operator_id, "uid": operator.metadata.uid}


def _title(operator: Operator) -> str:
    return operator.metadata.uid or operator.metadata.name or operator.operator_id


def verify_converted(savepoint: Savepoint, converted: tuple[ConvertedState, ...]) -> None:
    """Check the states that were written anew.

    Raises:
        UnwritableError: one is not there, has another type, or other rows.
        ReaderError: a value of it cannot be read.
    """
    operators = {operator.operator_id: operator for operator in savepoint.operators}
    for one in converted:
        operator = operators[one.operator.operator_id]
        written = [
            state for state in operator.states if (state.name, state.kind) == (one.state.name, one.state.kind)
        ]
        if len(written) != 1:
            raise writers.UnwritableError(f"expected the state {one.state.name}, read {len(written)} back")
        _compare(one.state, written[0])


def _compare(before: State, after: State) -> None:
    is_same_type = before.schema.field("value").type == after.schema.field("value").type
    columns = [
        name for name in _COMPARED if name in before.schema.names and (name != "value" or is_same_type)
    ]
    expected, found = _summary(before, columns), _summary(after, columns)
    if expected != found:
        raise writers.UnwritableError(
            f"expected {expected[0]} rows of {before.name} with the values that they had, read {found[0]} back with others; "
            "nothing was written"
        )


def _summary(state: State, columns: list[str]) -> tuple[int, int]:
    """Return the number of rows, and the sum of the hashes of some columns; all columns are read."""
    rows = total = 0
    for batch in state.read():
        rows += batch.num_rows
        values = [batch.column(name).to_pylist() for name in columns]
        total += sum(hash(_OFFSET.sub("", repr(row))) for row in zip(*values, strict=True))
    return rows, total


TASK = Task(request=ConvertRequest, run=run, makes=True)
