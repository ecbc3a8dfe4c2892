"""`savepointdb create`: a new savepoint, whose states come from queries."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from service.doors.cli.outcome import WrongUsageError, ended
from service.doors.cli.writing.write import execute, script_of
from service.query.engines.engine import task_folder
from service.tasks.write.writing import WriteRequest, write_new_source

_NEW = "new"


def main(options: Namespace) -> int:
    """Create a savepoint, or show what would be written; return the exit code."""
    return ended(_create, options)


def _create(options: Namespace) -> None:
    others = list(options.others or ())
    if any(source.partition("=")[0] == _NEW for source in others):
        raise WrongUsageError(
            f"--savepoint: expected another name than {_NEW}, the name of the new savepoint"
        )
    request = WriteRequest(
        sql=script_of(options),
        flink=options.flink,
        database=_NEW,
        # Whoever calls the program may read its files.
        reads_files=True,
        parallelism=options.parallelism,
        max_parallelism=options.max_parallelism,
        engine=options.engine,
    )
    with task_folder("") as folder:
        write_new_source(Path(folder.path), options.flink)
        execute([f"{_NEW}={folder.path}", *others], options, request, options.target)
