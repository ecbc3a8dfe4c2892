"""What goes wrong in Spark's Python, in a form that gets through Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from catalog import CatalogError
from readers import ReaderError
from service.spark.types import UnsupportedTypeError


class SavepointSourceError(Exception):
    """What a user of the data source is told: the kind of an error of the readers or the catalog, and its text.

    Spark keeps only the text of an exception, behind a trace: the kind is in it, in brackets.
    """

    @classmethod
    def of(cls, error: Exception) -> SavepointSourceError:
        """This error, for Spark to carry."""
        return cls(f"[savepoint {type(error).__name__}] {error}")


class InvalidOptionError(ValueError):
    """An option of the data source that is missing, unknown or not as documented."""


@contextlib.contextmanager
def carried() -> Iterator[None]:
    """Gives our errors a form in which they get through Spark."""
    try:
        yield
    except (CatalogError, InvalidOptionError, ReaderError, UnsupportedTypeError) as error:
        raise SavepointSourceError.of(error) from error
