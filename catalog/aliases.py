"""Aliases that follow a job: `latest` is the newest savepoint of all, `<label>_latest` the newest under the root with that label.

The newest savepoint is the one whose `_metadata` was modified last: Flink writes that file once, after all others. Of checkpoints in
one folder it is the one with the highest number: a copied folder has any times (`ages_of`). Of several of the same moment (object
stores give whole seconds), it is the one with the highest checkpoint id. One whose `_metadata` cannot be read is skipped: the schema
and the log name it. Only savepoints under a root count, not those that were added by name.

Aliases: other names by which a database is called, as long as only one database has them.

| alias | of |
|---|---|
| `latest`, `<label>_latest`, `<job>_latest` | the newest savepoint: of all, under the root with that label, of the job in that folder |
| `chk-4`, `jobA/chk-4`, `jobA__chk-4` | a savepoint whose path ends so |
| `prod/jobA/chk-4` | the label and the path, as Flink's own catalog writes them |
| `prod/2026-09-01T12:00:00Z/jobA/chk-4` | the same with the time of `_metadata` |

No folder can take the meaning of another alias away, or of a name: `latest` and `<label>_latest` are fixed, and what begins with
the label of a root is under that root, or is nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from catalog.database import Database
from catalog.history import HistoryDatabase, Job, ages_of, counter_of
from catalog.references import SEPARATOR, database_name
from catalog.table import TableOwner
from readers import ReaderError

LATEST = "latest"
_Owner = TypeVar("_Owner", bound=TableOwner)
logger = logging.getLogger("savepointdb")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A database that is newer than the one that an alias stands for, and cannot be read.

    Attributes:
        name: of the database.
        error: the reason.
    """

    name: str
    error: ReaderError


@dataclass(frozen=True, slots=True)
class Schema(Generic[_Owner]):
    """A name by which SQL may call a database, or the history of a job.

    Attributes:
        name: of the database or the history, or an alias.
        database: what the name stands for now.
        skipped: newer databases that an alias such as `latest` would stand for if they could be read, the newest first.
    """

    name: str
    database: _Owner
    skipped: tuple[Skipped, ...] = field(default=(), compare=False)

    @property
    def alias_of(self) -> str | None:
        """The name of the database; None where the schema has that name itself."""
        return self.database.name if self.name != self.database.name else None


DatabaseSchema: TypeAlias = Schema[Database]
AnySchema: TypeAlias = Schema[Database] | Schema[HistoryDatabase]


class RootDatabase(NamedTuple):
    """A database under a root.

    Attributes:
        database: the database.
        label: of the root.
        modified_ns: when its `_metadata` was modified, since 1970; 0 where the file system does not say.
        folders: below the root, outermost first; empty if the root is the savepoint.
        tail: the last folders of its path, by which it may be called.
        has_latest: whether `<label>_latest` is listed, which would say nothing new of an only root, or of a root that is a
            savepoint.
    """

    database: Database
    label: str
    modified_ns: int
    folders: tuple[str, ...]
    tail: tuple[str, ...]
    has_latest: bool


def aliases_of(databases: Sequence[RootDatabase]) -> dict[str, list[RootDatabase]]:
    """Return alias → the databases of which it is the newest; `latest` first."""
    aliases: dict[str, list[RootDatabase]] = {LATEST: list(databases)} if databases else {}
    for one in databases:
        aliases.setdefault(f"{database_name(one.label)}_{LATEST}", []).append(one)
    return aliases


def newest_of(alias: str, databases: Iterable[RootDatabase]) -> DatabaseSchema:
    """Return what an alias for the newest database stands for: the newest whose `_metadata` can be read, or the newest if none can.

    Logs those that it skips. Reads `_metadata` of the newest one, and of those of the same moment in other folders.
    """
    rooted = list(databases)
    ages = ages_of(one.database for one in rooted)
    candidates = sorted(rooted, key=lambda one: ages[one.database], reverse=True)
    skipped: list[Skipped] = []
    for _, group in groupby(candidates, key=lambda one: ages[one.database][0]):
        readable: dict[str, Database] = {}
        for one in group:
            counter = counter_of(one.database)
            if counter in readable:
                continue
            try:
                one.database.describe()
            except ReaderError as error:
                # One that was removed is not broken: the catalog looks at the roots again.
                if one.database.is_gone:
                    return Schema(alias, one.database)
                skipped.append(Skipped(one.database.name, error))
            else:
                readable[counter] = one.database
        if readable:
            newest = max(reversed(readable.values()), key=lambda database: database.checkpoint_id)
            for broken in skipped:
                _log_skipped(broken.name, newest.name, str(broken.error))
            return Schema(alias, newest, tuple(skipped))
    return Schema(alias, candidates[0].database)


# Once for each savepoint that cannot be read, not at each query.
@lru_cache(maxsize=1000)
def _log_skipped(name: str, newest: str, error: str) -> None:
    logger.warning(
        "savepointdb: %s is the latest that can be read; %s is newer, but: %s", newest, name, error
    )


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d(:?\d\d)?)", re.IGNORECASE)
_JOB_LATEST = f"_{LATEST}"
_NANOSECONDS = 1_000_000_000


def schemas_called(
    name: str, databases: Sequence[RootDatabase], labels: Collection[str], jobs: Callable[[], Sequence[Job]]
) -> list[DatabaseSchema]:
    """Return the databases that an alias in any case may mean: none, one, or several that it does not tell apart.

    Args:
        name: the alias.
        databases: under all roots.
        labels: of all roots.
        jobs: returns the jobs of the databases.
    """
    folded = name.casefold()
    for alias, candidates in aliases_of(databases).items():
        if alias.casefold() == folded:
            return [newest_of(alias, candidates)]
    first, *rest = parts = folded.split("/")
    reserved = {label.casefold() for label in labels}
    if first in reserved:
        return [
            Schema("/".join((one.label, *one.folders)), one.database)
            for one in databases
            if first == one.label.casefold() and _is_at(one, rest)
        ]
    if "/" not in folded and folded.split(SEPARATOR)[0] in {
        database_name(label).casefold() for label in reserved
    }:
        return []
    tails = [
        Schema("/".join(one.tail[-len(parts) :]), one.database)
        for one in databases
        if _ends_with(one, folded, tuple(parts))
    ]
    return [*tails, *_latest_of_jobs(folded, databases, jobs)]


def upstream_name(one: RootDatabase) -> str:
    """Return the name of a database in Flink's State Catalog: label, time of `_metadata`, and path below the root."""
    made = datetime.fromtimestamp(one.modified_ns // _NANOSECONDS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return "/".join((one.label, *([made] if one.modified_ns else []), *one.folders))


def _is_at(one: RootDatabase, rest: Sequence[str]) -> bool:
    if _folded(one.folders) == tuple(rest):
        return True
    if not rest or not _TIME.fullmatch(rest[0]) or _folded(one.folders) != tuple(rest[1:]):
        return False
    try:
        seconds = datetime.fromisoformat(rest[0].upper()).timestamp()
    except ValueError:
        return False
    return int(seconds) == one.modified_ns // _NANOSECONDS


def _ends_with(one: RootDatabase, folded: str, parts: tuple[str, ...]) -> bool:
    return _folded(one.tail[-len(parts) :]) == parts or one.database.name.casefold().endswith(
        SEPARATOR + folded
    )


def _latest_of_jobs(
    folded: str, databases: Sequence[RootDatabase], jobs: Callable[[], Sequence[Job]]
) -> Iterator[DatabaseSchema]:
    """Yield the newest savepoint of each job whose name is before `_latest`: several jobs may have one title."""
    if not folded.endswith(_JOB_LATEST):
        return
    wanted = folded.removesuffix(_JOB_LATEST)
    rooted = {id(one.database): one for one in databases}
    for job in jobs():
        candidates = [rooted[id(one)] for one in job.databases if id(one) in rooted]
        if candidates and job.is_called(wanted):
            yield newest_of(f"{job.title}{_JOB_LATEST}", candidates)


def _folded(folders: Sequence[str]) -> tuple[str, ...]:
    return tuple(folder.casefold() for folder in folders)
