"""`State`: one state of an operator, from all subtasks; `StatePart`: the entries of it in one source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from readers.decode.columns import ColumnTree
from readers.decode.decoder import Batch, Decoder, Page
from readers.decode.program import Code, Program
from readers.decode.versions import VersionedDecoder
from readers.errors import (
    ClassMismatchError,
    CorruptDataError,
    ReaderError,
    UnsupportedSerializerError,
    located,
)
from readers.formats.entry import Entry, EntryLayout, StateKind, emit_undivided
from readers.formats.source import Selection, Source, StateName, StateSize
from readers.keygroups import key_group_of
from readers.metadata import KeyGroupRange
from readers.rows import (
    COUNTED,
    RowNumbers,
    counted_rows,
    entry_columns,
    is_keyed,
    is_row,
    merged_type,
    rows,
    shown,
    state_schema,
)
from readers.schemas import OUT_OF_RANGE, ROW
from readers.stateinfo.refinement import Contradiction
from readers.storage.filesystems import check_lost_pages

_UNDIVIDED = "native heap snapshots do not record where entries end: where that is not certain, one row holds all entries of a key group"
# Whether a value holds an object of a class that the savepoint does not describe shows only in the entries. A question for the
# status of all states must stay cheap, so it reads those of small states only, and sends no requests.
_LOOKED_BYTES = 4 << 20
_UNLOOKED = (
    "values of classes that the savepoint does not describe, which _undecoded would hold, are looked for only in states of "
    f"less than {_LOOKED_BYTES >> 20} MiB on this machine"
)
# So much of the files of a state is walked for its size: some 20 ms. Of more a part is, and the size is an estimate.
_WALKED_BYTES = 128 << 20
# Clients ask for few sets of the columns of a table, again and again.
_MOST_READINGS = 8
DECODED, PARTIAL, RAW, UNREADABLE = "decoded", "partial", "raw", "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadHandle:
    """A handle that cannot be opened.

    Attributes:
        family: the kind that stands for all states that it may have a part of.
        key_groups: its key groups; None where entries have no key.
        error: the reason.
    """

    family: StateKind
    key_groups: KeyGroupRange | None
    error: ReaderError

    def may_hold(self, selection: Selection) -> bool:
        """Return whether it may have entries of the selection."""
        groups = self.key_groups
        return groups is None or any(map(selection.wants, range(groups.start, groups.end + 1)))


# No slots: a cached property needs a dictionary.
@dataclass(frozen=True, kw_only=True)
class PartReading:
    """What reads of the same columns of a part share: a lookup takes less time than to make a program.

    Attributes:
        entry: the serializers of its entries, of which some parts may be stepped over.
        layout: the columns that are decoded.
        is_counted: True if rows are made without reading an entry.
        new_decoder: makes the decoder of the entries; it does not refer to the part, which keeps this.
    """

    entry: Entry
    layout: EntryLayout
    is_counted: bool
    new_decoder: Callable[[], Decoder | VersionedDecoder]

    def rows(self, pages: Iterable[Page], target: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of pages with the columns of `target`.

        Raises:
            ReaderError: the bytes contradict the format.
        """
        entry, layout = self.entry, self.layout
        numbers = RowNumbers()
        decoder = self._decoder.anew()
        undivided: Decoder | None = None
        for page in pages:
            # Pages of heap snapshots whose entries cannot be told apart have a layout of their own.
            if page.undivided and undivided is None:
                undivided = layout.decoder(lambda program, columns: emit_undivided(program, columns, entry))
            chosen = undivided if undivided is not None and page.undivided else decoder
            with located(path=page.path, position=page.first_byte, what=entry.told):
                for batch in chosen.decode(page):
                    found = rows(batch, layout.names, entry, target, numbers)
                    check_lost_pages()
                    yield found

    @cached_property
    def _decoder(self) -> Decoder | VersionedDecoder:
        """The decoder that each read takes anew; it decodes nothing itself."""
        return self.new_decoder()


class PartReadings:
    """The readings of a part, by their columns. Threads may share it; a pickled copy is empty."""

    def __init__(self) -> None:
        self._kept: dict[frozenset[str], PartReading] = {}

    def of(self, columns: frozenset[str]) -> PartReading | None:
        """Return what is kept for these columns."""
        return self._kept.get(columns)

    def keep(self, columns: frozenset[str], reading: PartReading) -> PartReading:
        """Keep a reading for these columns, and return it."""
        if len(self._kept) >= _MOST_READINGS:
            self._kept.clear()
        self._kept[columns] = reading
        return reading

    def __reduce__(self) -> tuple[type[PartReadings], tuple[()]]:
        return (PartReadings, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePart:
    """The entries of a state in one source.

    Attributes:
        source: the source.
        name: the name of the state in it.
        entry: the serializers of its entries; subtasks may know different subclasses of a POJO.
    """

    source: Source
    name: StateName
    entry: Entry
    _readings: PartReadings = field(default_factory=PartReadings, init=False, repr=False, compare=False)

    def read(
        self, columns: Iterable[str], schema: pa.Schema, selection: Selection
    ) -> Iterator[pa.RecordBatch]:
        """Yield its rows.

        With `_row` among the columns, whole key groups are read whatever keys are selected, and always in the same order: a row has
        one number, whichever other columns are read.

        Args:
            columns: names of the columns to read, `_row` perhaps among them.
            schema: the schema of the whole state: columns come in its order, with its types; `_row` comes last.
            selection: the entries to read.

        Raises:
            ReaderError: the file contradicts its format; the breadcrumbs have the state.
        """
        wanted = frozenset(columns)
        target = pa.schema([schema.field(name) for name in schema.names if name in wanted])
        if ROW in wanted:
            target = target.append(pa.field(ROW, pa.int64()))
            selection = replace(selection, keys=None)
        source = self.source

        with self.located():
            reading = self._reading(wanted)
            # `count(*)` and counts by key group: no entry is decoded, and most formats need not look at them.
            if reading.is_counted:
                for batch in counted_rows(source.counts(self.name, selection), source.subtask, target):
                    check_lost_pages()
                    yield batch
            else:
                yield from reading.rows(source.pages(self.name, selection), target)

    def rows_of(
        self, pages: Iterable[Page], columns: Iterable[str], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of pages in the layout of the source; for the columns and the schema see `read`.

        Raises:
            ReaderError: the bytes contradict the format; the breadcrumbs have the state.
        """
        wanted = frozenset(columns)
        target = pa.schema([schema.field(name) for name in schema.names if name in wanted])
        with self.located():
            yield from self._reading(wanted - {ROW}).rows(pages, target)

    def located(self) -> AbstractContextManager[None]:
        """Return a context that gives errors the name of the state, its file and its types."""
        return located(self.name.name, path=self.source.path, what=self.entry.told)

    def _reading(self, wanted: frozenset[str]) -> PartReading:
        """Return what all reads of these columns share."""
        return self._readings.of(wanted) or self._readings.keep(wanted, self._new_reading(wanted))

    def _new_reading(self, wanted: frozenset[str]) -> PartReading:
        decoded = wanted
        if ROW in wanted and (self.entry.has_undecoded or self.entry.older is not None):
            # A list with an element that cannot be read is fewer rows: that shows only where the elements are read.
            decoded |= {OUT_OF_RANGE}
        entry = shown(self.entry, decoded)
        layout = EntryLayout(self.source.columns(entry), entry_columns(entry, decoded))
        own = wanted.intersection(state_schema(self.entry).names)
        return PartReading(
            entry=entry,
            layout=layout,
            is_counted=own <= COUNTED and ROW not in wanted and is_row(entry, layout.names),
            new_decoder=partial(_decoder_of, self.source, entry, layout, tries_older=self._tries_older),
        )

    @property
    def _tries_older(self) -> bool:
        """True if an entry may be as an earlier version of Flink wrote it."""
        return self.source.keeps_old_bytes and self.entry.older is not None

    @property
    def is_open(self) -> bool:
        """True if it may hold objects of classes that the savepoint does not describe, as they are here."""
        return self.entry.is_open and (self.entry.is_assumed or not self.source.describes_all)

    def undescribed(self) -> ReaderError | None:
        """Return the error of its first object of a class that the savepoint does not describe; None if there is none.

        Reads the entries up to that one. Entries that cannot be read for other reasons count as none.
        """
        source, entry = self.source, self.entry
        if not self.is_open:
            return None
        layout = EntryLayout(source.columns(entry))
        try:
            with located(path=source.path, what=entry.told):
                decoder = layout.decoder(lambda program, columns: source.emit(program, columns, entry))
                for page in source.pages(self.name, Selection()):
                    if page.undivided:
                        return UnsupportedSerializerError(
                            "expected classes that the savepoint describes, found another"
                        )
                    for _ in decoder.decode(page):
                        pass
        except UnsupportedSerializerError as error:
            return error
        except ReaderError:
            return None
        return None

    def misfit(self, most: int) -> tuple[int, ReaderError | None]:
        """Try its first entries, `most` of them; return how many were tried, and the error if they contradict the jars.

        Each entry is checked again when it is read.
        """
        source, entry = self.source, self.entry
        layout = EntryLayout(source.columns(entry))
        decoder = layout.decoder(lambda program, columns: source.emit(program, columns, entry))
        tried = 0
        try:
            for page in source.pages(self.name, Selection()):
                if page.undivided:
                    return tried, UnsupportedSerializerError(
                        "expected entries with a known end, found others"
                    )
                for _ in decoder.decode(page.slice(0, min(len(page), most - tried))):
                    pass
                tried += len(page)
                if tried >= most:
                    break
        except (ClassMismatchError, CorruptDataError) as error:
            return tried, error
        except ReaderError:
            # A file that is missing, or a class that is in no jar: whoever reads the state is told.
            return tried, None
        return tried, None

    def entries(self, selection: Selection) -> Iterator[Batch]:
        """Yield its entries, decoded with all columns and beside their bytes: what a writer starts from.

        Objects that only Python reads (of Kryo, of Java) are kept as bytes. The columns are those of `programs`.

        Raises:
            ReaderError: the file contradicts its format; the breadcrumbs have the state.
        """
        with self.located():
            yield from self.decoded(self.source.pages(self.name, selection))

    def decoded(self, pages: Iterable[Page]) -> Iterator[Batch]:
        """Yield the entries of pages in the layout of the source, as `entries` does.

        Raises:
            ReaderError: the bytes contradict the format.
        """
        source, entry = self.source, self.entry
        layout = EntryLayout(source.columns(entry))
        kept = layout.code(lambda program, columns: source.emit(program, columns, entry)).objects
        decoder = _decoder_of(source, entry, layout, tries_older=self._tries_older, kept=kept)
        undivided = layout.decoder(
            lambda program, columns: emit_undivided(program, columns, entry), kept=kept
        )
        for page in pages:
            with located(path=page.path, position=page.first_byte, what=entry.told):
                for batch in (undivided if page.undivided else decoder).decode(page):
                    check_lost_pages()
                    yield batch

    def programs(self) -> tuple[ColumnTree, tuple[Code, ...]]:
        """Return the columns of `entries`, and the programs that lay them out; each entry follows one of these."""
        source, entry = self.source, self.entry
        layout = EntryLayout(source.columns(entry))
        codes = [layout.code(lambda program, columns: source.emit(program, columns, entry))]
        if source.frames_values and entry.has_undecoded:
            codes.append(
                layout.code(
                    lambda program, columns: source.emit_undescribed(program, columns, entry, whole=True)
                )
            )
        if not source.frames_entries:
            codes.append(layout.code(lambda program, columns: emit_undivided(program, columns, entry)))
        return layout.tree.with_bytes(codes[0].objects), tuple(codes)


@dataclass(frozen=True, kw_only=True)
class State:
    """One state of an operator.

    Attributes:
        operator_id: 32 hex digits.
        name: the registered name; of timers, the name of the state that holds them.
        kind: kind of the state.
        max_parallelism: number of key groups.
        parts: one for each source that has the state.
        unread: the handles that may have a part of the state but cannot be opened.
        contradictions: statements of `stateInfo` that the state files contradict.
    """

    operator_id: str
    name: str
    kind: StateKind
    max_parallelism: int
    parts: tuple[StatePart, ...]
    unread: tuple[UnreadHandle, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()

    @property
    def entry(self) -> Entry | None:
        """The serializers of the first part's entries; None if no part can be opened."""
        return self.parts[0].entry if self.parts else None

    @property
    def backend(self) -> str:
        """`hashmap`, `rocksdb`, `forst`, `changelog` or `canonical` (one layout for all); empty for operator state."""
        return self.parts[0].source.backend if self.parts and is_keyed(self.kind) else ""

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns that a part has: a POJO has fields of subclasses that only some subtasks know.

        Raises:
            CorruptDataError: parts have different types for a column.
        """
        schemas = [state_schema(part.entry) for part in self.parts]
        merged = {column.name: column.type for column in schemas[0]} if schemas else {}
        for schema in schemas[1:]:
            for column in schema:
                common = merged_type(merged.get(column.name, column.type), column.type)
                if common is None:
                    # Subtasks of one job may differ in the subclasses of a POJO only, and those merge.
                    raise CorruptDataError(
                        f"expected subtasks to agree on the type of {column.name}, found {merged[column.name]} "
                        f"and {column.type}",
                        breadcrumbs=(self.operator_id, self.name),
                    )
                merged[column.name] = common
        return pa.schema(list(merged.items()))

    @cached_property
    def _disagreement(self) -> tuple[ReaderError, ...]:
        """The error of parts that have different types for a column: no row of the state can be read."""
        try:
            _ = self.schema if len(self.parts) > 1 else None
        except CorruptDataError as error:
            return (error,)
        return ()

    @property
    def unquoted(self) -> frozenset[str]:
        """Columns of texts that never begin with a quotation mark: see `Serializer.is_unquoted`."""
        return self.entry.unquoted if self.entry is not None else frozenset()

    @cached_property
    def damages(self) -> tuple[ReaderError, ...]:
        """The errors of opened parts whose other files are missing."""
        return tuple(error for part in self.parts if (error := part.source.damage()))

    @property
    def _is_looked_at(self) -> bool:
        return self.size_bytes < _LOOKED_BYTES and all(part.source.is_near for part in self.parts)

    @cached_property
    def _undescribed(self) -> tuple[ReaderError, ...]:
        """The errors of parts that hold objects of classes that the savepoint does not describe; of small states."""
        if not self._is_looked_at:
            return ()
        return tuple(error for part in self.parts if (error := part.undescribed()))

    @cached_property
    def _broken(self) -> tuple[ReaderError, ...]:
        """The errors of parts whose objects of Kryo are laid out otherwise than their classes say; of small states."""
        if not self._is_looked_at:
            return ()
        tried = (part.misfit(_LOOKED_BYTES)[1] for part in self.parts if part.entry.holds_objects)
        return tuple(error.within(self.name) for error in tried if error is not None)

    @property
    def status(self) -> str:
        """One of four words.

        `decoded`; `partial` if a part of a value, or some values, are shown as bytes; `raw` if a whole key or value is;
        `unreadable` if a file that may have a part of the state cannot be read, its objects of Kryo cannot, or its parts differ in types.
        """
        if self.unread or self.damages or self._disagreement:
            return UNREADABLE
        if self.entry is None:
            return RAW
        problems = list(self.entry.problems())
        if any(not problem.sized for problem in problems):
            return RAW
        if self._broken:
            return UNREADABLE
        return PARTIAL if problems or self._undescribed else DECODED

    @property
    def note(self) -> str:
        """The reasons why parts of it are not decoded and the files that cannot be opened; empty if there are none."""
        problems = list(self.entry.problems()) if self.entry else []
        reasons = [f"{'.'.join(problem.path)}: {problem.reason}" for problem in problems]
        if any(not problem.sized for problem in problems) and not all(
            part.source.frames_entries for part in self.parts
        ):
            reasons.append(_UNDIVIDED)
        reasons += [f"{'.'.join(error.breadcrumbs)}: {error.message}" for error in self._undescribed]
        if all(problem.sized for problem in problems):
            reasons += [f"{'.'.join(error.breadcrumbs)}: {error.message}" for error in self._broken]
        if not self._is_looked_at and any(part.is_open for part in self.parts):
            reasons.append(_UNLOOKED)
        failures = [
            error.told
            for error in (*(handle.error for handle in self.unread), *self.damages, *self._disagreement)
        ]
        return "; ".join(dict.fromkeys([*reasons, *failures, *map(str, self.contradictions)]))

    @property
    def size_bytes(self) -> int:
        """Bytes that a scan reads, about: of keyed state, also those of other states in the same files."""
        return sum(part.source.cost_bytes(part.name) for part in self.parts)

    @cached_property
    def own_size(self) -> StateSize:
        """The bytes of this state alone; the states of a savepoint have at most its size together."""
        cost = sum(part.source.walk_bytes for part in self.parts)
        share = min(1.0, _WALKED_BYTES / max(cost, 1))
        return StateSize.of_all(part.source.own_size(part.name, share) for part in self.parts)

    def key_groups_of(self, keys: Iterable[Any]) -> tuple[tuple[int, Any], ...] | None:
        """Return (key group, key) of keys; None if Java's hash of such keys is not known."""
        if self.entry is None or self.entry.key is None:
            return None
        found = []
        for key in keys:
            code = self.entry.key.hash_code(key)
            if code is None:
                return None
            found.append((key_group_of(code, self.max_parallelism), key))
        return tuple(found)

    def failures(self, selection: Selection) -> Iterator[ReaderError]:
        """Yield the errors of the handles that cannot be opened and may have entries of the selection."""
        return (handle.error for handle in self.unread if handle.may_hold(selection))

    def check(self, selection: Selection) -> None:
        """Raise the error of a handle that cannot be opened, if the selection may need it.

        Raises:
            ReaderError: the error of the first such handle.
        """
        for error in self.failures(selection):
            raise error

    def read(
        self, columns: Iterable[str] | None = None, selection: Selection | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all parts, in no particular order.

        Raises:
            ReaderError: a file is missing or contradicts its format.
        """
        selection = selection or Selection()
        self.check(selection)
        names = self.schema.names if columns is None else list(columns)
        for part in self.parts:
            yield from part.read(names, self.schema, selection)


def _decoder_of(
    source: Source,
    entry: Entry,
    layout: EntryLayout,
    *,
    tries_older: bool,
    kept: frozenset[int] | None = None,
) -> Decoder | VersionedDecoder:
    """Return the decoder of entries: of two versions where one state may hold both.

    With `kept` objects in these columns stay bytes, and a value with an undescribed one is bytes as a whole.
    """

    def of(entry: Entry) -> Decoder:
        is_versioned = tries_older and entry.is_assumed

        def undescribed(program: Program, columns: EntryLayout) -> None:
            source.emit_undescribed(program, columns, entry, whole=kept is not None)

        return layout.decoder(
            lambda program, columns: source.emit(program, columns, entry),
            undescribed if source.frames_values and entry.is_open and not is_versioned else None,
            is_assumed=entry.is_assumed,
            kept=kept,
        )

    def as_bytes(entry: Entry) -> Decoder:
        return layout.decoder(
            lambda program, columns: source.emit_undescribed(program, columns, entry, whole=True), kept=kept
        )

    if not tries_older:
        return of(entry)
    older = entry.older or entry
    return VersionedDecoder(of(entry), of(older), (as_bytes(entry), as_bytes(older)))
