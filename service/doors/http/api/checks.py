"""`POST /api/checks`: will a savepoint restore in a new job.

A database is compared with other databases that the caller may see, or with a jar that the caller sends: then the jar is the body,
and the rest stands in the address. No path of this machine is taken from a client. Each check runs in a process of its own
(`service.tasks.check.registry`).
"""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from catalog import Database
from service.base.errors import InvalidRequestError
from service.base.principal import Principal
from service.doors.http.api.state import Served, State
from service.doors.http.auth.user import Caller
from service.doors.http.errors import FAILURES
from service.doors.operations.logs import audit_check
from service.query.serving.waiting import ended_on_disconnect
from service.tasks.check.running import AUTO, NEWEST, CheckOptions, values_of

router = APIRouter(prefix="/api/checks", tags=["checks"], responses=FAILURES)
JAR_PATH = f"{router.prefix}/jar"

_MOST_COMPARED = 20
_Name = Annotated[str, Field(max_length=1000)]
_VALUES = (
    "read stored values, too: sample, which is 10,000 of each state and file, or all; they tell what Kryo 5 makes of the "
    "objects of Kryo 2, and whether any value is damaged"
)


class CheckBody(BaseModel):
    """A savepoint to check."""

    # A misspelt option must not be ignored.
    model_config = ConfigDict(extra="forbid")

    database: _Name = Field(
        validation_alias=AliasChoices("database", "savepoint"),
        description="name or alias of the database; it is only read",
    )
    against: list[_Name] | _Name | None = Field(
        default=None,
        description="databases that are savepoints of the new job; if not given, only the version of Flink is checked",
    )
    flink: str = Field(default=NEWEST, max_length=50, description="Flink that will restore it, such as 2.3")
    backend: str = Field(
        default=AUTO,
        max_length=50,
        description="state backend that will restore it: hashmap, rocksdb, forst, both; or auto: hashmap and rocksdb, but "
        "the files of a native savepoint with the backend that wrote them",
    )
    allow_non_restored: bool = Field(
        default=False, description="the job is started with --allowNonRestoredState"
    )
    values: str | None = Field(default=None, max_length=50, description=_VALUES)


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
    options = CheckOptions(
        flink=body.flink,
        backend=body.backend,
        allow_non_restored=body.allow_non_restored,
        values=values_of(body.values),
    )
    async with ended_on_disconnect(request):
        return await checked(service, caller, body.database, against, options)


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
    request: Request,
    service: State,
    caller: Caller,
    database: Annotated[str, Query(max_length=1000, description="name or alias of the database")],
    name: Annotated[str, Query(max_length=200, description="name of the jar in the report")] = "job.jar",
    against: Annotated[list[_Name] | None, Query(description="databases to compare with, too")] = None,
    flink: Annotated[str, Query(max_length=50)] = NEWEST,
    backend: Annotated[str, Query(max_length=50)] = AUTO,
    allow_non_restored: bool = False,
    values: Annotated[str | None, Query(max_length=50, description=_VALUES)] = None,
) -> CheckAnswer:
    """Say what a restore in the job of a jar will do; the jar is the body. It is read, and nothing of it is run or kept."""
    options = CheckOptions(
        flink=flink,
        backend=backend,
        allow_non_restored=allow_non_restored,
        values=values_of(values),
    )
    if not name.isprintable():
        raise InvalidRequestError(f"expected a name of printable characters, found {name!r}")
    jar = await request.body()
    if not jar:
        raise InvalidRequestError("expected a jar as the body of the request, found nothing")
    async with ended_on_disconnect(request):
        return await checked(service, caller, database, against or [], options, jar, name)


async def checked(
    service: Served,
    caller: Principal,
    database: str,
    against: list[str],
    options: CheckOptions,
    jar: bytes | None = None,
    jar_name: str = "",
) -> CheckAnswer:
    """Return the report of a check of what a caller sees, and write its line of the audit log.

    A caller that is cancelled ends the check.

    Raises:
        QueryError: the check is not possible, or fails.
        CatalogError: there is no such database.
    """
    if len(against) > _MOST_COMPARED:
        raise InvalidRequestError(
            f"expected at most {_MOST_COMPARED} databases to compare with, found {len(against)}"
        )
    options.check()
    # Databases are looked up on the disk.
    found, compared = await to_thread.run_sync(_databases, service, caller, database, against)
    report = await service.checks.report(found, compared, options, jar, jar_name)
    names = [*(one.name for one in compared), *([jar_name] if jar is not None else [])]
    audit_check(caller.identity, found.name, names, report)
    return CheckAnswer(**report)


def _databases(
    service: Served, caller: Principal, database: str, against: list[str]
) -> tuple[Database, tuple[Database, ...]]:
    """Return the databases of these names; names that the caller may not see are unknown.

    Raises:
        CatalogError: there is no such database.
    """
    visible = service.catalog.visible(caller.sees)
    return visible.database(database), tuple(visible.database(name) for name in against)
