"""What the tables about operators share: tables with a split an operator, which finds its operator again anywhere."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from catalog.predicate import ANYTHING, Predicate
from catalog.references import SavepointReference, open_savepoint
from catalog.scan import Scan, ScanCounter, Split
from catalog.table import Table
from readers import MissingFileError, Operator, ReaderError, SavepointGoneError

_TEXT = pa.string()
OPERATOR_COLUMNS = (("operator_id", _TEXT), ("operator_uid", _TEXT), ("operator_name", _TEXT))
"""The columns that every table about operators has."""


@dataclass(frozen=True, slots=True)
class OperatorReference:
    """All that is needed to find an operator again, and to name it.

    Attributes:
        savepoint: that it is in.
        operator_id: of the operator.
        uid, name: of the operator; None if unknown.
        parts: how many its states have together; None where nothing was planned yet.
    """

    savepoint: SavepointReference
    operator_id: str
    uid: str | None
    name: str | None
    parts: int | None = None

    def operator(self) -> Operator:
        """Return the operator.

        Raises:
            ReaderError: the savepoint cannot be opened, or less of the operator than before: on another machine, or later.
        """
        operators = open_savepoint(self.savepoint).operators
        found = next(one for one in operators if one.operator_id == self.operator_id)
        if self.parts is None or _parts_of(found) == self.parts:
            return found
        for handle in found.unread:
            raise handle.error
        raise MissingFileError(
            f"expected the operator {self.operator_id} in {self.parts} parts, found another",
            path=self.savepoint.path,
        )

    @property
    def values(self) -> dict[str, str | None]:
        """Its columns."""
        return {"operator_id": self.operator_id, "operator_uid": self.uid, "operator_name": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSplit(Split):
    """The rows of one operator.

    Attributes:
        reference: finds the operator again in another process.
        columns: of the table that are wanted.
        size_bytes: about how many bytes it reads.
        may_be_partial: whether an error ends its rows, and goes to the counter.
    """

    reference: OperatorReference
    columns: tuple[str, ...]
    size_bytes: int
    may_be_partial: bool = False

    def elsewhere(self) -> OperatorSplit:
        savepoint = self.reference.savepoint.elsewhere()
        return replace(self, reference=replace(self.reference, savepoint=savepoint))

    def narrowed(self, columns: Sequence[str]) -> OperatorSplit:
        return replace(self, columns=tuple(columns))

    def read(self, counter: ScanCounter | None = None) -> Iterator[pa.RecordBatch]:
        if not self.may_be_partial or counter is None:
            yield from self.batches(counter or ScanCounter(), _raised)
            return
        try:
            yield from self.batches(counter, counter.add_failure)
        except SavepointGoneError:
            # Nothing is damaged: Flink removed all of it.
            raise
        except ReaderError as error:
            counter.add_failure(error)

    @staticmethod
    def account(counter: ScanCounter) -> Callable[[int], None]:
        """Return what counts bytes that are read, and ends the split if nobody wants its rows: it reads long without one."""

        def add(bytes_read: int) -> None:
            counter.check()
            counter.add(bytes_read)

        return add

    @abstractmethod
    def batches(
        self, counter: ScanCounter, failed: Callable[[ReaderError], None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the wanted columns.

        Args:
            counter: counts the bytes read.
            failed: takes the error of a file that cannot be read, and raises it unless the rows may be partial.

        Raises:
            ReaderError: a file is missing or contradicts its format.
        """


def _raised(error: ReaderError) -> None:
    raise error


def _parts_of(operator: Operator) -> int:
    return sum(len(state.parts) for state in operator.states)


class OperatorsTable(Table):
    """A table whose rows come from operators, a split each.

    Args:
        name: as listed.
        comment: what it holds, for people.
        find: returns the operators with their references; called once, when they are first needed.
    """

    def __init__(
        self, name: str, comment: str, find: Callable[[], Sequence[tuple[Operator, OperatorReference]]]
    ) -> None:
        self.name = name
        self.comment = comment
        self._find = find

    @abstractmethod
    def splits(
        self, operator: Operator, reference: OperatorReference, predicate: Predicate, *, may_be_partial: bool
    ) -> Iterator[OperatorSplit]:
        """Yield the splits of an operator."""

    @property
    def size_bytes(self) -> int:
        return self.plan(allow_partial=True).bytes_total

    def plan(self, predicate: Predicate = ANYTHING, *, allow_partial: bool = False) -> Scan:
        wanted = [
            (operator, replace(reference, parts=_parts_of(operator)))
            for operator, reference in self._find()
            if all(
                (values := predicate.of(name)) is None or value in values
                for name, value in reference.values.items()
            )
        ]
        unread = tuple(handle.error for operator, _ in wanted for handle in operator.unread)
        if unread and not allow_partial:
            raise unread[0]
        splits = tuple(
            split
            for operator, reference in wanted
            for split in self.splits(operator, reference, predicate, may_be_partial=allow_partial)
        )
        return Scan(schema=self.schema, splits=splits, unread=unread)
