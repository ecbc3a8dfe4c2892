"""Aliases that follow a job: `latest` is the newest savepoint of all, `<label>_latest` the newest under the root with that label.

The newest savepoint is the one whose `_metadata` was modified last: Flink writes that file once, after all others. Of several
that were modified at the same moment (object stores give whole seconds), it is the one with the highest checkpoint id. One whose
`_metadata` cannot be read is skipped: the schema and the log name it. Only savepoints under a root count, not those that were added
by name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from catalog.database import Database
from catalog.jobs.history import HistoryDatabase
from catalog.naming import database_name
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

    Logs those that it skips. Reads `_metadata` of the newest one, and of those that were modified at the same moment.
    """
    candidates = sorted(databases, key=lambda one: one.modified_ns, reverse=True)
    skipped: list[Skipped] = []
    for _, group in groupby(candidates, key=lambda one: one.modified_ns):
        readable = []
        for one in group:
            try:
                one.database.describe()
            except ReaderError as error:
                # One that was removed is not broken: the catalog looks at the roots again.
                if one.database.is_gone:
                    return Schema(alias, one.database)
                skipped.append(Skipped(one.database.name, error))
            else:
                readable.append(one.database)
        if readable:
            newest = max(reversed(readable), key=lambda database: database.checkpoint_id)
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
