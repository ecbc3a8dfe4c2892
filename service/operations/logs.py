"""Logs of a service: a line an event, as text or JSON, with the id of the query it is about.

The audit log is the logger `savepointdb.audit`: a line for each query that ended, with who asked, what it cost and how it ended.
It has the shape of the statement, every literal in it a `?`, so that no value of a user's state is in a log; errors are there by
code only, for their messages quote values.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

from sqlglot import exp

from service.queries.query import Query
from service.settings import Settings
from service.sql.parser import DIALECT

AUDIT: Final = "savepointdb.audit"
_FIELDS: Final = "fields"
_LONGEST_SHAPE = 4000
FORMATS = ("text", "json")


class JsonFormatter(logging.Formatter):
    """A JSON object a line: `time`, `level`, `logger`, `message`, and the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        """As logging asks."""
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
    """A line for people: time, level, message, and the fields as `name=value`; line breaks are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """As logging asks."""
        fields = getattr(record, _FIELDS, {})
        told = " ".join(f"{name}={json.dumps(value, default=str)}" for name, value in fields.items())
        line = f"{_time(record)} {record.levelname.lower()} {record.getMessage()} {told}".rstrip()
        line = line.replace("\r", "\\r").replace("\n", "\\n")
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def install(settings: Settings) -> None:
    """Let the service's loggers write to standard error as the settings say.

    Raises:
        ValueError: a level or format that is not known.
    """
    level = logging.getLevelNamesMapping().get(settings.logs.level.upper())
    if level is None or settings.logs.format not in FORMATS:
        raise ValueError(
            f"expected a log_level such as info and a log_format of {' or '.join(FORMATS)}, "
            f"found {settings.logs.level!r} and {settings.logs.format!r}"
        )
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.logs.format == "json" else TextFormatter())
    for name in ("savepointdb", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    logging.getLogger(AUDIT).setLevel(logging.INFO if settings.logs.audit else logging.CRITICAL)


def audit(query: Query) -> None:
    """Write the line of a query that ended."""
    logger = logging.getLogger(AUDIT)
    if not logger.isEnabledFor(logging.INFO):
        return
    record = query.record
    fields = {
        "query_id": record.id,
        "user": record.user,
        "source": record.source,
        "state": record.state.value,
        "code": record.error.code if record.error else None,
        "engine": record.engine,
        "databases": [database.name for database in query.databases],
        "statement": shape_of(query),
        "queued_ms": round(record.queued_ms, 1),
        "elapsed_ms": round(record.elapsed_ms, 1),
        "bytes_read": record.progress.bytes_read,
        "row_count": record.row_count,
    }
    logger.info("query %s", record.state.value, extra={_FIELDS: fields})


def shape_of(query: Query) -> str:
    """The statement that ran with `?` in place of every literal."""
    tree = query.plan.query.copy()
    shaped = tree.transform(lambda node: exp.Placeholder() if isinstance(node, exp.Literal) else node)
    return shaped.sql(dialect=DIALECT)[:_LONGEST_SHAPE]


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
