"""What a query is going to read: EXPLAIN shows it beside the engine's plan.

For each table of the plan: splits, key groups, bytes of the savepoint and of the cache, and the conditions that reached
the scan. The numbers are those of the planned scan and of the table's extent; nothing is read for them, and files
that the query does not read may be missing. A lookup of a key counts the bytes of the key's
key group, of which it reads less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from service.query.sql.plan import Plan, TableReference


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanExplanation:
    """The scan of one table, before it is read.

    Attributes:
        table: its name, with its database.
        columns: the columns that the statement may need.
        splits, splits_total: splits to read, and splits of the whole table.
        key_groups, key_groups_total: key groups to read, and of the whole table; both are 0 if the table has none.
        bytes_to_read, bytes_total: bytes of the savepoint to read, and bytes of the whole table without the cache.
        cached_bytes: bytes to read from the cache instead.
        cache_hit: True if anything comes from the cache.
        predicate: column → the values that the scan looks for, as text.
    """

    table: str
    columns: tuple[str, ...]
    splits: int
    splits_total: int
    key_groups: int
    key_groups_total: int
    bytes_to_read: int
    bytes_total: int
    cached_bytes: int
    cache_hit: bool
    predicate: Mapping[str, tuple[str, ...]]

    def text(self) -> str:
        """Return one line of text."""
        read = [f"{self.splits:,} of {self.splits_total:,} splits"]
        if self.key_groups_total:
            read.append(f"{self.key_groups:,} of {self.key_groups_total:,} key groups")
        read.append(f"{self.bytes_to_read:,} of {self.bytes_total:,} bytes")
        read.append(f"{self.cached_bytes:,} bytes of the cache" if self.cache_hit else "not cached")
        conditions = [f"{column} IN ({', '.join(values)})" for column, values in self.predicate.items()]
        return f"{self.table}: {', '.join(read)}; {' AND '.join(conditions) or 'no condition that prunes'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The scans of a query, one per table."""

    tables: tuple[ScanExplanation, ...]

    def text(self) -> str:
        """Return one line of text per table."""
        return "".join(f"reads: {scan.text()}\n" for scan in self.tables)

    def as_json(self) -> dict[str, Any]:
        """Return the same for a JSON answer."""
        return asdict(self)


def explanation_of(plan: Plan) -> Explanation:
    """Return what a plan reads.

    Raises:
        ReaderError: the header of a state file cannot be read.
    """
    return Explanation(
        tables=tuple(_explained(reference) for reference in plan.tables if reference.database is not None)
    )


def _explained(reference: TableReference) -> ScanExplanation:
    scan = reference.scan
    whole = reference.table.extent
    return ScanExplanation(
        table=reference.title,
        columns=reference.columns or tuple(scan.schema.names),
        splits=len(scan.splits),
        splits_total=whole.splits,
        key_groups=len(scan.key_groups),
        key_groups_total=whole.key_groups,
        bytes_to_read=scan.bytes_total,
        bytes_total=whole.size_bytes,
        cached_bytes=scan.cached_bytes_total,
        cache_hit=scan.is_cached,
        predicate={column: tuple(map(repr, values)) for column, values in reference.predicate.values.items()},
    )
