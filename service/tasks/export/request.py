"""`ExportRequest`: what is exported, where to, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from readers import KEY_GROUP
from service.base.errors import InvalidRequestError
from service.query.engines.registry import AUTO
from service.tasks.export.files.conversion import FORMATS, ICEBERG, NANOSECONDS, PARQUET


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """An export.

    Attributes:
        to: a folder of this machine, or the URL of a prefix of an object store.
        format: `parquet`, `iceberg` or `delta`.
        tables: names of tables, or patterns with `*`; empty for all that do not repeat others.
        partition_by: `_key_group` for a folder for each key group of a table; None for none.
        nanoseconds: `micros`, `bigint` or `text`; None for what the format has.
        allow_partial: whether rows of files that cannot be read are left out, and named.
        engine: what reads and writes.
        namespace: of the tables of Iceberg and Delta; empty for the name of the job.
        catalog: name or URI of an Iceberg catalog; empty for one in the folder itself.

    Raises:
        InvalidRequestError: they contradict each other, or one has a wrong value.
    """

    to: str
    format: str = PARQUET
    tables: tuple[str, ...] = ()
    partition_by: str | None = None
    nanoseconds: str | None = None
    allow_partial: bool = False
    engine: str = AUTO
    namespace: str = ""
    catalog: str = ""

    def __post_init__(self) -> None:
        if not self.to:
            raise InvalidRequestError("expected where to export to, found nothing")
        _check("format", self.format, FORMATS)
        if self.nanoseconds is not None:
            _check("nanoseconds", self.nanoseconds, NANOSECONDS)
        if self.partition_by is not None:
            _check("partition by", self.partition_by, (KEY_GROUP,))
        if self.catalog and self.format != ICEBERG:
            raise InvalidRequestError(
                f"expected a catalog only with the format {ICEBERG}, found {self.format}"
            )
        if self.namespace and self.format == PARQUET:
            raise InvalidRequestError(f"expected a namespace only with iceberg or delta, found {PARQUET}")

    @property
    def has_history(self) -> bool:
        """True if the format keeps several checkpoints of a job."""
        return self.format != PARQUET

    @property
    def options(self) -> dict[str, Any]:
        """What must be the same when another run goes on: all that decides on the content of files."""
        return {
            "tables": list(self.tables),
            "partition_by": self.partition_by,
            "nanoseconds": self.nanoseconds,
            "allow_partial": self.allow_partial,
        }


def _check(what: str, found: str, known: tuple[str, ...]) -> None:
    if found not in known:
        raise InvalidRequestError(f"{what}: expected {', '.join(known)}, found {found!r:.100}")
