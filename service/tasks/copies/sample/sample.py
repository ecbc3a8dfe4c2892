"""`sample`: a savepoint, and which of its keys stay → a new savepoint that was read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from readers import Savepoint
from service.base import machine
from service.base.errors import InvalidRequestError
from service.query.encode import printable
from service.query.engines.registry import AUTO, work_choices
from service.tasks.check.running import WrittenCheck, check_lines, checked
from service.tasks.copies.sample.choices import (
    Asked,
    SampledState,
    choices_of,
    dropped_of,
    edits_of,
    keyed_operators,
    states_in,
)
from service.tasks.task import Context, Task, TaskRequest, option
from service.tasks.write.masks import CopyMasks
from service.tasks.write.request import check_target, files_option, target_option, write_errors
from service.tasks.write.writing import summary_lines, written_by
from writers import FilesMode, SavepointWriter, Summary

_LONGEST_PATH = 4_096
_KEEP, _LATEST = "keep", "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest(TaskRequest):
    """A savepoint, and which of its keys a new one has."""

    database: str | None = option("name or alias of the savepoint; it is only read", default=None)
    target: str | None = target_option(flag="to")
    fraction: float | None = option(
        "share of the keys that stay, above 0 and up to 1, such as 0.01", default=None, metavar="SHARE"
    )
    seed: str = option("another seed chooses other keys of a fraction", default="0", metavar="TEXT")
    keys: str | None = option(
        "CSV file of the keys that stay, in its first column",
        default=None,
        metavar="FILE",
        longest=_LONGEST_PATH,
    )
    where: str | None = option(
        "keys of a table's rows that stay, such as \"aggregate__account: value.country = 'DE'\"",
        default=None,
        metavar="TABLE: CONDITION",
        longest=100_000,
    )
    mask: str | None = option(
        "file of masks: values and keys that the new savepoint has others for",
        default=None,
        metavar="FILE",
        longest=_LONGEST_PATH,
    )
    parallelism: int | None = option(
        "most subtasks that an operator has in the new savepoint; default: those of the source",
        default=None,
        at_least=1,
        metavar="N",
    )
    offsets: str = option(
        "sources go on where they were, or go: then the job's own settings say where they start",
        default=_KEEP,
        choices=(_KEEP, _LATEST),
    )
    drop: tuple[str, ...] = option(
        "operator, or table of a state, that goes; may be repeated", default=(), metavar="NAME"
    )
    dry_run: bool = option("show what would be written, and write nothing", default=False)
    files: str = files_option("files of operators without keyed state")
    engine: str = option(
        "engine that makes the new state: this process or a cluster. A cluster must see the source and the new savepoint.",
        default=AUTO,
        choices=work_choices(),
    )

    def __post_init__(self) -> None:
        TaskRequest.__post_init__(self)
        check_target(self.target, dry_run=self.dry_run)
        given = [name for name in ("fraction", "keys", "where") if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise InvalidRequestError(f"expected one of fraction, keys and where, found {found}")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise InvalidRequestError(
                f"fraction: expected a number above 0 and up to 1, found {self.fraction}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What a sample has, or would have.

    Attributes:
        states: the keyed states and timers, with their entries.
        dropped: the names of what goes.
        target: the new savepoint; None if nothing was written.
        summary: the new savepoint in numbers; None if nothing was written.
        engine: what made its state; empty for this process.
        check: what a restore does with the new savepoint; None if nothing was written.
    """

    states: tuple[SampledState, ...]
    dropped: tuple[str, ...]
    target: str | None = None
    summary: Summary | None = None
    engine: str = ""
    check: WrittenCheck | None = None

    @property
    def entries(self) -> int:
        """How many entries all states have."""
        return sum(one.entries for one in self.states)

    @property
    def exit_code(self) -> int:
        """0: a sample of nothing is an error."""
        return 0

    def to_dict(self) -> dict[str, Any]:
        """Return the report.

        | member | content |
        |---|---|
        | `target` | the new savepoint; null if nothing was written |
        | `dry_run` | whether nothing was to be written |
        | `states` | of each keyed state, and of timers: `operator`, `state`, `kind`, `entries` |
        | `entries` | how many entries they have together |
        | `dropped` | the names of what goes |
        | `summary` | the new savepoint in numbers; null if nothing was written |
        | `engine` | what made its state; empty for the process that wrote |
        | `check` | what a restore does with the new savepoint, as of a write; null if nothing was written |
        """
        return {
            "target": self.target,
            "dry_run": self.target is None,
            "states": [asdict(one) for one in self.states],
            "entries": self.entries,
            "dropped": list(self.dropped),
            "summary": asdict(self.summary) if self.summary is not None else None,
            "engine": self.engine,
            "check": None if self.check is None else self.check.to_dict(),
        }

    @property
    def title(self) -> str:
        """Where the new savepoint is."""
        return (
            "nothing was written: a dry run" if self.target is None else f"written: {printable(self.target)}"
        )

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Yield what the sample has, its numbers, its place, and its check."""
        for one in self.states:
            noun = "entry" if one.entries == 1 else "entries"
            yield printable(f"{one.operator}, state {one.state}: {one.entries:,} {noun}")
        yield from (printable(f"dropped: {name}") for name in self.dropped)
        if self.summary is not None:
            yield from map(printable, summary_lines(self.summary))
        yield self.title
        yield from map(printable, check_lines(self.check, self.target))


def run(request: SampleRequest, context: Context) -> Sampled:
    """Write a savepoint with some keys of another one.

    Raises:
        QueryError: nothing is left, something is at the target, or it cannot be written.
        ReaderError: the savepoint cannot be read.
    """
    context.worker(request.engine, 0)
    database = context.only_database(request.database, "to take a sample of")
    savepoint = database.savepoint
    context.progress(lambda: f"taking a sample of {printable(database.path)}")
    with write_errors():
        dropped = dropped_of(database, request.drop, request.offsets)
        operators = keyed_operators(savepoint, dropped)
        asked = Asked(fraction=request.fraction, seed=request.seed, keys=request.keys, where=request.where)
        choices = choices_of(asked, database, operators, context)
        masks = None if request.mask is None else CopyMasks(request.mask, database)
        edits = edits_of(savepoint, choices, dropped, request.parallelism, masks)
        if request.dry_run or request.target is None:
            states = _in_order(states_in(operators, choices, dropped.keyed))
            _check_some(states)
            return Sampled(states=states, dropped=tuple(dropped.names))
        writer = SavepointWriter(
            savepoint.location,
            edits,
            FilesMode(request.files),
            opened=savepoint,
            threads=machine.cores(),
        )
        found: list[SampledState] = []
        checks: list[WrittenCheck] = []

        def verify(new: Savepoint) -> None:
            found[:] = _in_order(states_in(keyed_operators(new, dropped)))
            _check_some(found)
            checks[:] = [checked(new, (), None)]

        worker = context.worker(request.engine, writer.made_bytes)
        engine = written_by(worker, writer, request.target, verify, database.reference, request.engine)
    return Sampled(
        states=tuple(found),
        dropped=tuple(dropped.names),
        target=request.target,
        summary=writer.summary,
        engine=engine,
        check=checks[-1],
    )


def _in_order(states: Iterable[SampledState]) -> tuple[SampledState, ...]:
    """Return states by their names: the order of operators in `_metadata` tells people nothing."""
    return tuple(sorted(states, key=lambda one: (one.operator, one.state, one.kind)))


def _check_some(states: tuple[SampledState, ...] | list[SampledState]) -> None:
    """Refuse a sample of nothing.

    Raises:
        InvalidRequestError: no state has an entry.
    """
    if not any(one.entries for one in states):
        raise InvalidRequestError(
            "expected a sample with at least one key, found that no key stays; nothing was written"
            if states
            else "expected operators with keyed state, found none: there is nothing to take a sample of"
        )


TASK = Task(request=SampleRequest, run=run, makes=True)
