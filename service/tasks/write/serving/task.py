"""What the process of a write gets, and what it sends back, over frames of the workers' channel.

| frame | direction | content |
|---|---|---|
| RUN | to the process | a `WriteTask`, as a pickle |
| CANCEL | to the process | empty |
| PROGRESS | from it | a `WriteProgress`, as JSON |
| END | from it | the report, as JSON |
| ERROR | from it | the error, as a worker sends it |

The service reads what comes back without trust: the process ran what a client wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import orjson

from service.base.settings import Settings
from service.query.serving.elsewhere import KnownDatabase
from service.tasks.write.request import WriteRequest


class Phase(StrEnum):
    """What a write does at present; its text is part of the HTTP interface."""

    STARTING = "starting"
    READING = "reading"
    WRITING = "writing"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteProgress:
    """How far a write is.

    Attributes:
        phase: what it does.
        statements: how many statements the script has; 0 before that is known.
        statements_done: how many of them have run.
        files: how many files the target has.
        bytes_written: their bytes, links to the source's files not counted.
    """

    phase: Phase = Phase.STARTING
    statements: int = 0
    statements_done: int = 0
    files: int = 0
    bytes_written: int = 0

    @classmethod
    def of(cls, content: bytearray) -> WriteProgress:
        """Return the progress in PROGRESS."""
        fields = orjson.loads(content)
        return cls(**(fields | {"phase": Phase(fields["phase"])}))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """One write.

    Attributes:
        databases: the source, and the others that the script may read.
        request: what to write; it names the source, or none if the savepoint is made from nothing.
        settings: limits.
        memory_bytes: memory that the process may take; 0 for no limit.
        is_checked: whether a dry run says what a restore would do: what changes is then made among the temporary files.
    """

    databases: tuple[KnownDatabase, ...]
    request: WriteRequest
    settings: Settings
    memory_bytes: int
    is_checked: bool = False
