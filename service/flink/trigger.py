"""One savepoint: asked for, watched, and found.

| step | request |
|---|---|
| ask | POST `/jobs/:id/savepoints` `{"formatType", "triggerId", "cancel-job": false, "target-directory"}` |
| watch | GET `/jobs/:id/savepoints/:triggerId`; GET `/jobs/:id/checkpoints` says how many subtasks have done their part |
| find | `location` of the last answer |

We choose the `triggerId` (since Flink 1.15), so that an answer that is lost on its way is found by it, and nothing is asked for
twice. The job goes on.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from service.errors import FlinkError, FlinkUnavailableError
from service.flink.answers import IN_PROGRESS, checkpoints_in, savepoint_in
from service.flink.client import RestClient


class SavepointFormat(StrEnum):
    """The formats of savepoints."""

    CANONICAL = "canonical"
    NATIVE = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerProgress:
    """How far a savepoint is.

    Attributes:
        is_completed: whether it has ended, well or not.
        acknowledged, subtasks: how many subtasks have done their part, and how many there are; 0 while Flink does not say.
        path: where it is, as Flink sees it.
        failure: why there is none.
    """

    is_completed: bool = False
    acknowledged: int = 0
    subtasks: int = 0
    path: str | None = None
    failure: str | None = None


class Trigger:
    """Asks for one savepoint, once.

    Args:
        client: asks the cluster.
        job_id: of a job that runs.
        form: canonical or native.
        directory: below which Flink writes it, as Flink sees it; empty for Flink's own.

    Attributes:
        id: of the request: Flink and we call it so.
    """

    def __init__(self, client: RestClient, job_id: str, form: SavepointFormat, directory: str = "") -> None:
        self.id = uuid.uuid4().hex
        self._client = client
        self._job_id = job_id
        self._form = form
        self._directory = directory

    def ask(self) -> None:
        """Ask for the savepoint.

        Raises:
            FlinkError: Flink does not answer, or refuses.
        """
        body: dict[str, Any] = {
            "formatType": self._form.value.upper(),
            "triggerId": self.id,
            "cancel-job": False,
        }
        if self._directory:
            body["target-directory"] = self._directory
        try:
            self._client.post(f"/jobs/{self._job_id}/savepoints", body)
        except FlinkUnavailableError as error:
            # Perhaps only its answer was lost.
            try:
                self.look()
            except FlinkError:
                raise error from None

    def look(self) -> TriggerProgress:
        """Return how far the savepoint is.

        Raises:
            FlinkError: Flink does not answer, or does not know of it.
        """
        answer = savepoint_in(self._client.get(f"/jobs/{self._job_id}/savepoints/{self.id}"))
        if answer.is_completed:
            return TriggerProgress(is_completed=True, path=answer.path, failure=answer.failure)
        found = checkpoints_in(self._client.get(f"/jobs/{self._job_id}/checkpoints")).checkpoints
        # Flink takes one savepoint of a job at a time, as far as we ask for them.
        open_ = [one for one in found if one.kind == "SAVEPOINT" and one.status == IN_PROGRESS]
        if not open_:
            return TriggerProgress()
        newest = max(open_, key=lambda one: one.number)
        return TriggerProgress(acknowledged=newest.acknowledged, subtasks=newest.subtasks)
