"""Errors in Spark's Python, in a form that Spark carries to the driver."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from catalog import CatalogError
from readers import ReaderError
from service.spark.types import UnsupportedTypeError


class SavepointSourceError(Exception):
    """An error of the readers or the catalog, as a user of the data source sees it.

    Spark keeps only the text of an exception, behind a trace: so the text begins with the name of its class, in brackets.
    """

    @classmethod
    def of(cls, error: Exception) -> SavepointSourceError:
        """Return an error in the form that Spark carries."""
        return cls(f"[savepoint {type(error).__name__}] {error}")


class InvalidOptionError(ValueError):
    """An option of the data source that is missing, unknown or not as documented."""


@contextlib.contextmanager
def carried() -> Iterator[None]:
    """Raise errors of ours in the form that Spark carries."""
    try:
        yield
    except (CatalogError, InvalidOptionError, ReaderError, UnsupportedTypeError) as error:
        raise SavepointSourceError.of(error) from error
