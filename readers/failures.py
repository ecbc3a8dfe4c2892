"""What the readers do not foresee, as one typed error that names the state, its types and the position."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from readers.errors import ReaderError, ReaderFailureError

# Of Python, numpy and Arrow. Not among them: too little memory, errors of files, and whatever stops a query.
FAILURES = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, RecursionError,
    TypeError, ValueError, struct.error, pa.ArrowCapacityError,
)  # fmt: skip


@contextmanager
def located(
    *breadcrumbs: str, path: str | None = None, position: int | None = None, what: Callable[[], str]
) -> Iterator[None]:
    """Give errors the place of what is read within the context.

    Args:
        *breadcrumbs: from the outermost to the innermost.
        path: the file.
        position: the byte in it where what is read begins.
        what: returns what is expected, for failures that no check foresees.

    Raises:
        ReaderError: the error itself; an error that is none becomes a `ReaderFailureError`.
    """
    try:
        yield
    except ReaderError as error:
        raise error.within(*breadcrumbs, path=path) from error
    except FAILURES as error:
        message = f"expected {what()}, but reading fails with {type(error).__name__}: {error}"
        raise ReaderFailureError(message, path=path, position=position, breadcrumbs=breadcrumbs) from error
