"""`/api/rules`: what the rules of the service say of each job, and how long the receiver of the webhook is told nothing.

| call | needs |
|---|---|
| `GET /api/rules` | to see the savepoints that were tested; with a mask it has no values |
| `POST`, `DELETE /api/rules/{rule}/silence` | a grant such as `operator:prod/*` for them |
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from catalog import Catalog
from service.base.errors import ForbiddenError, NotFoundError
from service.base.principal import Principal
from service.doors.http.api.state import ServiceState, State, Visible, check_operator
from service.doors.http.api.tasks import TaskBody
from service.doors.http.auth.gate import Caller
from service.doors.http.errors import FAILURES
from service.doors.operations.logs import audit_silence
from service.tasks.time.test.rules import Severity
from service.tasks.time.test.states import Condition, RuleState

router = APIRouter(prefix="/api/rules", tags=["rules"], responses=FAILURES)

_MOST_MINUTES = 366 * 24 * 60
JobName = Annotated[str, Query(description="name, id or title of the job", max_length=1000)]


class TestedCheckpoint(BaseModel):
    """A checkpoint on which a rule was tested."""

    database: str
    checkpoint_id: int | None
    created_at: datetime | None


class FailedResult(BaseModel):
    """A violation, or an error."""

    table: str | None = Field(description="the table of the state, for a rule that is tested for each state")
    status: Literal["violated", "error", "unreadable"]
    message: str | None
    rows: dict[str, Any] | None = Field(description="the first rows, as in `POST /api/tests`")
    all_rows: str | None = Field(description="link to all rows, from the root of the service")


class RuleEntry(BaseModel):
    """The state of a rule for a job."""

    job: str
    rule: str
    severity: Severity
    description: str
    state: Condition
    since: TestedCheckpoint = Field(description="the first checkpoint of this state")
    tested: TestedCheckpoint | None = Field(
        description="the last one on which it was tested; null before the first test since the service started"
    )
    message: str | None = Field(description="what was found, or why it was not tested")
    results: list[FailedResult] = Field(description="the first violations or errors")
    silenced_until: datetime | None


class RuleList(BaseModel):
    """Rules, by job and name."""

    may_silence: bool = Field(description="whether this user is an operator, and so may silence rules")
    rules: list[RuleEntry]


class SilenceOrder(TaskBody):
    """A rule to silence."""

    job: str = Field(description="name, id or title of the job", max_length=1000)
    minutes: float = Field(ge=0, le=_MOST_MINUTES, description="from now on; 0 ends the silence")


@router.get("", response_model=RuleList)
def list_rules(service: State, caller: Caller) -> dict[str, Any]:
    """List what the rules of the service say of the jobs that this user sees."""
    states = [] if service.rules.states is None else service.rules.states.seen_by(caller)
    return {
        "may_silence": service.queries.may_operate(caller),
        "rules": [one.to_dict() for one in states],
    }


@router.post("/{rule:path}/silence", response_model=RuleEntry)
def silence_rule(
    rule: str, order: SilenceOrder, service: State, catalog: Visible, caller: Caller
) -> dict[str, Any]:
    """Post no change of the state of a rule for some time. Needs a grant such as `operator:prod/*`."""
    return _silenced(rule, order.job, order.minutes, service, catalog, caller)


@router.delete("/{rule:path}/silence", response_model=RuleEntry)
def end_silence(rule: str, job: JobName, service: State, catalog: Visible, caller: Caller) -> dict[str, Any]:
    """End the silence of a rule."""
    return _silenced(rule, job, 0, service, catalog, caller)


def _silenced(
    rule: str, job: str, minutes: float, service: ServiceState, catalog: Catalog, caller: Principal
) -> dict[str, Any]:
    check_operator(service, caller)
    name = catalog.job(job).name
    states = service.rules.states
    found = [] if states is None else states.seen_by(caller)
    state = next((one for one in found if (one.rule.name, one.job) == (rule, name)), None)
    if states is None or state is None:
        raise NotFoundError(f"there is no rule {rule!r:.100} that was tested for the job {name!r:.100}")
    if not caller.operates(state.databases):
        raise ForbiddenError(
            f"expected an operator of {name!r:.100}", hint="a grant such as operator:prod/* makes one"
        )
    until = datetime.now(UTC) + timedelta(minutes=minutes) if minutes else None
    changed: RuleState = states.change(state, silenced_until=until)
    audit_silence(caller.identity, changed)
    return changed.to_dict()
