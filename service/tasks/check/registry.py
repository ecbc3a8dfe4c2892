"""The checks of clients: so many at a time, each in a process of its own, within a time."""

from __future__ import annotations

import pickle
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from anyio import CapacityLimiter, get_cancelled_exc_class, to_thread

from service.base import errors
from service.base.settings import Settings
from service.base.waiting import found_in_thread
from service.query.engines.engine import task_folder
from service.query.engines.workers.forks import start_process
from service.query.engines.workers.pool import worker_memory_bytes
from service.query.serving.elsewhere import KnownDatabase
from service.query.serving.registry import slot_limits
from service.tasks.check.process import CheckTask, ToldFindings, UploadedJar, told_findings
from service.tasks.check.running import CheckRequest
from service.tasks.task import Context

_RETRY_AFTER_S = 5
_MOST_COMPARED = 20


class Checks:
    """The checks of a service. The thread of the event loop uses it alone.

    Args:
        settings: their limits.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._memory_bytes = worker_memory_bytes(settings, slot_limits(settings).running)
        self.open = 0
        self._limiter: CapacityLimiter | None = None
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_ending = False
        self._observers: list[Callable[[str, str], None]] = []

    def add_observer(self, observer: Callable[[str, str], None]) -> None:
        """Call an observer for each check that ends, with its outcome and the code of its error; one of them is empty."""
        self._observers.append(observer)

    async def outcome(
        self, request: CheckRequest, context: Context, jar: bytes | None = None, jar_name: str = ""
    ) -> ToldFindings:
        """Return what a check finds, once its turn has come and it is done. A caller that is cancelled ends it.

        Args:
            request: the savepoint, and how it would be restored; databases are named in `against`.
            context: of the caller, who knows databases by their names.
            jar: the bytes of the new job's jar; None if there is none.
            jar_name: its name.

        Raises:
            CatalogError: there is no such database.
            TooManyChecksError: too many checks wait.
            QueryTimeoutError: it takes too long.
            QueryError: too much is compared, the check failed, or its process was lost.
        """
        if len(request.against) > _MOST_COMPARED:
            raise errors.InvalidRequestError(
                f"expected at most {_MOST_COMPARED} databases to compare with, found {len(request.against)}"
            )

        def task() -> CheckTask:
            return CheckTask(
                database=KnownDatabase.of(context.database(request.database)),
                against=tuple(KnownDatabase.of(context.database(one)) for one in request.against),
                jar=None,
                request=request,
                settings=self._settings,
                memory_bytes=self._memory_bytes,
            )

        # Databases are looked up on the disk.
        checked = await to_thread.run_sync(task)
        try:
            found = await self._in_turn(lambda ending: self._reported(checked, jar, jar_name, ending))
        except errors.QueryError as error:
            self._notify("", error.code)
            raise
        except get_cancelled_exc_class():
            self._notify("", errors.QueryCancelledError.code)
            raise
        self._notify(found.report["outcome"], "")
        return found

    async def _in_turn(self, check: Callable[[_Ending], ToldFindings]) -> ToldFindings:
        limits = self._settings.checks
        if self.open >= limits.running + limits.queued:
            raise errors.TooManyChecksError("too many checks wait", retry_after_s=_RETRY_AFTER_S)
        self._limiter = self._limiter or CapacityLimiter(max(1, limits.running))
        self.open += 1
        try:
            ending = _Ending()
            # Not the threads of other calls, which would wait behind checks.
            return await found_in_thread(lambda: check(ending), ending.end, self._limiter)
        finally:
            self.open -= 1

    def _notify(self, outcome: str, code: str) -> None:
        for observer in self._observers:
            observer(outcome, code)

    def close(self) -> None:
        """End all checks."""
        self._is_ending = True
        for process in list(self._running):
            process.kill()

    def _reported(self, task: CheckTask, jar: bytes | None, jar_name: str, ending: _Ending) -> ToldFindings:
        with closing(task_folder(self._settings.storage.temp_directory)) as spill:
            if jar is not None:
                path = Path(spill.path, "job.jar")
                path.write_bytes(jar)
                task = replace(task, jar=UploadedJar(path=str(path), name=jar_name))
            return self._answered(task, ending)

    def _answered(self, task: CheckTask, ending: _Ending) -> ToldFindings:
        with start_process(
            "service.tasks.check.process", stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            self._running.add(process)
            ending.watch(process)
            try:
                if self._is_ending:
                    raise _service_ending()
                answer, _ = process.communicate(pickle.dumps(task), timeout=self._settings.checks.timeout_s)
            except subprocess.TimeoutExpired as error:
                raise errors.QueryTimeoutError(
                    f"the check was not done within {self._settings.checks.timeout_s:g} s",
                    hint="the setting check_timeout_s gives it more time",
                ) from error
            finally:
                process.kill()
                self._running.discard(process)
        if self._is_ending:
            raise _service_ending()
        if ending.has_come:
            raise errors.QueryCancelledError("the check was cancelled")
        try:
            return told_findings(answer)
        except (TypeError, ValueError) as error:
            code = process.returncode
            raise errors.WorkerLostError(
                f"the process of the check ended with code {code}",
                hint="it may need more memory than it has: see worker_memory",
            ) from error


class _Ending:
    """The end of a check before it is done, because nobody waits for it; any thread may ask for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.has_come = False

    def watch(self, process: subprocess.Popen[bytes]) -> None:
        """Note the process of the check, which ends at once if nobody waits for it any more."""
        with self._lock:
            self._process = process
            if self.has_come:
                process.kill()

    def end(self) -> None:
        """End the check."""
        with self._lock:
            self.has_come = True
            if self._process is not None:
                self._process.kill()


def _service_ending() -> errors.ServiceEndingError:
    return errors.ServiceEndingError("the service is about to end", hint="try again soon")
