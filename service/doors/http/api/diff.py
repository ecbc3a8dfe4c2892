"""`POST /api/diff`: what differs between two savepoints, by operator and state. The differing rows themselves are SQL.

It runs as the query `SELECT * FROM diff('before', 'after')`: it waits for a slot, has a deadline and the limits of queries, stands in the
history, and ends if its client disconnects.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from service.base.process.waiting import found_in_thread
from service.doors.http.api.state import State
from service.doors.http.api.tasks import TaskBody, context_of, request_of, with_options
from service.doors.http.auth.gate import Caller
from service.doors.http.errors import FAILURES
from service.query.running.group import QueryGroup
from service.query.serving.query import Query, ended_on_disconnect
from service.tasks.diff.comparison import Comparison
from service.tasks.diff.running import Compared, DiffRequest, compared_of, comparison_by

router = APIRouter(prefix="/api", tags=["diff"], responses=FAILURES)

_Name = Annotated[str, Field(max_length=1000)]


@with_options(DiffRequest)
class DiffBody(TaskBody):
    """Two savepoints to compare."""

    before: _Name = Field(
        description="name or alias of the database before; `previous` is the one before `after` in its job"
    )
    after: _Name = Field(description="name or alias of the database after")
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


@router.post("/diff")
async def diff_savepoints(body: DiffBody, request: Request, service: State, caller: Caller) -> DiffAnswer:
    """Compare two savepoints: operators and states that came and went, types, counts of rows, offsets, sizes."""
    queries: list[Query] = []
    group = QueryGroup(service.queries.start, queries)
    limits = {"max_bytes": body.max_bytes, "timeout_s": body.timeout_s}
    context = context_of(service, caller, request.headers.get("user-agent", ""), group, **limits)
    asked = request_of(DiffRequest, body)

    def compare() -> tuple[Compared, Comparison]:
        compared = compared_of(asked, context.catalog)
        return compared, comparison_by(compared, context)

    async with ended_on_disconnect(request):
        compared, found = await found_in_thread(compare, group.cancel)
    return DiffAnswer(
        query_id=queries[0].id, is_equal=found.is_equal, skipped=list(compared.skipped), **found.to_dict()
    )
