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

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from service.base.errors import FlinkError, FlinkUnavailableError, SavepointFailedError
from service.tasks.jobs.answers import IN_PROGRESS, checkpoints_in, savepoint_in
from service.tasks.jobs.client import RestClient

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0


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

    def looks(self, timeout_s: float, pauses: Callable[[float], bool]) -> Iterator[TriggerProgress]:
        """Yield how far the savepoint is, again and again; the last one has its path.

        Args:
            timeout_s: seconds after which nobody waits any more.
            pauses: waits for some seconds; False ends the looks, without a path.

        Raises:
            SavepointFailedError: Flink made none.
            FlinkError: Flink does not answer as it should, or not in time.
        """
        deadline, pause_s = time.monotonic() + timeout_s, _FIRST_PAUSE_S
        while pauses(pause_s):
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 1.5)
            try:
                progress = self.look()
            except FlinkUnavailableError:
                # A cluster may be away for a moment; it goes on meanwhile.
                if time.monotonic() >= deadline:
                    raise
                continue
            if progress.failure is not None:
                raise SavepointFailedError(f"Flink made no savepoint: {progress.failure}")
            yield progress
            if progress.path is not None:
                return
            if time.monotonic() >= deadline:
                raise FlinkError(f"expected a savepoint within {timeout_s:g} s; Flink may still make it")
