"""New checkpoints, as they come."""

from __future__ import annotations

from catalog import Catalog, Database
from service.tasks.test.selection import Subject, subject_of


class Watch:
    """Looks at the roots again and again. At first the newest savepoint of each job is new, then whatever was not there before.

    Args:
        catalog: the savepoints.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._seen: set[tuple[str, int]] = set()
        self._is_first = True

    def look(self) -> list[Subject]:
        """Return the new savepoints, those of each job from the oldest to the newest.

        Raises:
            ReaderError: a root is missing, or cannot be listed; the next look may find what is new since the last one.
        """
        if not self._is_first:
            self._catalog.refresh()
        found: list[Subject] = []
        known: set[tuple[str, int]] = set()
        for job in self._catalog.jobs():
            versions = [_version(database) for database in job.databases]
            known |= set(versions)
            count = 1 if self._is_first else len(versions)
            found += [
                subject_of(job, place)
                for place in reversed(range(count))
                if versions[place] not in self._seen
            ]
        # What is gone needs not be remembered.
        self._seen = known
        self._is_first = False
        return found


def _version(database: Database) -> tuple[str, int]:
    return database.path, database.modified_ns
