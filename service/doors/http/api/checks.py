"""`POST /api/checks`: will a savepoint restore in a new job.

A database is compared with other databases that the caller may see, or with a jar that the caller sends: then the jar is the body,
and the rest stands in the address. No path of this machine is taken from a client. Each check runs in a process of its own
(`service.tasks.check.registry`).
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from service.base.errors import InvalidRequestError
from service.base.principal import Principal
from service.doors.http.api.state import Served, State
from service.doors.http.api.tasks import TaskBody, context_of, request_of, with_options
from service.doors.http.auth.gate import Caller
from service.doors.http.errors import FAILURES
from service.doors.operations.logs import audit_check
from service.query.running.group import QueryGroup
from service.query.serving.query import ended_on_disconnect
from service.tasks.check.running import CheckRequest

router = APIRouter(prefix="/api/checks", tags=["checks"], responses=FAILURES)
JAR_PATH = f"{router.prefix}/jar"

_Name = Annotated[str, Field(max_length=1000)]


@with_options(CheckRequest)
class CheckBody(TaskBody):
    """A savepoint to check, and how it would be restored."""

    database: _Name = Field(
        validation_alias=AliasChoices("database", "savepoint"),
        description="name or alias of the database; it is only read",
    )
    against: list[_Name] | _Name | None = Field(
        default=None,
        description="databases that are savepoints of the new job; if not given, only the version of Flink is checked",
    )


class RiskBody(BaseModel):
    """Something that the compared facts cannot decide; the outcome stands, unless it comes true."""

    rule: str
    severity: str = Field(description="doubt, risk; fine for a word of caution about what no comparison sees")
    message: str
    remedy: str
    evidence: list[str]
    field_path: str | None


class StateVerdictBody(BaseModel):
    """What becomes of one state."""

    state_name: str
    kind: str
    outcome: str = Field(
        description="as-is, migrated, reconfigured, incompatible, unreadable, not-declared, dropped, new or unknown"
    )
    stage: str | None = Field(description="graph, restore, register, access or snapshot; null if none fails")
    changes_values: bool
    field_path: str | None
    message: str
    remedy: str
    evidence: list[str]
    rule: str | None
    severity: str = Field(description="fails, unknown, loses, doubt, risk or fine")
    risks: list[RiskBody]


class OperatorVerdictBody(BaseModel):
    """What becomes of one operator."""

    operator_id: str
    uid: str | None
    name: str | None
    outcome: str = Field(description="restores, fails or unknown")
    stage: str | None
    loses_data: bool
    message: str
    remedy: str
    evidence: list[str]
    rule: str | None
    severity: str
    states: list[StateVerdictBody]
    risks: list[RiskBody]


class CheckReportBody(BaseModel):
    """What a restore will do."""

    # The room that checks may say more.
    model_config = ConfigDict(extra="allow")

    savepoint: str = Field(description="name of the database")
    against: list[str] = Field(description="names of databases, and of the jar")
    flink: str
    backend: str
    outcome: str = Field(description="restores, fails or unknown")
    stage: str | None
    loses_data: bool = Field(description="it restores, and values are lost, changed or no longer read")
    severity: str
    headline: str = Field(description="what the restore will do, in one sentence")
    advice: str = Field(description="what to do, in one sentence")
    message: str
    remedy: str
    evidence: list[str]
    rule: str | None
    operators: list[OperatorVerdictBody]
    risks: list[RiskBody]


class CheckAnswer(CheckReportBody):
    """The worst report, and the reports of all backends where both were asked for."""

    backends: dict[str, CheckReportBody] = Field(default_factory=dict)


@router.post("")
async def check_savepoint(request: Request, body: CheckBody, service: State, caller: Caller) -> CheckAnswer:
    """Say what a restore of a savepoint will do, per operator and state, and what to do about it."""
    against = [body.against] if isinstance(body.against, str) else body.against or []
    asked = request_of(CheckRequest, body, against=against)
    async with ended_on_disconnect(request):
        return CheckAnswer(**await checked(service, caller, asked))


@with_options(CheckRequest)
class JarQuery(BaseModel):
    """What stands in the address of a check with a jar."""

    database: _Name = Field(description="name or alias of the database")
    name: Annotated[str, Field(max_length=200, description="name of the jar in the report")] = "job.jar"
    against: list[_Name] | None = Field(default=None, description="databases to compare with, too")


@router.post(
    "/jar",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/java-archive": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def check_savepoint_with_jar(
    request: Request, asked: Annotated[JarQuery, Query()], service: State, caller: Caller
) -> CheckAnswer:
    """Say what a restore in the job of a jar will do; the jar is the body. It is read, and nothing of it is run or kept."""
    if not asked.name.isprintable():
        raise InvalidRequestError(f"expected a name of printable characters, found {asked.name!r}")
    check = request_of(CheckRequest, asked, against=asked.against or [])
    jar = await request.body()
    if not jar:
        raise InvalidRequestError("expected a jar as the body of the request, found nothing")
    async with ended_on_disconnect(request):
        return CheckAnswer(**await checked(service, caller, check, jar, asked.name))


async def checked(
    service: Served, caller: Principal, request: CheckRequest, jar: bytes | None = None, jar_name: str = ""
) -> dict[str, Any]:
    """Return the report of a check of what a caller sees, and write its line of the audit log.

    A caller that is cancelled ends the check.

    Raises:
        QueryError: the check is not possible, or fails.
        CatalogError: there is no such database.
    """
    context = context_of(service, caller, "", QueryGroup(service.queries.start))
    report = await service.checks.report(request, context, jar, jar_name)
    audit_check(caller.identity, report["savepoint"], report["against"], report)
    return report
