"""What a query is going to read, told before it does: the answer of EXPLAIN beside the engine's plan.

For each table of the plan: splits, key groups, bytes of the savepoint and of the cache, and the conditions that reached
the scan. The numbers are those of the scan that would be opened, with nothing read yet; the bytes of a lookup of a key
are those of its key group, of which it reads less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from service.sql.plan import Plan, TableReference


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is read of a table.

    Attributes:
        table: with its database.
        columns: that the statement may need.
        splits, splits_total: to read, and of the whole table.
        key_groups, key_groups_total: to read, and of the whole table; 0 of 0 where it has none.
        bytes_to_read, bytes_total: of the savepoint, and of a scan of the whole table without the cache.
        cached_bytes: of the cache, in place of bytes of the savepoint.
        cache_hit: whether any of it comes from the cache.
        predicate: column → the values of which it must have one, as text.
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
        """One line."""
        read = [f"{self.splits:,} of {self.splits_total:,} splits"]
        if self.key_groups_total:
            read.append(f"{self.key_groups:,} of {self.key_groups_total:,} key groups")
        read.append(f"{self.bytes_to_read:,} of {self.bytes_total:,} bytes")
        read.append(f"{self.cached_bytes:,} bytes of the cache" if self.cache_hit else "not cached")
        conditions = [f"{column} IN ({', '.join(values)})" for column, values in self.predicate.items()]
        return f"{self.table}: {', '.join(read)}; {' AND '.join(conditions) or 'no condition that prunes'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a query is going to read."""

    tables: tuple[Reading, ...]

    def text(self) -> str:
        """A line a table."""
        return "".join(f"reads: {reading.text()}\n" for reading in self.tables)

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return asdict(self)


def explanation_of(plan: Plan) -> Explanation:
    """What a plan reads.

    Raises:
        ReaderError: the headers of a state file cannot be read.
    """
    return Explanation(
        tables=tuple(
            _reading(reference, reference.database.name)
            for reference in plan.tables
            if reference.database is not None
        )
    )


def _reading(reference: TableReference, database: str) -> Reading:
    scan = reference.scan
    whole = reference.table.plan() if reference.predicate.values else scan
    return Reading(
        table=f"{database}.{reference.table.name}",
        columns=reference.columns or tuple(scan.schema.names),
        splits=len(scan.parts),
        splits_total=len(whole.parts),
        key_groups=len(scan.key_groups),
        key_groups_total=len(whole.key_groups),
        bytes_to_read=scan.bytes_total,
        bytes_total=sum(split.origin_bytes for split in whole.parts),
        cached_bytes=scan.cached_bytes_total,
        cache_hit=scan.is_cached,
        predicate={column: tuple(map(repr, values)) for column, values in reference.predicate.values.items()},
    )
