"""The errors of saved queries.

QueryError
  SavedQueryFileError           a file of saved queries cannot be read or written
  InvalidRequestError
    InvalidSavedQueryError      a saved query is not as documented
    InvalidParameterError       a value for a parameter is missing, unknown, or does not fit
    NotFoundError
      NoSuchSavedQueryError     no saved query has this name
"""

from __future__ import annotations

from service.base.errors import InvalidRequestError, NotFoundError, QueryError


class SavedQueryFileError(QueryError):
    """A file of saved queries cannot be read or written."""

    code = "SAVED_QUERY_FILE"


class InvalidSavedQueryError(InvalidRequestError):
    """A saved query is not as documented."""

    code = "INVALID_SAVED_QUERY"


class InvalidParameterError(InvalidRequestError):
    """A value for a parameter of a saved query is missing, is for no parameter, or does not fit its type."""

    code = "INVALID_PARAMETER"


class NoSuchSavedQueryError(NotFoundError):
    """There is no saved query of this name, or it is for a database that the user does not see."""

    code = "SAVED_QUERY_NOT_FOUND"
