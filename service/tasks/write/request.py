"""`CreateRequest`, `WriteRequest`: which savepoint is written, by which script, and how.

Importing this module makes the errors of the writers known, as users see them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from catalog import Database
from readers import ReaderError
from service.base import errors
from service.query.engines.registry import AUTO, work_choices
from service.tasks.task import TaskRequest, file_option, option
from writers import FilesMode, TargetError, TargetExistsError, WriterError, newest_version

_LONGEST_SCRIPT = 1 << 30  # settings limit it further


def target_option(**about: Any) -> Any:
    """Return the option that names the new savepoint."""
    what = "new savepoint, a directory or URL; must not exist yet"
    return option(what, default=None, metavar="DIR", longest=4000, **about)


def files_option(which: str, end: str = "") -> Any:
    """Return the option that says how files come along."""
    what = (
        f"how {which} come along: as hard links (copies where there are none), as copies, or not at all{end}"
    )
    return option(what, default=FilesMode.LINK.value, choices=tuple(mode.value for mode in FilesMode))


def check_target(target: str | None, *, dry_run: bool) -> None:
    """Check that a write has a target, unless it is a dry run."""
    if not (target or dry_run):
        raise errors.InvalidRequestError(
            "target: expected DIR, the directory of the new savepoint; a dry run needs none"
        )


def _script(statements: str) -> Any:
    what = f"statements with semicolons between them: {statements}; - reads them from standard input"
    about = {"metavar": "SCRIPT", "longest": _LONGEST_SCRIPT, "reads_input": True, "file": "file"}
    return option(what, argument=True, **about)


def _flink(without: str) -> Any:
    what = f"Flink that will restore it, such as 1.20 or 2.3; {without} if not given"
    return option(what, default=None, metavar="VERSION", longest=50)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest(TaskRequest):
    """A savepoint to create: a script of CREATE TABLE … AS SELECT …, which may read files and other savepoints."""

    target: str | None = target_option(argument=True)
    sql: str = _script("CREATE TABLE operator__state (…) WITH (…) AS SELECT … FROM 'counts.parquet'")
    dry_run: bool = option("show what would be written, and write nothing", default=False)
    flink: str | None = _flink("any")
    engine: str = option(
        "engine that makes the changed state: this process or a cluster. A cluster must see the source and the new savepoint.",
        default=AUTO,
        choices=work_choices(),
    )
    parallelism: int = option(
        "parallelism of created operators, unless their WITH sets it", default=1, at_least=1, metavar="N"
    )
    max_parallelism: int = option(
        "maximum parallelism of created operators, unless their WITH sets it",
        default=128,
        at_least=1,
        metavar="N",
    )

    def __post_init__(self) -> None:
        TaskRequest.__post_init__(self)
        check_target(self.target, dry_run=self.dry_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest(CreateRequest):
    """A savepoint to change, and the script that changes it."""

    database: str | None = option("name or alias of the source savepoint; it is only read", default=None)
    target: str | None = target_option(flag="to")
    sql: str = _script(
        "UPDATE, DELETE, INSERT, MERGE, TRUNCATE; DELETE KEY, RENAME KEY; CREATE TABLE … AS SELECT, ALTER TABLE, DROP TABLE; "
        "COPY OPERATOR; CALL rewind_kafka(…)"
    )
    flink: str | None = _flink("the source's")
    files: str = files_option(
        "files",
        ". With reference, the new savepoint needs the source's files; Flink deletes these if it claims it.",
    )
    expect: Mapping[str, int] = option(
        "write only if exactly ROWS rows of the table change; may be repeated",
        default={},
        at_least=0,
        metavar="TABLE=ROWS",
    )
    mask: str | None = file_option(
        "file of masks: values and keys that the new savepoint has others for", longest=4000, only_cli=True
    )
    allow_empty: bool = option("write even if a statement or the script changes nothing", default=False)


def written_version(database: Database, flink: str | None) -> int:
    """Return the version of `_metadata` that a script over a savepoint writes."""
    own = database.savepoint.metadata.version
    return own if flink is None else min(own, newest_version(release_of(flink)))


def release_of(flink: str) -> tuple[int, int]:
    """Return the major and minor number of a version of Flink.

    Raises:
        InvalidRequestError: it is none.
    """
    major, _, rest = flink.partition(".")
    minor = rest.partition(".")[0]
    if not (major.isdecimal() and minor.isdecimal()):
        raise errors.InvalidRequestError(f"expected a version of Flink such as 1.20 or 2.3, found {flink!r}")
    return int(major), int(minor)


errors.translate(WriterError, errors.InvalidQueryError, "REFUSED_WRITE")
errors.translate(TargetError, errors.QueryError, "TARGET_FAILED")
errors.translate(TargetExistsError, errors.ConflictError, "TARGET_EXISTS")

write_errors = partial(errors.translated, ReaderError, WriterError)
"""Raises errors of the readers and writers as those of the service."""
