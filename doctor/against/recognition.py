"""Paths → what is there, told apart by content: `against_of`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from doctor.against.jars import JarAgainst
from doctor.against.kind import Against
from doctor.against.plans import PlanAgainst
from doctor.against.savepoint import SavepointAgainst
from doctor.against.stateinfo import StateInfoAgainst
from readers import (
    DEFAULT_OPTIONS,
    MAGIC,
    CorruptDataError,
    MissingFileError,
    NotASavepointError,
    Savepoint,
    StorageError,
    StorageOptions,
    read_bounded,
)

_METADATA = MAGIC.to_bytes(4, "big")
_METADATA_FILE = "_metadata"
_ZIP = b"PK\x03\x04"
_KINDS = "a savepoint, a jar, a job plan or a stateInfo file"

Path = str | os.PathLike[str]


def against_of(
    paths: Sequence[Path],
    *,
    roots: Iterable[str] = (),
    path_map: Mapping[str, str] | None = None,
    options: StorageOptions = DEFAULT_OPTIONS,
) -> tuple[Against, ...]:
    """Return what is known of a new job by files and savepoints of it.

    Args:
        paths: of savepoints, local or remote; of local jars, folders of jars, job plans and stateInfo files.
        roots: more directories that the savepoints may refer to.
        path_map: recorded path prefixes of the savepoints and the present ones.
        options: how files of savepoints are reached.

    Raises:
        ReaderError: nothing is at a path, or something else.
    """
    found: list[Against] = []
    jars: list[Path] = []
    for path in paths:
        inside = _jars_in(path)
        if inside:
            jars += inside
            continue
        start = _start_of(path)
        if start is None or start == _METADATA:
            found.append(SavepointAgainst(Savepoint(path, roots=roots, path_map=path_map, options=options)))
        elif start == _ZIP:
            jars.append(path)
        else:
            found.append(_described(path))
    # Several jars are one class path.
    return (*found, JarAgainst(*jars)) if jars else tuple(found)


def _described(path: Path) -> Against:
    """Return the plan, or the stateInfo file, at a path: both are JSON."""
    try:
        return StateInfoAgainst(path)
    except CorruptDataError as no_state_info:
        try:
            return PlanAgainst(path)
        except CorruptDataError as error:
            data = read_bounded(path, _KINDS).lstrip()
            if not data.startswith(b"{"):
                raise NotASavepointError(
                    f"expected {_KINDS}, found another file", path=os.fspath(path)
                ) from error
            # Of the two errors, that of the kind which it is.
            raise (no_state_info if b'"operators"' in data else error) from error


def _jars_in(path: Path) -> list[Path]:
    """Return the jars of a local folder, by name; none where it is a savepoint, or elsewhere."""
    folder = os.fspath(path)
    if "://" in folder or not os.path.isdir(folder) or os.path.exists(os.path.join(folder, _METADATA_FILE)):
        return []
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise StorageError(f"expected {_KINDS}, found {error.strerror}", path=folder) from error
    jars: list[Path] = [os.path.join(folder, name) for name in names if name.casefold().endswith(".jar")]
    if not jars:
        raise NotASavepointError(
            f"expected {_KINDS}, found a folder without jars and without {_METADATA_FILE}", path=folder
        )
    return jars


def _start_of(path: Path) -> bytes | None:
    """Return how a local file begins; None for directories and for what is elsewhere."""
    if "://" in os.fspath(path) or os.path.isdir(path):
        return None
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            return file.read(len(_METADATA))
    except FileNotFoundError as error:
        raise MissingFileError(f"expected {_KINDS}, found nothing", path=name) from error
    except OSError as error:
        raise StorageError(f"expected {_KINDS}, found {error.strerror}", path=name) from error
