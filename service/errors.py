"""The errors of the service room: what a user is told.

    QueryError                       500 INTERNAL_ERROR       carries: message, hint, position, detail
      InvalidRequestError            400 INVALID_REQUEST      not a request as documented
        NotAcceptableError           406 NOT_ACCEPTABLE       no format that the client accepts
        NotFoundError                404 NOT_FOUND            no such address
      InvalidQueryError              400 INVALID_QUERY
        QuerySyntaxError             400 SYNTAX_ERROR
        ColumnNotFoundError          400 COLUMN_NOT_FOUND
        TableNotFoundError           404 TABLE_NOT_FOUND
        DatabaseNotFoundError        404 DATABASE_NOT_FOUND
        InvalidValueError            400 INVALID_VALUE        a cast or computation that fails on the data
        EngineRefusesError           400 (of the engine)      the engine cannot answer it, or would answer otherwise
      UnauthorizedError              401 UNAUTHORIZED         no credentials, or wrong ones
      ForbiddenError                 403 FORBIDDEN            SQL that does more than read tables of the catalog
      ConflictError                  409 CONFLICT             a database name that is taken
      LimitExceededError             413 LIMIT_EXCEEDED       request, statement or scan too large
      TooManyQueriesError            429 TOO_MANY_QUERIES     as many wait as may; says when to come again
      ServiceEndingError             503 SERVICE_ENDING       it is told to stop; says when to come again
      QueryNotFoundError             404 QUERY_NOT_FOUND      no query of this id, or another user's
      ResultGoneError                410 RESULT_GONE          its answer was read, or dropped because nobody did
      QueryTimeoutError              504 EXCEEDED_TIME_LIMIT
      QueryCancelledError            409 CANCELLED
        ReaderStalledError           409 STALLED              nobody read its answer
      MemoryExceededError            507 EXCEEDED_MEMORY
      EngineError                    500 ENGINE_ERROR
        EngineUnavailableError       503 ENGINE_UNAVAILABLE
        WorkerLostError              500 WORKER_LOST          the process that ran it ended: killed, or crashed
      SavepointError                 422 UNREADABLE_SAVEPOINT the savepoint cannot be read; the codes below

`message` is for anybody and names no path of this machine; `detail` is for its owner and may. One handler renders all
(`service.app`), as does the command line (`service.cli`). Errors of the other rooms are translated here, once;
those of an engine in its module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from catalog.errors import (
    CatalogError,
    DuplicateDatabaseError,
    NoSuchColumnError,
    NoSuchDatabaseError,
    NoSuchTableError,
    UnknownNameError,
)
from readers import (
    AccessDeniedError,
    CorruptDataError,
    FileChangedError,
    MissingFileError,
    NotASavepointError,
    PathOutsideRootError,
    ReaderError,
    SavepointGoneError,
    StorageError,
    UnsupportedSerializerError,
    UnsupportedStateError,
    UnsupportedVersionError,
    ValueOutOfRangeError,
)

# `/a/b/name` and `file:/a/b/name`: all but the name.
_FOLDERS = re.compile(r"(?<![\w/.…])(?:[a-z][a-z0-9+.-]*:/{0,2})?/(?:[^\s/'\"]+/)+")


@dataclass(frozen=True, slots=True)
class Position:
    """Where in the SQL text, both from 1."""

    line: int
    column: int

    @classmethod
    def of(cls, sql: str, offset: int) -> Position:
        """The position of a character."""
        before = sql[:offset]
        return cls(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


class QueryError(Exception):
    """Root of all errors of the service room.

    Args:
        message: what was expected, what was found; safe to show to anybody.
        hint: what to do or to try.
        position: where in the SQL text.
        detail: the same with paths of this machine, for its owner; `message` if there is no more to say.
        code: a more exact code than that of the class.
        status: a more exact HTTP status than that of the class.
    """

    status = 500
    code = "INTERNAL_ERROR"
    retry_after_s: int | None = None

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


class InvalidRequestError(QueryError):
    """A request that is not as documented."""

    status = 400
    code = "INVALID_REQUEST"


class NotAcceptableError(InvalidRequestError):
    """None of the formats that the client accepts is one of ours."""

    status = 406
    code = "NOT_ACCEPTABLE"


class NotFoundError(InvalidRequestError):
    """Nothing is at this address."""

    status = 404
    code = "NOT_FOUND"


class InvalidQueryError(QueryError):
    """A statement that means nothing here."""

    status = 400
    code = "INVALID_QUERY"


class QuerySyntaxError(InvalidQueryError):
    """A text that is not SQL."""

    code = "SYNTAX_ERROR"


class ColumnNotFoundError(InvalidQueryError):
    """A column that no table of the query has."""

    code = "COLUMN_NOT_FOUND"


class TableNotFoundError(InvalidQueryError):
    """A table that the database does not have."""

    status = 404
    code = "TABLE_NOT_FOUND"


class DatabaseNotFoundError(InvalidQueryError):
    """A database that the catalog does not have."""

    status = 404
    code = "DATABASE_NOT_FOUND"


class InvalidValueError(InvalidQueryError):
    """A cast or a computation that fails on a value."""

    code = "INVALID_VALUE"


class EngineRefusesError(InvalidQueryError):
    """A statement that an engine cannot answer, or would answer differently from the local engine.

    Each engine that refuses statements has a class of its own below this one, with a code.
    """


class UnauthorizedError(QueryError):
    """No credentials, or wrong ones. Does not say what was wrong with a key."""

    status, code = 401, "UNAUTHORIZED"


class ForbiddenError(QueryError):
    """A statement that would do more than read tables of the catalog."""

    status = 403
    code = "FORBIDDEN"


class ConflictError(QueryError):
    """A database name that is taken."""

    status = 409
    code = "CONFLICT"


class LimitExceededError(QueryError):
    """A request or a statement larger than allowed."""

    status = 413
    code = "LIMIT_EXCEEDED"


class TooManyQueriesError(QueryError):
    """As many queries wait as may.

    Args:
        message: as of `QueryError`.
        retry_after_s: seconds after which to come again.
    """

    status = 429
    code = "TOO_MANY_QUERIES"

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message, hint=f"try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class ServiceEndingError(QueryError):
    """The service is about to end: it takes no more queries, and ends those that run for too long."""

    status = 503
    code = "SERVICE_ENDING"
    retry_after_s = 5


class QueryNotFoundError(QueryError):
    """There is no query of this id, or it is another user's."""

    status = 404
    code = "QUERY_NOT_FOUND"


class ResultGoneError(QueryError):
    """The answer was read already, or dropped because nobody did."""

    status = 410
    code = "RESULT_GONE"


class QueryTimeoutError(QueryError):
    """The query was not done by its deadline."""

    status = 504
    code = "EXCEEDED_TIME_LIMIT"


class QueryCancelledError(QueryError):
    """Somebody cancelled the query."""

    status = 409
    code = "CANCELLED"


class ReaderStalledError(QueryCancelledError):
    """Nobody read the query's answer for too long, or while others needed what it held."""

    code = "STALLED"


class MemoryExceededError(QueryError):
    """The query needs more memory than it may have."""

    status = 507
    code = "EXCEEDED_MEMORY"


class EngineError(QueryError):
    """The engine failed for no reason of the query's."""

    status = 500
    code = "ENGINE_ERROR"


class EngineUnavailableError(EngineError):
    """The engine is not there."""

    status = 503
    code = "ENGINE_UNAVAILABLE"


class WorkerLostError(EngineError):
    """The process that ran the query ended before its answer did: somebody killed it, or it crashed."""

    code = "WORKER_LOST"


class SavepointError(QueryError):
    """A savepoint that cannot be read."""

    status = 422
    code = "UNREADABLE_SAVEPOINT"


def query_error_of(error: Exception) -> QueryError:
    """What a user is told of an error of any room; the caller raises it `from error`."""
    for kind in type(error).__mro__:
        if kind in _TRANSLATIONS:
            error_class, code, status = _TRANSLATIONS[kind]
            return error_class(
                without_folders(_public_message(error)),
                hint=near_names_hint(error.near) if isinstance(error, UnknownNameError) else None,
                detail=str(error),
                code=code,
                status=status,
            )
    if isinstance(error, QueryError):
        return error
    return QueryError("the service failed; its log says why", detail=f"{type(error).__name__}: {error}")


def translated_codes() -> list[tuple[str, int, str]]:
    """Code, status and meaning of the errors of other rooms that are told by codes of their own."""
    return [
        (code, status or error_class.status, (kind.__doc__ or "").splitlines()[0])
        for kind, (error_class, code, status) in _TRANSLATIONS.items()
        if code is not None
    ]


def near_names_hint(near: tuple[str, ...]) -> str | None:
    """What to try instead of a name that nothing has."""
    quoted = [f'"{name}"' for name in near]
    return f"did you mean {' or '.join(quoted)}?" if near else None


def without_folders(text: str) -> str:
    """`text` with only the last name left of every path."""
    return _FOLDERS.sub("…/", text)


def _public_message(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "the query needs more memory than it may have"
    if isinstance(error, UnknownNameError):
        return f"there is no {error.what} {error.name!r}"
    return str(error)


_Translation = tuple[type[QueryError], str | None, int | None]
_TRANSLATIONS: dict[type[BaseException], _Translation] = {
    MemoryError: (MemoryExceededError, None, None),
    NoSuchDatabaseError: (DatabaseNotFoundError, None, None),
    NoSuchTableError: (TableNotFoundError, None, None),
    NoSuchColumnError: (ColumnNotFoundError, None, None),
    DuplicateDatabaseError: (ConflictError, None, None),
    CatalogError: (InvalidRequestError, None, None),
    NotASavepointError: (SavepointError, "NOT_A_SAVEPOINT", None),
    UnsupportedVersionError: (SavepointError, "UNSUPPORTED_VERSION", None),
    UnsupportedSerializerError: (SavepointError, "UNSUPPORTED_SERIALIZER", None),
    UnsupportedStateError: (SavepointError, "UNSUPPORTED_STATE", None),
    CorruptDataError: (SavepointError, "CORRUPT_SAVEPOINT", None),
    ValueOutOfRangeError: (SavepointError, "VALUE_OUT_OF_RANGE", None),
    MissingFileError: (SavepointError, "MISSING_FILE", 410),
    PathOutsideRootError: (SavepointError, "PATH_OUTSIDE_ROOT", 403),
    SavepointGoneError: (SavepointError, "SAVEPOINT_GONE", 410),
    StorageError: (SavepointError, "STORAGE_ERROR", 502),
    AccessDeniedError: (SavepointError, "STORAGE_ACCESS_DENIED", 502),
    FileChangedError: (SavepointError, "SAVEPOINT_CHANGED", 409),
    ReaderError: (SavepointError, None, None),
}
