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
    if location.scheme == "file":
        _check_folders(location)
        return Folder(location.path)
    store = store_of(location, query, options)
    above = location
    while above.path != "/":
        if store.get(f"{above.path.strip('/')}/{METADATA_FILE_NAME}") is not None:
            raise _in_savepoint(location, above)
        above = above.parent
    return Prefix(location, query, options)


def _check_folders(location: Location) -> None:
    """Refuse a folder that is a savepoint, or in one, also of another job."""
    above = location
    while True:
        if os.path.lexists(os.path.join(above.path, METADATA_FILE_NAME)):
            raise _in_savepoint(location, above)
        if above.path == "/":
            return
        above = above.parent


def _in_savepoint(location: Location, savepoint: Location) -> ConflictError:
    return ConflictError(
        f"{location}: expected a destination outside of savepoints, found {savepoint}, which is one; savepoints are only read",
        code="TARGET_EXISTS",
    )
