"""Write roots: the directories below which clients may write savepoints.

A target is a new directory below a write root. Links and `..` in the path of its parent are followed first, so neither leads out. A
write root is also a root of the catalog, or inside of one: so the name of the new database is known before it is written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from catalog.references import Root, database_name, labelled, links_followed
from readers import METADATA_FILE_NAME, ReaderError, given_location
from service.base.errors import ConflictError, ForbiddenError, InvalidRequestError
from service.base.settings import InvalidSettingError
from writers import UNFINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRoot:
    """A directory below which clients may write.

    Attributes:
        path: of the directory, links followed.
        label: of the root of the catalog that it is, or is inside of.
        folders: between that root and this directory.
    """

    path: str
    label: str
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A directory that does not exist yet.

    Attributes:
        path: of the directory, links followed.
        database: its name in the catalog once it is written.
    """

    path: str
    database: str


def served_roots(roots: Sequence[Root], write_roots: Sequence[Root]) -> tuple[Root, ...]:
    """Return the roots of the catalog: those that are given, and the write roots that are inside of none.

    Raises:
        InvalidSettingError: a write root is no directory of this machine.
    """
    real = [_real(root) for root in write_roots]
    served = _local(roots).values() if real else ()
    own = [
        root
        for root, path in zip(write_roots, real, strict=True)
        if not any(_folders(path, above) is not None for above in served)
    ]
    return (*roots, *own)


def write_roots_of(roots: Sequence[Root], write_roots: Sequence[Root]) -> tuple[WriteRoot, ...]:
    """Return the write roots with their labels.

    Args:
        roots: those of the catalog, as `served_roots` returns them.
        write_roots: as they are given.

    Raises:
        InvalidSettingError: a write root is no directory of this machine.
        CatalogError: two roots have the same label, or one is inside another.
    """
    above = _local(labelled(roots)) if write_roots else {}
    return tuple(_write_root(_real(root), above) for root in write_roots)


def target_of(text: str, roots: Sequence[WriteRoot]) -> Target:
    """Return the target that a client names.

    Args:
        text: a path; if it is not absolute, below the first write root.
        roots: the write roots; at least one.

    Raises:
        InvalidRequestError: it is no path of a new directory.
        ForbiddenError: it is below no write root.
        ConflictError: something is there.
    """
    try:
        location, _ = given_location(text)
    except ReaderError as error:
        raise InvalidRequestError(f"expected a path as target, found {text!r:.200}") from error
    if location.scheme != "file" or not text.isprintable():
        raise InvalidRequestError("expected a path of the service's machine as target, found another address")
    path = location.path if text.startswith("file:") else text
    parent, name = os.path.split(os.path.join(roots[0].path, path.rstrip("/")))
    if name in ("", ".", "..", METADATA_FILE_NAME, UNFINISHED):
        raise InvalidRequestError(f"expected a target with a name of its own, found {name!r}")
    above = os.path.realpath(parent)
    for root in roots:
        folders = _folders(above, root.path)
        if folders is not None:
            target = Target(
                path=os.path.join(above, name),
                database=database_name(root.label, (*root.folders, *folders, name)),
            )
            _check_place(target, root, folders)
            return target
    raise ForbiddenError("expected a target below a write root of this service, found another path")


def _check_place(target: Target, root: WriteRoot, folders: Sequence[str]) -> None:
    parent = Path(target.path).parent
    if not parent.is_dir():
        raise InvalidRequestError(
            f"expected a target in a directory that exists, found none at {parent.name!r}"
        )
    for depth in range(len(folders) + 1):
        folder = Path(root.path, *folders[:depth])
        # A directory of this name makes no savepoint.
        if (folder / METADATA_FILE_NAME).is_file():
            raise ForbiddenError(
                f"expected a target beside other savepoints, found one inside the savepoint {folder.name!r}"
            )
        if (folder / UNFINISHED).is_file():
            raise ForbiddenError(
                f"expected a target beside other savepoints, found one inside {folder.name!r}, which is being written or is "
                "left of a write that was killed"
            )
    if os.path.lexists(target.path):
        raise ConflictError(
            f"expected a new directory, found that {Path(target.path).name!r} exists", code="TARGET_EXISTS"
        )


def _write_root(path: str, roots: dict[str, str]) -> WriteRoot:
    for label, above in roots.items():
        folders = _folders(path, above)
        if folders is not None:
            return WriteRoot(path=path, label=label, folders=folders)
    raise InvalidSettingError(f"write_root: expected a directory that is served, found {path}")


def _real(root: Root) -> str:
    path = os.path.realpath(root.path)
    if "://" in root.path or not os.path.isdir(path):
        raise InvalidSettingError(f"write_root: expected a directory of this machine, found {root.path}")
    return path


def _local(roots: Sequence[Root]) -> dict[str, str]:
    """Return label → path of the roots on this machine, links followed."""
    paths = {
        root.label or root.path: location.path
        for root in roots
        if (location := given_location(root.path)[0]).scheme == "file"
    }
    followed = links_followed(paths.values())
    return {label: followed[path] for label, path in paths.items()}


def _folders(path: str, above: str) -> tuple[str, ...] | None:
    """Return the folders between a directory and one that it is, or is inside of; None if it is outside."""
    try:
        return Path(path).relative_to(above).parts
    except ValueError:
        return None
