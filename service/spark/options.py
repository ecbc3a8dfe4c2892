"""The options of the data source: texts of Spark → values. `source.py` says what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from catalog import Catalog, Database, HistoryDatabase, Job, NoSuchTableError, Table, connect
from catalog.follow.steps import LATEST
from readers import absolute
from service.spark.types import InvalidOptionError, Nanoseconds

_NANOSECONDS: tuple[Nanoseconds, ...] = ("error", "bigint")
_OPTIONS = frozenset({
    "path", "table", "database", "columns", "partitions", "roots", "path_map", "uids", "state_info", "jars",
    "nanoseconds",
})  # fmt: skip
OF_STREAMS = frozenset({"mode", "job", "since", "on_gone"})
CHANGES, SNAPSHOT = MODES = ("changes", "snapshot")
FAIL, RESET = ON_GONE = ("fail", "reset")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The parsed options: see `source.py`. A local path is absolute, because executors run in other folders."""

    path: str
    table: str
    database: str | None = None
    columns: tuple[str, ...] | None = None
    partitions: int = 1
    roots: tuple[str, ...] = ()
    path_map: tuple[tuple[str, str], ...] = ()
    uids: tuple[str, ...] = ()
    state_info: str | None = None
    jars: tuple[str, ...] = ()
    nanoseconds: Nanoseconds = "error"

    @classmethod
    def parse(cls, options: Mapping[str, str], known: frozenset[str] = _OPTIONS) -> SourceOptions:
        """Parse the options that Spark passes: texts, with names in lower case.

        Args:
            options: the options.
            known: names that an option may have.

        Raises:
            InvalidOptionError: an option is missing, unknown or not as documented.
        """
        unknown = sorted(set(options) - known)
        if unknown:
            raise InvalidOptionError(
                f"expected options of {', '.join(sorted(known))}; found {', '.join(unknown)}"
            )
        for name in ("path", "table"):
            if not options.get(name):
                raise InvalidOptionError(f"expected the option {name!r}, found none")
        nanoseconds = _choice("nanoseconds", options, _NANOSECONDS, "error")
        partitions = options.get("partitions", "1")
        if not partitions.isdecimal() or int(partitions) < 1:
            raise InvalidOptionError(f"expected partitions of 1 or more, found {partitions!r}")
        return cls(
            path=absolute(options["path"]),
            table=options["table"],
            database=options.get("database"),
            columns=_columns(options.get("columns")),
            partitions=int(partitions),
            roots=_texts("roots", options),
            path_map=_pairs("path_map", options),
            uids=_texts("uids", options),
            state_info=options.get("state_info") or None,
            jars=_texts("jars", options),
            nanoseconds="bigint" if nanoseconds == "bigint" else "error",
        )

    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the rows."""
        return self.open_table().scan(self.columns).schema

    def open_table(self) -> Table:
        """Open the table: read `_metadata` and headers of state files, but no state.

        Raises:
            CatalogError: there is no such database or table.
            ReaderError: the savepoint cannot be read.
        """
        return self._database(self.catalog()).table(self.table)

    def catalog(self) -> Catalog:
        """Return the catalog of the path.

        Raises:
            ReaderError: nothing is there, or no savepoint.
        """
        known: dict[str, Any] = {"uids": self.uids, "state_info": self.state_info, "jars": self.jars}
        return connect(self.path, roots=self.roots, path_map=dict(self.path_map), **known)

    def _database(self, catalog: Catalog) -> Database | HistoryDatabase:
        if self.database is not None:
            return catalog.schema(self.database).database
        default = catalog.default
        if default is None:
            known = ", ".join(catalog.databases) or "none"
            raise NoSuchTableError(self.table, where=f"{self.path}: name the database, of {known}")
        return default


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """The parsed options of a stream: see `source.py`.

    Attributes:
        source: those that a table has, too.
    """

    source: SourceOptions
    mode: str
    job: str | None = None
    since: str = LATEST
    on_gone: str = FAIL

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> StreamOptions:
        """Parse the options that Spark passes: texts, with names in lower case.

        Raises:
            InvalidOptionError: an option is missing, unknown or not as documented.
        """
        source = SourceOptions.parse(
            {name: text for name, text in options.items() if name not in OF_STREAMS},
            (_OPTIONS | OF_STREAMS) - {"database", "columns"},
        )
        return cls(
            source=source,
            mode=_choice("mode", options, MODES, ""),
            job=options.get("job") or None,
            since=options.get("since") or LATEST,
            on_gone=_choice("on_gone", options, ON_GONE, FAIL),
        )

    def job_of(self, catalog: Catalog) -> Job:
        """Return the job that is followed.

        Raises:
            CatalogError: there is no such job.
            InvalidOptionError: there are several, or none, and none is named.
        """
        if self.job is not None:
            return catalog.job(self.job)
        jobs = catalog.jobs()
        if len(jobs) != 1:
            names = ", ".join(job.name for job in jobs) or "none"
            raise InvalidOptionError(
                f"expected the option 'job', because the path has several; found {names}"
            )
        return jobs[0]


def _choice(name: str, options: Mapping[str, str], allowed: Sequence[str], default: str) -> str:
    value = options.get(name, default).lower()
    if value not in allowed:
        raise InvalidOptionError(f"expected {name} of {', '.join(allowed)}, found {value!r}")
    return value


def _columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    if text.lstrip().startswith("["):
        return _texts("columns", {"columns": text})
    return tuple(name.strip() for name in text.split(","))


def _texts(name: str, options: Mapping[str, str]) -> tuple[str, ...]:
    found = _json(name, options.get(name, "[]"))
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise InvalidOptionError(f"expected {name} to be a JSON array of texts")
    return tuple(found)


def _pairs(name: str, options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    found = _json(name, options.get(name, "{}"))
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise InvalidOptionError(f"expected {name} to be a JSON object of texts")
    return tuple(found.items())


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidOptionError(f"expected {name} to be JSON: {error}") from error
