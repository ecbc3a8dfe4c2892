"""`ExportRequest`: what is exported, where to, and how."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from catalog.masks.masks import Masks
from readers import KEY_GROUP
from service.base.errors import InvalidRequestError
from service.query.engines.registry import AUTO, choices
from service.tasks.copies.export.files.conversion import FORMATS, ICEBERG, NANOSECONDS, PARQUET
from service.tasks.task import TaskRequest, file_option, option


# No slots: a cached property needs a dictionary.
@dataclass(frozen=True, kw_only=True)
class ExportRequest(TaskRequest):
    """Tables to write as files: of the newest savepoint to parquet, of all, the oldest first, to iceberg and delta."""

    database: str | None = option("name or alias of the only savepoint to export", default=None)
    to: str = option(
        "folder of the export, or a URL such as s3://bucket/export; empty, or an export that goes on",
        metavar="DIR",
        longest=4000,
    )
    format: str = option(
        "Parquet files, or Iceberg or Delta tables with one version per checkpoint",
        default=PARQUET,
        choices=FORMATS,
    )
    tables: tuple[str, ...] = option(
        "tables, separated by commas, with the wildcards * and ?. If not given, all tables that do not repeat others. May be "
        "repeated.",
        default=(),
        metavar="NAMES",
        has_commas=True,
    )
    partition_by: str | None = option(
        "a folder for each key group of keyed tables", default=None, choices=(KEY_GROUP,)
    )
    nanoseconds: str | None = option(
        "type of times in nanoseconds: micros, bigint or text. micros fails on values that are finer. If not given, parquet "
        "keeps nanoseconds; iceberg and delta use micros.",
        default=None,
        choices=NANOSECONDS,
    )
    namespace: str = option(
        "namespace of the tables of iceberg and delta; the job's name if not given",
        default="",
        metavar="NAME",
    )
    catalog: str = option(
        "catalog of Iceberg: a name in ~/.pyiceberg.yaml, or a URI; if not given, catalog.db in the folder",
        default="",
        metavar="NAME",
    )
    engine: str = option(
        "engine of the export: this machine (duckdb) or a cluster. A cluster must see the savepoint and the folder.",
        default=AUTO,
        choices=choices(),
    )
    mask: str | None = file_option(
        "file of masks, as masks.toml: what stands in place of values", longest=4000
    )
    follow: bool = option(
        "wait for new checkpoints, and export each, until Ctrl-C: iceberg and delta. A checkpoint that cannot be read is left out.",
        default=False,
        only_cli=True,
    )
    interval: float = option(
        "with --follow: seconds between two looks at the folder",
        default=1.0,
        metavar="SECONDS",
        at_least=0.01,
        only_cli=True,
    )
    allow_partial: bool = option(
        "leave out the rows of files that cannot be read, and list the files; otherwise the export fails",
        default=False,
    )

    def __post_init__(self) -> None:
        TaskRequest.__post_init__(self)
        if not self.to:
            raise InvalidRequestError("to: expected where to export to, found nothing")
        if self.catalog and self.format != ICEBERG:
            raise InvalidRequestError(
                f"catalog: expected one only with the format {ICEBERG}, found {self.format}"
            )
        if self.mask is not None and self.partition_by is not None:
            raise InvalidRequestError(
                "partition_by: expected none with a mask, found _key_group, which would tell of masked keys"
            )
        if self.namespace and self.format == PARQUET:
            raise InvalidRequestError(f"namespace: expected one only with iceberg or delta, found {PARQUET}")
        if self.follow and self.format == PARQUET:
            raise InvalidRequestError(f"follow: expected it only with iceberg or delta, found {PARQUET}")
        if self.follow and self.database is not None:
            raise InvalidRequestError(f"follow: expected all checkpoints, found only {self.database}")

    @property
    def has_history(self) -> bool:
        """True if the format keeps several checkpoints of a job."""
        return self.format != PARQUET

    @cached_property
    def masks(self) -> Masks | None:
        """What stands in place of values; None for the values themselves.

        Raises:
            MaskError: the file cannot be read, or is no file of masks.
        """
        return None if self.mask is None else Masks.load(self.mask)

    @property
    def options(self) -> dict[str, Any]:
        """What must be the same when another run goes on: all that decides on the content of files."""
        masked = {} if self.masks is None else {"mask": self.masks.digest}
        return masked | {
            "tables": list(self.tables),
            "partition_by": self.partition_by,
            "nanoseconds": self.nanoseconds,
            "allow_partial": self.allow_partial,
        }
