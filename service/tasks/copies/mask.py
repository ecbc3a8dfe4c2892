"""`mask`: a savepoint and a file of masks → each column, the rule that covers it, and what a value becomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import orjson
import pyarrow as pa

from catalog import Database
from catalog.errors import MaskError, UnknownMaskColumnError
from catalog.masks.columns import ColumnNames, MaskedColumns, leaves_of
from catalog.masks.masks import Masks
from catalog.masks.patterns import Path
from catalog.savepointtables import SOURCE_OFFSETS_NAME, TIMERS_NAME
from catalog.statetables import StatesTable, TableState
from readers import SOURCE_OFFSETS, ReaderError, Selection, State, json_text, schema_of, sql_type
from service.query.encode import counted, printable, section_lines
from service.tasks.task import Context, Task, TaskRequest, option

_SAMPLED_ROWS = 200
_SHOWN = 60
_GLOB = frozenset("*?")
_DROP, _LEFT_OUT = "drop-row", "row left out"
ROWS = schema_of("table, column, type, rule, before, after, problem")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskRequest(TaskRequest):
    """A savepoint, and masks for it."""

    database: str | None = option("name or alias of the savepoint; it is only read", default=None)
    masks: str = option("file of masks, as masks.toml", metavar="MASKS", longest=4000, argument=True)
    explain: bool = option("show each column with a sample before and after", default=False)


@dataclass(frozen=True, kw_only=True)
class MaskOutcome:
    """What masks do with a savepoint.

    Attributes:
        database: its name.
        rows: a row for each column and field that has values; `rule` is null where none covers it.
        refuses: whether a column without a rule is an error.
        unused: names of columns in the file that match nothing here.
        has_samples: whether people see each column.
    """

    database: str
    rows: pa.Table
    refuses: bool
    unused: tuple[str, ...]
    has_samples: bool

    @cached_property
    def uncovered(self) -> tuple[str, ...]:
        """The columns without a rule."""
        return tuple(
            f"{row['table']}.{row['column']}" for row in self.rows.to_pylist() if row["rule"] is None
        )

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """What the rules cannot do here."""
        return tuple(dict.fromkeys(filter(None, self.rows["problem"].to_pylist())))

    @property
    def exit_code(self) -> int:
        """1 if a rule cannot be applied, or a column has none and must have one."""
        return int(bool(self.problems) or (self.refuses and bool(self.uncovered)))

    def to_dict(self) -> dict[str, Any]:
        """See `Outcome`."""
        return {
            "database": self.database,
            "columns": self.rows.to_pylist(),
            "uncovered": list(self.uncovered),
            "refuses": self.refuses,
            "unused": list(self.unused),
            "problems": list(self.problems),
        }

    def lines(self, width: int | None) -> Iterator[str]:
        """See `Outcome`."""
        count = self.rows.num_rows
        yield f"{self.database}: {count - len(self.uncovered)} of {counted(count, 'column')} covered by a rule"
        if self.has_samples:
            shown = self.rows.drop_columns(["problem"]).to_pylist()
            for row in shown:
                row["rule"] = row["rule"] or "not covered"
            yield from section_lines(pa.Table.from_pylist(shown, ROWS.remove(6)), _NAMES, width)
        else:
            yield from (f"not covered: {printable(name)}" for name in self.uncovered)
        yield from (f"matches no column here: {printable(name)}" for name in self.unused)
        yield from (f"problem: {printable(text)}" for text in self.problems)
        if self.refuses and self.uncovered:
            yield f'default = "refuse": add rules for {counted(len(self.uncovered), "column")}, such as keep'


_NAMES = {name: name for name in ROWS.names if name != "problem"}


def run(request: MaskRequest, context: Context) -> MaskOutcome:
    """Say what a file of masks does with a savepoint.

    Raises:
        CatalogError: there is no such savepoint.
        MaskError: the file cannot be read, is no file of masks, or names a column that does not exist.
        ReaderError: the savepoint cannot be read.
    """
    masks = Masks.load(request.masks)
    database = context.only_database(request.database, "to mask")
    # Every column is listed, also where the file refuses some.
    found = database.masked(replace(masks, refuses=False))
    rows: list[dict[str, str | None]] = []
    covering: list[tuple[ColumnNames, tuple[Path, ...]]] = [
        (ColumnNames(SOURCE_OFFSETS_NAME), tuple((name,) for name in SOURCE_OFFSETS.names))
    ]
    for table, known in _tables(found):
        assert known.names is not None
        covering.append((known.names, tuple(path for path, _ in leaves_of(known.state.schema))))
        rows += _rows(table, known)
    unused = tuple(
        pattern.text
        for rule in masks.rules
        for pattern in rule.columns
        if not any(names.covers(pattern, path) for names, paths in covering for path in paths)
    )
    literal = [name for name in unused if not _GLOB & set(name)]
    if literal:
        raise UnknownMaskColumnError(
            f"expected columns of {database.name}, found none called {', '.join(literal)}"
        )
    return MaskOutcome(
        database=database.name,
        rows=pa.Table.from_pylist(rows, ROWS),
        refuses=masks.refuses,
        unused=unused,
        has_samples=request.explain,
    )


def _tables(database: Database) -> Iterator[tuple[StatesTable, TableState]]:
    """Yield each state with a table that shows its columns."""
    for _, table in database.state_tables():
        yield table, table.states[0]
    timers = database.table(TIMERS_NAME)
    assert isinstance(timers, StatesTable)
    for known in timers.states:
        if known.state.parts:
            yield timers, known


def _rows(table: StatesTable, known: TableState) -> Iterator[dict[str, str | None]]:
    """Yield the rows of a state."""
    state = known.state
    try:
        masked = table.reference(known).masked
        assert masked is not None
        before, after = _samples(state, masked)
        problem = None
    except (MaskError, ReaderError) as error:
        # Which columns there are is known without a value, and without a rule that can be applied.
        yield {
            "table": table.name,
            "column": state.name,
            "rule": "none can be applied",
            "problem": str(error),
        }
        return
    for one in masked.coverage:
        rule = one.rule
        sample = next(
            (
                (_shown(old), _shown(new))
                for old, new in zip(before.get(one.path[0], ()), after.get(one.path[0], ()), strict=True)
                for old, new in [(_value(old, one.path[1:]), _value(new, one.path[1:]))]
                if old is not None
            ),
            (None, None),
        )
        yield {
            "table": table.name,
            "column": one.name,
            "type": sql_type(one.type),
            "rule": None if rule is None else rule.rule.text,
            "before": sample[0],
            "after": _LEFT_OUT if rule is not None and rule.rule.name == _DROP else sample[1],
            "problem": problem,
        }


def _samples(state: State, masked: MaskedColumns) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Return some values of each column as JSON has them, before and after."""
    for part in state.parts:
        for batch in part.read(state.schema.names, state.schema, Selection()):
            few = batch.slice(0, _SAMPLED_ROWS)
            return _json(few), _json(replace(masked, drops={}).apply(few))
    return {}, {}


def _json(batch: pa.RecordBatch) -> dict[str, list[Any]]:
    return {
        name: [None if text is None else orjson.loads(text) for text in json_text(array).to_pylist()]
        for name, array in zip(batch.schema.names, batch.columns, strict=True)
    }


def _value(value: Any, path: Sequence[str]) -> Any:
    """Return the first value at a path inside a value; None if there is none."""
    if isinstance(value, list):
        return next(filter(_is_known, (_value(one, path) for one in value)), None)
    if not path or value is None:
        return value
    return _value(value.get(path[0]), path[1:]) if isinstance(value, dict) else None


def _is_known(value: Any) -> bool:
    return value is not None


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


TASK = Task(request=MaskRequest, run=run, has_rows=True)
