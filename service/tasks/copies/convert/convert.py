"""`convert`: a savepoint, and what is known of the new job → the plan of a conversion, and a new savepoint that was read back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import doctor
from doctor import NEWEST_FLINK, DoctorError, flink_version, new_job
from readers import Operator, Savepoint, State
from service.base import machine
from service.base.errors import InvalidRequestError
from service.query.encode import printable
from service.tasks.check.running import WrittenCheck, check_lines, checked
from service.tasks.copies.convert.plan import ConvertedState, LeftState, Plan, plan_of, with_failures
from service.tasks.task import Context, Task, TaskRequest, option
from service.tasks.write.request import check_target, files_option, target_option, write_errors
from service.tasks.write.writing import summary_lines
from writers import FilesMode, SavepointWriter, Summary, UnwritableError

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
        "Flink that will restore it, such as 2.3 or 1.20", default=NEWEST_FLINK, metavar="VERSION"
    )
    dry_run: bool = option("show what would be written, and write nothing", default=False)
    files: str = files_option("files of states that stay")

    def __post_init__(self) -> None:
        TaskRequest.__post_init__(self)
        check_target(self.target, dry_run=self.dry_run)
        try:
            flink_version(self.flink)
        except DoctorError as error:
            raise InvalidRequestError(f"flink: {error}") from error


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
    summary: Summary | None
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
            "converted": list(map(_converted, self.plan.converted)),
            "left": list(map(_left, self.plan.left)),
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
            yield f"{_shown(one.operator)}, state {one.state.name}: {entries}"
            yield from (f"  {path}: {before} → {after}" for path, before, after in one.fields)
        for left in self.plan.left:
            state = f", state {left.state_name}" if left.state_name else ""
            yield f"left as it is: {_shown(left.operator)}{state}: {left.reason}"
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
    against, flink = context.against(request.against), flink_version(request.flink)
    state = ""

    def note(name: str) -> None:
        nonlocal state
        state = name

    context.progress(lambda: f"converting {printable(state)}")
    plan = plan_of(savepoint, new_job(savepoint, against, flink), flink, note)
    reports = [
        doctor.check(savepoint, against=against, flink=flink.text, backend=backend) for backend in _BACKENDS
    ]
    plan = with_failures(plan, savepoint, reports)
    if not plan.converted:
        return Converted(plan=plan, summary=None, is_dry_run=request.dry_run)
    checks: list[WrittenCheck] = []

    def verify(new: Savepoint) -> None:
        verify_converted(new, plan.converted)
        checks.append(checked(new, against, flink.text))

    with write_errors():
        files, threads = FilesMode(request.files), machine.cores()
        writer = SavepointWriter(savepoint.location, plan.edits, files, opened=savepoint, threads=threads)
        if request.dry_run or request.target is None:
            return Converted(plan=plan, summary=writer.summary, is_dry_run=True)
        summary = writer.write(request.target, verify)
    return Converted(plan=plan, summary=summary, is_dry_run=False, target=request.target, check=checks[-1])


def _converted(one: ConvertedState) -> dict[str, Any]:
    return {
        **_named(one.operator),
        "state_name": one.state.name,
        "state_kind": one.state.kind.value,
        "entries": one.entries,
        "fields": [{"path": path, "before": old, "after": new} for path, old, new in one.fields],
    }


def _left(one: LeftState) -> dict[str, Any]:
    return {**_named(one.operator), "state_name": one.state_name, "reason": one.reason}


def _named(operator: Operator) -> dict[str, Any]:
    return {"operator_id": operator.operator_id, "uid": operator.metadata.uid}


def _shown(operator: Operator) -> str:
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
            raise UnwritableError(f"expected the state {one.state.name}, read {len(written)} back")
        _compare(one.state, written[0])


def _compare(before: State, after: State) -> None:
    is_same_type = before.schema.field("value").type == after.schema.field("value").type
    columns = [
        name for name in _COMPARED if name in before.schema.names and (name != "value" or is_same_type)
    ]
    expected, found = _summary(before, columns), _summary(after, columns)
    if expected != found:
        raise UnwritableError(
            f"expected {expected[0]} rows of {before.name} with the values that they had, read {found[0]} back with others; "
            "nothing was written"
        )


def _summary(state: State, columns: list[str]) -> tuple[int, int]:
    """Return the number of rows, and the sum of the hashes of some columns; all columns are read."""
    rows = total = 0
    for batch in state.read():
        rows += batch.num_rows
        values = [batch.column(name).to_pylist() for name in columns]
        total += sum(hash(_text(row)) for row in zip(*values, strict=True))
    return rows, total


def _text(row: tuple[Any, ...]) -> str:
    return _OFFSET.sub("", repr(row))


TASK = Task(request=ConvertRequest, run=run, makes=True)
