"""`forget`: a savepoint, and ids → a new savepoint without all that belongs to them, a report, and the proof that nothing is left.

The report has no id and no value: it may be kept for longer than the data.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson

from catalog import CatalogError, Database, connect
from catalog.masks.masks import Masks
from readers import Leftovers, Savepoint, files_of, find_leftovers
from service.base import machine
from service.base.errors import InvalidRequestError, Position, translated
from service.query.encode import counted, printable, size_text
from service.tasks.check.running import check_lines
from service.tasks.copies.forget.rows import ForgetIds, IdChanges
from service.tasks.copies.sample.choices import keys_in
from service.tasks.task import Context, Task, TaskRequest, option
from service.tasks.write.request import WriteRequest, check_target, target_option
from service.tasks.write.writing import Writing, Written, summary_lines

_LONGEST_PATH = 4_096
_MOST_IDS = 1_000_000
_NAME = "ids"  # stands for a table in the effect
_PIECE_BYTES = 1 << 20
_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRequest(TaskRequest):
    """A savepoint, and the ids that a new one has nothing of."""

    database: str | None = option("name or alias of the savepoint; it is only read", default=None)
    target: str | None = target_option(flag="to")
    keys: str = option("CSV file of ids, in its first column", metavar="FILE", longest=_LONGEST_PATH)
    group: tuple[str, ...] = option(
        "group of columns that have ids, of the file of masks; may be repeated. Default: the keys of all operators",
        default=(),
        metavar="NAME",
    )
    masks: str | None = option(
        "file with the columns of groups, such as masks.toml",
        default=None,
        metavar="FILE",
        longest=_LONGEST_PATH,
    )
    report: str | None = option(
        "file for the report, which has no id and no value; must not exist yet",
        default=None,
        metavar="FILE",
        longest=_LONGEST_PATH,
    )
    verify: bool = option(
        "search the new savepoint for the ids, or without a target this one: its rows, and all bytes of its files",
        default=False,
    )
    dry_run: bool = option("show what would be removed, and write nothing", default=False)
    allow_empty: bool = option("write even if nothing of the ids is found", default=False)

    def __post_init__(self) -> None:
        TaskRequest.__post_init__(self)
        check_target(self.target, dry_run=self.dry_run or self.verify)
        if bool(self.group) != (self.masks is not None):
            raise InvalidRequestError("expected group and masks together, found one of them")


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedFile:
    """A file of a savepoint.

    Attributes:
        path: in its folder; of a file elsewhere, its whole path.
        size_bytes: its size.
        sha256: of its bytes, as hexadecimal digits.
    """

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What was removed, and what is left.

    Attributes:
        ids: how many there are.
        held: how many of them a state had.
        written: what was written, or would be; None if a savepoint was only searched.
        before, after: the files of the savepoint and of the new one; empty if nothing was written.
        rows_left: rows that still belong to ids, by states; None if nothing was searched.
        left: what the search of all bytes found; None if nothing was searched.
    """

    ids: int
    held: int
    written: Written | None
    before: tuple[HashedFile, ...] = ()
    after: tuple[HashedFile, ...] = ()
    rows_left: tuple[tuple[str, int], ...] | None = None
    left: Leftovers | None = None

    @property
    def is_proven(self) -> bool | None:
        """Whether a search found nothing, could read all, and searched for all ids; None if there was none."""
        if self.left is None:
            return None
        left = self.left
        return not (self.rows_left or left.found or left.unread or left.unsearched)

    @property
    def exit_code(self) -> int:
        """1 if a search found something of the ids, or could not search all."""
        return int(self.is_proven is False)

    def to_dict(self) -> dict[str, Any]:
        """Return the report; it has no id and no value.

        | member | content |
        |---|---|
        | `target`, `dry_run` | the new savepoint; null if nothing was written |
        | `ids`, `held` | how many ids there are, and how many of them a state had |
        | `removed` | of each state: `table`, `rows`, `text` |
        | `files_before`, `files_after` | of each file: `path`, `size_bytes`, `sha256` |
        | `summary`, `check` | as of a write; null if nothing was written |
        | `verified` | `proven`, `rows`, `bytes`, `unread`, `unsearched`, `files`, `searched_bytes`; null without a search |
        """
        written = self.written
        return {
            "target": None if written is None else written.target,
            "dry_run": written is not None and written.target is None,
            "ids": self.ids,
            "held": self.held,
            "removed": []
            if written is None
            else [
                {"table": one.table, "rows": one.rows, "text": one.text} for one in written.effects[0].states
            ],
            "files_before": list(map(asdict, self.before)),
            "files_after": list(map(asdict, self.after)),
            "summary": None if written is None else asdict(written.summary),
            "check": None if written is None or written.check is None else written.check.to_dict(),
            "verified": self._verified(),
        }

    def _verified(self) -> dict[str, Any] | None:
        if self.left is None or self.rows_left is None:
            return None
        return {
            "proven": self.is_proven,
            "rows": [{"table": table, "rows": rows} for table, rows in self.rows_left],
            # The line of an id in the file says which it is; its text would be a value.
            "bytes": [asdict(one) for one in self.left.found],
            "unread": list(self.left.unread),
            "unsearched": list(self.left.unsearched),
            "files": self.left.files,
            "searched_bytes": self.left.searched_bytes,
        }

    def lines(self, width: int | None = None) -> Iterator[str]:
        """Yield what was removed, the new savepoint in numbers, and what a search found."""
        if self.written is not None:
            yield f"{counted(self.ids, 'id')}, {self.held:,} of them found: {self.written.effects[0].text}"
            yield from (f"  {printable(one.text)}" for one in self.written.effects[0].states)
            yield from map(printable, summary_lines(self.written.summary))
            yield self.written.title
            yield from map(printable, check_lines(self.written.check, self.written.target))
        if self.left is not None:
            yield from map(printable, self._left_lines(self.left))

    def _left_lines(self, left: Leftovers) -> Iterator[str]:
        for table, rows in self.rows_left or ():
            yield f"left: {counted(rows, 'row')} of {table}"
        for one in left.found[:_MOST_SHOWN]:
            times = "once" if one.count == 1 else f"{one.count:,} times"
            yield f"left: id {one.number + 1} as {one.form}, {times}, in {one.path} ({one.where}), at {one.position}"
        if len(left.found) > _MOST_SHOWN:
            yield f"  … and {len(left.found) - _MOST_SHOWN:,} more"
        yield from (f"not read: {one}" for one in left.unread)
        if left.unsearched:
            yield (
                f"not searched as bytes: {counted(len(left.unsearched), 'id')}, too short; their rows were looked for"
            )
        searched = f"{counted(left.files, 'file')}, {size_text(left.searched_bytes)}"
        yield f"{'nothing of the ids is left' if self.is_proven else 'not proven'}: {searched} searched"


def run(request: ForgetRequest, context: Context) -> Forgotten:
    """Write a savepoint without what belongs to ids, or search one for them.

    Raises:
        QueryError: nothing belongs to the ids, something may and cannot be read, or the target cannot be written.
        ReaderError: the savepoint cannot be read.
    """
    statement = _statement(request)
    if request.report is not None and os.path.lexists(request.report):
        raise InvalidRequestError(f"report: expected a file that does not exist, found {request.report}")
    database = context.only_database(request.database, "to forget from")
    if request.target is None and not request.dry_run:
        found = Forgotten(
            ids=len(statement.ids),
            held=0,
            written=None,
            rows_left=_rows_left(statement, database, context),
            left=find_leftovers(database.savepoint, statement.ids, machine.cores()),
        )
    else:
        found = _forgotten(request, statement, database, context)
    if request.report is not None:
        _write_report(request.report, found)
    return found


def _statement(request: ForgetRequest) -> ForgetIds:
    ids = tuple(dict.fromkeys(keys_in(request.keys)))
    if not 1 <= len(ids) <= _MOST_IDS:
        raise InvalidRequestError(
            f"keys: expected 1 to {_MOST_IDS:,} ids in {request.keys}, found {len(ids):,}"
        )
    masks = None
    if request.masks is not None:
        with translated(CatalogError):
            masks = Masks.load(request.masks)
        unknown = [name for name in request.group if name not in masks.group_names]
        if unknown:
            raise InvalidRequestError(
                f"group: expected one of {', '.join(masks.group_names) or 'none'}, found {unknown[0]!r}"
            )
    return ForgetIds(
        table=(_NAME,), position=Position(line=1, column=1), ids=ids, masks=masks, groups=request.group
    )


def _forgotten(
    request: ForgetRequest, statement: ForgetIds, database: Database, context: Context
) -> Forgotten:
    target = None if request.dry_run else request.target
    asked = WriteRequest(
        database=database.name,
        target=target,
        sql="",
        dry_run=target is None,
        allow_empty=request.allow_empty,
    )
    with closing(Writing(asked, context, statements=(statement,), kinds=(IdChanges,))) as writing:
        held = len(writing.changes(IdChanges).held)
        if target is None:
            return Forgotten(ids=len(statement.ids), held=held, written=writing.preview)
        written = writing.write(target)
    new = connect(target)
    made = new.default
    assert made is not None
    is_searched = request.verify
    return Forgotten(
        ids=len(statement.ids),
        held=held,
        written=written,
        before=tuple(_hashed(database.savepoint)),
        after=tuple(_hashed(made.savepoint)),
        rows_left=_rows_left(statement, made, replace(context, catalog=new)) if is_searched else None,
        left=find_leftovers(made.savepoint, statement.ids, machine.cores()) if is_searched else None,
    )


def _rows_left(statement: ForgetIds, database: Database, context: Context) -> tuple[tuple[str, int], ...]:
    """Return how many rows of each state belong to the ids."""
    asked = WriteRequest(database=database.name, sql="", dry_run=True, allow_empty=True)
    with closing(Writing(asked, context, statements=(statement,), kinds=(IdChanges,))) as writing:
        return tuple((one.table, one.rows) for effect in writing.effects for one in effect.states)


def _hashed(savepoint: Savepoint) -> Iterator[HashedFile]:
    """Yield the files of a savepoint; those in object stores have no hashes here."""
    for name, path in files_of(savepoint):
        digest, size = hashlib.sha256(), 0
        with path.open("rb", buffering=0) as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
                size += len(piece)
        yield HashedFile(path=name, size_bytes=size, sha256=digest.hexdigest())


def _write_report(path: str, found: Forgotten) -> None:
    try:
        with open(path, "xb") as file:
            file.write(orjson.dumps(found.to_dict(), option=orjson.OPT_INDENT_2))
    except OSError as error:
        raise InvalidRequestError(f"report: {path} cannot be written: {error.strerror}") from error


TASK = Task(request=ForgetRequest, run=run, makes=True)
