"""`Against`: something that tells facts about the new job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from doctor.job import Job
from doctor.versions import FlinkVersion


class Against(ABC):
    """One thing that a savepoint is compared with.

    Attributes:
        order: several of them inform in this order; what lists operators and states comes before what describes classes.
    """

    order: ClassVar[int] = 0

    @property
    @abstractmethod
    def description(self) -> str:
        """The thing as the report names it."""

    @abstractmethod
    def inform(self, new: Job, old: Job, flink: FlinkVersion) -> Job:
        """Return what is known of the new job, with what this tells.

        Args:
            new: what is known of it so far.
            old: the job that wrote the savepoint.
            flink: the version that restores it.

        Raises:
            ReaderError: it cannot be read.
        """
