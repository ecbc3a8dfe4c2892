"""Aliases that follow a job: `latest` is the newest savepoint of all, `<label>_latest` the newest under the roots with that label.

The newest savepoint is the one whose `_metadata` was modified last: Flink writes that file once, after all others. Of several
that were modified at the same moment (object stores give whole seconds), it is the one with the highest checkpoint id. Only
savepoints under a root count, not those that were added by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from catalog.database import Database
from readers import ReaderError

LATEST = "latest"
_UNREADABLE = -1


@dataclass(frozen=True, slots=True)
class Schema:
    """A name by which SQL may call a database.

    Attributes:
        name: of the database, or an alias.
        database: what the name stands for now.
    """

    name: str
    database: Database

    @property
    def alias_of(self) -> str | None:
        """The name of the database; None where the schema has that name itself."""
        return self.database.name if self.name != self.database.name else None


class RootDatabase(NamedTuple):
    """A database under a root.

    Attributes:
        database: the database.
        label: of the root.
        modified_ns: when its `_metadata` was modified, since 1970; 0 where the file system does not say.
    """

    database: Database
    label: str
    modified_ns: int


def aliases_of(databases: Sequence[RootDatabase]) -> dict[str, list[RootDatabase]]:
    """Return alias → the databases of which it is the newest; `latest` first."""
    aliases: dict[str, list[RootDatabase]] = {LATEST: list(databases)} if databases else {}
    spelled: dict[str, str] = {}
    for one in databases:
        if one.label:
            # Labels that differ only in case are one label: names are compared without case.
            name = spelled.setdefault(one.label.casefold(), f"{one.label}_{LATEST}")
            aliases.setdefault(name, []).append(one)
    return aliases


def newest_of(databases: Iterable[RootDatabase]) -> Database:
    """Return the newest database; reads `_metadata` only of those that were modified at the same moment."""
    candidates = list(databases)
    last = max(one.modified_ns for one in candidates)
    newest = [one.database for one in candidates if one.modified_ns == last]
    return newest[0] if len(newest) == 1 else max(reversed(newest), key=_checkpoint_id)


def _checkpoint_id(database: Database) -> int:
    try:
        return database.checkpoint_id
    except ReaderError:
        return _UNREADABLE
