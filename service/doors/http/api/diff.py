"""`POST /api/diff`: what differs between two savepoints, by operator and state. The differing rows themselves are SQL.

It runs as the query `SELECT * FROM diff('before', 'after')`: it waits for a slot, has a deadline and the limits of queries, stands in the
history, and ends if its client disconnects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
from anyio import CancelScope, to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from catalog import Catalog, CatalogError, Database
from readers import ReaderError
from service.base.errors import DatabaseNotFoundError, QueryError, query_error_of
from service.base.principal import Principal
from service.doors.http.api.state import ServiceState, State
from service.doors.http.auth.user import Caller
from service.doors.http.errors import FAILURES
from service.query.serving.query import Query
from service.query.serving.request import QueryRequest
from service.query.serving.waiting import cancelled_on_disconnect, wait_until_ready
from service.query.sql.tablefunctions.differences import PREVIOUS, one_before
from service.tasks.diff.comparison import Comparison, comparison_of, gone_or, summary_statement

router = APIRouter(prefix="/api", tags=["diff"], responses=FAILURES)

_LONGEST_SOURCE = 200
_Name = Annotated[str, Field(max_length=1000)]


class DiffBody(BaseModel):
    """Two savepoints to compare."""

    # A misspelt limit must not be ignored.
    model_config = ConfigDict(extra="forbid")

    before: _Name = Field(
        description="name or alias of the database before; `previous` is the one before `after` in its job"
    )
    after: _Name = Field(description="name or alias of the database after")
    operator: _Name | None = Field(None, description="uid, name or id of the only operator to compare")
    max_bytes: int | None = Field(None, ge=0, description="most bytes of savepoints to read")
    timeout_s: float | None = Field(default=None, gt=0, description="most seconds; 60 if not given")


class SampleBody(BaseModel):
    """A row that differs, as texts for people."""

    change: str = Field(description="added, removed or changed")
    identity: str = Field(description="its key, namespace and the like")
    before: str | None
    after: str | None


class StateDifferenceBody(BaseModel):
    """One state."""

    state_name: str
    table_name: str | None = Field(
        description="the third argument of `diff` in SQL; null where the rows cannot be compared"
    )
    change: str | None = Field(description="same, changed, added or removed; null where that is not known")
    type_before: str | None
    type_after: str | None
    added: int | None = Field(description="rows; null where they are not known")
    removed: int | None
    changed: int | None
    rows_before: int | None
    rows_after: int | None
    size_before: int | None = Field(description="bytes")
    size_after: int | None
    samples: list[SampleBody] = Field(description="the first rows that differ")
    error: str | None = Field(description="why its rows cannot be compared")


class OperatorDifferenceBody(BaseModel):
    """One operator."""

    operator_id: str
    name: str
    change: str | None = Field(description="same, changed, added or removed; null where that is not known")
    states: list[StateDifferenceBody]


class OffsetDifferenceBody(BaseModel):
    """A position of a source that moved."""

    operator: str
    topic: str | None
    partition: int | None
    before: int | None
    after: int | None


class SizesBody(BaseModel):
    """Bytes of the savepoints."""

    before: int
    after: int


class DiffAnswer(BaseModel):
    """What differs between two savepoints."""

    query_id: str
    before: str = Field(description="name of the database")
    after: str
    is_equal: bool
    operators: list[OperatorDifferenceBody]
    offsets: list[OffsetDifferenceBody] = Field(description="positions of sources that moved")
    offsets_error: str | None = Field(description="why some positions cannot be compared")
    sizes: SizesBody
    skipped: list[str] = Field(
        description="savepoints of the job that are newer than `previous`, and cannot be read"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two savepoints that are compared.

    Attributes:
        before, after: the databases.
        operator_id: of the only operator to compare; None for all.
        skipped: savepoints between the two that cannot be read, in sentences.
    """

    before: Database
    after: Database
    operator_id: str | None
    skipped: tuple[str, ...]

    @property
    def statement(self) -> str:
        """The statement whose rows become the comparison."""
        return summary_statement(self.before.name, self.after.name, self.operator_id)


@router.post("/diff")
async def diff_savepoints(body: DiffBody, request: Request, service: State, caller: Caller) -> DiffAnswer:
    """Compare two savepoints: operators and states that came and went, types, counts of rows, offsets, sizes."""
    compared = await to_thread.run_sync(compared_of, service.catalog.visible(caller.sees), body)
    query = await to_thread.run_sync(_started, request, service, caller, body, compared)
    async with cancelled_on_disconnect(request, query):
        found = await comparison_by(query, compared)
    return DiffAnswer(
        query_id=query.id, is_equal=found.is_equal, skipped=list(compared.skipped), **found.to_dict()
    )


async def comparison_by(query: Query, compared: Compared) -> Comparison:
    """Return the comparison whose rows a query finds, and close the query.

    Raises:
        QueryError: the query fails, or a savepoint cannot be read any more.
    """
    batches: list[pa.RecordBatch] = []
    before, after = compared.before, compared.after
    try:
        while not await to_thread.run_sync(_collect, query, batches):
            await wait_until_ready(query)
        return await to_thread.run_sync(comparison_of, before, after, batches, compared.operator_id)
    except (QueryError, ReaderError) as error:
        raise gone_or(query_error_of(error), (before, after)) from error
    finally:
        # Starlette cancels this task when the client disconnects; the query must be closed nevertheless.
        with CancelScope(shield=True):
            await to_thread.run_sync(query.close)


def compared_of(visible: Catalog, body: DiffBody) -> Compared:
    """Return what is compared.

    Raises:
        CatalogError: there is no such database, or no such operator.
        QueryError: there is no savepoint before it.
    """
    after = visible.database(body.after)
    before, skipped = _before(visible, body.before, after)
    operator_id = None
    if body.operator is not None:
        try:
            operator_id = after.operator_of(body.operator)
        except CatalogError:
            operator_id = before.operator_of(body.operator)
    return Compared(before=before, after=after, operator_id=operator_id, skipped=skipped)


def _before(visible: Catalog, name: str, after: Database) -> tuple[Database, tuple[str, ...]]:
    """Return the database of a name, which may be that of the one before another, as in SQL."""
    if name.casefold() != PREVIOUS or PREVIOUS in map(str.casefold, visible.databases):
        return visible.database(name), ()
    before, skipped = one_before(after, visible.jobs())
    if before is None:
        raise DatabaseNotFoundError(
            f"there is no savepoint before {after.name!r} in its job that can be read"
        )
    return before, skipped


def _started(
    request: Request,
    service: ServiceState,
    caller: Principal,
    body: DiffBody,
    compared: Compared,
) -> Query:
    return service.queries.start(
        QueryRequest(
            sql=compared.statement,
            max_bytes=body.max_bytes,
            timeout_s=body.timeout_s,
            user=caller.name,
            principal=caller,
            source=request.headers.get("user-agent", "")[:_LONGEST_SOURCE],
            abandoned_after_s=service.settings.queries.abandoned_after_s,
        )
    )


def _collect(query: Query, batches: list[pa.RecordBatch]) -> bool:
    """Collect the rows that are ready; return True after the last ones."""
    while query.is_ready:
        batch = query.take()
        if batch is None:
            return True
        batches.append(batch)
    return False
