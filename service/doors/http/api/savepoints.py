"""`/api/savepoints`: a script of statements over a database, or over nothing, → a new savepoint below a write root.

`POST` starts a write; `GET …/{id}` returns its progress, and its report once it has one; `DELETE …/{id}` cancels it, and returns when
nothing of it is left. With `dry_run` nothing is written, and the report says what would be. All calls but the list are refused unless
the setting `write_root` is given.
"""

from __future__ import annotations

from dataclasses import replace

from anyio import to_thread
from fastapi import APIRouter, Response
from pydantic import BaseModel, Field
from starlette.status import HTTP_202_ACCEPTED, HTTP_204_NO_CONTENT

from catalog import Catalog
from doctor import Severity
from service.base.errors import ForbiddenError, InvalidRequestError, WriteNotFoundError
from service.base.principal import Principal
from service.doors.http.api.state import Asking, Everybody, State, check_operator
from service.doors.http.api.tasks import TaskBody
from service.doors.http.auth.gate import Caller
from service.doors.http.errors import FAILURES, ErrorBody, error_body
from service.doors.operations.logs import audit_kill_of_write
from service.doors.served import Client, request_of, with_options
from service.query.engines.registry import HERE
from service.query.running.run import QueryState
from service.tasks.write.changes import Effect
from service.tasks.write.offsets import OffsetChange
from service.tasks.write.request import WriteRequest
from service.tasks.write.serving.targets import target_of
from service.tasks.write.serving.task import WriteProgress
from service.tasks.write.serving.writes import WriteOrder, WriteRecord
from writers import FilesMode, Summary

router = APIRouter(prefix="/api/savepoints", tags=["writing"], responses=FAILURES)


@with_options(WriteRequest, without=("database", "engine"))
class WriteBody(TaskBody):
    """A savepoint to write."""

    source: str | None = Field(
        default=None,
        max_length=1000,
        description="name or alias of the database to write from; it is only read. Without it the savepoint has only what the "
        "script creates, and needs `flink`",
    )
    target: str | None = Field(
        default=None,
        min_length=1,
        max_length=4000,
        description="directory to make, below a write root; if it is not absolute, below the first one. A dry run needs none",
    )


class CheckFindingBody(BaseModel):
    """One thing that is not fine in a new savepoint."""

    severity: Severity
    operator: str = Field(description="empty for the whole savepoint")
    state: str = Field(description="empty for the whole operator")
    rule: str
    message: str
    remedy: str


class WrittenCheckBody(BaseModel):
    """What a restore does with a new savepoint: it is checked against the job that wrote its source, as the script changes it."""

    flink: str = Field(description="the version that restores it")
    verdict: Severity
    exit_code: int = Field(description="that of `savepointdb check`")
    headline: str
    advice: str
    findings: list[CheckFindingBody] = Field(description="the worst first; the first hundred")


class ReportBody(BaseModel):
    """What a write does, or did."""

    statements: list[Effect]
    offsets: list[OffsetChange] = Field(description="the first thousand")
    rows: int = Field(description="rows that all statements change, add or remove")
    summary: Summary
    engine: str = Field(description="what made the state that changed; empty for the process that wrote")
    check: WrittenCheckBody | None = Field(default=None, description="null for a dry run")


class WriteStatus(BaseModel):
    """A write and its progress."""

    id: str
    state: QueryState
    source: str | None = Field(description="name of the database; null if the savepoint is made from nothing")
    target: str | None = Field(description="the directory; null for a dry run")
    database: str | None = Field(description="name of the new database; null for a dry run")
    sql: str
    dry_run: bool
    files: FilesMode
    user: str
    created: float = Field(description="seconds since 1970")
    queued_ms: float
    elapsed_ms: float
    progress: WriteProgress
    report: ReportBody | None = Field(
        default=None, description="once the write, or the dry run, has finished"
    )
    error: ErrorBody | None = None


class WriteList(BaseModel):
    """Writes, the latest first, without their reports; and where this user may write."""

    may_write: bool = Field(description="whether this user may write at all, here")
    write_roots: list[str] = Field(
        description="directories below which the service writes; for users who may"
    )
    writes: list[WriteStatus]


@router.post("", status_code=HTTP_202_ACCEPTED)
async def write_savepoint(body: WriteBody, response: Response, service: State, client: Asking) -> WriteStatus:
    """Start to write a savepoint: a script over a database, or over nothing, → a new directory. Needs a grant to write both."""
    # Databases and targets are looked up on the disk.
    write = service.writes.start(await to_thread.run_sync(_order, body, client))
    response.headers["Location"] = f"{router.prefix}/{write.id}"
    return _status(write.record)


@router.get("")
def list_writes(service: State, caller: Caller, everybody: Everybody = False) -> WriteList:
    """List the writes of this user, or of all users: open ones, and the latest ones that ended; and say where the user may write."""
    if everybody:
        check_operator(service, caller)
    found = service.writes.all_records(caller) if everybody else service.writes.records(caller)
    may_write = bool(service.writes.roots) and caller.writes
    return WriteList(
        may_write=may_write,
        write_roots=[root.path for root in service.writes.roots] if may_write else [],
        writes=[_status(record, has_report=False) for record in found],
    )


@router.get("/{write_id}")
def describe_write(write_id: str, service: State, caller: Caller) -> WriteStatus:
    """Return the progress or the report of a write."""
    return _status(service.writes.find(write_id, caller))


@router.delete("/{write_id}", status_code=HTTP_204_NO_CONTENT)
async def cancel_write(write_id: str, service: State, caller: Caller) -> None:
    """Cancel a write; nothing of it is left then. One that has finished stays. An operator ends the write of another user."""
    try:
        await to_thread.run_sync(service.writes.cancel, write_id, caller)
    except WriteNotFoundError:
        if not service.queries.may_operate(caller):
            raise
        killed = await to_thread.run_sync(service.writes.kill, write_id, caller)
        if killed is not None:
            audit_kill_of_write(caller.identity, killed)


def _order(body: WriteBody, client: Client) -> WriteOrder:
    """Return the checked order of a client.

    Raises:
        QueryError: the service writes nothing, the user may not, or the request makes no sense.
    """
    roots, caller = client.served.writes.roots, client.caller
    if not roots:
        raise ForbiddenError(
            "this service writes no savepoints", hint="its owner can allow it with the setting write_root"
        )
    asked = request_of(WriteRequest, body, database=body.source, engine=HERE)
    order = client.write_order(asked)
    source = _source(asked, client.visible, caller)
    target = None
    if asked.target is not None:
        target = target_of(asked.target, roots)
        if not caller.may_write(target.database):
            raise ForbiddenError(f"expected a user who may write {target.database!r}", hint=_GRANT_HINT)
        target = None if asked.dry_run else target
    asked = replace(asked, database=source, target=None if target is None else target.path)
    return replace(order, request=asked, target=target)


def _source(asked: WriteRequest, visible: Catalog, caller: Principal) -> str | None:
    """Return the name of the database to write from; None if the savepoint is made from nothing.

    Raises:
        QueryError: the user may not write from it, or nothing says which Flink the new savepoint is for.
    """
    if asked.database is not None:
        name = visible.database(asked.database).name
        if not caller.may_write(name):
            raise ForbiddenError(f"expected a user who may write from {name!r}", hint=_GRANT_HINT)
        return name
    if not caller.writes:
        raise ForbiddenError("expected a user who may write", hint=_GRANT_HINT)
    if asked.flink is None:
        raise InvalidRequestError(
            "expected source, the database to write from, or flink, the Flink that a savepoint made from nothing is for"
        )
    return None


def _status(record: WriteRecord, *, has_report: bool = True) -> WriteStatus:
    order, progress = record.order, record.progress
    return WriteStatus(
        id=record.id,
        state=record.state,
        source=order.source,
        target=order.target.path if order.target else None,
        database=order.target.database if order.target else None,
        sql=order.request.sql,
        dry_run=order.target is None,
        files=FilesMode(order.request.files),
        user=order.owner.name,
        created=record.created,
        queued_ms=round(record.queued_ms, 3),
        elapsed_ms=round(record.elapsed_ms, 3),
        progress=progress,
        report=ReportBody(**record.report) if has_report and record.report is not None else None,
        error=error_body(record.error) if record.error else None,
    )


_GRANT_HINT = "a grant such as write:prod/* allows it"
