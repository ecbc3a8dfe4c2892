"""`sample`: a savepoint, and which of its keys stay → a new savepoint that was read back.

A key is in or out everywhere: it is decided on by its text, so that operators with equal keys keep the same ones. With a group of columns
the text of the field that belongs to it decides instead, where a key has one. Operator state is kept, or goes with `--drop`.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa
from sqlglot.tokenizer_core import TokenType

import writers
from catalog import Database, NotAKeyError, parse_key
from catalog.masks.patterns import Path
from catalog.statetables import StatesTable
from catalog.views import WideTable
from readers import Operator, Savepoint, Selection, StateKind, StateName, is_keyed, source_offsets
from service.base import machine
from service.base.errors import InvalidRequestError
from service.query.encode import printable
from service.query.engines.registry import AUTO, work_choices
from service.query.sql.text import quoted, tokens_of
from service.tasks.check.running import WrittenCheck, check_lines, checked
from service.tasks.copies.columngroups import key_columns, masks_with
from service.tasks.copies.pruning import leaf_type
from service.tasks.task import Context, Task, TaskRequest, file_option, option
from service.tasks.write.masks import CopyMasks
from service.tasks.write.request import check_target, files_option, target_option, write_errors
from service.tasks.write.writing import summary_lines, written_by

_HEADER = "key"
_OPERATOR_STATES = frozenset({StateKind.OPERATOR_LIST, StateKind.UNION_LIST, StateKind.BROADCAST})


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledState:
    """A keyed state, or timers, in a sample.

    Attributes:
        operator: the uid, name or id of its operator.
        state: its name.
        kind: of the state.
        entries: how many it has, as its files store them.
    """

    operator: str
    state: str
    kind: str
    entries: int


@dataclass(slots=True, kw_only=True)
class Dropped:
    """What goes by its name.

    Attributes:
        operators: the ids of operators that go.
        keyed: operator id → states that go.
        others: operator id → states of the operator itself that go.
        names: what went, for people.
    """

    operators: set[str] = field(default_factory=set)
    keyed: dict[str, set[StateName]] = field(default_factory=dict)
    others: dict[str, set[str]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)


def dropped_of(database: Database, names: Iterable[str], offsets: str) -> Dropped:
    """Return what goes.

    Args:
        database: the source.
        names: of operators, and of tables of states.
        offsets: `latest` if sources go, too.

    Raises:
        InvalidRequestError: there is nothing of a name, or no source.
        ReaderError: the savepoint cannot be read.
    """
    found, savepoint = Dropped(), database.savepoint
    tables = {table.name.casefold(): (owner, table) for owner, table in database.state_tables()}
    for name in names:
        operators = [one for one in savepoint.operators if one.answers_to(name)]
        if operators:
            found.operators |= {one.operator_id for one in operators}
        elif name.casefold() in tables:
            _drop_state(found, *tables[name.casefold()])
        else:
            raise InvalidRequestError(
                f"drop: expected an operator, or the table of a state, found none of the name {name!r}"
            )
        found.names.append(name)
    if offsets == _LATEST:
        sources = source_offsets(savepoint).select(["operator_id", "operator_uid"]).to_pylist()
        if not sources:
            raise InvalidRequestError("offsets: expected a source with offsets, found none")
        for one in sources:
            if one["operator_id"] not in found.operators:
                found.operators.add(one["operator_id"])
                found.names.append(one["operator_uid"] or one["operator_id"])
    return found


def _drop_state(found: Dropped, owner: str, table: Any) -> None:
    state = table.states[0].state
    if is_keyed(state.kind) and state.kind is not StateKind.RAW_KEYED:
        found.keyed.setdefault(owner, set()).add(StateName(name=state.name))
    elif state.kind in _OPERATOR_STATES:
        found.others.setdefault(owner, set()).add(state.name)
    else:
        raise InvalidRequestError(f"drop: {table.name} goes with its operator only", hint="drop the operator")


def choices_of(
    request: SampleRequest,
    database: Database,
    operators: Sequence[Operator],
    parts: Mapping[str, Path],
    context: Context,
) -> dict[str, writers.KeyChoice]:
    """Return which keys of each operator stay, by its id.

    Args:
        request: what is asked.
        database: the source.
        operators: of it, that have keys.
        parts: the fields of keys that decide, by the id of the operator; where there is none, the whole key does.
        context: runs queries.

    Raises:
        InvalidRequestError: the file cannot be read, or a key in it is none of any operator.
        QueryError: the condition means nothing, or fails.
        ReaderError: the savepoint cannot be read.
    """
    if request.keys is not None:
        return _listed(list(keys_in(request.keys)), operators, parts)
    choice: writers.KeyChoice
    if request.fraction is not None:
        choice = writers.FractionOfKeys(fraction=request.fraction, seed=request.seed)
    else:
        assert request.where is not None
        choice = writers.ListedKeys(texts=_keys_where(request.where, database, parts, context))
    return {one.operator_id: replace(choice, part=parts.get(one.operator_id, ())) for one in operators}


def _keys_where(where: str, database: Database, parts: Mapping[str, Path], context: Context) -> pa.Array:
    """Return the texts that decide, of the keys of the rows of a table."""
    table, separator, condition = where.partition(":")
    if not separator or not table.strip() or not condition.strip():
        raise InvalidRequestError(
            f"where: expected a table, a colon and a condition, such as aggregate__account: value.country = 'DE', found {where!r:.100}"
        )
    _check_closed(condition)
    # On a line of its own, so that a comment at its end stays one.
    sql = f"SELECT DISTINCT key FROM {quoted(database.name)}.{quoted(table.strip())} WHERE ({condition}\n)"
    found = context.query(sql, max_rows=None)
    return writers.texts_of(
        found.column(0).combine_chunks(), _part_in(table.strip(), database, parts)
    ).drop_null()


def _part_in(table: str, database: Database, parts: Mapping[str, Path]) -> Path:
    """Return the field that decides in the keys of a table.

    Raises:
        InvalidRequestError: the table shows keys of several operators, among which other fields decide.
    """
    known = database.table(table)
    owners = (
        {one.state.operator_id for one in known.states} if isinstance(known, StatesTable | WideTable) else ()
    )
    found = {parts.get(owner, ()) for owner in owners}
    if len(found) > 1:
        raise InvalidRequestError(f"where: expected a table of one operator beside group, found {table}")
    return found.pop() if found else ()


def _check_closed(condition: str) -> None:
    """Refuse a condition whose brackets close what it has not opened: it would mean something else in its place.

    Raises:
        QuerySyntaxError: it is no SQL.
        InvalidRequestError: it has such a bracket.
    """
    depth = 0
    for token in tokens_of(condition):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if depth < 0 or token.token_type is TokenType.SEMICOLON:
            raise InvalidRequestError(f"where: expected one condition, found {condition.strip()!r:.100}")


def keys_in(path: str) -> Iterator[str]:
    """Yield the first cell of each line of a CSV file; a first line `key` is a header."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            for number, row in enumerate(csv.reader(file)):
                if row and not (number == 0 and row[0].strip().casefold() == _HEADER):
                    yield row[0]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidRequestError(f"keys: expected a CSV file of keys, found {path}: {error}") from error


def _listed(
    texts: list[str], operators: Sequence[Operator], parts: Mapping[str, Path]
) -> dict[str, writers.KeyChoice]:
    if not texts:
        raise InvalidRequestError("keys: expected a file with at least one key, found none")
    left = set(texts)
    found: dict[str, writers.KeyChoice] = {}
    for operator in operators:
        part = parts.get(operator.operator_id, ())
        types = {
            (leaf_type(entry.key.arrow(), part), not part and "key" in entry.unquoted)
            for source in operator.sources
            for entry in source.entries.values()
            if entry.key is not None and not entry.is_raw("key")
        }
        known: list[pa.Array] = []
        for key_type, is_unquoted in types:
            for text in texts:
                try:
                    key = parse_key(text, key_type, is_unquoted=is_unquoted, is_own_text=True)
                except NotAKeyError:
                    continue
                left.discard(text)
                known.append(writers.texts_of(key.array))
        found[operator.operator_id] = writers.ListedKeys(
            texts=pa.concat_arrays([pa.array([], pa.string()), *known]), part=part
        )
    if left:
        raise InvalidRequestError(
            f"keys: expected keys of the types that the operators have, found {min(left)!r:.100}, which fits none"
        )
    return found


def keyed_operators(savepoint: Savepoint, dropped: Dropped) -> list[Operator]:
    """Return the operators that stay and have keyed state or timers, also where these cannot be read."""
    return [
        one
        for one in savepoint.operators
        if one.operator_id not in dropped.operators
        and (
            any(_has_keys(entry.kind) for source in one.sources for entry in source.entries.values())
            or any(_has_keys(handle.family) for handle in one.unread)
        )
    ]


def _has_keys(kind: StateKind) -> bool:
    return is_keyed(kind) or kind is StateKind.RAW_KEYED


def edits_of(
    savepoint: Savepoint,
    choices: Mapping[str, writers.KeyChoice],
    dropped: Dropped,
    parallelism: int | None,
    masks: CopyMasks | None,
) -> list[writers.Edit]:
    """Return the edits of a sample: what is in state files first.

    Raises:
        MaskError: a rule cannot be applied.
        WriterError: a state cannot be masked.
        ReaderError: a state cannot be read.
    """
    edits: list[writers.Edit] = []
    for operator in savepoint.operators:
        owner, metadata = operator.operator_id, operator.metadata
        if owner in dropped.operators:
            edits.append(writers.DropOperator(owner))
            continue
        masked = [] if masks is None else list(masks.edits(operator, dropped.keyed.get(owner, ())))
        # Operator state is changed where it is in the source, before it is gathered.
        edits += [edit for edit in masked if not isinstance(edit, writers.RewriteKeyedState)]
        if owner in dropped.others:
            edits.append(
                writers.AlterOperatorStates(operator_id=owner, dropped=frozenset(dropped.others[owner]))
            )
        falls = parallelism is not None and parallelism < metadata.parallelism and not metadata.fully_finished
        if falls:
            assert parallelism is not None
            edits.append(writers.GatherOperatorState(operator_id=owner, parallelism=parallelism))
        keep, keyed = choices.get(owner), dropped.keyed.get(owner, ())
        if keep is not None or falls or keyed:
            edits.append(
                writers.RewriteKeyedState(
                    operator=operator,
                    keep=keep,
                    alterations={name: writers.StateAlteration(dropped=True) for name in keyed},
                    parallelism=parallelism if falls else None,
                )
            )
        edits += [edit for edit in masked if isinstance(edit, writers.RewriteKeyedState)]
    # What goes is found by its id in the source.
    return sorted(writers.merged_edits(edits), key=lambda edit: isinstance(edit, writers.DropOperator))


def states_in(
    operators: Iterable[Operator],
    choices: Mapping[str, writers.KeyChoice] | None = None,
    without: Mapping[str, Collection[StateName]] | None = None,
) -> Iterator[SampledState]:
    """Yield the keyed states and timers of operators with the number of their entries.

    Args:
        operators: the operators.
        choices: which keys count, by the id of the operator; None for all.
        without: states that do not count, by the id of the operator.

    Raises:
        WriterError: the keys of a state are not known.
        ReaderError: a file cannot be read.
    """
    for operator in operators:
        left_out = (without or {}).get(operator.operator_id, ())
        for state in operator.states:
            if not is_keyed(state.kind) or StateName(name=state.name) in left_out:
                continue
            entries = 0
            for part in state.parts:
                if choices is None:
                    entries += sum(count for _, count in part.source.counts(part.name, Selection()))
                    continue
                kept = writers.KeyFilter(part.source, part.name, choices[operator.operator_id])
                for page in kept.kept(part.source.pages(part.name, Selection())):
                    # Of a long list that comes in parts, the first one counts.
                    entries += 0 if page.first_index else len(page)
            shown = operator.metadata.uid or operator.metadata.name or operator.operator_id
            yield SampledState(operator=shown, state=state.name, kind=state.kind.value, entries=entries)


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
    keys: str | None = file_option(
        "CSV file of the keys that stay, in its first column; only a first line 'key' is a header"
    )
    where: str | None = option(
        "keys of a table's rows that stay, such as \"aggregate__account: value.country = 'DE'\"",
        default=None,
        metavar="TABLE: CONDITION",
        longest=100_000,
    )
    mask: str | None = file_option("file of masks: values and keys that the new savepoint has others for")
    group: str | None = option(
        "group of columns in the file of masks: a field of a key that belongs to it decides in place of the whole key",
        default=None,
        metavar="NAME",
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
        if self.group is not None and self.mask is None:
            raise InvalidRequestError("group: expected mask, the file that has its columns, found none")
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
        parts: the fields of keys that decided, by the names of their operators.
        target: the new savepoint; None if nothing was written.
        summary: the new savepoint in numbers; None if nothing was written.
        engine: what made its state; empty for this process.
        check: what a restore does with the new savepoint; None if nothing was written.
    """

    states: tuple[SampledState, ...]
    dropped: tuple[str, ...]
    parts: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    summary: writers.Summary | None = None
    engine: str = ""
    check: WrittenCheck | None = None

    @property
    def entries(self) -> int:
        """How many entries all states have."""
        return sum(one.entries for one in self.states)

    exit_code = 0  # a sample of nothing is an error

    def to_dict(self) -> dict[str, Any]:
        """Return the report.

        | member | content |
        |---|---|
        | `target` | the new savepoint; null if nothing was written |
        | `dry_run` | whether nothing was to be written |
        | `states` | of each keyed state, and of timers: `operator`, `state`, `kind`, `entries` |
        | `entries` | how many entries they have together |
        | `dropped` | the names of what goes |
        | `parts` | the fields of keys that decided, by the names of their operators |
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
            "parts": dict(self.parts),
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
        yield from (printable(f"keys of {name} go by {part}") for name, part in self.parts.items())
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
        parts: Mapping[str, Path] = {}
        if request.group is not None and request.mask is not None:
            parts = key_columns(
                masks_with(request.mask, [request.group], database), request.group, database, operators
            )
        shown = {database.operator_names[one]: ".".join(("key", *part)) for one, part in parts.items()}
        choices = choices_of(request, database, operators, parts, context)
        masks = None if request.mask is None else CopyMasks(request.mask, database)
        edits = edits_of(savepoint, choices, dropped, request.parallelism, masks)
        if request.dry_run or request.target is None:
            states = _in_order(states_in(operators, choices, dropped.keyed))
            _check_some(states)
            return Sampled(states=states, dropped=tuple(dropped.names), parts=shown)
        writer = writers.SavepointWriter(
            savepoint.location,
            edits,
            writers.FilesMode(request.files),
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
        parts=shown,
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
