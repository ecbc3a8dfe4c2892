"""Schemas that follow a job: `latest` is the newest savepoint of all, `<label>_latest` the newest under the roots with that label.

The newest is the one whose `_metadata` was modified last: Flink writes that file once, when all else is there. Where several
were modified at the same moment (object stores tell seconds), it is the one with the highest checkpoint id. Only what lies under a
root counts, not what was registered by name.
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
    """A name that SQL may call a database by.

    Attributes:
        name: of the database, or an alias.
        database: what it stands for now.
    """

    name: str
    database: Database

    @property
    def alias_of(self) -> str | None:
        """The name of the database; None where the schema has just that name."""
        return self.database.name if self.name != self.database.name else None


class Dated(NamedTuple):
    """A database under a root.

    `modified_ns` is that of its `_metadata`, since 1970; 0 where the file system does not tell.
    """

    database: Database
    label: str
    modified_ns: int


def aliases_of(dated: Sequence[Dated]) -> dict[str, list[Dated]]:
    """Alias → what it is the newest of; `latest` first."""
    aliases: dict[str, list[Dated]] = {LATEST: list(dated)} if dated else {}
    spelled: dict[str, str] = {}
    for one in dated:
        if one.label:
            name = spelled.setdefault(one.label.casefold(), f"{one.label}_{LATEST}")
            aliases.setdefault(name, []).append(one)
    return aliases


def newest_of(dated: Iterable[Dated]) -> Database:
    """The newest of some. Where they are as old as each other, their `_metadata` is read; else no file is."""
    candidates = list(dated)
    last = max(one.modified_ns for one in candidates)
    newest = [one.database for one in candidates if one.modified_ns == last]
    return newest[0] if len(newest) == 1 else max(reversed(newest), key=_checkpoint_id)


def _checkpoint_id(database: Database) -> int:
    try:
        return database.checkpoint_id
    except ReaderError:
        return _UNREADABLE
