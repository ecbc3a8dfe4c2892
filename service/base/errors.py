"""The errors of the service room, as users see them.

    QueryError                       500 INTERNAL_ERROR       carries: message, hint, position, detail
      InvalidRequestError            400 INVALID_REQUEST      the request is not as documented
        NotAcceptableError           406 NOT_ACCEPTABLE       no format that the client accepts
        NotFoundError                404 NOT_FOUND            no such address
      InvalidQueryError              400 INVALID_QUERY
        QuerySyntaxError             400 SYNTAX_ERROR
        ColumnNotFoundError          400 COLUMN_NOT_FOUND
        TableNotFoundError           404 TABLE_NOT_FOUND
        DatabaseNotFoundError        404 DATABASE_NOT_FOUND
        JobNotFoundError             404 JOB_NOT_FOUND
        AmbiguousNameError           409 AMBIGUOUS_DATABASE   several databases have this alias
          AmbiguousTitleError        409 AMBIGUOUS_JOB        several jobs have this title
        InvalidValueError            400 INVALID_VALUE        a cast or computation that fails on the data
        NotSupportedError            400 NOT_SUPPORTED        a part of the dialect that is not known here
        EngineRefusesError           400 (of the engine)      the engine cannot answer it, or would answer otherwise
          NotOnSparkError            400 NOT_ON_SPARK         so does Spark: DuckDB answers it
      UnauthorizedError              401 UNAUTHORIZED         no credentials, or wrong ones
      ForbiddenError                 403 FORBIDDEN            SQL that does more than read tables of the catalog
      ConflictError                  409 CONFLICT             a database name that is taken
        NothingChangesError          409 NOTHING_CHANGES      a write, or a statement of it, that finds nothing to change
      LimitExceededError             413 LIMIT_EXCEEDED       request, statement or scan too large
        ScanLimitExceededError       413 LIMIT_EXCEEDED       the scan is too large
      RequestTimeoutError            408 REQUEST_TIMEOUT      the request did not arrive in time
      TooManyQueriesError            429 TOO_MANY_QUERIES     the queue is full; carries the time of a retry
        TooManyWritesError           429 TOO_MANY_WRITES      the queue of writes is full
        TooManyChecksError           429 TOO_MANY_CHECKS      the queue of checks is full
        TooManySavepointsError       429 TOO_MANY_SAVEPOINTS  Flink makes enough savepoints already
        TooManySessionsError         429 TOO_MANY_SESSIONS    agents have enough sessions open already
      ServiceBusyError               503 SERVICE_BUSY         too many connections or bodies; carries the time of a retry
      ServiceEndingError             503 SERVICE_ENDING       the service is stopping; carries the time of a retry
      QueryNotFoundError             404 QUERY_NOT_FOUND      no query of this id, or a query of another user
      WriteNotFoundError             404 WRITE_NOT_FOUND      no write of this id, or a write of another user
      SavepointNotFoundError         404 SAVEPOINT_NOT_FOUND no savepoint of this id was asked for
      ResultGoneError                410 RESULT_GONE          the answer was already read, or dropped unread
      QueryTimeoutError              504 EXCEEDED_TIME_LIMIT
      QueryCancelledError            409 CANCELLED
        QueryKilledError             409 KILLED               ended through another connection, with a reason
        ReaderStalledError           409 STALLED              the client did not read the answer
      MemoryExceededError            507 EXCEEDED_MEMORY
      EngineError                    500 ENGINE_ERROR
        EngineUnavailableError       503 ENGINE_UNAVAILABLE
        WorkerLostError              500 WORKER_LOST          the process of the query was killed, or crashed
      FlinkError                     502 FLINK_ERROR          Flink's REST API does not do what the service needs
        FlinkUnavailableError        503 FLINK_UNAVAILABLE    it does not answer, or not in time
        FlinkRefusalError            502 FLINK_REFUSES        it answers with an error; carries the HTTP status
        FlinkAnswerError             502 FLINK_ANSWER         it answers with something unexpected
        SavepointFailedError         502 SAVEPOINT_FAILED     it made no savepoint, or none that we see
      SavepointError                 422 UNREADABLE_SAVEPOINT the savepoint cannot be read; the codes below

`message` is for every client and names no path of this machine; `detail` is for the owner of the service and may name
paths. One handler renders errors for HTTP (`service.doors.http.errors`), another for the command line (`service.doors.cli`).
Errors of the other rooms are translated here; errors of an engine in the module of the engine.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from catalog.errors import (
    AmbiguousDatabaseError,
    AmbiguousJobError,
    CatalogError,
    DuplicateDatabaseError,
    NoSuchColumnError,
    NoSuchDatabaseError,
    NoSuchJobError,
    NoSuchMaskError,
    NoSuchTableError,
    UnknownNameError,
    near_names,
)
from readers import (
    AccessDeniedError,
    CorruptDataError,
    FileChangedError,
    MissingFileError,
    NotASavepointError,
    PathOutsideRootError,
    ReaderError,
    ReaderFailureError,
    SavepointGoneError,
    StorageError,
    UnsupportedSerializerError,
    UnsupportedStateError,
    UnsupportedVersionError,
    ValueOutOfRangeError,
)
from readers import without_folders as without_folders


@dataclass(frozen=True, slots=True)
class Position:
    """A position in the SQL text; both numbers count from 1."""

    line: int
    column: int

    @classmethod
    def of(cls, sql: str, offset: int) -> Position:
        """Return the position of the character at an offset."""
        before = sql[:offset]
        return cls(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


class QueryError(Exception):
    """The service failed, and the request is not the cause.

    Base class of all errors of the service room.

    Args:
        message: what was expected and what was found; safe to show to every client.
        hint: advice for the user.
        position: position in the SQL text.
        detail: the message with paths of this machine, for the owner of the service; equal to `message` if not given.
        code: replaces the code of the class.
        status: replaces the HTTP status of the class.
    """

    status = 500
    code = "INTERNAL_ERROR"
    retry_after_s: int | None = None

    def __init_subclass__(cls, status: int = 0, code: str = "", retry_after_s: int | None = None) -> None:
        cls.status, cls.code = status or cls.status, code or cls.code
        cls.retry_after_s = retry_after_s or cls.retry_after_s

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        position: Position | None = None,
        detail: str | None = None,
        code: str | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.position = position
        self.detail = detail or message
        self.code = code or self.code
        self.status = status or self.status

    @property
    def told(self) -> str:
        """The error for the owner of the service: where in the text, what was expected and found, and the advice."""
        position = f"line {self.position.line}, column {self.position.column}: " if self.position else ""
        hint = f" ({self.hint})" if self.hint else ""
        message = self.detail if isinstance(self, _TOLD_IN_DETAIL) else self.message
        return f"{position}{message}{hint}"


class InvalidRequestError(QueryError, status=400, code="INVALID_REQUEST"):
    """The request is not as documented."""


class NotAcceptableError(InvalidRequestError, status=406, code="NOT_ACCEPTABLE"):
    """The service has none of the formats that the client accepts."""


class NotFoundError(InvalidRequestError, status=404, code="NOT_FOUND"):
    """The address does not exist."""


class InvalidQueryError(QueryError, status=400, code="INVALID_QUERY"):
    """The statement is not valid."""


class QuerySyntaxError(InvalidQueryError, code="SYNTAX_ERROR"):
    """The text is not SQL."""


class ColumnNotFoundError(InvalidQueryError, code="COLUMN_NOT_FOUND"):
    """No table of the query has this column."""


class TableNotFoundError(InvalidQueryError, status=404, code="TABLE_NOT_FOUND"):
    """The database does not have this table."""


class DatabaseNotFoundError(InvalidQueryError, status=404, code="DATABASE_NOT_FOUND"):
    """The catalog does not have this database."""


class JobNotFoundError(InvalidQueryError, status=404, code="JOB_NOT_FOUND"):
    """The catalog has no such job."""


class AmbiguousNameError(InvalidQueryError, status=409, code="AMBIGUOUS_DATABASE"):
    """Several databases have this alias; the message lists them."""


class AmbiguousTitleError(AmbiguousNameError, code="AMBIGUOUS_JOB"):
    """Several jobs have this title; the message lists them."""


class InvalidValueError(InvalidQueryError, code="INVALID_VALUE"):
    """A cast or a computation fails on a value."""


class NotSupportedError(InvalidQueryError, code="NOT_SUPPORTED"):
    """The statement has a part of its dialect that is not known here."""


class EngineRefusesError(InvalidQueryError):
    """A statement that an engine cannot answer, or would answer differently from the local engine.

    Each engine that refuses statements has a class of its own below this one, with a code.
    """


class ConditionsDifferError(InvalidQueryError):
    """The scans of a plan lack rows, and the engine reads the conditions for these differently. Planned without, it can answer."""


class UnauthorizedError(QueryError, status=401, code="UNAUTHORIZED"):
    """The credentials are missing or wrong. The message does not say what is wrong with a key."""


class ForbiddenError(QueryError, status=403, code="FORBIDDEN"):
    """The statement would do more than read tables, or the user lacks a grant."""


class ConflictError(QueryError, status=409, code="CONFLICT"):
    """The database name is taken."""


class NothingChangesError(ConflictError, code="NOTHING_CHANGES"):
    """A script or statement finds nothing to change, and the request does not allow that."""


class LimitExceededError(QueryError, status=413, code="LIMIT_EXCEEDED"):
    """The request or the statement is larger than allowed."""


class ScanLimitExceededError(LimitExceededError):
    """The query would read more bytes than allowed."""


class TooManyQueriesError(QueryError, status=429, code="TOO_MANY_QUERIES"):
    """The queue of queries is full.

    Args:
        message: see `QueryError`.
        retry_after_s: seconds after which the client may try again.
    """

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message, hint=f"try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class TooManyWritesError(TooManyQueriesError, code="TOO_MANY_WRITES"):
    """The queue of writes is full."""


class TooManyChecksError(TooManyQueriesError, code="TOO_MANY_CHECKS"):
    """The queue of checks is full."""


class TooManySavepointsError(TooManyQueriesError, code="TOO_MANY_SAVEPOINTS"):
    """Clients wait for enough savepoints of Flink already."""


class TooManySessionsError(TooManyQueriesError, code="TOO_MANY_SESSIONS"):
    """Too many sessions of the Model Context Protocol are open."""


class RequestTimeoutError(QueryError, status=408, code="REQUEST_TIMEOUT"):
    """The client did not send its request in time."""


class ServiceBusyError(QueryError, status=503, code="SERVICE_BUSY", retry_after_s=1):
    """Too many connections are open, or too many long bodies are on their way."""


class ServiceEndingError(QueryError, status=503, code="SERVICE_ENDING", retry_after_s=5):
    """The service is stopping: it accepts no query, and cancels queries that run for too long."""


class QueryNotFoundError(QueryError, status=404, code="QUERY_NOT_FOUND"):
    """No query has this id, or it belongs to another user."""


class WriteNotFoundError(QueryError, status=404, code="WRITE_NOT_FOUND"):
    """No write has this id, or it belongs to another user."""


class SavepointNotFoundError(QueryError, status=404, code="SAVEPOINT_NOT_FOUND"):
    """Nobody has asked for a savepoint of this id, or too long ago."""


class ResultGoneError(QueryError, status=410, code="RESULT_GONE"):
    """The answer was already read, or dropped because no client read it."""


class QueryTimeoutError(QueryError, status=504, code="EXCEEDED_TIME_LIMIT"):
    """The query did not end before its deadline."""


class QueryCancelledError(QueryError, status=409, code="CANCELLED"):
    """The query was cancelled."""


class QueryKilledError(QueryCancelledError, code="KILLED"):
    """The query was ended through another connection, which may have given a reason."""


class ReaderStalledError(QueryCancelledError, code="STALLED"):
    """No client read the answer for too long, or while other queries needed the worker."""


class MemoryExceededError(QueryError, status=507, code="EXCEEDED_MEMORY"):
    """The query needs more memory than it may have."""


class EngineError(QueryError, status=500, code="ENGINE_ERROR"):
    """The engine failed, and the query is not the cause."""


class EngineUnavailableError(EngineError, status=503, code="ENGINE_UNAVAILABLE"):
    """The engine is not available."""


class WorkerLostError(EngineError, code="WORKER_LOST"):
    """The process of the query ended before the answer was complete: it was killed, or it crashed."""


class FlinkError(QueryError, status=502, code="FLINK_ERROR"):
    """Flink's REST API does not do what the service needs."""


class FlinkUnavailableError(FlinkError, status=503, code="FLINK_UNAVAILABLE"):
    """Flink's REST API does not answer, or not in time."""


class FlinkRefusalError(FlinkError, code="FLINK_REFUSES"):
    """Flink's REST API answers with an error.

    Args:
        message: see `QueryError`.
        found_status: the HTTP status of the answer.
    """

    def __init__(self, message: str, *, found_status: int) -> None:
        super().__init__(message)
        self.found_status = found_status


class FlinkAnswerError(FlinkError, code="FLINK_ANSWER"):
    """Flink's REST API answers with something unexpected."""


class SavepointFailedError(FlinkError, code="SAVEPOINT_FAILED"):
    """Flink made no savepoint, or none that this service sees."""


class SavepointError(QueryError, status=422, code="UNREADABLE_SAVEPOINT"):
    """The savepoint cannot be read."""


def query_error_of(error: Exception, position: Position | None = None) -> QueryError:
    """Translate an error of any room; the caller raises the result `from error`.

    Args:
        error: the error.
        position: in the SQL text, if the error has none.
    """
    found = _translation_of(error)
    found.position = found.position or position
    return found


def _translation_of(error: Exception) -> QueryError:
    # The method resolution order finds the translation of the nearest base class.
    for kind in type(error).__mro__:
        if kind in _TRANSLATIONS:
            error_class, code, status = _TRANSLATIONS[kind]
            return error_class(
                without_folders(_marked(error, _public_message(error))),
                hint=near_names_hint(error.near) if isinstance(error, UnknownNameError) else None,
                detail=_marked(error, str(error)),
                code=code,
                status=status,
            )
    if isinstance(error, QueryError):
        return error
    if isinstance(error, OSError) and is_full(error):
        return LimitExceededError(
            f"expected free disk for temporary files, found none: {os.strerror(error.errno or 0)}",
            hint="free some, or name a folder of another disk by the setting temp_directory or by TMPDIR",
        )
    # The message of an unexpected error may quote anything, so clients get no part of it.
    return QueryError("the service failed; its log says why", detail=f"{type(error).__name__}: {error}")


@contextmanager
def translated(*kinds: type[Exception], position: Position | None = None) -> Iterator[None]:
    """Raise errors of other rooms as those of the service, with a position in the SQL text."""
    try:
        yield
    except kinds as error:
        raise query_error_of(error, position) from error


def is_full(error: OSError) -> bool:
    """Return whether an error says that a disk has no room: files of targets have errors of their own, so it is that of temporary files."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def translate(kind: type[Exception], error_class: type[QueryError], code: str | None = None) -> None:
    """Let `query_error_of` translate errors of a class: for rooms that are imported only where they are needed."""
    _TRANSLATIONS[kind] = error_class, code, None


def translated_codes() -> list[tuple[str, int, str]]:
    """Return code, status and meaning of the errors of other rooms that have codes of their own."""
    return [
        (code, status or error_class.status, (kind.__doc__ or "").splitlines()[0])
        for kind, (error_class, code, status) in _TRANSLATIONS.items()
        if code is not None
    ]


def near_names_hint(near: tuple[str, ...]) -> str | None:
    """Return a hint with similar names, for a name that does not exist."""
    quoted = [f'"{name}"' for name in near]
    return f"did you mean {' or '.join(quoted)}?" if near else None


def known_words(word: str, known: Collection[str]) -> str:
    """Return the end of a sentence about an unknown word: the known one that is most like it, or all of them."""
    near = near_names(word, known)
    return f"; is it {near[0]}?" if near else f", one of {', '.join(known)}"


def _marked(error: Exception, message: str) -> str:
    """Say first what is wrong with a file: bytes and offsets mean nothing to most users."""
    return f"damaged or incomplete: {message}" if isinstance(error, CorruptDataError) else message


def _public_message(error: Exception) -> str:
    # MemoryError has no message, and a LookupError prints its message in quotes.
    if isinstance(error, MemoryError):
        return "the query needs more memory than it may have"
    if isinstance(error, UnknownNameError):
        return f"there is no {error.what} {error.name!r}"
    return error.told if isinstance(error, ReaderError) else str(error)


# Their messages for every client leave out the paths that the owner looks for.
_TOLD_IN_DETAIL = (SavepointError, NotFoundError, SavepointFailedError)
_Translation = tuple[type[QueryError], str | None, int | None]
_TRANSLATIONS: dict[type[BaseException], _Translation] = {
    MemoryError: (MemoryExceededError, None, None),
    NoSuchDatabaseError: (DatabaseNotFoundError, None, None),
    NoSuchJobError: (JobNotFoundError, None, None),
    NoSuchTableError: (TableNotFoundError, None, None),
    NoSuchColumnError: (ColumnNotFoundError, None, None),
    AmbiguousDatabaseError: (AmbiguousNameError, None, None),
    AmbiguousJobError: (AmbiguousTitleError, None, None),
    DuplicateDatabaseError: (ConflictError, None, None),
    NoSuchMaskError: (ForbiddenError, None, None),
    CatalogError: (InvalidRequestError, None, None),
    NotASavepointError: (SavepointError, "NOT_A_SAVEPOINT", None),
    UnsupportedVersionError: (SavepointError, "UNSUPPORTED_VERSION", None),
    UnsupportedSerializerError: (SavepointError, "UNSUPPORTED_SERIALIZER", None),
    UnsupportedStateError: (SavepointError, "UNSUPPORTED_STATE", None),
    CorruptDataError: (SavepointError, "CORRUPT_SAVEPOINT", None),
    ValueOutOfRangeError: (SavepointError, "VALUE_OUT_OF_RANGE", None),
    ReaderFailureError: (SavepointError, "READER_FAILED", 500),
    MissingFileError: (SavepointError, "MISSING_FILE", 410),
    PathOutsideRootError: (SavepointError, "PATH_OUTSIDE_ROOT", 403),
    SavepointGoneError: (SavepointError, "SAVEPOINT_GONE", 410),
    StorageError: (SavepointError, "STORAGE_ERROR", 502),
    AccessDeniedError: (SavepointError, "STORAGE_ACCESS_DENIED", 502),
    FileChangedError: (SavepointError, "SAVEPOINT_CHANGED", 409),
    ReaderError: (SavepointError, None, None),
}


class NotOnSparkError(EngineRefusesError, code="NOT_ON_SPARK"):
    """A statement that Spark cannot answer, or would answer differently from DuckDB.

    Args:
        what: the part of the statement; the message goes on behind it.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is not answered by Spark as by DuckDB", hint='ask for "engine": "duckdb"')
