"""Unpacks the zip that executors get, once a machine, and imports from there. It runs on executors, without our packages.

Spark copies a zip to a new path for every application, and the cache of compiled code goes by path and time of the sources:
from the zip itself, every application would compile the decoder anew. So the zip has this file as the `__init__.py` of each of
our packages, and the packages themselves in the folder `packages`:

    service/__init__.py  doctor/__init__.py  catalog/__init__.py  …    this file
    packages/service/…   packages/doctor/…   packages/catalog/…   …    the packages

The package that is imported first unpacks all of them into a folder named by the digest of their contents, so the same code
always has the same path. Folders that were not used for a month are removed.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import stat
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator

PACKAGES = "packages"
_CACHE_VARIABLE = "SAVEPOINTDB_CACHE_DIR"
_KEPT_S = 30 * 24 * 3600


def unpacked(archive: str) -> str:
    """Unpack the zip if needed; return the folder to import from, which is in the zip if no folder can be written.

    Args:
        archive: path of the zip; its comment is the digest of its contents.
    """
    with zipfile.ZipFile(archive) as packed:
        digest = packed.comment.decode("ascii")
        for root in _roots():
            folder = os.path.join(root, digest)
            with contextlib.suppress(OSError):
                os.makedirs(root, mode=0o700, exist_ok=True)
                # Code that another user could have put there must not run: the temporary folder is everybody's.
                if not _is_own(root):
                    continue
                if not os.path.isdir(folder):
                    _unpack(packed, root, folder)
                os.utime(folder)
                _remove_unused(root)
                return folder
    return os.path.join(archive, PACKAGES)


def _is_own(path: str) -> bool:
    """Return whether a path is a folder, and no link, of this user, into which nobody else can write."""
    status = os.lstat(path)
    is_shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not is_shared


def _roots() -> Iterator[str]:
    """Yield folders to unpack to, the best one first."""
    named = os.environ.get(_CACHE_VARIABLE)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    yield os.path.join(named or os.path.join(home, "savepointdb"), PACKAGES)
    yield os.path.join(tempfile.gettempdir(), f"savepointdb-{PACKAGES}-{os.getuid()}")


def _unpack(packed: zipfile.ZipFile, root: str, folder: str) -> None:
    """Unpack to a temporary folder and rename it: other processes find the whole folder or none."""
    made = tempfile.mkdtemp(dir=root)
    try:
        packed.extractall(made, [name for name in packed.namelist() if name.startswith(f"{PACKAGES}/")])
        os.rename(os.path.join(made, PACKAGES), folder)
    except OSError:
        if not os.path.isdir(folder):  # otherwise another worker was faster
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _remove_unused(root: str) -> None:
    for entry in os.scandir(root):
        if entry.stat().st_mtime < time.time() - _KEPT_S:
            shutil.rmtree(entry.path, ignore_errors=True)


def become(package: str, archive: str) -> None:
    """Replace the package that is being imported from the zip by the real one."""
    folder = unpacked(archive)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    del sys.modules[package]
    importlib.invalidate_caches()
    importlib.import_module(package)


if "." not in __name__ and __name__ != "__main__":
    become(__name__, __file__.rpartition(os.sep + __name__)[0])
