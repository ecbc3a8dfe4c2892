"""A path or URL → the destination of an export, which is never in a savepoint: those are only read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from catalog import Database
from readers import METADATA_FILE_NAME, Location, StorageOptions, given_location
from service.base.errors import ConflictError
from service.tasks.export.files.destinations import Destination, Folder, Prefix
from writers import store_of


def destination_of(text: str, databases: Iterable[Database], options: StorageOptions) -> Destination:
    """Return the destination that a path or URL names.

    Args:
        text: the path or URL, with options behind a `?`.
        databases: what is exported.
        options: credentials of other processes.

    Raises:
        ConflictError: it is a savepoint, or in one.
        TargetError: it cannot be written to.
        ReaderError: the options of the URL are wrong.
    """
    location, query = given_location(text)
    if location.scheme == "file":
        with suppress(OSError, RuntimeError):
            location = location._replace(path=os.path.realpath(location.path))
    for database in databases:
        own = database.savepoint.location
        if location.is_inside(own.exclusive_directory):
            raise _in_savepoint(location, own.exclusive_directory)
        query = query or own.query_of(location) or ""
    is_local = location.scheme == "file"
    store = None if is_local else store_of(location, query, options)
    above = location
    # It may be a savepoint, or in one, also of another job.
    while is_local or above.path != "/":
        name = f"{above.path.rstrip('/')}/{METADATA_FILE_NAME}"
        if os.path.lexists(name) if store is None else store.get(name.lstrip("/")) is not None:
            raise _in_savepoint(location, above)
        if above.path == "/":
            break
        above = above.parent
    return Folder(location.path) if is_local else Prefix(location, query, options)


def _in_savepoint(location: Location, savepoint: Location) -> ConflictError:
    return ConflictError(
        f"{location}: expected a destination outside of savepoints, found {savepoint}, which is one; savepoints are only read",
        code="TARGET_EXISTS",
    )
