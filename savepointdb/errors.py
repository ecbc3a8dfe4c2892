"""The errors of the service, as they are raised in Python: the text has the position, the path and the hint.

QueryError              service.base.errors: the tree, with a stable `code`, a `hint` and a `position`
  MissingPackageError   pandas or polars is not installed; an ImportError, too
IncompleteWarning       an answer that was allowed to be partial lacks rows
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from catalog import CatalogError
from readers import ReaderError
from service.base.errors import InvalidRequestError, QueryError, is_full, query_error_of
from service.base.settings import InvalidSettingError

# Use cases of the service warn through this package.
_OWN = ("savepointdb.", "service.")


class MissingPackageError(QueryError, ImportError):
    """An optional package is not installed."""

    code = "MISSING_PACKAGE"

    def __str__(self) -> str:
        # An ImportError shows the text that it was made with.
        return self.told


class QueryWarning(UserWarning):
    """The service assumed something about a statement."""


class IncompleteWarning(QueryWarning):
    """Rows of files that cannot be read are left out of an answer."""


def warn(text: str, category: type[QueryWarning]) -> None:
    """Warn at the line that called this package: Python shows a warning once a line."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OWN):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


@contextmanager
def translated() -> Iterator[None]:
    """Raise errors of all rooms as errors of the service that tell everything in their text."""
    try:
        yield
    except QueryError as error:
        error.args = (error.told,)
        raise
    except InvalidSettingError as error:
        raise InvalidRequestError(str(error)) from error
    except (CatalogError, ReaderError, OSError) as error:
        if isinstance(error, OSError) and not isinstance(error, ReaderError) and not is_full(error):
            raise
        known = query_error_of(error)
        known.args = (known.told,)
        raise known from error
