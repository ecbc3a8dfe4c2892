"""What only the values tell: `revised` reads them, and changes the verdicts that the headers alone had to guess.

| values | verdict |
|---|---|
| bytes that contradict their serializer | hashmap and operator state fail at restore; rocksdb when the value is read |
| objects of Kryo 2 in a savepoint of Flink 2.x, which a conversion left | as bytes that contradict their serializer |
| objects of Kryo 2 for Flink 2.x | each is read by Kryo 2 and by Kryo 5: the same, fewer elements, another object, or an error |

Kryo ends where reading ends, and Flink ignores bytes that are left: only a reader that counts them sees that an object was not read
as it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

import readers
from doctor.report import (
    CheckReport,
    OperatorVerdict,
    Outcome,
    Risk,
    Severity,
    Stage,
    StateOutcome,
    StateVerdict,
    worst,
)
from doctor.rules import untold as rules
from doctor.rules.pojo import SUBCLASSES_UNSEEN
from doctor.rules.rule import Finding, Rule

_SAMPLE = 10_000
_UPGRADE, _OF_TYPES = "kryo-upgrade-", frozenset(("kryo-upgrade-collection-field", "kryo-upgrade-key"))
_UNREAD_KINDS = frozenset(
    {
        readers.StateKind.TIMER, readers.StateKind.RAW_KEYED, readers.StateKind.RAW_OPERATOR, readers.StateKind.COORDINATOR,
        readers.StateKind.CHANNEL, readers.StateKind.MASTER,
    }
)  # fmt: skip
_SHOWN = 80


def _nobody(state_name: str, entries: int) -> None:
    """Hear nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesCheck:
    """How many values are read.

    Attributes:
        most_entries: of each state and file; None for all.
        progress: hears the name of a state, and how many of its entries were read.
        seen: what was read of the states of open savepoints: a check of another backend does not read them again.
    """

    most_entries: int | None = _SAMPLE
    progress: Callable[[str, int], None] = _nobody
    seen: dict[tuple[int, bool], tuple[readers.State, _Seen]] = field(
        default_factory=dict, repr=False, compare=False
    )


class _Read(Enum):
    """An object of Kryo 2 as Kryo 5 reads it."""

    SAME = rules.SAME
    LOST = rules.LOST
    GARBAGE = rules.GARBAGE
    UNREADABLE = rules.UNREADABLE
    UNKNOWN = rules.UNREAD


_WORST_FIRST = (_Read.UNREADABLE, _Read.GARBAGE, _Read.LOST, _Read.UNKNOWN)


@dataclass(slots=True)
class _Seen:
    """What was read of one state.

    Attributes:
        entries: how many entries.
        is_complete: whether these are all.
        objects: how many objects of Kryo were read so.
        samples: the key, the field and the text of the first such object.
        damage: the error of the first value that contradicts its serializer.
        unread: the reason why values were not read.
    """

    entries: int = 0
    is_complete: bool = True
    objects: dict[_Read, int] = field(default_factory=dict)
    samples: dict[_Read, tuple[str, str, str]] = field(default_factory=dict)
    damage: str = ""
    unread: str = ""


def revised(
    report: CheckReport, savepoint: readers.Savepoint, values: ValuesCheck, *, is_upgrade: bool
) -> CheckReport:
    """Return a report with the verdicts that the values decide.

    Args:
        report: of the headers.
        savepoint: the savepoint.
        values: how many of them are read.
        is_upgrade: Kryo 2 wrote the savepoint, and Kryo 5 reads it.
    """
    opened = {operator.operator_id: operator for operator in savepoint.operators}
    operators = []
    for verdict in report.operators:
        operator = opened.get(verdict.operator_id)
        # The job graph decides before any state is read.
        if operator is None or verdict.stage is Stage.GRAPH:
            operators.append(verdict)
            continue
        states = {(state.name, state.kind.value): state for state in operator.states}
        new = tuple(
            _revised_state(one, states.get((one.state_name, one.kind)), values, report.backend, is_upgrade)
            for one in verdict.states
        )
        operators.append(_revised_operator(verdict, new))
    # What the metadata decides stands.
    if report.rule is not None:
        return replace(report, operators=tuple(operators))
    outcome, stage = worst((one.outcome, one.stage) for one in operators)
    return replace(
        report,
        outcome=outcome,
        stage=stage,
        loses_data=outcome is Outcome.RESTORES and any(one.loses_data for one in operators),
        operators=tuple(operators),
    )


def _revised_operator(verdict: OperatorVerdict, states: tuple[StateVerdict, ...]) -> OperatorVerdict:
    outcome, stage = worst(state.restore for state in states)
    if verdict.rule is not None:
        outcome, stage = worst([(outcome, stage), (verdict.outcome, verdict.stage)])
    # The keys may lose data, whatever the values do.
    is_of_keys = verdict.loses_data and not any(state.changes_values for state in verdict.states)
    loses = is_of_keys or any(state.changes_values for state in states)
    return replace(verdict, outcome=outcome, stage=stage, loses_data=loses, states=states)


def _revised_state(
    verdict: StateVerdict, state: readers.State | None, values: ValuesCheck, backend: str, is_upgrade: bool
) -> StateVerdict:
    if state is None or state.entry is None or state.entry.value is None or state.kind in _UNREAD_KINDS:
        return verdict
    on_heap = backend == "hashmap" or not readers.is_keyed(state.kind)
    is_read = on_heap or verdict.outcome is not StateOutcome.NOT_DECLARED
    met = [verdict.rule, *(risk.rule for risk in verdict.risks)]
    is_of_kryo = is_upgrade and verdict.rule not in _OF_TYPES and any(map(_is_guess, met))
    if not is_read or verdict.outcome in (StateOutcome.NEW, StateOutcome.DROPPED):
        return verdict
    # The state is kept, so that no other has its id.
    known = values.seen.get((id(state), is_of_kryo)) or (
        state,
        _scanned(state, values, with_objects=is_of_kryo),
    )
    values.seen[id(state), is_of_kryo] = known
    seen = known[1]
    if seen.damage and (verdict.severity is not Severity.FAILS or verdict.stage is Stage.ACCESS or on_heap):
        return _decided(verdict, rules.DAMAGED, on_heap=on_heap, detail=seen.damage)
    found = next((one for one in _WORST_FIRST if seen.objects.get(one)), None)
    if seen.unread or (is_of_kryo and found is _Read.UNKNOWN):
        reason = seen.unread or seen.samples[_Read.UNKNOWN][2]
        unread = Risk(message=f"{rules.UNREAD.effect}: {reason}", **rules.UNREAD.cited)
        return replace(verdict, risks=(*verdict.risks, unread))
    if not is_of_kryo:
        is_known = seen.is_complete and not seen.damage
        kept = (risk for risk in verdict.risks if not (is_known and risk.rule == SUBCLASSES_UNSEEN.id))
        return replace(verdict, risks=tuple(kept))
    if found is not None:
        key, path, text = seen.samples[found]
        count, total = seen.objects[found], sum(seen.objects.values())
        detail = (
            f"{count:,} of {total:,} objects, the first at key {key}{f', {path}' if path else ''}: {text}"
        )
        decided = _decided(verdict, found.value, on_heap=on_heap, detail=detail)
        return replace(decided, field_path=path or decided.field_path)
    if not seen.is_complete:
        message = f"the first {seen.entries:,} entries are the same to Kryo 5"
        return replace(verdict, message=f"{message}; {verdict.message}".removesuffix("; "))
    detail = f"{sum(seen.objects.values()):,} objects in {seen.entries:,} entries"
    return _decided(verdict, rules.SAME, on_heap=on_heap, detail=detail)


def _decided(verdict: StateVerdict, rule: Rule, *, on_heap: bool, detail: str) -> StateVerdict:
    effect = rule.effect_in(heap=on_heap)
    if verdict.stage is not None and effect.stage is not None and verdict.stage.order < effect.stage.order:
        effect = replace(effect, stage=verdict.stage, outcome=verdict.outcome)
    return replace(
        verdict,
        outcome=effect.outcome or StateOutcome.AS_IS,
        stage=effect.stage,
        changes_values=effect.severity is Severity.LOSES,
        message=Finding(rule=rule, detail=detail).message,
        severity=effect.severity,
        risks=tuple(risk for risk in verdict.risks if not _is_guess(risk.rule)),
        **rule.cited,
    )


def _is_guess(rule: str | None) -> bool:
    """Return whether a rule says by the class of objects what Kryo 5 makes of them."""
    return rule is not None and rule.startswith(_UPGRADE) and rule not in _OF_TYPES


def _scanned(state: readers.State, values: ValuesCheck, *, with_objects: bool) -> _Seen:
    """Read the values of a state."""
    seen = _Seen()
    assert state.entry is not None
    problems = [problem for problem in state.entry.problems() if problem.path[0] == "value"]
    if problems:
        seen.unread = problems[0].reason
        return seen
    for part in state.parts:
        serializer = part.entry.value
        assert serializer is not None
        read = 0
        names = [column.name for column in part.programs()[0].root]
        try:
            for batch in part.entries(readers.Selection()):
                if batch.page.undivided:
                    seen.unread = (
                        "the entries of the heap snapshot are not divided; take a canonical savepoint"
                    )
                    break
                columns = dict(zip(names, batch.arrays, strict=True))
                unknown = columns.get(readers.UNDECODED)
                if unknown is not None and unknown.null_count < len(unknown):
                    error = part.undescribed()
                    seen.unread = error.message if error is not None else "a class that nothing describes"
                read_object = _read_both if with_objects else _read_own
                is_list = part.entry.kind is readers.StateKind.LIST
                _compare(seen, columns, columns["value"], serializer, read_object, is_list)
                if part.entry.map_key is not None:
                    _compare(seen, columns, columns["map_key"], part.entry.map_key, read_object)
                read += len(batch.page)
                values.progress(state.name, seen.entries + read)
                if values.most_entries is not None and read >= values.most_entries:
                    seen.is_complete = False
                    break
        except readers.CorruptDataError as error:
            seen.damage = seen.damage or f"{error.message} (after {read:,} entries)"
        except readers.ReaderError as error:
            seen.unread = seen.unread or error.message
        seen.entries += read
    if not with_objects and _Read.UNREADABLE in seen.objects and not seen.damage:
        key, path, text = seen.samples[_Read.UNREADABLE]
        count = seen.objects[_Read.UNREADABLE]
        seen.damage = f"objects that Kryo 2 of Flink 1.x wrote, {count:,}, the first at key {key}{f', {path}' if path else ''}: {text}"
    return seen


def _compare(
    seen: _Seen,
    columns: dict[str, pa.Array],
    array: pa.Array,
    serializer: readers.Serializer,
    read_object: Callable[[bytes, readers.KryoSettings], tuple[_Read, str]],
    is_list: bool = False,
) -> None:
    rows = np.arange(len(array))
    if is_list:
        rows = np.repeat(rows, np.diff(np.asarray(array.offsets)))
        array = array.flatten()
    keys = columns.get("key")
    for path, settings, objects, places in _objects(serializer, array, rows, ()):
        coded = objects.dictionary_encode()
        indices = coded.indices.to_numpy(zero_copy_only=False)
        for number, data in enumerate(coded.dictionary.to_pylist()):
            found, text = read_object(data, settings)
            chosen = np.flatnonzero(indices == number)
            seen.objects[found] = seen.objects.get(found, 0) + len(chosen)
            if found not in seen.samples:
                key = repr(keys[int(places[chosen[0]])].as_py()) if keys is not None else "-"
                seen.samples[found] = (key, ".".join(path), text)


def _objects(
    serializer: readers.Serializer, array: pa.Array, rows: np.ndarray[Any, Any], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], readers.KryoSettings, pa.Array, np.ndarray[Any, Any]]]:
    """Yield path, settings, bytes and rows of all objects of Kryo in a column."""
    if isinstance(serializer, readers.KryoSerializer):
        if pa.types.is_binary(array.type):
            kept = np.flatnonzero(np.asarray(array.is_valid()))
            yield path, serializer.settings, array.take(pa.array(kept)), rows[kept]
    elif isinstance(serializer, readers.NullableSerializer):
        yield from _objects(serializer.inner, array, rows, path)
    elif isinstance(serializer, readers.TtlSerializer):
        yield from _objects(serializer.value, array.flatten()[0], rows, path)
    elif isinstance(serializer, readers.PojoSerializer | readers.TupleSerializer | readers.RowSerializer):
        names = [one.name for one in array.type]
        for name, child in serializer.children:
            if name in names:
                yield from _objects(child, array.flatten()[names.index(name)], rows, (*path, name))
    elif isinstance(serializer, readers.ListSerializer) and pa.types.is_list(array.type):
        inner = np.repeat(rows, np.diff(np.asarray(array.offsets)))
        yield from _objects(serializer.element, array.flatten(), inner, (*path, "[]"))
    elif isinstance(serializer, readers.MapSerializer) and pa.types.is_map(array.type):
        offsets = np.asarray(array.offsets)
        start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
        inner = np.repeat(rows, np.diff(offsets))
        yield from _objects(serializer.key, array.keys.slice(start, length), inner, (*path, "key"))
        yield from _objects(serializer.value, array.items.slice(start, length), inner, (*path, "value"))


def _read_both(data: bytes, settings: readers.KryoSettings) -> tuple[_Read, str]:
    """Return what an object of Kryo 2 is to Kryo 5, and both as text."""
    try:
        old, _ = _object(data, settings, readers.KRYO_2_24)
    except readers.ReaderError as error:
        return _Read.UNKNOWN, error.message
    try:
        new, left = _object(data, settings, readers.KRYO_5)
    except readers.ReaderError as error:
        return _Read.UNREADABLE, f"{_shown(old)}; {error.message}"
    if new == old and not left:
        return _Read.SAME, ""
    text = f"{_shown(old)} becomes {_shown(new)}"
    return (_Read.LOST if _is_part(new, old) else _Read.GARBAGE), text


def _read_own(data: bytes, settings: readers.KryoSettings) -> tuple[_Read, str]:
    """Return whether Kryo 5 reads an object of a savepoint of Flink 2.x; Kryo 2 wrote it if that alone reads it to its last byte."""
    if settings.version < readers.KRYO_5 or _is_whole(data, settings, readers.KRYO_5):
        return _Read.SAME, ""
    if not _is_whole(data, settings, readers.KRYO_2_24):
        return _Read.UNKNOWN, ""
    return _Read.UNREADABLE, _shown(_object(data, settings, readers.KRYO_2_24)[0])


def _is_whole(data: bytes, settings: readers.KryoSettings, version: int) -> bool:
    """Return whether a version reads an object to its last byte."""
    try:
        return _object(data, settings, version)[1] == 0
    except readers.ReaderError:
        return False


def _object(data: bytes, settings: readers.KryoSettings, version: int) -> tuple[Any, int]:
    """Return an object as a version reads it, and how many bytes are left."""
    input_ = _FlinksInput(memoryview(data), version, position=0, end=len(data))
    try:
        value = readers.kryo_value_reader(replace(settings, version=version), input_).any()
    except _NullFoundError:
        return None, input_.remaining
    return value, input_.remaining


class _NullFoundError(Exception):
    """A collection without a count: Kryo 5 takes it for null, and raises no error."""


class _FlinksInput(readers.KryoInput):
    """Finds collections that Kryo 5 takes for null; what stands behind them is not read then."""

    __slots__ = ()

    def size(self, offset: int = 0) -> int:
        if offset:
            self._check_count()
        return super().size(offset)

    def flagged_size(self) -> tuple[bool, int]:
        self._check_count()
        return super().flagged_size()

    def _check_count(self) -> None:
        if self.version >= readers.KRYO_5 and self.remaining and self.data[self.position] == 0:
            raise _NullFoundError


def _is_part(new: Any, old: Any) -> bool:
    """Return whether a value has less than another, and nothing else."""
    if new is None:
        return True
    return isinstance(new, list) and isinstance(old, list) and len(new) < len(old) and old[: len(new)] == new


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
