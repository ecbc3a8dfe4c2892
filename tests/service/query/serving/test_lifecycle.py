"""The life of a query and its clients: states, deadlines, and why it ends."""

from __future__ import annotations

import time

import pytest

from service.base.errors import EngineError, QueryCancelledError, QueryTimeoutError, ReaderStalledError
from service.query.running.run import Lifecycle, QueryState
from service.query.serving.query import Attendance

NOW = time.monotonic()


def lifecycle(timeout_s: float = 10.0) -> Lifecycle:
    return Lifecycle(NOW, timeout_s)


def running() -> Lifecycle:
    life = lifecycle()
    assert life.grant(lambda: None)
    return life


def test_a_query_waits_runs_and_finishes() -> None:
    life = lifecycle()
    states = [life.state]
    life.grant(lambda: states.append(life.state))
    life.end(None)

    assert [*states, life.state] == [QueryState.QUEUED, QueryState.RUNNING, QueryState.FINISHED]
    assert life.queued_ms <= life.elapsed_ms


def test_a_query_that_fails_keeps_its_error() -> None:
    life, error = running(), EngineError("broken")
    life.end(error)

    assert (life.state, life.error) == (QueryState.FAILED, error)


def test_a_query_that_waits_ends_at_once_when_it_is_cancelled() -> None:
    life, error = lifecycle(), QueryCancelledError("no more")

    assert life.cancel(error) is QueryState.QUEUED
    assert (life.state, life.error) == (QueryState.CANCELLED, error)
    assert not life.grant(pytest.fail)


def test_a_query_that_runs_ends_when_its_thread_sees_the_reason() -> None:
    life, first = running(), QueryCancelledError("first")

    assert life.cancel(first) is QueryState.RUNNING
    assert life.cancel(QueryCancelledError("second")) is QueryState.RUNNING
    assert life.state is QueryState.RUNNING
    with pytest.raises(QueryCancelledError, match="first"):
        life.check_not_cancelled()


def test_a_query_that_has_ended_cannot_be_cancelled() -> None:
    life = running()
    life.end(None)

    assert life.cancel(QueryCancelledError("late")) is None
    assert (life.state, life.failure) == (QueryState.FINISHED, None)


def test_a_deadline_counts_until_the_end() -> None:
    life = lifecycle(timeout_s=10)

    assert life.timeout(NOW + 9) is None
    assert isinstance(life.timeout(NOW + 11), QueryTimeoutError)
    life.grant(lambda: None)
    assert isinstance(life.timeout(NOW + 11), QueryTimeoutError)
    life.end(None)
    assert life.timeout(NOW + 11) is None


def test_a_query_is_abandoned_unless_a_client_waits() -> None:
    attendance = Attendance(abandoned_after_s=5, stall_timeout_s=1)
    later = time.monotonic() + 6

    abandonment = attendance.abandonment(later)
    with attendance.attended():
        waiting = attendance.abandonment(later)

    assert abandonment is not None
    assert (abandonment.code, waiting) == ("ABANDONED", None)
    assert Attendance(abandoned_after_s=None, stall_timeout_s=1).abandonment(later) is None


def test_a_client_of_a_stream_must_read() -> None:
    attendance = Attendance(abandoned_after_s=None, stall_timeout_s=1)
    attendance.stream()

    assert isinstance(attendance.abandonment(time.monotonic() + 2), ReaderStalledError)


def test_an_answer_is_reserved_once() -> None:
    attendance = Attendance(abandoned_after_s=None, stall_timeout_s=1)

    assert (attendance.claim(), attendance.claim()) == (True, False)


def test_idle_seconds_count_from_the_last_read_or_later() -> None:
    attendance = Attendance(abandoned_after_s=None, stall_timeout_s=1)
    now = time.monotonic() + 10

    assert attendance.idle_s(now) == pytest.approx(10, abs=1)
    assert attendance.idle_s(now, since=now - 2) == pytest.approx(2)
