"""Logs of a service: one line per event, as text or JSON, with the id of its query.

The audit log is the logger `savepointdb.audit`: one line for each query that ended, with its user, its cost and its
result. The line contains the statement with `?` in place of every literal, so that no value of a user's state gets into
a log. Errors appear only as codes, because their messages quote values. A write that ended has a line, too, with its source and
target, the kinds of its statements and the number of rows; a check, too, with what was compared and the outcome; and a savepoint
that Flink was asked for, with the job and the cluster. A query that an operator ended has a line that says who did, and so has a
saved query that a client saved or deleted.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from sqlglot import exp

from service.base.principal import Identity
from service.base.settings import Settings
from service.query.encode import printable
from service.query.serving.query import Query, QueryRecord
from service.query.sql.text import DIALECT
from service.tasks.jobs.triggers import SavepointRecord
from service.tasks.time.test.states import RuleState
from service.tasks.write.serving.writes import WriteRecord

AUDIT: Final = "savepointdb.audit"
_FIELDS: Final = "fields"
_LONGEST_SHAPE = 4000
_REPEATED_AFTER_S = 1.0  # generated statements may have megabytes
FORMATS = ("text", "json")


class JsonFormatter(logging.Formatter):
    """One JSON object per line: `time`, `level`, `logger`, `message`, and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        event: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        } | getattr(record, _FIELDS, {})
        if record.exc_info:
            event["trace"] = self.formatException(record.exc_info)
        return json.dumps(event, ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """A line for people: time, level, message, and the fields as `name=value`; what is not printable is escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        fields = getattr(record, _FIELDS, {})
        shown = " ".join(f"{name}={json.dumps(value, default=str)}" for name, value in fields.items())
        line = f"{_time(record)} {record.levelname.lower()} {record.getMessage()} {shown}".rstrip()
        # A client, or the name of a folder, could otherwise write lines of its own, or steer the terminal.
        line = printable(line)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class RepeatLimit(logging.Filter):
    """Lets one warning a second through of each place in the code; its next one says how many were left out.

    A client could otherwise fill the disk with the warnings that it causes. Events below a warning, such as the audit
    log, are never left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        # By file, line and class of the error: the time of the last line, and how many were left out since.
        self._last: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged; a record that follows others that were not says how many."""
        if record.levelno < logging.WARNING:
            return True
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        place = record.pathname, record.lineno, error
        with self._lock:
            last, left_out = self._last.get(place, (-_REPEATED_AFTER_S, 0))
            if last <= record.created < last + _REPEATED_AFTER_S:
                self._last[place] = last, left_out + 1
                return False
            self._last[place] = record.created, 0
        if left_out:
            record.msg, record.args = f"{record.getMessage()} (and {left_out} more like this before)", None
        return True


def install(settings: Settings) -> None:
    """Let the loggers of the service write to standard error, with level and format of the settings.

    Raises:
        ValueError: an unknown level or format.
    """
    level = logging.getLevelNamesMapping().get(settings.logs.level.upper())
    if level is None or settings.logs.format not in FORMATS:
        raise ValueError(
            f"expected a log_level such as info and a log_format of {' or '.join(FORMATS)}, "
            f"found {settings.logs.level!r} and {settings.logs.format!r}"
        )
    handler = logging.StreamHandler()
    handler.addFilter(RepeatLimit())
    handler.setFormatter(JsonFormatter() if settings.logs.format == "json" else TextFormatter())
    # uvicorn configures its own handlers, which would write its lines in another format.
    for name in ("savepointdb", "uvicorn", "asyncio", "mcp"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    # The audit log only has lines of level INFO, so CRITICAL turns it off.
    logging.getLogger(AUDIT).setLevel(logging.INFO if settings.logs.audit else logging.CRITICAL)


def audit(query: Query) -> None:
    """Write the audit line of a query that ended."""
    logger = logging.getLogger(AUDIT)
    if not logger.isEnabledFor(logging.INFO):
        return
    record = query.record
    fields = {
        "query_id": record.id,
        **_who("user", record.owner),
        "source": record.source,
        "state": record.state.value,
        "code": record.error.code if record.error else None,
        "engine": record.engine,
        "databases": [database.name for database in query.plan.databases],
        "statement": shape_of(query),
        "queued_ms": round(record.queued_ms, 1),
        "elapsed_ms": round(record.elapsed_ms, 1),
        "bytes_read": record.progress.bytes_read,
        "row_count": record.row_count,
    }
    logger.info("query %s", record.state.value, extra={_FIELDS: fields})


def audit_kill(user: Identity, record: QueryRecord) -> None:
    """Write the audit line of a query that an operator ended; that of the query itself follows."""
    fields = {
        "query_id": record.id,
        **_who("user", user),
        **_who("owner", record.owner),
        "databases": [origin.name for origin in record.origins],
    }
    logging.getLogger(AUDIT).info("query killed", extra={_FIELDS: fields})


def audit_kill_of_write(user: Identity, record: WriteRecord) -> None:
    """Write the audit line of a write that an operator ended; that of the write itself stands before it."""
    order = record.order
    fields = {
        "write_id": record.id,
        **_who("user", user),
        **_who("owner", order.owner),
        "database": order.source,
        "target": order.target.database if order.target else None,
    }
    logging.getLogger(AUDIT).info("write killed", extra={_FIELDS: fields})


def audit_saved(user: Identity, done: str, name: str, database: str | None) -> None:
    """Write the audit line of a query that a client saved or deleted."""
    fields = {"name": name, **_who("user", user), "database": database}
    logging.getLogger(AUDIT).info("saved query %s", done, extra={_FIELDS: fields})


def audit_silence(user: Identity, state: RuleState) -> None:
    """Write the audit line of a rule that an operator silenced, or whose silence an operator ended."""
    fields = {
        "user": user.name,
        "user_source": user.source.value,
        "job": state.job,
        "rule": state.rule.name,
        "until": None if state.silenced_until is None else state.silenced_until.isoformat(),
    }
    logging.getLogger(AUDIT).info(
        "rule silenced" if state.is_silenced else "rule not silenced", extra={_FIELDS: fields}
    )


def audit_write(record: WriteRecord) -> None:
    """Write the audit line of a write that ended."""
    order, report = record.order, record.report or {}
    fields = {
        "write_id": record.id,
        **_who("user", order.owner),
        "source": order.client,
        "state": record.state.value,
        "code": record.error.code if record.error else None,
        "database": order.source,
        "target": order.target.database if order.target else None,
        "statements": list(order.kinds),
        "files": order.request.files,
        "queued_ms": round(record.queued_ms, 1),
        "elapsed_ms": round(record.elapsed_ms, 1),
        "row_count": report.get("rows"),
        "bytes_written": record.progress.bytes_written,
    }
    logging.getLogger(AUDIT).info("write %s", record.state.value, extra={_FIELDS: fields})


def audit_check(user: Identity, database: str, against: Sequence[str], report: Mapping[str, Any]) -> None:
    """Write the audit line of a check that was answered."""
    fields = {
        **_who("user", user),
        "database": database,
        "against": list(against),
        "flink": report["flink"],
        "outcome": report["outcome"],
        "severity": report["severity"],
    }
    logging.getLogger(AUDIT).info("check %s", report["outcome"], extra={_FIELDS: fields})


def audit_savepoint(record: SavepointRecord) -> None:
    """Write the audit line of a savepoint that a client asked Flink for, and that has ended."""
    fields = {
        "savepoint_id": record.id,
        **_who("user", record.owner),
        "job": record.job,
        "job_id": record.job_id,
        "cluster": record.cluster,
        "format": record.format,
        "state": record.state.value,
        "code": record.error.code if record.error else None,
        "database": record.database,
        "elapsed_ms": round(record.elapsed_ms, 1),
    }
    logging.getLogger(AUDIT).info("savepoint %s", record.state.value, extra={_FIELDS: fields})


def _who(role: str, identity: Identity) -> dict[str, str]:
    return {role: identity.name, f"{role}_source": identity.source.value}


def shape_of(query: Query) -> str:
    """Return the statement with `?` in place of every literal."""
    if query.plan.short is not None:
        return query.plan.short.shape[:_LONGEST_SHAPE]
    tree = query.plan.query.copy()
    shaped = tree.transform(lambda node: exp.Placeholder() if isinstance(node, exp.Literal) else node)
    return shaped.sql(dialect=DIALECT)[:_LONGEST_SHAPE]


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
