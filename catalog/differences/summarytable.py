"""The summary of a diff as a table: a row for each state of two savepoints, with counts and sample rows.

Each row is a split: it reads the differing rows of one state, once for the counts and as far as needed for the samples. What cannot be
read stands in `error`; then the counts are NULL. Of a query that needs neither counts nor samples no state is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from catalog.database import Database
from catalog.differences.splits import ADDED, CHANGED, REMOVED, Counts, DifferenceSplit, OneSideSplit
from catalog.differences.summary import SAME, StateTask, operator_change, state_tasks
from catalog.references import SavepointReference, is_gone
from catalog.scan import ANYTHING, Predicate, Scan, ScanCounter, Split
from catalog.table import Table, schema_of
from readers import ReaderError, SavepointGoneError, json_text

_KINDS = (ADDED, REMOVED, CHANGED)
SAMPLES = 3
_LONGEST_SAMPLE = 300
_VALUE = "value"
_SAMPLE = pa.struct(
    [("change", pa.string()), ("identity", pa.string()), ("before", pa.string()), ("after", pa.string())]
)
SUMMARY_SCHEMA = schema_of(
    "operator_id, operator, state_name, table_name, change, type_before, type_after, added bigint, "
    "removed bigint, changed bigint, rows_before bigint, rows_after bigint, size_before bigint, "
    "size_after bigint, samples samples, error",
    samples=pa.list_(_SAMPLE),
)
# Without them no state is read.
_READ = frozenset({"change", *_KINDS, "rows_before", "rows_after", "samples", "error"})


class SummaryTable(Table):
    """A row for each state of two databases.

    Args:
        before, after: the databases.
    """

    def __init__(self, before: Database, after: Database) -> None:
        self.name = "diff"
        self.comment = f"states of {before.name} and {after.name}, and how many of their rows differ"
        self._before = before
        self._after = after

    @property
    def schema(self) -> pa.Schema:
        return SUMMARY_SCHEMA

    @property
    def size_bytes(self) -> int:
        return self.plan().bytes_total

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        """Return a scan of the rows; reads headers only. What cannot be read has its error in its row."""
        names = {**self._before.operator_names, **self._after.operator_names}
        tasks: dict[str, list[StateTask | None]] = {}
        for task in state_tasks(self._before, self._after):
            tasks.setdefault(task.pair.operator_id, []).append(task)
        # Operators without states, where they came or went.
        for one in names.keys() - tasks.keys():
            if operator_change(one, self._before, self._after) is not None:
                tasks[one] = [None]
        splits = (
            self._split(one, names[one], task, predicate) for one in names for task in tasks.get(one, ())
        )
        return Scan(schema=SUMMARY_SCHEMA, splits=tuple(split for split in splits if split is not None))

    def _split(
        self, operator_id: str, operator: str, task: StateTask | None, predicate: Predicate
    ) -> SummarySplit | None:
        """Return the split of a state, or of an operator without states; None if its row is not wanted."""
        row: dict[str, Any] = dict.fromkeys(SUMMARY_SCHEMA.names)
        row |= {"operator_id": operator_id, "operator": operator, "samples": []}
        row["change"] = operator_change(operator_id, self._before, self._after)
        if task is not None:
            # Its splits are planned only if it is wanted; they find some errors.
            if not _may_be_wanted(row | _known_of(task), predicate):
                return None
            rows = tuple(task.splits())
            row |= _known_of(task)
        elif _may_be_wanted(row, predicate):
            rows = ()
        else:
            return None
        return SummarySplit(
            row=row,
            rows=rows,
            is_counted=task is not None and task.error is None,
            columns=tuple(SUMMARY_SCHEMA.names),
            savepoints=(self._before.reference, self._after.reference),
            size_bytes=sum(split.size_bytes for split in rows),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarySplit(Split):
    """One row of a summary.

    Attributes:
        row: what is known of it without reading.
        rows: the splits of its differing rows.
        is_counted: whether they are counted.
        columns: of the summary, that are wanted.
        savepoints: the two that are compared.
    """

    row: Mapping[str, Any]
    rows: tuple[DifferenceSplit | OneSideSplit, ...]
    is_counted: bool
    columns: tuple[str, ...]
    savepoints: tuple[SavepointReference, SavepointReference]
    size_bytes: int = 0

    def elsewhere(self) -> SummarySplit:
        before, after = self.savepoints
        return replace(
            self,
            rows=tuple(split.elsewhere() for split in self.rows),
            savepoints=(before.elsewhere(), after.elsewhere()),
        )

    def narrowed(self, columns: Sequence[str]) -> SummarySplit:
        is_read = not _READ.isdisjoint(columns)
        return replace(
            self,
            columns=tuple(name for name in SUMMARY_SCHEMA.names if name in columns),
            rows=self.rows if is_read else (),
            is_counted=self.is_counted and is_read,
            size_bytes=self.size_bytes if is_read else 0,
        )

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        made = dict(self.row)
        if self.is_counted:
            try:
                made |= self._counted(counter)
            except SavepointGoneError:
                raise
            except ReaderError as error:
                self._check_savepoints(error)
                made["error"] = error.told
        schema = pa.schema([SUMMARY_SCHEMA.field(name) for name in self.columns])
        # Without columns only the number of rows counts.
        one = pa.RecordBatch.from_pylist([made], SUMMARY_SCHEMA)
        yield one.select(schema.names) if self.columns else one

    def _counted(self, counter: ScanCounter | None) -> Mapping[str, Any]:
        counts = Counts()
        samples: list[Mapping[str, Any]] = []
        left = SAMPLES if "samples" in self.columns else 0
        for split in self.rows:
            found, rows = split.sampled(left - len(samples), counter)
            counts += found
            samples += _sample_rows(rows)
            if counter is not None:
                counter.check()
        return {
            "change": self.row["change"] or (CHANGED if counts.differing else SAME),
            "added": counts.added,
            "removed": counts.removed,
            "changed": counts.changed,
            "rows_before": counts.before,
            "rows_after": counts.after,
            "samples": samples,
        }

    def _check_savepoints(self, error: ReaderError) -> None:
        """Raise an error if a savepoint was removed: nothing is damaged then, and no row of the summary would be true."""
        for savepoint in self.savepoints:
            if is_gone(savepoint):
                raise SavepointGoneError(
                    "expected the file, found the whole savepoint deleted", path=savepoint.path
                ) from error


def _known_of(task: StateTask) -> dict[str, Any]:
    """Return what is known of a state without counting."""
    known = asdict(task.result(counted=False))
    return {name: known[name] for name in SUMMARY_SCHEMA.names if name in known}


def _may_be_wanted(row: Mapping[str, Any], predicate: Predicate) -> bool:
    return all(
        row[column] in values
        for column in ("operator_id", "operator", "state_name", "table_name")
        if (values := predicate.of(column)) is not None
    )


def _sample_rows(batch: pa.RecordBatch) -> list[Mapping[str, Any]]:
    """Return rows of a diff as texts: what they are of, and the values before and after."""
    names: list[str] = batch.schema.names
    contents = [name.removesuffix("_before") for name in names if name.endswith("_before")]
    sides = {f"{name}{tail}" for name in contents for tail in ("_before", "_after")}
    identity = [name for name in names if name not in sides and name != "change" and not name.startswith("_")]
    rows = pa.table({name: _texts(batch.column(names.index(name))) for name in names}).to_pylist()
    return [
        {
            "change": row["change"],
            "identity": " · ".join(row[name] for name in identity if row[name] is not None),
            "before": None if row["change"] == ADDED else _shown(row, contents, "_before"),
            "after": None if row["change"] == REMOVED else _shown(row, contents, "_after"),
        }
        for row in rows
    ]


def _shown(row: Mapping[str, Any], contents: Sequence[str], tail: str) -> str | None:
    """Return the values of one side: the value alone, or with names those columns that differ."""
    differing = [name for name in contents if row[f"{name}_before"] != row[f"{name}_after"]]
    texts = [
        row[name + tail] if name == _VALUE else f"{name} {row[name + tail]}"
        for name in differing
        if row[name + tail] is not None
    ]
    return ", ".join(texts) if texts else None


def _texts(array: pa.Array) -> list[str | None]:
    shown = (array if pa.types.is_string(array.type) else json_text(array)).to_pylist()
    # Times and the like are texts in JSON; a person needs no quotes.
    is_quoted = not pa.types.is_string(array.type) and not pa.types.is_nested(array.type)
    return [None if text is None else _cut(text.strip('"') if is_quoted else text) for text in shown]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SAMPLE else f"{text[: _LONGEST_SAMPLE - 1]}…"
