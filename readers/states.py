"""One state of an operator, from all subtasks: `State`, and what one source holds of it: `StatePart`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from readers.errors import CorruptDataError, ReaderError
from readers.formats.entry import Entry, EntryLayout, StateKind, emit_undivided
from readers.formats.source import Selection, Source, StateName
from readers.keygroups import key_group_of
from readers.metadata import KeyGroupRange
from readers.rows import (
    COUNTED,
    counted_rows,
    entry_columns,
    is_keyed,
    is_row,
    merged_type,
    rows,
    shown,
    state_schema,
)
from readers.stateinfo.refinement import Contradiction

_UNDIVIDED = "native heap snapshots do not tell where entries end: where that is not certain, a row is what stands in a key group"
DECODED, PARTIAL, RAW = "decoded", "partial", "raw"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePart:
    """The part of a state in one source."""

    source: Source
    name: StateName
    entry: Entry

    def read(
        self, columns: Iterable[str], schema: pa.Schema, selection: Selection
    ) -> Iterator[pa.RecordBatch]:
        """Its rows, with these columns of `schema` (the whole state's), in the order of that.

        Raises:
            ReaderError: the file contradicts its format, with the state in its breadcrumbs.
        """
        wanted = frozenset(columns)
        own = wanted.intersection(state_schema(self.entry).names)
        target = pa.schema([schema.field(name) for name in schema.names if name in wanted])
        source, entry = self.source, shown(self.entry, wanted)
        layout = EntryLayout(source.columns(entry), entry_columns(entry, wanted))
        decoder = layout.decoder(
            lambda program, columns: source.emit(program, columns, entry),
            (lambda program, columns: source.emit_undescribed(program, columns, entry))
            if source.frames_values and entry.is_open
            else None,
        )
        undivided = layout.decoder(lambda program, columns: emit_undivided(program, columns, entry))

        try:
            if own <= COUNTED and is_row(entry, layout.names):
                yield from counted_rows(source.counts(self.name, selection), source.subtask, target)
                return
            for page in source.pages(self.name, selection):
                for batch in (undivided if page.undivided else decoder).decode(page):
                    yield rows(batch, layout.names, entry, target)
        except ReaderError as error:
            raise error.within(self.name.name, path=self.source.path) from error


@dataclass(frozen=True, kw_only=True)
class State:
    """One state of an operator.

    Attributes:
        operator_id: 32 hex digits.
        name: as registered; of timers, the name of the state that holds them.
        kind: what it is.
        parts: one for each source that has it.
        max_parallelism: the number of key groups.
        failures: the state files that may hold more of it but cannot be opened, with their key groups.
        contradictions: what `stateInfo` says of it and is not so.
    """

    operator_id: str
    name: str
    kind: StateKind
    max_parallelism: int
    parts: tuple[StatePart, ...]
    failures: tuple[tuple[KeyGroupRange | None, ReaderError], ...] = ()
    contradictions: tuple[Contradiction, ...] = ()

    @property
    def entry(self) -> Entry | None:
        """The serializers, as the first part has them; None if no part can be opened."""
        return self.parts[0].entry if self.parts else None

    @property
    def backend(self) -> str:
        """`hashmap`, `rocksdb`, `forst`, `changelog` or `canonical` (one layout for all); empty for operator state."""
        return self.parts[0].source.backend if self.parts and is_keyed(self.kind) else ""

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns; the union of what the parts have (subclasses of a POJO that only some subtasks saw).

        Raises:
            CorruptDataError: the parts contradict each other.
        """
        schemas = [state_schema(part.entry) for part in self.parts]
        merged = {column.name: column.type for column in schemas[0]} if schemas else {}
        for schema in schemas[1:]:
            for column in schema:
                common = merged_type(merged.get(column.name, column.type), column.type)
                if common is None:
                    raise CorruptDataError(
                        f"expected subtasks to agree on the type of {column.name}, found {merged[column.name]} "
                        f"and {column.type}",
                        breadcrumbs=(self.operator_id, self.name),
                    )
                merged[column.name] = common
        return pa.schema(list(merged.items()))

    @property
    def status(self) -> str:
        """`decoded`; `partial` if a part of a value is shown as bytes; `raw` if key or value is."""
        if self.entry is None:
            return RAW
        problems = list(self.entry.problems())
        if any(not problem.sized for problem in problems):
            return RAW
        return PARTIAL if problems else DECODED

    @property
    def note(self) -> str:
        """What is not decoded and why, or which file cannot be opened; empty if all is well."""
        problems = self.entry.problems() if self.entry else ()
        reasons = [f"{'.'.join(problem.path)}: {problem.reason}" for problem in problems]
        if self.status == RAW and not all(part.source.frames_entries for part in self.parts):
            reasons.append(_UNDIVIDED)
        failures = [str(error) for _, error in self.failures]
        return "; ".join(dict.fromkeys([*reasons, *failures, *map(str, self.contradictions)]))

    @property
    def size_bytes(self) -> int:
        """About how many bytes a scan of it reads: of keyed state, the files it shares with other states."""
        return sum(part.source.cost_bytes(part.name) for part in self.parts)

    def key_groups_of(self, keys: Iterable[Any]) -> tuple[tuple[int, Any], ...] | None:
        """(key group, key) of keys; None where the type of the keys does not tell their hash."""
        if self.entry is None or self.entry.key is None:
            return None
        found = []
        for key in keys:
            code = self.entry.key.hash_code(key)
            if code is None:
                return None
            found.append((key_group_of(code, self.max_parallelism), key))
        return tuple(found)

    def check(self, selection: Selection) -> None:
        """Raise the error of a state file that cannot be opened, if the selection may need it.

        Raises:
            ReaderError: that error.
        """
        for key_groups, error in self.failures:
            if key_groups is None or any(map(selection.wants, range(key_groups.start, key_groups.end + 1))):
                raise error

    def read(
        self, columns: Iterable[str] | None = None, selection: Selection | None = None
    ) -> Iterator[pa.RecordBatch]:
        """All rows of all parts, in no particular order.

        Raises:
            ReaderError: a file is missing or contradicts its format.
        """
        selection = selection or Selection()
        self.check(selection)
        names = self.schema.names if columns is None else list(columns)
        for part in self.parts:
            yield from part.read(names, self.schema, selection)
