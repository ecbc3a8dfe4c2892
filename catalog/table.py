"""What every table is, the tables without states (`FactsTable`, `ReadFactsTable`, `PlannedTable`), and what has tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog.cache.files import ListedTable
from catalog.errors import CatalogError, NoSuchColumnError
from catalog.scan import ANYTHING, FactsSplit, Predicate, Scan, Split
from readers import ReaderError

if TYPE_CHECKING:
    from readers import Savepoint, StateSize


MadeAbove = Callable[["Savepoint", Mapping[str, str]], pa.RecordBatch]
"""Makes the rows of a table of facts from a savepoint and from the uids that are given for its operators."""
_MADE_ABOVE: dict[str, MadeAbove] = {}


def make_above(table: str, make: MadeAbove) -> None:
    """Let a room above make the rows of a table of facts: the catalog has the table, and does not know its facts."""
    _MADE_ABOVE[table] = make


def rows_from_above(table: str, savepoint: Savepoint, uids: Mapping[str, str]) -> pa.RecordBatch:
    """Return the rows of a table that a room above makes.

    Raises:
        CatalogError: no such room is imported.
    """
    if table not in _MADE_ABOVE:
        raise CatalogError(f"expected a program that makes the rows of {table}, found the catalog alone")
    return _MADE_ABOVE[table](savepoint, uids)


def known_sum(one: int | None, other: int | None) -> int | None:
    """Return the sum of two numbers; None if one of them is not known."""
    return None if one is None or other is None else one + other


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much a table is: what is known without reading rows.

    Attributes:
        splits: of all rows, as a scan of them now has.
        key_groups: that have rows or may have; 0 if the table has none.
        size_bytes: of the savepoint, also where the cache holds them.
    """

    splits: int
    key_groups: int
    size_bytes: int

    @classmethod
    def of(cls, splits: Collection[Split]) -> Extent:
        """Return the extent of a scan with these splits."""
        groups = frozenset[int]().union(*(split.wanted_key_groups for split in splits))
        return cls(
            splits=len(splits), key_groups=len(groups), size_bytes=sum(split.origin_bytes for split in splits)
        )


class Table(ABC):
    """A table of a database.

    Attributes:
        name: as listed.
        comment: what it holds, for people.
        schema: its columns, in order.
        leaves_out: whether a scan leaves out what cannot be read, and names it, also where a partial answer is not allowed.
    """

    name: str
    comment: str
    schema: pa.Schema
    leaves_out = False

    @property
    def unquoted(self) -> frozenset[str]:
        """Columns of texts that never begin with a quotation mark, as UUIDs that Kryo wrote: `'"x"'` means `'x'` there."""
        return frozenset()

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """About how many bytes a scan of it reads."""

    @property
    def own_size(self) -> StateSize | None:
        """The bytes of its states in the files, as `StateMeta` has them; None if it is no table of states."""
        return None

    @property
    def extent(self) -> Extent:
        """The splits, key groups and bytes of a scan of all rows."""
        return Extent.of(self.plan(allow_partial=True).splits)

    @abstractmethod
    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        """Return a scan of all columns, to be narrowed; reads no rows of states.

        Args:
            predicate: saves reading; may leave rows that do not meet it.
            allow_partial: whether rows of files that cannot be read are left out; `Scan.incomplete` lists the errors.

        Raises:
            ReaderError: a state file that holds wanted rows cannot be opened.
        """

    def scan(
        self,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        expression: pc.Expression | None = None,
        allow_partial: bool = False,
        **values: Any,  # key="key_662"
    ) -> Scan:
        """Return a scan of the rows that meet the conditions, with some columns.

        Args:
            columns: in any case; all if None.
            predicate: saves reading; may leave rows that do not meet it.
            expression: exact.
            allow_partial: whether rows of files that cannot be read are left out; `Scan.incomplete` lists the errors.
            **values: column = value, exact: `scan(key="key_662")`.

        Raises:
            NoSuchColumnError: near names in the error.
            ReaderError: a state file that holds wanted rows cannot be opened, unless `allow_partial`.
        """
        names = None if columns is None else [self._column(name) for name in columns]
        predicate = predicate or ANYTHING
        # An exact condition also prunes: the predicate finds the key group, the expression the rows in it.
        for given, value in values.items():
            column = self._column(given)
            predicate = predicate.and_(column, (value,))
            same = pc.field(column) == pa.scalar(value, self.schema.field(column).type)
            expression = same if expression is None else expression & same
        return self.plan(predicate, allow_partial=allow_partial).narrowed(names, expression)

    def _column(self, name: str) -> str:
        for known in self.schema.names:
            if known.casefold() == name.casefold():
                return str(known)
        raise NoSuchColumnError(name, self.schema.names, self.name)


Failed = Callable[[ReaderError], None]
"""Is told each error of what is left out."""


class TableOwner(ABC):
    """What has tables under one name of SQL: a database, or the history of a job.

    Attributes:
        name: in the catalog.
    """

    name: str

    @property
    @abstractmethod
    def tables(self) -> list[str]:
        """Names of its tables; reads the headers of all state files."""

    @abstractmethod
    def listed(self) -> Sequence[ListedTable | Table]:
        """Return its tables as lists show them; reads the headers of all state files, unless they are remembered.

        Raises:
            ReaderError: it cannot be opened.
        """

    @abstractmethod
    def table(self, name: str) -> Table:
        """Return a table by name, in any case.

        Raises:
            NoSuchTableError: near names in the error.
            ReaderError: a file that may hold the state of this name cannot be read.
        """

    def scan(self, table: str, **arguments: Any) -> Scan:  # as Table.scan
        """Return `table(table).scan(…)`."""
        return self.table(table).scan(**arguments)


@dataclass(eq=False)
class FactsTable(Table):
    """A table that is known without reading state; its rows are made once, when they are first needed.

    Attributes:
        make: returns its rows.
    """

    name: str
    comment: str
    schema: pa.Schema
    make: Callable[[], pa.RecordBatch]
    size_bytes = 0

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """Its rows."""
        return self.make()

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        return Scan(schema=self.schema, splits=(FactsSplit(self.batch),))


class ReadFactsTable(FactsTable):
    """A table of facts that are read from state, so that some of them may be unreadable.

    Args:
        name, comment, schema: see `Table`.
        read: returns the rows that can be read; calls its argument with the error of each file that cannot.
    """

    def __init__(
        self, name: str, comment: str, schema: pa.Schema, read: Callable[[Failed], pa.RecordBatch]
    ) -> None:
        super().__init__(name, comment, schema, lambda: self._found[0])
        self._read = read

    @property
    def _found(self) -> tuple[pa.RecordBatch, tuple[ReaderError, ...]]:
        """Its rows and the errors; read again if an error may have passed."""
        found = self._read_once
        if any(error.may_pass for error in found[1]):
            self.__dict__.pop("_read_once", None)
        return found

    @cached_property
    def _read_once(self) -> tuple[pa.RecordBatch, tuple[ReaderError, ...]]:
        unread: list[ReaderError] = []
        batch = self._read(unread.append)
        return batch, tuple(unread)

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        batch, unread = self._found
        if unread and not allow_partial:
            raise unread[0]
        return Scan(schema=self.schema, splits=(FactsSplit(batch),), unread=unread)


@dataclass(eq=False)
class PlannedTable(Table):
    """A table as another process planned its scan: the plan travels, the table does not.

    Attributes:
        planned: the scan of all columns, for the predicate of a query.
        has_all_rows: whether the scan has all rows of the table, whatever the predicate.
    """

    name: str
    comment: str
    planned: Scan
    has_all_rows: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        self.schema = self.planned.schema

    @property
    def size_bytes(self) -> int:
        return self.planned.bytes_total

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        """Return the scan that was planned, whose predicate is that of the query."""
        return self.planned
