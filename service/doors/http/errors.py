"""QueryError → JSON: `{"error": {"code", "message", "hint", "position": {"line", "column"}}}` with its HTTP status.

`service.doors.app` installs the handlers once; every error of a request reaches them.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from catalog import CatalogError
from readers import ReaderError
from service.base.errors import InvalidRequestError, NotFoundError, QueryError, query_error_of

logger = logging.getLogger("savepointdb")


class ErrorPosition(BaseModel):
    """A position in the SQL text, from 1."""

    line: int
    column: int


class ErrorBody(BaseModel):
    """An error."""

    code: str
    message: str
    hint: str | None = None
    position: ErrorPosition | None = None


class ErrorAnswer(BaseModel):
    """The answer to a request that failed."""

    error: ErrorBody


FAILURES: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "model": ErrorAnswer,
        "description": "the request, the query or the savepoint is at fault, or too many wait",
    },
    "5XX": {
        "model": ErrorAnswer,
        "description": "the service is at fault, a storage or Flink fails, or a limit was reached",
    },
}
"""The failures of a call, for the description of the API."""

EXPECTED = (QueryError, CatalogError, ReaderError)
"""The errors that a request may end with."""


def error_body(error: QueryError) -> ErrorBody:
    """Return the part of an error that clients see."""
    position = error.position
    return ErrorBody(
        code=error.code,
        message=error.message,
        hint=error.hint,
        position=ErrorPosition(line=position.line, column=position.column) if position else None,
    )


def error_response(error: QueryError) -> Response:
    """Return the HTTP answer for an error."""
    content = ErrorAnswer(error=error_body(error)).model_dump(exclude_none=True)
    headers = None if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
    return JSONResponse(content, error.status, headers)


def raw_response(error: QueryError) -> bytes:
    """Return the bytes of an HTTP answer for an error, for connections that end before a request is complete."""
    response = error_response(error)
    response.headers["Connection"] = "close"
    headers = "".join(f"{name}: {value}\r\n" for name, value in response.headers.items())
    line = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n"
    return f"{line}{headers}\r\n".encode() + bytes(response.body)


def install_error_handlers(app: FastAPI) -> None:
    """Install handlers for all errors, so that every answer has the documented form."""
    for kind in (*EXPECTED, Exception):
        app.add_exception_handler(kind, on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_error)


async def on_error(request: Request, error: Exception) -> Response:
    """Return the HTTP answer for any error; one that nobody expects is logged."""
    found = query_error_of(error)
    if found.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        logger.error("%s %s: %s", request.method, request.url.path, found.detail, exc_info=error)
    return error_response(found)


async def _on_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = request.headers.get("content-type")
    # A form of another site could send such a body with the reader's credentials, so it is never read as JSON.
    if found is not None and "json" not in found and any(each["loc"] == ("body",) for each in error.errors()):
        return error_response(
            InvalidRequestError(
                f"expected a body of JSON with the header Content-Type: application/json, found {found!r:.100}",
                hint="curl -d needs -H 'Content-Type: application/json'; curl --json sends it",
            )
        )
    # A location begins with `body`, `query` or `path`, which clients need not know.
    reasons = [f"{'.'.join(map(str, each['loc'][1:])) or 'body'}: {each['msg']}" for each in error.errors()]
    return error_response(InvalidRequestError("; ".join(reasons)))


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.NOT_FOUND:
        return error_response(
            NotFoundError(f"nothing is at {request.url.path}", hint="/docs lists all calls")
        )
    status = HTTPStatus(error.status_code)
    code = InvalidRequestError.code if status == HTTPStatus.BAD_REQUEST else status.name
    response = error_response(InvalidRequestError(str(error.detail), code=code, status=status))
    # Such as `Allow` of a method that is not allowed.
    response.headers.update(error.headers or {})
    return response
