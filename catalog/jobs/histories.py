"""The histories of the jobs of a catalog, kept while their checkpoints stay the same."""

from __future__ import annotations

import threading
from collections import OrderedDict

from catalog.jobs.grouping import Job
from catalog.jobs.history import HistoryDatabase

# Users with different grants may have different histories of one job.
_MOST = 256


class Histories:
    """The latest histories that were asked for. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, tuple[int, ...]], HistoryDatabase] = OrderedDict()

    def of(self, job: Job) -> HistoryDatabase:
        """Return the history of a job: the same one as long as its checkpoints are the same."""
        # A history keeps its databases, so no other object has their numbers.
        key = job.history, tuple(map(id, job.databases))
        with self._lock:
            found = self._known.pop(key, None) or HistoryDatabase(job)
            self._known[key] = found
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
            return found
