"""Files of the user that describe savepoints: `stateInfo`, job plans, lists of uids."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import readers
from readers import DEFAULT_OPTIONS, STATE_INFO_FILE_NAME, CorruptDataError, StorageError, StorageOptions

if TYPE_CHECKING:
    from readers import Descriptors


def state_info_of(
    path: str | os.PathLike[str],
    *,
    plan: str | os.PathLike[str] | None = None,
    protobuf: str | os.PathLike[str] | None = None,
    path_map: Mapping[str, str] | None = None,
    options: StorageOptions = DEFAULT_OPTIONS,
) -> str:
    """Return the `stateInfo` of a savepoint as text, from the headers of its state files.

    Args:
        path: the savepoint.
        plan: a file with the job's plan, for names, uids and columns: of Flink's REST API (`/jobs/:id/plan` or
            `/jobs/:id`), or a compiled SQL plan.
        protobuf: a file that protoc wrote, with the descriptors of messages: `--descriptor_set_out`.
        path_map: recorded path prefixes and the present ones.
        options: how files are reached.

    Raises:
        ReaderError: the savepoint, the plan or the descriptors cannot be read.
    """
    descriptors = None if protobuf is None else _descriptors(protobuf)
    savepoint = readers.Savepoint(path, path_map=path_map, options=options)
    try:
        return readers.write_state_info(
            savepoint, readers.load_job_plan(plan) if plan is not None else None, descriptors
        )
    finally:
        savepoint.close()


def write(
    path: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    plan: str | os.PathLike[str] | None = None,
    protobuf: str | os.PathLike[str] | None = None,
    path_map: Mapping[str, str] | None = None,
    options: StorageOptions = DEFAULT_OPTIONS,
) -> str:
    """Write the `stateInfo` of a savepoint; returns the path of the file.

    Args:
        path: the savepoint.
        output: the file; beside `_metadata` if not given.
        plan, protobuf, path_map, options: as in `state_info_of`.

    Raises:
        ReaderError: the savepoint, the plan or the descriptors cannot be read.
        StorageError: the file cannot be written; a remote savepoint without `output`.
    """
    target = Path(output) if output is not None else _beside(path)
    text = state_info_of(path, plan=plan, protobuf=protobuf, path_map=path_map, options=options)
    # A reader sees the old file or the new one, never half of it; mkstemp's file is private until then.
    try:
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(temporary, 0o644)
            os.replace(temporary, target)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"expected a place to write to, found {error.strerror}", path=str(target)
        ) from error
    return str(target)


def read_uids(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the uids of a text file, one a line; skips empty lines.

    Raises:
        MissingFileError: it does not exist.
        CorruptDataError: it is not UTF-8.
    """
    try:
        lines = readers.read_bounded(path, "a file of uids").decode().splitlines()
    except UnicodeDecodeError as error:
        raise CorruptDataError("expected UTF-8 text", path=os.fspath(path), position=error.start) from error
    return tuple(dict.fromkeys(line.strip() for line in lines if line.strip()))


def _descriptors(path: str | os.PathLike[str]) -> Descriptors:
    return readers.read_descriptors(readers.read_bounded(path, "a FileDescriptorSet"), os.fspath(path))


def _beside(path: str | os.PathLike[str]) -> Path:
    location = readers.Savepoint(path).location
    directory = location.exclusive_directory
    if directory.scheme != "file":
        raise StorageError("expected a file to write to, for the savepoint is remote", path=str(directory))
    return Path(directory.path, STATE_INFO_FILE_NAME)
