"""What travels to the process that reads: a scan, and the statement over it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from catalog import Scan
from service.query.sql.plan import Comparison, Plan
from service.query.sql.short.grammar import identifier
from service.query.sql.types import Column, sql_type


# No slots: a cached property needs a dictionary.
@dataclass(frozen=True, kw_only=True)
class ScanWork:
    """A short statement over the scan of its table; pickles.

    Attributes:
        title: of the table, for errors.
        scan: of the columns that the statement reads.
        columns: of the scan, in the order of the answer.
        names: in the answer.
        conditions: all must be true.
        limit: most rows; None for all.
    """

    title: str
    scan: Scan
    columns: tuple[str, ...]
    names: tuple[str, ...]
    conditions: tuple[Comparison, ...]
    limit: int | None

    @classmethod
    def of(cls, plan: Plan) -> ScanWork:
        """Return the work of the plan of a short statement.

        Raises:
            ReaderError: a state file cannot be opened.
        """
        short = plan.short
        assert short is not None
        (reference,) = plan.tables
        return cls(
            title=reference.title,
            scan=reference.scan.narrowed(reference.columns),
            columns=short.columns,
            names=short.names,
            conditions=short.conditions,
            limit=short.limit,
        )

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the answer."""
        fields = zip(self.names, map(self.scan.schema.field, self.columns), strict=True)
        return pa.schema([(name, field.type) for name, field in fields])

    @property
    def answer_columns(self) -> tuple[Column, ...]:
        """The columns of the answer."""
        return tuple(Column(field.name, sql_type(field.type, identifier)) for field in self.schema)

    def content(self) -> bytes:
        """Return it as bytes."""
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)
