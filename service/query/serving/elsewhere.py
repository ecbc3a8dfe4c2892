"""A database for another process: the writes and checks of clients run in processes of their own."""

from __future__ import annotations

from dataclasses import dataclass

from catalog import Database
from catalog.references import JobPlace, SavepointReference


@dataclass(frozen=True, slots=True)
class KnownDatabase:
    """A database as another process opens it.

    Attributes:
        name: its name.
        reference: opens it.
        uids: uids of operators of which it stores only the ids.
        modified_ns: when it was modified.
        job: the place of the job that wrote it.
    """

    name: str
    reference: SavepointReference
    uids: tuple[str, ...]
    modified_ns: int
    job: JobPlace

    @classmethod
    def of(cls, database: Database) -> KnownDatabase:
        """Return what opens a database."""
        return cls(
            database.name,
            database.reference,
            tuple(database.uids.values()),
            database.modified_ns,
            database.job,
        )

    def opened(self) -> Database:
        """Return the database; opens no file."""
        return Database(self.name, self.reference, self.uids, None, self.modified_ns, self.job)
