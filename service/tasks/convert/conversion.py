"""A plan → a preview, or a new savepoint that was read back."""

from __future__ import annotations

import os
from collections.abc import Callable

from readers import ReaderError, Savepoint
from service.base.process import machine
from service.tasks.convert.plan import Plan
from service.tasks.convert.verification import verify_converted
from service.tasks.write.errors import write_error_of
from writers import FilesMode, SavepointWriter, Summary, WriterError


class Conversion:
    """A savepoint and the plan of its conversion; nothing was written yet.

    Args:
        savepoint: the source.
        plan: what is written anew.
        files: how the files of the source come along.

    Raises:
        QueryError: the source cannot be written again.
    """

    def __init__(self, savepoint: Savepoint, plan: Plan, files: FilesMode = FilesMode.LINK) -> None:
        self._plan = plan
        try:
            self._writer = SavepointWriter(
                savepoint.location, plan.edits, files, opened=savepoint, threads=machine.cores()
            )
        except (ReaderError, WriterError) as error:
            raise write_error_of(error) from error

    @property
    def summary(self) -> Summary:
        """The new savepoint in numbers.

        Raises:
            QueryError: a file of the source is damaged.
        """
        try:
            return self._writer.summary
        except (ReaderError, WriterError) as error:
            raise write_error_of(error) from error

    def write(
        self, target: str | os.PathLike[str], check: Callable[[Savepoint], None] = lambda new: None
    ) -> Summary:
        """Write the new savepoint, and read it back before Flink can find it.

        Args:
            target: its place.
            check: looks at it after that.

        Raises:
            QueryError: something is there, it cannot be written, or a file of the source vanished.
        """

        def verify(new: Savepoint) -> None:
            verify_converted(new, self._plan.converted)
            check(new)

        try:
            return self._writer.write(target, verify)
        except (ReaderError, WriterError) as error:
            raise write_error_of(error) from error
