"""`CreateRequest`, `WriteRequest`: which savepoint is written, by which script, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.base.errors import InvalidRequestError
from service.query.engines.registry import AUTO, work_choices
from service.tasks.request import TaskRequest, option
from writers import FilesMode

FILES = tuple(mode.value for mode in FilesMode)
NO_TARGET = "target: expected DIR, the directory of the new savepoint; a dry run needs none"
_LONGEST_SCRIPT = 1 << 30  # settings limit it further


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest(TaskRequest):
    """A savepoint to create: a script of CREATE TABLE … AS SELECT …, which may read files and other savepoints."""

    target: str | None = option(
        "directory of the new savepoint, or a URL; nothing may be there",
        default=None,
        argument=True,
        metavar="DIR",
        longest=4000,
    )
    sql: str = option(
        "statements with semicolons between them: CREATE TABLE operator__state (…) WITH (…) AS SELECT … FROM 'counts.parquet'; "
        "- reads them from standard input",
        argument=True,
        metavar="SCRIPT",
        longest=_LONGEST_SCRIPT,
        reads_input=True,
        file="file",
    )
    dry_run: bool = option("show what would be written, and write nothing", default=False)
    flink: str | None = option(
        "Flink that will restore it, such as 1.20 or 2.3; any if not given",
        default=None,
        metavar="VERSION",
        longest=50,
    )
    engine: str = option(
        "what makes the state that changes: this process, or a cluster whose machines see the source and the new savepoint",
        default=AUTO,
        choices=work_choices(),
    )
    parallelism: int = option(
        "subtasks of each operator that is created, unless its WITH says it",
        default=1,
        at_least=1,
        metavar="N",
    )
    max_parallelism: int = option(
        "key groups of each operator that is created, unless its WITH says it",
        default=128,
        at_least=1,
        metavar="N",
    )

    def __post_init__(self) -> None:
        TaskRequest.__post_init__(self)
        if not (self.target or self.dry_run):
            raise InvalidRequestError(NO_TARGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest(CreateRequest):
    """A savepoint to change, and the script that changes it."""

    database: str | None = option(
        "name or alias of the savepoint to write from; it is only read", default=None
    )
    target: str | None = option(
        "directory of the new savepoint, or a URL; nothing may be there",
        default=None,
        flag="to",
        metavar="DIR",
        longest=4000,
    )
    sql: str = option(
        "statements with semicolons between them: UPDATE, DELETE, INSERT, MERGE, TRUNCATE, CREATE TABLE … AS SELECT, ALTER TABLE, "
        "DROP TABLE, CALL rewind_kafka(…); - reads them from standard input",
        argument=True,
        metavar="SCRIPT",
        longest=_LONGEST_SCRIPT,
        reads_input=True,
        file="file",
    )
    flink: str | None = option(
        "Flink that will restore it, such as 1.20; the source's if not given",
        default=None,
        metavar="VERSION",
        longest=50,
    )
    files: str = option(
        "how files come along: as hard links (copies where there are none), as copies, or not at all: the new savepoint then refers "
        "to the source's files, which Flink deletes if it claims the savepoint",
        default=FilesMode.LINK.value,
        choices=FILES,
    )
    expect: Mapping[str, int] = option(
        "write only if so many rows of the table change; may be repeated",
        default={},
        at_least=0,
        metavar="TABLE=ROWS",
    )
    allow_empty: bool = option(
        "write also where a statement, or the script, finds nothing to change", default=False
    )
